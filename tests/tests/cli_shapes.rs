//! What scripts rely on: the JSON shapes and exit statuses of INTERFACE, and that an answer is the same whether a writer
//! holds the directory or not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use recant_tests::binary::{Desk, items, number, story, text, texts};
use serde_json::{Value, json};

/// The members of an object: these must be there, those may, and nothing else is.
#[track_caller]
fn check_members(value: &Value, required: &[&str], possible: &[&str]) {
    let members = value.as_object().unwrap_or_else(|| panic!("{value} is no object"));
    for name in required {
        assert!(members.contains_key(*name), "{name} is missing in {value}");
    }
    for name in members.keys() {
        assert!(required.contains(&name.as_str()) || possible.contains(&name.as_str()), "{name} is new in {value}");
    }
}

const PAGE: [&str; 3] = ["items", "position", "cursor"];

fn told() -> Desk {
    let desk = Desk::new();
    desk.append(&story::events());
    desk
}

#[test]
fn a_page_of_nodes_says_what_is_known_and_nothing_else() {
    let desk = told();
    let page = desk.json(["list"]);
    check_members(&page, &PAGE, &[]);
    let last = story::events().len();
    assert_eq!(page["position"], format!("0:{last}"), "the log's own record is 0:0");
    let expected = ["o-portal", "b-address", "o-contract", "b-account", "p-pay", "a-pay", "a-paid", "a-mail"];
    let mut ids = texts(items(&page), "id");
    ids.sort_unstable();
    let mut sorted = expected.to_vec();
    sorted.sort_unstable();
    assert_eq!(ids, sorted);

    let mut observation = desk.node("o-portal");
    assert!(text(&observation["recorded_at"]).ends_with('Z'));
    observation.as_object_mut().unwrap().remove("recorded_at");
    let expected = json!({
        "id": "o-portal", "kind": "observation", "status": "IN", "space": "default", "agent": "accounts", "run": "run-7",
        "step": "1", "source": "web:portal", "subject": "supplier", "occurred_at": "2026-03-02T09:14:31.250+01:00",
        "observed_at": "2026-03-02T09:14:30+01:00", "position": "0:2", "text": "Our new account is DE02.",
        "attributes": {"page": "/bank"},
    });
    assert_eq!(observation, expected);

    let mut deed = desk.node("a-paid");
    deed.as_object_mut().unwrap().remove("recorded_at");
    let expected = json!({
        "id": "a-paid", "kind": "action", "status": "IN", "space": "default", "agent": "accounts", "run": "run-7",
        "position": "0:9", "type": "payment.transfer", "state": "done", "amount": "6000.00", "currency": "EUR",
    });
    assert_eq!(deed, expected);
    let without_amount = desk.node("a-mail");
    assert_eq!(without_amount["state"], "recorded");
    assert!(without_amount.get("amount").is_none() && without_amount.get("currency").is_none());
}

#[test]
fn filters_let_through_what_they_name() {
    let desk = told();
    desk.done(["retract", "--source", "web:portal"]);
    let listed = |arguments: &[&str]| {
        let page = desk.json([&["list"], arguments].concat());
        let mut ids: Vec<String> = texts(items(&page), "id").into_iter().map(str::to_owned).collect();
        ids.sort_unstable();
        ids.join(" ")
    };
    assert_eq!(listed(&["--status", "out"]), "a-paid a-pay b-account o-portal p-pay");
    assert_eq!(listed(&["--status", "in"]), "a-mail b-address o-contract");
    assert_eq!(listed(&["--kind", "action"]), "a-mail a-paid a-pay");
    assert_eq!(listed(&["--kind", "action", "--status", "in"]), "a-mail");
    assert_eq!(listed(&["--source", "web:portal"]), "o-portal");
    assert_eq!(listed(&["--agent", "messenger"]), "a-mail");
    assert_eq!(listed(&["--run", "run-7", "--kind", "plan"]), "p-pay");
    assert_eq!(listed(&["--subject", "supplier"]), "o-portal");
    assert_eq!(listed(&["--subject", "suppl"]), "");
}

#[test]
fn sources_retractions_and_spaces_are_pages_too() {
    let desk = told();
    desk.done(["retract", "--source", "web:portal", "--reason", "taken over", "--by", "kim", "--id", "r-1"]);
    let sources = desk.json(["list", "--sources"]);
    check_members(&sources, &PAGE, &[]);
    let portal = items(&sources).iter().find(|source| source["id"] == "web:portal").unwrap();
    assert_eq!(portal["kind"], "web");
    assert_eq!(portal["observations"], 1);
    assert_eq!(portal["retracted_by"], json!(["r-1"]));

    let retractions = desk.json(["list", "--retractions"]);
    check_members(&retractions, &PAGE, &[]);
    let retraction = &items(&retractions)[0];
    check_members(retraction, &["id", "state", "targets", "reason", "by", "position", "recorded_at"], &[]);
    assert_eq!((&retraction["id"], &retraction["state"]), (&json!("r-1"), &json!("standing")));
    assert_eq!(retraction["targets"], json!([{"source": "web:portal"}]));

    let spaces = desk.json(["list", "--spaces"]);
    check_members(&spaces, &PAGE, &[]);
    let space = &items(&spaces)[0];
    check_members(space, &["space", "nodes", "nodes_in", "justifications", "position", "digest"], &[]);
    assert_eq!((number(&space["nodes"]), number(&space["nodes_in"])), (8, 3));
    let digest = text(&space["digest"]);
    assert!(digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
}

#[test]
fn a_retraction_tells_what_it_did_as_its_preview_does() {
    let desk = told();
    let members =
        ["retraction", "position", "changed", "sources", "by_kind", "actions", "changes", "truncated", "preview"];
    let preview = desk.json(["retract", "--source", "web:portal", "--preview"]);
    let outcome = desk.json(["retract", "--source", "web:portal"]);
    for result in [&preview, &outcome] {
        check_members(result, &members, &[]);
        assert_eq!(number(&result["changed"]), 5);
        assert_eq!(number(&result["sources"]), 1);
        assert_eq!(result["by_kind"], json!({"observation": 1, "belief": 1, "plan": 1, "action": 2}));
        assert_eq!(texts(result["changes"].as_array().unwrap(), "node"), story::FALLEN);
        assert_eq!(result["truncated"], false);
        let actions = result["actions"].as_array().unwrap();
        assert_eq!(texts(actions, "id"), ["a-pay", "a-paid"]);
        assert_eq!(texts(actions, "state"), ["recorded", "done"]);
        assert_eq!(texts(actions, "amount"), ["34500.00", "6000.00"]);
        assert_eq!(texts(actions, "currency"), ["EUR", "EUR"]);
    }
    let limited = desk.json(["reinstate", text(&outcome["retraction"]), "--preview", "--limit", "2"]);
    assert_eq!(limited["changes"].as_array().unwrap().len(), 2);
    assert_eq!((&limited["truncated"], number(&limited["changed"])), (&json!(true), 5));
}

#[test]
fn each_change_can_be_acted_on_alone() {
    let desk = told();
    desk.done(["retract", "--source", "web:portal", "--id", "r-1"]);
    let changes = desk.changes("default");
    assert_eq!(changes.len(), 6, "a summary and five changes");
    let everywhere = ["id", "cursor", "space", "cause", "cascade", "position", "time"];
    let summary = &changes[0];
    check_members(summary, &[&everywhere[..], &["summary"]].concat(), &[]);
    assert_eq!(summary["summary"]["changed"], 5);
    for (index, change) in changes.iter().enumerate() {
        assert_eq!(change["cause"], json!({"event": "r-1", "type": "retracted", "retraction": "r-1"}));
        assert_eq!(change["cascade"], json!({"id": "0:12", "index": index, "total": 5}));
        assert_eq!((&change["space"], &change["position"]), (&json!("default"), &json!("0:12")));
    }
    for change in &changes[1..] {
        let of_a_change = ["node", "kind", "from", "to", "why", "distance"];
        check_members(
            change,
            &[&everywhere[..], &of_a_change].concat(),
            &["agent", "run", "subject", "source", "action"],
        );
        assert_eq!((&change["from"], &change["to"]), (&json!("IN"), &json!("OUT")));
    }
    let told = |member: &str| changes[1..].iter().map(|change| change[member].clone()).collect::<Vec<_>>();
    assert_eq!(told("node"), story::FALLEN);
    assert_eq!(told("distance"), [0, 1, 2, 3, 3]);
    assert_eq!(told("why"), ["retracted", "unsupported", "unsupported", "unsupported", "unsupported"]);
    assert_eq!((&changes[1]["source"], &changes[1]["subject"]), (&json!("web:portal"), &json!("supplier")));
    let action = json!({"type": "payment.transfer", "state": "recorded", "amount": "34500.00", "currency": "EUR"});
    assert_eq!(changes[4]["action"], action);
}

#[test]
fn an_explanation_goes_down_to_the_sources() {
    let desk = told();
    desk.done(["retract", "--source", "web:portal", "--id", "r-1", "--reason", "taken over", "--by", "kim"]);
    let why = desk.json(["explain", "a-pay"]);
    check_members(
        &why,
        &[
            "id",
            "position",
            "cursor",
            "nodes",
            "truncated",
            "rests_on_it",
            "rests_on_it_total",
            "history",
            "retractions",
        ],
        &[],
    );
    let nodes = why["nodes"].as_array().unwrap();
    assert_eq!(texts(nodes, "id"), ["a-pay", "p-pay", "b-account", "b-address", "o-portal", "o-contract"]);
    let address = &nodes[3];
    let reasons = address["reasons"].as_array().unwrap();
    assert_eq!(texts(reasons, "id"), ["e-b-address", "j-address-contract"]);
    assert_eq!((&reasons[0]["holds"], &reasons[1]["holds"]), (&json!(false), &json!(true)));
    assert_eq!(address["status"], "IN");
    assert_eq!(nodes[4]["covered_by"], json!(["r-1"]));
    assert_eq!(texts(why["retractions"].as_array().unwrap(), "reason"), ["taken over"]);
    assert_eq!(texts(why["history"].as_array().unwrap(), "status"), ["IN", "OUT"]);
    assert_eq!(why["history"][1]["retraction"], "r-1");
    let below = desk.json(["explain", "p-pay"]);
    assert_eq!(texts(below["rests_on_it"].as_array().unwrap(), "id"), ["a-pay", "a-paid"]);
}

#[test]
fn a_run_is_told_in_order_with_what_has_fallen() {
    let desk = told();
    desk.done(["retract", "--source", "web:portal"]);
    let trace = desk.json(["run", "run-7"]);
    check_members(&trace, &["run", "position", "cursor", "items", "also_justified", "fallen"], &[]);
    assert_eq!(texts(items(&trace), "id"), ["o-portal", "b-address", "b-account", "p-pay", "a-pay", "a-paid"]);
    assert_eq!(trace["fallen"], 5);
    assert_eq!(desk.json(["run", "run-8"])["fallen"], 0);
    desk.problem(1, "not_found", ["run", "run-9"]);
}

#[test]
fn appending_and_the_doctor_report_what_they_did() {
    let desk = told();
    let again = desk.json(["append", &desk.lines("again.jsonl", &story::events())]);
    let expected = json!({"accepted": 0, "duplicates": 11, "skipped": 0, "rejected": 0, "position": "0:22"});
    assert_eq!(again, expected);
    let report = desk.json(["doctor"]);
    check_members(&report, &["ok", "checks", "disk"], &[]);
    for check in report["checks"].as_array().unwrap() {
        check_members(check, &["name", "ok", "found"], &["advice"]);
        assert_eq!(check["ok"], true);
    }
    let told = desk.done(["doctor"]);
    assert!(told.contains("8 nodes, 8 IN, every invariant holds") && told.ends_with("All is well.\n"), "{told}");
}

#[test]
fn exit_statuses_tell_no_from_wrong_from_could_not() {
    let desk = told();
    for arguments in
        [&["list"][..], &["doctor"], &["explain", "a-pay"], &["retract", "--source", "web:portal", "--preview"]]
    {
        desk.run(arguments).exited(0);
    }
    desk.problem(1, "not_found", ["explain", "a-pa"]);
    desk.problem(1, "not_found", ["explain", "a-pay", "--space", "another"]);
    desk.problem(1, "position_passed", ["retract", "--source", "web:portal", "--only-if-position", "0:1"]);
    desk.problem(1, "not_rejected", ["rejected", "retry", "0:3"]);
    for wrong in [
        &["list", "--kind", "rumour"][..],
        &["list", "--as-of", "tuesday"],
        &["list", "--no-such-flag"],
        &["explain"],
        &["retract", "--reason", "of nothing"],
        &["watch", "--since", "5 fortnights"],
        &["rejected", "retry", "here"],
        &["append", "no-such-file.jsonl"],
        &["no-such-command"],
    ] {
        let run = desk.run(wrong).exited(2);
        assert!(run.stdout.is_empty() && !run.stderr.is_empty(), "{wrong:?}");
        let mut command = desk.command(wrong);
        command.arg("--json");
        let problem: Value = serde_json::from_str(&recant_tests::binary::run(command).exited(2).stderr).unwrap();
        check_members(&problem, &["type", "title", "detail"], &["position", "line"]);
    }
    desk.problem(2, "bad_time", ["retract", "--source", "s", "--from", "2026-03-01"]);
    desk.problem(
        2,
        "inverted_window",
        ["retract", "--source", "s", "--from", "2026-03-02T00:00:00Z", "--to", "2026-03-01T00:00:00Z"],
    );
    desk.problem(3, "no_log", ["list", "--data", "elsewhere"]);
}

/// Every command that reads, in both forms.
fn readings(desk: &Desk) -> Vec<(String, i32, String)> {
    let commands = "list|list --sources|list --retractions|list --spaces|list --limit 3|list --as-of 0:5|explain a-pay|\
        explain a-pay --as-of 0:9|run run-7|rejected list|doctor|explain nobody|retract --source file:contract --preview --id r-2|\
        reinstate r-1 --preview|watch --from earliest --until-caught-up";
    let mut readings = Vec::new();
    for command in commands.split('|') {
        for form in [None, Some("--json")] {
            // The event of a reinstatement has a new id each time, and only JSON shows it.
            if command.starts_with("reinstate") && form.is_some() {
                continue;
            }
            let run = desk.run(command.split_whitespace().chain(form));
            readings.push((format!("{command} {form:?}"), run.status, without_disk(run.text()) + &run.stderr));
        }
    }
    readings
}

/// What takes how much room is RocksDB's to decide, and changes when a writer opens the directory.
fn without_disk(text: String) -> String {
    if let Ok(mut value) = serde_json::from_str::<serde_json::Value>(&text)
        && value.get("disk").is_some()
    {
        value.as_object_mut().unwrap().remove("disk");
        return value.to_string();
    }
    match (text.find("room on disk"), text.find("All is well")) {
        (Some(begin), Some(end)) => text[..begin].to_owned() + &text[end..],
        _ => text,
    }
}

#[test]
fn an_answer_is_the_same_while_a_writer_holds_the_directory() {
    let desk = told();
    desk.done(["retract", "--source", "web:portal", "--id", "r-1"]);
    let before = readings(&desk);
    let writer = desk.writer(1000);
    let during = readings(&desk);
    for (alone, beside) in before.iter().zip(&during) {
        assert!(alone == beside, "alone:\n{alone:?}\nbeside a writer:\n{beside:?}");
    }
    assert!(before.iter().all(|(command, status, _)| *status == i32::from(command.contains("nobody"))));
    assert_eq!(writer.finish().0, 0);
    assert_eq!(readings(&desk), before);
}

#[test]
fn a_second_writer_is_told_who_writes() {
    let desk = told();
    let writer = desk.writer(1000);
    let events = desk.lines("more.jsonl", &[story::observed("o-more", "s", "more")]);
    for second in [&["append", &events][..], &["retract", "--source", "web:portal"], &["reinstate", "r"]] {
        let problem = desk.problem(3, "held", second);
        let detail = text(&problem["detail"]);
        assert!(detail.contains(&format!("pid {}", writer.id())), "{detail}");
        assert!(detail.contains("append - --batch-events 1000"), "{detail}");
    }
    assert_eq!(writer.finish().0, 0);
    desk.done(["append", &events]);
}
