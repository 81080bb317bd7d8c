//! Everyone in a run, and who acts next.

use std::{cell::RefCell, collections::VecDeque, rc::Rc, sync::Arc};

use recant_eventlog::{AppendLog as _, Clock as _, NewRecord, ReadLimit, Topic, clock::ManualClock};
use recant_processor::driver::{self, BatchLimit};
use recant_projections::fold::Forms;
use recant_proto::{
    id::CONTROL_SPACE,
    v1::{Event, LogCreated, event::Body},
    wire,
};

use super::{
    CRASHES_MIN, Checked, EVENTS_MIN, FAULTS_MIN, Figures, Plant,
    choices::Choices,
    consumer::Consumer,
    kafka::{brokers::Brokers, group::Group},
    letters::{Desk, Letter, Said, letters},
    mishaps::Mishaps,
    names::{Coverage, Fault, Step},
    process::{Acted, Process, ProcessHabits},
    trace::Trace,
    truth::Truth,
    writers::{Acknowledged, LETTERS_MAX, Writer, check_acknowledged},
    wrong,
};
use crate::{agree::INCARNATION, generate::BEGIN_MS};

/// A run that takes more rounds does not come to an end.
const ROUNDS_MAX: u64 = 40_000;

/// Members of the group.
const PROCESSES_MIN: u64 = 2;
const PROCESSES_MAX: u64 = 4;

/// Of so many steps of a process about one is looked into by a reader, right behind a batch that it writes.
const GLIMPSE_ONE_IN: u64 = 40;

/// So many letters are lost with writers that die.
const LETTERS_LOST_MAX: u64 = 40;

/// What can happen to an append.
const APPEND_FAULTS: [Fault; 5] =
    [Fault::AppendLost, Fault::AppendKept, Fault::AppendDelayed, Fault::AppendDoubled, Fault::WriterDied];

/// A run.
pub struct World {
    pub(super) choices: Choices,
    pub(super) trace: Trace,
    pub(super) coverage: Rc<RefCell<Coverage>>,
    pub(super) brokers: Brokers,
    pub(super) group: Group,
    pub(super) clock: Arc<ManualClock>,
    pub(super) partitions: u32,
    pub(super) truths: Vec<Truth>,
    pub(super) desk: Desk,
    pub(super) writers: Vec<Writer>,
    pub(super) acknowledged: Acknowledged,
    pub(super) processes: Vec<Process>,
    pub(super) consumers: Vec<Consumer>,
    /// Who acquired each partition last.
    pub(super) owners: Vec<Option<usize>>,
    pub(super) habits: Habits,
    pub(super) plant: Option<Plant>,
    pub(super) round: u64,
    pub(super) letters_lost: u64,
    pub(super) reads: u64,
}

/// How a run goes; drawn once for each.
pub(super) struct Habits {
    /// How often each acts, in the order of [`Turn`].
    weights: [u64; 6],
    /// The faults that this run has.
    pub(super) faults: Vec<Fault>,
    /// Of so many stored batches about one is on disk.
    sync_one_in: u64,
    /// Of so many appends about one goes wrong.
    append_fault_one_in: u64,
}

enum Turn {
    Write,
    Drive,
    Read,
    Consume,
    GoWrong,
    Watch,
}

impl World {
    /// The world of a seed.
    pub fn new(seed: u64, plant: Option<Plant>, trace: Trace) -> Checked<World> {
        let mut choices = Choices::of(seed);
        let partitions = choices.between(1, 4) as u32;
        let groups = choices.between(2, 4);
        let clock = Arc::new(ManualClock::new(BEGIN_MS));
        let coverage = Rc::new(RefCell::new(Coverage::default()));
        let mut desk = Desk::default();
        let brokers = new_brokers(&mut choices, partitions, &mut desk, clock.clone())?;
        if plant == Some(Plant::NoFencing) {
            brokers.plant_no_fencing();
        }
        let digest_interval_events = [40, 10_000][choices.index(2)];
        let events = EVENTS_MIN + LETTERS_LOST_MAX + choices.below(60);
        let letters = letters(&mut choices, partitions, groups, events as usize);
        let writers = writers_of(&mut choices, letters);
        let processes = (0..choices.between(PROCESSES_MIN, PROCESSES_MAX) as usize).map(|number| {
            let mishaps = Mishaps::of(number, trace.clone(), coverage.clone());
            let habits = ProcessHabits {
                limit: BatchLimit { digest_interval_events, ..batch_limit(&mut choices) },
                is_static: choices.one_in(3),
                keeps_standbys: choices.one_in(3),
                plant,
            };
            Process::new(number, partitions, mishaps, trace.clone(), habits)
        });
        let processes = processes.collect();
        let consumers = (0..choices.between(2, 4))
            .map(|number| Consumer::new(choices.below(u64::from(partitions)) as u32, number % 2 == 0))
            .collect();
        let habits = Habits::drawn(&mut choices);
        trace.line(format_args!(
            "seed {seed}: {partitions} partitions, {groups} groups, {events} events, {:?}",
            habits.faults
        ));
        let mut world = World {
            choices,
            trace,
            coverage,
            brokers,
            group: Group::new(partitions),
            clock,
            partitions,
            truths: (0..partitions).map(Truth::new).collect(),
            desk,
            writers,
            acknowledged: Vec::new(),
            processes,
            consumers,
            owners: vec![None; partitions as usize],
            habits,
            plant,
            round: 0,
            letters_lost: 0,
            reads: 0,
        };
        world.learn()?;
        Ok(world)
    }

    /// What was done so far.
    pub fn figures(&self) -> Figures {
        let count = |topic| self.brokers.written(topic);
        Figures {
            seeds: 1,
            events: count(Topic::Events),
            changes: count(Topic::Changes),
            rejections: count(Topic::Rejected),
            rounds: self.round,
            reads: self.reads,
            coverage: *self.coverage.borrow(),
        }
    }

    /// Everything, to the end.
    pub fn run(&mut self) -> Checked {
        while !self.is_enough() {
            self.round += 1;
            if self.round > ROUNDS_MAX {
                return wrong(format!("after {ROUNDS_MAX} rounds there is no end to it"));
            }
            self.clock.advance(self.choices.below(20_000) as i64);
            self.pass_round();
            self.take_turn()?;
        }
        self.calm_down()?;
        self.finish()?;
        let figures = self.figures();
        let (events, faults, crashes) = (figures.events, figures.coverage.fault_count(), figures.coverage.crashes());
        if events < EVENTS_MIN || faults < FAULTS_MIN || crashes < CRASHES_MIN {
            return wrong(format!("a run of {events} events, {faults} faults and {crashes} deaths shows too little"));
        }
        Ok(())
    }

    /// Whether everything was written, and enough has gone wrong.
    fn is_enough(&self) -> bool {
        let coverage = self.coverage.borrow();
        !self.writers.iter().any(Writer::has_more)
            && coverage.fault_count() >= FAULTS_MIN
            && coverage.crashes() >= CRASHES_MIN
    }

    fn take_turn(&mut self) -> Checked {
        const TURNS: [Turn; 6] = [Turn::Write, Turn::Drive, Turn::Read, Turn::Consume, Turn::GoWrong, Turn::Watch];
        match TURNS[self.choices.weighted(&self.habits.weights)] {
            Turn::Write => self.write(),
            Turn::Drive => self.drive(),
            Turn::Read => self.read(),
            Turn::Consume => self.consume(),
            Turn::GoWrong => self.go_wrong(),
            Turn::Watch => self.watch(),
        }
    }

    pub(super) fn happened(&self, fault: Fault) {
        self.trace.line(format_args!("{}", fault.name()));
        self.coverage.borrow_mut().faults[fault as usize] += 1;
    }

    pub(super) fn any_partition(&mut self) -> u32 {
        self.choices.below(u64::from(self.partitions)) as u32
    }

    fn learn(&mut self) -> Checked {
        self.truths.iter_mut().try_for_each(|truth| truth.learn(&self.brokers, self.desk.sayings()))
    }

    fn write(&mut self) -> Checked {
        let busy: Vec<usize> = (0..self.writers.len()).filter(|number| self.writers[*number].has_more()).collect();
        let Some(number) = self.choices.one_of(&busy).copied() else { return Ok(()) };
        let goes_wrong = self.choices.one_in(self.habits.append_fault_one_in);
        let fault = if goes_wrong { self.choices.one_of(&APPEND_FAULTS).copied() } else { None };
        let fault = fault.filter(|fault| self.habits.faults.contains(fault));
        // Who dies has not heard of his append, which is in the log or not.
        let to_log = match fault {
            Some(Fault::WriterDied) if self.letters_lost + LETTERS_MAX <= LETTERS_LOST_MAX => {
                Some([Fault::AppendLost, Fault::AppendKept][self.choices.index(2)])
            }
            Some(Fault::WriterDied) => Some(Fault::AppendKept),
            fault => fault,
        };
        let clock = self.clock.clone();
        let writer = &mut self.writers[number];
        let acknowledged =
            writer.act(&self.brokers, &mut self.desk, &mut self.choices, to_log, &mut |ms| clock.advance(ms))?;
        if let Some(fault) = fault {
            if fault == Fault::WriterDied {
                let unheard = writer.die();
                self.letters_lost += if to_log == Some(Fault::AppendLost) { unheard } else { 0 };
            }
            self.happened(fault);
        }
        self.trace.line(format_args!(
            "writer {number}: {} acknowledged at {} ms",
            acknowledged.len(),
            self.clock.now_ms()
        ));
        check_acknowledged(&self.brokers, &acknowledged)?;
        for (position, value) in &acknowledged {
            self.trace.bytes(position.to_string().as_bytes());
            self.trace.bytes(value);
        }
        self.acknowledged.extend(acknowledged);
        self.learn()
    }

    /// A process takes one step in a partition, and everything that it touched is looked at.
    pub(super) fn act(&mut self, number: usize, partition: u32) -> Checked<Acted> {
        let at = partition as usize;
        let has_recovered = self.processes[number].has_recovered(partition);
        if self.plant == Some(Plant::TornBatch) {
            let batches = self.choices.below(40);
            self.processes[number].mishaps().plant_tear(batches);
        }
        if self.choices.one_in(GLIMPSE_ONE_IN) {
            self.processes[number].mishaps().plan_glimpse();
        }
        let acted = self.processes[number].act(&self.brokers, partition, self.round, &self.truths[at])?;
        if self.processes[number].mishaps().has_acquired() {
            self.acquired(number, partition);
        }
        match acted {
            Acted::Took(driver::Step::Stored) if self.choices.one_in(self.habits.sync_one_in) => {
                self.processes[number].disk(partition).sync();
            }
            Acted::Nothing | Acted::Took(_) | Acted::Opened | Acted::Recovered | Acted::StoodBy => {}
            Acted::Stopped { fenced } => self.stopped(number, partition, fenced)?,
            Acted::Halted => self.restarted(number),
            Acted::Ended(_) => self.ended(number, partition),
            Acted::Died(step) => self.died(number, step, has_recovered),
        }
        self.leave_if_rid(number);
        // Whoever is gone may have left a commit on its way.
        if matches!(acted, Acted::Stopped { .. } | Acted::Died(_)) && self.choices.one_in(3) {
            self.land()?;
        }
        self.truths[at].check_published(&self.brokers, &self.trace)?;
        self.truths[at].check_position(self.processes[number].disk(partition), &self.brokers)?;
        self.glimpse(number, partition)?;
        Ok(acted)
    }

    /// What a reader saw in the middle of the step is right, and not ahead either.
    fn glimpse(&mut self, number: usize, partition: u32) -> Checked {
        let Some(seen) = self.processes[number].disk(partition).take_glimpse() else { return Ok(()) };
        let truth = &self.truths[partition as usize];
        let next = truth.check_position(&seen, &self.brokers)?;
        self.trace.line(format_args!("in between: reads all of process {number} at {next}"));
        for space in truth.spaces() {
            self.trace.bytes(&truth.check_answer(&seen, &space, None)?);
            self.reads += 1;
        }
        Ok(())
    }

    fn acquired(&mut self, number: usize, partition: u32) {
        let another_drives =
            (0..self.processes.len()).any(|other| other != number && self.processes[other].drives(partition));
        if another_drives {
            self.happened(Fault::TakenOver);
        }
        self.owners[partition as usize] = Some(number);
    }

    fn stopped(&mut self, number: usize, partition: u32, fenced: bool) -> Checked {
        if !fenced {
            return Ok(());
        }
        if self.owners[partition as usize] != Some(number) {
            self.happened(Fault::ZombieFenced);
        } else if !self.brokers.were_timed_out(partition) {
            return wrong(format!("process {number} is told that it lost partition {partition}, and it has not"));
        }
        Ok(())
    }

    /// An operator starts a process anew that has halted.
    fn restarted(&mut self, number: usize) {
        self.trace.line(format_args!("process {number} is started anew"));
        let _ = self.processes[number].kill(self.round);
    }

    fn died(&mut self, number: usize, step: Step, had_recovered: bool) {
        if !had_recovered && step.is_of_opening() {
            self.happened(Fault::DiedOpening);
        }
        self.after_death(number);
    }

    /// A reader looks at one process's state of one space, at its position or as of an earlier one.
    fn read(&mut self) -> Checked {
        let (number, partition) = (self.choices.index(self.processes.len()), self.any_partition());
        let truth = &self.truths[partition as usize];
        let disk = self.processes[number].disk(partition);
        let next = truth.check_position(disk, &self.brokers)?;
        let Some(space) = self.choices.one_of(&truth.spaces()).cloned() else { return Ok(()) };
        let earlier = (next > 0 && self.choices.one_in(3)).then(|| self.choices.below(next));
        let answer = truth.check_answer(disk, &space, earlier)?;
        self.reads += 1;
        self.trace.line(format_args!(
            "reads {space} of process {number} at {next}, as of {earlier:?}: {} bytes",
            answer.len()
        ));
        self.trace.bytes(&answer);
        Ok(())
    }

    fn consume(&mut self) -> Checked {
        let consumer = self.choices.index(self.consumers.len());
        if self.brokers.holds_back(Topic::Changes, self.consumers[consumer].partition()) {
            self.happened(Fault::HeldBack);
        }
        if self.choices.one_in(4) {
            let with_cursor = self.choices.one_in(2);
            self.consumers[consumer].save(with_cursor);
        }
        let partition = self.consumers[consumer].partition();
        let process = self.choices.index(self.processes.len());
        let disk = self.processes[process].disk(partition);
        let truth = &self.truths[partition as usize];
        let did = self.consumers[consumer].act(&self.brokers, disk, truth, &mut self.choices)?;
        self.trace.line(format_args!("consumer {consumer} of partition {partition}: {did}"));
        Ok(())
    }

    /// Markers that are late are written at last.
    fn watch(&mut self) -> Checked {
        if self.choices.one_in(3) { self.land() } else { Ok(()) }
    }
}

impl Habits {
    fn drawn(choices: &mut Choices) -> Habits {
        let weights = [
            choices.between(2, 6),
            choices.between(10, 30),
            choices.between(1, 3),
            choices.between(1, 4),
            choices.between(1, 4),
            2,
        ];
        // Two in three of what can go wrong, so that in some runs one thing does again and again.
        let faults = Fault::ALL.iter().copied().filter(|_| !choices.one_in(3)).collect();
        Habits { weights, faults, sync_one_in: choices.between(1, 8), append_fault_one_in: choices.between(4, 15) }
    }
}

/// Brokers with a log that has its first record in each partition.
fn new_brokers(choices: &mut Choices, partitions: u32, desk: &mut Desk, clock: Arc<ManualClock>) -> Checked<Brokers> {
    let created = LogCreated {
        incarnation: INCARNATION.to_string(),
        partitions,
        logic_version: 1,
        commitment_key: if choices.one_in(2) { vec![7; 32] } else { Vec::new() },
        writers: "open".to_owned(),
        log_time: "append".to_owned(),
        ..LogCreated::default()
    };
    let body = Some(Body::LogCreated(created));
    let event = Event { id: "log-created".to_owned(), space: CONTROL_SPACE.to_owned(), body, ..Event::default() };
    let value = wire::to_protobuf(&event);
    desk.note(value.clone(), Said { event, refused: None });
    let first = |partition| NewRecord {
        partition,
        key: CONTROL_SPACE.into(),
        headers: Vec::new(),
        value: value.clone(),
        append_time_ms: None,
    };
    let brokers = Brokers::new(INCARNATION, partitions, clock);
    brokers.append((0..partitions).map(first).collect())?;
    Ok(brokers)
}

fn writers_of(choices: &mut Choices, letters: VecDeque<Letter>) -> Vec<Writer> {
    let mut writers: Vec<Writer> = (0..choices.between(2, 4)).map(|_| Writer::default()).collect();
    for (number, letter) in letters.into_iter().enumerate() {
        // Mostly a run of letters each, so that what belongs together often comes together.
        let writer = if choices.one_in(4) { choices.index(writers.len()) } else { number / 7 % writers.len() };
        writers[writer].give(letter);
    }
    writers
}

/// Batches of one event, of a few and of many.
fn batch_limit(choices: &mut Choices) -> BatchLimit {
    let records_max = [1, 3, 9, 40][choices.index(4)];
    let bytes_max = [200, 1 << 20][choices.index(2)];
    BatchLimit { read: ReadLimit { records_max, bytes_max }, forms: forms(choices), ..BatchLimit::default() }
}

/// Spaces that are resident, in pages, or go from one form to the other; with segments of few items.
fn forms(choices: &mut Choices) -> Forms {
    let budgets_bytes = [0, 20_000, 1 << 30];
    Forms {
        resident_max: [0, u32::MAX][choices.index(2)],
        memory_budget_bytes: budgets_bytes[choices.index(3)],
        load_rows_max: 1 + choices.index(40),
        segment_items_min: 4 + choices.index(40),
        idle_events_max: [4, 1 << 17][choices.index(2)],
    }
}
