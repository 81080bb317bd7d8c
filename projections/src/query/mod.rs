//! Questions and their answers, in the shapes that every command and endpoint shares. Each answer is of one position,
//! now or in the past: what is asked for the past comes from the history, not from a replay.

mod covering;
mod diff;
mod explain;
mod list;
mod node;
mod views;

pub use diff::{Diff, diff};
pub use explain::{ExplainedNode, Explanation, HistoryEntry, Reason, explain};
pub use list::{
    Filter, Page, PageError, PageRequest, Trace, list, retractions, retractions_page, run_trace, sources, sources_page,
    spaces,
};
pub use node::node;
pub use views::{NodeView, RetractionView, SourceView, SpaceView};

use recant_proto::{
    position::{ChangeId, Incarnation, Position},
    time::Instant,
};

use crate::{
    fold::incarnation_of,
    store::{Store, StoreError},
    tables::{partition, spaces as spaces_table, times},
};

/// The moment of an answer: a space, in a store, after the event at an offset.
#[derive(Debug, Clone)]
pub struct Moment {
    /// The log.
    pub incarnation: Incarnation,
    /// The position that the answer reflects.
    pub position: Position,
    /// Whether it is the present.
    pub is_now: bool,
    /// Only what its writer dates to this instant or before is shown: by `observed_at`, else `occurred_at`, else log time.
    /// It changes no status.
    pub valid_at: Option<Instant>,
}

impl Moment {
    /// The present of a partition; none if nothing was ever applied.
    pub fn now(store: &impl Store) -> Result<Option<Moment>, StoreError> {
        let row = partition::get(store)?.filter(|row| row.next_offset > 0);
        Ok(row.map(|row| Moment {
            incarnation: incarnation_of(&row),
            position: Position { partition: row.partition, offset: row.next_offset - 1 },
            is_now: true,
            valid_at: None,
        }))
    }

    /// The same partition after the event at an offset, which may be in its future: then it is the present.
    pub fn at_offset(self, offset: u64) -> Moment {
        if offset >= self.position.offset {
            return self;
        }
        Moment { position: Position { offset, ..self.position }, is_now: false, ..self }
    }

    /// The same partition at a log time: with every record whose log time is at most this. None before the first record.
    pub fn at_time(self, store: &impl Store, log_time_ms: i64) -> Result<Option<Moment>, StoreError> {
        Ok(times::last_offset_at(store, log_time_ms)?.map(|offset| self.at_offset(offset)))
    }

    /// The same, showing only what its writer dates to an instant or before.
    pub fn valid_at(self, valid_at: Option<Instant>) -> Moment {
        Moment { valid_at, ..self }
    }

    /// Whether what its writer dates to this instant is shown.
    fn shows(&self, written: Instant) -> bool {
        self.valid_at.is_none_or(|valid_at| written <= valid_at)
    }

    /// Where a consumer that has this answer goes on in the change stream.
    pub fn cursor(&self) -> String {
        ChangeId { incarnation: self.incarnation, position: self.position, index: u32::MAX }.to_cursor()
    }
}

/// The row of a space; none if nothing was ever applied to it.
pub fn space(store: &impl Store, name: &str) -> Result<Option<spaces_table::Row>, StoreError> {
    spaces_table::get(store, name)
}
