//! What can go wrong between a caller and log and state.

use std::{sync::Arc, time::Duration};

use recant_eventlog::LogError;
use recant_processor::{driver::DriveError, viewer::ViewError};
use recant_projections::{fold::PreviewError, query::PageError, store::StoreError};
use recant_proto::{position::Position, reject::Violation};

use crate::problem::{ELSEWHERE, Problem, Sort};

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An append failed, which several have shared.
    #[error("{0}")]
    Append(Arc<LogError>),
    /// The state failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Log and state do not fit, or could not be opened.
    #[error(transparent)]
    View(#[from] ViewError),
    /// There is no such page.
    #[error(transparent)]
    Page(#[from] PageError),
    /// Processing stands still.
    #[error("processing has stopped: {0}")]
    Halted(Arc<DriveError>),
    /// The contract refuses it.
    #[error(transparent)]
    Refused(#[from] Violation),
    /// Too much is under way.
    #[error("{0}; try again")]
    Busy(&'static str),
    /// A position was not reached in time.
    #[error("the state is at {at}, and {wanted} was not reached within {} ms; try again", waited.as_millis())]
    NotReached {
        /// What was asked for.
        wanted: Position,
        /// What there is.
        at: Position,
        /// So long it was waited.
        waited: Duration,
    },
    /// A position of another partition was asked for.
    #[error("{wanted} is not a position of partition {partition}, where the space lies")]
    OtherPartition {
        /// What was asked for.
        wanted: Position,
        /// The space's.
        partition: u32,
    },
    /// The state of the partition is not here.
    #[error(
        "the state of partition {0}, where the space lies, is not here: it is moving, or whoever serves it cannot be asked from here; ask again in a moment. With --standby all each process has every state"
    )]
    Elsewhere(u32),
    /// What is served is not written.
    #[error("what is served here is read only: a directory of the past, or one that another process writes")]
    ReadOnly,
    /// The process is ending.
    #[error("the server is shutting down")]
    Closing,
}

impl From<PreviewError> for HostError {
    fn from(error: PreviewError) -> HostError {
        match error {
            PreviewError::Refused(violation) => HostError::Refused(violation),
            PreviewError::Store(error) => HostError::Store(error),
        }
    }
}

impl From<HostError> for Problem {
    fn from(error: HostError) -> Problem {
        let detail = error.to_string();
        match &error {
            HostError::Refused(violation) => Problem::refused(Sort::No, violation),
            HostError::Halted(cause) => Problem { detail, ..Problem::of_driver(cause) },
            HostError::Busy(_) => Problem::new(Sort::CouldNot, "busy", "Too much is under way", detail),
            HostError::NotReached { at, .. } => Problem {
                position: Some(at.to_string()),
                ..Problem::new(Sort::CouldNot, "not_reached", "The position was not reached in time", detail)
            },
            HostError::OtherPartition { .. } => Problem::bad_moment(detail),
            HostError::Elsewhere(_) => Problem::new(Sort::CouldNot, ELSEWHERE, "The state is not here", detail),
            HostError::ReadOnly => {
                Problem::new(Sort::No, "past", "The directory is the past, and is only read", detail)
            }
            HostError::Closing => Problem::new(Sort::CouldNot, "closing", "The server is shutting down", detail),
            HostError::Log(cause) => known(cause),
            HostError::Append(cause) => known(&**cause),
            HostError::Store(cause) => known(cause),
            HostError::View(cause) => known(cause),
            HostError::Page(cause) => known(cause),
        }
    }
}

fn known(cause: &(dyn std::error::Error + 'static)) -> Problem {
    Problem::known(std::iter::once(cause))
        .unwrap_or_else(|| Problem::new(Sort::CouldNot, "io", "Something outside recant failed", cause.to_string()))
}
