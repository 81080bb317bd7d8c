//! Which events need a signature in a log whose writers are not all trusted, and what it is over.
//!
//! Such a log was created with `writers = signed`. A right to write to its topic is then no right to retract or to reinstate. The
//! signature is Ed25519, in the event's field `signature`, by a key that is enrolled where the event lies, over these bytes:
//!
//! ```text
//! "recant.v1.signed\0"   what is signed, so that the key can be used for nothing else by accident
//! 16 bytes               the log's incarnation
//! the rest               the event's one protobuf encoding, without `signature`, and with the id that it has
//! ```
//!
//! Space and id are in the event. So a signature is of no use for other content, nor in another space, nor in another log; and
//! the same event a second time is a duplicate.

use crate::{
    position::Incarnation,
    v1::{Event, event::Body},
    wire,
};

/// What signed bytes begin with.
const DOMAIN: &[u8] = b"recant.v1.signed\0";

/// An Ed25519 public key takes so many bytes.
pub const PUBLIC_KEY_BYTES: usize = 32;

/// Whose signature an event needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signatory {
    /// Of any key that is enrolled.
    Enrolled,
    /// Of one that was enrolled as an operator's, or named when the log was created.
    Operator,
}

/// Whose signature an event with this body needs, if it needs one.
pub fn signatory_of(body: &Body) -> Option<Signatory> {
    match body {
        Body::SourceDeclared(_)
        | Body::Retracted(_)
        | Body::Reinstated(_)
        | Body::ActionReviewed(_)
        | Body::PolicySet(_) => Some(Signatory::Enrolled),
        Body::KeyEnrolled(_) | Body::KeyRevoked(_) => Some(Signatory::Operator),
        Body::Observed(_)
        | Body::Derived(_)
        | Body::Justified(_)
        | Body::ActionProposed(_)
        | Body::ActionSettled(_)
        | Body::Read(_)
        | Body::Handoff(_)
        | Body::LogCreated(_)
        | Body::LogicActivated(_)
        | Body::Tick(_) => None,
    }
}

/// What the signature of an event is over.
pub fn signed_bytes(incarnation: Incarnation, event: &Event) -> Vec<u8> {
    let unsigned = Event { signature: None, ..event.clone() };
    [DOMAIN, incarnation.0.as_slice(), &wire::to_protobuf(&unsigned)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{Reinstated, Signature};

    fn reinstated() -> Event {
        let body = Some(Body::Reinstated(Reinstated { retraction: "r".to_owned(), ..Reinstated::default() }));
        Event { id: "e".to_owned(), space: "s".to_owned(), body, ..Event::default() }
    }

    /// Others sign these very bytes: they never change.
    #[test]
    fn the_bytes_are_these() {
        let bytes = signed_bytes(Incarnation([7; 16]), &reinstated());
        let event = [b"\x0a\x01e\x12\x01s\xca\x01\x03\x0a\x01r".as_slice()].concat();
        assert_eq!(bytes, [b"recant.v1.signed\0".as_slice(), &[7; 16], &event].concat());
    }

    /// Another log, space, id or content has other bytes; the signature itself is not in them.
    #[test]
    fn they_are_of_one_event_in_one_space_of_one_log() {
        let (here, event) = (Incarnation([7; 16]), reinstated());
        let bytes = signed_bytes(here, &event);
        let others = [
            signed_bytes(Incarnation([8; 16]), &event),
            signed_bytes(here, &Event { space: "t".to_owned(), ..event.clone() }),
            signed_bytes(here, &Event { id: "f".to_owned(), ..event.clone() }),
            signed_bytes(here, &Event { agent: "a".to_owned(), ..event.clone() }),
        ];
        assert!(others.iter().all(|other| *other != bytes));
        let signature = Some(Signature { key_id: "k".to_owned(), ed25519: vec![1; 64] });
        assert_eq!(signed_bytes(here, &Event { signature, ..event }), bytes);
    }
}
