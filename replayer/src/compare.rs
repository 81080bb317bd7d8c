//! Two states of the same position, row by row: one that was replayed, and the one that is kept.
//!
//! A state is a function of the log, but for the numbers of spaces: those are in the keys of nearly all tables, and a process
//! that was restarted may have given another. So spaces are compared by their names, table by table.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use recant_projections::{
    justification::{
        digest::to_hex,
        graph::{Justification, Node},
    },
    store::{Entry, Store, StoreError},
    tables::{SpaceNumber, Table, justifications, moves, nodes, number_of, of_space, partition, spaces},
};
use recant_proto::id::CONTROL_SPACE;

/// So many rows are read at once.
const PAGE_ROWS: usize = 4_096;

/// The first row of a table that is not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowDifference {
    /// The space, where it is of one.
    pub space: Option<String>,
    /// The node that it says something of.
    pub node: Option<String>,
    /// The offset of the event that wrote it, where the row says so.
    pub offset: Option<u64>,
    /// Which table, and what differs.
    pub detail: String,
}

/// What differs in a kept state from the replayed one: of each table of each space the first row. Of one space alone if it
/// is named.
pub fn states(
    replayed: &impl Store,
    kept: &impl Store,
    only_space: Option<&str>,
) -> Result<Vec<RowDifference>, StoreError> {
    let mut found = Vec::new();
    if only_space.is_none() {
        found.extend(partition_rows(replayed, kept)?);
        found.extend(
            tables(&Side::whole(replayed), &Side::whole(kept), Table::Times)?.map(|row| row.of(None, None, None)),
        );
    }
    let wanted = |name: &String| match only_space {
        None => true,
        // A replay of one space has its own share of the control space.
        Some(space) => name == space && name != CONTROL_SPACE,
    };
    let of = |store| -> Result<Vec<(String, spaces::Row)>, StoreError> {
        Ok(spaces::all(store)?.into_iter().filter(|(name, _)| wanted(name)).collect())
    };
    let kept_spaces: Vec<(String, spaces::Row)> =
        spaces::all(kept)?.into_iter().filter(|(name, _)| wanted(name)).collect();
    let replayed_spaces = of(replayed)?;
    for (name, row) in &kept_spaces {
        if !replayed_spaces.iter().any(|(other, _)| other == name) && row.last_offset > 0 {
            found.push(whole_space(name, "it is in no event of the log"));
        }
    }
    for (name, row) in replayed_spaces {
        match kept_spaces.iter().find(|(other, _)| *other == name) {
            None => found.push(whole_space(&name, "the state has nothing of it")),
            Some((_, kept_row)) => found.extend(one_space(replayed, kept, &name, &row, kept_row)?),
        }
    }
    Ok(found)
}

fn whole_space(name: &str, detail: &str) -> RowDifference {
    RowDifference { space: Some(name.to_owned()), node: None, offset: None, detail: detail.to_owned() }
}

fn partition_rows(replayed: &impl Store, kept: &impl Store) -> Result<Option<RowDifference>, StoreError> {
    let row = |found: Option<partition::Row>| {
        let row = found.unwrap_or_default();
        partition::Row { next_space: 0, ..row }
    };
    let (replayed, kept) = (row(partition::get(replayed)?), row(partition::get(kept)?));
    let detail = if replayed.outputs_hash != kept.outputs_hash {
        "the hash of what it has published is another"
    } else if replayed.last_record_hash != kept.last_record_hash {
        "the last record that it applied is not the one in the log"
    } else if replayed != kept {
        "the row of the partition is another"
    } else {
        return Ok(None);
    };
    Ok(Some(RowDifference { space: None, node: None, offset: None, detail: detail.to_owned() }))
}

fn one_space(
    replayed: &impl Store,
    kept: &impl Store,
    name: &str,
    row: &spaces::Row,
    kept_row: &spaces::Row,
) -> Result<Vec<RowDifference>, StoreError> {
    let mut found = Vec::new();
    if row.digest() != kept_row.digest() {
        let detail = format!("its digest is {}, and should be {}", to_hex(kept_row.digest()), to_hex(row.digest()));
        found.push(whole_space(name, &detail));
    } else if *row != (spaces::Row { number: row.number, ..kept_row.clone() }) {
        found.push(whole_space(name, "the row of the space is another"));
    }
    let (replayed, kept) = (Side::of(replayed, row.space()), Side::of(kept, kept_row.space()));
    for table in Table::ALL.iter().filter(|table| is_by_space(**table)) {
        if let Some(different) = tables(&replayed, &kept, *table)? {
            let node = different.node(&replayed)?.or(different.node(&kept)?);
            let offset = different.offset();
            found.push(different.of(Some(name), node, offset));
        }
    }
    Ok(found)
}

/// Whether the keys of a table begin with the number of a space.
fn is_by_space(table: Table) -> bool {
    !matches!(table, Table::Partition | Table::Spaces | Table::Times)
}

/// The rows of a store under a prefix, told by what is behind it.
pub(crate) struct Side<'s, S> {
    store: &'s S,
    prefix: Vec<u8>,
}

impl<'s, S: Store> Side<'s, S> {
    fn whole(store: &'s S) -> Self {
        Side { store, prefix: Vec::new() }
    }

    /// The rows of a space.
    pub fn of(store: &'s S, space: SpaceNumber) -> Self {
        Side { store, prefix: of_space(space).to_vec() }
    }

    fn space(&self) -> Option<SpaceNumber> {
        self.prefix.as_slice().try_into().ok().map(|bytes| SpaceNumber(u32::from_be_bytes(bytes)))
    }

    fn rows(&self, table: Table) -> Rows<'_, S> {
        self.rows_from(table, &self.prefix)
    }

    /// The rows of a table from a key on.
    pub fn rows_from(&self, table: Table, from: &[u8]) -> Rows<'_, S> {
        Rows { side: self, table, from: Some(from.to_vec()), page: VecDeque::new() }
    }
}

/// The rows of a table one after the other, a page at a time.
pub(crate) struct Rows<'s, S> {
    side: &'s Side<'s, S>,
    table: Table,
    /// Where the next page begins; none behind the last.
    from: Option<Vec<u8>>,
    page: VecDeque<Entry>,
}

impl<S: Store> Rows<'_, S> {
    /// The next row, its key without the prefix.
    pub fn next(&mut self) -> Result<Option<Entry>, StoreError> {
        if self.page.is_empty()
            && let Some(from) = self.from.take()
        {
            self.side.store.scan(self.table, &self.side.prefix, &from, &mut |key, value| {
                self.page.push_back((key.to_vec(), value.to_vec()));
                if self.page.len() < PAGE_ROWS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            if let Some((last, _)) = self.page.back()
                && self.page.len() == PAGE_ROWS
            {
                // The smallest key above it.
                self.from = Some([last.as_slice(), &[0]].concat());
            }
        }
        let row = self.page.pop_front();
        Ok(row.map(|(mut key, value)| (key.split_off(self.side.prefix.len().min(key.len())), value)))
    }
}

/// A row that is not the same on both sides.
struct Different {
    table: Table,
    /// Without the space.
    key: Vec<u8>,
    replayed: Option<Vec<u8>>,
    kept: Option<Vec<u8>>,
}

fn tables<R: Store, K: Store>(
    replayed: &Side<'_, R>,
    kept: &Side<'_, K>,
    table: Table,
) -> Result<Option<Different>, StoreError> {
    let (mut left, mut right) = (replayed.rows(table), kept.rows(table));
    loop {
        let different = |key, replayed, kept| Ok(Some(Different { table, key, replayed, kept }));
        return match (left.next()?, right.next()?) {
            (None, None) => Ok(None),
            (Some(one), Some(other)) if one == other => continue,
            (Some((key, one)), Some((other_key, other))) if key == other_key => different(key, Some(one), Some(other)),
            (Some((key, one)), Some((other_key, _))) if key < other_key => different(key, Some(one), None),
            (Some((key, one)), None) => different(key, Some(one), None),
            (_, Some((key, other))) => different(key, None, Some(other)),
        };
    }
}

impl Different {
    fn of(self, space: Option<&str>, node: Option<String>, offset: Option<u64>) -> RowDifference {
        let what = match (&self.replayed, &self.kept) {
            (Some(_), None) => "is missing",
            (None, _) => "should not be there",
            _ => "is another",
        };
        let key: String = self.key.iter().map(|byte| format!("{byte:02x}")).collect();
        let detail = format!("table {}: the row {key} {what}", self.table.name());
        RowDifference { space: space.map(str::to_owned), node, offset, detail }
    }

    /// The number at the beginning of the key.
    fn number(&self) -> Option<u32> {
        let with_space = [[0; 4].as_slice(), &self.key].concat();
        number_of(self.table, &with_space).ok()
    }

    /// The id of the node that the row is about, as far as this side knows it.
    fn node<S: Store>(&self, side: &Side<'_, S>) -> Result<Option<String>, StoreError> {
        let Some(space) = side.space() else { return Ok(None) };
        let node = match self.table {
            Table::Nodes | Table::NodeStates | Table::Actions => self.number().map(Node),
            Table::Justifications | Table::JustificationCovers => match self.number().map(Justification::new) {
                Some(at) if side.store.get(Table::Justifications, &justifications::key(space, at))?.is_some() => {
                    justifications::get(side.store, space, at).ok().map(|reason| reason.head)
                }
                _ => None,
            },
            Table::Moves => self.first_moved(),
            _ => None,
        };
        let Some(node) = node else { return Ok(None) };
        // A row that is the damaged one says nothing.
        Ok(nodes::get(side.store, space, node).ok().map(|row| row.texts.id).filter(|id| !id.is_empty()))
    }

    /// The first node of which a row of moves says something else.
    fn first_moved(&self) -> Option<Node> {
        let key = [[0; 4].as_slice(), &self.key].concat();
        let entries = |value: &Option<Vec<u8>>| -> Vec<moves::Entry> {
            let row = value.as_deref().and_then(|value| moves::Row::decode(&key, value).ok());
            row.into_iter().flat_map(|row| row.entries().flatten().collect::<Vec<_>>()).collect()
        };
        let (replayed, kept) = (entries(&self.replayed), entries(&self.kept));
        let paired = replayed.iter().zip(&kept).find(|(one, other)| one != other).map(|(one, _)| one.node);
        paired.or_else(|| replayed.get(kept.len()).or(kept.get(replayed.len())).map(|entry| entry.node))
    }

    /// The offset of the event that wrote the row, where the row says so.
    fn offset(&self) -> Option<u64> {
        match self.table {
            Table::Moves => self.key.get(..8)?.try_into().ok().map(u64::from_be_bytes),
            Table::Nodes => {
                let value = self.replayed.as_deref().or(self.kept.as_deref())?;
                nodes::Row::decode(value).ok()?.head.map(|head| head.offset)
            }
            Table::Justifications => {
                let value = self.replayed.as_deref().or(self.kept.as_deref())?;
                justifications::Row::decode(value).ok().map(|row| row.head.offset)
            }
            _ => None,
        }
    }
}
