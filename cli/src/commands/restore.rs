//! `recant restore`: a data directory from a snapshot, once everything in it has been verified.

use anyhow::Result;
use recant_processor::backup;

use super::snapshot::{Told, counted_events, show};
use crate::{
    arguments, escape,
    failure::Exit,
    output::{BOLD, Output, styled},
    place::Place,
    progress::Progress,
};

/// Runs the command.
pub fn run(place: &Place, arguments: &arguments::Restore, output: &mut Output) -> Result<Exit> {
    let snapshot = &arguments.snapshot;
    let manifest = if arguments.verify_only {
        let progress = Progress::of_bytes("verifying");
        backup::verify(snapshot, &|bytes| progress.add(bytes))?
    } else {
        let progress = Progress::of_bytes("verifying and copying");
        backup::restore(snapshot, &place.data, &|bytes| progress.add(bytes))?
    };
    let data = (!arguments.verify_only).then_some(place.data.as_path());
    if output.is_json() {
        output.document(&Told::of(&manifest, snapshot, data))?;
        return Ok(Exit::Done);
    }
    let events = counted_events(&manifest);
    output.line(match data {
        Some(data) => format!("Restored {events} to {}", styled(BOLD, escape::line(&data.display().to_string()))),
        None => format!("Verified: {events}, every file, record and digest is as it was"),
    })?;
    show(&manifest, output)?;
    Ok(Exit::Done)
}
