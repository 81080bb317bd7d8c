//! Protects what the oracle takes from events: which are refused and with which code, what comes again, windows,
//! positions, sources, and the digest. Tables as in `oracle.rs`.

mod table;

use recant_proto::{
    v1::{
        ActionProposed, ActionSettled, AgentTarget, Event, Justification, Justified, LogCreated, Observed, Reinstated,
        Retracted, SourceDeclared, Target, event::Body, target::What,
    },
    validate,
};
use recant_tests::{
    generate::{BEGIN_MS, time},
    oracle::{Fate, Oracle},
};
use table::{
    HOUR_MS, Table, derived, event, justification, justified, named_retraction, node, observed, reason, reinstated,
    retracted, source, text, within,
};

/// CASES 13: the same node id with the same content does nothing; with other content it is refused.
#[test]
fn a_node_id_has_one_content() {
    let mut table = Table::new();
    table.step(observed("O", "S"), &[]);
    table.step(derived("B", &["O"]), &[]);
    let digest = table.oracle.digest("s");
    table.step(Event { id: "again".to_owned(), agent: "other".to_owned(), ..observed("O", "S") }, &[]);
    assert_eq!(table.oracle.digest("s"), digest);
    let taken = (Fate::Rejected("node_id_taken"), vec![]);
    assert_eq!(table.fate(Event { id: "x1".to_owned(), ..observed("O", "T") }), taken);
    assert_eq!(table.fate(Event { id: "x2".to_owned(), ..observed("B", "S") }), taken);
    let Some(Body::Derived(mut edited)) = derived("B", &["O"]).body else { unreachable!() };
    edited.content = text("edited");
    assert_eq!(table.fate(event("x3", Body::Derived(edited.clone()))), taken);
    assert_eq!(table.oracle.digest("s"), digest, "what is refused leaves no trace");
    // A refused event's id is not consumed.
    edited.node = "B2".to_owned();
    table.step(event("x3", Body::Derived(edited)), &[]);
    assert_eq!(table.fate(observed("O", "S")).0, Fate::Duplicate);
    assert_eq!(table.fate(Event { step: "2".to_owned(), ..observed("O", "S") }).0, Fate::Rejected("event_id_taken"));
}

/// CASES 18: windows are half open, an empty one covers nothing, an inverted one is refused at the door.
#[test]
fn a_window_is_half_open_on_its_clock() {
    let observed_at = |node: &str, quarters: u8| {
        let Some(Body::Observed(observed)) = observed(node, "S").body else { unreachable!() };
        event(&format!("observed {node}"), Body::Observed(Observed { observed_at: time(quarters), ..observed }))
    };
    let mut table = Table::new();
    // Arrive at hours 0, 1 and 2 of the log's clock; the source says quarters 40, 41 and 42.
    for (name, quarters) in [("O1", 40), ("O2", 41), ("O3", 42)] {
        table.step(observed_at(name, quarters), &[]);
    }
    table.step(retracted("empty", &[within(source("S"), &time(41), &time(41), "")]), &[]);
    table.step(retracted("half open", &[within(source("S"), &time(40), &time(41), "")]), &["O1 IN>OUT retracted @0"]);
    table.step(retracted("from", &[within(source("S"), &time(42), "", "observed")]), &["O3 IN>OUT retracted @0"]);
    table.step(reinstated("from"), &["O3 OUT>IN @0"]);
    // On the log's clock O2 arrived at quarter 4.
    table.step(retracted("log", &[within(source("S"), &time(4), &time(8), "log")]), &["O2 IN>OUT retracted @0"]);
    let agent = |run: &str| What::Agent(AgentTarget { agent: "a".to_owned(), run: run.to_owned() });
    let agent = |run: &str| within(Target { what: Some(agent(run)), window: None }, &time(8), &time(12), "");
    table.step(retracted("another run", &[agent("run")]), &[]);
    table.step(retracted("agent", &[agent("")]), &["O3 IN>OUT retracted @0"]);
    let inverted = retracted("inverted", &[within(source("S"), &time(2), &time(1), "")]);
    assert!(validate::check(&inverted, 1, &validate::DEFAULT_LIMITS).is_err());
}

/// The digest against one that is put together by hand from the specification.
#[test]
fn the_digest_is_as_specified() {
    let key = blake3::derive_key("recant 2026 state digest v1", b"");
    let commitment = |parts: &[&[u8]]| {
        let mut hasher = blake3::Hasher::new_keyed(&key);
        for part in parts {
            hasher.update(&(part.len() as u32).to_le_bytes());
            hasher.update(part);
        }
        u128::from_le_bytes(hasher.finalize().as_bytes()[..16].try_into().unwrap())
    };
    let mut table = Table::new();
    assert_eq!(table.oracle.digest("s"), "0".repeat(32));
    table.step(observed("O", "S"), &[]);
    table.step(derived("B", &["O"]), &[]);
    table.step(retracted("r", &[justification("B<O")]), &["B IN>OUT unsupported @0"]);
    // Content { text } is field 1; SourceDeclared { source } is field 1; Target { justification } is field 3.
    let empty: &[u8] = b"";
    let content = |letter: u8| [0x0a, 1, letter];
    let observation: [&[u8]; 10] =
        [b"node", b"O", b"observation", empty, b"S", empty, &content(b'O'), empty, empty, empty];
    let belief: [&[u8]; 10] = [b"node", b"B", b"belief", empty, empty, empty, &content(b'B'), empty, empty, empty];
    let reason: [&[u8]; 6] = [b"justification", b"B<O", b"B", b"a", empty, b"O"];
    let (source, retraction) =
        ([b"source", b"S".as_slice(), b"\x0a\x01S"], [b"retraction", b"r".as_slice(), b"\x1a\x03B<O"]);
    let weighted = [(commitment(&observation), 1), (commitment(&belief), 2), (commitment(&reason), 2)];
    let covers = [(commitment(&source), 1), (commitment(&retraction), 1)];
    let sum = weighted
        .into_iter()
        .chain(covers)
        .fold(0_u128, |sum, (commitment, weight)| sum.wrapping_add(commitment.wrapping_mul(weight)));
    assert_eq!(table.oracle.digest("s"), format!("{sum:032x}"));
    let created = LogCreated { commitment_key: vec![1; 32], ..LogCreated::default() };
    let created = Event { space: "recant.control".to_owned(), ..event("created", Body::LogCreated(created)) };
    table.oracle.step(9, BEGIN_MS, &created, &[]);
    assert_ne!(table.oracle.digest("s"), format!("{sum:032x}"), "the log's own key is used");
    assert_eq!(table.oracle.digest("elsewhere"), "0".repeat(32));
}

fn with_id(id: &str, event: Event) -> Event {
    Event { id: id.to_owned(), ..event }
}

/// A justification's id stands for one head and one set of premises.
#[test]
fn a_justification_id_has_one_meaning() {
    let named = |id: &str, head: &str, premises: &[&str]| {
        let justification = reason(premises).map(|reason| Justification { id: "j".to_owned(), ..reason });
        event(id, Body::Justified(Justified { node: head.to_owned(), justification }))
    };
    let mut table = Table::new();
    table.step(observed("O", "S"), &[]);
    table.step(named("e1", "B", &["O", "P"]), &[]);
    let digest = table.oracle.digest("s");
    table.step(named("e2", "B", &["P", "O", "P"]), &[]);
    assert_eq!(table.oracle.digest("s"), digest);
    table.refused(named("e3", "B", &["O"]), "justification_id_taken");
    table.refused(named("e4", "C", &["O", "P"]), "justification_id_taken");
    // The node would be new, but its reason is refused: neither is kept.
    let Some(Body::Derived(mut other)) = derived("C", &["O"]).body else { unreachable!() };
    other.justification = reason(&["O"]).map(|reason| Justification { id: "j".to_owned(), ..reason });
    table.refused(event("e5", Body::Derived(other.clone())), "justification_id_taken");
    // With the right premises the reason that waited is its first.
    (other.node, other.justification) =
        ("B".to_owned(), reason(&["O", "P"]).map(|reason| Justification { id: "j".to_owned(), ..reason }));
    table.step(event("e6", Body::Derived(other)), &["B >OUT pending @0"]);
    table.step(observed("P", "S"), &["B OUT>IN @1"]);
}

/// Two retractions never share an id, and none lifts itself.
#[test]
fn a_retraction_id_is_used_once() {
    let mut table = Table::new();
    table.step(observed("O", "S"), &[]);
    table.step(named_retraction("r", &[source("S")]), &["O IN>OUT retracted @0"]);
    table.refused(with_id("again", named_retraction("r", &[source("T")])), "retraction_id_taken");
    let own = Retracted {
        replaces: vec!["x".to_owned()],
        ..Retracted { targets: vec![source("S")], ..Retracted::default() }
    };
    table.refused(event("x", Body::Retracted(own)), "bad_value");
    // Lifted in advance by `replaces`: it arrives, covers nothing, lifts what it replaces all the same, and is spent.
    let replacing = |replaced: &str| Retracted {
        replaces: vec![replaced.to_owned()],
        targets: vec![source("T")],
        ..Retracted::default()
    };
    table.step(event("first", Body::Retracted(replacing("late"))), &[]);
    table.step(event("late", Body::Retracted(replacing("r"))), &["O OUT>IN @0"]);
    table.step(observed("P", "T"), &["P >OUT retracted @0"]);
    table.step(reinstated("late"), &[]);
    table.step(reinstated("first"), &["P OUT>IN @0"]);
}

/// A target that names an agent covers the observations and the reasons that it wrote, in all its runs or in one.
#[test]
fn an_agent_covers_what_it_wrote() {
    let by = |event: Event, agent: &str, run: &str| Event { agent: agent.to_owned(), run: run.to_owned(), ..event };
    let agent = |agent: &str, run: &str| Target {
        what: Some(What::Agent(AgentTarget { agent: agent.to_owned(), run: run.to_owned() })),
        window: None,
    };
    let mut table = Table::new();
    table.step(by(observed("O", "S"), "x", "1"), &[]);
    table.step(by(observed("P", "S"), "y", "1"), &[]);
    table.step(by(derived("B", &["P"]), "x", "1"), &[]);
    table.step(by(derived("C", &["P"]), "x", "2"), &[]);
    table.step(by(justified("C", &["P", "P"]), "y", "1"), &[]);
    table.step(by(derived("D", &["P"]), "x", "2"), &[]);
    table.step(by(with_id("again", observed("P", "S")), "x", "1"), &[]);
    table.step(retracted("r1", &[agent("x", "1")]), &["O IN>OUT retracted @0", "B IN>OUT unsupported @0"]);
    // B is named, not covered: of y's reason it would be IN, though x wrote it first.
    table.step(by(with_id("y's", justified("B", &["P"])), "y", "2"), &["B OUT>IN @0"]);
    table.step(retracted("r2", &[agent("x", "")]), &["D IN>OUT unsupported @0"]);
    table.step(retracted("r3", &[agent("y", "3")]), &[]);
}

/// A retraction or reinstatement that was previewed at a position holds only while the space has not moved on.
#[test]
fn only_if_nothing_was_applied_since() {
    let retracted = |id: &str, only_if_position: &str| {
        let (targets, only_if_position) = (vec![source("S")], only_if_position.to_owned());
        event(id, Body::Retracted(Retracted { targets, only_if_position, ..Retracted::default() }))
    };
    let reinstated = |id: &str, only_if_position: &str| {
        let (retraction, only_if_position) = ("r1".to_owned(), only_if_position.to_owned());
        event(id, Body::Reinstated(Reinstated { retraction, only_if_position, ..Reinstated::default() }))
    };
    let mut table = Table::new();
    table.step(observed("O", "S"), &[]);
    table.step(observed("P", "S"), &[]);
    table.refused(retracted("x1", "0:0"), "position_passed");
    table.refused(retracted("x2", "1:1"), "position_passed");
    // Neither refusals, nor duplicates, nor other spaces move a space on.
    assert_eq!(table.fate(observed("O", "S")).0, Fate::Duplicate);
    table.step(Event { space: "elsewhere".to_owned(), ..observed("O", "S") }, &[]);
    table.step(retracted("r1", "0:1"), &["O IN>OUT retracted @0", "P IN>OUT retracted @0"]);
    table.refused(reinstated("x3", "0:5"), "position_passed");
    table.step(reinstated("x4", "0:6"), &["O OUT>IN @0", "P OUT>IN @0"]);
    // One that is applied without effect does.
    table.step(reinstated("x5", ""), &[]);
    table.refused(retracted("x6", "0:8"), "position_passed");
    table.step(retracted("r2", "0:9"), &["O IN>OUT retracted @0", "P IN>OUT retracted @0"]);
}

/// On the writer's clock an observation's own time comes before the event's; a node keeps the time of its first
/// arrival.
#[test]
fn an_item_has_the_time_of_what_created_it() {
    let at = |quarters: u8, event: Event| Event { occurred_at: time(quarters), ..event };
    let Some(Body::Observed(dated)) = observed("O", "S").body else { unreachable!() };
    let dated = event("dated", Body::Observed(Observed { observed_at: time(10), ..dated }));
    let window = |id: &str, target: Target, quarters: u8| {
        retracted(id, &[within(target, &time(quarters), &time(quarters + 1), "observed")])
    };
    let mut table = Table::new();
    table.step(at(20, dated), &[]);
    table.step(at(30, observed("P", "S")), &[]);
    table.step(at(40, derived("B", &["P"])), &[]);
    table.step(at(50, with_id("again", derived("B", &["P"]))), &[]);
    table.step(window("r1", source("S"), 20), &[]);
    table.step(window("r2", source("S"), 10), &["O IN>OUT retracted @0"]);
    table.step(window("r3", node("B"), 50), &[]);
    table.step(window("r4", justification("again"), 50), &[]);
    table.step(window("r5", node("B"), 40), &["B IN>OUT retracted @0"]);
    table.step(window("r6", node("P"), 30), &["P IN>OUT retracted @0"]);
}

/// Log time is the running maximum of what the log's clock said.
#[test]
fn log_time_does_not_go_back() {
    let mut oracle = Oracle::new(0);
    let on_log = within(source("S"), &time(4), "", "log");
    for (offset, hours, event) in [(0, 1, observed("O", "S")), (1, 0, observed("P", "S"))] {
        oracle.step(offset, BEGIN_MS + hours * HOUR_MS, &event, &[]);
    }
    assert_eq!(oracle.step(2, BEGIN_MS, &retracted("r", &[on_log]), &[]).changes.len(), 2);
}

/// An action is settled in one direction, before it arrives or after.
#[test]
fn an_action_is_settled_step_by_step() {
    let settled = |id: &str, action: &str, outcome: &str| {
        let (action, outcome) = (action.to_owned(), outcome.to_owned());
        event(id, Body::ActionSettled(ActionSettled { action, outcome, ..ActionSettled::default() }))
    };
    let proposed = |id: &str, mode: &str| {
        event(
            id,
            Body::ActionProposed(ActionProposed {
                action: "pay".to_owned(),
                r#type: "payment.transfer".to_owned(),
                mode: mode.to_owned(),
                justification: reason(&["O"]),
                ..ActionProposed::default()
            }),
        )
    };
    let mut table = Table::new();
    table.refused(settled("e1", "pay", "undone"), "action_transition");
    table.step(settled("e2", "pay", "done"), &[]);
    table.step(settled("e3", "pay", "done"), &[]);
    table.refused(proposed("e4", "ask"), "not_in_this_version");
    table.step(proposed("e5", "record"), &["pay >OUT pending @0"]);
    table.refused(settled("e6", "pay", "failed"), "action_transition");
    table.step(settled("e7", "pay", "undone"), &[]);
    table.refused(settled("e8", "pay", "done"), "action_transition");
    table.step(settled("e9", "other", "abandoned"), &[]);
    table.refused(settled("e10", "other", "undone"), "action_transition");
    // What has arrived and is no action has no outcome.
    table.step(observed("no action", "S"), &[]);
    table.refused(settled("e11", "no action", "done"), "action_transition");
}

/// A source keeps its kind unless an operator says otherwise; the rest of what is said of it is united.
#[test]
fn a_source_keeps_its_kind() {
    let declared = |id: &str, kind: &str, operator: &str| {
        let (kind, operator) = (kind.to_owned(), operator.to_owned());
        event(
            id,
            Body::SourceDeclared(SourceDeclared {
                source: "S".to_owned(),
                kind,
                operator,
                ..SourceDeclared::default()
            }),
        )
    };
    let of_kind = |node: &str, kind: &str| {
        let Some(Body::Observed(observed)) = observed(node, "S").body else { unreachable!() };
        event(node, Body::Observed(Observed { source_kind: kind.to_owned(), ..observed }))
    };
    let mut table = Table::new();
    table.step(of_kind("O1", ""), &[]);
    table.refused(declared("x1", "user", ""), "operator_needed");
    table.step(of_kind("O2", "web"), &[]);
    table.step(of_kind("O3", "user"), &[]);
    table.refused(declared("x2", "tool", ""), "operator_needed");
    table.step(declared("e1", "web", ""), &[]);
    table.step(declared("e2", "user", "olga"), &[]);
    table.refused(declared("x3", "web", ""), "operator_needed");
    table.step(declared("e3", "", ""), &[]);
}

/// What is declared of a source is united, the later word for the earlier; who said it is not part of the state.
#[test]
fn what_is_said_of_a_source_is_united() {
    let declared = |id: &str, declared: SourceDeclared| {
        let source = "S".to_owned();
        event(id, Body::SourceDeclared(SourceDeclared { source, operator: id.to_owned(), ..declared }))
    };
    let attributes =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let (name, group) = ("the name".to_owned(), "g".to_owned());
    let mut in_parts = Table::new();
    let first = SourceDeclared {
        name: "old".to_owned(),
        attributes: attributes(&[("a", "1"), ("b", "1")]),
        ..SourceDeclared::default()
    };
    let second = SourceDeclared {
        name: name.clone(),
        attributes: attributes(&[("b", "2"), ("c", "2")]),
        trust_millionths: Some(5),
        ..SourceDeclared::default()
    };
    let third = SourceDeclared {
        group: group.clone(),
        cost_millionths: Some(0),
        kind: "web".to_owned(),
        ..SourceDeclared::default()
    };
    for (id, part) in [("e1", first), ("e2", second), ("e3", third)] {
        let before = in_parts.oracle.digest("s");
        in_parts.step(declared(id, part), &[]);
        assert_ne!(in_parts.oracle.digest("s"), before, "{id}");
    }
    let (named, grouped) = (
        SourceDeclared { name: "other".to_owned(), ..SourceDeclared::default() },
        SourceDeclared { group: "other".to_owned(), ..SourceDeclared::default() },
    );
    for (id, part) in [("name", named), ("group", grouped)] {
        let mut branch = Table { oracle: in_parts.oracle.clone(), offset: in_parts.offset };
        branch.step(declared(id, part), &[]);
        assert_ne!(branch.oracle.digest("s"), in_parts.oracle.digest("s"), "{id}");
    }
    in_parts.step(declared("nothing new", SourceDeclared::default()), &[]);
    let whole = SourceDeclared {
        name,
        group,
        kind: "web".to_owned(),
        attributes: attributes(&[("a", "1"), ("b", "2"), ("c", "2")]),
        trust_millionths: Some(5),
        cost_millionths: Some(0),
        ..SourceDeclared::default()
    };
    let mut at_once = Table::new();
    at_once.step(declared("e", whole), &[]);
    assert_eq!(in_parts.oracle.digest("s"), at_once.oracle.digest("s"));
}

/// An event whose body nobody knows is skipped and keeps its id; one that must be understood stops the partition.
#[test]
fn what_is_not_known_is_skipped_or_stops() {
    let unknown = Event { body: None, ..observed("O", "S") };
    let mut table = Table::new();
    assert_eq!(table.fate(unknown.clone()).0, Fate::Skipped);
    assert_eq!(table.fate(unknown.clone()).0, Fate::Duplicate);
    assert_eq!(table.oracle.step(9, BEGIN_MS, &unknown, b"other bytes").fate, Fate::Rejected("event_id_taken"));
    table.refused(observed("O", "S"), "event_id_taken");
    assert_eq!(table.fate(Event { id: "stop".to_owned(), must_understand: true, ..unknown }).0, Fate::Stopped);
}
