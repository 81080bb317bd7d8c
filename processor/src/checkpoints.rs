//! Checkpoints of states, from which a replay of the end of the log begins.
//!
//! `checkpoints/P/N` in the data directory is the state of partition P before the event at offset N: a RocksDB checkpoint, whose
//! tables are links. While a process writes, one is made about every [`CHECKPOINT_INTERVAL_EVENTS`], by a thread of its own: the
//! writer goes on. They are kept the denser the nearer they are to the end: of those with the number n (their offset
//! over the interval) one that divides by 2^k is kept until the end is 8·2^k further, which is four for each k. So a replay that begins at or
//! before a moment folds at most about a third more than what came after it. Their tables that the state no longer has take at most
//! [`CHECKPOINT_BYTES_MAX`], or as much as the state if that is more; the oldest go first.
//!
//! They are for speed alone: whoever uses one checks that it is of this log and version, and any can be removed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    thread::JoinHandle,
};

use recant_projections::{
    store::{StoreError, rocks::RocksStore},
    tables::partition,
};

use crate::standalone::state_directory;

/// So many events lie between two checkpoints, about: a batch of appends is not interrupted for one.
pub const CHECKPOINT_INTERVAL_EVENTS: u64 = 50_000;

/// So many bytes are taken by what only checkpoints have, or as many as the state takes.
pub const CHECKPOINT_BYTES_MAX: u64 = 1 << 30;

/// A checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The offset of the first event that is not in it.
    pub next_offset: u64,
    /// Its directory.
    pub path: PathBuf,
}

/// Those of a partition, the oldest first.
pub fn kept(data: &Path, number: u32) -> io::Result<Vec<Checkpoint>> {
    let entries = match fs::read_dir(directory(data, number)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut kept = Vec::new();
    for entry in entries {
        let entry = entry?;
        // One that is being made has another name.
        if let Some(next_offset) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
            kept.push(Checkpoint { next_offset, path: entry.path() });
        }
    }
    kept.sort_by_key(|checkpoint| checkpoint.next_offset);
    Ok(kept)
}

/// Removes those of a partition: its state has been made anew.
pub(crate) fn forget(data: &Path, number: u32) {
    remove(&directory(data, number));
}

/// Copies a checkpoint to a directory that is empty, to be written there. Tables are never changed, and linked where the
/// file system can.
pub fn branch(checkpoint: &Checkpoint, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(&checkpoint.path)? {
        let (from, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let to = to.join(name);
        let is_table = from.extension().is_some_and(|extension| extension == "sst");
        if !(is_table && fs::hard_link(&from, &to).is_ok()) {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

fn directory(data: &Path, number: u32) -> PathBuf {
    data.join("checkpoints").join(number.to_string())
}

/// Makes the checkpoints of a partition, one at a time.
pub(crate) struct Checkpoints {
    data: PathBuf,
    number: u32,
    /// No checkpoint is due before this offset.
    next_due: u64,
    making: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Goes on where the partition's state is.
    pub fn of(data: &Path, number: u32, next_offset: u64) -> Checkpoints {
        Checkpoints { data: data.to_owned(), number, next_due: due_after(next_offset), making: None }
    }

    /// Begins one, if it is due and none is being made. Call it when no batch is open.
    pub fn make_if_due(&mut self, store: &RocksStore, next_offset: u64) {
        let is_busy = self.making.as_ref().is_some_and(|making| !making.is_finished());
        if next_offset < self.next_due || is_busy {
            return;
        }
        self.wait();
        self.next_due = due_after(next_offset);
        let (data, number, checkpointer) = (self.data.clone(), self.number, store.checkpointer());
        let make = move || {
            let made = make(&data, number, |to| checkpointer.checkpoint(to)).and_then(|()| thin_out(&data, number));
            if let Err(error) = made {
                tracing::warn!(partition = number, %error, "no checkpoint was made; replays take longer");
            }
        };
        match std::thread::Builder::new().name("checkpoint".to_owned()).spawn(make) {
            Ok(making) => self.making = Some(making),
            Err(error) => tracing::warn!(partition = number, %error, "no thread for a checkpoint"),
        }
    }

    /// Waits for the one that is being made.
    pub fn wait(&mut self) {
        if let Some(making) = self.making.take()
            && making.join().is_err()
        {
            tracing::warn!(partition = self.number, "the thread that made a checkpoint failed");
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.wait();
    }
}

fn due_after(next_offset: u64) -> u64 {
    (next_offset / CHECKPOINT_INTERVAL_EVENTS + 1) * CHECKPOINT_INTERVAL_EVENTS
}

/// Makes a checkpoint under another name, and then gives it that of the offset that is next in it: the state goes on being
/// written meanwhile.
fn make(data: &Path, number: u32, checkpoint: impl FnOnce(&Path) -> Result<(), StoreError>) -> io::Result<()> {
    let directory = directory(data, number);
    fs::create_dir_all(&directory)?;
    let partial = directory.join("partial");
    remove(&partial);
    checkpoint(&partial).map_err(io::Error::other)?;
    let row = RocksStore::row_of(&partial).map_err(io::Error::other)?.unwrap_or_else(partition::Row::default);
    let complete = directory.join(row.next_offset.to_string());
    if complete.exists() {
        remove(&partial);
        return Ok(());
    }
    fs::rename(&partial, &complete)
}

/// Removes those that are no longer kept.
fn thin_out(data: &Path, number: u32) -> io::Result<()> {
    let all = kept(data, number)?;
    let Some(newest) = all.last().map(|newest| newest.next_offset) else { return Ok(()) };
    let (mut stay, go): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| is_kept(one.next_offset, newest));
    go.iter().for_each(|checkpoint| remove(&checkpoint.path));
    let live = files(&state_directory(data, number))?;
    let bytes_max = live.values().sum::<u64>().max(CHECKPOINT_BYTES_MAX);
    while stay.len() > 1 && own_bytes(&stay, &live)? > bytes_max {
        remove(&stay.remove(0).path);
    }
    Ok(())
}

/// Whether one is kept now that there is one at a later offset.
fn is_kept(next_offset: u64, newest: u64) -> bool {
    let (number, end) = (next_offset / CHECKPOINT_INTERVAL_EVENTS, newest / CHECKPOINT_INTERVAL_EVENTS);
    // None has the number 0.
    end - number < 8_u64.checked_shl(number.trailing_zeros()).unwrap_or(u64::MAX)
}

/// Bytes of files that checkpoints have and the state has not.
fn own_bytes(checkpoints: &[Checkpoint], live: &BTreeMap<u64, u64>) -> io::Result<u64> {
    let mut counted = BTreeSet::new();
    let mut bytes = 0;
    for checkpoint in checkpoints {
        for (inode, length) in files(&checkpoint.path)? {
            if !live.contains_key(&inode) && counted.insert(inode) {
                bytes += length;
            }
        }
    }
    Ok(bytes)
}

/// The files of a directory by their inodes, with their lengths.
fn files(directory: &Path) -> io::Result<BTreeMap<u64, u64>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        // RocksDB may remove one at any time.
        if let Ok(metadata) = entry?.metadata() {
            files.insert(metadata.ino(), metadata.len());
        }
    }
    Ok(files)
}

fn remove(directory: &Path) {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %directory.display(), %error, "a checkpoint could not be removed");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever moment is asked about, what is folded is at most a third more than what came after it, and an interval; and there
    /// are few.
    #[test]
    fn they_are_few_and_one_is_near() {
        let mut kept: Vec<u64> = Vec::new();
        for end in 1..=3_000_u64 {
            kept.push(end * CHECKPOINT_INTERVAL_EVENTS + 17);
            kept.retain(|one| is_kept(*one, end * CHECKPOINT_INTERVAL_EVENTS));
            assert!(kept.len() as u32 <= 4 * end.ilog2() + 8, "{} of {end}", kept.len());
            for moment in 1..=end {
                let nearest =
                    kept.iter().map(|one| one / CHECKPOINT_INTERVAL_EVENTS).filter(|one| *one <= moment).max();
                let (folded, after) = (end - nearest.unwrap_or(0), end - moment);
                assert!(folded <= after + after / 3 + 1, "behind {moment} of {end}: {folded} instead of {after}");
            }
        }
    }
}
