//! `recant rebuild`: the state anew from the log, compared with the old one before it takes its place.

use std::{path::PathBuf, sync::Arc};

use anyhow::Result;
use recant_eventlog::{LogError, ReadLog, clock::SystemClock, embedded::EmbeddedLog};
use recant_processor::{
    standalone::{log_directory, state_directory},
    switch,
};
use recant_replayer::{
    parallel,
    rebuild::{self, OldState, Rebuilt},
};
use serde::Serialize;

use crate::{
    arguments, escape,
    failure::Exit,
    output::{BOLD, DIM, IN, OUT, Output, counted, styled},
    place::Place,
    progress::Progress,
};

#[derive(Serialize)]
struct Told {
    partitions: Vec<PartitionTold>,
}

#[derive(Serialize)]
struct PartitionTold {
    partition: u32,
    events: u64,
    next_offset: u64,
    spaces: Vec<SpaceTold>,
    /// `same`, `missing`, `unreadable`, `other_version` or `differs`.
    old: &'static str,
    /// What was wrong with the old state.
    found: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<String>,
}

#[derive(Serialize)]
struct SpaceTold {
    space: String,
    digest: String,
}

/// Runs the command. A readable old state that was wrong is a "no": something made it so.
pub fn run(place: &Place, arguments: &arguments::Rebuild, output: &mut Output) -> Result<Exit> {
    // Open to write: whoever holds the log may be writing the state.
    let log = EmbeddedLog::open(&log_directory(&place.data), Arc::new(SystemClock))?;
    let partitions = match arguments.partition {
        Some(partition) if partition >= log.partitions() => return Err(LogError::NoPartition(partition).into()),
        Some(partition) => partition..partition + 1,
        None => 0..log.partitions(),
    };
    let progress = Progress::new("folding events");
    let partitions: Vec<u32> = partitions.collect();
    let budget_bytes = place.memory_budget_bytes / parallel::workers(partitions.len());
    let rebuilt = parallel::each(partitions, |partition| {
        rebuild_one(place, &log, partition, arguments.keep_old, budget_bytes, &progress)
    })?;
    drop(progress);
    let differs = rebuilt.iter().any(|(rebuilt, _)| matches!(rebuilt.old, OldState::Differs(_)));
    if output.is_json() {
        let told = rebuilt.into_iter().map(|(rebuilt, kept)| PartitionTold::of(rebuilt, kept));
        output.document(&Told { partitions: told.collect() })?;
    } else {
        rebuilt.iter().try_for_each(|(rebuilt, kept)| show(rebuilt, kept.as_ref(), output))?;
    }
    Ok(if differs { Exit::No } else { Exit::Done })
}

/// Makes one state anew, and puts it in its place. Says where the old one was kept, if it was.
fn rebuild_one(
    place: &Place,
    log: &EmbeddedLog,
    partition: u32,
    keep_old: bool,
    memory_budget_bytes: usize,
    progress: &Progress,
) -> Result<(Rebuilt, Option<PathBuf>)> {
    let building = switch::begin(&place.data, partition)?;
    let old = state_directory(&place.data, partition);
    let add = |events| progress.add(events);
    match rebuild::anew(log, partition, &old, &building, memory_budget_bytes, &add) {
        Ok(rebuilt) => Ok((rebuilt, switch::finish(&place.data, partition, &building, keep_old)?)),
        Err(error) => {
            switch::remove(&building);
            Err(error.into())
        }
    }
}

impl PartitionTold {
    fn of(rebuilt: Rebuilt, kept: Option<PathBuf>) -> PartitionTold {
        let (old, found) = match rebuilt.old {
            OldState::Same => ("same", Vec::new()),
            OldState::Missing => ("missing", Vec::new()),
            OldState::Unreadable(detail) => ("unreadable", vec![detail]),
            OldState::OtherVersion(detail) => ("other_version", vec![detail]),
            OldState::Differs(found) => ("differs", found),
        };
        PartitionTold {
            partition: rebuilt.partition,
            events: rebuilt.events,
            next_offset: rebuilt.next_offset,
            spaces: rebuilt.spaces.into_iter().map(|(space, digest)| SpaceTold { space, digest }).collect(),
            old,
            found,
            kept: kept.map(|path| path.display().to_string()),
        }
    }
}

fn show(rebuilt: &Rebuilt, kept: Option<&PathBuf>, output: &mut Output) -> Result<()> {
    let title = styled(BOLD, format!("partition {}", rebuilt.partition));
    let events = counted(rebuilt.events, "event");
    let spaces = counted(rebuilt.spaces.len() as u64, "space");
    output.line(format!(
        "{title}: state made anew from {events}, {spaces}; what it would have published is what was published"
    ))?;
    match &rebuilt.old {
        OldState::Same => output.line(format!("  {} the old state was the same", styled(IN, "✓")))?,
        OldState::Missing => output.line("  there was no old state")?,
        OldState::Unreadable(detail) => {
            output.line(format!("  the old state could not be read: {}", escape::line(detail)))?;
        }
        OldState::OtherVersion(detail) => {
            output.line(format!("  the old state was of another version: {}", escape::line(detail)))?;
        }
        OldState::Differs(found) => {
            output.line(format!("  {} the old state was wrong, and has been replaced:", styled(OUT, "✗")))?;
            for wrong in found {
                output.line(format!("    {}", escape::line(wrong)))?;
            }
        }
    }
    if let Some(kept) = kept {
        output.line(styled(DIM, format!("  the old state is in {}", escape::line(&kept.display().to_string()))))?;
    }
    for (space, digest) in &rebuilt.spaces {
        output.line(styled(DIM, format!("  {}  digest {digest}", escape::line(space))))?;
    }
    Ok(())
}
