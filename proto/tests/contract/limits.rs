//! Limits: exactly at the limit is accepted, one byte over is an error with its code, and nothing is ever cut.

use recant_proto::{
    id::ID_BYTES_MAX,
    reject::Code,
    v1::{Event, Limits},
    validate::{self, DEFAULT_LIMITS},
    wire,
};
use serde_json::{Value, json};

use crate::{frozen, reader};

/// Every place for an id: a frozen event and the JSON pointer.
const IDS: &[(&str, &str)] = &[
    ("observed", "/id"),
    ("observed", "/space"),
    ("observed", "/agent"),
    ("observed", "/run"),
    ("observed", "/step"),
    ("source_declared", "/source_declared/source"),
    ("source_declared", "/source_declared/kind"),
    ("source_declared", "/source_declared/group"),
    ("source_declared", "/source_declared/operator"),
    ("observed", "/observed/node"),
    ("observed", "/observed/source"),
    ("observed", "/observed/source_kind"),
    ("observed", "/observed/subject"),
    ("observed", "/observed/content/media_type"),
    ("observed", "/observed/embedding/model"),
    ("observed", "/observed/literals/0/kind"),
    ("observed-encrypted", "/observed/content/encrypted/key_id"),
    ("derived", "/derived/node"),
    ("derived", "/derived/subject"),
    ("derived", "/derived/justification/id"),
    ("derived", "/derived/justification/premises/1"),
    ("derived", "/derived/justification/rule/name"),
    ("derived", "/derived/justification/rule/model"),
    ("derived", "/derived/justification/rule/prompt_version"),
    ("derived", "/derived/justification/rule/input_hash"),
    ("justified", "/justified/node"),
    ("retracted", "/retracted/retraction"),
    ("retracted", "/retracted/by"),
    ("retracted", "/retracted/replaces/0"),
    ("retracted", "/retracted/targets/0/source"),
    ("retracted", "/retracted/targets/1/node"),
    ("retracted", "/retracted/targets/2/justification"),
    ("retracted", "/retracted/targets/3/agent/agent"),
    ("retracted", "/retracted/targets/3/agent/run"),
    ("reinstated", "/reinstated/retraction"),
    ("reinstated", "/reinstated/by"),
    ("action_proposed", "/action_proposed/action"),
    ("action_proposed", "/action_proposed/type"),
    ("action_proposed", "/action_proposed/subject"),
    ("action_settled", "/action_settled/action"),
    ("action_reviewed", "/action_reviewed/action"),
    ("action_reviewed", "/action_reviewed/by"),
    ("read", "/read/nodes/0"),
    ("handoff", "/handoff/to_agent"),
    ("handoff", "/handoff/to_run"),
    ("handoff", "/handoff/nodes/0"),
];

/// Every place for a text.
const TEXTS: &[(&str, &str)] = &[
    ("source_declared", "/source_declared/name"),
    ("source_declared", "/source_declared/attributes/country"),
    ("observed", "/observed/content/text"),
    ("observed", "/observed/literals/1/value"),
    ("observed", "/observed/attributes/message-id"),
    ("derived", "/derived/content/text"),
    ("derived", "/derived/literals/0/value"),
    ("derived", "/derived/attributes/confidence"),
    ("retracted", "/retracted/reason"),
    ("reinstated", "/reinstated/reason"),
    ("action_proposed", "/action_proposed/content/text"),
    ("action_proposed", "/action_proposed/attributes/to"),
    ("action_settled", "/action_settled/detail"),
    ("action_reviewed", "/action_reviewed/reason"),
    ("read", "/read/query"),
];

#[test]
fn an_id_has_256_bytes_at_most() {
    for (name, pointer) in IDS {
        for (bytes, code) in [(ID_BYTES_MAX, None), (ID_BYTES_MAX + 1, Some(Code::IdTooLong))] {
            // Two bytes a letter: bytes are counted, not characters.
            let id = "é".repeat(bytes / 2) + if bytes % 2 == 1 { "x" } else { "" };
            assert_eq!(refusal(&changed(name, pointer, json!(id))), code, "{name} {pointer}: {bytes} bytes");
        }
    }
}

/// The name of an attribute is an id too.
#[test]
fn the_name_of_an_attribute_has_256_bytes_at_most() {
    for name in ["source_declared", "observed", "derived", "action_proposed"] {
        for (bytes, code) in [(ID_BYTES_MAX, None), (ID_BYTES_MAX + 1, Some(Code::IdTooLong))] {
            let attributes = json!({ "n".repeat(bytes): "v" });
            assert_eq!(
                refusal(&changed(name, &format!("/{name}/attributes"), attributes)),
                code,
                "{name}: {bytes} bytes"
            );
        }
    }
}

#[test]
fn a_text_has_256_kib_at_most() {
    let max = DEFAULT_LIMITS.max_text_bytes as usize;
    assert_eq!(max, 262_144);
    for (name, pointer) in TEXTS {
        for (bytes, code) in [(max, None), (max + 1, Some(Code::TextTooLarge))] {
            assert_eq!(
                refusal(&changed(name, pointer, json!("t".repeat(bytes)))),
                code,
                "{name} {pointer}: {bytes} bytes"
            );
        }
    }
}

#[test]
fn a_ciphertext_has_256_kib_at_most() {
    for (bytes, code) in [(262_144, None), (262_145, Some(Code::TextTooLarge))] {
        let mut event = reader::event(&frozen::read_text("observed-encrypted.json"));
        let Some(recant_proto::v1::event::Body::Observed(observed)) = &mut event.body else { panic!("another body") };
        let Some(recant_proto::v1::content::Form::Encrypted(encrypted)) = &mut observed.content.as_mut().unwrap().form
        else {
            panic!("another form")
        };
        encrypted.ciphertext = vec![7; bytes];
        assert_eq!(refusal(&event), code, "{bytes} bytes");
    }
}

#[test]
fn a_justification_has_1024_premises_at_most() {
    for body in ["derived", "justified", "action_proposed"] {
        for (count, code) in [(1024, None), (1025, Some(Code::TooManyPremises))] {
            let premises: Vec<String> = (0..count).map(|number| format!("n-{number}")).collect();
            let event = changed(body, &format!("/{body}/justification/premises"), json!(premises));
            assert_eq!(refusal(&event), code, "{body}: {count} premises");
        }
    }
}

/// The bytes of the record's value count, in the form in which it came.
#[test]
fn an_event_has_1_mib_at_most() {
    assert_eq!(DEFAULT_LIMITS.max_event_bytes, 1_048_576);
    for (bytes, word) in [(1_048_576, "accepted"), (1_048_577, "event_too_large")] {
        let encoders: [fn(&Event) -> Vec<u8>; 2] =
            [wire::to_protobuf, |event| wire::to_json(event).to_string().into_bytes()];
        for encode in encoders {
            let value = encode(&event_of(bytes, encode));
            assert_eq!(value.len(), bytes);
            assert_eq!(reader::fate(&value, None).word(), word, "{bytes} bytes");
        }
    }
}

/// An event that is encoded in exactly so many bytes, with no text over its own limit.
fn event_of(bytes: usize, encode: fn(&Event) -> Vec<u8>) -> Event {
    let with_texts = |rest: usize| {
        let mut attributes = serde_json::Map::new();
        for name in ["a", "b", "c", "d"] {
            attributes.insert(name.to_owned(), json!("t".repeat(250_000)));
        }
        attributes.insert("rest".to_owned(), json!("t".repeat(rest)));
        changed("observed", "/observed/attributes", Value::Object(attributes))
    };
    let with_some = encode(&with_texts(40_000)).len();
    with_texts(40_000 + bytes - with_some)
}

/// A log may set other limits when it is created; they are what counts.
#[test]
fn the_limits_of_the_log_are_the_ones_that_count() {
    let event = reader::event(&frozen::read_text("derived.json"));
    let length = wire::to_protobuf(&event).len();
    let text = "The supplier's IBAN is DE02120300000000202051.".len() as u32;
    let exact = Limits { max_event_bytes: length as u32, max_text_bytes: text, max_premises: 2 };
    assert_eq!(validate::check(&event, length, &exact), Ok(()));
    for (limits, code) in [
        (Limits { max_event_bytes: length as u32 - 1, ..exact }, Code::EventTooLarge),
        (Limits { max_text_bytes: text - 1, ..exact }, Code::TextTooLarge),
        (Limits { max_premises: 1, ..exact }, Code::TooManyPremises),
    ] {
        assert_eq!(validate::check(&event, length, &limits).unwrap_err().code, code);
    }
}

fn refusal(event: &Event) -> Option<Code> {
    validate::check(event, wire::to_protobuf(event).len(), &DEFAULT_LIMITS).err().map(|violation| violation.code)
}

fn changed(name: &str, pointer: &str, value: Value) -> Event {
    reader::event(&frozen::changed(name, pointer, value))
}
