//! The consumer group: which member has which partition. Assignment is sticky and cooperative: what stays is not touched, and what
//! moves is first given up by the one who had it, then given to another.

use std::collections::{BTreeMap, VecDeque};

use recant_eventlog::kafka::Turn;

/// A member that is not heard of for so many rounds has left.
const SESSION_ROUNDS: u64 = 25;

/// A member, until it leaves or is taken to have left.
pub type MemberId = u64;

/// The group.
pub struct Group {
    members: BTreeMap<MemberId, Member>,
    /// Who has each partition; one that is being given up has its member still.
    holders: Vec<Option<MemberId>>,
    next_member: MemberId,
    /// How many partitions went from one member to another that both go on.
    pub moved: u64,
}

struct Member {
    heard_at: u64,
    turns: VecDeque<Turn>,
    /// Partitions that it was asked to give up.
    revoked: Vec<u32>,
}

impl Group {
    /// A group without members.
    pub fn new(partitions: u32) -> Group {
        Group { members: BTreeMap::new(), holders: vec![None; partitions as usize], next_member: 0, moved: 0 }
    }

    /// One more member.
    pub fn join(&mut self, round: u64) -> MemberId {
        let id = self.next_member;
        self.next_member += 1;
        self.members.insert(id, Member { heard_at: round, turns: VecDeque::new(), revoked: Vec::new() });
        self.balance();
        id
    }

    /// A static member is back within its session: it finds its partitions where they were. False if it is no member any more.
    pub fn come_back(&mut self, id: MemberId, round: u64) -> bool {
        let held = self.held_by(id);
        let Some(member) = self.members.get_mut(&id) else { return false };
        member.heard_at = round;
        member.turns.clear();
        member.revoked.clear();
        if !held.is_empty() {
            member.turns.push_back(Turn::Assigned(held));
        }
        self.balance();
        true
    }

    /// A member leaves, and gives everything up.
    pub fn leave(&mut self, id: MemberId) {
        if self.members.remove(&id).is_some() {
            self.holders.iter_mut().filter(|holder| **holder == Some(id)).for_each(|holder| *holder = None);
            self.balance();
        }
    }

    /// A member is heard of; false if it is none any more.
    pub fn hear_of(&mut self, id: MemberId, round: u64) -> bool {
        let member = self.members.get_mut(&id);
        member.is_some_and(|member| {
            member.heard_at = round;
            true
        })
    }

    /// Members that were not heard of for too long have left; how many.
    pub fn expire(&mut self, round: u64) -> usize {
        let silent = self.members.iter().filter(|(_, member)| member.heard_at + SESSION_ROUNDS < round);
        let silent: Vec<MemberId> = silent.map(|(id, _)| *id).collect();
        silent.iter().for_each(|id| self.leave(*id));
        silent.len()
    }

    /// What the group has to tell a member next.
    pub fn next_turn(&mut self, id: MemberId) -> Option<Turn> {
        self.members.get_mut(&id)?.turns.pop_front()
    }

    /// A member has given a partition up that it was asked for.
    pub fn release(&mut self, id: MemberId, partition: u32) {
        if let Some(member) = self.members.get_mut(&id) {
            member.revoked.retain(|revoked| *revoked != partition);
            if self.holders[partition as usize] == Some(id) {
                self.holders[partition as usize] = None;
                self.moved += 1;
            }
            self.balance();
        }
    }

    fn held_by(&self, id: MemberId) -> Vec<u32> {
        (0..self.holders.len() as u32).filter(|partition| self.holders[*partition as usize] == Some(id)).collect()
    }

    /// Gives what is free to those who have least, and asks those who have too much to give some up.
    fn balance(&mut self) {
        if self.members.is_empty() {
            return;
        }
        for partition in 0..self.holders.len() {
            if self.holders[partition].is_none() {
                let least = self.members.keys().min_by_key(|id| (self.held_by(**id).len(), **id)).copied();
                let Some(least) = least else { return };
                self.holders[partition] = Some(least);
                if let Some(member) = self.members.get_mut(&least) {
                    member.turns.push_back(Turn::Assigned(vec![partition as u32]));
                }
            }
        }
        let most = self.holders.len().div_ceil(self.members.len());
        let ids: Vec<MemberId> = self.members.keys().copied().collect();
        for id in ids {
            let held = self.held_by(id);
            let Some(member) = self.members.get_mut(&id) else { continue };
            let kept: Vec<u32> = held.into_iter().filter(|partition| !member.revoked.contains(partition)).collect();
            for partition in kept.into_iter().skip(most) {
                member.revoked.push(partition);
                member.turns.push_back(Turn::Revoked(vec![partition]));
            }
        }
    }
}
