//! `recant run`: one run's trace.

use anyhow::Result;
use recant_projections::query;

use super::tree::node_line;
use crate::{
    arguments, escape,
    failure::{Exit, Problem},
    output::{DIM, Output, counted, styled},
    place::Place,
};

const TEXT_COLUMNS_MAX: usize = 60;

/// Runs the command.
pub fn run(place: &Place, arguments: &arguments::Run, output: &mut Output) -> Result<Exit> {
    let view = place.view()?.at(arguments.as_of.as_deref())?.valid_at(arguments.valid_at.as_deref())?;
    let trace = query::run_trace(&view.store, &view.space, &view.moment, &arguments.run)?
        .ok_or_else(|| Problem::not_found("run", &arguments.run))?;
    if output.is_json() {
        output.document(&trace)?;
        return Ok(Exit::Done);
    }
    for node in &trace.items {
        let step = if node.step.is_empty() { String::new() } else { format!("step {}  ", escape::line(&node.step)) };
        output.line(format!("{} {step}{}", styled(DIM, &node.position), node_line(node)))?;
        if let Some(text) = &node.text {
            output.line(format!("      {}", styled(DIM, format!("“{}”", escape::clipped(text, TEXT_COLUMNS_MAX)))))?;
        }
    }
    for node in &trace.also_justified {
        output.line(format!("gave a reason for {}", escape::line(node)))?;
    }
    output.line(styled(
        DIM,
        format!("{}, {} OUT, as of {}", counted(trace.items.len() as u64, "node"), trace.fallen, trace.position),
    ))?;
    Ok(Exit::Done)
}
