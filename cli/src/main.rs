//! The `recant` binary: memory that can take things back.
//!
//! Thin: [`arguments`] is what users type, [`commands`] has one file a command, [`place`] where the data is, [`failure`]
//! how things go wrong, [`output`] how answers are written. What recant does is in the other crates.

mod arguments;
mod brokers;
mod commands;
mod escape;
mod failure;
mod import;
mod log;
mod output;
mod place;
mod progress;
mod remote;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    arguments::{Arguments, Command},
    output::Output,
};

/// Allocates a good deal faster than the C library's, for us and not for RocksDB.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return failure::usage(&error),
    };
    if !matches!(arguments.command, Command::Serve(_)) {
        start_tracing();
    }
    let mut output = Output::new(arguments.common.json);
    let outcome = commands::run(arguments, &mut output).and_then(|exit| Ok(output.flush().map(|()| exit)?));
    match outcome {
        Ok(code) => ExitCode::from(code as u8),
        // Whoever read the answer has gone: there is nobody to tell.
        Err(error) if failure::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error, output.is_json()),
    }
}

/// `RECANT_TRACE=debug` and the like show on standard error what recant does.
pub(crate) fn start_tracing() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("RECANT_TRACE")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("error"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
