//! What is no death of one process at one step: a process that stands still within a transaction until another has its partitions,
//! brokers that go in the midst of one, and members that come, leave, die and stand still all at once. Whatever happens,
//! everything of `check.rs` must hold.

use std::time::Duration;

use recant_eventlog::kafka::KafkaLog;
use rustix::process::Signal;

use super::{broker::Broker, check, instance, load::Load, log, matrix::Figures, member::Member};
use crate::binary::{Desk, Random};

const WRITERS: u64 = 4;
/// A load of so many events makes several batches, and is folded in a moment.
const BURST_EVENTS: usize = 200;

/// Where a process may stand still: what it had read, sent or asked for, another has to take up.
const STANDING_STEPS: [&str; 7] =
    ["polled", "folded", "transaction_begun", "output_sent", "position_sent", "transaction_committed", "published"];

/// One log with what was written to it, and the desk on which the states of its members are.
struct Scene {
    desk: Desk,
    address: String,
    instance: String,
    log: KafkaLog,
    load: Load,
}

impl Scene {
    fn new(broker: &Broker, name: &str, partitions: u32, seed: u64) -> Scene {
        let (address, instance) = (broker.address(), instance(name));
        let log = log(&address, &instance, partitions);
        Scene { desk: Desk::new(), address, instance, log, load: Load::new(seed, WRITERS) }
    }

    fn append(&mut self) {
        self.load.append(&self.log, BURST_EVENTS);
    }

    fn member(&self, name: &str) -> Member {
        Member::start(&self.desk, &self.address, &self.instance, name, &[])
    }

    /// A process that serves, and stands still at a step of its third batch or so.
    fn standing(&mut self, step: &str, random: &mut Random) -> Member {
        let fate = format!("stand_still={step}:{}", 1 + random.below(5));
        let mut victim = Member::victim(&self.address, &self.instance, &self.desk.path("victim"), &fate);
        while victim.count("standing_still") == 0 {
            self.append();
            victim.listen();
        }
        victim
    }

    /// Ends whoever serves last, and checks everything.
    fn finish(self, last: Member) -> Figures {
        check::wait_until_processed(&self.log);
        let data = last.data.clone();
        let halted = last.count("halted");
        last.stop();
        let mut verdict = check::all(&self.log, &self.load, &[&data]);
        if halted > 0 {
            verdict.wrong.push(format!("{halted} partitions were halted"));
        }
        Figures { kills: 1, acknowledged: self.load.acknowledged.len() as u64, verdict }
    }
}

/// A process stands still at a step, within a transaction as a rule, until another has its partitions; then it goes on, and must
/// publish nothing more of what was under way.
pub fn zombie(seed: u64) -> Figures {
    const PARTITIONS: usize = 2;
    let mut random = Random(seed);
    let mut scene = Scene::new(Broker::shared(), "zombie", PARTITIONS as u32, seed);
    let step = STANDING_STEPS[random.below(STANDING_STEPS.len() as u64) as usize];
    let mut zombie = scene.standing(step, &mut random);
    scene.append();
    let mut heir = scene.member("heir");
    heir.wait_until_serving(PARTITIONS);
    scene.append();
    check::wait_until_processed(&scene.log);
    let served_before = zombie.count("serving");
    zombie.signal(Signal::CONT);
    scene.append();
    // It learns that it was given up for dead, and is a member again.
    zombie.wait_until("it serves its share", |member| member.count("serving") > served_before);
    scene.append();
    check::wait_until_processed(&scene.log);
    zombie.kill();
    heir.wait_until_serving(PARTITIONS);
    scene.finish(heir)
}

/// The broker goes while a transaction is under way, by SIGTERM or by kill -9, and is back after a while.
pub fn broker_within_a_transaction(broker: &mut Broker, seed: u64) -> Figures {
    const PARTITIONS: usize = 2;
    let mut random = Random(seed);
    let mut scene = Scene::new(broker, "broker", PARTITIONS as u32, seed);
    let steps = ["transaction_begun", "output_sent", "outputs_sent", "position_sent"];
    let victim = scene.standing(steps[random.below(4) as usize], &mut random);
    if random.below(2) == 0 {
        broker.stop();
    } else {
        broker.kill();
    }
    victim.signal(Signal::CONT);
    // It goes on, and finds no broker.
    std::thread::sleep(Duration::from_millis(random.below(2_000)));
    broker.start_again();
    scene.append();
    check::wait_until_processed(&scene.log);
    victim.kill();
    let mut last = scene.member("last");
    last.wait_until_serving(PARTITIONS);
    scene.finish(last)
}

/// Three members come, leave, die and stand still in turn, each time before what went before has settled.
pub fn storm(seed: u64) -> Figures {
    const PARTITIONS: usize = 6;
    const UPSETS: u32 = 15;
    let mut random = Random(seed);
    let mut scene = Scene::new(Broker::shared(), "storm", PARTITIONS as u32, seed);
    let names = ["first", "second", "third"];
    let mut members: [Option<Member>; 3] = [const { None }; 3];
    for _ in 0..UPSETS {
        let which = random.below(3) as usize;
        match members[which].take() {
            None => members[which] = Some(scene.member(names[which])),
            Some(member) => match random.below(3) {
                0 => member.kill(),
                1 => member.leave(),
                _ => {
                    member.signal(Signal::STOP);
                    scene.append();
                    member.signal(Signal::CONT);
                    members[which] = Some(member);
                }
            },
        }
        scene.append();
        std::thread::sleep(Duration::from_millis(random.below(600)));
    }
    for member in members.into_iter().flatten() {
        member.leave();
    }
    let mut last = scene.member("last");
    last.wait_until_serving(PARTITIONS);
    scene.finish(last)
}
