//! The contract, held to its word: frozen files, every rule with its code, both wire forms, and the pages that explain it.
//!
//! The files under `tests/golden/v1/` are the freeze of `recant.v1`: what was written once can be read for ever. They are
//! compared, never written, unless `RECANT_BLESS=1` is set:
//!
//! ```text
//! RECANT_BLESS=1 cargo test --release -p recant-proto --test contract
//! ```
//!
//! That writes protobuf from the JSON files, damaged files from `damaged.rs`, and the lists of fields, fingerprints and
//! currencies; from nothing it takes two runs, since lists are made from files that other tests write. Then run without
//! it. A file that is missing without it is a failure. Bless what is new; a diff in what is old breaks every log
//! that exists. `damaged/expected.toml`, which says what becomes of each damaged file, is written by hand.

// Helpers of tests are tests: they may end one by a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod arbitrary;
mod damaged;
mod descriptors;
mod digest_vector;
mod frozen;
mod golden;
mod ids_and_times;
mod json_form;
mod limits;
mod pages;
mod properties;
mod reader;
mod rules;
mod structured;
