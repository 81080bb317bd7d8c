//! `recant demo`.

use anyhow::Result;

use crate::{
    arguments,
    failure::{Exit, Problem},
    output::Output,
};

/// Runs the command.
pub fn run(_arguments: &arguments::Demo, _output: &mut Output) -> Result<Exit> {
    Err(Problem::wrong("being written").into())
}
