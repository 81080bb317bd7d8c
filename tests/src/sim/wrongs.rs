//! What goes wrong in a run, and when: deaths at named steps, and every other fault that is not part of an append.

use super::{
    Checked,
    names::{Fault, Step},
    world::World,
};

/// How far the clock jumps at most: three days.
const JUMP_MS_MAX: u64 = 3 * 24 * 3_600_000;

/// How long nothing is heard of a process at most: longer than the group's session and than any transaction.
const STALL_ROUNDS_MAX: u64 = 120;

/// A full disk refuses so many writes at most.
const DISK_FULL_WRITES_MAX: u64 = 6;

/// A fault of which a process is told beforehand, for the next call of its kind.
const ARMED: [Fault; 12] = [
    Fault::CommitAborted,
    Fault::CommitAskedAgain,
    Fault::MarkersLate,
    Fault::AcquireAskedAgain,
    Fault::CommitUnknownApplied,
    Fault::CommitUnknownLost,
    Fault::CommitUnknownDelayed,
    Fault::CommitFenced,
    Fault::ReadFailed,
    Fault::AcquireFailed,
    Fault::StoreRefused,
    Fault::StoreReadFailed,
];

/// A process that has died is back after so many rounds at most.
const AWAY_ROUNDS_MAX: u64 = 60;

impl World {
    /// The power fails at times, or the disk is lost; or the process is to die again at once.
    pub(super) fn after_death(&mut self, number: usize) {
        let partition = self.any_partition();
        let away_rounds = if self.choices.one_in(2) { 0 } else { self.choices.below(AWAY_ROUNDS_MAX) };
        let process = &mut self.processes[number];
        process.joins_at = self.round + away_rounds;
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
            Step::DriverAborted | Step::TransactionAbortBefore | Step::TransactionAbortAfter => 0,
            Step::StoreRead | Step::RecoverFold | Step::StandbyFold => self.choices.below(60),
            step if step.is_of_opening() => self.choices.below(2),
            _ => self.choices.below(4),
        };
        self.trace.line(format_args!("process {number} is to die at {}, spared {spared} times", step.name()));
        let mishaps = self.processes[number].mishaps();
        mishaps.plan_death(step, spared);
        if matches!(step, Step::DriverAborted | Step::TransactionAbortBefore | Step::TransactionAbortAfter) {
            mishaps.arm(Fault::CommitAborted);
        }
    }

    /// Something goes wrong, now or soon: half of the time it is a death.
    pub(super) fn go_wrong(&mut self) -> Checked {
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
            Fault::MemberLeft => {
                let process = &mut self.processes[number];
                if process.member.is_some() && process.is_awake(self.round) {
                    process.begin_to_leave();
                    self.leave_if_rid(number);
                }
                Ok(())
            }
            Fault::DiskFull => {
                let writes = self.choices.between(1, DISK_FULL_WRITES_MAX);
                self.processes[number].mishaps().fill_disk(writes);
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
                if self.processes[number].kill(self.round).is_some() {
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
    pub(super) fn land(&mut self) -> Checked {
        if !self.habits.faults.contains(&Fault::CommitLandsByItself) {
            return Ok(());
        }
        for partition in 0..self.partitions {
            if self.brokers.land(partition) {
                self.happened(Fault::CommitLandsByItself);
                self.truths[partition as usize].check_published(&self.brokers, &self.trace)?;
            }
        }
        Ok(())
    }
}
