//! Frozen: every body and message in both forms, the numbers of all fields, fingerprints, cursors and currencies.

use std::{collections::BTreeSet, fmt::Debug, fmt::Write};

use prost_types::{DescriptorProto, field_descriptor_proto::Type};
use recant_proto::{
    position::{ChangeId, Incarnation, Position},
    v1::{Change, Event, Rejection, event::Body},
    wire::{self, Decoded},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{descriptors, frozen, reader};

/// Protects every log that exists: what was written in either form is read as the same message, and written again as the
/// very same bytes.
#[test]
fn each_message_is_the_same_bytes_for_ever() {
    for name in frozen::stems("", ".json") {
        match name.split('-').next().unwrap() {
            "change" => holds::<Change>(&name),
            "rejection" => holds::<Rejection>(&name),
            body => {
                holds::<Event>(&name);
                let event = reader::event(&frozen::read_text(&format!("{name}.json")));
                assert_eq!(wire::body_name(event.body.as_ref().unwrap()), body, "{name}: a file is named for its body");
            }
        }
    }
}

/// A forgotten file would leave its message free to change.
#[test]
fn no_protobuf_file_is_without_its_json() {
    assert_eq!(frozen::stems("", ".pb"), frozen::stems("", ".json"));
}

fn holds<M: prost::Message + Default + PartialEq + Debug + Serialize + DeserializeOwned>(name: &str) {
    let from_json: M = serde_json::from_slice(&frozen::read(&format!("{name}.json"))).unwrap();
    frozen::compare(&format!("{name}.pb"), &from_json.encode_to_vec());
    let from_protobuf = M::decode(frozen::read(&format!("{name}.pb")).as_slice()).unwrap();
    assert_eq!(from_json, from_protobuf, "{name}");
    for message in [from_json, from_protobuf] {
        frozen::compare(&format!("{name}.json"), pretty(&message).as_bytes());
        frozen::compare(&format!("{name}.pb"), &message.encode_to_vec());
    }
}

fn pretty<M: Serialize>(message: &M) -> String {
    format!("{:#}\n", wire::to_json(message))
}

/// The product's own reader, not only the generated code, reads the frozen events: by content type and by first byte.
#[test]
fn decode_reads_both_forms_with_and_without_a_content_type() {
    for name in event_names() {
        let json = frozen::read(&format!("{name}.json"));
        let protobuf = frozen::read(&format!("{name}.pb"));
        let event = reader::event(std::str::from_utf8(&json).unwrap());
        let expected = Decoded { event, unknown_body: None };
        for content_type in [None, Some("application/json"), Some("Application/JSON; charset=utf-8")] {
            assert_eq!(wire::decode(&json, content_type), Ok(expected.clone()), "{name} {content_type:?}");
        }
        for content_type in [None, Some("application/protobuf"), Some("application/x-protobuf")] {
            assert_eq!(wire::decode(&protobuf, content_type), Ok(expected.clone()), "{name} {content_type:?}");
        }
    }
}

/// The frozen events are valid, so that they are examples too.
#[test]
fn each_frozen_event_is_accepted() {
    for name in event_names() {
        assert_eq!(reader::fate(&frozen::read(&format!("{name}.pb")), None).word(), "accepted", "{name}");
    }
}

fn event_names() -> Vec<String> {
    let mut names = frozen::stems("", ".json");
    names.retain(|name| !name.starts_with("change") && !name.starts_with("rejection"));
    names
}

/// A field that stands in no frozen file is not frozen.
#[test]
fn each_field_of_the_contract_stands_in_a_frozen_file() {
    let messages = descriptors::messages();
    let mut missing: BTreeSet<String> = BTreeSet::new();
    for message in &messages {
        missing.extend(message.field.iter().map(|field| format!("{}.{}", message.name(), field.name())));
    }
    for name in frozen::stems("", ".json") {
        let root = match name.split('-').next().unwrap() {
            "change" => ".recant.v1.Change",
            "rejection" => ".recant.v1.Rejection",
            _ => ".recant.v1.Event",
        };
        let json: Value = serde_json::from_slice(&frozen::read(&format!("{name}.json"))).unwrap();
        strike_out(&messages, root, &json, &mut missing);
    }
    assert!(missing.is_empty(), "in no file under golden/v1: {missing:?}");
}

fn strike_out(messages: &[DescriptorProto], type_name: &str, json: &Value, missing: &mut BTreeSet<String>) {
    let Some(message) = descriptors::message(messages, type_name) else { return };
    for field in &message.field {
        let Some(value) = json.get(field.name()) else { continue };
        missing.remove(&format!("{}.{}", message.name(), field.name()));
        if field.r#type() == Type::Message {
            let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            items.iter().for_each(|item| strike_out(messages, field.type_name(), item, missing));
        }
    }
}

/// A number, name or type that changes shows here as one line of a diff.
#[test]
fn the_numbers_of_all_fields_are_frozen() {
    let mut lines = String::new();
    for message in descriptors::messages() {
        for field in &message.field {
            let (message, name, number) = (message.name(), field.name(), field.number());
            writeln!(lines, "{message}.{name} = {number}: {}", descriptors::type_of(field)).unwrap();
        }
    }
    frozen::compare("fields.txt", lines.as_bytes());
}

/// State keeps fingerprints for ever: with another hash every repeated event would be `event_id_taken`.
#[test]
fn fingerprints_are_frozen_and_the_same_from_both_forms() {
    let mut lines = String::new();
    for name in event_names() {
        let [json, protobuf] = ["json", "pb"].map(|form| {
            let value = frozen::read(&format!("{name}.{form}"));
            hex(&wire::fingerprint(&wire::decode(&value, None).unwrap(), &value))
        });
        assert_eq!(json, protobuf, "{name}");
        writeln!(lines, "{name} {json}").unwrap();
    }
    frozen::compare("fingerprints.txt", lines.as_bytes());
}

/// An unknown body cannot be encoded again, so its bytes as they came tell it apart.
#[test]
fn an_unknown_body_is_told_apart_by_its_bytes() {
    let fingerprint = |json: &str| wire::fingerprint(&wire::decode(json.as_bytes(), None).unwrap(), json.as_bytes());
    let one = fingerprint(r#"{"id":"e","space":"s","from_the_future":{"a":1}}"#);
    assert_eq!(one, fingerprint(r#"{"id":"e","space":"s","from_the_future":{"a":1}}"#));
    assert_ne!(one, fingerprint(r#"{"id":"e","space":"s","from_the_future":{"a":2}}"#));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A consumer comes back with the cursor that it kept.
#[test]
fn change_ids_and_cursors_are_frozen() {
    let id = ChangeId {
        incarnation: Incarnation(std::array::from_fn(|index| index as u8)),
        position: Position { partition: 5, offset: 1_000_000 },
        index: 3,
    };
    assert_eq!(id.to_string(), "000102030405060708090a0b0c0d0e0f:5:1000000:3");
    assert_eq!(id.to_cursor(), "AQABAgMEBQYHCAkKCwwNDg8AAAAFAAAAAAAPQkAAAAAD");
    assert_eq!(ChangeId::from_cursor("AQABAgMEBQYHCAkKCwwNDg8AAAAFAAAAAAAPQkAAAAAD"), Ok(id));
}

/// A newer list of currencies would decide old events anew; it takes a new logic version.
#[test]
fn the_currencies_are_frozen() {
    let letters = || b'A'..=b'Z';
    let mut codes = String::new();
    for code in letters().flat_map(|a| letters().flat_map(move |b| letters().map(move |c| [a, b, c]))) {
        let code = String::from_utf8(code.to_vec()).unwrap();
        let mut event = reader::event(&frozen::read_text("action_proposed.json"));
        let Some(Body::ActionProposed(proposed)) = &mut event.body else { panic!("another body") };
        proposed.currency = code.clone();
        if recant_proto::validate::check(&event, 0, &recant_proto::validate::DEFAULT_LIMITS).is_ok() {
            writeln!(codes, "{code}").unwrap();
        }
    }
    frozen::compare("currencies.txt", codes.as_bytes());
}
