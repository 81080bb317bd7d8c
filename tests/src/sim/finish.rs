//! The end of a run: nothing goes wrong any more, the rest is processed, and everything is compared.

use recant_eventlog::{ReadLog as _, Topic};
use recant_processor::{driver, serve::phases::Ended};
use recant_projections::{audit, fold::Partition, tables::partition};

use super::{
    Checked, disk::Disk, kafka::group::Group, process::Acted, truth::ALL, world::World, writers::check_acknowledged,
    wrong,
};
use crate::agree::INCARNATION;

/// In calm, so many steps bring a partition to its end.
const STEPS_MAX: u64 = 20_000;

impl World {
    /// Every process dies once more, and then nothing goes wrong any more; one process drives each partition to its end.
    pub(super) fn calm_down(&mut self) -> Checked {
        for process in &mut self.processes {
            process.mishaps().disarm();
            process.kill(0);
            process.stall(0);
        }
        self.group = Group::new(self.partitions);
        for partition in 0..self.partitions {
            let number = self.choices.index(self.processes.len());
            self.trace.line(format_args!("in calm: process {number} drives partition {partition}"));
            self.processes[number].take_on(partition);
            self.act_until(number, partition, |acted| acted == Acted::Took(driver::Step::Idle))?;
            self.processes[number].give_up(partition);
            self.act_until(number, partition, |acted| acted == Acted::Ended(Ended::GivenUp))?;
            self.finish_partition(number, partition)?;
        }
        Ok(())
    }

    fn act_until(&mut self, number: usize, partition: u32, is_there: impl Fn(Acted) -> bool) -> Checked {
        for _ in 0..STEPS_MAX {
            if is_there(self.act(number, partition)?) {
                return Ok(());
            }
        }
        wrong(format!("in calm, process {number} never comes to the end of partition {partition}"))
    }

    /// What a partition has come to is what the oracle and an undisturbed run come to.
    fn finish_partition(&mut self, number: usize, partition: u32) -> Checked {
        let truth = &self.truths[partition as usize];
        let disk = self.processes[number].disk(partition);
        let (end, committed) = (truth.end(), self.brokers.decided_position(partition));
        let next = truth.check_position(disk, &self.brokers)?;
        if (next, committed.next_offset) != (end, end) {
            return wrong(format!(
                "partition {partition} has {end} events; the state is at {next}, and {} are committed",
                committed.next_offset
            ));
        }
        let replayed = self.replay(partition)?;
        let replayed_hash = partition::get(&replayed)?.unwrap_or_default().outputs_hash;
        let kept_hash = partition::get(disk)?.unwrap_or_default().outputs_hash;
        if replayed_hash != committed.metadata || kept_hash != committed.metadata {
            return wrong(format!("partition {partition}: a replay gives other outputs than were published"));
        }
        for space in truth.spaces() {
            let answer = truth.check_answer(disk, &space, None)?;
            if answer != truth.check_answer(&replayed, &space, None)? {
                return wrong(format!("{space} is shown otherwise after a replay"));
            }
            let found = audit::space(disk, &space)?;
            if !found.is_empty() {
                return wrong(format!("{space}: {}", found.join("; ")));
            }
            self.reads += 2;
            self.trace.bytes(&answer);
        }
        self.trace.bytes(&committed.metadata);
        Ok(())
    }

    /// The state of a partition, folded from its log in one batch.
    fn replay(&self, number: u32) -> Checked<Disk> {
        let disk = Disk::empty();
        let mut replayed = Partition::open(disk.clone(), INCARNATION, number)?;
        for record in self.brokers.read(Topic::Events, number, 0, ALL)? {
            replayed.fold(&record.input())?;
        }
        replayed.store()?;
        Ok(disk)
    }

    /// What lies outside of partitions: the appends, the consumers, the disks of those that were not the last to drive.
    pub(super) fn finish(&mut self) -> Checked {
        check_acknowledged(&self.brokers, &self.acknowledged)?;
        for number in 0..self.processes.len() {
            for partition in 0..self.partitions {
                let truth = &self.truths[partition as usize];
                let disk = self.processes[number].disk(partition);
                truth.check_position(disk, &self.brokers)?;
                for space in truth.spaces() {
                    truth.check_answer(disk, &space, None)?;
                    self.reads += 1;
                }
            }
        }
        for consumer in &mut self.consumers {
            let partition = consumer.partition();
            let truth = &self.truths[partition as usize];
            // Whose state is at the end, a consumer can list from.
            let mut at_end = None;
            for process in &self.processes {
                if truth.check_position(process.disk(partition), &self.brokers)? == truth.end() {
                    at_end = Some(process.disk(partition));
                }
            }
            let Some(disk) = at_end else { return wrong(format!("no state of partition {partition} is at its end")) };
            consumer.finish(&self.brokers, disk, truth, &mut self.choices)?;
        }
        Ok(())
    }
}
