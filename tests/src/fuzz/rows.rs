//! Reading rows of the state that are not what was written. RocksDB's checksums stand before this; behind them, a row is
//! still read or refused with a typed error.
//!
//! Nothing here knows the tables: rows are those of a small story, one of them is exchanged, and everything is asked, of the
//! space in pages and of the space loaded whole.

use std::{collections::BTreeMap, ops::ControlFlow, sync::LazyLock};

use recant_projections::{
    fold::{Input, Partition, space::Space},
    query::{self, Filter, Moment, PageRequest},
    store::{Entry, Store, StoreError, Visit, memory::MemoryStore},
    tables::{Table, spaces},
};
use recant_proto::position::Incarnation;

use super::folding;

/// Some nodes of the story, of each kind.
const NODES: [&str; 4] = ["o-portal", "b-address", "a-paid", "nowhere"];

const INCARNATION: Incarnation = Incarnation([7; 16]);

/// The state of a story.
static STATE: LazyLock<MemoryStore> = LazyLock::new(|| {
    let mut partition = Partition::open(MemoryStore::default(), INCARNATION, 0).expect("an empty state opens");
    for (offset, value) in (0..).zip(folding::story()) {
        let input = Input { offset, append_time_ms: 1_700_000_000_000, key: b"s", headers: &[], value: &value };
        partition.fold(&input).expect("the story is right");
    }
    partition.store().expect("memory takes a batch");
    partition.stored().clone()
});

/// Every row of it.
static ROWS: LazyLock<Vec<(Table, Entry)>> = LazyLock::new(|| {
    let mut rows = Vec::new();
    for table in Table::ALL {
        let all = STATE.scan(*table, b"", b"", &mut |key, value| {
            rows.push((*table, (key.to_vec(), value.to_vec())));
            ControlFlow::Continue(())
        });
        all.expect("memory can be read");
    }
    rows
});

/// The state with another value in one row.
struct Exchanged<'a> {
    row: (Table, &'a [u8]),
    value: &'a [u8],
}

impl Store for Exchanged<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        if (table, key) == self.row { Ok(Some(self.value.to_vec())) } else { STATE.get(table, key) }
    }

    fn scan(&self, table: Table, prefix: &[u8], from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        STATE.scan(table, prefix, from, &mut |key, value| {
            visit(key, if (table, key) == self.row { self.value } else { value })
        })
    }

    fn last(&self, table: Table, prefix: &[u8], at_most: &[u8]) -> Result<Option<Entry>, StoreError> {
        let found = STATE.last(table, prefix, at_most)?;
        Ok(found.map(|(key, value)| {
            let value = if (table, &key[..]) == self.row { self.value.to_vec() } else { value };
            (key, value)
        }))
    }
}

/// The first two bytes choose the row, the others take its place.
pub(super) fn rows(bytes: &[u8]) {
    let Some((index, value)) = bytes.split_first_chunk::<2>() else { return };
    let rows = &*ROWS;
    let Some((table, (key, _))) = rows.get(usize::from(u16::from_be_bytes(*index)) % rows.len()) else { return };
    ask(&Exchanged { row: (*table, key), value });
}

/// Everything that can be asked of a state. The answers are not looked at: a row can be wrong and yet be a row.
fn ask(store: &Exchanged<'_>) {
    let _ = spaces::all(store);
    let Ok(Some(moment)) = Moment::now(store) else { return };
    let _ = query::spaces(store, &moment);
    let _ = query::sources(store, "s", &moment);
    let _ = query::retractions(store, "s", &moment);
    let _ = query::run_trace(store, "s", &moment, "run-7");
    for at in [moment.clone(), moment.clone().at_offset(9)] {
        let request = PageRequest { after: None, items_max: 100 };
        let _ = query::list(store, "s", at.clone(), &Filter::default(), &request);
        for resident_max in [0, u32::MAX] {
            let Ok(Some(space)) = Space::open(store, "s", resident_max) else { continue };
            for node in NODES {
                let _ = query::explain(store, &space, &at, node, 100);
            }
        }
    }
    let _ = recant_projections::audit::space(store, "s");
    let _ = moment.clone().at_time(store, 1_700_000_000_000);
}

pub(super) fn examples() -> Vec<Vec<u8>> {
    // Of each table some rows, each before its own place in the list.
    let mut of_table = BTreeMap::new();
    let mut examples = Vec::new();
    for (index, (table, (_, value))) in (0_u16..).zip(ROWS.iter()) {
        let seen: &mut usize = of_table.entry(*table).or_default();
        *seen += 1;
        if *seen <= 4 {
            examples.push([&index.to_be_bytes()[..], value].concat());
        }
    }
    examples
}
