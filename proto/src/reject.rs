//! Why an event is refused: stable codes, each with a page under `docs/errors/`.

use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $code:literal, $title:literal;)+) => {
        /// A stable code. Codes are never reused and never change their meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[doc = $doc])+ $variant,)+ }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)+];

            /// The code as it is written in errors, rejections and file names of pages.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $code,)+ }
            }

            /// One line that says what the code means.
            pub fn title(self) -> &'static str {
                match self { $(Code::$variant => $title,)+ }
            }

            /// The code that is written so.
            pub fn parse(text: &str) -> Option<Code> {
                match text { $($code => Some(Code::$variant),)+ _ => None }
            }
        }
    };
}

codes! {
    /// The bytes are neither a protobuf `recant.v1.Event` nor its JSON.
    Undecodable = "undecodable", "The bytes are not an event";
    /// JSON names a field that the contract does not have.
    UnknownField = "unknown_field", "The JSON has a field that the contract does not know";
    /// The content type is none that recant reads.
    ContentType = "content_type", "The content type is not one that recant reads";
    /// A header or the key says something else than the event.
    HeaderMismatch = "header_mismatch", "A header or the key contradicts the event";
    /// The record lies in a partition that is not its key's.
    WrongPartition = "wrong_partition", "The record lies in the wrong partition";
    /// The event is larger than the log's limit.
    EventTooLarge = "event_too_large", "The event is larger than the limit";
    /// A text is larger than the log's limit.
    TextTooLarge = "text_too_large", "A text is larger than the limit";
    /// A justification has more premises than the log's limit.
    TooManyPremises = "too_many_premises", "A justification has too many premises";
    /// A field that must be there is absent or empty.
    MissingField = "missing_field", "A field that must be there is absent";
    /// The event has no body.
    MissingBody = "missing_body", "The event has no body";
    /// An id is longer than 256 bytes.
    IdTooLong = "id_too_long", "An id is longer than 256 bytes";
    /// A time is not RFC 3339 with an offset.
    BadTime = "bad_time", "A time is not RFC 3339 with an offset";
    /// A window ends before it begins.
    InvertedWindow = "inverted_window", "A window ends before it begins";
    /// A field has a value that the contract does not know.
    BadValue = "bad_value", "A field has a value that the contract does not allow";
    /// An amount is not a decimal string, or has no currency.
    BadAmount = "bad_amount", "An amount is not a decimal with an ISO 4217 currency";
    /// A justification has no premises.
    NoPremises = "no_premises", "A justification needs at least one premise";
    /// A retraction names no target.
    NoTargets = "no_targets", "A retraction needs at least one target";
    /// A body stands in a space where it has no place.
    WrongSpace = "wrong_space", "The body has no place in this space";
    /// Trust, group, cost or a change of kind needs an operator.
    OperatorNeeded = "operator_needed", "Only an operator can say this of a source";
    /// The event id was used before, with other bytes.
    EventIdTaken = "event_id_taken", "The event id was used before, with other bytes";
    /// The node id was used before, with other content.
    NodeIdTaken = "node_id_taken", "The node id was used before, with other content";
    /// The justification id was used before, for something else.
    JustificationIdTaken = "justification_id_taken", "The justification id was used before, for another reason";
    /// The retraction id was used before, or is spent.
    RetractionIdTaken = "retraction_id_taken", "The retraction id was used before";
    /// Something was applied to the space after `only_if_position`.
    PositionPassed = "position_passed", "The space has moved on since that position";
    /// An action cannot go from its state to that one.
    ActionTransition = "action_transition", "The action cannot take that step from its state";
    /// The writers of the log sign, and the event needs a signature and has none.
    SignatureNeeded = "signature_needed", "The event needs a signature in this log";
    /// The signature is not that of its key over this event in this log.
    SignatureInvalid = "signature_invalid", "The signature is not that of its key over this event";
    /// The key that signed is not enrolled at this position, is revoked, or may not sign this.
    KeyNotInForce = "key_not_in_force", "The key that signed is not in force here";
    /// The body or mode is reserved and has no effect in this logic version.
    NotInThisVersion = "not_in_this_version", "This version cannot do that yet";
}

/// A detail is cut to this many bytes: it may quote what was refused, and a rejection already carries that whole.
const DETAIL_BYTES_MAX: usize = 1024;

/// One event's refusal: a code, the field where there is one, and what was wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default(), detail)]
pub struct Violation {
    /// What kind of refusal.
    pub code: Code,
    /// The field, as a path in the JSON form.
    pub field: Option<String>,
    /// What was wrong here, and what to do.
    pub detail: String,
}

impl Violation {
    /// A refusal that concerns the event as a whole.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Violation { code, field: None, detail: bounded(detail.into()) }
    }

    /// A refusal that concerns one field.
    pub fn at(code: Code, field: impl Into<String>, detail: impl Into<String>) -> Self {
        Violation { code, field: Some(field.into()), detail: bounded(detail.into()) }
    }
}

fn bounded(mut detail: String) -> String {
    if detail.len() > DETAIL_BYTES_MAX {
        detail.truncate(detail.floor_char_boundary(DETAIL_BYTES_MAX));
        detail.push('…');
    }
    detail
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
