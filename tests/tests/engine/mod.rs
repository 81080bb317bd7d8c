//! One partition of the engine in memory, stepped through a hand-written table: each event with the cascade that it must
//! cause. The words for events are in `table`.
#![allow(dead_code, reason = "no test file uses all of this")]

use prost::Message as _;
use recant_projections::{
    fold::{Fate, Folded, Input, Message, Partition, Preview, preview, space::Space},
    query::{self, Filter, Moment, NodeView, PageRequest},
    store::{Store, memory::MemoryStore},
};
use recant_proto::{
    position::Incarnation,
    v1::{Change, Event},
};
use recant_tests::generate::BEGIN_MS;

use super::table::HOUR_MS;

/// The log.
pub const INCARNATION: Incarnation = Incarnation([7; 16]);

/// A record of the log.
#[derive(Debug, Clone)]
pub struct Record {
    pub append_time_ms: i64,
    pub space: String,
    pub value: Vec<u8>,
}

/// A partition, and everything that was folded into it.
pub struct Engine {
    pub partition: Partition<MemoryStore>,
    pub log: Vec<Record>,
}

impl Engine {
    pub fn new() -> Self {
        let partition = Partition::open(MemoryStore::default(), INCARNATION, 0).unwrap();
        Engine { partition, log: Vec::new() }
    }

    /// The same records folded into an empty state.
    pub fn replayed(log: &[Record]) -> Self {
        let mut engine = Engine::new();
        log.iter().for_each(|record| drop(engine.fold_record(record.clone())));
        engine
    }

    /// The same state, read from the store.
    pub fn reopened(self) -> Self {
        let store = self.partition.stored().clone();
        Engine { partition: Partition::open(store, INCARNATION, 0).unwrap(), log: self.log }
    }

    fn fold_record(&mut self, record: Record) -> Folded {
        let input = Input {
            offset: self.log.len() as u64,
            append_time_ms: record.append_time_ms,
            key: record.space.as_bytes(),
            headers: &[],
            value: &record.value,
        };
        let folded = self.partition.fold(&input).unwrap();
        self.partition.store().unwrap();
        self.log.push(record);
        folded
    }

    /// Folds a value, whatever it is; an hour after the last one.
    pub fn fold_value(&mut self, space: &str, value: Vec<u8>) -> Folded {
        let append_time_ms = BEGIN_MS + self.log.len() as i64 * HOUR_MS;
        self.fold_record(Record { append_time_ms, space: space.to_owned(), value })
    }

    pub fn fold(&mut self, event: &Event) -> Folded {
        self.fold_value(&event.space, event.encode_to_vec())
    }

    /// The event is accepted and causes exactly this cascade.
    pub fn step(&mut self, event: Event, changes: &[&str]) -> Folded {
        let folded = self.fold(&event);
        assert_eq!(folded.fate, Fate::Accepted, "{event:?}");
        assert_eq!(shown(&folded), changes, "{event:?}");
        folded
    }

    /// Each event is accepted and changes nothing.
    pub fn steps(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            self.step(event, &[]);
        }
    }

    /// The event is refused with this code, its bytes are kept, and it leaves no trace in the digest.
    pub fn refused(&mut self, event: &Event, code: &str) {
        self.refused_value(&event.space, event.encode_to_vec(), code);
    }

    pub fn refused_value(&mut self, space: &str, value: Vec<u8>, code: &str) {
        let digest = self.digest(space);
        let folded = self.fold_value(space, value.clone());
        let Fate::Rejected(violation) = &folded.fate else { panic!("{:?}, and {code} was expected", folded.fate) };
        assert_eq!(violation.code.as_str(), code, "{violation}");
        let [Message::Rejection(rejection)] =
            &folded.outputs.iter().map(|output| output.message.clone()).collect::<Vec<_>>()[..]
        else {
            panic!("{:?}", folded.outputs)
        };
        assert_eq!((rejection.code.as_str(), &rejection.value), (code, &value));
        assert_eq!(self.digest(space), digest);
    }

    pub fn digest(&self, space: &str) -> u128 {
        recant_projections::fold::digest_of(self.partition.stored(), space).unwrap()
    }

    /// `IN`, or `OUT` and why.
    pub fn is(&self, node: &str, shown: &str) {
        assert_eq!(self.standing("s", node), shown, "{node}");
    }

    pub fn standing(&self, space: &str, node: &str) -> String {
        let view = self.list(space).into_iter().find(|view| view.id == node);
        view.map(|view| [view.status, view.why.unwrap_or("")].join(" ").trim_end().to_owned()).unwrap_or_default()
    }

    pub fn now(&self) -> Moment {
        Moment::now(self.partition.stored()).unwrap().unwrap()
    }

    /// Every node of a space.
    pub fn list(&self, space: &str) -> Vec<NodeView> {
        list_at(self.partition.stored(), space, self.now(), &Filter::default())
    }

    pub fn loaded(&self, space: &str) -> Space {
        Space::load(self.partition.stored(), space).unwrap().unwrap()
    }

    /// What a retraction or reinstatement would do.
    pub fn preview(&self, event: &Event) -> Preview {
        preview(self.partition.stored(), self.partition.row(), &self.loaded(&event.space), event).unwrap()
    }
}

/// Every node of a space at a moment, that a filter lets through.
pub fn list_at(store: &impl Store, space: &str, moment: Moment, filter: &Filter) -> Vec<NodeView> {
    let all = PageRequest { after: None, items_max: usize::MAX };
    query::list(store, space, moment, filter, &all).unwrap().items
}

/// The records of the change stream, the summary first.
pub fn records(folded: &Folded) -> Vec<Change> {
    let change = |message: &Message| match message {
        Message::Change(change) => change.clone(),
        Message::Rejection(rejection) => panic!("{rejection:?}"),
    };
    folded.outputs.iter().map(|output| change(&output.message)).collect()
}

/// The changes of a cascade in few words; asserts that they are whole.
fn shown(folded: &Folded) -> Vec<String> {
    let records = records(folded);
    let Some((summary, changes)) = records.split_first() else { return Vec::new() };
    let total = changes.len() as u32;
    assert_eq!(summary.summary.as_ref().and_then(|summary| summary.changed), Some(total));
    for (index, record) in (0..).zip(&records) {
        let cascade = record.cascade.as_ref().unwrap();
        assert_eq!((cascade.index, cascade.total), (Some(index), total));
    }
    changes.iter().map(in_words).collect()
}

pub fn in_words(change: &Change) -> String {
    let why = if change.why.is_empty() { String::new() } else { format!(" {}", change.why) };
    format!("{} {}>{}{why} @{}", change.node, change.from, change.to, change.distance.unwrap())
}
