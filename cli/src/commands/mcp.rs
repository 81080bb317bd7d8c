//! `recant mcp`: serves one assistant on standard input and output.
//!
//! It writes the data directory itself, as `recant serve` does; an assistant that shares a memory with others is given the address of a
//! server instead (`/mcp`).

use std::sync::Arc;

use anyhow::Result;
use recant_gateway::{
    access::{Access, Caller},
    host::Host,
    mcp::{Served, serve_stdio},
};

use crate::{
    failure::{Exit, Problem, Sort},
    place::Place,
};

/// Of a log that is created.
const PARTITIONS: u32 = 1;

/// Runs the command.
pub fn run(place: &Place) -> Result<Exit> {
    let (host, running) = Host::embedded(place.open_or_create(PARTITIONS)?).map_err(Problem::from)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = Served {
        host,
        access: Arc::new(Access::of_this_machine()),
        default_space: place.space.clone(),
        caller_on_stdio: Some(Caller::of_this_machine()),
    };
    let session = runtime.block_on(serve_stdio(Arc::new(served)));
    // Reading standard input goes on in a thread that cannot be told to end.
    runtime.shutdown_background();
    running.join();
    let failed = |error: &dyn std::fmt::Display| {
        Problem::new(Sort::CouldNot, "session_failed", "The session with the assistant failed", error.to_string())
    };
    session.map_err(|error| failed(&error))?;
    Ok(Exit::Done)
}
