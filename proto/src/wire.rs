//! The two wire forms of an event: protobuf and canonical proto3 JSON of the same message. A CloudEvent in structured mode
//! (`cloudevents.rs`) holds one of them.
//!
//! In JSON, null means absent, names are those of the .proto file (lowerCamelCase is read too), and a field that the
//! contract does not know is refused, since it is more often a slip of the pen than a message from the future; so is a
//! member that stands twice, of which other readers might believe the other one. In protobuf, unknown fields are passed
//! over, as protobuf has it. In both, a body that is not known is told apart, and two bodies are refused.

use prost::{
    Message,
    encoding::{DecodeContext, WireType, decode_key, skip_field},
};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    cloudevents, json, names,
    reject::{Code, Violation},
    v1::{Event, event::Body},
};

/// The field numbers of `Event` that are, or may become, bodies.
const BODY_NUMBERS: std::ops::RangeInclusive<u32> = 20..=99;

/// The members of an event's JSON that are not its body.
const ENVELOPE: [&str; 11] = [
    "id",
    "space",
    "agent",
    "run",
    "step",
    "occurred_at",
    "occurredAt",
    "signature",
    "must_understand",
    "mustUnderstand",
    "body",
];

/// What a record's value holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The event; its body is absent if it is not known.
    pub event: Event,
    /// The name (JSON) or number (protobuf) of a body from a newer writer.
    pub unknown_body: Option<String>,
}

/// Reads a value in the form that its content type names; without one, a value that begins with `{` is JSON.
pub fn decode(value: &[u8], content_type: Option<&str>) -> Result<Decoded, Violation> {
    let media_type = content_type.map(media_type);
    match media_type.as_deref() {
        // No event in protobuf begins so: it would be field 15 as a group.
        None if value.first() == Some(&b'{') => decode_json(value),
        None | Some(names::PROTOBUF | "application/x-protobuf" | "application/octet-stream") => decode_protobuf(value),
        Some(names::JSON) => decode_json(value),
        Some(cloudevents::MEDIA_TYPE) => cloudevents::decode(value),
        Some(other) => Err(Violation::new(
            Code::ContentType,
            format!(
                "content type {other:?}; recant reads {}, {} and {}",
                names::PROTOBUF,
                names::JSON,
                cloudevents::MEDIA_TYPE
            ),
        )),
    }
}

/// A content type without its parameters.
pub(crate) fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn decode_protobuf(value: &[u8]) -> Result<Decoded, Violation> {
    let event = Event::decode(value).map_err(undecodable)?;
    let body_number = only_body_number(value)?;
    let unknown_body = if event.body.is_some() { None } else { body_number.map(|number| number.to_string()) };
    Ok(Decoded { event, unknown_body })
}

/// The field number of the one body. Protobuf would let the last of several win; whoever wrote the first believes otherwise.
fn only_body_number(mut value: &[u8]) -> Result<Option<u32>, Violation> {
    let mut found: Option<u32> = None;
    while !value.is_empty() {
        let (number, wire_type): (u32, WireType) = decode_key(&mut value).map_err(undecodable)?;
        skip_field(wire_type, number, &mut value, DecodeContext::default()).map_err(undecodable)?;
        if !BODY_NUMBERS.contains(&number) {
            continue;
        }
        if let Some(first) = found {
            let detail = format!("an event has one body; fields {first} and {number} are two");
            return Err(Violation::new(Code::Undecodable, detail));
        }
        found = Some(number);
    }
    Ok(found)
}

fn undecodable(error: prost::DecodeError) -> Violation {
    Violation::new(Code::Undecodable, format!("not a protobuf event: {error}"))
}

fn decode_json(value: &[u8]) -> Result<Decoded, Violation> {
    let json = json::read(value).map_err(|error| Violation::new(Code::Undecodable, format!("not JSON: {error}")))?;
    event_from_json(json)
}

/// Reads an event from JSON that has no nulls.
fn event_from_json(mut json: Value) -> Result<Decoded, Violation> {
    match Event::deserialize(&json) {
        Ok(event) => Ok(Decoded { event, unknown_body: None }),
        Err(error) => {
            // A single unknown member that holds an object, and no known body beside it, is a body from a newer writer.
            if let Some(members) = json.as_object_mut() {
                let unknown = members.keys().find(|name| !ENVELOPE.contains(&name.as_str())).cloned();
                if let Some(name) = unknown
                    && members.remove(&name).is_some_and(|body| body.is_object())
                    && let Ok(event) = Event::deserialize(&json)
                    && event.body.is_none()
                    && error.to_string().starts_with(&format!("unknown field `{name}`"))
                {
                    return Ok(Decoded { event, unknown_body: Some(name) });
                }
            }
            let text = error.to_string();
            let code = if text.starts_with("unknown field") { Code::UnknownField } else { Code::Undecodable };
            Err(Violation::new(code, text))
        }
    }
}

/// The event in protobuf: one encoding for one event.
pub fn to_protobuf(event: &Event) -> Vec<u8> {
    event.encode_to_vec()
}

/// Any message of the contract as canonical proto3 JSON with the names of the .proto file.
pub fn to_json<M: serde::Serialize>(message: &M) -> Value {
    // Serialising a message to a value fails only on map keys that are not strings, and the contract has none.
    serde_json::to_value(message).unwrap_or(Value::Null)
}

/// The name of an event's body, as in JSON.
pub fn body_name(body: &Body) -> &'static str {
    match body {
        Body::SourceDeclared(_) => "source_declared",
        Body::Observed(_) => "observed",
        Body::Derived(_) => "derived",
        Body::Justified(_) => "justified",
        Body::Retracted(_) => "retracted",
        Body::Reinstated(_) => "reinstated",
        Body::ActionProposed(_) => "action_proposed",
        Body::ActionSettled(_) => "action_settled",
        Body::ActionReviewed(_) => "action_reviewed",
        Body::Read(_) => "read",
        Body::Handoff(_) => "handoff",
        Body::LogCreated(_) => "log_created",
        Body::PolicySet(_) => "policy_set",
        Body::LogicActivated(_) => "logic_activated",
        Body::Tick(_) => "tick",
        Body::KeyEnrolled(_) => "key_enrolled",
        Body::KeyRevoked(_) => "key_revoked",
    }
}

/// The type of an event as a CloudEvent.
pub fn cloud_event_type(body: &Body) -> String {
    format!("recant.v1.{}", body_name(body))
}

/// What tells two events with the same id apart: a hash of the event's one protobuf encoding, whatever form it came in.
/// An event with an unknown body is told apart by the bytes as they came.
pub fn fingerprint(decoded: &Decoded, value: &[u8]) -> [u8; 16] {
    let hash = match decoded.unknown_body {
        None => blake3::hash(&to_protobuf(&decoded.event)),
        Some(_) => blake3::hash(value),
    };
    std::array::from_fn(|index| hash.as_bytes()[index])
}
