//! What the events of a batch will ask the store, asked at once.
//!
//! Nearly every event asks whether its id has been used, and whether its node has been named, and mostly neither has. RocksDB
//! answers many such questions together in half of the time that it takes for one after the other. What is written does not
//! change while events are folded into the open batch, so that the answers stay right until it is stored.

use hashbrown::HashMap;
use recant_proto::v1::{Event, event::Body};

use super::{open::OpenSpaces, prepare::Prepared};
use crate::{
    store::{Entry, Store, StoreError, Visit},
    tables::{
        Table, events,
        ids::{self, Namespace},
    },
};

/// Fewer events ask for themselves.
const TOGETHER_MIN: usize = 8;

/// What is written under some keys.
#[derive(Debug, Default)]
pub(super) struct Answers {
    events: HashMap<Vec<u8>, Option<Vec<u8>>>,
    ids: HashMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Answers {
    /// Forgets what was asked before, and asks what some events will.
    pub fn ask(&mut self, store: &impl Store, spaces: &OpenSpaces, coming: &[Prepared]) -> Result<(), StoreError> {
        self.forget();
        if coming.len() < TOGETHER_MIN {
            return Ok(());
        }
        let (mut event_keys, mut id_keys) = (Vec::with_capacity(coming.len()), Vec::with_capacity(coming.len()));
        for sound in coming.iter().filter_map(Prepared::sound) {
            let event = &sound.decoded.event;
            // Whatever has not begun has nothing that could be found.
            let Some(space) = spaces.number_of(&event.space) else { continue };
            event_keys.push(events::key_of_hash(space, &sound.id_hash));
            id_keys.extend(born(event).map(|node| ids::key(space, Namespace::Node, node)));
        }
        answer(store, Table::Events, event_keys, &mut self.events)?;
        answer(store, Table::Ids, id_keys, &mut self.ids)
    }

    /// Forgets everything: what is written changes.
    pub fn forget(&mut self) {
        self.events.clear();
        self.ids.clear();
    }

    fn of(&self, table: Table) -> Option<&HashMap<Vec<u8>, Option<Vec<u8>>>> {
        match table {
            Table::Events => Some(&self.events),
            Table::Ids => Some(&self.ids),
            _ => None,
        }
    }
}

fn answer(
    store: &impl Store,
    table: Table,
    keys: Vec<Vec<u8>>,
    answers: &mut HashMap<Vec<u8>, Option<Vec<u8>>>,
) -> Result<(), StoreError> {
    let found = store.get_all(table, &keys)?;
    answers.extend(keys.into_iter().zip(found));
    Ok(())
}

/// The node that an event brings, if it does.
fn born(event: &Event) -> Option<&str> {
    match event.body.as_ref()? {
        Body::Observed(observed) => Some(&observed.node),
        Body::Derived(derived) => Some(&derived.node),
        Body::ActionProposed(proposed) => Some(&proposed.action),
        _ => None,
    }
}

/// A store of which some was asked before.
pub(crate) struct Foreseen<'a, S> {
    pub(super) store: &'a S,
    pub(super) answers: &'a Answers,
}

impl<S: Store> Store for Foreseen<'_, S> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.answers.of(table).and_then(|answers| answers.get(key)) {
            Some(answer) => Ok(answer.clone()),
            None => self.store.get(table, key),
        }
    }

    fn scan(&self, table: Table, prefix: &[u8], from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.store.scan(table, prefix, from, visit)
    }

    fn last(&self, table: Table, prefix: &[u8], at_most: &[u8]) -> Result<Option<Entry>, StoreError> {
        self.store.last(table, prefix, at_most)
    }
}
