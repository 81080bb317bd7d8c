//! The JSON form: numbers, bytes, names and members, as canonical proto3 JSON has them, and stricter where two readers
//! could read two things.

use recant_proto::{
    v1::{Event, content::Form, event::Body},
    wire,
};
use serde_json::json;

use crate::{frozen, reader};

/// JavaScript's numbers end at 2^53: 64-bit numbers are written as strings, and read as either.
#[test]
fn a_64_bit_number_is_written_as_a_string_and_read_as_both() {
    let cost = |text: &str| {
        let event = reader::event(&format!(
            r#"{{"id":"e","space":"s","source_declared":{{"source":"x","cost_millionths":{text}}}}}"#
        ));
        let Some(Body::SourceDeclared(declared)) = &event.body else { panic!("another body") };
        (declared.cost_millionths.unwrap(), wire::to_json(&event)["source_declared"]["cost_millionths"].clone())
    };
    for text in ["9007199254740993", "\"9007199254740993\""] {
        assert_eq!(cost(text), (9_007_199_254_740_993, json!("9007199254740993")));
    }
    assert_eq!(cost("\"9223372036854775807\"").0, i64::MAX);
}

#[test]
fn a_number_that_does_not_fit_is_refused_not_rounded() {
    for (name, pointer, value) in [
        ("source_declared", "/source_declared/cost_millionths", json!("9223372036854775808")),
        ("source_declared", "/source_declared/cost_millionths", json!(1.5)),
        ("source_declared", "/source_declared/cost_millionths", json!("")),
        ("source_declared", "/source_declared/cost_millionths", json!(true)),
        ("log_created", "/log_created/partitions", json!(4_294_967_296_u64)),
        ("log_created", "/log_created/partitions", json!(-1)),
        ("observed-hash", "/observed/content/hash/length_bytes", json!(-1)),
    ] {
        assert_eq!(
            reader::fate(frozen::changed(name, pointer, value.clone()).as_bytes(), None).word(),
            "undecodable",
            "{value}"
        );
    }
}

/// Base64 is written in the standard alphabet with padding, and read in both alphabets with and without.
#[test]
fn bytes_are_base64() {
    for text in ["+/79/A==", "-_79_A==", "+/79/A", "-_79_A"] {
        let event =
            reader::event(&frozen::changed("observed-encrypted", "/observed/content/encrypted/nonce", json!(text)));
        let Some(Body::Observed(observed)) = &event.body else { panic!("another body") };
        let Some(Form::Encrypted(encrypted)) = &observed.content.as_ref().unwrap().form else { panic!("another form") };
        assert_eq!(encrypted.nonce, [0xfb, 0xfe, 0xfd, 0xfc], "{text}");
        assert_eq!(wire::to_json(&event)["observed"]["content"]["encrypted"]["nonce"], "+/79/A==");
    }
    for value in [json!("!"), json!("AAA"), json!("A"), json!("AA AA"), json!(1), json!([1, 2])] {
        let json = frozen::changed("observed-encrypted", "/observed/content/encrypted/nonce", value.clone());
        let word = reader::fate(json.as_bytes(), None).word();
        // Three letters without padding are two bytes.
        assert_eq!(word, if value == json!("AAA") { "accepted" } else { "undecodable" }, "{value}");
    }
}

/// Each kind of value is taken for what it is.
#[test]
fn a_value_of_another_type_is_refused() {
    for (pointer, value) in [
        ("/id", json!(7)),
        ("/must_understand", json!("true")),
        ("/retracted", json!("r-1")),
        ("/retracted", json!([])),
        ("/retracted/targets", json!({})),
        ("/retracted/replaces", json!("r-0")),
        ("/retracted/targets/0/window", json!("2026")),
    ] {
        let json = frozen::changed("retracted", pointer, value.clone());
        assert_eq!(reader::fate(json.as_bytes(), None).word(), "undecodable", "{pointer} = {value}");
    }
}

/// One of several: two at once is two opinions.
#[test]
fn two_forms_of_one_thing_are_refused() {
    for (name, pointer, value) in [
        ("observed", "/observed/content", json!({"text": "a", "hash": {}})),
        ("retracted", "/retracted/targets/0", json!({"source": "s", "node": "n"})),
    ] {
        assert_eq!(
            reader::fate(frozen::changed(name, pointer, value).as_bytes(), None).word(),
            "undecodable",
            "{name}"
        );
    }
}

/// A slip of the pen is told, at every depth, also in the body that has no fields.
#[test]
fn an_unknown_member_is_refused_at_every_depth() {
    for (name, pointer, value) in [
        ("tick", "/tick", json!({"at": 1})),
        ("retracted", "/retracted/targets/0/window", json!({"since": "x"})),
        ("retracted", "/retracted/targets/3/agent", json!({"agent": "a", "name": "b"})),
        ("derived", "/derived/justification/rule", json!({"prompt": "x"})),
        ("observed", "/observed/content", json!({"body": "x"})),
    ] {
        assert_eq!(
            reader::fate(frozen::changed(name, pointer, value).as_bytes(), None).word(),
            "unknown_field",
            "{name} {pointer}"
        );
    }
}

/// What is written is always read again, and 127 levels are as deep as JSON goes here.
#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| {
        format!(r#"{{"id":"e","space":"s","later":{{"a":{}{}}}}}"#, "[".repeat(levels), "]".repeat(levels))
    };
    assert_eq!(reader::fate(nested(125).as_bytes(), None).word(), "skipped");
    assert_eq!(reader::fate(nested(126).as_bytes(), None).word(), "undecodable");
    assert_eq!(reader::fate(nested(100_000).as_bytes(), None).word(), "undecodable");
}

/// Names are written as in the .proto files; lowerCamelCase is read, so that stock protobuf libraries can write it.
#[test]
fn lower_camel_case_is_read_and_never_written() {
    let snake = frozen::read_text("retracted.json");
    let camel = snake.replace("must_understand", "mustUnderstand").replace("only_if_position", "onlyIfPosition");
    assert_ne!(snake, camel);
    let event: Event = reader::event(&camel);
    assert_eq!(event, reader::event(&snake));
    assert!(!wire::to_json(&event).to_string().contains("onlyIf"));
}
