//! The hour itself: time goes on in short ticks; at random moments the writer is killed and started again; at the end of
//! each minute it is paused at a position, everything is asked of that position, and it goes on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: what cannot be read at all ends the run"
)]

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use recant_eventlog::{ReadLog as _, Topic, embedded::Follower};
use recant_processor::{standalone::log_directory, viewer::Viewer};
use recant_projections::store::rocks::RocksStore;
use tempfile::TempDir;

use super::{
    flat::Sample,
    followers::Followers,
    load::PARTITIONS,
    planted::{Fault, Planted},
    readers::Reader,
    running::{Line, Running},
    undisturbed::{Unchecked, Undisturbed},
};
use crate::{
    binary::Random,
    crash::{check::Verdict, process::PATIENCE},
};

const TICK: Duration = Duration::from_millis(50);
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// What is to be done.
#[derive(Debug, Clone, Copy)]
pub struct Orders {
    /// How many minutes.
    pub minutes: u32,
    /// What the load and the kills follow from.
    pub seed: u64,
    /// About so often the writer is killed.
    pub kill_every: Duration,
    /// How much is written.
    pub events_per_s: u64,
    /// What is to be noticed.
    pub fault: Option<Fault>,
}

/// What a minute came to.
#[derive(Debug, Default)]
pub struct Minute {
    /// Which.
    pub number: u32,
    /// The last sample before its end.
    pub sample: Option<Sample>,
    /// The most memory in it.
    pub rss_bytes_max: u64,
    /// Events acknowledged so far.
    pub events: u64,
    /// Kills so far.
    pub kills: u64,
    /// Digests that were found equal.
    pub digests: u64,
    /// Questions that were answered in it.
    pub answers: usize,
    /// How long the slowest of them took.
    pub slowest: Duration,
    /// How long the writer was paused.
    pub paused: Duration,
    /// How long it took to verify.
    pub verified_in: Duration,
}

/// What all of it came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Its minutes.
    pub minutes: Vec<Minute>,
    /// Its samples.
    pub samples: Vec<Sample>,
    /// How long it took.
    pub length: Duration,
    /// Events acknowledged.
    pub events: u64,
    /// Changes published, summaries too.
    pub changes: u64,
    /// kill -9 of the writer.
    pub kills: u64,
    /// Digests of spaces that were found equal.
    pub digests_verified: u64,
    /// Explanations that were found equal.
    pub explanations_verified: u64,
    /// Questions that were answered.
    pub answers: u64,
    /// Those that were to be asked again.
    pub put_off: u64,
    /// Changes that followers saw.
    pub followed: u64,
    /// Repeats that they dropped.
    pub repeats: u64,
    /// What does not hold.
    pub verdict: Verdict,
}

/// Does it all. `tell` is told each minute, and what does not hold.
pub fn soak(orders: Orders, tell: &mut dyn FnMut(&Minute, &Verdict)) -> Outcome {
    let mut soak = Soak::begin(orders);
    for number in 1..=orders.minutes {
        let minute = soak.minute(number);
        tell(&minute, &soak.verdict);
        soak.outcome.minutes.push(minute);
        let found = std::mem::take(&mut soak.verdict);
        soak.outcome.verdict.add(found);
    }
    soak.finish()
}

struct Soak {
    orders: Orders,
    // Dropped in this order: processes, then the directory.
    writer: Running,
    followers: Followers,
    reader: Reader,
    log: Follower,
    undisturbed: Vec<Undisturbed>,
    unchecked: Unchecked,
    planted: Planted,
    random: Random,
    life: u64,
    begun: Instant,
    next_kill: Instant,
    next_sample: Instant,
    /// Since the last minute's end.
    rss_bytes_max: u64,
    verdict: Verdict,
    outcome: Outcome,
    desk: TempDir,
}

impl Soak {
    fn begin(orders: Orders) -> Soak {
        let desk = TempDir::with_prefix("recant-soak-").unwrap();
        let (data, fold) = (desk.path().join("data"), desk.path().join("undisturbed"));
        std::fs::create_dir(&data).unwrap();
        let errors = desk.path().join("writer.errors");
        let writer = Running::writer(&data, orders.seed, 0, orders.events_per_s, &errors);
        let (mut unchecked, mut verdict) = (Unchecked::new(), Verdict::default());
        let mut events = 0;
        await_line(&writer, "serving", &mut |line| events += take(line, &mut unchecked, &mut verdict));
        let log = Follower::open(&log_directory(&data)).unwrap();
        let undisturbed = (0..PARTITIONS).map(|number| Undisturbed::begin(&fold, &log, number)).collect();
        let now = Instant::now();
        Soak {
            orders,
            writer,
            followers: Followers::attach(&data, desk.path()),
            reader: Reader::start(&data, orders.seed),
            log,
            undisturbed,
            unchecked,
            planted: Planted { fault: None },
            random: Random(orders.seed),
            life: 0,
            begun: now,
            next_kill: now + orders.kill_every / 2,
            next_sample: now + SAMPLE_EVERY,
            rss_bytes_max: 0,
            verdict,
            outcome: Outcome { events, ..Outcome::default() },
            desk,
        }
    }

    fn data(&self) -> PathBuf {
        self.desk.path().join("data")
    }

    /// One minute, and what is asked at its end.
    fn minute(&mut self, number: u32) -> Minute {
        let end = self.begun + MINUTE * number;
        if number == 2 || self.orders.minutes == 1 {
            self.planted.fault = self.orders.fault;
        }
        while Instant::now() < end {
            self.tick();
        }
        let mut minute = Minute { number, sample: self.outcome.samples.last().copied(), ..Minute::default() };
        minute.rss_bytes_max = std::mem::take(&mut self.rss_bytes_max);
        self.verify(&mut minute);
        let answers = self.reader.answers();
        minute.answers = answers.took.len();
        minute.slowest = answers.took.iter().max().copied().unwrap_or_default();
        self.verdict.add(answers.verdict);
        self.outcome.answers += answers.took.len() as u64;
        self.outcome.put_off += answers.put_off;
        (minute.events, minute.kills) = (self.outcome.events, self.outcome.kills);
        minute
    }

    fn tick(&mut self) {
        std::thread::sleep(TICK);
        self.listen();
        self.followers.listen(&mut self.planted, &mut self.verdict);
        if let Some(ended) = self.writer.ended() {
            self.verdict.wrong.push(format!("the writer ended with {ended} in life {}: {}", self.life, self.errors()));
            self.start_again();
        }
        let now = Instant::now();
        if now >= self.next_sample {
            self.sample();
            self.next_sample = now + SAMPLE_EVERY;
        }
        if now >= self.next_kill {
            self.kill();
        }
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(self.desk.path().join("writer.errors")).unwrap_or_default()
    }

    fn listen(&mut self) {
        while let Line::Told(line) = self.writer.line(Duration::ZERO) {
            self.take(&line);
        }
    }

    fn take(&mut self, line: &str) {
        self.outcome.events += take(line, &mut self.unchecked, &mut self.verdict);
    }

    fn sample(&mut self) {
        let sample = Sample::take(self.writer.id(), &self.data(), self.begun.elapsed(), self.outcome.events);
        if let Some(sample) = sample {
            self.rss_bytes_max = self.rss_bytes_max.max(sample.rss_bytes);
            self.outcome.samples.push(sample);
        }
    }

    /// kill -9, in the midst of whatever it does, and a new life. At times a follower dies too.
    fn kill(&mut self) {
        if self.writer.kill() {
            self.outcome.kills += 1;
        }
        if self.random.below(3) == 0 {
            self.followers.kill();
        }
        self.start_again();
    }

    fn start_again(&mut self) {
        // What it told before it died was acknowledged.
        loop {
            match self.writer.line(PATIENCE) {
                Line::Told(line) => self.take(&line),
                Line::Ended => break,
                Line::NoneYet => panic!("the writer is dead, and its output does not end"),
            }
        }
        self.life += 1;
        let errors = self.desk.path().join("writer.errors");
        self.writer = Running::writer(&self.data(), self.orders.seed, self.life, self.orders.events_per_s, &errors);
        // A third of the kills come soon, perhaps before it serves; the others come so that the mean is what was ordered.
        let mean_ms = self.orders.kill_every.as_millis() as u64;
        let (from, below) = if self.random.below(3) == 0 { (0, mean_ms) } else { (mean_ms / 2, mean_ms * 3 / 2) };
        self.next_kill = Instant::now() + Duration::from_millis(from + self.random.below(below));
    }

    /// Pauses the writer, and asks everything of where it stands.
    fn verify(&mut self, minute: &mut Minute) {
        let begun = Instant::now();
        let Some(ends) = self.pause() else { return };
        let states = self.look_at_pinned(&ends, minute);
        if !self.writer.ask("resume") {
            self.verdict.wrong.push("the writer has died where nobody killed it".to_owned());
        }
        minute.paused = begun.elapsed();
        for (undisturbed, state) in self.undisturbed.iter().zip(&states) {
            self.outcome.explanations_verified += undisturbed.question(state, &mut self.verdict);
        }
        self.followers.await_all(&mut self.planted, &mut self.verdict);
        self.reader.know(self.undisturbed.iter().flat_map(|undisturbed| undisturbed.nodes.clone()).collect());
        minute.verified_in = begun.elapsed();
    }

    /// The ends of the partitions, once everything before them is processed.
    fn pause(&mut self) -> Option<Vec<u64>> {
        let asked = self.writer.ask("pause");
        let begun = Instant::now();
        while asked && begun.elapsed() < PATIENCE {
            match self.writer.line(TICK) {
                Line::Told(line) => match line.strip_prefix("paused ") {
                    Some(ends) => return Some(ends.split(' ').map(|end| end.parse().unwrap()).collect()),
                    None => self.take(&line),
                },
                Line::NoneYet => {}
                Line::Ended => break,
            }
        }
        self.verdict.wrong.push(format!("the writer did not come to rest: {}", self.errors()));
        None
    }

    /// What must be looked at while the writer rests; and its states as they are then.
    fn look_at_pinned(&mut self, ends: &[u64], minute: &mut Minute) -> Vec<RocksStore> {
        let Soak { log, undisturbed, unchecked, planted, verdict, followers, .. } = self;
        await_ends(log, ends, verdict);
        let viewer = Viewer::open(&self.desk.path().join("data")).unwrap();
        let mut states = Vec::new();
        for ((number, undisturbed), end) in (0..).zip(undisturbed).zip(ends) {
            undisturbed.fold_to(log, *end, unchecked, planted, verdict);
            followers.expect(&undisturbed.published(log, verdict));
            let state = viewer.state(number).unwrap();
            minute.digests += undisturbed.compare(&state, &log.committed(number).unwrap().metadata, planted, verdict);
            states.push(state);
        }
        let lost = std::mem::take(unchecked);
        verdict
            .lost
            .extend(lost.iter().map(|(place, id)| format!("{id} was acknowledged at {place:?}, and is not there")));
        self.outcome.digests_verified += minute.digests;
        states
    }

    fn finish(mut self) -> Outcome {
        self.outcome.length = self.begun.elapsed();
        if !self.writer.ask("stop") {
            self.verdict.wrong.push("the writer had died at the end".to_owned());
        }
        while let Line::Told(line) = self.writer.line(PATIENCE) {
            self.take(&line);
        }
        if !self.writer.is_done() {
            self.verdict.wrong.push(format!("the writer did not end well: {}", self.errors()));
        }
        // Once more, of what lies there at the end, and of the log from its beginning.
        let ends: Vec<u64> = (0..PARTITIONS)
            .map(|number| {
                self.log.refresh().unwrap();
                self.log.bounds(Topic::Events, number).unwrap().end
            })
            .collect();
        let states = self.look_at_pinned(&ends, &mut Minute::default());
        for (undisturbed, state) in self.undisturbed.iter().zip(&states) {
            self.outcome.explanations_verified += undisturbed.question(state, &mut self.verdict);
            undisturbed.read_again(&self.log, &mut self.verdict);
        }
        self.followers.await_all(&mut self.planted, &mut self.verdict);
        let answers = self.reader.answers();
        self.verdict.add(answers.verdict);
        (self.outcome.followed, self.outcome.repeats) = self.followers.figures();
        self.outcome.changes = self.undisturbed.iter().map(|undisturbed| undisturbed.changes).sum();
        self.outcome.verdict.add(self.verdict);
        if self.planted.fault.is_some() {
            self.outcome.verdict.wrong.push("the planted fault never came to be".to_owned());
        }
        self.outcome
    }
}

/// Takes a line of the writer; how many events it acknowledges.
fn take(line: &str, unchecked: &mut Unchecked, verdict: &mut Verdict) -> u64 {
    let Some(told) = line.strip_prefix("ack ") else {
        if line.starts_with("refused ") || line.starts_with("stopped ") {
            verdict.wrong.push(format!("the writer said: {line}"));
        }
        return 0;
    };
    let mut events = 0;
    for one in told.split(' ') {
        let (position, id) = one.split_once('=').expect("a position and an id");
        let (partition, offset) = position.split_once(':').expect("a partition and an offset");
        let place = (partition.parse().expect("a partition"), offset.parse().expect("an offset"));
        if let Some(other) = unchecked.insert(place, id.to_owned()) {
            verdict.lost.push(format!("{other} and {id} were both acknowledged at {position}"));
        }
        events += 1;
    }
    events
}

fn await_line(writer: &Running, awaited: &str, take: &mut dyn FnMut(&str)) {
    loop {
        match writer.line(PATIENCE) {
            Line::Told(line) if line == awaited => return,
            Line::Told(line) => take(&line),
            other => panic!("the writer did not tell {awaited}: {other:?}"),
        }
    }
}

/// Waits until one who follows sees all that was written; a refresh may take nothing while files change.
fn await_ends(log: &Follower, ends: &[u64], verdict: &mut Verdict) {
    let begun = Instant::now();
    loop {
        log.refresh().unwrap();
        let there: Vec<(u64, u64)> = (0..PARTITIONS)
            .map(|number| (log.bounds(Topic::Events, number).unwrap().end, log.committed(number).unwrap().next_offset))
            .collect();
        if there.iter().zip(ends).all(|((end, committed), expected)| end == expected && committed == expected) {
            return;
        }
        if begun.elapsed() > PATIENCE {
            verdict.lost.push(format!("the partitions should end, processed, at {ends:?}, and do at {there:?}"));
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
