//! What comes in: ids and texts of every kind, times, sizes, broken lines, the same thing twice, transcripts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use recant_proto::wire;
use recant_tests::binary::{Desk, Run, items, number, run, story, text, texts};
use serde_json::{Value, json};

/// Appends a file that is not all good.
fn append_some(desk: &Desk, content: impl AsRef<[u8]>) -> Value {
    let file = desk.file("some.jsonl", content);
    run(desk.command(["append", &file, "--json"])).exited(1).document()
}

fn rejections(summary: &Value) -> Vec<(u64, String)> {
    let told = summary["rejections"].as_array().unwrap().iter();
    told.map(|rejection| (number(&rejection["line"]), text(&rejection["type"]).to_owned())).collect()
}

/// CASES 20: ids of every kind.
const IDS: [&str; 20] = [
    "记忆/银行",
    "é",
    "e\u{301}",
    "👩‍👩‍👧‍👦",
    "שלום",
    "\u{202e}reversed",
    "a\"b",
    "it's",
    "...",
    "/",
    "../../etc/passwd",
    "a@b",
    "a@b.com",
    "-x",
    "--json",
    " leading and trailing ",
    "back\\slash",
    "line\nfeed\ttab",
    "esc\u{1b}[31m",
    "%_*?[a-z]{1}$(id)",
];

#[test]
fn ids_come_back_as_they_came() {
    let desk = Desk::new();
    let mut events: Vec<Value> = Vec::new();
    for id in IDS {
        events.push(json!({"id": id, "agent": id, "run": id, "step": id,
            "observed": {"node": id, "source": id, "subject": id, "content": {"text": id}, "attributes": {id: id}}}));
        events.push(json!({"id": format!("{id}2"), "derived": {"node": format!("{id}2"), "kind": "belief",
            "justification": {"id": id, "premises": [id]}}}));
    }
    desk.append(&events);
    let page = desk.json(["list", "--kind", "observation"]);
    for (node, id) in items(&page).iter().zip(IDS) {
        for member in ["id", "agent", "run", "step", "source", "subject", "text"] {
            assert_eq!(node[member], id, "{member}");
        }
        assert_eq!(node["attributes"], json!({id: id}));
    }
    assert_eq!(items(&page).len(), IDS.len());
    let before = desk.digest();
    for id in IDS {
        // Alone, and never with another that it is a part of.
        let found = |arguments: &[&str]| texts(items(&desk.json([&["list"], arguments].concat())), "id").join("|");
        for filter in ["--source", "--agent", "--run", "--subject"] {
            assert_eq!(found(&[&format!("{filter}={id}")]), id, "{filter}");
        }
        let explained = desk.json(["explain", "--", id].iter());
        assert_eq!(texts(explained["nodes"].as_array().unwrap(), "id"), [id]);
        assert_eq!(texts(explained["rests_on_it"].as_array().unwrap(), "id"), [format!("{id}2")]);
        let fallen = desk.json(["retract", &format!("--node={id}"), "--preview"]);
        assert_eq!(texts(fallen["changes"].as_array().unwrap(), "node"), [id.to_owned(), format!("{id}2")]);
        assert_eq!(number(&desk.json(["retract", &format!("--source={id}"), "--preview"])["changed"]), 2);
        assert_eq!(number(&desk.json(["retract", &format!("--justification={id}"), "--preview"])["changed"]), 1);
    }
    assert_eq!(desk.digest(), before);
    for not_one_of_them in ["a", "a@", "a@b.co", "%", "a@b.com ", "É", ""] {
        desk.problem(1, "not_found", ["explain", "--", not_one_of_them]);
    }
    // Ids of spaces are ids too.
    let in_spaces = IDS.map(|id| {
        let mut event = story::observed("o", "s", id);
        event["space"] = json!(id);
        event
    });
    desk.append(&in_spaces);
    for id in IDS {
        assert_eq!(texts(items(&desk.json(["list", &format!("--space={id}")])), "text"), [id]);
    }
    let spaces = desk.json(["list", "--spaces"]);
    assert!(IDS.iter().all(|id| texts(items(&spaces), "space").contains(id)));
}

/// CASES 21, and that what comes after a broken line goes on.
#[test]
fn texts_are_kept_or_refused_whole() {
    let desk = Desk::new();
    let kept = [
        "NUL \u{0} inside",
        "\u{1b}]0;title\u{7}",
        "\u{202e}gnp.exe",
        "\u{feff}mark",
        "é e\u{301}",
        "  \r\n",
        "\u{10ffff}",
        "",
        "\\",
    ];
    let broken: [&[u8]; 9] = [
        br#"{"id":"x","observed":{"node":"x","source":"s","content":{"text":"\ud800"}}}"#,
        b"{\"id\":\"x\",\"observed\":{\"node\":\"x\",\"source\":\"s\",\"content\":{\"text\":\"\xff\xfe\"}}}",
        b"{\"id\":\"x\"",
        b"no JSON at all",
        br#"[{"id":"x"}]"#,
        br#"{"id":"x","observed":{"node":"x","source":"s"}} {"id":"y"}"#,
        br#"{"id":"x","space":"default"}"#,
        br#"{"id":"x","observed":{"node":"x","source":"s","contnet":{"text":"slip"}}}"#,
        br#"{"id":"x","observed":{"node":"x"}}"#,
    ];
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for (number, line) in broken.iter().enumerate() {
        lines.push(line.to_vec());
        lines.extend(
            kept.get(number).map(|text| story::observed(&format!("o-{number}"), "s", text).to_string().into_bytes()),
        );
    }
    lines.push(Vec::new());
    lines.push(b"   ".to_vec());
    lines.push(story::observed("o-last", "s", "after all that").to_string().into_bytes());
    // Without a line feed at its end.
    let summary = append_some(&desk, lines.join(&b'\n'));
    assert_eq!(number(&summary["accepted"]), kept.len() as u64 + 1);
    let codes = [
        "undecodable",
        "undecodable",
        "undecodable",
        "undecodable",
        "undecodable",
        "undecodable",
        "missing_body",
        "unknown_field",
        "missing_field",
    ];
    let expected: Vec<_> =
        (0..).map(|number| number * 2 + 1).zip(codes.map(str::to_owned)).take(broken.len()).collect();
    assert_eq!(rejections(&summary), expected);
    let page = desk.json(["list"]);
    let told = texts(items(&page), "text");
    assert_eq!(told[..kept.len()], kept);
    assert_eq!(told[kept.len()], "after all that");
    assert_eq!(items(&desk.json(["rejected", "list"])).len(), 0, "what is no event never comes as far as the log");
}

/// CASES 17.
#[test]
fn times_are_kept_byte_for_byte() {
    let desk = Desk::new();
    let good = [
        "2026-03-01T23:59:59.5+05:30",
        "2026-03-01t10:00:00z",
        "1969-07-20T20:17:40Z",
        "1815-12-10T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "2016-12-31T23:59:60Z",
        "0000-01-01T00:00:00-00:00",
        "2026-03-01T10:00:00.123456789-12:00",
    ];
    let bad = [
        "2026-03-01T10:00:00",
        "2026-03-01",
        "2026-02-30T10:00:00Z",
        "2026-03-01 10:00:00Z",
        "yesterday",
        "1772323200",
        "2026-03-01T10:00:00+24:00",
    ];
    let seen = |number: usize, time: &str| {
        json!({"id": format!("e-{number}"), "occurred_at": time,
            "observed": {"node": format!("o-{number}"), "source": "s", "observed_at": time}})
    };
    let lines: String =
        good.iter().chain(&bad).enumerate().map(|(number, time)| format!("{}\n", seen(number, time))).collect();
    let summary = append_some(&desk, lines);
    let first_bad = good.len() as u64 + 1;
    let expected: Vec<_> =
        (first_bad..first_bad + bad.len() as u64).map(|line| (line, "bad_time".to_owned())).collect();
    assert_eq!(rejections(&summary), expected);
    let page = desk.json(["list"]);
    assert_eq!(texts(items(&page), "occurred_at"), good);
    assert_eq!(texts(items(&page), "observed_at"), good);
    // 23:59:59.5 in India is 18:29:59.5 in Greenwich, and a window closes before its end.
    let falls = |from: &str, to: &str| {
        let preview = desk.json(["retract", "--source", "s", "--from", from, "--to", to, "--preview"]);
        texts(preview["changes"].as_array().unwrap(), "node").join(" ")
    };
    assert_eq!(falls("2026-03-01T18:29:59.5Z", "2026-03-01T18:30:00Z"), "o-0");
    assert_eq!(falls("2026-03-01T18:00:00Z", "2026-03-01T18:29:59.5Z"), "");
    assert_eq!(falls("2026-03-01T18:29:59.5Z", "2026-03-01T23:59:59.5+05:30"), "", "an empty window covers nothing");
    assert_eq!(falls("1800-01-01T00:00:00Z", "1970-01-01T00:00:00Z"), "o-2 o-3");
    assert_eq!(falls("2500-01-01T00:00:00Z", "9999-12-31T23:59:59.1Z"), "o-4");
}

/// CASES 22.
#[test]
fn one_byte_over_a_limit_is_an_error_and_nothing_is_cut() {
    let desk = Desk::new();
    let node = |bytes: usize| story::observed(&"n".repeat(bytes), "s", "seen");
    let said = |node: &str, bytes: usize| story::observed(node, "s", &"t".repeat(bytes));
    let rests = |node: &str, premises: usize| {
        let premises: Vec<String> = (0..premises).map(|number| format!("p-{number}")).collect();
        json!({"id": format!("e-{node}"), "derived": {"node": node, "kind": "belief", "justification": {"premises": premises}}})
    };
    // An event of so many bytes in protobuf, as it is appended.
    let event = |node: &str, bytes: usize| {
        let of = |attributes: &serde_json::Map<String, Value>| json!({"id": format!("e-{node}"), "observed": {"node": node, "source": "s", "attributes": attributes}});
        let length = |event: &Value| {
            let mut event = wire::decode(event.to_string().as_bytes(), Some(recant_proto::names::JSON)).unwrap().event;
            event.space = "default".to_owned();
            wire::to_protobuf(&event).len()
        };
        let mut attributes = serde_json::Map::new();
        for number in 0..4 {
            attributes.insert(format!("a-{number}"), json!("t".repeat(256 << 10)));
        }
        attributes.insert("a-3".to_owned(), json!("t".repeat(100_000)));
        let missing = bytes - length(&of(&attributes));
        attributes.insert("a-3".to_owned(), json!("t".repeat(100_000 + missing)));
        let event = of(&attributes);
        assert_eq!(length(&event), bytes);
        event
    };
    let lines = [
        (said("t-max", 256 << 10), None),
        (said("t-over", (256 << 10) + 1), Some("text_too_large")),
        (node(254), None),
        (story::observed("n", &"s".repeat(256), "seen"), None),
        (story::observed("n-2", &"s".repeat(257), "seen"), Some("id_too_long")),
        (story::observed("n-3", &"é".repeat(128), "seen"), None),
        (story::observed("n-4", &("é".repeat(128) + "e"), "seen"), Some("id_too_long")),
        (rests("b-max", 1024), None),
        (rests("b-over", 1025), Some("too_many_premises")),
        (event("e-max", 1 << 20), None),
        (event("e-over", (1 << 20) + 1), Some("event_too_large")),
    ];
    let summary = append_some(&desk, lines.iter().map(|(event, _)| format!("{event}\n")).collect::<String>());
    let expected: Vec<_> =
        (1..).zip(&lines).filter_map(|(line, (_, code))| Some((line, (*code)?.to_owned()))).collect();
    assert_eq!(rejections(&summary), expected);
    assert_eq!(text(&desk.node("t-max")["text"]).len(), 256 << 10);
    assert_eq!(desk.node("e-max")["attributes"].as_object().unwrap().len(), 4);
    let reasons = desk.json(["explain", "b-max"])["nodes"][0]["reasons"][0]["premises"].as_array().unwrap().len();
    assert_eq!(reasons, 1024);
    let nodes = desk.json(["list"]);
    assert!(texts(items(&nodes), "id").iter().all(|id| !id.contains("over")));
    let (long, short) = ("r".repeat(257), "r".repeat(256));
    desk.problem(2, "id_too_long", ["retract", "--source", &long]);
    desk.done(["retract", "--source", &short, "--id", &short]);
    desk.problem(2, "id_too_long", ["retract", "--source", "s", "--id", &long]);
}

/// CASES 12.
#[test]
fn the_same_event_at_once_and_again_later_is_one_event() {
    // At first there is no log yet either.
    let desk = Desk::new();
    let file = desk.lines("one.jsonl", &[story::observed("o-once", "s", "seen")]);
    let (mut accepted, mut duplicates, mut held) = (0, 0, 0);
    for _ in 0..5 {
        let at_once: Vec<_> = (0..4).map(|_| desk.command(["append", &file, "--json"]).spawn().unwrap()).collect();
        for process in at_once {
            let output = process.wait_with_output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            let told = Run { status: output.status.code().unwrap(), stdout: output.stdout, stderr };
            if told.status == 3 {
                let problem: Value = serde_json::from_str(&told.stderr).unwrap();
                assert_eq!(problem["type"], "held", "{problem}");
                held += 1;
                continue;
            }
            let summary = told.exited(0).document();
            accepted += number(&summary["accepted"]);
            duplicates += number(&summary["duplicates"]);
        }
    }
    assert_eq!((accepted, accepted + duplicates + held), (1, 20));
    assert_eq!(desk.json(["append", &file])["duplicates"], 1);
    assert_eq!(texts(items(&desk.json(["list", "--source", "s"])), "id"), ["o-once"]);
    // The same id with other bytes is another matter.
    let summary = append_some(&desk, json!({"id": "e-o-once", "observed": {"node": "o-2", "source": "s"}}).to_string());
    assert_eq!(rejections(&summary), [(1, "event_id_taken".to_owned())]);
}

const MAP: &str = r#"
[tools.read_file]
source = "file:{file_path}"
kind = "file"

[tools.send_money]
action = "payment.transfer"
amount = "amount"
currency_fixed = "USD"
"#;

fn transcript(run: &str, account: &str) -> Value {
    let call = |id: &str, name: &str, arguments: &str| {
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function",
            "function": {"name": name, "arguments": arguments}}]})
    };
    json!({"run_id": run, "messages": [
        {"role": "system", "content": "You pay bills."},
        {"role": "user", "content": "Pay bill.txt."},
        call("c-1", "read_file", r#"{"file_path": "bill.txt"}"#),
        {"role": "tool", "tool_call_id": "c-1", "content": format!("Pay 98.70 to {account}.")},
        call("c-2", "send_money", &format!(r#"{{"recipient": "{account}", "amount": 98.70}}"#)),
        {"role": "tool", "tool_call_id": "c-2", "content": "sent"},
        {"role": "assistant", "content": "Paid."},
    ]})
}

#[test]
fn transcripts_become_events_once() {
    for reasons in ["context", "literals"] {
        let desk = Desk::new();
        let map = desk.file("map.toml", MAP);
        let runs = desk.lines(
            "runs.jsonl",
            &[transcript("run-1", "GB29NWBK60161331926819"), transcript("run-2", "DE89370400440532013000")],
        );
        let import = ["import", "chat", &runs, "--map", &map, "--reasons", reasons];
        let report = desk.json(import);
        assert_eq!((number(&report["runs"]), number(&report["actions"])), (2, 2));
        // What the runs have in common, such as the bill, is declared by both and counts once.
        let accepted = number(&report["events"]["accepted"]) + number(&report["events"]["duplicates"]);
        assert!(accepted > 20, "{report}");
        let digest = desk.digest();
        let again = desk.json(import);
        assert_eq!((number(&again["events"]["accepted"]), number(&again["events"]["duplicates"])), (0, accepted));
        assert_eq!(desk.digest(), digest);
        let actions = desk.json(["list", "--kind", "action"]);
        assert_eq!(texts(items(&actions), "amount"), ["98.70", "98.70"], "as the agent wrote it");
        assert_eq!(texts(items(&actions), "state"), ["done", "done"]);
        let fallen = desk.json(["retract", "--source", "file:bill.txt", "--preview"]);
        assert_eq!(fallen["by_kind"]["action"], 2, "both rest on the bill: {fallen}");
        assert_eq!(desk.json(["run", "run-1"])["fallen"], 0);
        desk.done(["doctor"]);
    }
}

#[test]
fn a_broken_line_of_a_transcript_is_told_and_the_rest_goes_on() {
    let desk = Desk::new();
    let lines = format!(
        "{}\n{{\"messages\": [\n{{\"no\": \"messages\"}}\n\n{}\nnull\n",
        transcript("run-1", "A1"),
        transcript("run-5", "A2")
    );
    let runs = desk.file("runs.jsonl", lines);
    let run = run(desk.command(["import", "chat", &runs, "--json"])).exited(1);
    let report = run.document();
    assert_eq!((number(&report["runs"]), number(&report["skipped_lines"])), (2, 1));
    let broken = report["broken"].as_array().unwrap();
    assert_eq!(broken.iter().map(|broken| number(&broken["line"])).collect::<Vec<_>>(), [2, 6], "{broken:?}");
    assert!(text(&broken[0]["file"]).ends_with("runs.jsonl"));
    desk.json(["run", "run-5"]);
    let told = desk.run(["import", "chat", &runs]).exited(1).text();
    assert!(told.contains("runs.jsonl:2: "), "{told}");
}

#[test]
fn a_slip_in_a_map_is_an_error_that_names_what_was_meant() {
    let desk = Desk::new();
    let runs = desk.lines("runs.jsonl", &[transcript("run-1", "A1")]);
    let map = desk.file("map.toml", MAP.replace("source =", "sorce ="));
    let problem = desk.problem(2, "bad_map", ["import", "chat", &runs, "--map", &map]);
    let detail = text(&problem["detail"]);
    assert!(detail.contains("sorce") && detail.contains("source") && detail.contains('3'), "{detail}");
    assert!(!desk.path("data").exists(), "a mistake makes no log");
    desk.problem(2, "io", ["import", "chat", &runs, "--map", "no-such-map.toml"]);
    desk.problem(2, "io", ["import", "chat", "no-such-runs.jsonl"]);
    assert!(!desk.path("data").exists());
}
