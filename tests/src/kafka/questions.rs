//! Questions to several processes that share a log, while they come and die: writers, each in spaces of its own, and readers of all of
//! them, through whichever process they find; and the oracle, which is asked afterwards what each answer had to be.
//!
//! An answer is *stale* if its position is before one that it had to have: that of a write which was acknowledged before the
//! question was asked, for one that is to be fresh, or the one that it names. It is *wrong* if it does not say what the oracle says of
//! that position.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use recant_eventlog::{ReadLog, kafka::KafkaLog};
use recant_proto::{position::Position, wire};
use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::check::events;
use crate::{
    binary::{PATIENCE, Random, items, story, text},
    oracle::Oracle,
    served::{Answer, Caller},
};

/// Events of one space; then its writer goes on in another, so that a page holds all nodes of one.
const EVENTS_OF_A_SPACE: usize = 300;
/// So long a question waits at its process; then it is asked again, anywhere.
const WAIT: &str = "wait_ms=2000";
const PAUSE: Duration = Duration::from_millis(20);

/// How new an answer was asked to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// Whatever there is.
    Nothing,
    /// `at_least`.
    AtLeast,
    /// `fresh`.
    Fresh,
}

/// An answer that was given.
#[derive(Debug, Clone)]
pub struct Answered {
    /// Of which space.
    pub space: String,
    /// What was asked for.
    pub demand: Demand,
    /// What it had to have, if it was asked for that.
    pub required: Position,
    /// What it says it has.
    pub position: Position,
    /// Each node, and how it stands.
    pub standings: BTreeMap<String, String>,
}

/// What came of it all.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Events that were acknowledged.
    pub writes: usize,
    /// Answers, and how many of them were fresh, and at least of a position.
    pub reads: usize,
    /// See above.
    pub fresh: usize,
    /// See above.
    pub at_least: usize,
    /// Questions that were told to come back, or whose process died.
    pub asked_again: usize,
    /// Answers older than they had to be.
    pub stale: usize,
    /// Answers that differ from the oracle's.
    pub wrong: usize,
    /// The longest time until a question was answered, wherever it was asked again.
    pub longest_ms: u64,
}

/// Who asks, and whom.
#[derive(Clone)]
pub struct Asking {
    gateways: Arc<RwLock<Vec<Caller>>>,
    /// The position of the last write that was acknowledged in each space.
    acknowledged: Arc<Mutex<BTreeMap<String, Position>>>,
    answers: Arc<Mutex<Vec<Answered>>>,
    writes: Arc<AtomicUsize>,
    asked_again: Arc<AtomicUsize>,
    longest_ms: Arc<AtomicUsize>,
}

impl Asking {
    /// Of these.
    pub fn of(gateways: Vec<Caller>) -> Asking {
        Asking {
            gateways: Arc::new(RwLock::new(gateways)),
            acknowledged: Arc::default(),
            answers: Arc::default(),
            writes: Arc::default(),
            asked_again: Arc::default(),
            longest_ms: Arc::default(),
        }
    }

    /// From now on these are asked.
    pub fn ask(&self, gateways: Vec<Caller>) {
        *self.gateways.write().unwrap() = gateways;
    }

    /// How many operations are done.
    pub fn done(&self) -> usize {
        self.writes.load(Ordering::SeqCst) + self.answers.lock().unwrap().len()
    }

    /// The spaces in which something was written.
    pub fn spaces(&self) -> Vec<String> {
        self.acknowledged.lock().unwrap().keys().cloned().collect()
    }

    fn any(&self, random: &mut Random) -> Caller {
        let gateways = self.gateways.read().unwrap();
        gateways[random.below(gateways.len() as u64) as usize].clone()
    }

    /// Asks until it is answered: what passes is asked again, of any process.
    async fn until_answered(
        &self,
        random: &mut Random,
        method: Method,
        space: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Answer {
        let begun = Instant::now();
        loop {
            let request = self.any(random).request(method.clone(), space, path);
            let request = body.iter().fold(request, |request, body| request.json(body));
            if let Ok(response) = request.send().await
                && response.status() != StatusCode::SERVICE_UNAVAILABLE
            {
                let taken_ms = begun.elapsed().as_millis() as usize;
                self.longest_ms.fetch_max(taken_ms, Ordering::SeqCst);
                return Answer::of(response).await;
            }
            assert!(begun.elapsed() < PATIENCE, "nobody has answered within {PATIENCE:?}");
            self.asked_again.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Writes in spaces of its own, and reads back each time, until so many operations are done by all.
    pub async fn write(self, number: u64, until: usize) {
        let mut random = Random(number);
        for written in 0.. {
            if self.done() >= until {
                return;
            }
            let space = format!("w{number}-{}", written / EVENTS_OF_A_SPACE);
            let event = event(written % EVENTS_OF_A_SPACE, &mut random);
            let path = format!("events?{WAIT}");
            let answer = self.until_answered(&mut random, Method::POST, &space, &path, Some(&event)).await;
            assert!(matches!(answer.status, StatusCode::OK | StatusCode::ACCEPTED), "{}", answer.body);
            let position: Position = answer.position.unwrap().parse().unwrap();
            self.acknowledged.lock().unwrap().insert(space.clone(), position);
            self.writes.fetch_add(1, Ordering::SeqCst);
            self.read(&space, Demand::AtLeast, &mut random).await;
        }
    }

    /// Reads whatever others have written, until so many operations are done by all.
    pub async fn read_all(self, number: u64, until: usize) {
        let mut random = Random(number);
        while self.done() < until {
            let spaces = self.spaces();
            if spaces.is_empty() {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            let space = &spaces[random.below(spaces.len() as u64) as usize];
            let demand = if random.below(4) == 0 { Demand::Nothing } else { Demand::Fresh };
            self.read(space, demand, &mut random).await;
        }
    }

    /// One question.
    pub async fn read(&self, space: &str, demand: Demand, random: &mut Random) {
        let required = self.acknowledged.lock().unwrap()[space];
        let demanded = match demand {
            Demand::Nothing => String::new(),
            Demand::AtLeast => format!("&at_least={required}"),
            Demand::Fresh => "&fresh=true".to_owned(),
        };
        let path = format!("nodes?limit=1000&{WAIT}{demanded}");
        let answer = self.until_answered(random, Method::GET, space, &path, None).await;
        let position = answer.position.clone().unwrap();
        let page = answer.ok();
        assert_eq!(text(&page["position"]), position, "the header says what the body says");
        assert_eq!(page.get("next"), None, "one page holds all");
        let standing = |node: &Value| (text(&node["id"]).to_owned(), text(&node["status"]).to_owned());
        let standings = items(&page).iter().map(standing).collect();
        let position = position.parse().unwrap();
        let answered = Answered { space: space.to_owned(), demand, required, position, standings };
        self.answers.lock().unwrap().push(answered);
    }

    /// Holds every answer against what it had to have, and against the oracle; tells of those that are not right.
    pub fn check(&self, log: &KafkaLog) -> (Figures, Vec<String>) {
        let answers = std::mem::take(&mut *self.answers.lock().unwrap());
        let count = |demand| answers.iter().filter(|answered| answered.demand == demand).count();
        let mut figures = Figures {
            writes: self.writes.load(Ordering::SeqCst),
            reads: answers.len(),
            fresh: count(Demand::Fresh),
            at_least: count(Demand::AtLeast),
            asked_again: self.asked_again.load(Ordering::SeqCst),
            longest_ms: self.longest_ms.load(Ordering::SeqCst) as u64,
            ..Figures::default()
        };
        let mut told = Vec::new();
        for answered in &answers {
            if answered.demand != Demand::Nothing && answered.position < answered.required {
                figures.stale += 1;
                told.push(format!("stale: {answered:?}"));
            }
        }
        for partition in 0..log.partitions() {
            let of_partition = answers.iter().filter(|answered| answered.position.partition == partition);
            let mut by_offset: Vec<&Answered> = of_partition.collect();
            by_offset.sort_by_key(|answered| answered.position.offset);
            let wrong = against_the_oracle(log, partition, &by_offset);
            figures.wrong += wrong.len();
            told.extend(wrong);
        }
        (figures, told)
    }
}

/// What of these answers differs from the oracle's; they are in the order of their positions.
fn against_the_oracle(log: &KafkaLog, partition: u32, answers: &[&Answered]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut oracle = Oracle::new(partition);
    let mut records = events(log, partition).into_iter().peekable();
    for answered in answers {
        while let Some(record) = records.next_if(|record| record.position <= answered.position) {
            let decoded = wire::decode(&record.value, None).expect("a server took it");
            oracle.step(record.position.offset, record.append_time_ms, &decoded.event, &record.value);
        }
        let standings = oracle.space(&answered.space).map(|space| space.standings());
        let expected: BTreeMap<String, String> = standings
            .into_iter()
            .flatten()
            .map(|(node, standing)| (node.clone(), standing.status().to_owned()))
            .collect();
        if expected != answered.standings {
            wrong.push(format!("wrong: {answered:?}; the oracle says {expected:?}"));
        }
    }
    wrong
}

/// The next event of a space: observations from three sources, beliefs that rest on two of them, and sources that fall and come back.
fn event(number: usize, random: &mut Random) -> Value {
    let source = format!("s{}", random.below(3));
    match number % 6 {
        0 | 1 | 3 => story::observed(&format!("o{number}"), &source, "text"),
        2 | 4 => {
            let back = if number % 6 == 2 { 2 } else { 3 };
            let [one, other] = [number - 1, number - back].map(|earlier| format!("o{earlier}"));
            story::derived(&format!("b{number}"), "belief", &[&one, &other])
        }
        _ => match number % 12 {
            5 => story::retracted(&format!("r{number}"), &source),
            _ => story::reinstated(&format!("e-r{number}"), &format!("r{}", number - 6)),
        },
    }
}
