//! What reads bytes that others wrote, each as a function of bytes: a [`Target`]. `tests/tests/fuzz_targets.rs` feeds them with
//! damaged examples ([`mutate`]) for a minute each, and the crate in `fuzz/` with libFuzzer's, for as long as one likes.
//!
//! A target panics where a promise is broken: whatever the bytes are, they are read or refused with a typed error, and what
//! was read and written again is read as the same.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: what fails here fails a test"
)]

mod contract;
mod converting;
mod folding;
pub mod mutate;
mod rows;

use std::{fs, path::PathBuf};

/// The import of `recant import chat`, which lives in the binary's crate.
#[path = "../../../cli/src/import/mod.rs"]
pub mod import;

/// The encoding of a record in the embedded log, which is the log's own.
#[allow(dead_code, reason = "only reading is tried")]
#[path = "../../../eventlog/src/embedded/record.rs"]
mod record;

/// Something that reads bytes.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, as in `make fuzz NAME=…`.
    pub name: &'static str,
    /// Reads them; panics where a promise is broken.
    pub run: fn(&[u8]),
    /// Examples, most of them right.
    pub examples: fn() -> Vec<Vec<u8>>,
    /// At most so many bytes it may have allocated at once for each byte of its input, beside [`BYTES_ANYWAY`].
    pub bytes_a_byte: usize,
}

/// What a target may have allocated at once whatever its input is.
pub const BYTES_ANYWAY: usize = 512 << 10;

/// Every target.
pub const TARGETS: [Target; 8] = [
    Target { name: "events", run: contract::events, examples: contract::event_examples, bytes_a_byte: 200 },
    Target { name: "changes", run: contract::changes, examples: contract::change_examples, bytes_a_byte: 200 },
    Target { name: "places", run: contract::places, examples: contract::place_examples, bytes_a_byte: 16 },
    Target { name: "records", run: contract::records, examples: contract::record_examples, bytes_a_byte: 16 },
    Target { name: "rows", run: rows::rows, examples: rows::examples, bytes_a_byte: 200 },
    Target { name: "import", run: converting::import, examples: converting::import_examples, bytes_a_byte: 1_600 },
    Target { name: "maps", run: converting::maps, examples: converting::map_examples, bytes_a_byte: 400 },
    Target { name: "fold", run: folding::fold, examples: folding::examples, bytes_a_byte: 200 },
];

/// The target of that name.
pub fn target(name: &str) -> Target {
    let found = TARGETS.into_iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("no target {name}"))
}

/// The file of the repository at a path.
fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Every file of a directory of the repository whose name ends so, in order of names.
fn files(directory: &str, ending: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(repository(directory)).expect("the directory can be read");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let chosen = paths.into_iter().filter(|path| path.to_string_lossy().ends_with(ending));
    chosen.map(|path| fs::read(path).expect("a file can be read")).collect()
}
