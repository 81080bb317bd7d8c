//! A log moves: from a data directory to Kafka as it is, or on Kafka to topics with another number of partitions.
//!
//! [`move_to`] copies every record to the same partition and offset, with its time. The log keeps its name, so that positions, change
//! ids and cursors stay what they were; whoever serves it publishes its changes anew, with the same ids.
//!
//! [`repartition`] copies the events of spaces to where their names lead among so many partitions. Positions change, and with them
//! the log's name. What is copied of a space is what became part of it, in its order: neither duplicates, nor what was
//! rejected, nor the log's own events, of which each partition has a new first one. `only_if_position` is taken out of what held: it was
//! decided, and its position means nothing any more. Times are those of the log's clock, which never falls.
//!
//! Both prove it: the new log is read back and folded, and the digests of all spaces must be those of the old one, before the new one
//! becomes a log to serve ([`CopyTarget::finish`] is called last).

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use recant_eventlog::{LogError, NewRecord, ReadLimit, ReadLog, Record, Topic, kafka::CopyTarget};
use recant_projections::{
    fold::{Fate, Folded, Partition},
    justification::digest::to_hex,
    store::{WriteStore, rocks::RocksStore},
    tables::{partition::LOGIC_VERSION, spaces},
};
use recant_proto::{
    id::CONTROL_SPACE,
    names,
    position::{Incarnation, Position},
    v1::{Event, LogCreated, event::Body},
    wire,
};

use crate::driver::DriveError;

/// So much is read, and written, at once.
const READ: ReadLimit = ReadLimit { records_max: 5_000, bytes_max: 8 << 20 };

/// What can go wrong when a log moves.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// One of the logs failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The events cannot be folded.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The log has lost its beginning, or has gaps.
    #[error(
        "partition {partition} does not hold every event from the first on: the next after {expected} lies at {found}"
    )]
    Incomplete {
        /// The partition.
        partition: u32,
        /// What should come.
        expected: u64,
        /// What comes.
        found: u64,
    },
    /// Somebody else writes to the new topics.
    #[error("the event of {from} came to lie at offset {offset} of the new topic: somebody else writes there")]
    Disturbed {
        /// Where it was.
        from: Position,
        /// Where it is.
        offset: u64,
    },
    /// Signatures are of one log.
    #[error(
        "the writers of this log sign, and what they signed is of this log: a copy under another name would reject it"
    )]
    Signed,
    /// The new log is not the old one.
    #[error("the copy differs from what was copied: {0}. It is not to be served; delete its topics")]
    Differs(String),
    /// The first event does not say which log it is.
    #[error("the log's first event is not the one that names it")]
    Nameless,
}

impl From<recant_projections::fold::FoldError> for MoveError {
    fn from(error: recant_projections::fold::FoldError) -> Self {
        MoveError::Drive(error.into())
    }
}

impl From<recant_projections::store::StoreError> for MoveError {
    fn from(error: recant_projections::store::StoreError) -> Self {
        recant_projections::fold::FoldError::from(error).into()
    }
}

/// What moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moved {
    /// Events that were copied.
    pub events: u64,
    /// Events that were not: duplicates, what was rejected, and the log's own.
    pub left_out: u64,
    /// The digest of each space, in the old log and in the new one.
    pub digests: BTreeMap<String, String>,
}

/// Told of so many events more that were copied or folded.
pub type Progress<'a> = &'a dyn Fn(u64);

/// Copies a log as it is. `scratch` is a directory for states that are made to be compared, and removed.
pub fn move_to(
    from: &impl ReadLog,
    to: &CopyTarget,
    scratch: &Path,
    progress: Progress<'_>,
) -> Result<Moved, MoveError> {
    let mut moved = Moved::default();
    for number in 0..from.partitions() {
        let end = from.bounds(Topic::Events, number)?.end;
        let mut next = 0;
        while next < end {
            let records = from.read(Topic::Events, number, next, READ)?;
            let Some(first) = records.first() else {
                return Err(MoveError::Incomplete { partition: number, expected: next, found: end });
            };
            if first.position.offset != next {
                let found = first.position.offset;
                return Err(MoveError::Incomplete { partition: number, expected: next, found });
            }
            next += records.len() as u64;
            append_in_place(to, &records)?;
            moved.events += records.len() as u64;
            progress(records.len() as u64);
        }
    }
    let scratch = Scratch::in_directory(scratch)?;
    moved.digests = fold_all(from, &scratch.path("old"), &mut |_, _| Ok(()), progress)?;
    let new = fold_all(&to.read_back()?, &scratch.path("new"), &mut |_, _| Ok(()), progress)?;
    compare(&moved.digests, &new)?;
    Ok(moved)
}

fn append_in_place(to: &CopyTarget, records: &[Record]) -> Result<(), MoveError> {
    let news: Vec<NewRecord> = records.iter().map(|record| verbatim(record, record.append_time_ms)).collect();
    for (record, offset) in records.iter().zip(to.append(&news)?) {
        if offset != record.position.offset {
            return Err(MoveError::Disturbed { from: record.position, offset });
        }
    }
    Ok(())
}

fn verbatim(record: &Record, time_ms: i64) -> NewRecord {
    NewRecord {
        partition: record.position.partition,
        key: record.key.clone(),
        headers: record.headers.clone(),
        value: record.value.clone(),
        // Logs that were filled from historical data begin in the year 0, for brokers in 1970; nothing depends on when a log began.
        append_time_ms: Some(if record.key == CONTROL_SPACE.as_bytes() { time_ms.max(0) } else { time_ms }),
    }
}

/// Copies the events of all spaces to topics with another number of partitions, as a log of another name.
pub fn repartition(
    from: &impl ReadLog,
    to: &CopyTarget,
    new: Renamed,
    scratch: &Path,
    progress: Progress<'_>,
) -> Result<Moved, MoveError> {
    let created = first_event(from)?;
    if created.operator_key.is_some() {
        return Err(MoveError::Signed);
    }
    let first_records = (0..new.partitions).map(|number| new.first_record(&created, number));
    to.append(&first_records.collect::<Vec<_>>())?;
    let scratch = Scratch::in_directory(scratch)?;
    let mut moved = Moved::default();
    let mut sources = Vec::new();
    for number in 0..from.partitions() {
        let store = RocksStore::open(&scratch.path(&format!("old-{number}")))?;
        sources.push(Source::of(from, number, Partition::open(store, from.incarnation(), number)?)?);
    }
    // In the order of the log's clock, so that it says the same in a partition in which several come together.
    let mut waiting = Vec::new();
    while let Some(source) =
        sources.iter_mut().filter(|source| source.time_ms().is_some()).min_by_key(|source| source.time_ms())
    {
        let records = source.take(&new)?;
        let read = records.len();
        waiting.extend(records.into_iter().flatten());
        progress(read as u64);
        moved.left_out += read as u64;
        if waiting.len() >= READ.records_max {
            moved.events += to.append(&waiting)?.len() as u64;
            waiting.clear();
        }
    }
    moved.events += to.append(&waiting)?.len() as u64;
    moved.left_out -= moved.events;
    for source in sources {
        moved.digests.extend(digests(source.folding)?);
    }
    let new_digests = fold_all(&to.read_back()?, &scratch.path("new"), &mut refuse_rejected, progress)?;
    compare(&moved.digests, &new_digests)?;
    Ok(moved)
}

/// What was in force in the old log is in the new one.
fn refuse_rejected(position: Position, folded: &Folded) -> Result<(), MoveError> {
    match &folded.fate {
        Fate::Rejected(violation) => {
            Err(MoveError::Differs(format!("the event at {position} is rejected: {violation}")))
        }
        _ => Ok(()),
    }
}

/// What the new log is called, and how many partitions it has.
#[derive(Debug, Clone, Copy)]
pub struct Renamed {
    /// Its name.
    pub incarnation: Incarnation,
    /// How many.
    pub partitions: u32,
}

impl Renamed {
    fn first_record(&self, of_old: &LogCreated, number: u32) -> NewRecord {
        // Its key stays what it was: digests rest on it. It is folded by this program's logic, and by no other before.
        let created = LogCreated {
            incarnation: self.incarnation.to_string(),
            partitions: self.partitions,
            logic_version: LOGIC_VERSION,
            ..of_old.clone()
        };
        let event = Event {
            id: format!("log-created-{number}"),
            space: CONTROL_SPACE.to_owned(),
            must_understand: true,
            body: Some(Body::LogCreated(created)),
            ..Event::default()
        };
        NewRecord {
            partition: number,
            key: CONTROL_SPACE.into(),
            headers: vec![(names::CONTENT_TYPE.to_owned(), names::PROTOBUF.into())],
            value: wire::to_protobuf(&event),
            append_time_ms: Some(0),
        }
    }
}

/// The first event of a log, which says what it is.
fn first_event(log: &impl ReadLog) -> Result<LogCreated, MoveError> {
    let bounds = log.bounds(Topic::Events, 0)?;
    for record in log.read(Topic::Events, 0, bounds.earliest, READ)? {
        if let Some(Body::LogCreated(created)) = decoded(&record).and_then(|event| event.body) {
            return Ok(created);
        }
    }
    Err(MoveError::Nameless)
}

fn decoded(record: &Record) -> Option<Event> {
    let content_type = record.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(names::CONTENT_TYPE));
    let content_type = content_type.and_then(|(_, value)| std::str::from_utf8(value).ok());
    wire::decode(&record.value, content_type).ok().map(|decoded| decoded.event)
}

/// A partition that is copied, and folded while it is.
struct Source<'a, L> {
    log: &'a L,
    number: u32,
    folding: Partition<RocksStore>,
    waiting: Vec<Record>,
    end: u64,
    next: u64,
}

impl<'a, L: ReadLog> Source<'a, L> {
    fn of(log: &'a L, number: u32, folding: Partition<RocksStore>) -> Result<Source<'a, L>, MoveError> {
        let bounds = log.bounds(Topic::Events, number)?;
        if bounds.earliest > 0 {
            let (partition, found) = (number, bounds.earliest);
            return Err(MoveError::Incomplete { partition, expected: 0, found });
        }
        let mut source = Source { log, number, folding, waiting: Vec::new(), end: bounds.end, next: 0 };
        source.fill()?;
        Ok(source)
    }

    fn fill(&mut self) -> Result<(), LogError> {
        if self.waiting.is_empty() && self.next < self.end {
            self.waiting = self.log.read(Topic::Events, self.number, self.next, READ)?;
            self.next = self.waiting.last().map_or(self.end, |last| last.position.offset + 1);
        }
        Ok(())
    }

    /// The log's time at its next record.
    fn time_ms(&self) -> Option<i64> {
        self.waiting.first().map(|record| record.append_time_ms.max(self.folding.row().log_time_ms))
    }

    /// Folds the next records, and gives each as it is copied, or nothing for one that is not: those of one time alone, so that
    /// another partition may come between.
    fn take(&mut self, new: &Renamed) -> Result<Vec<Option<NewRecord>>, MoveError> {
        let mut taken = Vec::new();
        let Some(time_ms) = self.time_ms() else { return Ok(taken) };
        let of_time = self.waiting.iter().take_while(|record| record.append_time_ms <= time_ms).count();
        for record in self.waiting.drain(..of_time) {
            let folded = self.folding.fold(&record.input())?;
            taken.push(as_copied(&record, time_ms, &folded, new));
        }
        if self.waiting.is_empty() {
            self.folding.store()?;
            self.folding.keep_within_budget();
            self.fill()?;
        }
        Ok(taken)
    }
}

fn as_copied(record: &Record, time_ms: i64, folded: &Folded, new: &Renamed) -> Option<NewRecord> {
    let is_in_force = matches!(folded.fate, Fate::Accepted | Fate::Skipped(_));
    if !is_in_force || folded.space == CONTROL_SPACE {
        return None;
    }
    let mut copy = verbatim(record, time_ms);
    copy.partition = names::partition_of(folded.space.as_bytes(), new.partitions);
    if let Some(mut event) = decoded(record)
        && take_out_position(&mut event)
    {
        copy.value = wire::to_protobuf(&event);
        copy.headers.retain(|(name, _)| !name.eq_ignore_ascii_case(names::CONTENT_TYPE));
        copy.headers.push((names::CONTENT_TYPE.to_owned(), names::PROTOBUF.into()));
    }
    Some(copy)
}

/// Whether the event held at one position alone; it does not any more.
fn take_out_position(event: &mut Event) -> bool {
    let position = match &mut event.body {
        Some(Body::Retracted(retracted)) => &mut retracted.only_if_position,
        Some(Body::Reinstated(reinstated)) => &mut reinstated.only_if_position,
        _ => return false,
    };
    !std::mem::take(position).is_empty()
}

/// Folds a log, and gives the digest of each space.
fn fold_all(
    log: &impl ReadLog,
    directory: &Path,
    observe: &mut dyn FnMut(Position, &Folded) -> Result<(), MoveError>,
    progress: Progress<'_>,
) -> Result<BTreeMap<String, String>, MoveError> {
    let mut all = BTreeMap::new();
    for number in 0..log.partitions() {
        let store = RocksStore::open(&directory.join(number.to_string()))?;
        let mut partition = Partition::open(store, log.incarnation(), number)?;
        let end = log.bounds(Topic::Events, number)?.end;
        while partition.next_offset() < end {
            let records = log.read(Topic::Events, number, partition.next_offset(), READ)?;
            if records.is_empty() {
                break;
            }
            let inputs: Vec<_> = records.iter().map(Record::input).collect();
            partition.fold_all(&inputs, &mut |_, place, folded| observe(records[place].position, &folded))?;
            partition.store()?;
            partition.keep_within_budget();
            progress(records.len() as u64);
        }
        all.extend(digests(partition)?);
    }
    Ok(all)
}

fn digests(mut partition: Partition<impl WriteStore>) -> Result<BTreeMap<String, String>, MoveError> {
    partition.finish()?;
    let rows = spaces::all(partition.stored())?.into_iter();
    Ok(rows.filter(|(space, _)| space != CONTROL_SPACE).map(|(space, row)| (space, to_hex(row.digest()))).collect())
}

fn compare(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Result<(), MoveError> {
    let spaces = old.keys().chain(new.keys());
    match spaces.into_iter().find(|space| old.get(*space) != new.get(*space)) {
        None => Ok(()),
        Some(space) => Err(MoveError::Differs(format!(
            "the digest of the space {space:?} is {:?}, and {:?} in the copy",
            old.get(space),
            new.get(space)
        ))),
    }
}

/// A directory for states that are made to be compared.
struct Scratch(PathBuf);

impl Scratch {
    fn in_directory(parent: &Path) -> Result<Scratch, MoveError> {
        let path = parent.join(format!("moving-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| LogError::Io(format!("{}: {error}", path.display())))?;
        Ok(Scratch(path))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        crate::switch::remove(&self.0);
    }
}
