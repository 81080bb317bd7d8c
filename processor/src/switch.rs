//! A new state in the place of an old one.
//!
//! ```text
//! state/P.rebuild-PID   in the making; of no use
//! state/P.new           complete and on disk: from now on it is the partition's state
//! state/P.new-keep      the same, and the old one is to be kept
//! state/P.discarded-N   the old one, on its way out
//! state/P.old-N         the old one, kept; or one that was of no use, put aside
//! ```
//!
//! Between the two renames of a switch there is no `state/P`. Whoever opens the directory to write goes on with the switch
//! from wherever it was broken off ([`finish_switch`]); who reads takes the complete new one ([`readable_state`]).

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use recant_eventlog::LogError;

use crate::{checkpoints, driver::DriveError, standalone::state_directory};

/// An empty directory, in which the new state of a partition is to be made. For whoever holds the log.
pub fn begin(data: &Path, partition: u32) -> Result<PathBuf, DriveError> {
    finish_switch(data, partition)?;
    let building = named(&state_directory(data, partition), &format!("rebuild-{}", std::process::id()));
    remove(&building);
    fs::create_dir_all(&building).map_err(io(&building))?;
    Ok(building)
}

/// Puts a complete new state in the place of the old one. Says where the old one was kept, if it was.
pub fn finish(data: &Path, partition: u32, complete: &Path, keep_old: bool) -> Result<Option<PathBuf>, DriveError> {
    let standing = state_directory(data, partition);
    let kept = switch(&standing, complete, keep_old).map_err(io(&standing))?;
    // What was wrong with the old one may be in them.
    checkpoints::forget(data, partition);
    Ok(kept)
}

fn switch(standing: &Path, complete: &Path, keep_old: bool) -> std::io::Result<Option<PathBuf>> {
    let marked = named(standing, if keep_old { NEW_AND_KEEP } else { NEW });
    sync(complete)?;
    rename(complete, &marked)?;
    put_in_place(standing, &marked, keep_old)
}

fn put_in_place(standing: &Path, new: &Path, keep_old: bool) -> std::io::Result<Option<PathBuf>> {
    let mut aside = None;
    if standing.exists() {
        let to = free_name(standing, if keep_old { "old" } else { "discarded" });
        rename(standing, &to)?;
        aside = Some(to);
    }
    rename(new, standing)?;
    match aside {
        Some(old) if !keep_old => {
            remove(&old);
            Ok(None)
        }
        kept => Ok(kept),
    }
}

/// Keeps a partition's state aside, so that there is none, and says where; not if there is none, or so many are kept already.
pub fn put_aside(data: &Path, partition: u32, kept_max: usize) -> Result<Option<PathBuf>, DriveError> {
    let standing = state_directory(data, partition);
    let aside = (1..=kept_max).map(|number| named(&standing, &format!("old-{number}"))).find(|path| !path.exists());
    let Some(aside) = aside.filter(|_| standing.exists()) else { return Ok(None) };
    rename(&standing, &aside).map_err(io(&standing))?;
    // What was wrong with it may be in them.
    checkpoints::forget(data, partition);
    Ok(Some(aside))
}

const NEW: &str = "new";
const NEW_AND_KEEP: &str = "new-keep";

/// Goes on with a switch that was broken off, and clears away what is of no use any more. For whoever holds the log.
pub fn finish_switch(data: &Path, partition: u32) -> Result<(), DriveError> {
    let standing = state_directory(data, partition);
    for (name, keep_old) in [(NEW, false), (NEW_AND_KEEP, true)] {
        let new = named(&standing, name);
        if new.exists() {
            put_in_place(&standing, &new, keep_old).map_err(io(&new))?;
            tracing::info!(partition, "a rebuild that was broken off has been finished");
        }
    }
    for leftover in leftovers(&standing).map_err(io(&standing))? {
        remove(&leftover);
    }
    Ok(())
}

/// The directory of a partition's state for who reads: the new one's in the midst of a switch.
pub fn readable_state(data: &Path, partition: u32) -> PathBuf {
    let standing = state_directory(data, partition);
    if !standing.exists() {
        for name in [NEW, NEW_AND_KEEP] {
            let new = named(&standing, name);
            if new.exists() {
                return new;
            }
        }
    }
    standing
}

/// What rebuilds that were broken off have left behind.
fn leftovers(standing: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (Some(parent), Some(number)) = (standing.parent(), standing.file_name()) else { return Ok(Vec::new()) };
    let number = number.to_string_lossy();
    let prefixes = [format!("{number}.rebuild-"), format!("{number}.discarded-")];
    let entries = match fs::read_dir(parent) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if prefixes.iter().any(|prefix| entry.file_name().to_string_lossy().starts_with(prefix.as_str())) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// The name of a directory beside a state's.
fn named(standing: &Path, name: &str) -> PathBuf {
    let mut path = standing.as_os_str().to_owned();
    path.push(".");
    path.push(name);
    PathBuf::from(path)
}

fn free_name(standing: &Path, name: &str) -> PathBuf {
    let mut number = 1_u64;
    loop {
        let path = named(standing, &format!("{name}-{number}"));
        if !path.exists() {
            return path;
        }
        number += 1;
    }
}

/// Renames, and returns when that is on disk.
fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::rename(from, to)?;
    to.parent().map_or(Ok(()), sync)
}

fn sync(directory: &Path) -> std::io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Removes a directory that nobody needs; if that fails it is in nobody's way, and is tried again at the next opening.
pub fn remove(directory: &Path) {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(path = %directory.display(), %error, "could not be removed");
        }
        _ => {}
    }
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> DriveError + '_ {
    move |error| LogError::Io(format!("{}: {error}", path.display())).into()
}
