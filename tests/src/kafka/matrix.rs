//! Kill -9 at every named step: one life after another on the same log and the same directory, each killed at another step under
//! load, and then everything is checked.

use std::time::Duration;

use super::{
    broker::Broker,
    check, instance,
    load::Load,
    log,
    member::Member,
    victim::{STEPS, STEPS_OF_RESTORING},
};
use crate::{
    binary::{Desk, Random},
    crash::check::Verdict,
};

const PARTITIONS: u32 = 3;
const WRITERS: u64 = 4;
/// While a victim has not died, so many events are appended at once, and then it is given this time: it is to be idle at times.
const BURST_EVENTS: usize = 20;
const BURST_PAUSE: Duration = Duration::from_millis(30);

/// What rounds came to.
#[derive(Default)]
pub struct Figures {
    /// How often what was to happen happened: a process was killed at its step, say.
    pub kills: u64,
    /// Events that were acknowledged.
    pub acknowledged: u64,
    /// What does not hold.
    pub verdict: Verdict,
}

impl Figures {
    /// Adds those of another run.
    pub fn add(&mut self, other: Figures) {
        self.kills += other.kills;
        self.acknowledged += other.acknowledged;
        self.verdict.add(other.verdict);
    }
}

/// So many rounds, each through all steps, on a broker that the rounds share.
pub fn kill_at_every_step(rounds: u64, seed: u64, tell: &mut dyn FnMut(String)) -> Figures {
    let mut all = Figures::default();
    for round in 0..rounds {
        let figures = one_round(seed + round);
        tell(format!(
            "round {round}: {} kills, {} events acknowledged; {:?}",
            figures.kills,
            figures.acknowledged,
            figures.verdict.first()
        ));
        all.add(figures);
    }
    all
}

fn one_round(seed: u64) -> Figures {
    let (desk, instance) = (Desk::new(), instance("crash"));
    let address = Broker::shared().address();
    let log = log(&address, &instance, PARTITIONS);
    let data = desk.path("state");
    let mut load = Load::new(seed, WRITERS);
    let mut random = Random(seed);
    let mut kills = 0;
    for step in STEPS {
        let count = match step {
            // These come once in the life of a partition, the others with each batch.
            "acquiring" | "fenced" | "acquired" | "recovering" | "recovered" => 1 + random.below(u64::from(PARTITIONS)),
            step if step.starts_with("snapshot") => 1,
            _ => 1 + random.below(9),
        };
        if STEPS_OF_RESTORING.contains(&step) {
            std::fs::remove_dir_all(&data).expect("the disk can be lost");
        }
        let mut victim = Member::victim(&address, &instance, &data, &format!("die={step}:{count}"));
        while victim.is_running() {
            load.append(&log, BURST_EVENTS);
            std::thread::sleep(BURST_PAUSE);
        }
        victim.listen();
        kills += victim.count("dying") as u64;
    }
    let mut last = Member::start(&desk, &address, &instance, "state", &["--static-member", "victim"]);
    last.wait_until_serving(PARTITIONS as usize);
    check::wait_until_processed(&log);
    last.stop();
    let verdict = check::all(&log, &load, &[&data]);
    Figures { kills, acknowledged: load.acknowledged.len() as u64, verdict }
}
