//! The log's own events, in the control space of each partition.
//!
//! A partition folds everything by one logic version, its own. The log says which one is in force: what was published
//! before a version took over was made by the one before it.

use recant_proto::{
    position::Position,
    reject::{Code, Violation},
    v1::{Event, KeyEnrolled, LogCreated, LogicActivated, event::Body},
};

use super::{FoldError, Refusal, incarnation_of, signatures};
use crate::tables::partition;

/// Applies an event of the control space.
pub(super) fn apply(row: &mut partition::Row, event: &Event, position: Position) -> Result<(), Refusal> {
    match &event.body {
        Some(Body::LogCreated(created)) => log_created(row, created, position),
        Some(Body::LogicActivated(activated)) => logic_activated(row, activated, position),
        Some(Body::KeyEnrolled(enrolled)) => Ok(signatures::enrol(row, enrolled)?),
        Some(Body::KeyRevoked(revoked)) => Ok(signatures::revoke(row, revoked)?),
        Some(Body::PolicySet(_)) => Err(Violation::new(
            Code::NotInThisVersion,
            "policies have no effect in logic version 1, and are not accepted",
        )
        .into()),
        _ => Ok(()),
    }
}

fn logic_activated(row: &mut partition::Row, activated: &LogicActivated, position: Position) -> Result<(), Refusal> {
    let (version, ours, in_force) = (activated.logic_version, row.logic_version, row.in_force());
    if version == 0 || version > ours {
        return Err(Refusal::Failed(FoldError::LogicVersion { position, version, ours }));
    }
    if version < in_force {
        let detail = format!("logic version {in_force} is in force, and none takes over from a newer one");
        return Err(Violation::at(Code::BadValue, "logic_activated.logic_version", detail).into());
    }
    if version > in_force {
        row.older_in_force = if version == ours { 0 } else { version };
        // What was published before was made by another version, and its hash is not to be had by this one.
        row.outputs_hash.clear();
    }
    Ok(())
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
    let (version, ours) = (created.logic_version.max(1), row.logic_version);
    if version > ours {
        return Err(Refusal::Failed(FoldError::LogicVersion { position, version, ours }));
    }
    row.older_in_force = if version == ours { 0 } else { version };
    if let Some(key) = &created.operator_key {
        row.writers_sign = true;
        signatures::enrol(row, &KeyEnrolled { operator: true, ..key.clone() })?;
    }
    let limits = created.limits.unwrap_or_default();
    row.partitions = created.partitions;
    row.commitment_key = created.commitment_key.clone();
    (row.max_event_bytes, row.max_text_bytes, row.max_premises) =
        (limits.max_event_bytes, limits.max_text_bytes, limits.max_premises);
    Ok(())
}
