//! A new logic version takes over: its state is made beside the old one from the log, and what is believed otherwise by it is
//! published as the cascade of the `LogicActivated` event.
//!
//! ```text
//! begin      the log folded by the new version, beside; differences() says what it believes otherwise
//! announce   LogicActivated is appended: the old version goes no further
//! take_over  folded up to it; one commit publishes what differs, and moves the position behind it
//! complete   the new state is on disk, and whoever called may put it in the place of the old one
//! ```
//!
//! Broken off between any two, it is begun again, and finds how far it had come: in the log that the version is announced, in the
//! committed position that it took over. Events that the old version had not processed are folded by the new one; what it rejects of
//! them is published as ever.
//!
//! What differs is not in the hash of outputs, which begins anew at the event: who has only the new version cannot compute it.

mod differences;

use std::path::Path;

use recant_eventlog::{
    AppendLog, Commit, Committed, LogError, NewRecord, ProcessLog, ReadLimit, ReadLog, Record, Topic,
};
use recant_projections::{
    fold::{self, Folded, Logic, Message, Partition, publish::cause_of},
    store::{WriteStore, behind::WriteBehind, rocks::RocksStore},
    tables::partition,
};
use recant_proto::{
    id::CONTROL_SPACE,
    names,
    position::{ChangeId, Position},
    v1::{Event, LogicActivated, event::Body},
    wire,
};

pub use self::differences::{Otherwise, SpaceDifferences};
use crate::{
    making,
    replay::{Nobody, Observer, Progress, Replay, ReplayError},
};

/// So many records are read at once.
const READ: ReadLimit = ReadLimit { records_max: 1_000, bytes_max: 4 << 20 };

/// What is to be upgraded, and by what.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// Which partition.
    pub number: u32,
    /// The directory of its state. Nobody writes it.
    pub old: &'a Path,
    /// An empty directory, for the new one.
    pub building: &'a Path,
    /// The version that takes over.
    pub logic: Logic,
}

/// A partition of which the new state is in the making.
pub struct Upgrade<'l, L> {
    log: &'l L,
    number: u32,
    logic: Logic,
    replay: Replay<'l, L, WriteBehind>,
    /// Up to where the old version had processed it.
    committed: Committed,
    /// None where the new version has taken over.
    old: Option<Old>,
    /// Where the version is announced.
    announced: Option<u64>,
    rejections: Rejections,
}

/// What the old version believed.
struct Old {
    store: Option<RocksStore>,
    /// What was published behind the position of its state.
    published_since: differences::PublishedSince,
}

impl<'l, L: ReadLog + Sync> Upgrade<'l, L> {
    /// Folds the log by the new version, up to its end or to where the version takes over.
    pub fn begin(
        log: &'l L,
        subject: Subject<'_>,
        memory_budget_bytes: usize,
        progress: Progress<'l>,
    ) -> Result<Self, ReplayError> {
        let Subject { number, logic, .. } = subject;
        let committed = log.committed(number)?;
        let store = making::state(subject.building, memory_budget_bytes)?;
        let mut replay = Replay::over_by(log, number, store, memory_budget_bytes, progress, logic)?;
        replay.up_to(committed.next_offset, &mut Nobody)?;
        let mut upgrade = Upgrade {
            log,
            number,
            logic,
            replay,
            committed,
            old: None,
            announced: None,
            rejections: Rejections::default(),
        };
        if upgrade.has_taken_over() {
            upgrade.check_outputs()?;
            return Ok(upgrade);
        }
        upgrade.old = Some(Old::read(log, number, subject.old, &upgrade.committed)?);
        let end = upgrade.find_announced()?;
        upgrade.fold_up_to(end)?;
        Ok(upgrade)
    }

    /// Whether anything is to be done: not, where the version was in force from the start.
    pub fn is_due(&mut self) -> bool {
        self.has_taken_over() || self.announced.is_some() || self.replay.partition().check_in_force().is_err()
    }

    /// Whether the new version is in force where the partition was processed up to: then only its state is to be made.
    pub fn has_taken_over(&mut self) -> bool {
        let is_processed = self.committed.next_offset > 0;
        is_processed && self.old.is_none() && self.replay.partition().check_in_force().is_ok()
    }

    /// What the new version believes otherwise than the old one.
    pub fn differences(&mut self) -> Result<Vec<SpaceDifferences>, ReplayError> {
        let partition = self.replay.partition();
        partition.finish()?;
        match &self.old {
            None => Ok(Vec::new()),
            Some(old) => differences::between(old.store.as_ref(), &old.published_since, partition.stored().written()?),
        }
    }

    /// Makes the new state last, and says up to where it goes.
    pub fn complete(mut self) -> Result<u64, ReplayError> {
        let partition = self.replay.partition();
        partition.finish()?;
        partition.stored().written()?.flush()?;
        Ok(partition.next_offset())
    }

    /// As every recovery: what this version would have published since it took over is what was.
    fn check_outputs(&mut self) -> Result<(), ReplayError> {
        if self.replay.partition().outputs_hash() == self.committed.metadata {
            return Ok(());
        }
        Err(ReplayError::NotDeterministic { partition: self.number, offset: self.committed.next_offset })
    }

    fn fold_up_to(&mut self, end: u64) -> Result<(), ReplayError> {
        self.replay.up_to(end, &mut self.rejections)
    }

    /// Looks for where the version is announced, behind what was processed; gives that offset, or the one behind the last event.
    fn find_announced(&mut self) -> Result<u64, LogError> {
        let mut next = self.committed.next_offset;
        loop {
            let records = self.log.read(Topic::Events, self.number, next, READ)?;
            let Some(last) = records.last() else { return Ok(next) };
            if let Some(found) = records.iter().find(|record| self.announces(record)) {
                self.announced = Some(found.position.offset);
                return Ok(found.position.offset);
            }
            next = last.position.offset + 1;
        }
    }

    fn announces(&self, record: &Record) -> bool {
        if record.key != CONTROL_SPACE.as_bytes() {
            return false;
        }
        let content_type = record.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(names::CONTENT_TYPE));
        let content_type = content_type.map(|(_, value)| String::from_utf8_lossy(value));
        let event = wire::decode(&record.value, content_type.as_deref()).map(|decoded| decoded.event);
        event.is_ok_and(|event| match event.body {
            Some(Body::LogicActivated(activated)) => activated.logic_version == self.logic.version,
            _ => false,
        })
    }
}

impl<L: ReadLog + AppendLog + Sync> Upgrade<'_, L> {
    /// Says in the log that the version takes over, if it does not say so. A program that does not have the version goes no
    /// further than there.
    pub fn announce(&mut self) -> Result<(), ReplayError> {
        if self.announced.is_none() && !self.has_taken_over() {
            let positions = self.log.append(vec![announcement(self.number, self.logic.version)])?;
            self.announced = positions.first().map(|position| position.offset);
        }
        Ok(())
    }
}

impl<L: ProcessLog + Sync> Upgrade<'_, L> {
    /// Folds up to where the version takes over, and publishes what differs. `to_record` makes of an output the record
    /// that lies in the log.
    pub fn take_over(
        &mut self,
        to_record: &dyn Fn(fold::Output) -> recant_eventlog::Output,
    ) -> Result<Vec<SpaceDifferences>, ReplayError> {
        let Some(at) = self.announced else { return Ok(Vec::new()) };
        self.fold_up_to(at + 1)?;
        self.replay.partition().check_in_force()?;
        let (epoch, committed) = self.log.acquire(self.number)?;
        if committed != self.committed {
            let detail = format!("it was processed up to {} meanwhile", committed.next_offset);
            return Err(ReplayError::OldState { partition: self.number, detail });
        }
        let differences = self.differences()?;
        let outputs = std::mem::take(&mut self.rejections.outputs).into_iter().chain(self.cascades(at, &differences)?);
        let outputs = outputs.map(to_record).collect();
        let metadata = self.replay.partition().outputs_hash().to_vec();
        match self.log.commit(self.number, epoch, outputs, Committed { next_offset: at + 1, metadata }) {
            Commit::Committed => Ok(differences),
            Commit::Aborted(detail) | Commit::Unknown(detail) => Err(LogError::Io(detail).into()),
            Commit::Fenced => Err(LogError::Io(format!("partition {} was taken by another", self.number)).into()),
        }
    }

    fn cascades(&mut self, at: u64, differences: &[SpaceDifferences]) -> Result<Vec<fold::Output>, ReplayError> {
        let position = Position { partition: self.number, offset: at };
        let event = activated(self.number, self.logic.version);
        let old = self.old.as_ref().and_then(|old| old.store.as_ref());
        let partition = self.replay.partition();
        let log_time_ms = partition.row().log_time_ms;
        let first = ChangeId { incarnation: self.log.incarnation(), position, index: 0 };
        let new = partition.stored().written()?;
        differences::cascades(differences, old, new, first, log_time_ms, &cause_of(&event))
    }
}

impl Old {
    fn read(log: &impl ReadLog, number: u32, directory: &Path, committed: &Committed) -> Result<Old, ReplayError> {
        if committed.next_offset == 0 {
            return Ok(Old { store: None, published_since: differences::PublishedSince::default() });
        }
        let unusable = |detail: String| ReplayError::OldState { partition: number, detail };
        let row = RocksStore::row_of(directory).map_err(|error| unusable(error.to_string()))?;
        let row = row.ok_or_else(|| unusable(format!("{} holds none", directory.display())))?;
        if row.format_version != partition::FORMAT_VERSION {
            let (theirs, ours) = (row.format_version, partition::FORMAT_VERSION);
            return Err(unusable(format!("it has the format {theirs}, and this program reads {ours}")));
        }
        if fold::incarnation_of(&row) != log.incarnation() || row.next_offset > committed.next_offset {
            let (state, log) = (row.next_offset, committed.next_offset);
            return Err(unusable(format!(
                "it is of another log, or at {state} where the log was processed up to {log}"
            )));
        }
        let store = RocksStore::follow(directory).map_err(|error| unusable(error.to_string()))?;
        let published_since = differences::PublishedSince::read(log, number, row.next_offset, committed.next_offset)?;
        Ok(Old { store: Some(store), published_since })
    }
}

/// What the new version rejects of what the old one had not processed.
#[derive(Default)]
struct Rejections {
    outputs: Vec<fold::Output>,
}

impl<S: WriteStore> Observer<S> for Rejections {
    fn before(&mut self, _: &Record, _: &mut Partition<S>) -> Result<(), ReplayError> {
        Ok(())
    }

    fn after(&mut self, _: &Record, folded: &Folded) -> Result<(), ReplayError> {
        let rejections = folded.outputs.iter().filter(|output| matches!(output.message, Message::Rejection(_)));
        self.outputs.extend(rejections.cloned());
        Ok(())
    }
}

/// The event with which a version takes over in a partition.
fn activated(partition: u32, version: u32) -> Event {
    Event {
        id: format!("logic-activated-{version}-{partition}"),
        space: CONTROL_SPACE.to_owned(),
        must_understand: true,
        body: Some(Body::LogicActivated(LogicActivated { logic_version: version })),
        ..Event::default()
    }
}

fn announcement(partition: u32, version: u32) -> NewRecord {
    NewRecord {
        partition,
        key: CONTROL_SPACE.into(),
        headers: vec![(names::CONTENT_TYPE.to_owned(), names::PROTOBUF.into())],
        value: wire::to_protobuf(&activated(partition, version)),
        append_time_ms: None,
    }
}
