//! What is told when engine and oracle differ, and the comparisons that tell it.

use recant_projections::{
    fold::{FoldError, Message},
    query::PageError,
    store::{Store, StoreError},
    tables::Table,
};
use recant_proto::wire;

/// Something that engine and oracle see differently, or that does not hold.
#[derive(Debug, thiserror::Error)]
#[error("at offset {offset}, {what}:\n  expected {expected}\n  found    {found}")]
pub struct Disagreement {
    /// The record after which it shows.
    pub offset: u64,
    /// What differs.
    pub what: &'static str,
    /// What the oracle, or the promise, says.
    pub expected: String,
    /// What the engine says.
    pub found: String,
}

/// A disagreement before its place is known.
#[derive(Debug)]
pub(super) struct Differs {
    pub(super) what: &'static str,
    pub(super) expected: String,
    pub(super) found: String,
}

impl From<StoreError> for Differs {
    fn from(error: StoreError) -> Self {
        Differs { what: "the store", expected: "no error".to_owned(), found: error.to_string() }
    }
}

impl From<FoldError> for Differs {
    fn from(error: FoldError) -> Self {
        Differs { what: "the fold", expected: "no error".to_owned(), found: error.to_string() }
    }
}

impl From<PageError> for Differs {
    fn from(error: PageError) -> Self {
        Differs { what: "a question", expected: "no error".to_owned(), found: error.to_string() }
    }
}

/// Asserts that the engine found what is expected.
pub(super) fn same<T: PartialEq + std::fmt::Debug>(what: &'static str, expected: T, found: T) -> Result<(), Differs> {
    if expected == found {
        return Ok(());
    }
    Err(Differs { what, expected: format!("{expected:?}"), found: format!("{found:?}") })
}

/// Asserts that what is published is what is expected; tells the first record that differs.
pub(super) fn same_messages(what: &'static str, expected: &[Message], found: &[Message]) -> Result<(), Differs> {
    if expected == found {
        return Ok(());
    }
    let index = expected.iter().zip(found).position(|(expected, found)| expected != found);
    let index = index.unwrap_or(expected.len().min(found.len()));
    let text = |messages: &[Message]| match messages.get(index) {
        None => format!("{} records", messages.len()),
        Some(Message::Change(change)) => format!("{} records; {index}: {}", messages.len(), wire::to_json(change)),
        Some(Message::Rejection(rejection)) => {
            format!("{} records; {index}: {}", messages.len(), wire::to_json(rejection))
        }
    };
    Err(Differs { what, expected: text(expected), found: text(found) })
}

/// Every row of a store.
pub(super) type Rows = Vec<(Table, Vec<u8>, Vec<u8>)>;

/// Reads them.
pub(super) fn rows(store: &impl Store) -> Result<Rows, StoreError> {
    let mut rows = Rows::new();
    for table in Table::ALL {
        store.scan(*table, b"", b"", &mut |key, value| {
            rows.push((*table, key.to_vec(), value.to_vec()));
            std::ops::ControlFlow::Continue(())
        })?;
    }
    Ok(rows)
}

/// Two stores hold the same rows; the first that one of them has alone.
pub(super) fn same_rows(what: &'static str, expected: &Rows, found: &Rows) -> Result<(), Differs> {
    let different = expected.iter().zip(found).find(|(expected, found)| expected != found);
    same(what, different.map(|(expected, _)| expected), different.map(|(_, found)| found))?;
    same(what, expected.len(), found.len())
}
