//! The engine beside the oracle: the same records through both, compared after each one.
//!
//! Two partitions of the engine fold every record. The *batched* one stores, forgets its open batch, gives up its spaces
//! and is reopened over its store at random moments. The *steady* one stores after each record, so that previews,
//! history and questions about the past can be asked at any moment. Both must give the same outputs, and those that the
//! oracle's outcome calls for. At the end a third partition folds everything in one batch into an empty state.
//!
//! What happens at which record follows from the seed and the record's offset alone, so that a failing run stays one
//! when records are dropped from it.

mod chance;
mod differs;
mod disks;
pub(crate) mod expected;
mod figures;
mod past;
mod replayed;

use std::collections::BTreeMap;

use recant_projections::{
    audit,
    fold::{Engine, Fate, Folded, Forms, Input, Message, Partition, Preview, PreviewError, preview, space::Space},
    history,
    justification::{
        graph::{Justification, JustificationState, Node, NodeState, Premise},
        invariants,
    },
    store::{Rows, Store, StoreError, WriteStore},
    tables::ids::{self, Namespace},
};
use recant_proto::{
    id::CONTROL_SPACE,
    position::{Incarnation, Position},
    v1::event::Body,
};

use crate::{
    generate::{PARTITION, Record, SPACES},
    oracle::{self, Oracle, Outcome, Standing},
};
use chance::{Chance, Purpose};
pub use differs::Disagreement;
use differs::{Differs, rows, same, same_messages, same_rows};
pub use disks::{Disk, MemoryDisk, RocksDisk, SharedMemory};
pub use figures::Figures;
use figures::has_ring;
use past::Snapshot;

/// The log of every run, as `generate::records` names it.
pub const INCARNATION: Incarnation = Incarnation(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes());

/// How a run is made.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Decides when batches end, and so on.
    pub seed: u64,
    /// Which spaces of the batched partition are resident, and when.
    pub forms: Forms,
    /// Another operation in the engine's place.
    pub engine: Option<Engine>,
    /// Whether every retraction and reinstatement is previewed, and the past is asked about.
    pub asks: bool,
    /// Of so many records about one is preceded by reopening the batched partition.
    pub reopen_one_in: u64,
}

/// Folds the records through engine and oracle, and compares.
pub fn compare<D: Disk>(records: &[Record], disk: &D, settings: &Settings) -> Result<Figures, Disagreement> {
    let mut offset = 0;
    let placed = |offset: u64| move |Differs { what, expected, found }| Disagreement { offset, what, expected, found };
    let mut run = Run::new(disk, settings).map_err(placed(offset))?;
    for (index, record) in records.iter().enumerate() {
        offset = record.offset;
        run.step(records, index).map_err(placed(offset))?;
    }
    run.finish(records).map_err(placed(offset))
}

/// A record as `fold` takes it.
fn input(record: &Record) -> Input<'_> {
    Input {
        offset: record.offset,
        append_time_ms: record.append_time_ms,
        key: record.event.space.as_bytes(),
        headers: &[],
        value: &record.value,
    }
}

struct Run<'a, D: Disk> {
    disk: &'a D,
    settings: &'a Settings,
    chance: Chance,
    oracle: Oracle,
    log_time_ms: i64,
    /// Absent only while it is being reopened: a directory has one owner.
    batched: Option<Partition<D::Store>>,
    /// What the records of the open batch gave, by their index.
    open: Vec<(usize, Folded)>,
    steady: Partition<SharedMemory>,
    steady_store: SharedMemory,
    /// Spaces of the steady partition that were opened once, and are brought up to date when they are asked.
    followed: BTreeMap<String, Space>,
    /// Where each event id of each space was accepted.
    accepted: BTreeMap<(String, String), u64>,
    snapshots: Vec<Snapshot>,
    figures: Figures,
}

impl<'a, D: Disk> Run<'a, D> {
    fn new(disk: &'a D, settings: &'a Settings) -> Result<Self, Differs> {
        let steady_store = SharedMemory::default();
        Ok(Run {
            batched: Some(open(disk.open()?, settings)?),
            steady: open(steady_store.clone(), &Settings { forms: Forms::default(), ..*settings })?,
            steady_store,
            followed: BTreeMap::new(),
            disk,
            settings,
            chance: Chance { seed: settings.seed },
            oracle: Oracle::new(PARTITION),
            log_time_ms: i64::MIN,
            open: Vec::new(),
            accepted: BTreeMap::new(),
            snapshots: Vec::new(),
            figures: Figures { graphs: 1, ..Figures::default() },
        })
    }

    fn step(&mut self, records: &[Record], index: usize) -> Result<(), Differs> {
        let record = &records[index];
        let offset = record.offset;
        if self.chance.one_in(24, Purpose::Abandon, offset) && !self.open.is_empty() {
            self.figures.abandoned += 1;
            let before = graphs(self.batched()?)?;
            self.batched()?.abandon()?;
            self.fold_open_again(records, before)?;
        }
        if self.chance.one_in(self.settings.reopen_one_in, Purpose::Reopen, offset) {
            self.figures.reopened += 1;
            let before = graphs(self.batched()?)?;
            self.batched = None;
            self.batched = Some(open(self.disk.open()?, self.settings)?);
            self.fold_open_again(records, before)?;
        }
        self.log_time_ms = self.log_time_ms.max(record.append_time_ms);
        let previewed = if self.settings.asks { self.preview(record)? } else { None };
        let outcome = self.oracle.step(offset, record.append_time_ms, &record.event, &record.value);
        let folded = self.batched()?.fold(&input(record))?;
        let steadily = self.steady.fold(&input(record))?;
        self.steady.store()?;
        self.figures.operations += 1;
        self.figures.changes += outcome.changes.len() as u64;
        self.figures.restored += folded.work.restored;
        self.figures.switched += folded.work.switched;
        self.check_outcome(record, &outcome, &folded)?;
        self.check_state(record)?;
        same("what the same record gives in another batch", &folded, &steadily)?;
        if let Some(previewed) = previewed {
            self.check_preview(&folded, &outcome, previewed)?;
        }
        self.open.push((index, folded));
        if self.chance.one_in(3, Purpose::Store, offset) {
            self.batched()?.store()?;
            self.open.clear();
            self.figures.loads += u64::from(self.batched()?.load_busy()?);
            let budgets_bytes = [0, 20_000, usize::MAX];
            let budget_bytes = budgets_bytes[self.chance.pick(3, Purpose::Unload, offset) as usize];
            self.batched()?.keep_within(budget_bytes);
        }
        self.look_back(offset)
    }

    fn batched(&mut self) -> Result<&mut Partition<D::Store>, Differs> {
        let absent = || Differs { what: "the partition", expected: "open".to_owned(), found: "closed".to_owned() };
        self.batched.as_mut().ok_or_else(absent)
    }

    /// After its open batch was lost, the partition folds it again, with the same result and to the same state.
    fn fold_open_again(&mut self, records: &[Record], before: BTreeMap<&str, String>) -> Result<(), Differs> {
        let open = std::mem::take(&mut self.open);
        if let Some((first, _)) = open.first() {
            let next = self.batched()?.next_offset();
            let behind = first.checked_sub(1).map_or(0, |last| records[last].offset + 1);
            same("the offset after which the open batch began", behind, next)?;
        }
        for (index, folded) in &open {
            let again = self.batched()?.fold(&input(&records[*index]))?;
            same("what a record gives again", folded, &again)?;
        }
        self.open = open;
        same("the state after folding again", before, graphs(self.batched()?)?)
    }

    /// What became of the record, and everything that it publishes.
    fn check_outcome(&mut self, record: &Record, outcome: &Outcome, folded: &Folded) -> Result<(), Differs> {
        let event = &record.event;
        let fate = match &folded.fate {
            Fate::Accepted => "accepted".to_owned(),
            Fate::Duplicate(of) => format!("duplicate of {of}"),
            Fate::Skipped(_) => "skipped".to_owned(),
            Fate::Rejected(violation) => violation.code.to_string(),
        };
        let id = (event.space.clone(), event.id.clone());
        let expected = match outcome.fate {
            oracle::Fate::Accepted => "accepted".to_owned(),
            oracle::Fate::Duplicate => format!("duplicate of {}", self.accepted.get(&id).copied().unwrap_or(u64::MAX)),
            oracle::Fate::Skipped => "skipped".to_owned(),
            oracle::Fate::Rejected(code) => code.to_owned(),
            oracle::Fate::Stopped => "stopped".to_owned(),
        };
        same("fate", expected, fate)?;
        if matches!(outcome.fate, oracle::Fate::Accepted | oracle::Fate::Skipped) {
            self.accepted.insert(id, record.offset);
        }
        same("event id and space", (&event.id, &event.space), (&folded.event_id, &folded.space))?;
        let position = Position { partition: PARTITION, offset: record.offset };
        if let Fate::Rejected(violation) = &folded.fate {
            let rejection = expected::rejection(record, position, self.log_time_ms, violation);
            return same_messages("rejection", &[Message::Rejection(rejection)], &messages(folded)?);
        }
        let space = self.oracle.space(&event.space).cloned().unwrap_or_default();
        let changes = expected::changes(&space, outcome, record, position, self.log_time_ms);
        let changes: Vec<Message> = changes.into_iter().map(Message::Change).collect();
        same_messages("changes", &changes, &messages(folded)?)?;
        // Every suspect either comes back, or falls: nothing that was OUT before becomes one.
        let fell = |change: &&oracle::Change| {
            change.from == Some("IN") && change.kind != "observation" && change.why != Some("retracted")
        };
        let fallen = outcome.changes.iter().filter(fell).count() as u64;
        same("suspects that did not come back", fallen, folded.work.suspects.wrapping_sub(folded.work.restored))
    }

    /// The standing of every node, the digest, the counts, and the invariants of the record's space.
    fn check_state(&mut self, record: &Record) -> Result<(), Differs> {
        let name = &record.event.space;
        let Some(believed) = self.oracle.space(name) else { return Ok(()) };
        let nodes_in = believed.standings().values().filter(|standing| **standing == Standing::In).count();
        let expected_counts = (believed.nodes.len(), nodes_in, believed.justifications.len());
        let steady = self.steady.space(name)?;
        let partition = self.batched.as_mut();
        let standings = partition
            .map(|partition| partition.read(name, |space, rows| standings(space, rows)))
            .transpose()?
            .flatten();
        let batched = self.batched.as_mut().map(|partition| partition.space(name)).transpose()?.flatten();
        let (Some(steady), Some(batched), Some(standings)) = (steady, batched, standings) else {
            return same("nodes of a space without state", 0, believed.nodes.len());
        };
        for space in [batched, steady] {
            let row = &space.row;
            let counts = (row.arrived as usize, row.nodes_in as usize, row.justifications as usize);
            same("nodes, nodes IN and justifications", expected_counts, counts)?;
            same("digest", self.oracle.digest(name), format!("{:032x}", row.digest()))?;
            let broken = space.resident().map(|graph| invariants::check(graph, 8));
            same("invariants", Vec::new(), broken.unwrap_or_default())?;
        }
        for (id, standing) in believed.standings() {
            let number = ids::get(&self.steady_store, steady.number(), Namespace::Node, id)?;
            let found = number.and_then(|number| standings[number as usize]);
            let found = found.map(|found| (found.status(), found.why()));
            if found != Some((standing.status(), standing.why())) {
                let (expected, found) = (format!("{id} {standing:?}"), format!("{found:?}"));
                return Err(Differs { what: "standing", expected, found });
            }
        }
        same("history and states", Ok(()), history::agrees_with(&self.steady_store, steady)?)?;
        if !self.chance.one_in(4, Purpose::Follow, record.offset) {
            return Ok(());
        }
        let store = self.steady_store.clone();
        let followed = self.follow(name)?.map(|space| self::standings(space, &store)).transpose()?;
        same("standings of a space that is followed", standings, followed.unwrap_or_default())
    }

    /// A space that is read row by row, opened at some earlier moment and brought up to date.
    fn follow(&mut self, name: &str) -> Result<Option<&Space>, Differs> {
        match self.followed.get_mut(name) {
            Some(space) => space.catch_up(&self.steady_store)?,
            None => {
                let opened = Space::open(&self.steady_store, name, 0)?;
                self.followed.extend(opened.map(|space| (name.to_owned(), space)));
            }
        }
        Ok(self.followed.get(name))
    }

    /// What a retraction or reinstatement would do, from the space in memory, from one that was just loaded, or from one that is
    /// followed.
    fn preview(&mut self, record: &Record) -> Result<Option<Result<Preview, String>>, Differs> {
        if !matches!(record.event.body, Some(Body::Retracted(_) | Body::Reinstated(_))) {
            return Ok(None);
        }
        let name = &record.event.space;
        let row = self.steady.row().clone();
        self.follow(name)?;
        let resident_max = if self.chance.one_in(2, Purpose::PreviewPaged, record.offset) { 0 } else { u32::MAX };
        let loaded = match Space::open(&self.steady_store, name, resident_max)? {
            Some(space) => space,
            None => Space::empty(name, row.next_space),
        };
        let space = match self.chance.pick(3, Purpose::PreviewResident, record.offset) {
            0 => self.steady.space(name)?,
            1 => self.followed.get(name),
            _ => None,
        };
        match preview(&self.steady_store, &row, space.unwrap_or(&loaded), &record.event) {
            Ok(preview) => Ok(Some(Ok(preview))),
            Err(PreviewError::Refused(violation)) => Ok(Some(Err(violation.to_string()))),
            Err(PreviewError::Store(error)) => Err(error.into()),
        }
    }

    /// The preview equals what the commit did. Ids, positions and times are those of the next record; they differ when
    /// the log leaves an offset unused, or its clock has moved on.
    fn check_preview(
        &mut self,
        folded: &Folded,
        outcome: &Outcome,
        previewed: Result<Preview, String>,
    ) -> Result<(), Differs> {
        // Whether an event id was used before is not asked by a preview: it has none yet.
        match &folded.fate {
            Fate::Duplicate(_) => return Ok(()),
            Fate::Rejected(violation) if violation.code.as_str() == "event_id_taken" => return Ok(()),
            _ => {}
        }
        self.figures.previews += 1;
        if let Fate::Rejected(violation) = &folded.fate {
            return same("preview of a refusal", Err(violation.to_string()), previewed.map(|_| ()));
        }
        let preview = previewed.map_err(|found| Differs {
            what: "preview",
            expected: "what the commit does".to_owned(),
            found,
        })?;
        same("sources of a preview", outcome.sources, preview.sources as usize)?;
        let committed = messages(folded)?;
        let mut records = preview.records;
        for (record, committed) in records.iter_mut().zip(&committed) {
            if let Message::Change(committed) = committed {
                expected::take_place(record, committed);
            }
        }
        let records: Vec<Message> = records.into_iter().map(Message::Change).collect();
        same_messages("preview", &committed, &records)
    }

    /// Takes a snapshot of the oracle now and then, and asks the engine about earlier ones.
    fn look_back(&mut self, offset: u64) -> Result<(), Differs> {
        if !self.settings.asks {
            return Ok(());
        }
        if self.chance.one_in(24, Purpose::Snapshot, offset) {
            self.snapshots.push(Snapshot { offset, oracle: self.oracle.clone() });
        }
        if self.chance.one_in(32, Purpose::Ask, offset) {
            self.figures.past_standings += self.ask(&self.steady_store, offset)?;
            audited(&self.steady_store)?;
        }
        Ok(())
    }

    /// Asks a store that holds everything up to an offset about the past.
    fn ask(&self, store: &impl Store, offset: u64) -> Result<u64, Differs> {
        let mut standings = past::standings(store, &self.oracle, self.chance.pick(offset + 1, Purpose::Ask, offset))?;
        past::offsets(store, &self.oracle, self.log_time_ms, self.chance, offset)?;
        if !self.snapshots.is_empty() {
            let which = self.chance.pick(self.snapshots.len() as u64, Purpose::Snapshot, offset) as usize;
            standings += past::answers(store, &self.snapshots[which], &self.oracle, self.chance)?;
            let other = self.chance.pick(self.snapshots.len() as u64, Purpose::Diff, offset) as usize;
            let (from, to) = (which.min(other), which.max(other));
            standings += past::turns(store, &self.snapshots[from], &self.snapshots[to])?;
        }
        Ok(standings)
    }

    /// What is asked about the past is what a replay to that moment answers.
    fn ask_a_replay(&self, records: &[Record]) -> Result<u64, Differs> {
        let last = self.chance.pick(records.len() as u64, Purpose::Replay, 0) as usize;
        let replayed_store = SharedMemory::default();
        let mut replayed = open(replayed_store.clone(), self.settings)?;
        for record in &records[..=last] {
            replayed.fold(&input(record))?;
        }
        replayed.store()?;
        replayed::answers(&self.steady_store, &replayed_store, self.log_time_ms, self.chance, records[last].offset)
    }

    /// Everything folded again into an empty state, in one batch, gives the same outputs and the same state.
    fn finish(mut self, records: &[Record]) -> Result<Figures, Differs> {
        let Some(last) = records.last() else { return Ok(self.figures) };
        let replay_store = SharedMemory::default();
        let mut replay = open(replay_store.clone(), &Settings { forms: Forms::default(), ..*self.settings })?;
        for record in records {
            replay.fold(&input(record))?;
        }
        replay.store()?;
        self.batched()?.store()?;
        let steadily = hashes(&self.steady);
        same("hashes after a replay", &steadily, &hashes(&replay))?;
        same("hashes in batches", &steadily, &hashes(self.batched()?))?;
        same_rows("rows after a replay", &rows(&self.steady_store)?, &rows(&replay_store)?)?;
        audited(self.batched()?.stored())?;
        let spaces: Vec<String> = self.oracle.spaces().map(|(name, _)| name.to_owned()).collect();
        for name in spaces.iter().filter(|name| *name != CONTROL_SPACE) {
            let digest = recant_projections::fold::digest_of(self.batched()?.stored(), name)?;
            same("stored digest", self.oracle.digest(name), format!("{digest:032x}"))?;
        }
        if let (true, Some(batched)) = (self.settings.asks, &self.batched) {
            self.figures.past_standings += self.ask(batched.stored(), last.offset)?;
            self.figures.past_standings += self.ask_a_replay(records)?;
        }
        self.figures.graphs_with_ring = u64::from(self.oracle.spaces().any(|(_, space)| has_ring(space)));
        Ok(self.figures)
    }
}

fn hashes<S: WriteStore>(partition: &Partition<S>) -> [Vec<u8>; 2] {
    [partition.outputs_hash().to_vec(), partition.last_record_hash()]
}

fn open<S: WriteStore>(store: S, settings: &Settings) -> Result<Partition<S>, Differs> {
    let partition = Partition::open(store, INCARNATION, PARTITION)?;
    let partition = partition.with_forms(settings.forms);
    Ok(match settings.engine {
        None => partition,
        Some(engine) => partition.with_engine(engine),
    })
}

/// What was published, each message with the bytes that stand for it.
fn messages(folded: &Folded) -> Result<Vec<Message>, Differs> {
    let encoded = |message: &Message| match message {
        Message::Change(change) => prost::Message::encode_to_vec(change),
        Message::Rejection(rejection) => prost::Message::encode_to_vec(rejection),
    };
    for output in &folded.outputs {
        same("bytes of an output", &encoded(&output.message), &output.value)?;
        same("key of an output", folded.space.as_bytes(), output.key.as_slice())?;
    }
    Ok(folded.outputs.iter().map(|output| output.message.clone()).collect())
}

/// The standing of every node of a space, by number; none for those that have not arrived.
fn standings(space: &Space, rows: &impl Rows) -> Result<Vec<Option<recant_proto::id::Standing>>, StoreError> {
    let standing = |number| {
        let state = space.node(rows, Node(number))?;
        Ok(state.arrival.map(|_| state.standing))
    };
    (0..space.row.nodes).map(standing).collect()
}

/// The state of each space: nodes and justifications in text, ranks and supports included, whatever form it has. A space of
/// which everything was rejected is in memory or not.
fn graphs<S: WriteStore>(partition: &mut Partition<S>) -> Result<BTreeMap<&'static str, String>, Differs> {
    let mut graphs = BTreeMap::new();
    for name in SPACES {
        let text = partition.read(name, |space, rows| {
            let mut text = String::new();
            for number in 0..space.row.nodes {
                // Where a list begins is the resident form's own.
                let state = NodeState { newest_use: None, ..space.node(rows, Node(number))? };
                text += &format!("{state:?}");
            }
            for number in 0..space.row.justifications {
                let state = space.justification(rows, Justification::new(number))?;
                text += &format!("{:?}", JustificationState { first_premise: Premise::new(0), ..state });
            }
            Ok(text)
        })?;
        graphs.extend(text.filter(|text| !text.is_empty()).map(|text| (name, text)));
    }
    Ok(graphs)
}

/// What `recant doctor` counts anew is what is kept.
fn audited(store: &impl Store) -> Result<(), Differs> {
    for name in SPACES {
        same("what is wrong with a space", Vec::new(), audit::space(store, name)?)?;
    }
    Ok(())
}
