//! What becomes of a record's value before anyone looks at the state: the stateless half of folding an event.

use recant_proto::{
    reject::{Code, Violation},
    v1::Event,
    validate::{self, DEFAULT_LIMITS},
    wire,
};

#[derive(Debug, PartialEq)]
pub enum Fate {
    Accepted(Box<Event>),
    Skipped,
    Stops,
    Rejected(Violation),
}

pub fn fate(value: &[u8], content_type: Option<&str>) -> Fate {
    let decoded = match wire::decode(value, content_type) {
        Ok(decoded) => decoded,
        Err(violation) => return Fate::Rejected(violation),
    };
    match (&decoded.event.body, decoded.unknown_body) {
        // A newer contract may have other rules for the envelope too.
        (None, Some(_)) if decoded.event.must_understand => return Fate::Stops,
        (None, None) => return Fate::Rejected(Violation::new(Code::MissingBody, "an event has one body")),
        _ => {}
    }
    match validate::check(&decoded.event, value.len(), &DEFAULT_LIMITS) {
        Err(violation) => Fate::Rejected(violation),
        Ok(()) if decoded.event.body.is_none() => Fate::Skipped,
        Ok(()) => Fate::Accepted(Box::new(decoded.event)),
    }
}

impl Fate {
    /// In one word: `accepted`, `skipped`, `stops`, or the code of the rejection.
    pub fn word(&self) -> &'static str {
        match self {
            Fate::Accepted(_) => "accepted",
            Fate::Skipped => "skipped",
            Fate::Stops => "stops",
            Fate::Rejected(violation) => violation.code.as_str(),
        }
    }
}

/// An event from its JSON, which must be one.
pub fn event(json: &str) -> Event {
    wire::decode(json.as_bytes(), Some("application/json")).unwrap_or_else(|error| panic!("{error}\n{json}")).event
}
