//! Protects the rows of CASES that the rule of belief decides, one test a row: inputs that broke other memory systems, and
//! the outcome that is right. Through `fold`, whose cascades are compared whole with hand-written ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod engine;
mod table;

use engine::{Engine, in_words, list_at, records};
use recant_projections::query::{self, Filter};
use recant_proto::{
    id::Kind,
    v1::{ActionProposed, ActionSettled, Derived, Event, Observed, Retracted, event::Body},
};
use recant_tests::generate::{BEGIN_MS, time};
use table::{
    HOUR_MS, derived, event, justification, justified, node, observed, reason, reinstated, retracted, source, text,
    within,
};

#[test]
fn case_01_a_chain_falls_in_order() {
    let mut engine = Engine::new();
    engine.steps([observed("O", "S"), derived("B", &["O"]), derived("C", &["B"])]);
    let falls = ["O IN>OUT retracted @0", "B IN>OUT unsupported @1", "C IN>OUT unsupported @2"];
    engine.step(retracted("r", &[source("S")]), &falls);
}

#[test]
fn case_02_of_two_reasons_one_is_enough() {
    let mut engine = Engine::new();
    engine.steps([observed("O", "S"), observed("P", "T"), derived("B", &["O"]), justified("B", &["P"])]);
    engine.step(retracted("r", &[source("S")]), &["O IN>OUT retracted @0"]);
    engine.is("B", "IN");
}

#[test]
fn case_03_the_third_of_three_sources_decides() {
    let sources = ["1", "2", "3"];
    let standing_on_three = || {
        let mut engine = Engine::new();
        for number in sources {
            engine.steps([observed(&format!("O{number}"), number), derived("B", &[&format!("O{number}")])]);
        }
        engine.step(retracted("r1", &[source("1")]), &["O1 IN>OUT retracted @0"]);
        engine.step(retracted("r2", &[source("2")]), &["O2 IN>OUT retracted @0"]);
        engine.step(retracted("r3", &[source("3")]), &["O3 IN>OUT retracted @0", "B IN>OUT unsupported @1"]);
        engine
    };
    for number in sources {
        let rises = [&format!("O{number} OUT>IN @0"), "B OUT>IN @1"];
        standing_on_three().step(reinstated(&format!("r{number}")), &rises);
    }
}

#[test]
fn case_04_a_derived_write_races_the_retraction_of_its_premise() {
    let mut before = Engine::new();
    before.steps([observed("O", "S"), derived("B", &["O"])]);
    before.step(retracted("r", &[source("S")]), &["O IN>OUT retracted @0", "B IN>OUT unsupported @1"]);
    let mut after = Engine::new();
    after.step(observed("O", "S"), &[]);
    after.step(retracted("r", &[source("S")]), &["O IN>OUT retracted @0"]);
    after.step(derived("B", &["O"]), &["B >OUT unsupported @0"]);
    assert_eq!(before.digest("s"), after.digest("s"));
}

#[test]
fn case_06_rings_fall_with_their_outside_reason_and_rise_with_it() {
    for length in 1..=3 {
        let mut engine = Engine::new();
        engine.steps([observed("O", "S"), derived("B1", &["O"])]);
        for at in 2..=length {
            engine.step(derived(&format!("B{at}"), &[&format!("B{}", at - 1)]), &[]);
        }
        engine.step(justified("B1", &[&format!("B{length}")]), &[]);
        let before = engine.digest("s");
        let moves = |moved: &str| (1..=length).map(|at| format!("B{at} {moved} @{at}")).collect::<Vec<_>>();
        let (falls, rises) = (moves("IN>OUT unsupported"), moves("OUT>IN"));
        let cascade = |first, others: &[String]| -> Vec<String> {
            [String::from(first)].into_iter().chain(others.iter().cloned()).collect()
        };
        let words = |folded| records(&folded).iter().skip(1).map(in_words).collect::<Vec<_>>();
        let fallen = engine.fold(&retracted("r", &[source("S")]));
        assert_eq!(words(fallen), cascade("O IN>OUT retracted @0", &falls));
        let risen = engine.fold(&reinstated("r"));
        assert_eq!(words(risen), cascade("O OUT>IN @0", &rises));
        assert_eq!(engine.digest("s"), before);
    }
}

#[test]
fn case_09_the_same_subject_is_no_reason() {
    let about = |id: &str, premise: &str| {
        let Some(Body::Derived(belief)) = derived(id, &[premise]).body else { unreachable!() };
        event(id, Body::Derived(Derived { subject: "supplier-7".to_owned(), ..belief }))
    };
    let mut engine = Engine::new();
    engine.steps([observed("O", "S"), observed("P", "T"), about("B", "O"), about("C", "P")]);
    engine.step(retracted("r", &[source("S")]), &["O IN>OUT retracted @0", "B IN>OUT unsupported @1"]);
    engine.is("C", "IN");
}

#[test]
fn case_10_spaces_share_nothing() {
    let both = ["north", "south"];
    let mut engine = Engine::new();
    for written in [observed("O", "S"), derived("B", &["O"])] {
        for space in both {
            engine.step(Event { space: space.to_owned(), ..written.clone() }, &[]);
        }
    }
    let south = engine.digest("south");
    assert_eq!(engine.digest("north"), south, "the same was said in both");
    let retraction = Event { space: "north".to_owned(), ..retracted("r", &[source("S"), node("B")]) };
    engine.step(retraction, &["O IN>OUT retracted @0", "B IN>OUT retracted @0"]);
    assert_eq!(engine.digest("south"), south);
    assert_ne!(engine.digest("north"), south);
    assert_eq!(engine.standing("south", "B"), "IN");
}

#[test]
fn case_11_an_id_of_another_space_is_an_id_of_nowhere() {
    let mut engine = Engine::new();
    engine.step(Event { space: "other".to_owned(), ..observed("elsewhere", "S") }, &[]);
    engine.step(observed("here", "T"), &[]);
    let store = engine.partition.stored();
    for id in ["elsewhere", "nowhere00"] {
        let explained = query::explain(store, &engine.loaded("s"), &engine.now(), id, 10).unwrap();
        assert_eq!(explained, None, "{id}");
        assert_eq!(engine.standing("s", id), "");
    }
    let answers = ["elsewhere", "nowhere00"].map(|id| {
        let mut engine = Engine::replayed(&engine.log);
        let rename = |text: String| text.replace(id, "ID");
        let retraction = retracted("r", &[node(id)]);
        let preview = rename(format!("{:?}", engine.preview(&retraction)));
        let folded = rename(format!("{:?}", engine.fold(&retraction)));
        (preview, folded, rename(format!("{:?}", engine.fold(&reinstated("r")))))
    });
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn case_13_the_same_node_id_again() {
    let mut engine = Engine::new();
    engine.steps([observed("O", "S"), derived("B", &["O"])]);
    let digest = engine.digest("s");
    engine.step(Event { id: "again".to_owned(), ..observed("O", "S") }, &[]);
    assert_eq!(engine.digest("s"), digest);
    let Some(Body::Observed(said)) = observed("O", "S").body else { unreachable!() };
    let edited = Observed { content: text("edited"), ..said.clone() };
    engine.refused(&event("edited", Body::Observed(edited)), "node_id_taken");
    let moved = Observed { source: "T".to_owned(), ..said };
    engine.refused(&event("moved", Body::Observed(moved)), "node_id_taken");
    engine.refused(&Event { id: "other kind".to_owned(), ..observed("B", "S") }, "node_id_taken");
}

#[test]
fn case_14_the_same_text_under_two_ids_is_kept_twice() {
    let said = |id: &str| {
        let Some(Body::Observed(said)) = observed(id, "S").body else { unreachable!() };
        event(id, Body::Observed(Observed { content: text("the same"), ..said }))
    };
    let mut engine = Engine::new();
    engine.steps([said("O"), said("P")]);
    let texts: Vec<_> = engine.list("s").into_iter().map(|view| (view.id, view.text.unwrap())).collect();
    assert_eq!(texts, [("O", "the same"), ("P", "the same")].map(|(id, text)| (id.to_owned(), text.to_owned())));
    engine.step(retracted("r", &[node("O")]), &["O IN>OUT retracted @0"]);
    engine.is("P", "IN");
}

#[test]
fn case_15_a_replay_into_an_empty_state_gives_the_same_digest() {
    let mut engine = Engine::new();
    engine.steps([observed("O", "S"), observed("P", "T"), derived("B", &["O"]), justified("B", &["P"])]);
    engine.step(retracted("r", &[source("S")]), &["O IN>OUT retracted @0"]);
    engine.refused(&Event { id: "x".to_owned(), ..observed("B", "S") }, "node_id_taken");
    let replayed = Engine::replayed(&engine.log);
    assert_eq!(replayed.digest("s"), engine.digest("s"));
    assert_eq!(replayed.partition.outputs_hash(), engine.partition.outputs_hash());
    assert_eq!(replayed.list("s"), engine.list("s"));
}

#[test]
fn case_16_what_is_retracted_before_it_arrives_is_born_out() {
    let mut engine = Engine::new();
    engine.step(retracted("r", &[source("S"), node("B"), justification("C<P")]), &[]);
    let mut engine = engine.reopened();
    engine.step(observed("O", "S"), &["O >OUT retracted @0"]);
    engine.step(observed("P", "T"), &[]);
    engine.step(derived("B", &["P"]), &["B >OUT retracted @0"]);
    engine.step(derived("C", &["P"]), &["C >OUT unsupported @0"]);
    engine.step(reinstated("r"), &["O OUT>IN @0", "B OUT>IN @0", "C OUT>IN @0"]);
}

#[test]
fn case_18_an_empty_window_covers_nothing_and_an_inverted_one_is_refused() {
    let at = |id: &str, quarters: u8| {
        let Some(Body::Observed(said)) = observed(id, "S").body else { unreachable!() };
        event(id, Body::Observed(Observed { observed_at: time(quarters), ..said }))
    };
    let mut engine = Engine::new();
    engine.steps([at("O1", 40), at("O2", 41), at("O3", 42)]);
    engine.step(retracted("empty", &[within(source("S"), &time(41), &time(41), "")]), &[]);
    engine.refused(&retracted("inverted", &[within(source("S"), &time(41), &time(40), "")]), "inverted_window");
    engine.step(retracted("half open", &[within(source("S"), &time(41), &time(42), "")]), &["O2 IN>OUT retracted @0"]);
    engine.step(at("O4", 41), &["O4 >OUT retracted @0"]);
}

#[test]
fn case_19_the_past_answers_as_a_replay_to_it_does() {
    let mut engine = Engine::new();
    engine.steps([observed("O", "S"), observed("P", "T"), derived("B", &["O"])]);
    engine.step(retracted("r", &[source("S")]), &["O IN>OUT retracted @0", "B IN>OUT unsupported @1"]);
    engine.step(justified("B", &["P"]), &["B OUT>IN @0"]);
    engine.step(retracted("r2", &[node("B")]), &["B IN>OUT retracted @0"]);
    engine.step(reinstated("r"), &["O OUT>IN @0"]);
    for offset in 0..engine.log.len() {
        let replayed = Engine::replayed(&engine.log[..=offset]);
        let time_ms = BEGIN_MS + offset as i64 * HOUR_MS + HOUR_MS / 2;
        let moment = engine.now().at_time(engine.partition.stored(), time_ms).unwrap().unwrap();
        assert_eq!(moment.position.offset, offset as u64);
        let store = engine.partition.stored();
        assert_eq!(list_at(store, "s", moment.clone(), &Filter::default()), replayed.list("s"));
        for id in ["O", "P", "B"] {
            let then = query::explain(store, &engine.loaded("s"), &moment, id, 10).unwrap();
            let replayed_space = replayed.loaded("s");
            let replay = query::explain(replayed.partition.stored(), &replayed_space, &replayed.now(), id, 10).unwrap();
            assert_eq!(then, replay, "{id} at {offset}");
        }
    }
    assert!(engine.now().at_time(engine.partition.stored(), BEGIN_MS - 1).unwrap().is_none());
}

#[test]
fn case_26_an_echo_rests_on_what_was_recalled() {
    let mut engine = Engine::new();
    engine.steps([observed("O", "S"), derived("B", &["O"])]);
    for round in 0..100 {
        let (echo, back) = (format!("echo {round}"), format!("back {round}"));
        engine.steps([Event { id: echo, ..derived("Echo", &["B"]) }, Event { id: back, ..justified("B", &["Echo"]) }]);
    }
    let independent = query::sources(engine.partition.stored(), "s", &engine.now()).unwrap().items;
    assert_eq!(independent.len(), 1);
    let falls = ["O IN>OUT retracted @0", "B IN>OUT unsupported @1", "Echo IN>OUT unsupported @2"];
    engine.step(retracted("r", &[source("S")]), &falls);
}

#[test]
fn case_29_what_another_retraction_covers_stays_out() {
    let mut engine = Engine::new();
    engine.steps([observed("O", "S"), observed("P", "S"), derived("B", &["O"])]);
    let falls = ["O IN>OUT retracted @0", "P IN>OUT retracted @0", "B IN>OUT unsupported @1"];
    engine.step(retracted("r1", &[source("S")]), &falls);
    engine.step(retracted("r2", &[node("O")]), &[]);
    engine.step(reinstated("r1"), &["P OUT>IN @0"]);
    engine.is("B", "OUT unsupported");
    let narrower = Retracted { replaces: vec!["r2".to_owned()], targets: vec![node("P")], ..Retracted::default() };
    let both = ["O OUT>IN @0", "P IN>OUT retracted @0", "B OUT>IN @1"];
    engine.step(event("r3", Body::Retracted(narrower)), &both);
}

#[test]
fn case_30_a_new_reason_counts_once_it_is_uncovered() {
    let mut engine = Engine::new();
    engine.steps([observed("O", "S"), observed("P", "T"), derived("B", &["O"])]);
    engine.step(retracted("r1", &[source("S")]), &["O IN>OUT retracted @0", "B IN>OUT unsupported @1"]);
    engine.step(retracted("r2", &[justification("B<P")]), &[]);
    engine.step(justified("B", &["P"]), &[]);
    engine.step(reinstated("r2"), &["B OUT>IN @0"]);
}

/// The rule at this level: actions are listed in the order of the log, and an absent amount stays absent.
#[test]
fn case_31_an_action_without_an_amount_has_its_place() {
    let paid = |id: &str, amount: &str, currency: &str| {
        let proposed = ActionProposed {
            action: id.to_owned(),
            r#type: "payment.transfer".to_owned(),
            amount: amount.to_owned(),
            currency: currency.to_owned(),
            justification: reason(&["O"]),
            ..ActionProposed::default()
        };
        event(id, Body::ActionProposed(proposed))
    };
    let mut engine = Engine::new();
    engine.steps([
        observed("O", "S"),
        paid("large", "34500.00", "EUR"),
        paid("none", "", ""),
        paid("zero", "0", "EUR"),
        paid("small", "9.50", "EUR"),
    ]);
    let done = ActionSettled { action: "none".to_owned(), outcome: "done".to_owned(), ..ActionSettled::default() };
    engine.step(event("settled", Body::ActionSettled(done)), &[]);
    let actions = Filter { kind: Some(Kind::Action), ..Filter::default() };
    let listed = list_at(engine.partition.stored(), "s", engine.now(), &actions);
    let amounts: Vec<_> =
        listed.iter().map(|view| (view.id.as_str(), view.amount.as_str(), view.state.as_str())).collect();
    let expected = [
        ("large", "34500.00", "recorded"),
        ("none", "", "done"),
        ("zero", "0", "recorded"),
        ("small", "9.50", "recorded"),
    ];
    assert_eq!(amounts, expected);
    let cascade = records(&engine.fold(&retracted("r", &[source("S")])));
    let by_kind = cascade[0].summary.unwrap().by_kind.unwrap();
    assert_eq!((by_kind.observation, by_kind.action), (Some(1), Some(4)));
    let published: Vec<_> =
        cascade[2..].iter().map(|change| (change.node.as_str(), change.action.clone().unwrap())).collect();
    let published: Vec<_> =
        published.iter().map(|(id, action)| (*id, action.amount.as_str(), action.state.as_str())).collect();
    assert_eq!(published, expected);
}

#[test]
fn case_32_a_graph_with_one_node_has_every_answer() {
    let mut engine = Engine::new();
    engine.step(Event { run: "run".to_owned(), ..observed("O", "S") }, &[]);
    let (store, now) = (engine.partition.stored(), engine.now());
    assert_eq!(engine.list("s").len(), 1);
    let explained = query::explain(store, &engine.loaded("s"), &now, "O", 10).unwrap().unwrap();
    assert_eq!((explained.nodes.len(), explained.rests_on_it_total, explained.history.len()), (1, 0, 1));
    assert_eq!(query::sources(store, "s", &now).unwrap().items.len(), 1);
    assert_eq!(query::retractions(store, "s", &now).unwrap().items.len(), 0);
    assert_eq!(query::spaces(store, &now).unwrap().len(), 1);
    assert_eq!(query::run_trace(store, "s", &now, "run").unwrap().unwrap().items.len(), 1);
    assert_eq!(recant_projections::audit::space(store, "s").unwrap(), Vec::<String>::new());
    let preview = engine.preview(&retracted("r", &[node("O")]));
    assert_eq!(preview.records.iter().skip(1).map(in_words).collect::<Vec<_>>(), ["O IN>OUT retracted @0"]);
    engine.step(retracted("r", &[node("O")]), &["O IN>OUT retracted @0"]);
    engine.step(reinstated("r"), &["O OUT>IN @0"]);
}
