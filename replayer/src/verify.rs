//! Whether everything that was made of the log is what the log makes: the state, every published record, every digest.
//!
//! One partition is folded again into a state of its own, up to where it was processed when the verification began; so it
//! works while another process writes. On the way each record that folding gives is held against the next one in its
//! topic, and each digest against the state at its position. When the replay is where the kept state is, the two are
//! compared row by row ([`crate::compare`]).
//!
//! Of each topic the first difference is told, since what follows a missing record no longer stands beside its like; of
//! the state, the first row of each table of each space.
//!
//! Where an older logic version was in force at first, what it published is passed over: this program does not have it.
//! State and outputs are compared from where this one took over.

mod beside;

use std::path::Path;

use recant_eventlog::{Bounds, Committed, ReadLog, Topic};
use recant_projections::{
    fold::{Logic, Partition},
    justification::digest::to_hex,
    store::{Store, WriteStore, rocks::RocksStore},
    tables::{partition as standing, spaces},
};
use recant_proto::{id::CONTROL_SPACE, position::Position};
use serde::Serialize;

use self::beside::Beside;
use crate::{
    compare, making,
    replay::{Progress, Replay, ReplayError},
};

/// What a difference is one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A record that folding gives was not published.
    Missing,
    /// A record that folding does not give was published.
    Unexpected,
    /// A record was published, and not where it should have been.
    OutOfOrder,
    /// A record was published with other content.
    Altered,
    /// A digest is not that of the state at its position.
    Digest,
    /// Another logic version made it.
    LogicVersion,
    /// The hash of all that was published is another.
    OutputsHash,
    /// The kept state is not the replayed one.
    State,
    /// The kept state cannot be read.
    StateUnreadable,
}

/// Something that is not as the log has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What it is one of.
    pub what: What,
    /// The position of the event that it is about.
    pub position: String,
    /// The space, where it is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// The node, where it is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// In words.
    pub detail: String,
}

/// The digest of a space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SpaceDigest {
    /// Its name.
    pub space: String,
    /// In hexadecimal.
    pub digest: String,
}

/// What the verification of a partition came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Its number.
    pub partition: u32,
    /// The position up to which everything was compared.
    pub position: String,
    /// Where an older logic version was in force at first, the position from which on this one is: what was published before
    /// cannot be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared_from: Option<String>,
    /// How many events were folded.
    pub events: u64,
    /// How many records of cascades were compared.
    pub changes: u64,
    /// How many digests.
    pub digests: u64,
    /// How many rejections.
    pub rejected: u64,
    /// The digests of the spaces, as replayed.
    pub spaces: Vec<SpaceDigest>,
    /// What is not as the log has it; nothing if all is well.
    pub differences: Vec<Difference>,
}

/// The kept state of a partition.
pub enum Kept {
    /// It need not have one, and has none.
    Absent,
    /// It is to be compared.
    Readable(RocksStore),
    /// It cannot be read: how, and why.
    Unreadable(What, String),
}

/// What is to be verified of a partition.
pub struct Subject<'a, L> {
    /// The log. Only what was processed when the subject was made is looked at.
    pub log: &'a L,
    /// Which partition.
    pub number: u32,
    /// Its kept state.
    pub kept: Kept,
    /// This space alone.
    pub only_space: Option<&'a str>,
    /// By which it is folded.
    pub logic: Logic,
    committed: Committed,
    changes: Bounds,
    rejected: Bounds,
}

impl<'a, L: ReadLog + Sync> Subject<'a, L> {
    /// A partition as it is now. The state must have been opened before the log was last refreshed.
    pub fn now(log: &'a L, number: u32, kept: Kept, only_space: Option<&'a str>) -> Result<Self, ReplayError> {
        let committed = log.committed(number)?;
        let (changes, rejected) = (log.bounds(Topic::Changes, number)?, log.bounds(Topic::Rejected, number)?);
        Ok(Subject { log, number, kept, only_space, logic: Logic::default(), committed, changes, rejected })
    }

    /// How many events there are to fold.
    pub fn events(&self) -> u64 {
        self.committed.next_offset
    }

    /// Verifies it, in a directory that is empty.
    pub fn verify(
        self,
        scratch: &Path,
        memory_budget_bytes: usize,
        progress: Progress<'_>,
    ) -> Result<Verified, ReplayError> {
        let mut differences = Vec::new();
        let (kept, kept_at) = match &self.kept {
            Kept::Absent => (None, 0),
            Kept::Readable(store) => (Some(store), standing::get(store)?.map_or(0, |row| row.next_offset)),
            Kept::Unreadable(what, detail) => {
                differences.push(self.difference(*what, self.committed.next_offset.saturating_sub(1), detail.clone()));
                (None, 0)
            }
        };
        let end = self.committed.next_offset;
        let store = making::state(scratch, memory_budget_bytes)?;
        let mut replay = Replay::over_by(self.log, self.number, store, memory_budget_bytes, progress, self.logic)?
            .of_space(self.only_space);
        let mut beside = Beside::begin(&self)?;
        replay.up_to(kept_at.min(end), &mut beside)?;
        if let Some(kept) = kept {
            differences.extend(self.compare_states(replay.partition(), kept, kept_at)?);
        }
        replay.up_to(end, &mut beside)?;
        beside.finish(replay.partition())?;
        let partition = replay.partition();
        if let Err(error) = partition.check_in_force() {
            differences.push(self.difference(What::LogicVersion, end.saturating_sub(1), error.to_string()));
        } else if self.only_space.is_none() && partition.outputs_hash() != self.committed.metadata {
            differences.push(self.difference(
                What::OutputsHash,
                end.saturating_sub(1),
                "the hash of all outputs that was committed is not that of what folding gives".to_owned(),
            ));
        }
        let wanted = |name: &str| name != CONTROL_SPACE && self.only_space.is_none_or(|space| space == name);
        let spaces = spaces::all(partition.stored())?.into_iter().filter(|(name, _)| wanted(name));
        differences.splice(0..0, beside.differences);
        Ok(Verified {
            partition: self.number,
            position: self.at(end.saturating_sub(1)),
            compared_from: beside.compared_from.map(|offset| self.at(offset)),
            events: beside.events,
            changes: beside.changes_compared,
            digests: beside.digests_compared,
            rejected: beside.rejected_compared,
            spaces: spaces.map(|(space, row)| SpaceDigest { space, digest: to_hex(row.digest()) }).collect(),
            differences,
        })
    }

    fn at(&self, offset: u64) -> String {
        Position { partition: self.number, offset }.to_string()
    }

    fn difference(&self, what: What, offset: u64, detail: String) -> Difference {
        let space = self.only_space.map(str::to_owned);
        Difference { what, position: self.at(offset), space, node: None, detail }
    }

    fn compare_states<S: WriteStore>(
        &self,
        replayed: &Partition<S>,
        kept: &impl Store,
        kept_at: u64,
    ) -> Result<Vec<Difference>, ReplayError> {
        let last = kept_at.saturating_sub(1);
        if kept_at > self.committed.next_offset {
            let detail =
                format!("the state is at {}, and the log was processed up to {}", kept_at, self.committed.next_offset);
            return Ok(vec![self.difference(What::State, last, detail)]);
        }
        let rows = match compare::states(replayed.stored(), kept, self.only_space) {
            Ok(rows) => rows,
            Err(error) => return Ok(vec![self.difference(What::StateUnreadable, last, error.to_string())]),
        };
        Ok(rows
            .into_iter()
            .map(|row| Difference {
                what: What::State,
                position: self.at(row.offset.unwrap_or(last)),
                space: row.space,
                node: row.node,
                detail: row.detail,
            })
            .collect())
    }
}
