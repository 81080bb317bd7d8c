//! Protects the rows of CASES about what is written: ids, times, texts, sizes, absent fields. One test a row, through
//! `fold`: what is refused is refused with its bytes and a typed reason, and the partition goes on.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod engine;
mod table;

use engine::{Engine, in_words, list_at, records};
use prost::Message;
use recant_projections::{fold::Fate, query::Filter};
use recant_proto::v1::{
    AgentTarget, Content, Derived, Event, Justification, Observed, Reinstated, Retracted, SourceDeclared, Target,
    content::Form, event::Body, target::What,
};
use recant_tests::generate::BEGIN_MS;
use table::{HOUR_MS, derived, event, justification, node, observed, reinstated, retracted, source, within};

/// An observation that says all that can be said of its times.
fn observed_at(id: &str, time: &str) -> Event {
    let Some(Body::Observed(said)) = observed(id, "S").body else { unreachable!() };
    let observed = Observed { observed_at: time.to_owned(), ..said };
    Event { occurred_at: time.to_owned(), ..event(id, Body::Observed(observed)) }
}

/// The rule: RFC 3339 with an offset, kept byte for byte, compared as instants; years 0000 to 9999.
#[test]
fn case_17_times_are_kept_as_written_and_compared_as_instants() {
    let mut engine = Engine::new();
    for (id, time) in
        [("no offset", "2026-03-01T10:00:00"), ("no time", "2026-03-01"), ("beyond", "10000-01-01T00:00:00Z")]
    {
        engine.refused(&observed_at(id, time), "bad_time");
        let retraction = retracted(id, &[within(source("S"), time, "", "")]);
        engine.refused(&retraction, "bad_time");
    }
    let times = [
        ("before midnight in Delhi", "2026-03-01T23:59:59.999+05:30"),
        ("before 1970", "1969-12-31T23:59:59.5-00:00"),
        ("year 0", "0000-01-01T00:00:00+14:00"),
        ("far in the future", "9999-12-31T23:59:60.999999999-23:59"),
    ];
    engine.steps(times.map(|(id, time)| observed_at(id, time)));
    let shown: Vec<_> =
        engine.list("s").into_iter().map(|view| (view.id, view.observed_at, view.occurred_at)).collect();
    let expected = times.map(|(id, time)| (id.to_owned(), time.to_owned(), time.to_owned()));
    assert_eq!(shown, expected);
    // The same instant with another offset is where the window ends; it is the day before in UTC.
    let until = |time: &str| retracted(time, &[within(source("S"), "2026-03-01T18:29:59.999Z", time, "")]);
    engine.step(until("2026-03-01T18:29:59.999Z"), &[]);
    engine.step(until("2026-03-02T00:00:00+05:30"), &["before midnight in Delhi IN>OUT retracted @0"]);
    let past = within(source("S"), "", "1970-01-01T00:00:00Z", "");
    let falls = ["before 1970 IN>OUT retracted @0", "year 0 IN>OUT retracted @0"];
    engine.step(retracted("past", std::slice::from_ref(&past)), &falls);
    let future = within(source("S"), "9999-12-31T23:59:59+00:00", "", "observed");
    engine.step(retracted("future", &[future]), &["far in the future IN>OUT retracted @0"]);
    engine.step(reinstated("past"), &["before 1970 OUT>IN @0", "year 0 OUT>IN @0"]);
    // The log's clock is the log's alone: a writer who says 9999 does not move it.
    let next = engine.step(observed_at("next", "2026-03-01T00:00:00Z"), &[]);
    assert_eq!(next.outputs.len(), 0);
    let recorded = engine.list("s").into_iter().find(|view| view.id == "next").unwrap().recorded_at;
    let expected = recant_proto::time::format_log_ms(BEGIN_MS + (engine.log.len() as i64 - 1) * HOUR_MS);
    assert_eq!(recorded, expected);
}

const IDS: [&str; 24] = [
    "会议记录",
    "e\u{301}",
    "é",
    "👩\u{200d}👩\u{200d}👧",
    "שלום\u{200f}",
    "\u{202e}txt.exe",
    "\"quoted\"",
    "it's",
    "...",
    "..",
    "/",
    "a/b",
    "a",
    "a@b",
    "a@b.com",
    "A",
    "*",
    "a%",
    "%2F",
    "\\",
    " ",
    "a\0b",
    "a\n",
    "\u{feff}a",
];

/// Every id is a node, a source, an agent, a run, a subject, a justification and a retraction, all at once.
#[test]
fn case_20_ids_are_bytes_and_no_prefix_of_one_another() {
    let mut engine = Engine::new();
    for id in IDS {
        let written =
            |body: Body, event_id: String| Event { agent: id.to_owned(), run: id.to_owned(), ..event(&event_id, body) };
        let Some(Body::Observed(said)) = observed(id, id).body else { unreachable!() };
        let said = Observed { subject: id.to_owned(), ..said };
        engine.step(written(Body::Observed(said), format!("o{id}")), &[]);
        let belief = Derived {
            node: format!("belief {id}"),
            kind: "belief".to_owned(),
            justification: Some(Justification { id: id.to_owned(), premises: vec![id.to_owned()], rule: None }),
            ..Derived::default()
        };
        engine.step(written(Body::Derived(belief), format!("b{id}")), &[]);
    }
    let engine = &mut engine.reopened();
    let of = |what: What| Target { what: Some(what), window: None };
    for id in IDS {
        let belief = format!("belief {id}");
        let agent = AgentTarget { agent: id.to_owned(), run: id.to_owned() };
        let anywhere = AgentTarget { agent: id.to_owned(), run: String::new() };
        let falls = [format!("{id} IN>OUT retracted @0"), format!("{belief} IN>OUT unsupported @1")];
        let written_falls = [falls[0].clone(), format!("{belief} IN>OUT unsupported @0")];
        for (target, expected) in [
            (source(id), &falls[..]),
            (node(id), &falls[..]),
            (justification(id), &written_falls[1..]),
            (of(What::Agent(agent)), &written_falls[..]),
            (of(What::Agent(anywhere)), &written_falls[..]),
        ] {
            let previewed = engine.preview(&retracted("preview", &[target])).records;
            assert_eq!(previewed.iter().skip(1).map(in_words).collect::<Vec<_>>(), expected);
        }
        let only = |filter: Filter| list_at(engine.partition.stored(), "s", engine.now(), &filter);
        let ids = |filter: Filter| only(filter).into_iter().map(|view| view.id).collect::<Vec<_>>();
        let some = || Some(id.to_owned());
        assert_eq!(ids(Filter { source: some(), ..Filter::default() }), [id]);
        assert_eq!(ids(Filter { subject: some(), ..Filter::default() }), [id]);
        assert_eq!(ids(Filter { agent: some(), ..Filter::default() }), [id, belief.as_str()]);
        assert_eq!(ids(Filter { run: some(), ..Filter::default() }), [id, belief.as_str()]);
        let shown = only(Filter { source: some(), ..Filter::default() });
        let view = &shown[0];
        for field in [&view.agent, &view.run, &view.source, &view.subject] {
            assert_eq!(field.as_bytes(), id.as_bytes());
        }
        let retraction = Retracted { retraction: id.to_owned(), targets: vec![node(id)], ..Retracted::default() };
        let fallen =
            records(&engine.step(event(&format!("r{id}"), Body::Retracted(retraction)), &[&falls[0], &falls[1]]));
        assert_eq!((fallen[1].source.as_str(), fallen[1].subject.as_str()), (id, id));
        assert_eq!(fallen[1].cause.as_ref().unwrap().retraction, id);
        let reinstated = Reinstated { retraction: id.to_owned(), ..Reinstated::default() };
        let rises = [format!("{id} OUT>IN @0"), format!("{belief} OUT>IN @1")];
        engine.step(event(&format!("i{id}"), Body::Reinstated(reinstated)), &[&rises[0], &rises[1]]);
    }
    // A space is an id too.
    for space in IDS {
        engine.step(Event { space: space.to_owned(), ..observed(space, "S") }, &[]);
        assert_eq!(engine.list(space).into_iter().map(|view| view.id).collect::<Vec<_>>(), [space]);
    }
}

#[test]
fn case_21_text_that_is_no_text_is_refused_with_its_bytes_and_the_partition_goes_on() {
    let mut engine = Engine::new();
    let json = |id: &str, text: &str| {
        let head = format!(r#"{{"id":"{id}","space":"s","observed":{{"node":"{id}","source":"S","content":{{"text":""#);
        [head.as_bytes(), text.as_bytes(), br#""}}}"#].concat()
    };
    engine.step(said("NUL in protobuf", "a\0b"), &[]);
    assert_eq!(engine.fold_value("s", json("NUL in JSON", r"a\u0000b")).fate, Fate::Accepted);
    let texts: Vec<_> = engine.list("s").into_iter().map(|view| view.text).collect();
    assert_eq!(texts, vec![Some("a\0b".to_owned()); 2]);
    engine.refused_value("s", json("lone surrogate", r"\ud800"), "undecodable");
    engine.refused_value("s", json("raw NUL in JSON", "a\0b"), "undecodable");
    let mut invalid = json("invalid UTF-8", "X");
    let at = invalid.iter().rposition(|byte| *byte == b'X').unwrap();
    invalid[at] = 0xff;
    engine.refused_value("s", invalid, "undecodable");
    let mut invalid = said("invalid UTF-8", "XXXX").encode_to_vec();
    let at = invalid.windows(4).position(|bytes| bytes == b"XXXX").unwrap();
    invalid[at..at + 4].copy_from_slice(&[0xed, 0xa0, 0x80, b'X']);
    engine.refused_value("s", invalid, "undecodable");
    for bytes in [&b""[..], b"{", b"\xff\xff\xff", b"null", b"[]", b"\0"] {
        let folded = engine.fold_value("s", bytes.to_vec());
        assert!(matches!(folded.fate, Fate::Rejected(_)), "{bytes:?}");
    }
    engine.step(said("after all that", "text"), &[]);
}

fn said(id: &str, text: &str) -> Event {
    let content = Content { form: Some(Form::Text(text.to_owned())), media_type: String::new() };
    let observed =
        Observed { node: id.to_owned(), source: "S".to_owned(), content: Some(content), ..Observed::default() };
    event(id, Body::Observed(observed))
}

#[test]
fn case_22_one_byte_over_a_limit_is_an_error_and_nothing_is_cut() {
    let mut engine = Engine::new();
    let text = |bytes: usize| "é".repeat(bytes / 2) + &"x".repeat(bytes % 2);
    let largest = text(256 << 10);
    engine.step(said("text", &largest), &[]);
    assert_eq!(engine.list("s")[0].text.as_deref(), Some(largest.as_str()));
    engine.refused(&said("text over", &text((256 << 10) + 1)), "text_too_large");

    engine.step(Event { id: text(256), run: text(256), ..said(&text(256), "of the longest ids") }, &[]);
    assert_eq!(engine.standing("s", &text(256)), "IN");
    engine.refused(&Event { id: "node over".to_owned(), ..said(&text(257), "") }, "id_too_long");
    engine.refused(&Event { id: text(257), ..said("O", "") }, "id_too_long");
    engine.refused(&Event { run: text(257), ..said("O", "") }, "id_too_long");

    let premises: Vec<String> = (0..1025).map(|number| format!("P{number}")).collect();
    let resting_on = |id: &str, count: usize| {
        let justification = Justification { premises: premises[..count].to_vec(), ..Justification::default() };
        let belief = Derived {
            node: id.to_owned(),
            kind: "belief".to_owned(),
            justification: Some(justification),
            ..Derived::default()
        };
        event(id, Body::Derived(belief))
    };
    engine.step(resting_on("B", 1024), &["B >OUT pending @0"]);
    engine.refused(&resting_on("B over", 1025), "too_many_premises");

    let sized = |bytes: usize| {
        let Some(Body::Observed(mut said)) = said("sized", &text(200 << 10)).body else { unreachable!() };
        for part in 0..3 {
            said.attributes.insert(format!("part {part}"), "y".repeat(256 << 10));
        }
        said.attributes.insert("rest".to_owned(), "y".repeat(20_000));
        let length = event("sized", Body::Observed(said.clone())).encoded_len();
        said.attributes.insert("rest".to_owned(), "y".repeat(20_000 + bytes - length));
        let event = event("sized", Body::Observed(said));
        assert_eq!(event.encoded_len(), bytes);
        event
    };
    engine.refused(&sized((1 << 20) + 1), "event_too_large");
    engine.step(sized(1 << 20), &[]);
    let view = engine.list("s").into_iter().find(|view| view.id == "sized").unwrap();
    let kept = view.attributes.values().map(String::len).sum::<usize>() + view.text.unwrap().len();
    assert!(kept > (1 << 20) - 200, "{kept} bytes of texts");
}

/// Null means absent everywhere; zero is not absent where the contract has an optional number.
#[test]
fn case_27_null_is_absent_and_zero_is_not() {
    let mut engine = Engine::new();
    let absent = r#"{"id":"e","space":"s","agent":"a","observed":{"node":"O","source":"S"}}"#;
    let null = r#"{"id":"e","space":"s","agent":"a","run":null,"occurred_at":null,"observed":{"node":"O","source":"S",
        "observed_at":null,"content":null,"attributes":null}}"#;
    assert_eq!(engine.fold_value("s", absent.into()).fate, Fate::Accepted);
    assert_eq!(engine.fold_value("s", null.into()).fate, Fate::Duplicate(0));
    let other = absent.replace(r#""agent":"a""#, r#""agent":null"#);
    engine.refused_value("s", other.into(), "event_id_taken");

    let declared = |trust_millionths: Option<i64>| {
        let declared = SourceDeclared {
            source: "T".to_owned(),
            trust_millionths,
            operator: "olga".to_owned(),
            ..SourceDeclared::default()
        };
        let mut engine = Engine::new();
        engine.step(event("declared", Body::SourceDeclared(declared)), &[]);
        engine.digest("s")
    };
    assert_ne!(declared(Some(0)), declared(None));
    assert_eq!(declared(None), {
        let mut engine = Engine::new();
        let value = r#"{"id":"declared","space":"s","source_declared":{"source":"T","trust_millionths":null,"operator":"olga"}}"#;
        assert_eq!(engine.fold_value("s", value.into()).fate, Fate::Accepted);
        engine.digest("s")
    });
    engine.step(derived("B", &["O"]), &[]);
}
