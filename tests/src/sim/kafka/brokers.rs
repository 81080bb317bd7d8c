//! The brokers: topics, transactions, and the group's positions.

use std::{
    cell::{Ref, RefCell, RefMut},
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use recant_eventlog::{Clock as _, Committed, LogError, NewRecord, Output, Record, Topic, clock::ManualClock};
use recant_proto::position::{Incarnation, Position};

use crate::sim::{mishaps::TOLD_TO, names::Fault};

/// A transaction that is open for so many rounds is ended by the brokers.
const TRANSACTION_ROUNDS_MAX: u64 = 60;

/// A partition's transactional identity: which partition, and which of its two.
pub type IdentityName = (u32, usize);

/// An identity's holder; a later one fences it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerEpoch(u64);

/// Why the brokers refuse a call on a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Another has the identity, or the transaction took too long.
    Fenced,
    /// The markers of the transaction before it are not written yet.
    Concurrent,
}

/// When a transaction that is decided gets its markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Markers {
    /// At once.
    Now,
    /// When the identity was refused so often for their sake, is initialised, or they are written by themselves.
    After(u32),
}

/// A handle on the brokers; clones are handles on the same ones.
#[derive(Clone)]
pub struct Brokers(Rc<RefCell<State>>);

pub(super) struct State {
    pub(super) incarnation: Incarnation,
    clock: Arc<ManualClock>,
    round: u64,
    pub(super) partitions: Vec<[Vec<Entry>; Topic::ALL.len()]>,
    pub(super) transactions: Vec<Transaction>,
    identities: BTreeMap<IdentityName, Identity>,
    /// Appends that were answered with an error and are not in the log yet.
    delayed_appends: Vec<NewRecord>,
    positions_sent: u64,
    /// Planted: whoever initialises an identity fences nobody.
    pub(super) fences_nobody: bool,
}

/// What has an offset.
pub(super) enum Entry {
    Record { record: Record, transaction: Option<usize> },
    Marker,
}

pub(super) struct Transaction {
    pub(super) partition: u32,
    pub(super) stage: Stage,
    began: u64,
    topics: BTreeSet<Topic>,
    /// The position that was sent as part of it, and the how-manieth of all it is.
    pub(super) position: Option<(u64, Committed)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Open,
    Decided { commits: bool, markers_after: u32 },
    Ended { commits: bool },
}

#[derive(Default)]
struct Identity {
    epoch: u64,
    transaction: Option<usize>,
    was_timed_out: bool,
}

impl Brokers {
    /// Brokers with topics of so many partitions.
    pub fn new(incarnation: Incarnation, partitions: u32, clock: Arc<ManualClock>) -> Brokers {
        Brokers(Rc::new(RefCell::new(State {
            incarnation,
            clock,
            round: 0,
            partitions: (0..partitions).map(|_| Default::default()).collect(),
            transactions: Vec::new(),
            identities: BTreeMap::new(),
            delayed_appends: Vec::new(),
            positions_sent: 0,
            fences_nobody: false,
        })))
    }

    /// Planted: no fencing.
    pub fn plant_no_fencing(&self) {
        self.state_mut().fences_nobody = true;
    }

    pub(super) fn state(&self) -> Ref<'_, State> {
        self.0.borrow()
    }

    fn state_mut(&self) -> RefMut<'_, State> {
        self.0.borrow_mut()
    }

    /// A round has passed: transactions that are open for too long are ended; how many.
    pub fn pass_round(&self, round: u64) -> usize {
        let state = &mut *self.state_mut();
        state.round = round;
        let overdue: Vec<IdentityName> = state
            .identities
            .iter()
            .filter(|(_, identity)| {
                identity.transaction.is_some_and(|at| {
                    let transaction = &state.transactions[at];
                    transaction.stage == Stage::Open && transaction.began + TRANSACTION_ROUNDS_MAX < round
                })
            })
            .map(|(name, _)| *name)
            .collect();
        overdue.iter().for_each(|name| state.time_out(*name));
        overdue.len()
    }

    /// Ends the open transaction of an identity as one that took too long, and fences its holder.
    pub fn time_out(&self, name: IdentityName) {
        self.state_mut().time_out(name);
    }

    /// Whether a holder of one of a partition's identities was fenced because a transaction took too long.
    pub fn were_timed_out(&self, partition: u32) -> bool {
        self.state().identities.iter().any(|(name, identity)| name.0 == partition && identity.was_timed_out)
    }

    /// Takes an identity: ends what was under way, and fences whoever had it.
    pub fn initialise(&self, name: IdentityName) -> ProducerEpoch {
        let state = &mut *self.state_mut();
        if state.fences_nobody {
            return ProducerEpoch(state.identities.entry(name).or_default().epoch);
        }
        state.end_under_way(name);
        let identity = state.identities.entry(name).or_default();
        identity.epoch += 1;
        identity.was_timed_out = false;
        ProducerEpoch(identity.epoch)
    }

    /// Appends a record as part of the identity's transaction, which begins with it.
    pub fn send(&self, name: IdentityName, epoch: ProducerEpoch, output: &Output) -> Result<(), Refusal> {
        let state = &mut *self.state_mut();
        let at = state.transaction_of(name, epoch)?;
        state.transactions[at].topics.insert(output.topic);
        let new = NewRecord {
            partition: name.0,
            key: output.key.clone(),
            headers: output.headers.clone(),
            value: output.value.clone(),
            append_time_ms: None,
        };
        state.push(output.topic, new, Some(at));
        Ok(())
    }

    /// Sends the position as part of the identity's transaction.
    pub fn send_position(
        &self,
        name: IdentityName,
        epoch: ProducerEpoch,
        committed: &Committed,
    ) -> Result<(), Refusal> {
        let state = &mut *self.state_mut();
        let at = state.transaction_of(name, epoch)?;
        state.positions_sent += 1;
        state.transactions[at].position = Some((state.positions_sent, committed.clone()));
        Ok(())
    }

    /// Planted: commits the position by itself.
    pub fn send_position_apart(&self, partition: u32, committed: &Committed) {
        let state = &mut *self.state_mut();
        state.positions_sent += 1;
        state.transactions.push(Transaction {
            partition,
            stage: Stage::Ended { commits: true },
            began: state.round,
            topics: BTreeSet::new(),
            position: Some((state.positions_sent, committed.clone())),
        });
    }

    /// Ends the identity's transaction. Asked again, it has no further effect.
    pub fn end(
        &self,
        name: IdentityName,
        epoch: ProducerEpoch,
        commits: bool,
        markers: Markers,
    ) -> Result<(), Refusal> {
        let state = &mut *self.state_mut();
        let identity = state.identities.entry(name).or_default();
        if identity.epoch != epoch.0 {
            return Err(Refusal::Fenced);
        }
        let Some(at) = identity.transaction else { return Ok(()) };
        if state.transactions[at].stage != Stage::Open {
            return Ok(());
        }
        let Markers::After(markers_after) = markers else {
            state.finish(at, commits);
            return Ok(());
        };
        state.transactions[at].stage = Stage::Decided { commits, markers_after };
        Ok(())
    }

    /// Writes the markers of what is decided in a partition; whether there was anything.
    pub fn land(&self, partition: u32) -> bool {
        let state = &mut *self.state_mut();
        let mut landed = false;
        for at in 0..state.transactions.len() {
            let transaction = &state.transactions[at];
            if let (true, Stage::Decided { commits, .. }) = (transaction.partition == partition, transaction.stage) {
                state.finish(at, commits);
                landed = true;
            }
        }
        landed
    }

    /// The records of a topic that are committed for certain, whether they are visible yet or not, from an offset on.
    pub fn decided(&self, topic: Topic, partition: u32, from_offset: u64) -> Vec<Record> {
        let state = self.state();
        let entries = &state.partitions[partition as usize][topic as usize];
        let mut records = Vec::new();
        for entry in entries.iter().skip(from_offset as usize) {
            let Entry::Record { record, transaction } = entry else { continue };
            match transaction.map(|at| state.transactions[at].stage) {
                Some(Stage::Open) => break,
                Some(Stage::Decided { commits: false, .. } | Stage::Ended { commits: false }) => {}
                _ => records.push(record.clone()),
            }
        }
        records
    }

    /// The position that is committed for certain, whether it is visible yet or not.
    pub fn decided_position(&self, partition: u32) -> Committed {
        self.state().position(partition, |stage| {
            matches!(stage, Stage::Decided { commits: true, .. } | Stage::Ended { commits: true })
        })
    }

    /// The committed position of a partition of which nothing is undecided or on its way.
    pub fn settled_position(&self, partition: u32) -> Option<Committed> {
        let state = self.state();
        let is_settled = |transaction: &Transaction| matches!(transaction.stage, Stage::Ended { .. });
        let mut of_partition = state.transactions.iter().filter(|transaction| transaction.partition == partition);
        of_partition.all(is_settled).then(|| state.position(partition, |stage| stage == Stage::Ended { commits: true }))
    }

    /// How many records were written to a topic, over all partitions.
    pub fn written(&self, topic: Topic) -> u64 {
        let state = self.state();
        let count =
            |entries: &Vec<Entry>| entries.iter().filter(|entry| matches!(entry, Entry::Record { .. })).count() as u64;
        state.partitions.iter().map(|topics| count(&topics[topic as usize])).sum()
    }

    /// Whether something that was written is held back by a transaction that is not ended.
    pub fn holds_back(&self, topic: Topic, partition: u32) -> bool {
        let state = self.state();
        state.stable_end(topic, partition) < state.partitions[partition as usize][topic as usize].len()
    }

    /// Appends as agents do, with a fault if one is given.
    pub fn append_with(&self, records: Vec<NewRecord>, fault: Option<Fault>) -> Result<Vec<Position>, LogError> {
        let lost = || Err(LogError::Io(TOLD_TO.to_owned()));
        let state = &mut *self.state_mut();
        match fault {
            Some(Fault::AppendLost) => return lost(),
            Some(Fault::AppendDelayed) => {
                state.delayed_appends.extend(records);
                return lost();
            }
            _ => {}
        }
        let delayed = std::mem::take(&mut state.delayed_appends);
        if fault == Some(Fault::AppendDoubled) {
            records.iter().for_each(|record| {
                let _ = state.push(Topic::Events, record.clone(), None);
            });
        }
        let positions = records.into_iter().map(|record| state.push(Topic::Events, record, None)).collect();
        delayed.into_iter().for_each(|record| {
            let _ = state.push(Topic::Events, record, None);
        });
        if fault == Some(Fault::AppendKept) { lost() } else { Ok(positions) }
    }
}

impl State {
    fn push(&mut self, topic: Topic, record: NewRecord, transaction: Option<usize>) -> Position {
        let entries = &mut self.partitions[record.partition as usize][topic as usize];
        let position = Position { partition: record.partition, offset: entries.len() as u64 };
        let append_time_ms = record.append_time_ms.unwrap_or_else(|| self.clock.now_ms());
        let NewRecord { key, headers, value, .. } = record;
        let record = Record { position, append_time_ms, key, headers, value };
        entries.push(Entry::Record { record, transaction });
        position
    }

    pub(super) fn position(&self, partition: u32, counts: impl Fn(Stage) -> bool) -> Committed {
        let of_partition = self.transactions.iter().filter(|transaction| transaction.partition == partition);
        let positions = of_partition.filter(|transaction| counts(transaction.stage));
        let last = positions.filter_map(|transaction| transaction.position.as_ref()).max_by_key(|(order, _)| *order);
        last.map(|(_, committed)| committed.clone()).unwrap_or_default()
    }

    /// The transaction of an identity that a call of its holder belongs to.
    fn transaction_of(&mut self, name: IdentityName, epoch: ProducerEpoch) -> Result<usize, Refusal> {
        let identity = self.identities.entry(name).or_default();
        if identity.epoch != epoch.0 {
            return Err(Refusal::Fenced);
        }
        match identity.transaction {
            Some(at) if self.transactions[at].stage == Stage::Open => return Ok(at),
            Some(at) => {
                if let Stage::Decided { commits, markers_after } = self.transactions[at].stage {
                    self.wait_for_markers(at, commits, markers_after);
                    return Err(Refusal::Concurrent);
                }
            }
            None => {}
        }
        let at = self.transactions.len();
        self.identities.entry(name).or_default().transaction = Some(at);
        self.transactions.push(Transaction {
            partition: name.0,
            stage: Stage::Open,
            began: self.round,
            topics: BTreeSet::new(),
            position: None,
        });
        Ok(at)
    }

    fn wait_for_markers(&mut self, at: usize, commits: bool, markers_after: u32) {
        match markers_after.checked_sub(1) {
            None => self.finish(at, commits),
            Some(markers_after) => self.transactions[at].stage = Stage::Decided { commits, markers_after },
        }
    }

    /// Ends what an identity has under way: as it was decided, else by an abort.
    fn end_under_way(&mut self, name: IdentityName) {
        let Some(at) = self.identities.entry(name).or_default().transaction else { return };
        match self.transactions[at].stage {
            Stage::Open => self.finish(at, false),
            Stage::Decided { commits, .. } => self.finish(at, commits),
            Stage::Ended { .. } => {}
        }
    }

    fn time_out(&mut self, name: IdentityName) {
        self.end_under_way(name);
        let identity = self.identities.entry(name).or_default();
        identity.epoch += 1;
        identity.was_timed_out = true;
    }

    /// Writes a transaction's markers.
    fn finish(&mut self, at: usize, commits: bool) {
        let transaction = &mut self.transactions[at];
        transaction.stage = Stage::Ended { commits };
        for topic in &transaction.topics {
            self.partitions[transaction.partition as usize][*topic as usize].push(Entry::Marker);
        }
    }

    /// Up to where a topic is decided and visible.
    pub(super) fn stable_end(&self, topic: Topic, partition: u32) -> usize {
        let entries = &self.partitions[partition as usize][topic as usize];
        if topic == Topic::Events {
            return entries.len();
        }
        let is_held = |entry: &Entry| match entry {
            Entry::Record { transaction: Some(at), .. } => !matches!(self.transactions[*at].stage, Stage::Ended { .. }),
            _ => false,
        };
        entries.iter().position(is_held).unwrap_or(entries.len())
    }
}
