//! What can be said of a record by itself, whatever the state: decoded, checked, and hashed to be told from others.
//!
//! It is a third of what folding an event takes, and need not wait for the events before it: [`prepare_ahead`] has a thread do
//! it while they are folded.

use std::{
    borrow::Cow,
    sync::{Mutex, PoisonError},
    thread,
};

use recant_proto::{
    input::Input,
    names,
    reject::{Code, Violation},
    v1::{Event, Limits},
    validate,
    wire::{self, Decoded},
};

use crate::tables::events;

/// So few records are prepared before a thread has begun.
const AHEAD_MIN: usize = 128;

/// So many records are prepared at once. Whoever folds waits for the last ones of such a piece at most.
const PIECE: usize = 32;

/// What of the log's own settings matters here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Terms {
    pub limits: Limits,
    /// Whether writers sign.
    pub writers_sign: bool,
}

/// A record of which everything is known that needs no state.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The space and the id, as far as they could be read.
    pub space: String,
    /// As above.
    pub event_id: String,
    pub outcome: Result<Sound, Unsound>,
    /// What was in force when it was prepared. A record before it may set others.
    pub terms: Terms,
}

/// An event that is valid by itself.
#[derive(Debug)]
pub(super) struct Sound {
    pub decoded: Decoded,
    /// Of its id.
    pub id_hash: [u8; 16],
    pub fingerprint: [u8; 16],
}

/// One that is not.
#[derive(Debug)]
pub(super) enum Unsound {
    Broken(Violation),
    /// It must be understood, and has a body of this name or number.
    MustUnderstand(String),
}

impl From<Violation> for Unsound {
    fn from(violation: Violation) -> Self {
        Unsound::Broken(violation)
    }
}

impl Prepared {
    /// What it holds, if it is valid by itself.
    pub fn sound(&self) -> Option<&Sound> {
        self.outcome.as_ref().ok()
    }
}

/// Decodes, checks and hashes a record.
pub(super) fn prepare(input: &Input<'_>, terms: &Terms) -> Prepared {
    let (mut space, mut event_id) = (String::new(), String::new());
    let outcome = sound(input, terms, &mut space, &mut event_id);
    Prepared { space, event_id, outcome, terms: *terms }
}

fn sound(input: &Input<'_>, terms: &Terms, space: &mut String, event_id: &mut String) -> Result<Sound, Unsound> {
    let mut decoded = wire::decode(input.value, header(input, names::CONTENT_TYPE).as_deref())?;
    space.clone_from(&decoded.event.space);
    fill_from_headers(&mut decoded.event, input)?;
    event_id.clone_from(&decoded.event.id);
    if let Some(body) = &decoded.unknown_body
        && decoded.event.must_understand
    {
        return Err(Unsound::MustUnderstand(body.clone()));
    }
    if decoded.event.body.is_none() && decoded.unknown_body.is_none() {
        let detail = "an event says one thing: observed, derived, retracted and so on";
        return Err(Violation::new(Code::MissingBody, detail).into());
    }
    validate::check(&decoded.event, input.value.len(), &terms.limits)?;
    let id_hash = events::id_hash(&decoded.event.id);
    // Whoever signs it again, with another key, says the same again.
    let signature = if terms.writers_sign { decoded.event.signature.take() } else { None };
    let fingerprint = wire::fingerprint(&decoded, input.value);
    decoded.event.signature = signature.or(decoded.event.signature);
    Ok(Sound { decoded, id_hash, fingerprint })
}

fn header<'a>(input: &Input<'a>, name: &str) -> Option<Cow<'a, str>> {
    let value = input.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name))?;
    Some(String::from_utf8_lossy(&value.1))
}

/// Takes the id from `ce_id` if the event has none, and refuses headers that say something else than the event.
fn fill_from_headers(event: &mut Event, input: &Input<'_>) -> Result<(), Violation> {
    let contradicts = |name: &str, said: &str, is: &str| {
        Violation::at(Code::HeaderMismatch, name, format!("the header says {said:?} and the event {is:?}"))
    };
    if let Some(id) = header(input, names::CE_ID) {
        if event.id.is_empty() {
            event.id = id.into_owned();
        } else if event.id != id {
            return Err(contradicts(names::CE_ID, &id, &event.id));
        }
    }
    if let (Some(said), Some(body)) = (header(input, names::CE_TYPE), &event.body) {
        let is = format!("recant.v1.{}", wire::body_name(body));
        if said != is {
            return Err(contradicts(names::CE_TYPE, &said, &is));
        }
    }
    Ok(())
}

/// Gives records to be folded, prepared, some at a time: by a thread while those before them are folded, or by the one that folds if the
/// thread has not come so far. What is given depends on the records alone.
pub(super) fn prepare_ahead<T>(
    inputs: &[Input<'_>],
    terms: Terms,
    fold: impl FnOnce(&mut dyn Iterator<Item = Vec<Prepared>>) -> T,
) -> T {
    let pieces: Vec<_> = inputs.chunks(PIECE).map(|inputs| Piece { inputs, stage: Mutex::default() }).collect();
    let mut prepared = pieces.iter().map(|piece| piece.take(&terms));
    if inputs.len() < AHEAD_MIN {
        return fold(&mut prepared);
    }
    thread::scope(|scope| {
        // If there is no thread to be had, whoever folds does it all.
        let _ = thread::Builder::new()
            .name("event-reader".to_owned())
            .spawn_scoped(scope, || pieces.iter().for_each(|piece| piece.prepare(&terms)));
        fold(&mut prepared)
    })
}

/// Some of the records, one after the other.
struct Piece<'a> {
    inputs: &'a [Input<'a>],
    /// Locked while they are prepared.
    stage: Mutex<Stage>,
}

#[derive(Default)]
enum Stage {
    #[default]
    Waiting,
    Prepared(Vec<Prepared>),
    Taken,
}

impl Piece<'_> {
    fn prepared(&self, terms: &Terms) -> Vec<Prepared> {
        self.inputs.iter().map(|input| prepare(input, terms)).collect()
    }

    /// Prepares the records, if nobody has begun to.
    fn prepare(&self, terms: &Terms) {
        if let Ok(mut stage) = self.stage.try_lock()
            && matches!(*stage, Stage::Waiting)
        {
            *stage = Stage::Prepared(self.prepared(terms));
        }
    }

    fn take(&self, terms: &Terms) -> Vec<Prepared> {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *stage, Stage::Taken) {
            Stage::Prepared(prepared) => prepared,
            Stage::Waiting | Stage::Taken => self.prepared(terms),
        }
    }
}
