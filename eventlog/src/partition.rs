//! What a log knows of a partition beside its records, and the rules by which that changes. The embedded log keeps it on
//! disk and the one in memory does not, but both change it here, so that they cannot come to differ.

use crate::{Bounds, Commit, Committed, Epoch, LogError, Output, Topic};

/// One partition of every topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PartitionState {
    extents: [Extent; Topic::ALL.len()],
    pub(crate) committed: Committed,
    /// How often the partition has been acquired; 0: never, and nobody can commit.
    pub(crate) epoch: u64,
}

/// One partition of one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) bounds: Bounds,
    pub(crate) last_append_time_ms: i64,
}

impl Default for Extent {
    fn default() -> Self {
        Extent { bounds: Bounds::default(), last_append_time_ms: i64::MIN }
    }
}

impl Extent {
    /// The offset and the append time of the next record. Neither ever falls.
    pub(crate) fn place(&mut self, wanted_time_ms: i64) -> (u64, i64) {
        let offset = self.bounds.end;
        self.bounds.end += 1;
        self.last_append_time_ms = self.last_append_time_ms.max(wanted_time_ms);
        (offset, self.last_append_time_ms)
    }
}

impl PartitionState {
    pub(crate) fn extent(&self, topic: Topic) -> &Extent {
        &self.extents[topic as usize]
    }

    pub(crate) fn extent_mut(&mut self, topic: Topic) -> &mut Extent {
        &mut self.extents[topic as usize]
    }

    /// Whether one may read from this offset: everything that is kept, and the end.
    pub(crate) fn check_readable(&self, topic: Topic, partition: u32, from_offset: u64) -> Result<Bounds, LogError> {
        let bounds = self.extent(topic).bounds;
        if (bounds.earliest..=bounds.end).contains(&from_offset) {
            Ok(bounds)
        } else {
            Err(LogError::OutOfRange { partition, offset: from_offset, bounds })
        }
    }

    /// Takes the partition away from whoever had it.
    pub(crate) fn acquire(&mut self) -> Epoch {
        self.epoch += 1;
        Epoch(self.epoch)
    }

    /// Why a commit cannot be taken, if it cannot. Whether the committer still has the partition is asked first.
    pub(crate) fn commit_refusal(&self, epoch: Epoch, outputs: &[Output], committed: &Committed) -> Option<Commit> {
        let (next, end) = (committed.next_offset, self.extent(Topic::Events).bounds.end);
        if self.epoch == 0 || epoch.0 != self.epoch {
            return Some(Commit::Fenced);
        }
        if outputs.iter().any(|output| output.topic == Topic::Events) {
            return Some(Commit::Aborted("an output may not go to the events".to_owned()));
        }
        if next < self.committed.next_offset {
            let before = self.committed.next_offset;
            return Some(Commit::Aborted(format!("the committed position may not go back from {before} to {next}")));
        }
        if next > end {
            return Some(Commit::Aborted(format!("the position {next} is beyond the end of the events, {end}")));
        }
        None
    }
}
