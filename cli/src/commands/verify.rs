//! `recant verify`: the log folded again, and everything that was made of it compared.

use anyhow::Result;
use recant_eventlog::ReadLog;
use recant_processor::viewer::{ViewError, Viewer};
use recant_projections::store::StoreError;
use recant_replayer::{
    parallel,
    verify::{Difference, Kept, Subject, Verified, What},
};
use serde::Serialize;

use super::scratch;
use crate::{
    arguments, escape,
    failure::{Exit, Problem},
    output::{BOLD, DIM, IN, OUT, Output, counted, styled},
    place::Place,
    progress::Progress,
};

#[derive(Serialize)]
struct Told {
    ok: bool,
    partitions: Vec<Verified>,
}

/// Runs the command.
pub fn run(place: &Place, arguments: &arguments::Verify, output: &mut Output) -> Result<Exit> {
    let viewer = Viewer::open(&place.data)?;
    let log = viewer.log();
    let only_space = place.is_space_named.then_some(place.space.as_str());
    let numbers = match only_space {
        Some(space) => viewer.partition_of(space)..viewer.partition_of(space) + 1,
        None => 0..log.partitions(),
    };
    // The states first, so that none is ahead of the log.
    let kept: Vec<(u32, Kept)> = numbers.map(|number| (number, kept(&viewer, number))).collect();
    log.refresh()?;
    let subjects = kept.into_iter().map(|(number, kept)| Subject::now(log, number, kept, only_space));
    let subjects = subjects.collect::<Result<Vec<_>, _>>()?;
    let scratch = scratch::directory(arguments.scratch.as_deref())?;
    let progress = Progress::towards("verifying", subjects.iter().map(Subject::events).sum());
    let budget_bytes = place.memory_budget_bytes / parallel::workers(subjects.len());
    let verified = parallel::each(subjects, |subject| {
        let directory = scratch.path().join(subject.number.to_string());
        subject.verify(&directory, budget_bytes, &|events| progress.add(events))
    })?;
    drop(progress);
    check_found(only_space, &verified)?;
    let ok = verified.iter().all(|verified| verified.differences.is_empty());
    if output.is_json() {
        output.document(&Told { ok, partitions: verified })?;
    } else {
        verified.iter().try_for_each(|verified| show(verified, output))?;
        let whole = if ok {
            styled(IN, "✓ everything is what the log makes")
        } else {
            styled(OUT, "✗ not everything is what the log makes; docs/how-to/time-travel.md says what to do")
        };
        output.line(whole)?;
    }
    Ok(if ok { Exit::Done } else { Exit::No })
}

/// A space of which there is nothing was most likely meant to be another.
fn check_found(only_space: Option<&str>, verified: &[Verified]) -> Result<()> {
    let Some(space) = only_space else { return Ok(()) };
    if verified.iter().any(|verified| !verified.spaces.is_empty() || !verified.differences.is_empty()) {
        return Ok(());
    }
    Err(Problem::not_found("space", space).into())
}

/// The kept state of a partition, whatever has become of it.
fn kept(viewer: &Viewer, number: u32) -> Kept {
    match viewer.state(number) {
        Ok(store) => Kept::Readable(store),
        // Whoever creates the log makes the state before it processes anything.
        Err(ViewError::Store(StoreError::Absent(_)))
            if viewer.log().committed(number).is_ok_and(|committed| committed.next_offset == 0) =>
        {
            Kept::Absent
        }
        Err(error) => {
            let what = match &error {
                ViewError::Store(StoreError::Format(_)) => What::LogicVersion,
                ViewError::Mismatch { .. } => What::State,
                _ => What::StateUnreadable,
            };
            Kept::Unreadable(what, error.to_string())
        }
    }
}

fn show(verified: &Verified, output: &mut Output) -> Result<()> {
    let sign = if verified.differences.is_empty() { styled(IN, "✓") } else { styled(OUT, "✗") };
    output.line(format!(
        "{sign} {}: {}, {}, {}, {}, up to {}",
        styled(BOLD, format!("partition {}", verified.partition)),
        counted(verified.events, "event"),
        counted(verified.changes, "change record"),
        counted(verified.rejected, "rejection"),
        counted(verified.digests, "digest"),
        verified.position,
    ))?;
    if let Some(from) = &verified.compared_from {
        output.line(format!("  an older logic version published what came before {from}: that is not compared"))?;
    }
    for difference in &verified.differences {
        output.line(format!("  {}", difference_line(difference)))?;
    }
    for space in &verified.spaces {
        output.line(styled(DIM, format!("  {}  digest {}", escape::line(&space.space), space.digest)))?;
    }
    Ok(())
}

fn difference_line(difference: &Difference) -> String {
    let what = match difference.what {
        What::Missing => "not published",
        What::Unexpected => "published without cause",
        What::OutOfOrder => "published out of order",
        What::Altered => "published otherwise",
        What::Digest => "another digest",
        What::LogicVersion => "another version",
        What::OutputsHash => "another hash of what was published",
        What::State => "the state is another",
        What::StateUnreadable => "the state cannot be read",
    };
    let space = difference.space.as_ref().map(|space| format!("  space {}", escape::line(space))).unwrap_or_default();
    let node = difference.node.as_ref().map(|node| format!("  node {}", escape::line(node))).unwrap_or_default();
    let place = format!("{}{space}{node}", difference.position);
    format!("{} at {}: {}", styled(OUT, what), styled(BOLD, place), escape::line(&difference.detail))
}
