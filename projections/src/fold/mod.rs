//! One function does it all for one event: decode, validate, drop duplicates, apply, outputs. Live processing, replay,
//! standby and simulation call this one.
//!
//! State is changed in an open batch over the store; [`Partition::store`] hands it over, position included, to be written as
//! one. Readers read the store, and so see whole batches only. [`Partition::abandon`] forgets the open batch.

mod apply;
mod asked;
mod control;
mod known_ids;
pub mod logic;
mod open;
mod prepare;
pub mod publish;
mod retract;
pub mod signatures;
pub mod space;

use recant_proto::{
    id::CONTROL_SPACE,
    names,
    position::{Incarnation, Position},
    reject::{Code, Violation},
    time,
    v1::{self, Event, Limits},
    validate,
};

use crate::{
    justification::{
        digest::{Committer, first_half},
        settle::Work,
    },
    store::{Batch, Staged, StoreError, WriteStore},
    tables::{Table, events, partition, spaces, times},
};
use asked::{Answers, Foreseen};
use known_ids::KnownIds;
pub use logic::{Logic, check_versions};
use open::OpenSpaces;
pub use open::{Forms, Turns};
use prepare::{Prepared, Sound, Terms, Unsound, prepare, prepare_ahead};
use prost::Message as _;
pub use recant_proto::input::Input;
pub use retract::{Preview, PreviewError, preview};
pub use space::Engine;
use space::Space;

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It was applied.
    Accepted,
    /// It was applied before, at this offset.
    Duplicate(u64),
    /// Its body is from a newer writer; it is kept in the log, and passed over.
    Skipped(String),
    /// It broke a rule.
    Rejected(Violation),
}

/// Everything that a partition publishes.
#[derive(Debug, Clone, PartialEq)]
// Nearly every message is a change: boxing it would cost an allocation each to make the rare one smaller.
#[allow(clippy::large_enum_variant)]
pub enum Message {
    /// A summary or a change of a cascade, for `recant.changes`.
    Change(v1::Change),
    /// An event that could not be applied, for `recant.rejected`.
    Rejection(v1::Rejection),
}

/// Something to publish.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The space, or the key of a record that has none.
    pub key: Vec<u8>,
    /// What it is.
    pub message: Message,
    /// The same in protobuf.
    pub value: Vec<u8>,
}

/// What folding an event did.
#[derive(Debug, Clone, PartialEq)]
pub struct Folded {
    /// What became of it.
    pub fate: Fate,
    /// Its id and space, as far as they could be read.
    pub event_id: String,
    /// As above.
    pub space: String,
    /// What is to be published, in order.
    pub outputs: Vec<Output>,
    /// What it cost.
    pub work: Work,
}

/// Why folding cannot go on. The open batch is to be abandoned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FoldError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record came that is not the next one.
    #[error("the record at offset {found} came where {expected} was next; this is a fault of recant")]
    OutOfOrder {
        /// What was next.
        expected: u64,
        /// What came.
        found: u64,
    },
    /// The event must be understood, and is not.
    #[error(
        "the event at {position} has the body {body}, which this version does not know, and says that it must be understood; install a newer recant"
    )]
    MustUnderstand {
        /// Where it lies.
        position: Position,
        /// The body's name or number.
        body: String,
    },
    /// A logic version takes over that this program does not have.
    #[error("logic version {version} takes over at {position}; this program has {ours}. Install a newer recant")]
    LogicVersion {
        /// Where it takes over.
        position: Position,
        /// Which one.
        version: u32,
        /// That of this program.
        ours: u32,
    },
    /// An older logic version than this program's is in force: what it would publish is not what was.
    #[error(
        "logic version {in_force} is in force in this log, and this program has {ours}. See what would change with `recant upgrade --preview`, and let it take over with `recant upgrade`; or use the recant that has version {in_force}"
    )]
    NotInForce {
        /// Which one is.
        in_force: u32,
        /// That of this program.
        ours: u32,
    },
    /// The state belongs to another log.
    #[error(
        "the state is of the log {state}, and this is the log {log}. If this is the right log, make the state anew with `recant rebuild`; else restore the right one from its newest snapshot (recant restore SNAPSHOT --data DIR)"
    )]
    OtherLog {
        /// What the state says.
        state: Incarnation,
        /// What the log says.
        log: Incarnation,
    },
}

/// What applying a body ends with, when it does not end well.
pub(crate) enum Refusal {
    Rejected(Violation),
    Failed(FoldError),
}

impl From<Violation> for Refusal {
    fn from(violation: Violation) -> Self {
        Refusal::Rejected(violation)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Refusal::Failed(error.into())
    }
}

/// The state of a partition, and the open batch.
pub struct Partition<S> {
    store: S,
    row: partition::Row,
    batch: Batch,
    /// Up to where the store is.
    stored_offset: u64,
    last_record: LastRecord,
    /// The log time of the last record, which has no row in the batch yet, and its offset.
    last_time: Option<(i64, u64)>,
    open: OpenSpaces,
    known_ids: KnownIds,
    answers: Answers,
    committer: Committer,
    limits: Limits,
    forms: Forms,
    engine: Engine,
}

/// What an event is applied to.
pub(crate) struct Context<'a, S> {
    pub engine: Engine,
    pub space: &'a mut Space,
    pub known_ids: &'a mut KnownIds,
    pub staged: Staged<'a, S>,
    pub committer: &'a Committer,
    pub event: &'a Event,
    pub position: Position,
    pub log_time_ms: i64,
    pub incarnation: Incarnation,
}

impl<S: WriteStore> Partition<S> {
    /// Opens the state of a partition of a log, which may be empty.
    pub fn open(store: S, incarnation: Incarnation, partition_number: u32) -> Result<Self, FoldError> {
        Self::open_by(store, incarnation, partition_number, Logic::default())
    }

    /// The same, to fold by some logic.
    pub fn open_by(store: S, incarnation: Incarnation, partition_number: u32, logic: Logic) -> Result<Self, FoldError> {
        let row = match partition::get(&store)? {
            Some(row) => row,
            None => untouched_row(incarnation, partition_number, logic.version),
        };
        logic::check(&row, logic.version)?;
        let found = incarnation_of(&row);
        if found != incarnation {
            return Err(FoldError::OtherLog { state: found, log: incarnation });
        }
        let mut partition = Partition {
            store,
            stored_offset: row.next_offset,
            row,
            batch: Batch::default(),
            last_record: LastRecord::default(),
            last_time: None,
            open: OpenSpaces::default(),
            known_ids: KnownIds::default(),
            answers: Answers::default(),
            committer: Committer::new(&[]),
            limits: validate::DEFAULT_LIMITS,
            forms: Forms::default(),
            engine: logic.engine,
        };
        partition.adopt_row();
        Ok(partition)
    }

    /// The same with another operation in the engine's place, for the tests that plant faults.
    #[doc(hidden)]
    pub fn with_engine(self, engine: Engine) -> Self {
        Partition { engine, ..self }
    }

    /// The same with other rules for the forms of spaces.
    pub fn with_forms(self, forms: Forms) -> Self {
        Partition { forms, ..self }
    }

    /// Takes limits and key from the row.
    fn adopt_row(&mut self) {
        self.committer = Committer::new(&self.row.commitment_key);
        self.limits = limits_of(&self.row);
    }

    /// The offset of the first event that is not folded, whether stored or not.
    pub fn next_offset(&self) -> u64 {
        self.row.next_offset
    }

    /// Refuses to go on where the log has another logic version in force. What a partition would publish is what is published
    /// only where its own version is.
    pub fn check_in_force(&self) -> Result<(), FoldError> {
        let (in_force, ours) = (self.row.in_force(), self.row.logic_version);
        if in_force == ours { Ok(()) } else { Err(FoldError::NotInForce { in_force, ours }) }
    }

    /// The running hash over all outputs up to here, since this logic version is in force.
    pub fn outputs_hash(&self) -> &[u8] {
        &self.row.outputs_hash
    }

    /// The hash of the last record that was folded; empty if there is none.
    pub fn last_record_hash(&self) -> Vec<u8> {
        self.last_record.hash().unwrap_or_else(|| self.row.last_record_hash.clone())
    }

    /// What is written. Does not know of the open batch.
    pub fn stored(&self) -> &S {
        &self.store
    }

    /// What an event is prepared by, as far as events up to here say.
    fn terms(&self) -> Terms {
        Terms { limits: self.limits, writers_sign: self.row.writers_sign }
    }

    /// How many rows the open batch has, up to now.
    pub fn open_rows(&self) -> usize {
        self.batch.len()
    }

    /// What [`Partition::store`] writes.
    pub fn complete_batch(&mut self) -> &Batch {
        self.stage_where_it_ends();
        &self.batch
    }

    /// Where the partition stands, with the open batch.
    pub fn row(&self) -> &partition::Row {
        &self.row
    }

    /// A space as it is with the open batch, opened if it was not.
    pub fn space(&mut self, name: &str) -> Result<Option<&Space>, FoldError> {
        let found = self.open.get_or_open(&self.store, name, &self.forms, self.row.next_offset)?;
        Ok(found.map(|space| &*space))
    }

    /// Reads a space as it is with the open batch.
    pub fn read<R>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Space, &Staged<'_, S>) -> Result<R, StoreError>,
    ) -> Result<Option<R>, FoldError> {
        let found = self.open.get_or_open(&self.store, name, &self.forms, self.row.next_offset)?;
        let staged = Staged { store: &self.store, batch: &mut self.batch };
        Ok(found.map(|space| read(space, &staged)).transpose()?)
    }

    /// Hands the open batch, position included, to the store.
    pub fn store(&mut self) -> Result<(), FoldError> {
        if !self.is_batch_open() {
            return Ok(());
        }
        self.stage_where_it_ends();
        self.store.hand_over(&mut self.batch)?;
        self.stored_offset = self.row.next_offset;
        Ok(())
    }

    /// Waits until all that was handed over is written.
    pub fn finish(&mut self) -> Result<(), FoldError> {
        Ok(self.store.finish()?)
    }

    /// Whether something was folded that is not stored; it may have no rows yet.
    pub fn is_batch_open(&self) -> bool {
        self.row.next_offset != self.stored_offset
    }

    /// Stages what a batch says once, whatever it holds: where partition and spaces stand at its end.
    fn stage_where_it_ends(&mut self) {
        self.open.stage_changed(&mut self.batch);
        self.stage_time();
        if let Some(hash) = self.last_record.hash() {
            self.row.last_record_hash = hash;
        }
        self.batch.put(Table::Partition, partition::KEY, self.row.encode_to_vec());
    }

    fn stage_time(&mut self) {
        if let Some((log_time_ms, offset)) = self.last_time.take() {
            self.batch.put(Table::Times, times::key(log_time_ms), times::value(offset));
        }
    }

    /// Forgets the open batch: state is what is stored.
    pub fn abandon(&mut self) -> Result<(), FoldError> {
        self.batch.clear();
        self.open = OpenSpaces::default();
        self.known_ids = KnownIds::default();
        let untouched = untouched_row(incarnation_of(&self.row), self.row.partition, self.row.logic_version);
        self.row = partition::get(&self.store)?.unwrap_or(untouched);
        self.stored_offset = self.row.next_offset;
        self.last_record = LastRecord::default();
        self.last_time = None;
        self.adopt_row();
        Ok(())
    }

    /// Keeps what is in memory within the budget: spaces go, the least recently used first. Call it when no batch is open.
    pub fn keep_within_budget(&mut self) {
        self.keep_within(self.forms.memory_budget_bytes);
    }

    /// The same with another budget, this once.
    pub fn keep_within(&mut self, budget_bytes: usize) {
        if !self.is_batch_open() {
            self.open.close_idle(self.row.next_offset, &self.forms);
            self.open.keep_within(budget_bytes, &self.forms);
        }
    }

    /// Brings a space that is busy some rows closer to being resident, and says whether there is more to do. Call it when no
    /// batch is open; each call takes a few milliseconds.
    pub fn load_busy(&mut self) -> Result<bool, FoldError> {
        if self.is_batch_open() {
            return Ok(false);
        }
        Ok(self.open.load_busy(&self.store, &self.forms)?)
    }

    /// Bytes in use by spaces, as near as can be told.
    pub fn resident_bytes(&self) -> usize {
        self.open.resident_bytes
    }

    /// How often spaces changed their form since this was asked last.
    pub fn take_turns(&mut self) -> Turns {
        std::mem::take(&mut self.open.turns)
    }

    /// Folds the next record into the open batch.
    pub fn fold(&mut self, input: &Input<'_>) -> Result<Folded, FoldError> {
        let folded = self.fold_prepared(input, prepare(input, &self.terms()))?;
        self.last_record.keep(input);
        Ok(folded)
    }

    /// Folds the next records one after the other, and tells of each by its place among them. A thread prepares those that
    /// are to come meanwhile. At the first that cannot be folded it ends.
    pub fn fold_all<E: From<FoldError>>(
        &mut self,
        inputs: &[Input<'_>],
        each: &mut dyn FnMut(&mut Self, usize, Folded) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut places = inputs.iter().enumerate();
        let mut last = None;
        let done = prepare_ahead(inputs, self.terms(), |pieces| {
            for piece in pieces {
                self.answers.ask(&self.store, &self.open, &piece).map_err(FoldError::from)?;
                for (prepared, (place, input)) in piece.into_iter().zip(&mut places) {
                    let folded = self.fold_prepared(input, prepared)?;
                    last = Some(input);
                    each(self, place, folded)?;
                }
            }
            Ok(())
        });
        self.answers.forget();
        if let Some(last) = last {
            self.last_record.keep(last);
        }
        done
    }

    fn fold_prepared(&mut self, input: &Input<'_>, prepared: Prepared) -> Result<Folded, FoldError> {
        if input.offset < self.row.next_offset {
            return Err(FoldError::OutOfOrder { expected: self.row.next_offset, found: input.offset });
        }
        let log_time_ms = self.row.log_time_ms.max(input.append_time_ms);
        // Records before it may have set others since.
        let terms = self.terms();
        let prepared = if prepared.terms == terms { prepared } else { prepare(input, &terms) };
        let Prepared { space, event_id, outcome, .. } = prepared;
        let mut folded = Folded { fate: Fate::Accepted, event_id, space, outputs: Vec::new(), work: Work::default() };
        let admitted = match outcome {
            Ok(sound) => self.admit(input, sound, log_time_ms, &mut folded),
            Err(Unsound::Broken(violation)) => Err(violation.into()),
            Err(Unsound::MustUnderstand(body)) => {
                return Err(FoldError::MustUnderstand { position: self.position(input), body });
            }
        };
        match admitted {
            Ok(()) => {}
            Err(Refusal::Failed(error)) => return Err(error),
            Err(Refusal::Rejected(violation)) => {
                folded.outputs = vec![self.rejection(input, log_time_ms, &folded, &violation)];
                folded.fate = Fate::Rejected(violation);
            }
        }
        self.advance(input, log_time_ms, &folded.outputs);
        Ok(folded)
    }

    fn position(&self, input: &Input<'_>) -> Position {
        Position { partition: self.row.partition, offset: input.offset }
    }

    fn admit(
        &mut self,
        input: &Input<'_>,
        Sound { decoded, id_hash, fingerprint }: Sound,
        log_time_ms: i64,
        folded: &mut Folded,
    ) -> Result<(), Refusal> {
        self.check_place(&decoded.event, input)?;
        let event = &decoded.event;
        let number = self.row.next_space;
        let store = Foreseen { store: &self.store, answers: &self.answers };
        let mut space = self.open.get_or_begin(&store, &event.space, &self.forms, self.row.next_offset, number)?;
        let mut staged = Staged { store: &store, batch: &mut self.batch };
        let event_key = events::key_of_hash(space.number(), &id_hash);
        if let Some(known) = crate::tables::read::<events::Row>(&staged, Table::Events, &event_key)? {
            if known.fingerprint == fingerprint {
                folded.fate = Fate::Duplicate(known.offset);
                return Ok(());
            }
            let at = Position { partition: self.row.partition, offset: known.offset };
            let detail = format!("{:?} is the event at {at}; give each event an id of its own", event.id);
            return Err(Violation::at(Code::EventIdTaken, "id", detail).into());
        }
        signatures::check(&self.row, event)?;
        let mut row = events::Row {
            offset: input.offset,
            fingerprint: fingerprint.to_vec(),
            skipped: decoded.unknown_body.is_some(),
            justification_plus_one: 0,
        };
        let position = Position { partition: self.row.partition, offset: input.offset };
        match &event.body {
            None => folded.fate = Fate::Skipped(decoded.unknown_body.unwrap_or_default()),
            Some(body) if validate::is_of_control_space(body) => {
                control::apply(&mut self.row, event, position)?;
                self.committer = Committer::new(&self.row.commitment_key);
                self.limits = limits_of(&self.row);
            }
            Some(body) => {
                let incarnation = incarnation_of(&self.row);
                let committer = &self.committer;
                let engine = self.engine;
                let justifications = space.row.justifications;
                let known_ids = &mut self.known_ids;
                let mut context =
                    Context { engine, known_ids, space, staged, committer, event, position, log_time_ms, incarnation };
                (folded.outputs, folded.work) = apply::apply(&mut context, body)?;
                Context { space, staged, .. } = context;
                space.row.last_offset = input.offset + 1;
                if space.row.justifications > justifications && apply::is_named_by_its_event(body) {
                    row.justification_plus_one = space.row.justifications;
                }
                space.write_segment(self.forms.segment_items_min, staged.batch);
            }
        }
        staged.put(Table::Events, event_key, row.encode_to_vec());
        self.row.next_space = self.row.next_space.max(space.row.number + 1);
        self.open.note_changed(&event.space);
        Ok(())
    }

    /// Whether the record lies where its space belongs.
    fn check_place(&self, event: &Event, input: &Input<'_>) -> Result<(), Violation> {
        if input.key != event.space.as_bytes() {
            let key = String::from_utf8_lossy(input.key);
            let detail =
                format!("the key is {key:?} and the space {:?}; set the record's key to the space", event.space);
            return Err(Violation::at(Code::HeaderMismatch, "space", detail));
        }
        let belongs = names::partition_of(input.key, self.row.partitions);
        if self.row.partitions > 0 && event.space != CONTROL_SPACE && belongs != self.row.partition {
            let detail = format!(
                "the space {:?} belongs in partition {belongs} of {}; use the partitioner murmur2_random (librdkafka) or the default one (Java)",
                event.space, self.row.partitions
            );
            return Err(Violation::new(Code::WrongPartition, detail));
        }
        Ok(())
    }

    fn rejection(&self, input: &Input<'_>, log_time_ms: i64, folded: &Folded, violation: &Violation) -> Output {
        let headers =
            input.headers.iter().map(|(name, value)| v1::RecordHeader { name: name.clone(), value: value.clone() });
        let rejection = v1::Rejection {
            position: self.position(input).to_string(),
            time: time::format_log_ms(log_time_ms),
            event: folded.event_id.clone(),
            space: folded.space.clone(),
            code: violation.code.to_string(),
            detail: violation.to_string(),
            key: input.key.to_vec(),
            value: input.value.to_vec(),
            headers: headers.collect(),
        };
        let value = rejection.encode_to_vec();
        Output { key: input.key.to_vec(), message: Message::Rejection(rejection), value }
    }

    /// Moves the position behind the record.
    fn advance(&mut self, input: &Input<'_>, log_time_ms: i64, outputs: &[Output]) {
        self.row.next_offset = input.offset + 1;
        self.row.log_time_ms = log_time_ms;
        if self.last_time.is_some_and(|(last_ms, _)| last_ms != log_time_ms) {
            self.stage_time();
        }
        self.last_time = Some((log_time_ms, input.offset));
        if outputs.is_empty() {
            return;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.row.outputs_hash);
        for output in outputs {
            hasher.update(&(output.value.len() as u64).to_le_bytes());
            hasher.update(&output.value);
        }
        self.row.outputs_hash = hasher.finalize().as_bytes().to_vec();
    }
}

/// The hash by which a state knows the last record that it applied.
pub fn record_hash(input: &Input<'_>) -> Vec<u8> {
    let mut record = LastRecord::default();
    record.keep(input);
    record.hash().unwrap_or_default()
}

/// The last record that was folded. It is hashed when a batch is written.
#[derive(Debug, Default)]
struct LastRecord(Vec<u8>);

impl LastRecord {
    fn keep(&mut self, input: &Input<'_>) {
        self.0.clear();
        self.0.extend_from_slice(&input.offset.to_le_bytes());
        self.0.extend_from_slice(&(input.key.len() as u64).to_le_bytes());
        self.0.extend_from_slice(input.key);
        self.0.extend_from_slice(input.value);
    }

    /// None if no record was kept.
    fn hash(&self) -> Option<Vec<u8>> {
        (!self.0.is_empty()).then(|| first_half(&blake3::hash(&self.0)).to_vec())
    }
}

/// The row of a partition to which nothing was applied.
fn untouched_row(incarnation: Incarnation, partition_number: u32, logic_version: u32) -> partition::Row {
    partition::Row {
        format_version: partition::FORMAT_VERSION,
        logic_version,
        incarnation: incarnation.0.to_vec(),
        partition: partition_number,
        log_time_ms: i64::MIN,
        ..partition::Row::default()
    }
}

/// The log that a state belongs to.
pub fn incarnation_of(row: &partition::Row) -> Incarnation {
    Incarnation(row.incarnation.as_slice().try_into().unwrap_or_default())
}

fn limits_of(row: &partition::Row) -> Limits {
    // What a log says of itself can only be stricter.
    let or_default = |limit: u32, default: u32| if limit == 0 { default } else { limit.min(default) };
    let defaults = validate::DEFAULT_LIMITS;
    Limits {
        max_event_bytes: or_default(row.max_event_bytes, defaults.max_event_bytes),
        max_text_bytes: or_default(row.max_text_bytes, defaults.max_text_bytes),
        max_premises: or_default(row.max_premises, defaults.max_premises),
    }
}

/// The digest of a space, as it is stored.
pub fn digest_of(store: &impl crate::store::Read, space: &str) -> Result<u128, StoreError> {
    Ok(spaces::get(store, space)?.map_or(0, |row| row.digest()))
}
