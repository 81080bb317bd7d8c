//! Everyone in a run, and who acts next.

use std::{cell::RefCell, collections::VecDeque, rc::Rc, sync::Arc};

use recant_eventlog::{Clock as _, NewRecord, ReadLimit, ReadLog as _, Topic, clock::ManualClock, memory::MemoryLog};
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
    letters::{Desk, Letter, Said, letters},
    mishaps::Mishaps,
    names::{Coverage, Fault, Step},
    process::{Acted, Process},
    trace::Trace,
    truth::Truth,
    writers::{Acknowledged, LETTERS_MAX, Writer, check_acknowledged},
    wrong,
};
use crate::{agree::INCARNATION, generate::BEGIN_MS};

/// A run that takes more rounds does not come to an end.
const ROUNDS_MAX: u64 = 40_000;

/// Processes: one that drives, and others that take over.
const PROCESSES_MIN: u64 = 2;
const PROCESSES_MAX: u64 = 3;

/// Of so many steps of a process about one is looked into by a reader, right behind a batch that it writes.
const GLIMPSE_ONE_IN: u64 = 40;

/// How far the clock jumps at most: three days.
const JUMP_MS_MAX: u64 = 3 * 24 * 3_600_000;

/// So many letters are lost with writers that die.
const LETTERS_LOST_MAX: u64 = 40;

/// How long nothing is heard of a process at most.
const STALL_ROUNDS_MAX: u64 = 80;

/// A fault of which a process is told beforehand, for the next call of its kind.
const ARMED: [Fault; 9] = [
    Fault::CommitAborted,
    Fault::CommitUnknownApplied,
    Fault::CommitUnknownLost,
    Fault::CommitUnknownDelayed,
    Fault::CommitFenced,
    Fault::ReadFailed,
    Fault::AcquireFailed,
    Fault::StoreRefused,
    Fault::StoreReadFailed,
];

/// What can happen to an append.
const APPEND_FAULTS: [Fault; 5] =
    [Fault::AppendLost, Fault::AppendKept, Fault::AppendDelayed, Fault::AppendDoubled, Fault::WriterDied];

/// A run.
pub struct World {
    pub(super) choices: Choices,
    pub(super) trace: Trace,
    coverage: Rc<RefCell<Coverage>>,
    pub(super) log: MemoryLog,
    clock: Arc<ManualClock>,
    pub(super) partitions: u32,
    pub(super) truths: Vec<Truth>,
    pub(super) desk: Desk,
    writers: Vec<Writer>,
    pub(super) acknowledged: Acknowledged,
    pub(super) processes: Vec<Process>,
    pub(super) consumers: Vec<Consumer>,
    /// Who acquired each partition last.
    owners: Vec<Option<usize>>,
    habits: Habits,
    pub(super) plant: Option<Plant>,
    round: u64,
    letters_lost: u64,
    pub(super) reads: u64,
}

/// How a run goes; drawn once for each.
struct Habits {
    /// How often each acts, in the order of [`Turn`].
    weights: [u64; 6],
    /// The faults that this run has.
    faults: Vec<Fault>,
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
        let log = new_log(&mut choices, partitions, &mut desk, clock.clone())?;
        let events = EVENTS_MIN + LETTERS_LOST_MAX + choices.below(60);
        let letters = letters(&mut choices, partitions, groups, events as usize);
        let writers = writers_of(&mut choices, letters);
        let processes = (0..choices.between(PROCESSES_MIN, PROCESSES_MAX) as usize).map(|number| {
            let mishaps = Mishaps::of(number, trace.clone(), coverage.clone());
            Process::new(number, partitions, mishaps, trace.clone(), batch_limit(&mut choices), plant)
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
            log,
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
        let count = |topic| {
            let ends = (0..self.partitions).filter_map(|partition| self.log.bounds(topic, partition).ok());
            ends.map(|bounds| bounds.end).sum()
        };
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

    fn happened(&self, fault: Fault) {
        self.trace.line(format_args!("{}", fault.name()));
        self.coverage.borrow_mut().faults[fault as usize] += 1;
    }

    fn any_partition(&mut self) -> u32 {
        self.choices.below(u64::from(self.partitions)) as u32
    }

    fn learn(&mut self) -> Checked {
        self.truths.iter_mut().try_for_each(|truth| truth.learn(&self.log, self.desk.sayings()))
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
            writer.act(&self.log, &mut self.desk, &mut self.choices, to_log, &mut |ms| clock.advance(ms))?;
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
        check_acknowledged(&self.log, &acknowledged)?;
        for (position, value) in &acknowledged {
            self.trace.bytes(position.to_string().as_bytes());
            self.trace.bytes(value);
        }
        self.acknowledged.extend(acknowledged);
        self.learn()
    }

    fn drive(&mut self) -> Checked {
        let number = self.choices.index(self.processes.len());
        let partition = self.any_partition();
        let process = &self.processes[number];
        if process.wants(partition) && process.is_awake(self.round) {
            self.act(number, partition)?;
        }
        Ok(())
    }

    /// A process takes one step in a partition, and everything that it touched is looked at.
    pub(super) fn act(&mut self, number: usize, partition: u32) -> Checked<Acted> {
        let at = partition as usize;
        let was_open = self.processes[number].drives(partition);
        if self.plant == Some(Plant::TornBatch) {
            let batches = self.choices.below(40);
            self.processes[number].mishaps().plant_tear(batches);
        }
        if self.choices.one_in(GLIMPSE_ONE_IN) {
            self.processes[number].mishaps().plan_glimpse();
        }
        let acted = self.processes[number].act(&self.log, partition, &self.truths[at])?;
        if self.processes[number].mishaps().has_acquired() {
            self.acquired(number, partition);
        }
        match acted {
            Acted::Opened => self.trace.line(format_args!("process {number}: opened partition {partition}")),
            Acted::Took(driver::Step::Stored) if self.choices.one_in(self.habits.sync_one_in) => {
                self.processes[number].disk(partition).sync();
            }
            Acted::Took(_) => {}
            Acted::Stopped { fenced } => self.stopped(number, partition, fenced)?,
            Acted::Died(step) => self.died(number, step, was_open),
        }
        // Whoever is gone may have left a commit on its way.
        if !matches!(acted, Acted::Opened | Acted::Took(_)) && self.choices.one_in(3) {
            self.land()?;
        }
        self.truths[at].check_published(&self.log, &self.trace)?;
        self.truths[at].check_position(self.processes[number].disk(partition), &self.log)?;
        self.glimpse(number, partition)?;
        Ok(acted)
    }

    /// What a reader saw in the middle of the step is right, and not ahead either.
    fn glimpse(&mut self, number: usize, partition: u32) -> Checked {
        let Some(seen) = self.processes[number].disk(partition).take_glimpse() else { return Ok(()) };
        let truth = &self.truths[partition as usize];
        let next = truth.check_position(&seen, &self.log)?;
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
        let was_told_to = self.processes[number].mishaps().is_blamed();
        if self.owners[partition as usize] != Some(number) {
            self.happened(Fault::ZombieFenced);
        } else if !was_told_to {
            return wrong(format!("process {number} is told that it lost partition {partition}, and it has not"));
        }
        // It gives the partition up, unless it is the one that is to drive it all the same.
        let gives_up = self.owners[partition as usize] != Some(number);
        self.processes[number].set_wants(partition, !gives_up);
        Ok(())
    }

    fn died(&mut self, number: usize, step: Step, was_open: bool) {
        if !was_open && step.is_of_opening() {
            self.happened(Fault::DiedOpening);
        }
        self.after_death(number);
    }

    /// The power fails at times, or the disk is lost; or the process is to die again at once.
    fn after_death(&mut self, number: usize) {
        let partition = self.any_partition();
        let process = &self.processes[number];
        if self.habits.faults.contains(&Fault::PowerLoss) && self.choices.one_in(3) {
            process.lose_power(&mut self.choices);
        }
        if self.habits.faults.contains(&Fault::DiskLost) && self.choices.one_in(12) {
            process.lose_disk(partition);
        }
        if self.choices.one_in(4) {
            self.plan_death(number, Step::is_of_opening);
        }
    }

    fn plan_death(&mut self, number: usize, of: impl Fn(Step) -> bool) {
        let steps: Vec<Step> = Step::ALL.iter().copied().filter(|step| of(*step)).collect();
        let Some(step) = self.choices.one_of(&steps).copied() else { return };
        // Rows are read often, and commits rarely aborted.
        let spared = match step {
            Step::DriverAborted => 0,
            Step::StoreRead | Step::RecoverFold => self.choices.below(60),
            step if step.is_of_opening() => self.choices.below(2),
            _ => self.choices.below(4),
        };
        self.trace.line(format_args!("process {number} is to die at {}, spared {spared} times", step.name()));
        let mishaps = self.processes[number].mishaps();
        mishaps.plan_death(step, spared);
        if step == Step::DriverAborted {
            mishaps.arm(Fault::CommitAborted);
        }
    }

    /// A reader looks at one process's state of one space, at its position or as of an earlier one.
    fn read(&mut self) -> Checked {
        let (number, partition) = (self.choices.index(self.processes.len()), self.any_partition());
        let truth = &self.truths[partition as usize];
        let disk = self.processes[number].disk(partition);
        let next = truth.check_position(disk, &self.log)?;
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
        if self.choices.one_in(4) {
            let with_cursor = self.choices.one_in(2);
            self.consumers[consumer].save(with_cursor);
        }
        let partition = self.consumers[consumer].partition();
        let process = self.choices.index(self.processes.len());
        let disk = self.processes[process].disk(partition);
        let truth = &self.truths[partition as usize];
        let did = self.consumers[consumer].act(&self.log, disk, truth, &mut self.choices)?;
        self.trace.line(format_args!("consumer {consumer} of partition {partition}: {did}"));
        Ok(())
    }

    /// Something goes wrong, now or soon: half of the time it is a death.
    fn go_wrong(&mut self) -> Checked {
        let number = self.choices.index(self.processes.len());
        if self.choices.one_in(2) {
            return self.go_towards_death(number);
        }
        let Some(fault) = self.choices.one_of(&self.habits.faults).copied() else { return Ok(()) };
        if ARMED.contains(&fault) {
            self.processes[number].mishaps().arm(fault);
            return Ok(());
        }
        match fault {
            Fault::TakenOver => {
                let partition = self.any_partition();
                self.processes[number].set_wants(partition, true);
                Ok(())
            }
            Fault::Stalled => {
                let until = self.round + self.choices.below(STALL_ROUNDS_MAX);
                self.processes[number].stall(until);
                self.happened(fault);
                Ok(())
            }
            Fault::ClockForward | Fault::ClockBackward => {
                let by_ms = 1 + self.choices.below(JUMP_MS_MAX) as i64;
                self.clock.advance(if fault == Fault::ClockForward { by_ms } else { -by_ms });
                self.happened(fault);
                Ok(())
            }
            Fault::ConsumerDied | Fault::ConsumerForgot => {
                let consumer = self.choices.index(self.consumers.len());
                let consumer = &mut self.consumers[consumer];
                if fault == Fault::ConsumerDied {
                    consumer.die()
                } else {
                    consumer.forget()
                }
                self.happened(fault);
                Ok(())
            }
            // These come with an append or a death.
            _ => Ok(()),
        }
    }

    /// A process that drives something is to die at a step; of those of opening, it dies first where it is.
    fn go_towards_death(&mut self, number: usize) -> Checked {
        let drives = (0..self.partitions).any(|partition| self.processes[number].drives(partition));
        // A plan that does not come off, since the process never gets to that step, is given up at some time.
        let is_planned = self.processes[number].mishaps().is_death_planned();
        if !drives || (is_planned && !self.choices.one_in(3)) {
            return Ok(());
        }
        match self.choices.below(4) {
            0 => {
                if self.processes[number].kill().is_some() {
                    self.after_death(number);
                    let in_recovery = self.choices.one_in(2);
                    if in_recovery {
                        self.processes[number].lose_power(&mut self.choices);
                    }
                    self.plan_death(number, if in_recovery { Step::is_of_recovery } else { Step::is_of_opening });
                }
            }
            _ => self.plan_death(number, |step| !step.is_of_opening()),
        }
        Ok(())
    }

    /// A commit that is on its way gets into the log by itself.
    fn land(&mut self) -> Checked {
        if !self.habits.faults.contains(&Fault::CommitLandsByItself) {
            return Ok(());
        }
        for partition in 0..self.partitions {
            if self.log.settle_delayed(partition)? {
                self.happened(Fault::CommitLandsByItself);
                self.truths[partition as usize].check_published(&self.log, &self.trace)?;
            }
        }
        Ok(())
    }

    /// Sees to it that someone means to drive each partition.
    fn watch(&mut self) -> Checked {
        for partition in 0..self.partitions {
            if !(0..self.processes.len()).any(|number| self.processes[number].wants(partition)) {
                let number = self.choices.index(self.processes.len());
                self.trace.line(format_args!("process {number} is to drive partition {partition}"));
                self.processes[number].set_wants(partition, true);
            }
        }
        Ok(())
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

/// A log with its first record in each partition.
fn new_log(choices: &mut Choices, partitions: u32, desk: &mut Desk, clock: Arc<ManualClock>) -> Checked<MemoryLog> {
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
    Ok(MemoryLog::create(INCARNATION, partitions, (0..partitions).map(first).collect(), clock)?)
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
