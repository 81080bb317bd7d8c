//! `recant replay`: a data directory of the past.

use std::sync::Arc;

use anyhow::Result;
use recant_eventlog::{ReadLimit, ReadLog, Topic, clock::SystemClock};
use recant_processor::{
    backup::NewDirectory,
    past,
    standalone::{log_directory, state_directory},
    viewer::Viewer,
};
use recant_proto::{position::Position, time};
use recant_replayer::past as replayed;
use serde::Serialize;

use crate::{
    arguments, escape,
    failure::{Exit, Problem},
    output::{BOLD, Output, counted, styled},
    place::{Place, WHEN, nothing_then},
    progress::Progress,
};

#[derive(Serialize)]
struct Told {
    directory: String,
    events: u64,
    /// The last position of each partition.
    positions: Vec<String>,
}

/// Runs the command.
pub fn run(place: &Place, arguments: &arguments::Replay, output: &mut Output) -> Result<Exit> {
    let viewer = Viewer::open(&place.data)?;
    let ends = ends(&viewer, &arguments.until)?;
    let target = NewDirectory::beside(&arguments.into)?;
    let (log, state) = (log_directory(target.path()), |number| state_directory(target.path(), number));
    let events = ends.iter().sum();
    let progress = Progress::towards("replaying", events);
    let new = replayed::Place { log: &log, state: &state };
    let add = |events| progress.add(events);
    replayed::make(viewer.log(), &ends, new, Arc::new(SystemClock), place.memory_budget_bytes, &add)?;
    drop(progress);
    let positions = (0..).zip(&ends).map(|(partition, end)| Position { partition, offset: end.saturating_sub(1) });
    let positions: Vec<String> = positions.map(|position| position.to_string()).collect();
    past::mark(target.path(), &positions)?;
    target.take_its_name()?;
    let directory = arguments.into.display().to_string();
    if output.is_json() {
        output.document(&Told { directory, events, positions })?;
        return Ok(Exit::Done);
    }
    let directory = escape::line(&directory);
    output.line(format!(
        "{}: {}, up to {}",
        styled(BOLD, &directory),
        counted(events, "event"),
        positions.join(", ")
    ))?;
    output.line(format!("Every command that reads opens it: recant list --data {directory}"))?;
    Ok(Exit::Done)
}

/// Where each partition ends: behind its last event that the log had taken by then.
fn ends(viewer: &Viewer, when: &str) -> Result<Vec<u64>> {
    let log = viewer.log();
    let partitions = 0..log.partitions();
    let processed = |partition: u32| Ok::<u64, anyhow::Error>(log.committed(partition)?.next_offset);
    let (log_time_ms, exactly) = match when.parse::<Position>() {
        Ok(position) => {
            let Some(last) = processed(position.partition)?.checked_sub(1) else {
                return Err(nothing_then(when).into());
            };
            let position = Position { offset: position.offset.min(last), ..position };
            (log_time_ms(log, position)?, Some(position))
        }
        Err(_) => {
            let instant =
                time::parse("--until", when).map_err(|violation| Problem::wrong(format!("{violation}; {WHEN}")))?;
            (instant.to_log_ms(), None)
        }
    };
    let mut ends = Vec::new();
    for partition in partitions {
        let end = match exactly {
            Some(position) if position.partition == partition => position.offset + 1,
            _ => log.find_by_time(partition, log_time_ms.saturating_add(1))?.min(processed(partition)?),
        };
        if end == 0 {
            return Err(nothing_then(when).into());
        }
        ends.push(end);
    }
    Ok(ends)
}

/// When the log took an event. Its clock never goes back within a partition.
fn log_time_ms(log: &impl ReadLog, at: Position) -> Result<i64> {
    let one = ReadLimit { records_max: 1, bytes_max: 1 };
    let record = log.read(Topic::Events, at.partition, at.offset, one)?.into_iter().next();
    Ok(record.map(|record| record.append_time_ms).ok_or_else(|| nothing_then(&at.to_string()))?)
}
