//! `recant what-if`: what would have come out differently. Nothing real changes.

use std::{collections::BTreeSet, path::Path};

use anyhow::Result;
use recant_eventlog::ReadLog;
use recant_gateway::read::read_event;
use recant_processor::checkpoints;
use recant_projections::{
    query,
    store::{Store, behind::WriteBehind},
    tables::{self, Table, events, partition},
};
use recant_proto::{
    names,
    v1::{Event, Retracted, event::Body},
    validate, wire,
};
use recant_replayer::{
    making,
    replay::Replay,
    what_if::{self, Action, Change, Comparison, Doubtful, Outcome},
};
use serde::Serialize;

use super::{append, retract, scratch};
use crate::{
    arguments, escape,
    failure::{Exit, Problem, Sort},
    import::{NextLine, next_line},
    log::ReadableLog,
    output::{self, BOLD, DIM, OUT, Output, counted, styled},
    place::{Place, View},
    progress::Progress,
};

#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    comparison: Comparison,
    changed: usize,
    truncated: bool,
}

/// Runs the command.
pub fn run(place: &Place, arguments: &arguments::WhatIf, output: &mut Output) -> Result<Exit> {
    let view = place.view()?;
    let end = partition::get(&view.store)?.map_or(0, |row| row.next_offset);
    view.viewer.log().refresh()?;
    let change = change(&view, arguments)?;
    let scratch = scratch::directory(arguments.scratch.as_deref())?;
    let progress = Progress::new("folding events");
    let add = |events| progress.add(events);
    let branch = branch(place, &view, &change, scratch.path(), &add)?;
    let branch = branch.of_space(Some(&view.space)).without(change.without.iter().copied());
    let mut comparison = what_if::compare(branch, &change, &view.space, &view.store, end)?;
    drop(progress);
    refuse_what_was_refused(&comparison)?;
    let changed = comparison.outcomes.len();
    comparison.outcomes.truncate(arguments.limit);
    let truncated = changed > comparison.outcomes.len();
    if output.is_json() {
        output.document(&Told { comparison, changed, truncated })?;
    } else {
        show(&comparison, changed, output)?;
    }
    Ok(Exit::Done)
}

/// A branch from the nearest checkpoint at or before the change, or from nothing.
fn branch<'a>(
    place: &Place,
    view: &'a View,
    change: &Change,
    scratch: &Path,
    progress: &'a (dyn Fn(u64) + Sync),
) -> Result<Replay<'a, ReadableLog, WriteBehind>> {
    let (log, number) = (view.viewer.log(), view.moment.position.partition);
    let first = change.without.first().map_or(change.after + 1, |first| *first.min(&(change.after + 1)));
    let kept = checkpoints::kept(&place.data, number).map_err(|error| Problem::file(&place.data, &error))?;
    let usable = kept.into_iter().rev().filter(|checkpoint| checkpoint.next_offset <= first);
    for checkpoint in usable {
        let directory = scratch.join(checkpoint.next_offset.to_string());
        // It may have been removed meanwhile, or be of another version: then an older one does as well.
        let opened = std::fs::create_dir(&directory)
            .and_then(|()| checkpoints::branch(&checkpoint, &directory))
            .map_err(anyhow::Error::from)
            .and_then(|()| Ok(making::state(&directory, place.memory_budget_bytes)?))
            .and_then(|store| Ok(Replay::over(log, number, store, place.memory_budget_bytes, progress)?));
        match opened {
            Ok(branch) => return Ok(branch),
            Err(error) => tracing::warn!(path = %checkpoint.path.display(), %error, "a checkpoint is of no use"),
        }
    }
    let store = making::state(&scratch.join("0"), place.memory_budget_bytes)?;
    Ok(Replay::over(log, number, store, place.memory_budget_bytes, progress)?)
}

/// What the arguments change.
fn change(view: &View, arguments: &arguments::WhatIf) -> Result<Change> {
    let mut change = Change { without: without(view, &arguments.without)?, ..Change::default() };
    change.after = match (&arguments.at, change.without.first()) {
        (Some(at), _) => view.moment_of("--at", at)?.position.offset,
        (None, first) => first.map_or(0, |first| first.saturating_sub(1)),
    };
    let targets = retract::targets(&arguments.targets);
    if !targets.is_empty() {
        if arguments.at.is_none() {
            return Err(Problem::wrong("say when it would have been retracted: --at WHEN").into());
        }
        let id = retract::new_id();
        let retracted =
            Retracted { retraction: id.clone(), targets, replaces: arguments.replaces.clone(), ..Retracted::default() };
        let body = Some(Body::Retracted(retracted));
        change.with.push(Event { id, space: view.space.clone(), body, ..Event::default() });
    }
    if let Some(file) = &arguments.with {
        change.with.extend(read_events(file, &view.space)?);
    }
    if change.with.is_empty() && change.without.is_empty() {
        return Err(Problem::wrong(
            "say what would have been different: what to retract (--source, --node, --justification, --agent), --without or --with",
        )
        .into());
    }
    for event in &change.with {
        validate::check(event, wire::to_protobuf(event).len(), &validate::DEFAULT_LIMITS)
            .map_err(|violation| Problem::refused(Sort::Wrong, &violation))?;
    }
    Ok(change)
}

/// Where events lie that are to be left out.
fn without(view: &View, ids: &[String]) -> Result<BTreeSet<u64>> {
    let space = query::space(&view.store, &view.space)?.map(|row| row.space());
    let mut offsets = BTreeSet::new();
    for id in ids {
        let not_found = || Problem::not_found("event", id);
        let key = events::key(space.ok_or_else(not_found)?, id);
        let row = view.store.get(Table::Events, &key)?.ok_or_else(not_found)?;
        offsets.insert(tables::decode::<events::Row>(Table::Events, &row)?.offset);
    }
    Ok(offsets)
}

/// Events of one space, which must all be understood.
fn read_events(file: &Path, space: &str) -> Result<Vec<Event>> {
    let mut reader = append::open(file)?;
    let (mut events, mut buffer) = (Vec::new(), Vec::new());
    for line in 1.. {
        match next_line(&mut reader, &mut buffer).map_err(|error| Problem::file(file, &error))? {
            NextLine::End => break,
            NextLine::TooLong => {
                return Err(Problem { line: Some(line), ..Problem::wrong("a line is longer than 64 MiB") }.into());
            }
            NextLine::Line if buffer.trim_ascii().is_empty() => {}
            NextLine::Line => {
                let refused = |violation| Problem { line: Some(line), ..Problem::refused(Sort::Wrong, &violation) };
                let event = read_event(&buffer, names::JSON, Some(space)).map_err(|error| refused(error.violation))?;
                if event.space != space {
                    let detail =
                        format!("the event is of the space {:?}, and nothing crosses from one to another", event.space);
                    return Err(Problem { line: Some(line), ..Problem::wrong(detail) }.into());
                }
                events.push(event);
            }
        }
    }
    Ok(events)
}

/// An event that was to be inserted and breaks a rule makes the question another one.
fn refuse_what_was_refused(comparison: &Comparison) -> Result<()> {
    let Some(refused) = comparison.refused.iter().find(|refused| refused.position.is_none()) else { return Ok(()) };
    let detail = format!(
        "the event {:?} would have been refused: {}; see docs/errors/{}.md",
        refused.event, refused.code, refused.code
    );
    Err(Problem::new(Sort::No, &refused.code, "The event would have been refused", detail).into())
}

fn show(comparison: &Comparison, changed: usize, output: &mut Output) -> Result<()> {
    output.line(format!(
        "What if, behind {}: {} would be something else at {}",
        comparison.at,
        styled(BOLD, counted(changed as u64, "node")),
        comparison.position
    ))?;
    for outcome in &comparison.outcomes {
        output.line(format!("  {}", outcome_line(outcome)))?;
    }
    if changed > comparison.outcomes.len() {
        output.line(format!("  and {} more; --limit shows them", changed - comparison.outcomes.len()))?;
    }
    if !comparison.might_not_have_happened.is_empty() {
        output.line("Might not have happened at all, since their reasons would have been gone:")?;
    }
    for doubtful in &comparison.might_not_have_happened {
        output.line(format!("  {}", doubtful_line(doubtful)))?;
    }
    if !comparison.refused.is_empty() {
        output.line("Would have been refused:")?;
    }
    for refused in &comparison.refused {
        let position = refused.position.as_deref().unwrap_or_default();
        output.line(format!("  {position} {}  {}", escape::line(&refused.event), refused.code))?;
    }
    for money in &comparison.money {
        let of_which = format!("of which {} {} done", money.done, money.currency);
        let sum = styled(BOLD, format!("{} {}", money.amount, escape::line(&money.currency)));
        output.line(format!("Money: {}, {sum}, {of_which}", counted(money.actions, "action")))?;
    }
    output.line(styled(DIM, "Nothing was changed."))?;
    Ok(())
}

fn outcome_line(outcome: &Outcome) -> String {
    let status =
        |status: Option<&str>, why| status.map_or("not there".to_owned(), |status| output::status(status, why));
    let action = outcome.action.as_ref().map(action_line).unwrap_or_default();
    format!(
        "{} instead of {}  {} {}{action}",
        status(outcome.what_if, outcome.why),
        status(outcome.really, None),
        outcome.kind,
        escape::line(&outcome.node)
    )
}

fn doubtful_line(doubtful: &Doubtful) -> String {
    let action = doubtful.action.as_ref().map(action_line).unwrap_or_default();
    let node = styled(OUT, format!("{} {}", doubtful.kind, escape::line(&doubtful.node)));
    format!("{} {node}{action}", styled(DIM, &doubtful.position))
}

fn action_line(action: &Action) -> String {
    format!("  {}", retract::action_line(&action.action_type, &action.state, &action.amount, &action.currency))
}
