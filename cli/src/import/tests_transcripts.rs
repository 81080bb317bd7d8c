//! The shapes of transcripts, and what is odd in them: what is read, and that nothing is lost.

use recant_proto::v1::content::Form;

use super::{
    tests::{USER, call, import, observed, options, reasons_of, result, run, settled, told, warned},
    *,
};

#[test]
fn all_shapes_of_content_are_read() {
    let messages = [
        r#"{"role": "developer", "content": [{"type": "text", "text": "Be brief."}], "unknown": {"x": 1}}"#,
        r#"{"role": "user", "name": "emma", "content": [{"type": "text", "text": "a"}, "b", {"type": "image_url", "image_url": {}}]}"#,
        r#"{"role": "assistant", "content": "", "refusal": "I won't."}"#,
        r#"{"role": "assistant", "function_call": {"name": "search", "arguments": "{\"q\": \"x\"}"}}"#,
        r#"{"role": "function", "name": "search", "content": "found"}"#,
        r#"{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "now"}, {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"file_path": "f"}}, {"type": "tool_use", "id": "t2", "name": "search", "input": {}}]}"#,
        r#"{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "two"}]}, {"type": "tool_result", "tool_use_id": "t1", "content": "one"}]}"#,
        r#"{"role": "user", "content": [{"type": "text", "text": "and now?"}]}"#,
        r#"{"role": "assistant", "content": null, "tool_calls": [{"id": "c", "custom": {"name": "search", "input": "free text"}}]}"#,
        r#"{"role": "tool", "tool_call_id": "c", "content": null}"#,
    ];
    let line =
        format!(r#"{{"id": "r", "system": "You are kind.", "model": "m-1", "messages": [{}]}}"#, messages.join(","));
    let run = import(Reasons::Context, &line);
    let told: Vec<_> = told(&run).into_iter().filter(|(_, source, _)| !source.starts_with("system:")).collect();
    let expected = [
        ("1/user", "user:emma", "a\nb\n[image_url]"),
        ("4/tool", r#"tool:search({"q":"x"})"#, "found"),
        ("6/tool", "tool:search({})", "two"),
        ("6/tool/1", "file:f", "one"),
        ("7/user", "user:r", "and now?"),
        ("9/tool", r#"tool:search({"arguments":"free text"})"#, ""),
    ];
    let owned = |(node, source, text): (&str, &str, &str)| (node.to_owned(), source.to_owned(), text.to_owned());
    assert_eq!(told, expected.map(owned));
    assert_eq!(reasons_of(&run)["2/assistant"], [["system", "0/system", "1/user"]]);
    assert!(run.events.iter().all(|event| event.agent == "m-1" || matches!(event.body, Some(Body::SourceDeclared(_)))));
    let said = run.events.iter().find_map(|event| match &event.body {
        Some(Body::Derived(derived)) if derived.node == "r/5/assistant" => derived.content.clone()?.form,
        _ => None,
    });
    assert_eq!(said, Some(Form::Text("hm\nnow\nread_file({\"file_path\":\"f\"})\nsearch({})".to_owned())));
}

#[test]
fn results_find_their_calls_or_are_kept() {
    let messages = [
        USER.to_owned(),
        call("a", "search", r#"{"n": 1}"#),
        call("a", "search", r#"{"n": 2}"#),
        call("open", "search", r#"{"n": 3}"#),
        result("a", "first"),
        result("a", "second"),
        result("a", "third"),
        result("nobody", "fourth"),
        r#"{"role": "tool", "name": "mail", "tool_call_id": "gone", "content": "fifth"}"#.to_owned(),
    ];
    let run = run(Reasons::Context, &messages.join(","));
    let sources: Vec<_> = told(&run).into_iter().skip(1).map(|(_, source, _)| source).collect();
    let expected =
        [r#"tool:search({"n":1})"#, r#"tool:search({"n":2})"#, r#"tool:search({"n":1})"#, "tool:unknown", "tool:mail"];
    assert_eq!(sources, expected);
    for words in
        ["message 6: is another result", "message 7: is a result of no call", "message 3: calls search, and no result"]
    {
        assert!(warned(&run, words), "{words}: {:?}", run.warnings);
    }
}

#[test]
fn a_result_without_an_id_goes_by_name_then_by_order() {
    let messages = [
        USER.to_owned(),
        call("", "search", r#"{"n": 1}"#),
        call("", "read_file", r#"{"file_path": "f"}"#),
        r#"{"role": "tool", "name": "read_file", "content": "x"}"#.to_owned(),
        r#"{"role": "tool", "content": "y"}"#.to_owned(),
    ];
    let run = run(Reasons::Context, &messages.join(","));
    let sources: Vec<_> = told(&run).into_iter().skip(1).map(|(_, source, _)| source).collect();
    assert_eq!(sources, ["file:f", r#"tool:search({"n":1})"#]);
    assert!(warned(&run, "message 4: is a result without a call's id"));
}

#[test]
fn outcomes_come_from_results() {
    let outcome = |result: &str| {
        let messages = [USER.to_owned(), call("b", "pay", r#"{"to": "Ann", "amount": 1}"#), result.to_owned()];
        let run = run(Reasons::Context, &messages.join(","));
        settled(&run).first().map(|settled| (settled.outcome.clone(), settled.detail.clone()))
    };
    let failed = |detail: &str| Some(("failed".to_owned(), detail.to_owned()));
    let done = Some(("done".to_owned(), String::new()));
    assert_eq!(outcome(&result("b", "sent")), done);
    assert_eq!(outcome(r#"{"role": "tool", "tool_call_id": "b", "content": "ok", "error": null}"#), done);
    assert_eq!(
        outcome(r#"{"role": "tool", "tool_call_id": "b", "content": "", "error": "no such account"}"#),
        failed("no such account")
    );
    assert_eq!(outcome(&result("b", "INSUFFICIENT FUNDS today")), failed("INSUFFICIENT FUNDS today"));
    let block = r#"{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b", "is_error": true, "content": "x"}]}"#;
    assert_eq!(outcome(block), failed("x"));
    assert_eq!(outcome(r#"{"role": "user", "content": "?"}"#), None, "it stays recorded");
}

/// Two outcomes of one action would contradict each other; the second result is only seen.
#[test]
fn an_action_is_settled_once() {
    let messages = [
        USER.to_owned(),
        call("b", "pay", r#"{"to": "Ann", "amount": 1}"#),
        result("b", "sent"),
        result("b", "insufficient funds"),
    ];
    let run = run(Reasons::Literals, &messages.join(","));
    assert_eq!((settled(&run).len(), observed(&run).len()), (1, 3));
}

#[test]
fn broken_arguments_are_kept_as_one() {
    for (arguments, source) in [
        (r#""{\"n\": 1""#, r#"tool:search({"arguments":"{\"n\": 1"})"#),
        (r#""[1, 2]""#, r#"tool:search({"arguments":[1,2]})"#),
        (r#""""#, "tool:search({})"),
        ("null", "tool:search({})"),
        (r#""{\"b\": 1.0, \"a\": 2}""#, r#"tool:search({"a":2,"b":1})"#),
    ] {
        let run =
            run(Reasons::Literals, &[USER.to_owned(), call("a", "search", arguments), result("a", "x")].join(","));
        assert_eq!(told(&run)[1].1, source, "{arguments}");
        assert_eq!(
            warned(&run, "not JSON"),
            arguments.contains("1\\\"") || arguments == r#""{\"n\": 1""#,
            "{arguments}"
        );
    }
}

#[test]
fn odd_messages_are_kept_and_told() {
    let run = run(
        Reasons::Literals,
        r#"7, {"role": "critic", "content": "hm"}, {"content": "no role"}, {"role": "user"}, {"role": "assistant"}"#,
    );
    let told = told(&run);
    assert_eq!(told.iter().map(|it| it.0.as_str()).collect::<Vec<_>>(), ["1/other", "2/other", "3/user"]);
    assert_eq!((told[0].1.as_str(), told[2].2.as_str()), ("role:critic", ""));
    assert_eq!(reasons_of(&run)["4/assistant"], [["1/other", "2/other", "3/user"]]);
    assert!(warned(&run, "message 0: is no object") && warned(&run, "critic"));
}

/// A belief needs a reason: what begins with the agent's words rests on what was not recorded.
#[test]
fn a_run_may_begin_with_the_agent() {
    let run =
        run(Reasons::Context, r#"{"role": "assistant", "content": "Hello"}, {"role": "assistant", "content": "?"}"#);
    assert_eq!(reasons_of(&run)["0/assistant"], [["unrecorded"]]);
    assert_eq!(reasons_of(&run)["1/assistant"], [["0/assistant"]]);
    assert_eq!(told(&run)[0].1, "unrecorded:r");
}

#[test]
fn times_come_from_the_data_only() {
    let line = r#"{"id": "r", "created": 1700000000, "messages": [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b", "timestamp": "2026-03-01T10:00:00+05:30"},
        {"role": "user", "content": "c", "timestamp": "2026-03-01T10:00:00"},
        {"role": "user", "content": "d", "timestamp": 1700000000123}]}"#;
    let run = import(Reasons::Context, &line.replace('\n', " "));
    let times: Vec<_> =
        run.events.iter().filter(|event| !event.step.is_empty()).map(|event| event.occurred_at.as_str()).collect();
    let line_time = "2023-11-14T22:13:20.000Z";
    assert_eq!(times, [line_time, "2026-03-01T10:00:00+05:30", line_time, "2023-11-14T22:13:20.123Z"]);
    assert!(warned(&run, "message 2: has the time"));
    let timeless = import(Reasons::Context, r#"{"messages": [{"role": "user", "content": "a"}]}"#);
    assert!(timeless.events.iter().all(|event| event.occurred_at.is_empty()));
}

#[test]
fn several_agents_keep_their_names() {
    let messages = r#"{"role": "user", "content": "a"}, {"role": "assistant", "name": "planner", "content": "b"}, {"role": "assistant", "content": "c"}"#;
    let run = import(Reasons::Context, &format!(r#"{{"id": "r", "agent": "payer", "messages": [{messages}]}}"#));
    let agents: Vec<_> =
        run.events.iter().filter(|event| !event.step.is_empty()).map(|event| event.agent.as_str()).collect();
    assert_eq!(agents, ["payer", "planner", "payer"]);
}

#[test]
fn a_text_with_nul_and_a_byte_order_mark_are_read() {
    let run = import(
        Reasons::Literals,
        "\u{feff}{\"id\": \"r\", \"messages\": [{\"role\": \"user\", \"content\": \"a\\u0000b\"}]}\r",
    );
    assert_eq!(told(&run)[0].2, "a\0b");
}

/// A file that was cut off, or damaged in one place, gives errors and no panic.
#[test]
fn damaged_lines_do_no_harm() {
    let messages = [
        USER.to_owned(),
        call("a", "read_file", r#"{"file_path": "f"}"#),
        result("a", "Caf\\u00e9 北京 1 000,00"),
        call("b", "pay", "{}"),
    ];
    let line = format!(r#"{{"id": "r", "system": [{{"text": "x"}}], "messages": [{}]}}"#, messages.join(","));
    let options = options(Reasons::Literals);
    for cut in 0..line.len() {
        assert!(
            events_of_line(1, &line.as_bytes()[..cut], &options).map_or(true, |line| matches!(line, Line::Skipped(_)))
        );
    }
    let mut sound = 0;
    for at in 0..line.len() {
        for byte in [b'"', b'[', b'0', b'n', b' ', 0xff] {
            let mut damaged = line.clone().into_bytes();
            damaged[at] = byte;
            sound += usize::from(events_of_line(1, &damaged, &options).is_ok());
        }
    }
    assert!(sound > line.len(), "most damage within a text is no damage to the line: {sound}");
}
