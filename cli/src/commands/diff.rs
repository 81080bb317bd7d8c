//! `recant diff`: what turned between two moments, and because of which event.

use anyhow::Result;
use recant_projections::query;
use recant_proto::v1::Change;
use serde::Serialize;
use serde_json::Value;

use super::retract::{change_json, change_line};
use crate::{
    arguments, escape,
    failure::{Exit, Problem},
    output::{BOLD, DIM, Output, counted, styled},
    place::Place,
};

#[derive(Serialize)]
struct Told {
    from: String,
    to: String,
    position: String,
    cursor: String,
    items: Vec<Value>,
    total: usize,
    turned_back: usize,
    truncated: bool,
}

/// Runs the command.
pub fn run(place: &Place, arguments: &arguments::Diff, output: &mut Output) -> Result<Exit> {
    let view = place.view()?;
    let (from, to) = (view.moment_of("A", &arguments.from)?, view.moment_of("B", &arguments.to)?);
    if from.position > to.position {
        let detail =
            format!("A is {}, which is after B, {}; give the earlier moment first", from.position, to.position);
        return Err(Problem::wrong(detail).into());
    }
    let filter = arguments.filter.of_nodes();
    let diff = query::diff(&view.store, &view.space, &from, &to, &filter, arguments.limit)?;
    if output.is_json() {
        output.document(&Told {
            from: diff.from.to_string(),
            to: diff.to.to_string(),
            position: diff.to.to_string(),
            cursor: to.cursor(),
            items: diff.items.iter().map(change_json).collect(),
            total: diff.total,
            turned_back: diff.turned_back,
            truncated: diff.total > diff.items.len(),
        })?;
        return Ok(Exit::Done);
    }
    let mut cause = None;
    for item in &diff.items {
        // What one event did stands together: it is named once.
        if cause.replace(&item.position) != Some(&item.position) {
            output.line(cause_line(item))?;
        }
        let was = if item.from.is_empty() { "new" } else { &item.from };
        output.line(format!("  {} → {}", styled(DIM, format!("{was:>3}")), change_line(item)))?;
    }
    let more = if diff.total > diff.items.len() { "; --limit shows more" } else { "" };
    let back = if diff.turned_back > 0 {
        format!("; {} turned and turned back", counted(diff.turned_back as u64, "other"))
    } else {
        String::new()
    };
    let total = counted(diff.total as u64, "node");
    output.line(styled(DIM, format!("{total} turned from {} to {}{more}{back}", diff.from, diff.to)))?;
    Ok(Exit::Done)
}

fn cause_line(item: &Change) -> String {
    let cause = item.cause.as_ref();
    let event = cause.map(|cause| cause.event.as_str()).unwrap_or_default();
    let retraction = cause.map(|cause| cause.retraction.as_str()).filter(|retraction| !retraction.is_empty());
    let kind = cause.map(|cause| cause.r#type.as_str()).unwrap_or_default();
    format!(
        "{} {} {}",
        styled(DIM, format!("{} {}", item.time, item.position)),
        styled(BOLD, kind),
        escape::line(retraction.unwrap_or(event))
    )
}
