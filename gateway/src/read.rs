//! Events as callers send them: read, completed and checked. What breaks a rule by itself is refused here, and never comes as far as the
//! log; what depends on the state is found out when the event is processed.

use recant_proto::{
    id::CONTROL_SPACE,
    reject::{Code, Violation},
    v1::Event,
    validate, wire,
};

/// An event that the contract refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its id, as far as it could be read.
    pub event_id: String,
    /// Why.
    pub violation: Violation,
}

/// Reads and checks an event in the form that a content type names. One that names no space is of the default one, if there is one.
pub fn read_event(value: &[u8], content_type: &str, default_space: Option<&str>) -> Result<Event, Refused> {
    let decoded = decode(value, content_type)?;
    complete(decoded, default_space).and_then(check)
}

/// Reads an event; its body must be one that this version knows, since it would be lost.
fn decode(value: &[u8], content_type: &str) -> Result<Event, Refused> {
    let unreadable = |violation| Refused { event_id: String::new(), violation };
    let decoded = wire::decode(value, Some(content_type)).map_err(unreadable)?;
    match &decoded.unknown_body {
        None => Ok(decoded.event),
        Some(body) => {
            let detail =
                format!("this version does not know the body {body:?}, and would lose it; install a newer recant");
            Err(Refused { event_id: decoded.event.id, violation: Violation::new(Code::UnknownField, detail) })
        }
    }
}

fn complete(mut event: Event, default_space: Option<&str>) -> Result<Event, Refused> {
    if event.space.is_empty() {
        event.space = default_space.unwrap_or_default().to_owned();
    }
    if event.body.is_none() {
        let detail = "an event says one thing: observed, derived, retracted and so on";
        return Err(Refused { event_id: event.id, violation: Violation::new(Code::MissingBody, detail) });
    }
    Ok(event)
}

/// Checks an event by itself.
pub fn check(event: Event) -> Result<Event, Refused> {
    if event.space == CONTROL_SPACE {
        let detail = format!("the space {} is the log's own", event.space);
        return Err(Refused { event_id: event.id, violation: Violation::at(Code::WrongSpace, "space", detail) });
    }
    match validate::check(&event, wire::to_protobuf(&event).len(), &validate::DEFAULT_LIMITS) {
        Ok(()) => Ok(event),
        Err(violation) => Err(Refused { event_id: event.id, violation }),
    }
}

/// Reads an event that was sent to a space, with the id that it was sent under if there is one beside it, and checks it.
pub fn read_event_for(space: &str, value: &[u8], content_type: &str, key: Option<&str>) -> Result<Event, Refused> {
    let mut event = complete(decode(value, content_type)?, Some(space))?;
    let contradicts = |event: &Event, code, field, detail: String| Refused {
        event_id: event.id.clone(),
        violation: Violation::at(code, field, detail),
    };
    if event.space != space {
        let detail = format!("the event is of {:?} and was sent to {space:?}", event.space);
        return Err(contradicts(&event, Code::WrongSpace, "space", detail));
    }
    if let Some(key) = key {
        if event.id.is_empty() {
            event.id = key.to_owned();
        } else if event.id != key {
            let detail = format!("the header says {key:?} and the event {:?}: the key is the event's id", event.id);
            return Err(contradicts(&event, Code::HeaderMismatch, "Idempotency-Key", detail));
        }
    }
    check(event)
}
