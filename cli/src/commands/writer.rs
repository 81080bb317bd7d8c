//! Where commands write to: the log of a data directory, which they process themselves; or one on brokers, or of a server, which others
//! serve.

use anyhow::Result;
use recant_processor::{
    door::Door,
    standalone::{NewEvent, Standalone},
};
use recant_projections::fold::Fate;
use recant_proto::position::Position;

use crate::failure::{Problem, Sort};
use crate::remote::Remote;

/// What is said where processing has passed over an event without a word.
pub fn fate_unknown() -> Problem {
    Problem::new(
        Sort::CouldNot,
        "fate_unknown",
        "The fate of the event is not known",
        "it was appended, and not processed; see `recant doctor`",
    )
}

/// A log to append to.
// There is one of it in a process.
#[allow(clippy::large_enum_variant)]
pub enum Writer {
    /// Of a data directory.
    Embedded(Standalone),
    /// On brokers.
    Kafka(Door),
    /// Of a running server.
    Remote(Remote),
}

impl Writer {
    /// Appends events, and waits for the fate of each.
    pub fn append(&mut self, events: Vec<NewEvent>) -> Result<Vec<(Position, Fate)>> {
        match self {
            Writer::Remote(remote) => remote.append(&events),
            Writer::Kafka(door) => {
                let appended = door.append(events)?;
                let fates = door.fates(&appended)?;
                Ok(appended.positions.into_iter().zip(fates).collect())
            }
            Writer::Embedded(standalone) => {
                let positions = standalone.append(events)?;
                let mut fates = std::collections::HashMap::with_capacity(positions.len());
                standalone.process(&mut |position, folded| {
                    fates.insert(position, folded.fate.clone());
                })?;
                let fate = |position| match fates.remove(&position) {
                    Some(fate) => Ok((position, fate)),
                    None => Err(fate_unknown().into()),
                };
                positions.into_iter().map(fate).collect()
            }
        }
    }
}
