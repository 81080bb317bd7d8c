//! One source under very many beliefs is retracted: all of them fall, in one cascade, which is published whole, in one transaction,
//! applied whole, and consumed whole by a stock client that is slow and has little memory.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use recant_eventlog::{AppendLog, ReadLog, Topic, kafka::KafkaLog};
use recant_proto::v1::{Derived, Event, Justification, Observed, Retracted, Target, event::Body, target::What};
use serde_json::Value;

use super::{load::record, member::command, python};
use crate::binary::{Desk, items, number, run, wait_until};

const APPEND_EVENTS: u64 = 5_000;
const SOURCE: &str = "hub";
const SPACE: &str = "s";

/// Appends an observation, and so many beliefs on it.
pub fn append_beliefs(log: &KafkaLog, beliefs: u64) {
    let hub = Observed { node: SOURCE.to_owned(), source: SOURCE.to_owned(), ..Observed::default() };
    append(log, [event(SOURCE.to_owned(), Body::Observed(hub))]);
    let belief = |number: u64| {
        let justification = Some(Justification { premises: vec![SOURCE.to_owned()], ..Justification::default() });
        let (node, kind) = (format!("b-{number}"), "belief".to_owned());
        event(node.clone(), Body::Derived(Derived { node, kind, justification, ..Derived::default() }))
    };
    for first in (0..beliefs).step_by(APPEND_EVENTS as usize) {
        append(log, (first..(first + APPEND_EVENTS).min(beliefs)).map(belief));
    }
}

/// Appends the retraction under which all of them fall, and says from where on the changes are the cascade's: digests may stand before.
pub fn append_retraction(log: &KafkaLog) -> u64 {
    let end_of_changes = end_of(log, Topic::Changes);
    let targets = vec![Target { what: Some(What::Source(SOURCE.to_owned())), window: None }];
    let retracted = Retracted { retraction: "r".to_owned(), targets, ..Retracted::default() };
    append(log, [event("r".to_owned(), Body::Retracted(retracted))]);
    end_of_changes
}

fn event(id: String, body: Body) -> Event {
    Event { id, space: SPACE.to_owned(), body: Some(body), ..Event::default() }
}

fn append(log: &KafkaLog, events: impl IntoIterator<Item = Event>) {
    log.append(events.into_iter().map(|event| record(&event, 1)).collect()).expect("the brokers take it");
}

/// Where a topic ends; a broker that was short of time may have no leader for a moment.
fn end_of(log: &KafkaLog, topic: Topic) -> u64 {
    wait_until("the brokers tell where a topic ends", || log.bounds(topic, 0).ok()).end
}

/// Waits until everything that was appended is published, at most so long, and says how long it took.
pub fn wait_until_published(log: &KafkaLog, patience: Duration) -> Duration {
    let end = end_of(log, Topic::Events);
    let begun = Instant::now();
    // While a transaction of this partition is open, the brokers do not tell its position.
    while log.committed(0).map_or(0, |committed| committed.next_offset) < end {
        assert!(begun.elapsed() < patience, "not within {patience:?}: everything up to {end} is published");
        std::thread::sleep(Duration::from_millis(20));
    }
    begun.elapsed()
}

/// What a slow consumer saw of the changes.
#[derive(Debug)]
pub struct Seen {
    /// Records, the summary included.
    pub records: u64,
    /// Those that did not follow the one before.
    pub out_of_order: u64,
    /// Ends of transactions between the first and the last.
    pub gaps: u64,
    /// What it took of memory at most.
    pub peak_kib: u64,
}

impl Seen {
    /// Whether it saw a cascade of so many changes whole, in order, and as one transaction.
    pub fn is_whole(&self, changes: u64) -> bool {
        self.records == changes + 1 && self.out_of_order == 0 && self.gaps == 0
    }
}

/// Consumes the changes from an offset on with a stock client, which pauses after each 1,000.
pub fn consume_slowly(log: &KafkaLog, from: u64, pause: Duration) -> Seen {
    let settings = log.settings();
    let topic = settings.names.topic(Topic::Changes);
    let (from, pause_ms) = (from.to_string(), pause.as_millis().to_string());
    let told = python::run("consume_slowly", &[&settings.brokers, topic, &from, &pause_ms]);
    let told = told.first().expect("it says what it saw");
    let figure = |name: &str| number(&told[name]);
    Seen {
        records: figure("records"),
        out_of_order: figure("out_of_order"),
        gaps: figure("gaps"),
        peak_kib: figure("peak_kib"),
    }
}

/// Whether nothing in a state is believed any more, and something was.
pub fn is_applied_whole(desk: &Desk, brokers: &str, instance: &str, data: &Path) -> bool {
    let count = |status: &str| {
        let arguments = ["list", "--json", "--space", SPACE, "--status", status, "--limit", "1"];
        let mut list: Command = command(desk, brokers, instance, &arguments);
        list.env("RECANT_DATA", data);
        let page: Value = run(list).exited(0).document();
        items(&page).len()
    };
    count("in") == 0 && count("out") == 1
}
