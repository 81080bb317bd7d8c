//! A process: a member of the group that drives the partitions it is given, as `recant_processor::serve` does, keeps up the
//! states of others if it is one that does, and dies now and then. What lies on its disks outlives it.

use std::sync::Arc;

use recant_eventlog::{LogError, ReadLog as _, kafka::Turn};
use recant_processor::{
    driver::{self, BatchLimit, DriveError, Shadow},
    serve::phases::{Ended, Orders, may_pass},
};
use recant_projections::{
    fold::{Fate, FoldError, Folded},
    store::StoreError,
};
use recant_proto::position::Position;

use super::{
    Checked,
    choices::Choices,
    disk::{Disk, SimStore},
    kafka::{brokers::Brokers, group::MemberId},
    log::SimLog,
    mishaps::{Mishaps, Phase},
    names::{Fault, Step},
    planted::{self, Driven, Drives, Plant},
    trace::Trace,
    truth::Truth,
    wrong,
};

/// After what may pass a partition is acquired anew so many rounds later.
const PAUSE_ROUNDS: u64 = 6;

/// One process.
pub struct Process {
    number: usize,
    trace: Trace,
    mishaps: Mishaps,
    habits: ProcessHabits,
    disks: Vec<Disk>,
    duties: Vec<Option<Duty>>,
    standbys: Vec<Option<Shadow<SimLog, SimStore>>>,
    /// Its name in the group while it is a member, and while it may come back under it.
    pub member: Option<MemberId>,
    pub left_behind: Option<MemberId>,
    is_leaving: bool,
    /// It is no member before this round.
    pub joins_at: u64,
    /// It does nothing before this round.
    stalled_until: u64,
}

/// How a process is run.
#[derive(Debug, Clone, Copy)]
pub struct ProcessHabits {
    /// How much it takes at once.
    pub limit: BatchLimit,
    /// Whether it keeps its name in the group when it starts anew.
    pub is_static: bool,
    /// Whether it keeps up the states of partitions that others drive.
    pub keeps_standbys: bool,
    /// What is wrong with it.
    pub plant: Option<Plant>,
}

/// A partition that the group gave to it.
struct Duty {
    orders: Orders,
    drives: Option<Box<dyn Drives>>,
    /// It is acquired anew then.
    waits_until: u64,
}

/// What came of it when a process was asked to take a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acted {
    /// There is nothing that it would do in this partition now.
    Nothing,
    /// It has acquired and opened the partition.
    Opened,
    /// It has brought its state to where the log was published to.
    Recovered,
    /// Its driver has taken this step.
    Took(driver::Step),
    /// It has folded some of what another published, or looked for it.
    StoodBy,
    /// A call failed, or its partition was taken. It tries again.
    Stopped {
        /// Whether it was told that another has the partition.
        fenced: bool,
    },
    /// A call failed in a way that needs an operator.
    Halted,
    /// It has given the partition up, or lost it.
    Ended(Ended),
    /// The process died.
    Died(Step),
}

impl Process {
    /// A process that drives nothing yet, with empty disks.
    pub fn new(number: usize, partitions: u32, mishaps: Mishaps, trace: Trace, habits: ProcessHabits) -> Process {
        Process {
            number,
            trace,
            mishaps,
            habits,
            disks: (0..partitions).map(|_| Disk::empty()).collect(),
            duties: (0..partitions).map(|_| None).collect(),
            standbys: (0..partitions).map(|_| None).collect(),
            member: None,
            left_behind: None,
            is_leaving: false,
            joins_at: 0,
            stalled_until: 0,
        }
    }

    /// Its failpoints.
    pub fn mishaps(&self) -> &Mishaps {
        &self.mishaps
    }

    /// Where its state of a partition lies.
    pub fn disk(&self, partition: u32) -> &Disk {
        &self.disks[partition as usize]
    }

    /// Whether it has a partition open to drive it; it may have lost it and not know.
    pub fn drives(&self, partition: u32) -> bool {
        self.duties[partition as usize].as_ref().is_some_and(|duty| duty.drives.is_some())
    }

    /// Whether it drives a partition whose state is where the log was published to.
    pub fn has_recovered(&self, partition: u32) -> bool {
        let drives = self.duties[partition as usize].as_ref().and_then(|duty| duty.drives.as_ref());
        drives.is_some_and(|drives| !drives.is_restoring())
    }

    /// The partitions in which it has something to do.
    pub fn busy_partitions(&self) -> Vec<u32> {
        let is_busy = |at: usize| {
            self.duties[at].is_some() || (self.habits.keeps_standbys && self.member.is_some() && !self.is_leaving)
        };
        (0..self.duties.len()).filter(|at| is_busy(*at)).map(|at| at as u32).collect()
    }

    /// Whether it hears what the group has to say: it ends what it was told to end before.
    pub fn listens(&self) -> bool {
        !self.duties.iter().flatten().any(|duty| duty.orders.is_to_end())
    }

    /// Whether it has no partition.
    pub fn has_no_duty(&self) -> bool {
        self.duties.iter().all(Option::is_none)
    }

    /// Whether it is about to leave the group.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// It is to drive a partition.
    pub fn take_on(&mut self, partition: u32) {
        let at = partition as usize;
        self.standbys[at] = None;
        self.duties[at] = Some(Duty { orders: Orders::default(), drives: None, waits_until: 0 });
    }

    /// It is to give a partition up once its batch is whole; false if it does not have it.
    pub fn give_up(&self, partition: u32) -> bool {
        let duty = self.duties[partition as usize].as_ref();
        duty.is_some_and(|duty| {
            duty.orders.give_up();
            true
        })
    }

    /// It hears what the group has decided. Gives the partitions that it is rid of at once.
    pub fn hear(&mut self, turn: Turn) -> Vec<u32> {
        self.trace.line(format_args!("process {}: {turn:?}", self.number));
        match turn {
            Turn::Assigned(partitions) => {
                partitions.into_iter().for_each(|partition| self.take_on(partition));
                Vec::new()
            }
            Turn::Revoked(partitions) => partitions.into_iter().filter(|partition| !self.give_up(*partition)).collect(),
            Turn::Lost(_) => {
                self.lose_all();
                Vec::new()
            }
        }
    }

    /// It learns that others have its partitions.
    pub fn lose_all(&mut self) {
        self.duties.iter().flatten().for_each(|duty| duty.orders.lose());
    }

    /// It is to leave the group, and gives everything up first.
    pub fn begin_to_leave(&mut self) {
        self.is_leaving = true;
        self.standbys.iter_mut().for_each(|standby| *standby = None);
        self.duties.iter().flatten().for_each(|duty| duty.orders.give_up());
    }

    /// It is no member any more, and will be again.
    pub fn is_gone(&mut self, joins_at: u64) {
        (self.member, self.left_behind, self.is_leaving, self.joins_at) = (None, None, false, joins_at);
    }

    /// Nothing is heard of it before a round.
    pub fn stall(&mut self, until: u64) {
        self.stalled_until = until;
    }

    /// Whether it does anything in a round.
    pub fn is_awake(&self, round: u64) -> bool {
        round >= self.stalled_until
    }

    /// Takes the next step in a partition: opens it if it is not open, else takes one step of what drives it.
    pub fn act(&mut self, brokers: &Brokers, partition: u32, round: u64, truth: &Truth) -> Checked<Acted> {
        let at = partition as usize;
        let (acted, failed) = match self.duties[at].take() {
            Some(duty) => self.drive(brokers, partition, round, duty, truth)?,
            None if self.habits.keeps_standbys => self.stand_by(brokers, partition),
            None => (Acted::Nothing, None),
        };
        if let Some(step) = self.mishaps.take_death() {
            self.forget_all(round);
            return Ok(Acted::Died(step));
        }
        let Some(error) = failed else { return Ok(acted) };
        self.trace.line(format_args!("process {}: partition {partition}: {error}", self.number));
        let fenced = matches!(error, DriveError::Fenced(_));
        let was_told_to = self.mishaps.is_blamed() && is_told(&error);
        if !fenced && !was_told_to {
            return wrong(format!("process {} stopped, and nothing had happened to it: {error}", self.number));
        }
        Ok(if may_pass(&error) { Acted::Stopped { fenced } } else { Acted::Halted })
    }

    fn drive(
        &mut self,
        brokers: &Brokers,
        partition: u32,
        round: u64,
        mut duty: Duty,
        truth: &Truth,
    ) -> Checked<(Acted, Option<DriveError>)> {
        let at = partition as usize;
        let (acted, failed) = match duty.drives.take() {
            None if duty.orders.is_to_end() => return Ok((Acted::Ended(Ended::GivenUp), None)),
            None if round < duty.waits_until => (Acted::Nothing, None),
            None => match self.open(brokers, partition) {
                Ok(drives) => {
                    duty.drives = Some(drives);
                    (Acted::Opened, None)
                }
                Err(error) => (Acted::Nothing, Some(error)),
            },
            Some(drives) => match self.step(drives, &duty.orders, partition, truth)? {
                Ok((acted, drives)) => {
                    duty.drives = drives;
                    (acted, None)
                }
                Err(error) => (Acted::Nothing, Some(error)),
            },
        };
        if failed.is_some() {
            duty.waits_until = round + PAUSE_ROUNDS;
        }
        if !matches!(acted, Acted::Ended(_)) {
            self.duties[at] = Some(duty);
        }
        Ok((acted, failed))
    }

    fn store(&self, partition: u32) -> SimStore {
        SimStore::new(self.disk(partition).clone(), self.mishaps.clone(), Plant::writes(self.habits.plant))
    }

    fn log(&self, brokers: &Brokers) -> Arc<SimLog> {
        // In a process of many threads a log is shared with others; here it is had alone.
        #[allow(clippy::arc_with_non_send_sync)]
        Arc::new(SimLog::new(brokers.clone(), self.mishaps.clone(), self.habits.plant))
    }

    fn open(&mut self, brokers: &Brokers, partition: u32) -> Result<Box<dyn Drives>, DriveError> {
        self.mishaps.begin(Phase::Opening);
        let (log, store, disk) = (self.log(brokers), self.store(partition), self.disk(partition));
        let drives = planted::begin(log, store, disk, partition, self.habits.limit, self.habits.plant)?;
        if !drives.is_restoring() {
            // Whether it dies here is asked below.
            let _ = self.mishaps.pass(Step::DriverOpened);
        }
        Ok(drives)
    }

    #[allow(clippy::type_complexity)]
    fn step(
        &mut self,
        drives: Box<dyn Drives>,
        orders: &Orders,
        partition: u32,
        truth: &Truth,
    ) -> Checked<Result<(Acted, Option<Box<dyn Drives>>), DriveError>> {
        let was_restoring = drives.is_restoring();
        self.mishaps.begin(if was_restoring { Phase::Opening } else { Phase::Driving });
        let mut differs = None;
        let driven = drives.step(orders, &mut |position: Position, folded: &Folded| {
            let (expected, found) = (truth.fate(position.offset), fate(folded));
            if expected != found {
                differs = Some(format!("the event at {position} is {found}, and {expected} by the oracle"));
            }
        });
        if let Some(differs) = differs {
            return wrong(differs);
        }
        Ok(driven.map(|driven| match driven {
            Driven::Ended(ended) => {
                self.trace.line(format_args!("process {}: partition {partition}: {ended:?}", self.number));
                (Acted::Ended(ended), None)
            }
            Driven::On { drives, took, is_restoring } => {
                self.trace.line(format_args!("process {}: partition {partition}: {took:?}", self.number));
                if is_restoring {
                    return (Acted::Opened, Some(drives));
                }
                let _ = self.mishaps.pass(if was_restoring { Step::DriverOpened } else { step_of(took) });
                (if was_restoring { Acted::Recovered } else { Acted::Took(took) }, Some(drives))
            }
        }))
    }

    /// Keeps up the state of a partition that another drives.
    fn stand_by(&mut self, brokers: &Brokers, partition: u32) -> (Acted, Option<DriveError>) {
        self.mishaps.begin(Phase::StandingBy);
        let at = partition as usize;
        let followed = (|| {
            let mut shadow = match self.standbys[at].take() {
                Some(shadow) => shadow,
                None => Shadow::open(self.log(brokers), self.store(partition), partition, self.habits.limit)?,
            };
            let committed = self.log(brokers).committed(partition)?;
            shadow.step_towards(&committed)?;
            Ok(shadow)
        })();
        match followed {
            Ok(shadow) => {
                self.standbys[at] = Some(shadow);
                (Acted::StoodBy, None)
            }
            Err(error) => (Acted::Nothing, Some(error)),
        }
    }

    /// It dies between two steps; where.
    pub fn kill(&mut self, round: u64) -> Option<Step> {
        self.mishaps.die();
        self.forget_all(round);
        self.mishaps.take_death()
    }

    /// Everything in memory is gone. It starts again, as another member of the group or as the same.
    fn forget_all(&mut self, round: u64) {
        self.duties.iter_mut().for_each(|duty| *duty = None);
        self.standbys.iter_mut().for_each(|standby| *standby = None);
        // What leaked was in memory too.
        self.disks.iter().for_each(|disk| disk.end_leak(false));
        let left_behind = self.member.take().or(self.left_behind).filter(|_| self.habits.is_static);
        self.is_gone(round);
        self.left_behind = left_behind;
    }

    /// The power failed: each disk forgets some of its last batches, if it has not taken all of them; how many.
    pub fn lose_power(&self, choices: &mut Choices) -> usize {
        let mut lost = 0;
        for disk in &self.disks {
            let unsynced = disk.unsynced();
            let batches = if choices.one_in(3) { unsynced } else { choices.index(unsynced + 1) };
            disk.lose(batches);
            lost += batches;
        }
        if lost > 0 {
            self.mishaps.happened(Fault::PowerLoss);
        }
        lost
    }

    /// One of its disks is lost.
    pub fn lose_disk(&self, partition: u32) {
        self.disks[partition as usize].wipe();
        self.mishaps.happened(Fault::DiskLost);
    }
}

fn fate(folded: &Folded) -> String {
    match &folded.fate {
        Fate::Accepted => "accepted".to_owned(),
        Fate::Duplicate(of) => format!("duplicate of {of}"),
        Fate::Skipped(_) => "skipped".to_owned(),
        Fate::Rejected(violation) => violation.code.to_string(),
    }
}

fn step_of(took: driver::Step) -> Step {
    match took {
        driver::Step::Polled => Step::DriverPolled,
        driver::Step::Idle => Step::DriverIdle,
        driver::Step::Folded => Step::DriverFolded,
        driver::Step::Published => Step::DriverPublished,
        driver::Step::Aborted => Step::DriverAborted,
        driver::Step::Stored => Step::DriverStored,
    }
}

/// Whether it is an error that the simulator makes.
fn is_told(error: &DriveError) -> bool {
    match error {
        DriveError::Unknown { .. } => true,
        DriveError::Log(LogError::Io(detail) | LogError::Unreachable(detail))
        | DriveError::Fold(FoldError::Store(StoreError::Io(detail))) => detail.contains("told"),
        _ => false,
    }
}
