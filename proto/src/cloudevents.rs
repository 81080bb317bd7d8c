//! An event in a CloudEvent's JSON, the structured mode of its Kafka binding: `data` holds the event's JSON, or `data_base64` its
//! protobuf, as `datacontenttype` says. `id` and `type` are read as the headers `ce_id` and `ce_type` are.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::{
    json, names,
    reject::{Code, Violation},
    wire::{self, Decoded},
};

/// The media type of structured mode.
pub const MEDIA_TYPE: &str = "application/cloudevents+json";

/// Reads the event in a CloudEvent.
pub(crate) fn decode(value: &[u8]) -> Result<Decoded, Violation> {
    let refuse = |detail: String| Violation::new(Code::Undecodable, detail);
    let envelope = json::read(value).map_err(|error| refuse(format!("not a CloudEvent in JSON: {error}")))?;
    let attribute = |name: &str| envelope.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    for name in ["specversion", "id", "source", "type"] {
        if attribute(name).is_none() {
            return Err(refuse(format!("a CloudEvent has the attribute {name:?}, a text")));
        }
    }
    if attribute("specversion") != Some(names::CE_VERSION) {
        return Err(refuse(format!("the CloudEvent is of version {}; recant reads 1.0", envelope["specversion"])));
    }
    let content_type = attribute("datacontenttype").unwrap_or(names::JSON);
    if wire::media_type(content_type) == MEDIA_TYPE {
        return Err(Violation::new(Code::ContentType, "a CloudEvent in a CloudEvent is not read"));
    }
    let mut decoded = match (envelope.get("data"), attribute("data_base64")) {
        (Some(data), None) => wire::decode(data.to_string().as_bytes(), Some(content_type))?,
        (None, Some(data)) => {
            let data = STANDARD.decode(data).map_err(|error| refuse(format!("data_base64: {error}")))?;
            wire::decode(&data, Some(content_type))?
        }
        _ => return Err(refuse("a CloudEvent has either data or data_base64".to_owned())),
    };
    let contradicts = |name: &str, said: &str, is: &str| {
        Violation::at(Code::HeaderMismatch, name, format!("the CloudEvent says {said:?} and the event {is:?}"))
    };
    let id = attribute("id").unwrap_or_default();
    if decoded.event.id.is_empty() {
        id.clone_into(&mut decoded.event.id);
    } else if decoded.event.id != id {
        return Err(contradicts("id", id, &decoded.event.id));
    }
    if let Some(body) = &decoded.event.body {
        let (said, is) = (attribute("type").unwrap_or_default(), wire::cloud_event_type(body));
        if said != is {
            return Err(contradicts("type", said, &is));
        }
    }
    Ok(decoded)
}
