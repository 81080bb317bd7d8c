//! One process that writes: the embedded log, the state of its partitions, and their drivers.
//!
//! In the data directory, `log` is the log's database and `state/P` that of partition P.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use recant_eventlog::{
    AppendLog, Clock, LogError, NewRecord, ReadLog,
    embedded::{CreateOptions, EmbeddedLog, Files, Sealer, WriterOptions, check_sealed},
};
use recant_projections::{
    fold::{FoldError, Folded, Forms},
    store::{
        StoreError,
        behind::WriteBehind,
        rocks::{Reader, RocksStore},
    },
};
use recant_proto::{
    id::CONTROL_SPACE,
    names,
    position::{Incarnation, Position},
    v1::{Event, KeyEnrolled, LogCreated, event::Body},
    wire,
};

use crate::{
    backup::{BackupError, Manifest, snapshot_of_writer},
    checkpoints::Checkpoints,
    driver::{BatchLimit, DriveError, Driver},
    memory::Memory,
    past,
    signer::Signer,
    switch::finish_switch,
    viewer::refuse_other_tables,
};

/// What a log that does not exist yet is to be.
#[derive(Debug, Clone)]
pub struct NewLog {
    /// Its name, for ever.
    pub incarnation: Incarnation,
    /// How many partitions, for ever.
    pub partitions: u32,
    /// Whether it is filled from historical data, by `occurred_at`.
    pub log_time_occurred: bool,
}

/// An event to append.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// Its space, which is the record's key.
    pub space: String,
    /// Its value, in either form.
    pub value: Vec<u8>,
    /// The form.
    pub content_type: &'static str,
    /// For a log that is filled from historical data.
    pub append_time_ms: Option<i64>,
    /// The trace that its writer is in, carried through to what it causes.
    pub traceparent: Option<String>,
}

impl NewEvent {
    /// An event in protobuf.
    pub fn of(event: &Event) -> NewEvent {
        NewEvent {
            space: event.space.clone(),
            value: wire::to_protobuf(event),
            content_type: names::PROTOBUF,
            append_time_ms: None,
            traceparent: None,
        }
    }

    /// The record that it is in a log, signed where it needs that and there is a key.
    pub(crate) fn into_record(self, log: &impl ReadLog, signer: Option<&Signer>) -> NewRecord {
        let event = match signer {
            Some(signer) => signer.sign_if_needed(log.incarnation(), self),
            None => self,
        };
        NewRecord {
            partition: names::partition_of(event.space.as_bytes(), log.partitions()),
            headers: event.headers(),
            key: event.space.into_bytes(),
            value: event.value,
            append_time_ms: event.append_time_ms,
        }
    }

    /// The headers of its record.
    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let traceparent = self.traceparent.iter().map(|trace| (names::TRACEPARENT.to_owned(), trace.as_str().into()));
        std::iter::once((names::CONTENT_TYPE.to_owned(), self.content_type.into())).chain(traceparent).collect()
    }
}

/// Where the log's database is.
pub fn log_directory(data: &Path) -> PathBuf {
    data.join("log")
}

/// Where the state of a partition is.
pub fn state_directory(data: &Path, partition: u32) -> PathBuf {
    data.join("state").join(partition.to_string())
}

/// A hand on the log of a [`Standalone`], to append with.
#[derive(Clone)]
pub struct Appender {
    log: Arc<EmbeddedLog>,
    signer: Option<Arc<Signer>>,
}

impl Appender {
    /// Appends events: all or none. When it returns they are on disk. Calls made at the same time share an fsync.
    pub fn append(&self, events: Vec<NewEvent>) -> Result<Vec<Position>, LogError> {
        let record = |event: NewEvent| event.into_record(&*self.log, self.signer.as_deref());
        self.log.append(events.into_iter().map(record).collect())
    }
}

/// The log, its state and its drivers.
pub struct Standalone {
    // Dropped in this order: what the state's files have come to is sealed while they are open.
    seals: Seals,
    /// Those that are being made are waited for.
    checkpoints: Vec<Checkpoints>,
    log: Arc<EmbeddedLog>,
    /// What it appends is signed with, where it needs that.
    signer: Option<Arc<Signer>>,
    drivers: Vec<Driver<EmbeddedLog, WriteBehind>>,
}

impl Standalone {
    /// Opens the log in a data directory, or creates it.
    pub fn open_or_create(data: &Path, new: &NewLog, clock: Arc<dyn Clock>) -> Result<Standalone, DriveError> {
        Self::open_or_create_within(data, new, clock, &Memory::default())
    }

    /// The same, with so much memory.
    pub fn open_or_create_within(
        data: &Path,
        new: &NewLog,
        clock: Arc<dyn Clock>,
        memory: &Memory,
    ) -> Result<Standalone, DriveError> {
        match Self::open_within(data, clock.clone(), memory) {
            Err(DriveError::Log(LogError::Absent(_))) => {
                match Self::create_within(data, new, clock.clone(), memory) {
                    // Another process was quicker.
                    Err(DriveError::Log(LogError::Format(_))) => Self::open_within(data, clock, memory),
                    created => created,
                }
            }
            other => other,
        }
    }

    /// Opens the log in a data directory, and brings its state up to the end.
    pub fn open(data: &Path, clock: Arc<dyn Clock>) -> Result<Standalone, DriveError> {
        Self::open_within(data, clock, &Memory::default())
    }

    /// The same, with so much memory.
    pub fn open_within(data: &Path, clock: Arc<dyn Clock>, memory: &Memory) -> Result<Standalone, DriveError> {
        past::refuse(data)?;
        Self::drive(data, EmbeddedLog::open_with(&log_directory(data), of_log(memory), clock)?, memory)
    }

    /// Creates a log in a data directory that has none.
    pub fn create(data: &Path, new: &NewLog, clock: Arc<dyn Clock>) -> Result<Standalone, DriveError> {
        Self::create_within(data, new, clock, &Memory::default())
    }

    /// The same, with so much memory.
    pub fn create_within(
        data: &Path,
        new: &NewLog,
        clock: Arc<dyn Clock>,
        memory: &Memory,
    ) -> Result<Standalone, DriveError> {
        let first = |partition| log_created(new.incarnation, new.partitions, partition, new.log_time_occurred);
        Self::create_with(data, new, first, clock, memory)
    }

    /// Creates one whose writers sign, with the first operator's key.
    pub fn create_signed_within(
        data: &Path,
        new: &NewLog,
        operator_key: &KeyEnrolled,
        clock: Arc<dyn Clock>,
        memory: &Memory,
    ) -> Result<Standalone, DriveError> {
        let first = |partition| signed_log_created(new.incarnation, new.partitions, partition, operator_key);
        Self::create_with(data, new, first, clock, memory)
    }

    fn create_with(
        data: &Path,
        new: &NewLog,
        first_record: impl Fn(u32) -> NewRecord,
        clock: Arc<dyn Clock>,
        memory: &Memory,
    ) -> Result<Standalone, DriveError> {
        let options = CreateOptions {
            incarnation: new.incarnation,
            partitions: new.partitions,
            first_records: (0..new.partitions).map(first_record).collect(),
            writer: of_log(memory),
        };
        Self::drive(data, EmbeddedLog::create(&log_directory(data), options, clock)?, memory)
    }

    /// The same, signing what it appends where that is needed.
    pub fn signing(self, signer: Option<Arc<Signer>>) -> Standalone {
        let mut standalone = self;
        standalone.signer = signer;
        standalone
    }

    fn drive(data: &Path, log: EmbeddedLog, memory: &Memory) -> Result<Standalone, DriveError> {
        let log = Arc::new(log);
        let of_partition = memory.spaces_bytes / log.partitions() as usize;
        let forms = Forms { memory_budget_bytes: of_partition, ..Forms::default() };
        let limit = BatchLimit { forms, ..BatchLimit::default() };
        let mut drivers = Vec::new();
        let mut seals = Seals(Vec::new());
        let mut checkpoints = Vec::new();
        for partition in 0..log.partitions() {
            let (store, sealer) = open_state(data, partition, memory)?;
            seals.0.push(sealer);
            let mut driver = Driver::open(log.clone(), store, partition, limit)?;
            checkpoints.push(Checkpoints::of(data, partition, driver.state().next_offset()));
            drivers.push(driver);
        }
        let mut standalone = Standalone { seals, checkpoints, log, signer: None, drivers };
        standalone.process(&mut |_, _| {})?;
        Ok(standalone)
    }

    /// The log.
    pub fn log(&self) -> &EmbeddedLog {
        &self.log
    }

    /// Whether nothing was ever appended but the log's own first records.
    pub fn is_empty(&self) -> Result<bool, LogError> {
        for partition in 0..self.log.partitions() {
            if self.log.bounds(recant_eventlog::Topic::Events, partition)?.end > 1 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Appends events: all or none. When it returns they are on disk.
    pub fn append(&self, events: Vec<NewEvent>) -> Result<Vec<Position>, LogError> {
        self.appender().append(events)
    }

    /// Appends from other threads, while this one processes.
    pub fn appender(&self) -> Appender {
        Appender { log: self.log.clone(), signer: self.signer.clone() }
    }

    /// The log, for others who read it.
    pub fn shared_log(&self) -> Arc<EmbeddedLog> {
        self.log.clone()
    }

    /// Hands on the states, partition by partition, for others who read them: of what is applied, and of nothing before.
    pub fn readers(&mut self) -> Vec<Reader> {
        self.drivers.iter_mut().map(|driver| driver.state().stored().reader()).collect()
    }

    /// For each partition the offset behind the last event that is applied.
    pub fn next_offsets(&mut self) -> Vec<u64> {
        self.drivers.iter_mut().map(|driver| driver.state().next_offset()).collect()
    }

    /// Processes one batch of each partition, and returns when it can be read; false if there was nothing to process. For those
    /// who are to know soon what became of the first events while more and more are appended.
    pub fn process_batch(&mut self, observe: &mut dyn FnMut(Position, &Folded)) -> Result<bool, DriveError> {
        let mut found_some = false;
        for driver in &mut self.drivers {
            if driver.take_batch(observe)? {
                driver.finish()?;
                found_some = true;
            }
        }
        if !found_some {
            self.keep_house()?;
        }
        Ok(found_some)
    }

    /// Processes everything that was appended. `observe` is told of each event.
    pub fn process(&mut self, observe: &mut dyn FnMut(Position, &Folded)) -> Result<(), DriveError> {
        self.drivers.iter_mut().try_for_each(|driver| driver.catch_up(observe))?;
        self.keep_house()
    }

    /// Checkpoints and seals, where they are due.
    fn keep_house(&mut self) -> Result<(), DriveError> {
        for (checkpoints, driver) in self.checkpoints.iter_mut().zip(&mut self.drivers) {
            let state = driver.state();
            checkpoints.make_if_due(state.stored().written().map_err(FoldError::from)?, state.next_offset());
        }
        self.seals.seal();
        Ok(())
    }

    /// Makes a snapshot of log and state in a directory that does not exist, or is empty. What is being written goes on;
    /// whole tables are linked rather than copied where the file system can.
    pub fn snapshot(&mut self, to: &Path, clock: &dyn Clock) -> Result<Manifest, BackupError> {
        let Standalone { log, drivers, .. } = self;
        let states = |data: &Path| -> Result<(), BackupError> {
            for (number, driver) in (0..).zip(drivers) {
                let directory = state_directory(data, number);
                if let Some(parent) = directory.parent() {
                    let io = |error: std::io::Error| LogError::Io(format!("{}: {error}", parent.display()));
                    std::fs::create_dir_all(parent).map_err(io)?;
                }
                driver.state().stored().written()?.checkpoint(&directory)?;
            }
            Ok(())
        };
        snapshot_of_writer(to, clock, states, |data| Ok(log.checkpoint(&log_directory(data))?))
    }

    /// The driver of a space's partition.
    pub fn driver_of(&mut self, space: &str) -> Option<&mut Driver<EmbeddedLog, WriteBehind>> {
        let partition = names::partition_of(space.as_bytes(), self.log.partitions());
        self.drivers.get_mut(partition as usize)
    }
}

impl Drop for Standalone {
    fn drop(&mut self) {
        for driver in &mut self.drivers {
            // They prove something to whoever replays, and nothing needs them: those of the next end do as well.
            if let Err(error) = driver.publish_digests() {
                tracing::warn!(%error, "the last digests were not published");
            }
        }
    }
}

fn of_log(memory: &Memory) -> WriterOptions {
    WriterOptions { shared: Some(memory.of_log()), ..WriterOptions::default() }
}

/// Opens the state of a partition to write, and what seals its files; an empty one if there is none.
pub(crate) fn open_state(data: &Path, partition: u32, memory: &Memory) -> Result<(WriteBehind, Sealer), DriveError> {
    let directory = state_directory(data, partition);
    finish_switch(data, partition)?;
    std::fs::create_dir_all(&directory).map_err(|error| LogError::Io(format!("{}: {error}", directory.display())))?;
    check_state_files(&directory).map_err(FoldError::from)?;
    // Before it is opened to write, which would give it those of our tables that it lacks.
    refuse_other_tables(&directory).map_err(FoldError::from)?;
    let store =
        RocksStore::open_sharing(&directory, memory.of_state()).and_then(WriteBehind::new).map_err(FoldError::from)?;
    Ok((store, Sealer::of_unsynced(&directory)))
}

/// Seals of the states. A state that loses its end is folded forward; one whose manifest loses its end would have holes.
struct Seals(Vec<Sealer>);

impl Seals {
    fn seal(&mut self) {
        // A state's writes are not sealed, so that their number is not either.
        self.0.iter_mut().for_each(|sealer| sealer.seal(0));
    }
}

impl Drop for Seals {
    fn drop(&mut self) {
        self.seal();
    }
}

/// Refuses a state whose files are not what they were, before RocksDB removes what it takes for superfluous.
pub(crate) fn check_state_files(directory: &Path) -> Result<(), StoreError> {
    let path = directory.display().to_string();
    match check_sealed(directory) {
        Ok(Files::Damaged(detail)) => Err(StoreError::DamagedFiles { path, detail }),
        Ok(Files::None | Files::Sound { .. }) => Ok(()),
        Err(error) => Err(StoreError::Io(format!("{path}: {error}"))),
    }
}

/// 0000-01-01T00:00:00Z, the first time that RFC 3339 can write, in milliseconds since 1970.
const FIRST_TIME_MS: i64 = -62_167_219_200_000;

/// The first record of a partition. Its id names the partition, and its bytes follow from the log's name.
pub fn log_created(incarnation: Incarnation, partitions: u32, partition: u32, log_time_occurred: bool) -> NewRecord {
    let created = LogCreated {
        log_time: if log_time_occurred { "occurred" } else { "append" }.to_owned(),
        writers: "open".to_owned(),
        ..created(incarnation, partitions)
    };
    // A log that is filled from historical data begins before all of it.
    first_record(partition, created, log_time_occurred.then_some(FIRST_TIME_MS))
}

/// The same of a log whose writers sign, with the first operator's key.
pub fn signed_log_created(
    incarnation: Incarnation,
    partitions: u32,
    partition: u32,
    operator_key: &KeyEnrolled,
) -> NewRecord {
    let created = LogCreated {
        log_time: "append".to_owned(),
        writers: "signed".to_owned(),
        operator_key: Some(operator_key.clone()),
        ..created(incarnation, partitions)
    };
    first_record(partition, created, None)
}

fn created(incarnation: Incarnation, partitions: u32) -> LogCreated {
    LogCreated {
        incarnation: incarnation.to_string(),
        partitions,
        logic_version: recant_projections::tables::partition::LOGIC_VERSION,
        ..LogCreated::default()
    }
}

fn first_record(partition: u32, created: LogCreated, append_time_ms: Option<i64>) -> NewRecord {
    let event = Event {
        id: format!("log-created-{partition}"),
        space: CONTROL_SPACE.to_owned(),
        must_understand: true,
        body: Some(Body::LogCreated(created)),
        ..Event::default()
    };
    control_record(partition, &event, append_time_ms)
}

/// A record of a partition's control space.
pub fn control_record(partition: u32, event: &Event, append_time_ms: Option<i64>) -> NewRecord {
    NewRecord {
        partition,
        key: CONTROL_SPACE.into(),
        headers: vec![(names::CONTENT_TYPE.to_owned(), names::PROTOBUF.into())],
        value: wire::to_protobuf(event),
        append_time_ms,
    }
}
