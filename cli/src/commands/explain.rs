//! `recant explain`: why a node is believed or not, down to the sources.

use anyhow::Result;
use recant_projections::query;

use super::tree;
use crate::{
    arguments,
    failure::{Exit, Problem},
    output::Output,
    place::Place,
};

/// Runs the command.
pub fn run(place: &Place, arguments: &arguments::Explain, output: &mut Output) -> Result<Exit> {
    let view = place.view()?.at(arguments.as_of.as_deref())?.valid_at(arguments.valid_at.as_deref())?;
    let not_found = || Problem::not_found("node", &arguments.id);
    let space = view.open_space()?.ok_or_else(not_found)?;
    let explanation = query::explain(&view.store, &space, &view.moment, &arguments.id, arguments.limit.max(1))?
        .ok_or_else(not_found)?;
    if output.is_json() {
        output.document(&explanation)?
    } else {
        tree::show(&explanation, output)?
    }
    Ok(Exit::Done)
}
