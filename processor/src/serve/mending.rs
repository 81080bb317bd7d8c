//! A state that is of no use is put aside, and made anew: from the newest good snapshot, or from the log, which has everything.
//!
//! Of no use is one whose files or rows are damaged, one of another log, and one that has applied what this log does not have, or
//! more than was published. It is kept as `state/P.old-N`, for whoever wants to know what became of it, and never removed; where
//! [`KEPT_MAX`] are kept, the partition is halted until someone has looked at them. What befalls the new state before it was served
//! is no fault of the old one, and halts the partition, too.
//!
//! A state of a newer version is refused, and not put aside; nor is one that folds to other outputs than were published, which is a
//! fault to be found; nor any in a directory that holds a log of its own, whose state it is.

use recant_projections::{fold::FoldError, store::StoreError};

use super::{Told, worker::Work};
use crate::{driver::DriveError, measures, standalone::log_directory, switch};

/// Each takes as much room as a state does.
const KEPT_MAX: usize = 3;

/// What was done about a partition's state since it was last served.
#[derive(Default)]
pub(super) struct Mending {
    is_anew: bool,
}

impl Mending {
    /// The state is good: it was served.
    pub(super) fn served(&mut self) {
        self.is_anew = false;
    }

    /// Puts the state aside, if the error says that it is of no use, and says so; the partition is to be begun again then.
    pub(super) fn put_aside(&mut self, work: &Work, error: &DriveError) -> Option<Told> {
        let partition = work.partition;
        if self.is_anew || !is_of_no_use(error) || log_directory(&work.data).exists() {
            return None;
        }
        let kept = match switch::put_aside(&work.data, partition, KEPT_MAX) {
            Ok(kept) => kept?,
            Err(failure) => {
                tracing::warn!(partition, %failure, "the state could not be put aside");
                return None;
            }
        };
        self.is_anew = true;
        tracing::warn!(partition, %error, kept = %kept.display(), "the state was put aside, and is made anew");
        measures::state_put_aside(partition);
        Some(Told::StatePutAside { partition, error: error.to_string(), kept })
    }
}

fn is_of_no_use(error: &DriveError) -> bool {
    match error {
        DriveError::Mismatch { .. } | DriveError::Fold(FoldError::OtherLog { .. }) => true,
        DriveError::Fold(FoldError::Store(error)) => {
            matches!(error, StoreError::DamagedFiles { .. } | StoreError::Damaged { .. })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use recant_eventlog::LogError;

    use super::*;

    /// What another attempt, or another version, could mend is not taken for a state that is of no use.
    #[test]
    fn a_state_that_is_of_use_is_kept() {
        let damaged = StoreError::Damaged { table: "nodes", detail: String::new() };
        assert!(is_of_no_use(&FoldError::from(damaged).into()));
        for of_use in
            [StoreError::NoRoom(String::new()), StoreError::Format(String::new()), StoreError::Held(String::new())]
        {
            assert!(!is_of_no_use(&FoldError::from(of_use).into()));
        }
        assert!(!is_of_no_use(&DriveError::NotDeterministic { partition: 0, offset: 0 }));
        assert!(!is_of_no_use(&LogError::Unreachable(String::new()).into()));
    }
}
