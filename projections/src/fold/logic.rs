//! Logic versions: what `fold` does with an event.
//!
//! A program has one. The log says which one is in force, from its creation (`LogCreated`) or from where another took over
//! (`LogicActivated`). A state is made by one version, from the first event on; its row says which. So when a new version
//! takes over, its state is made anew from the log, and what is believed otherwise by it is published there, as a cascade
//! that no fold gives: who has the new version alone cannot compute it. The running hash of outputs begins anew there.

use super::Engine;
use crate::{
    justification::settle::settle,
    store::StoreError,
    tables::partition::{FORMAT_VERSION, LOGIC_VERSION, Row},
};

/// A logic version. That of this program, but for tests that plant another.
#[derive(Debug, Clone, Copy)]
pub struct Logic {
    /// Its number.
    pub version: u32,
    /// The operation of the engine in it.
    pub engine: Engine,
}

impl Default for Logic {
    fn default() -> Logic {
        Logic { version: LOGIC_VERSION, engine: settle }
    }
}

/// Refuses the state of another version than this program's.
pub fn check_versions(row: &Row) -> Result<(), StoreError> {
    check(row, LOGIC_VERSION)
}

/// Refuses the state of another format than this program's, or of another logic version than the one given.
pub(super) fn check(row: &Row, logic_version: u32) -> Result<(), StoreError> {
    if (row.format_version, row.logic_version) == (FORMAT_VERSION, logic_version) {
        return Ok(());
    }
    let advice = if row.format_version > FORMAT_VERSION || row.logic_version > logic_version {
        "use the recant that wrote it, or a newer one"
    } else if row.logic_version < logic_version {
        "`recant upgrade --preview` says what would change, and `recant upgrade` makes it anew from the log"
    } else {
        "run `recant rebuild`, which makes it anew from the log"
    };
    Err(StoreError::Format(format!(
        "the state has format {} and logic {}; this program has {FORMAT_VERSION} and {logic_version}: {advice}",
        row.format_version, row.logic_version
    )))
}
