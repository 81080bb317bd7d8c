//! Two `recant watch`, each of a space: one that lives as long as the soak does, and one that is killed and goes on with its
//! cursor. What they see is compared as it comes with what was published.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: a process that cannot be started ends the run"
)]

use std::{
    collections::{HashSet, VecDeque},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use super::{
    load::SPACES,
    planted::{Fault, Planted},
    running::{Line, Running},
};
use crate::crash::{
    check::{Published, Verdict},
    process::{PATIENCE, program},
};

/// Both of them.
pub struct Followers {
    all: Vec<Following>,
}

/// One.
struct Following {
    space: &'static str,
    data: PathBuf,
    beside: PathBuf,
    watch: Running,
    /// Whether it is killed now and then.
    dies: bool,
    /// Ids that it has seen and that are not compared yet, repeats dropped.
    seen: VecDeque<String>,
    known: HashSet<String>,
    expected: VecDeque<String>,
    repeats: u64,
}

impl Followers {
    /// Attaches them to a data directory, which has a log.
    pub fn attach(data: &Path, beside: &Path) -> Followers {
        let follow = |space: &'static str, dies| Following {
            space,
            data: data.to_owned(),
            beside: beside.to_owned(),
            watch: watch(space, data, beside),
            dies,
            seen: VecDeque::new(),
            known: HashSet::new(),
            expected: VecDeque::new(),
            repeats: 0,
        };
        Followers { all: vec![follow(SPACES[0], false), follow(SPACES[1], true)] }
    }

    /// Takes what they have told; they must still be there.
    pub fn listen(&mut self, planted: &mut Planted, verdict: &mut Verdict) {
        for one in &mut self.all {
            one.listen(planted);
            if let Some(ended) = one.watch.ended() {
                verdict.wrong.push(format!("the follower of {} ended with {ended}", one.space));
                one.restart();
            }
        }
    }

    /// Kills the one that dies, and starts it again.
    pub fn kill(&mut self) {
        self.all.iter_mut().filter(|one| one.dies).for_each(Following::restart);
    }

    /// Says what was published.
    pub fn expect(&mut self, published: &[Published]) {
        for one in &mut self.all {
            let of_space = published.iter().filter(|change| change.space == one.space);
            one.expected.extend(of_space.map(|change| change.id.clone()));
        }
    }

    /// Waits until they have seen all that was published so far.
    pub fn await_all(&mut self, planted: &mut Planted, verdict: &mut Verdict) {
        for one in &mut self.all {
            let begun = Instant::now();
            let mut missing = one.compare(verdict);
            while missing > 0 && begun.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(20));
                one.listen(planted);
                missing = one.compare(verdict);
            }
            if missing > 0 {
                verdict.lost.push(format!("the follower of {} has not seen {missing} changes", one.space));
                one.expected.clear();
            }
        }
    }

    /// How many changes they saw, and how many repeats they dropped.
    pub fn figures(&self) -> (u64, u64) {
        (self.all.iter().map(|one| one.known.len() as u64).sum(), self.all.iter().map(|one| one.repeats).sum())
    }
}

impl Following {
    fn listen(&mut self, planted: &mut Planted) {
        while let Line::Told(line) = self.watch.line(Duration::ZERO) {
            self.take(&line, planted);
        }
    }

    fn take(&mut self, line: &str, planted: &mut Planted) {
        if planted.takes(Fault::Unseen) {
            return;
        }
        let id = match serde_json::from_str::<serde_json::Value>(line) {
            Ok(change) => change["id"].as_str().unwrap_or(line).to_owned(),
            Err(_) => line.to_owned(),
        };
        if self.known.insert(id.clone()) {
            self.seen.push_back(id);
        } else {
            self.repeats += 1;
        }
    }

    /// Compares as far as both go; how many it has still to see.
    fn compare(&mut self, verdict: &mut Verdict) -> usize {
        while let Some(next) = self.expected.pop_front() {
            let Some(seen) = self.seen.pop_front() else {
                self.expected.push_front(next);
                break;
            };
            if seen == next {
                continue;
            }
            // It sees them in order: what should have come before will not come any more.
            let missed = self.expected.iter().take_while(|expected| **expected != seen).count();
            let space = self.space;
            verdict
                .lost
                .push(format!("the follower of {space} saw {seen} next; {next} and {missed} more came before it"));
            self.expected.drain(..missed);
            if self.expected.pop_front().is_none() {
                self.seen.push_front(seen);
            }
        }
        self.expected.len()
    }

    fn restart(&mut self) {
        self.watch.kill();
        // What it told before it died was seen.
        while let Line::Told(line) = self.watch.line(PATIENCE) {
            self.take(&line, &mut Planted::default());
        }
        self.watch = watch(self.space, &self.data, &self.beside);
    }
}

fn watch(space: &str, data: &Path, beside: &Path) -> Running {
    let mut command = Command::new(program("recant"));
    command.args(["--json", "watch", "--space", space]).arg("--data").arg(data);
    command.arg("--cursor-file").arg(beside.join(format!("watch-{space}.cursor")));
    Running::start(command, &beside.join(format!("watch-{space}.errors")))
}
