//! `recant explain`: why a node is believed or not, down to the sources.

use anyhow::Result;
use recant_projections::query::{self, Explanation};

use super::tree;
use crate::{
    arguments,
    failure::{Exit, Problem},
    output::Output,
    place::Place,
    remote::{Remote, read},
};

/// Runs the command.
pub fn run(place: &Place, arguments: &arguments::Explain, output: &mut Output) -> Result<Exit> {
    let explanation = match place.remote()? {
        Some(remote) => ask(&remote, arguments)?,
        None => look(place, arguments)?,
    };
    if output.is_json() {
        output.document(&explanation)?
    } else {
        tree::show(&explanation, output)?
    }
    Ok(Exit::Done)
}

fn look(place: &Place, arguments: &arguments::Explain) -> Result<Explanation> {
    let view = place.view()?.at(arguments.as_of.as_deref())?.valid_at(arguments.valid_at.as_deref())?;
    let not_found = || Problem::not_found("node", &arguments.id);
    let space = view.open_space()?.ok_or_else(not_found)?;
    let found = query::explain(&view.store, &space, &view.moment, &arguments.id, arguments.limit.max(1))?;
    Ok(found.ok_or_else(not_found)?)
}

fn ask(remote: &Remote, arguments: &arguments::Explain) -> Result<Explanation> {
    let mut query = vec![("id", arguments.id.clone()), ("limit", arguments.limit.max(1).to_string())];
    query.extend(arguments.as_of.clone().map(|when| ("as_of", when)));
    query.extend(arguments.valid_at.clone().map(|time| ("valid_at", time)));
    read(remote.get(&["explain"], &query)?)
}
