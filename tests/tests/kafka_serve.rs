//! `recant serve` on a real broker: what a user does, several processes that share the partitions, and what an agent with a stock
//! client sees of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use base64::{Engine, engine::general_purpose::STANDARD};
use prost::Message as _;
use recant_proto::v1::Change;
use recant_tests::{
    binary::{Desk, json_lines, run, text, texts, wait_until},
    kafka::{
        broker::Broker,
        check, instance,
        load::Load,
        log,
        member::{Member, command},
        python, turmoil,
    },
};
use serde_json::{Value, json};

fn story() -> [Value; 4] {
    [
        json!({ "id": "e1", "agent": "reader", "observed": { "node": "o1", "source": "web:portal" } }),
        json!({ "id": "e2", "agent": "reader", "derived": { "node": "b1", "kind": "belief", "justification": { "premises": ["o1"] } } }),
        json!({ "id": "e3", "agent": "payer", "action_proposed": { "action": "pay-1", "type": "payment.transfer", "amount": "6000.00", "currency": "USD", "justification": { "premises": ["b1"] } } }),
        json!({ "id": "e3", "agent": "payer", "observed": { "node": "o2", "source": "web:portal" } }),
    ]
}

/// Appended, retracted and reinstated by the command line; followed by it and by a stock client, who see the same.
#[test]
fn a_revocation_reaches_whoever_follows() {
    let (desk, instance) = (Desk::new(), instance("story"));
    let address = Broker::shared().address();
    let mut member = Member::start(&desk, &address, &instance, "data", &["--partitions", "2"]);
    member.wait_until_serving(2);
    let recant = |arguments: &[&str]| {
        let mut command = command(&desk, &address, &instance, &["--json"]);
        command.args(arguments);
        run(command)
    };
    let file = desk.file("story.jsonl", json_lines(&story()));
    let summary = recant(&["append", &file]).exited(1).document();
    assert_eq!((&summary["accepted"], &summary["rejected"]), (&json!(3), &json!(1)), "{summary}");
    assert_eq!(summary["rejections"][0]["type"], "event_id_taken");
    assert_eq!(summary["rejections"][0]["line"], 4);

    let preview = recant(&["retract", "--source", "web:portal", "--preview"]).exited(0).document();
    let retracted =
        recant(&["retract", "--source", "web:portal", "--id", "takeover", "--by", "kim"]).exited(0).document();
    for member in ["changed", "sources", "by_kind", "actions"] {
        assert_eq!(retracted[member], preview[member], "a preview equals what the commit does: {member}");
    }
    assert_eq!(retracted["changed"], 3);
    let explained = recant(&["explain", "pay-1"]).exited(0).document();
    assert_eq!(explained["nodes"][0]["status"], "OUT", "{explained}");
    let taken = recant(&["retract", "--node", "b1", "--id", "takeover"]).exited(1);
    assert!(taken.stderr.contains("event_id_taken"), "{}", taken.stderr);
    let reinstated = recant(&["reinstate", "takeover"]).exited(0).document();
    assert_eq!(reinstated["changed"], 3);

    let watched = recant(&["watch", "--from", "earliest", "--until-caught-up"]).exited(0).text();
    let watched: Vec<Value> = watched.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(watched.len(), 8, "two cascades of three changes, each with its summary");
    let from_cursor = recant(&["watch", "--from", text(&watched[3]["cursor"]), "--until-caught-up"]).exited(0).text();
    assert_eq!(from_cursor.lines().count(), 4, "resume is exclusive");
    let since = recant(&["watch", "--since", "1h", "--until-caught-up"]).exited(0).text();
    assert_eq!(since.lines().count(), 8);

    let seen = python::run("consume", &[&address, &format!("{instance}.recant.changes")]);
    let ids: Vec<&str> = seen.iter().map(|record| text(&record["headers"]["ce_id"])).collect();
    assert_eq!(ids, texts(&watched, "id"), "a stock client sees what `recant watch` sees");
    for record in &seen {
        let change = Change::decode(STANDARD.decode(text(&record["value"])).unwrap().as_slice()).unwrap();
        assert_eq!(record["key"], "default");
        assert_eq!(record["headers"]["ce_id"], change.id);
        assert_eq!(record["headers"]["ce_type"], "recant.v1.change");
        assert_eq!(record["headers"]["content-type"], "application/protobuf");
        assert!(text(&record["headers"]["ce_source"]).starts_with("urn:recant:"));
    }
    let rejected = python::run("consume", &[&address, &format!("{instance}.recant.rejected")]);
    assert_eq!(rejected.len(), 2);
    assert_eq!(rejected[0]["headers"]["ce_type"], "recant.v1.rejection");

    // What only a log in a directory can do is refused, and does not make one.
    for arguments in [&["doctor"][..], &["rebuild"], &["snapshot", "x"], &["append", &file, "--log-time", "occurred"]] {
        assert!(recant(arguments).exited(2).stderr.contains("data directory"));
    }
    assert!(!desk.path("data/log").exists());
    member.stop();
    let members = python::run("consume", &[&address, &format!("{instance}.recant.members")]);
    let last = members.last().unwrap();
    assert_eq!(last["value"], "", "one that leaves takes its announcement away: {members:?}");
}

/// Nobody serves: what was appended is there, its fate is not known, and the command says so.
#[test]
fn without_a_server_the_fate_is_not_known() {
    let (desk, instance) = (Desk::new(), instance("nobody"));
    let address = Broker::shared().address();
    let unserved = command(&desk, &address, &instance, &["retract", "--source", "s"]);
    assert!(run(unserved).exited(3).stderr.contains("topic_refused"), "there is no log yet");
    let log = log(&address, &instance, 1);
    let unserved = command(&desk, &address, &instance, &["retract", "--source", "s", "--id", "r", "--json"]);
    let told = run(unserved).exited(3).stderr;
    let problem: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&problem["type"], &problem["position"]), (&json!("fate_unknown"), &json!("0:1")), "{told}");
    let mut member = Member::start(&desk, &address, &instance, "data", &[]);
    member.wait_until_serving(1);
    let again = command(&desk, &address, &instance, &["retract", "--source", "s", "--id", "r", "--json"]);
    run(again).exited(0);
    member.stop();
    check::holds(&check::what_a_stock_client_sees(&log));
}

/// Members come, leave and die; a partition that stays with its member is not touched, and one that moves goes on within seconds.
#[test]
fn partitions_move_and_each_change_is_published_once() {
    const PARTITIONS: usize = 4;
    let (desk, instance) = (Desk::new(), instance("share"));
    let address = Broker::shared().address();
    let log = log(&address, &instance, PARTITIONS as u32);
    let mut load = Load::new(11, 6);
    let mut first = Member::start(&desk, &address, &instance, "first", &[]);
    first.wait_until_serving(PARTITIONS);
    load.append(&log, 200);

    let mut second = Member::start(&desk, &address, &instance, "second", &[]);
    second.wait_until_serving(2);
    first.listen();
    assert_eq!(first.serves.len(), 2);
    assert!(first.serves.is_disjoint(&second.serves));
    assert_eq!((first.count("serving"), first.count("given_up")), (PARTITIONS, 2), "two stayed: {:?}", first.told);
    assert_eq!(first.count("interrupted") + first.count("lost"), 0);
    load.append(&log, 200);

    // One dies: the other has everything, once the group has given it up for dead.
    let before = first.serves.clone();
    second.kill();
    load.append(&log, 200);
    first.wait_until_serving(PARTITIONS);
    assert_eq!(first.count("given_up"), 2, "what stayed was not touched: {:?}", first.told);
    let came_back: BTreeSet<u32> = first.serves.difference(&before).copied().collect();
    assert_eq!(came_back.len(), 2);

    // One leaves: the next has everything at once.
    let mut third = Member::start(&desk, &address, &instance, "third", &[]);
    third.wait_until_serving(2);
    load.append(&log, 200);
    first.stop();
    third.wait_until_serving(PARTITIONS);
    load.append(&log, 100);
    check::wait_until_processed(&log);
    third.stop();
    check::holds(&check::all(&log, &load, &[&desk.path("third")]));
}

/// A standby is the owner's state in another place, and takes over where the owner was.
#[test]
fn a_standby_has_the_state_of_what_others_serve() {
    const PARTITIONS: usize = 4;
    let (desk, instance) = (Desk::new(), instance("standby"));
    let address = Broker::shared().address();
    let log = log(&address, &instance, PARTITIONS as u32);
    let mut load = Load::new(19, 6);
    load.append(&log, 300);
    let start = |name: &str| Member::start(&desk, &address, &instance, name, &["--standby", "all"]);
    let (mut first, mut second) = (start("first"), start("second"));
    first.wait_until("the partitions are shared", |member| member.serves.len() == PARTITIONS / 2);
    second.wait_until_serving(PARTITIONS / 2);
    load.append(&log, 300);
    check::wait_until_processed(&log);
    // Each has all of it: what it serves, and what it does not.
    for name in ["first", "second"] {
        wait_until(&format!("{name} has caught up with what others serve"), || {
            check::states(&log, &[&desk.path(name)]).is_clean().then_some(())
        });
    }
    first.kill();
    load.append(&log, 300);
    second.wait_until_serving(PARTITIONS);
    check::wait_until_processed(&log);
    second.stop();
    check::holds(&check::all(&log, &load, &[&desk.path("second")]));
}

/// A process that stood still until another had its partitions publishes nothing of what it had under way, and takes part again.
#[test]
fn a_zombie_publishes_nothing() {
    check::holds(&turmoil::zombie(13).verdict);
}

/// Three members that come, leave, die and stand still, faster than the group can settle.
#[test]
fn a_storm_of_members_leaves_each_change_once() {
    check::holds(&turmoil::storm(23).verdict);
}
