//! Ids, texts, times, windows and nulls that broke other systems: rows 17, 18, 20, 21 and 27 of the cases.

use recant_proto::{
    time,
    v1::{Event, Observed, Window, content::Form, event::Body, target::What},
    wire,
};
use serde_json::{Value, json};

use crate::{frozen, reader};

/// Row 20. Ids are bytes to us: nothing is trimmed, folded or normalised, in either form.
#[test]
fn an_id_comes_back_byte_for_byte_in_both_forms() {
    let ids = [
        "记忆/三",
        "メモ",
        "e\u{301}",
        "é",
        "🧠",
        "👩\u{200d}🔬",
        "שלום",
        "\u{202e}abc",
        "\"quoted\"",
        "'",
        "...",
        "..",
        "/",
        "a//b",
        "%2F",
        "a@b",
        "a@b.com",
        " a",
        "a ",
        "\t",
        "\n",
        "\0",
        "\u{7f}",
        "\u{feff}a",
        "\\",
        "{",
        "null",
        "a:b:c",
        "\u{10ffff}",
    ];
    for id in ids {
        for (name, pointer) in [
            ("observed", "/id"),
            ("observed", "/space"),
            ("observed", "/observed/node"),
            ("observed", "/observed/source"),
        ] {
            let event = reader::event(&frozen::changed(name, pointer, json!(id)));
            for value in [wire::to_protobuf(&event), wire::to_json(&event).to_string().into_bytes()] {
                let reader::Fate::Accepted(back) = reader::fate(&value, None) else { panic!("{id:?}") };
                let back = wire::to_json(&*back);
                assert_eq!(back.pointer(pointer).unwrap().as_str().unwrap().as_bytes(), id.as_bytes(), "{pointer}");
            }
        }
    }
}

/// Two ids that look the same are two ids.
#[test]
fn a_composed_and_a_decomposed_letter_are_two_ids() {
    let fingerprint = |id: &str| {
        let json = frozen::changed("observed", "/observed/node", json!(id));
        wire::fingerprint(&wire::decode(json.as_bytes(), None).unwrap(), json.as_bytes())
    };
    assert_ne!(fingerprint("é"), fingerprint("e\u{301}"));
}

/// Row 21. What is a text in UTF-8 is kept whole; what is not is refused (see the damaged files).
#[test]
fn a_text_is_kept_byte_for_byte() {
    for text in
        ["", "\0", "a\0b", "\u{feff}", "\u{202e}gpj.exe", "\u{1b}[2J", "\r\n", "\u{fffd}", "😀", "\u{d7ff}\u{e000}"]
    {
        let event = reader::event(&frozen::changed("observed", "/observed/content/text", json!(text)));
        for value in [wire::to_protobuf(&event), wire::to_json(&event).to_string().into_bytes()] {
            let reader::Fate::Accepted(back) = reader::fate(&value, None) else { panic!("{text:?}") };
            let Some(Form::Text(back)) = observed(&back).content.as_ref().unwrap().form.clone() else {
                panic!("{text:?}")
            };
            assert_eq!(back.as_bytes(), text.as_bytes());
        }
    }
}

/// A pair of surrogate escapes is one character; half a pair is none (see `lone-surrogate.json`).
#[test]
fn a_surrogate_pair_in_json_is_one_character() {
    let event = reader::event(r#"{"id":"\ud83e\udde0","space":"s","tick":{}}"#);
    assert_eq!(event.id, "🧠");
}

/// Row 17. The writer's spelling is kept; the instant is what is compared.
#[test]
fn a_time_is_kept_byte_for_byte_and_compared_as_an_instant() {
    for (text, milliseconds) in [
        ("2026-03-01T23:59:59.999+05:30", 1_772_389_799_999),
        ("2026-03-01T18:29:59.999Z", 1_772_389_799_999),
        ("2026-03-01t18:29:59.999z", 1_772_389_799_999),
        ("2026-03-01T18:29:59.999-00:00", 1_772_389_799_999),
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.9995Z", -1),
        ("1815-12-10T00:00:00+00:00", -4_861_728_000_000),
        ("0000-01-01T00:00:00Z", -62_167_219_200_000),
        ("9999-12-31T23:59:59.999999999Z", 253_402_300_799_999),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),
        ("2024-02-29T12:00:00+14:00", 1_709_157_600_000),
    ] {
        let json = frozen::changed("observed", "/observed/observed_at", json!(text));
        let reader::Fate::Accepted(event) = reader::fate(json.as_bytes(), None) else { panic!("{text}") };
        assert_eq!(observed(&event).observed_at, text);
        assert_eq!(time::parse("t", text).unwrap().to_log_ms(), milliseconds, "{text}");
    }
}

#[test]
fn a_time_without_an_offset_is_refused_and_the_answer_says_what_is_lacking() {
    for (text, says) in [
        ("2026-03-01T10:00:00", "has no offset"),
        ("2026-03-01T10:00:00.123", "has no offset"),
        ("2026-03-01", "is not a time"),
        ("1772359200", "is not a time"),
        ("2026-03-01T10:00:00 +01:00", "is not a time"),
        ("2026-03-01T10:00:00+0100", "is not a time"),
        ("2026-03-01T10:00:00+24:00", "is not a time"),
        ("2026-02-30T10:00:00Z", "is not a time"),
        ("2026-03-01T10:00:00[Europe/Paris]", "is not a time"),
        ("10000-01-01T00:00:00Z", "is not a time"),
        ("+2026-03-01T10:00:00Z", "is not a time"),
        (" 2026-03-01T10:00:00Z", "is not a time"),
        ("2026-03-01T10:00:00Z\0", "is not a time"),
        ("２０２６-03-01T10:00:00Z", "is not a time"),
    ] {
        let json = frozen::changed("observed", "/occurred_at", json!(text));
        let reader::Fate::Rejected(violation) = reader::fate(json.as_bytes(), None) else { panic!("{text}") };
        assert_eq!(violation.code.as_str(), "bad_time", "{text}");
        assert!(violation.detail.contains(says), "{text}: {violation}");
    }
}

/// Row 18. Empty covers nothing and is allowed; inverted is a slip and refused. Instants are compared, not texts.
#[test]
fn a_window_may_be_empty_or_open_but_not_inverted() {
    for (from, to, word) in [
        (json!(null), json!(null), "accepted"),
        (json!("2026-03-01T00:00:00Z"), json!(null), "accepted"),
        (json!(null), json!("2026-03-01T00:00:00Z"), "accepted"),
        (json!("2026-03-01T00:00:00Z"), json!("2026-03-02T00:00:00Z"), "accepted"),
        (json!("2026-03-01T00:00:00Z"), json!("2026-03-01T00:00:00Z"), "accepted"),
        (json!("2026-03-01T00:00:00Z"), json!("2026-03-01T05:30:00+05:30"), "accepted"),
        (json!("2026-03-01T05:30:00+05:30"), json!("2026-03-01T00:00:00.000000001Z"), "accepted"),
        (json!("2026-03-01T00:00:00.000000001Z"), json!("2026-03-01T05:30:00+05:30"), "inverted_window"),
        (json!("2026-03-02T00:00:00Z"), json!("2026-03-01T00:00:00Z"), "inverted_window"),
        // Inverted as instants, though not as texts.
        (json!("2026-03-01T00:00:00-05:00"), json!("2026-03-01T04:00:00Z"), "inverted_window"),
        (json!("2026-03-01T00:00:00"), json!("2026-03-02T00:00:00Z"), "bad_time"),
    ] {
        for clock in ["observed", "log", ""] {
            let window = json!({"from": from, "to": to, "clock": clock});
            for (target, pointer) in
                [("a source", "/retracted/targets/0/window"), ("an agent", "/retracted/targets/3/window")]
            {
                let json = frozen::changed("retracted", pointer, window.clone());
                assert_eq!(reader::fate(json.as_bytes(), None).word(), word, "{target}: {window}");
            }
        }
    }
}

/// Row 27. The contract says the same everywhere: null, absent, and for texts empty, are one and the same event.
#[test]
fn null_is_absent_at_every_depth() {
    let with = |value: Value| {
        let json = json!({"id": "e", "space": "s", "agent": value, "must_understand": value, "signature": value, "retracted": {
            "retraction": value, "reason": value, "replaces": value, "targets": [{"source": "x", "node": value, "window": {
                "from": value, "to": value, "clock": value}}]}});
        reader::event(&json.to_string())
    };
    let absent = reader::event(r#"{"id":"e","space":"s","retracted":{"targets":[{"source":"x","window":{}}]}}"#);
    assert_eq!(with(Value::Null), absent);
    let Some(Body::Retracted(retracted)) = absent.body else { panic!("another body") };
    assert_eq!(retracted.targets[0].what, Some(What::Source("x".to_owned())));
    assert_eq!(retracted.targets[0].window, Some(Window::default()));
}

/// Row 27, where presence counts: trust of nothing is not trust of zero.
#[test]
fn zero_is_not_absent_where_presence_counts() {
    let declared = |member: &str| {
        reader::event(&format!(r#"{{"id":"e","space":"s","source_declared":{{"source":"x"{member}}}}}"#))
    };
    assert_ne!(declared(r#","trust_millionths":0"#), declared(""));
    assert_eq!(declared(r#","trust_millionths":null"#), declared(""));
    assert_eq!(declared(r#","kind":"""#), declared(""));
}

fn observed(event: &Event) -> &Observed {
    let Some(Body::Observed(observed)) = &event.body else { panic!("another body") };
    observed
}
