//! What the processes of a run have to do with the group: who joins, who is given what, who leaves or is taken to have left.

use super::{Checked, names::Fault, world::World};

/// A process that has left is back after so many rounds at most.
const AWAY_ROUNDS_MAX: u64 = 60;

impl World {
    /// Time passes for the brokers and for the group.
    pub(super) fn pass_round(&mut self) {
        for _ in 0..self.brokers.pass_round(self.round) {
            self.happened(Fault::TimedOut);
        }
        for process in self.processes.iter().filter(|process| process.is_awake(self.round)) {
            // One that is no member any more learns so when it acts.
            let _ = process.member.map(|member| self.group.hear_of(member, self.round));
        }
        for _ in 0..self.group.expire(self.round) {
            self.happened(Fault::SessionExpired);
        }
    }

    pub(super) fn drive(&mut self) -> Checked {
        let number = self.choices.index(self.processes.len());
        if !self.processes[number].is_awake(self.round) {
            return Ok(());
        }
        if self.choices.one_in(2) {
            self.speak_with_group(number);
        }
        let busy = self.processes[number].busy_partitions();
        if let Some(partition) = self.choices.one_of(&busy).copied() {
            self.act(number, partition)?;
        }
        Ok(())
    }

    /// A process joins, or hears what the group has to say.
    fn speak_with_group(&mut self, number: usize) {
        let process = &mut self.processes[number];
        let Some(member) = process.member else {
            if self.round >= process.joins_at && process.has_no_duty() {
                self.join(number);
            }
            return;
        };
        if !process.listens() || process.is_leaving() {
            return;
        }
        if !self.group.hear_of(member, self.round) {
            process.lose_all();
            process.is_gone(self.round);
            self.happened(Fault::LearnedLoss);
        } else if let Some(turn) = self.group.next_turn(member) {
            for partition in process.hear(turn) {
                self.group.release(member, partition);
            }
        }
    }

    fn join(&mut self, number: usize) {
        let process = &mut self.processes[number];
        if let Some(member) = process.left_behind.take()
            && self.group.come_back(member, self.round)
        {
            process.member = Some(member);
            return self.happened(Fault::MemberCameBack);
        }
        process.member = Some(self.group.join(self.round));
    }

    /// A process is rid of a partition: others may have it.
    pub(super) fn ended(&mut self, number: usize, partition: u32) {
        let process = &mut self.processes[number];
        let Some(member) = process.member else { return };
        if !process.is_leaving() {
            let moved = self.group.moved;
            self.group.release(member, partition);
            if self.group.moved > moved {
                self.happened(Fault::Rebalanced);
            }
        }
    }

    /// A process that is rid of everything leaves.
    pub(super) fn leave_if_rid(&mut self, number: usize) {
        let process = &mut self.processes[number];
        if let (true, true, Some(member)) = (process.is_leaving(), process.has_no_duty(), process.member) {
            let joins_at = self.round + self.choices.below(AWAY_ROUNDS_MAX);
            process.is_gone(joins_at);
            self.group.leave(member);
            self.happened(Fault::MemberLeft);
        }
    }
}
