//! `recant snapshot`: log and state of one moment, also while another process writes.

use anyhow::Result;
use recant_eventlog::clock::SystemClock;
use recant_processor::backup::{self, Manifest, PartitionEntry};
use serde::Serialize;

use crate::{
    arguments, escape,
    failure::Exit,
    output::{BOLD, DIM, Output, bytes, counted, styled},
    place::Place,
    progress::Progress,
};

/// What a snapshot holds, as this command and `restore` tell it.
#[derive(Serialize)]
pub struct Told<'a> {
    snapshot: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    format_version: u32,
    recant_version: &'a str,
    made_at: &'a str,
    incarnation: &'a str,
    bytes: u64,
    files: usize,
    partitions: &'a [PartitionEntry],
}

/// Runs the command.
pub fn run(place: &Place, arguments: &arguments::Snapshot, output: &mut Output) -> Result<Exit> {
    let progress = Progress::of_bytes("copying");
    let manifest = backup::snapshot(&place.data, &arguments.directory, &SystemClock, &|bytes| progress.add(bytes))?;
    drop(progress);
    let told = Told::of(&manifest, &arguments.directory, None);
    if output.is_json() {
        output.document(&told)?;
        return Ok(Exit::Done);
    }
    let directory = arguments.directory.display().to_string();
    output.line(format!("Snapshot of {} in {}", counted_events(&manifest), styled(BOLD, escape::line(&directory))))?;
    show(&manifest, output)?;
    Ok(Exit::Done)
}

impl<'a> Told<'a> {
    pub fn of(manifest: &'a Manifest, snapshot: &std::path::Path, data: Option<&std::path::Path>) -> Told<'a> {
        Told {
            snapshot: snapshot.display().to_string(),
            data: data.map(|data| data.display().to_string()),
            format_version: manifest.format_version,
            recant_version: &manifest.recant_version,
            made_at: &manifest.made_at,
            incarnation: &manifest.incarnation,
            bytes: manifest.bytes,
            files: manifest.files.len(),
            partitions: &manifest.partitions,
        }
    }
}

/// How many events a snapshot holds, in words.
pub fn counted_events(manifest: &Manifest) -> String {
    let events = manifest.partitions.iter().map(|partition| partition.events.end - partition.events.earliest);
    counted(events.sum(), "event")
}

/// Its partitions and its size.
pub fn show(manifest: &Manifest, output: &mut Output) -> Result<()> {
    for partition in &manifest.partitions {
        let state = match &partition.state {
            Some(state) => {
                let spaces = counted(state.spaces.len() as u64, "space");
                format!("state at {}:{}, {spaces}", partition.partition, state.next_offset)
            }
            None => "no state yet".to_owned(),
        };
        output.line(format!(
            "  partition {}: events up to {}, processed up to {}; {state}",
            partition.partition, partition.events.end, partition.committed_next_offset
        ))?;
    }
    let size = format!("{} in {}", bytes(manifest.bytes), counted(manifest.files.len() as u64, "file"));
    Ok(output.line(styled(DIM, format!("{size}; log {}, made {}", manifest.incarnation, manifest.made_at)))?)
}
