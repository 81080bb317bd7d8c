//! A process: it drives partitions, each with a state on a disk of its own, and dies now and then. What lies on its disks
//! outlives it.

use std::sync::Arc;

use recant_eventlog::{LogError, memory::MemoryLog};
use recant_processor::driver::{self, BatchLimit, DriveError};
use recant_projections::{
    fold::{Fate, FoldError, Folded},
    store::StoreError,
};
use recant_proto::position::Position;

use super::{
    Checked,
    choices::Choices,
    disk::{Disk, SimStore},
    log::SimLog,
    mishaps::{Mishaps, Phase},
    names::{Fault, Step},
    planted::{self, Drives, Plant},
    trace::Trace,
    truth::Truth,
    wrong,
};

/// One process.
pub struct Process {
    number: usize,
    trace: Trace,
    mishaps: Mishaps,
    disks: Vec<Disk>,
    drivers: Vec<Option<Box<dyn Drives>>>,
    /// Whether it means to drive a partition.
    wants: Vec<bool>,
    limit: BatchLimit,
    plant: Option<Plant>,
    /// It does nothing before this round.
    stalled_until: u64,
}

/// What came of it when a process was asked to take a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acted {
    /// It has acquired and opened the partition.
    Opened,
    /// Its driver has taken this step.
    Took(driver::Step),
    /// It no longer drives the partition: a call failed, or its partition was taken.
    Stopped {
        /// Whether it was told that another has the partition.
        fenced: bool,
    },
    /// The process died.
    Died(Step),
}

impl Process {
    /// A process that drives nothing yet, with empty disks.
    pub fn new(
        number: usize,
        partitions: u32,
        mishaps: Mishaps,
        trace: Trace,
        limit: BatchLimit,
        plant: Option<Plant>,
    ) -> Process {
        Process {
            number,
            trace,
            mishaps,
            disks: (0..partitions).map(|_| Disk::empty()).collect(),
            drivers: (0..partitions).map(|_| None).collect(),
            wants: vec![false; partitions as usize],
            limit,
            plant,
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

    /// Whether it means to drive a partition.
    pub fn wants(&self, partition: u32) -> bool {
        self.wants[partition as usize]
    }

    /// Whether it has a partition open; it may have lost it and not know.
    pub fn drives(&self, partition: u32) -> bool {
        self.drivers[partition as usize].is_some()
    }

    /// It means to drive a partition, or not any more.
    pub fn set_wants(&mut self, partition: u32, wants: bool) {
        self.wants[partition as usize] = wants;
    }

    /// Nothing is heard of it before a round.
    pub fn stall(&mut self, until: u64) {
        self.stalled_until = until;
    }

    /// Whether it does anything in a round.
    pub fn is_awake(&self, round: u64) -> bool {
        round >= self.stalled_until
    }

    /// Takes the next step in a partition: opens it if it is not open, else takes one step of its driver.
    pub fn act(&mut self, log: &MemoryLog, partition: u32, truth: &Truth) -> Checked<Acted> {
        let at = partition as usize;
        let (acted, failed) = match self.drivers[at].take() {
            None => self.open(log, partition),
            Some(driver) => self.step(driver, partition, truth)?,
        };
        if let Some(step) = self.mishaps.take_death() {
            self.drop_drivers();
            return Ok(Acted::Died(step));
        }
        let Some(error) = failed else { return Ok(acted) };
        self.trace.line(format_args!("process {}: partition {partition}: {error}", self.number));
        let fenced = matches!(error, DriveError::Fenced(_));
        let was_told_to = self.mishaps.is_blamed() && is_told(&error);
        if !fenced && !was_told_to {
            return wrong(format!("process {} stopped, and nothing had happened to it: {error}", self.number));
        }
        Ok(Acted::Stopped { fenced })
    }

    fn open(&mut self, log: &MemoryLog, partition: u32) -> (Acted, Option<DriveError>) {
        self.mishaps.begin(Phase::Opening);
        let disk = &self.disks[partition as usize];
        let store = SimStore::new(disk.clone(), self.mishaps.clone(), Plant::writes(self.plant));
        // The driver shares its log with others in a process of many threads; here it has it alone.
        #[allow(clippy::arc_with_non_send_sync)]
        let seen = Arc::new(SimLog::new(log.clone(), self.mishaps.clone()));
        let opened = planted::open(seen, store, disk, partition, self.limit, self.plant);
        self.mishaps.enter(Phase::Driving);
        match opened {
            Ok(driver) => {
                // Whether it dies here is asked below.
                let _ = self.mishaps.pass(Step::DriverOpened);
                self.drivers[partition as usize] = Some(driver);
                (Acted::Opened, None)
            }
            Err(error) => (Acted::Stopped { fenced: false }, Some(error)),
        }
    }

    fn step(
        &mut self,
        mut driver: Box<dyn Drives>,
        partition: u32,
        truth: &Truth,
    ) -> Checked<(Acted, Option<DriveError>)> {
        self.mishaps.begin(Phase::Driving);
        let mut differs = None;
        let stepped = driver.step(&mut |position: Position, folded: &Folded| {
            let (expected, found) = (truth.fate(position.offset), fate(folded));
            if expected != found {
                differs = Some(format!("the event at {position} is {found}, and {expected} by the oracle"));
            }
        });
        if let Some(differs) = differs {
            return wrong(differs);
        }
        match stepped {
            Ok(step) => {
                self.trace.line(format_args!("process {}: partition {partition}: {step:?}", self.number));
                let _ = self.mishaps.pass(match step {
                    driver::Step::Polled => Step::DriverPolled,
                    driver::Step::Idle => Step::DriverIdle,
                    driver::Step::Folded => Step::DriverFolded,
                    driver::Step::Published => Step::DriverPublished,
                    driver::Step::Aborted => Step::DriverAborted,
                    driver::Step::Stored => Step::DriverStored,
                });
                self.drivers[partition as usize] = Some(driver);
                Ok((Acted::Took(step), None))
            }
            Err(error) => Ok((Acted::Stopped { fenced: false }, Some(error))),
        }
    }

    /// It dies between two steps; where.
    pub fn kill(&mut self) -> Option<Step> {
        self.mishaps.die();
        self.drop_drivers();
        self.mishaps.take_death()
    }

    /// Everything in memory is gone.
    fn drop_drivers(&mut self) {
        self.drivers.iter_mut().for_each(|driver| *driver = None);
        // What leaked was in memory too.
        self.disks.iter().for_each(|disk| disk.end_leak(false));
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

/// Whether it is an error that the simulator makes.
fn is_told(error: &DriveError) -> bool {
    match error {
        DriveError::Unknown { .. } => true,
        DriveError::Log(LogError::Io(detail)) | DriveError::Fold(FoldError::Store(StoreError::Io(detail))) => {
            detail.contains("told")
        }
        _ => false,
    }
}
