//! The log's own events, in the control space of each partition.

use recant_proto::{
    position::Position,
    reject::{Code, Violation},
    v1::{Event, LogCreated, event::Body},
};

use super::{FoldError, Refusal, incarnation_of};
use crate::tables::partition;

/// Applies an event of the control space.
pub(super) fn apply(row: &mut partition::Row, event: &Event, position: Position) -> Result<(), Refusal> {
    match &event.body {
        Some(Body::LogCreated(created)) => log_created(row, created, position),
        Some(Body::LogicActivated(activated)) if activated.logic_version != partition::LOGIC_VERSION => {
            Err(Refusal::Failed(FoldError::LogicVersion { position, version: activated.logic_version }))
        }
        Some(Body::PolicySet(_)) => Err(Violation::new(
            Code::NotInThisVersion,
            "policies have no effect in logic version 1, and are not accepted",
        )
        .into()),
        _ => Ok(()),
    }
}

fn log_created(row: &mut partition::Row, created: &LogCreated, position: Position) -> Result<(), Refusal> {
    if row.partitions > 0 {
        return Err(Violation::new(
            Code::BadValue,
            "the log was created before; it is the first record of a partition",
        )
        .into());
    }
    if created.incarnation != incarnation_of(row).to_string() {
        let detail = format!("the log is {}, and the event says {}", incarnation_of(row), created.incarnation);
        return Err(Violation::at(Code::BadValue, "log_created.incarnation", detail).into());
    }
    if !matches!(created.logic_version, 0 | partition::LOGIC_VERSION) {
        return Err(Refusal::Failed(FoldError::LogicVersion { position, version: created.logic_version }));
    }
    let limits = created.limits.unwrap_or_default();
    row.partitions = created.partitions;
    row.commitment_key = created.commitment_key.clone();
    (row.max_event_bytes, row.max_text_bytes, row.max_premises) =
        (limits.max_event_bytes, limits.max_text_bytes, limits.max_premises);
    Ok(())
}
