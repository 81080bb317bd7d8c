//! A disk that forgets what was not synced. It is told what a process asked of the system, and can at any moment be cut: what
//! is left is everything that was synced, and of the rest as much as chance has it.
//!
//! - Of a file, the bytes that were written when an fsync of it began that has ended well. Of what was written since, any
//!   first part; or, where `Torn`, any of its pages, with zeros where the others were.
//! - Of a file that is written over as a whole and never synced (the seal): nothing, what it was at any time, or a first part of
//!   the newest followed by the rest of an older one.
//! - Of a directory, the names that were made, changed and removed in it when an fsync of it began. Of those since, any first
//!   part. An fsync of a file does not keep its name; most file systems are kinder than that.
//! - What was written when an fsync failed is gone for good: a later fsync that ends well is not about it, as on Linux.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: what the model does not know must end the run"
)]

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    path::{Path, PathBuf},
};

use super::trace::{Call, Event, Trace};
use crate::{binary::Random, crash::check::Acknowledged};

const PAGE_BYTES: usize = 4096;

/// What is left of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Nothing.
    Nothing,
    /// Of each file and directory a first part, as long as chance has it.
    SomeFirstPart,
    /// Of each file some pages, with zeros between them; of each directory a first part.
    Torn,
    /// Everything, as after kill -9.
    Everything,
}

#[derive(Debug, Default)]
struct File {
    bytes: Vec<u8>,
    /// Up to where the writes have returned.
    written: usize,
    /// Up to where it survives.
    synced: usize,
    /// From where on an fsync has failed.
    forgotten_from: Option<usize>,
    /// What it was before it was written over.
    older: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    File(usize),
    Directory,
}

#[derive(Debug, Clone)]
enum Naming {
    Make(String, Named),
    Rename(String, String),
    Remove(String),
}

#[derive(Debug, Default)]
struct Directory {
    names: BTreeMap<String, Named>,
    durable: BTreeMap<String, Named>,
    /// What is not synced, each with its number.
    pending: VecDeque<(u64, Naming)>,
}

#[derive(Debug, Clone)]
enum Opened {
    File { file: usize, at: usize },
    Directory(PathBuf),
}

#[derive(Debug)]
enum Syncing {
    File { file: usize, up_to: usize },
    Directory { path: PathBuf, up_to: u64 },
}

/// The disk.
pub struct Disk {
    root: PathBuf,
    files: Vec<File>,
    directories: BTreeMap<PathBuf, Directory>,
    opened: HashMap<i64, Opened>,
    syncing: HashMap<usize, Syncing>,
    namings: u64,
    told: Vec<u8>,
    /// What the process has acknowledged.
    pub acknowledged: Acknowledged,
    /// Files in which an fsync failed, and what came to them afterwards.
    pub after_a_failure: Vec<String>,
    /// How many fsyncs failed.
    pub failed_syncs: usize,
}

impl Disk {
    /// An empty one, of what lies in a directory that is there and stays.
    pub fn new(root: &Path) -> Disk {
        Disk {
            root: root.to_owned(),
            files: Vec::new(),
            directories: BTreeMap::from([(root.to_owned(), Directory::default())]),
            opened: HashMap::new(),
            syncing: HashMap::new(),
            namings: 0,
            told: Vec::new(),
            acknowledged: Acknowledged::default(),
            after_a_failure: Vec::new(),
            failed_syncs: 0,
        }
    }

    /// The next moment of a trace.
    pub fn take(&mut self, trace: &Trace, event: Event) {
        match event {
            Event::Begins(call) => self.begins(call, &trace.calls[call]),
            Event::Ends(call, result) => self.ends(call, &trace.calls[call], result),
        }
    }

    fn begins(&mut self, number: usize, call: &Call) {
        match call {
            Call::Write { fd: 1, bytes, .. } => self.hear(bytes),
            Call::Write { fd, bytes, offset } => {
                let Some(Opened::File { file, at }) = self.opened.get_mut(fd) else { return };
                let name = format!("write to {:?}", self.root);
                let file = &mut self.files[*file];
                let from = offset.map_or(*at, |offset| offset as usize);
                if from == 0 && bytes.len() == file.bytes.len() && !bytes.is_empty() {
                    assert_eq!(file.synced, 0, "the model knows no writing over what was synced: {name}");
                    file.older.push(std::mem::replace(&mut file.bytes, bytes.clone()));
                    *at = file.bytes.len();
                    return;
                }
                assert_eq!(from, file.bytes.len(), "the model knows only appending: {name}");
                file.bytes.extend(bytes);
                *at = file.bytes.len();
                if file.forgotten_from.is_some() {
                    self.after_a_failure.push(format!("{} bytes were written", bytes.len()));
                }
            }
            Call::Sync { fd } => {
                let syncing = match self.opened.get(fd) {
                    Some(Opened::File { file, .. }) => {
                        if self.files[*file].forgotten_from.is_some() {
                            self.after_a_failure.push("it was synced again".to_owned());
                        }
                        Syncing::File { file: *file, up_to: self.files[*file].written }
                    }
                    Some(Opened::Directory(path)) => Syncing::Directory { path: path.clone(), up_to: self.namings },
                    None => return,
                };
                self.syncing.insert(number, syncing);
            }
            _ => {}
        }
    }

    fn ends(&mut self, number: usize, call: &Call, result: i64) {
        if let Some(syncing) = self.syncing.remove(&number) {
            return if result == 0 { self.synced(syncing) } else { self.sync_failed(syncing) };
        }
        match call {
            Call::Write { fd, bytes, .. } => self.write_ended(*fd, bytes.len(), result),
            _ if result < 0 => {}
            Call::Open { path, creates, truncates, appends } => {
                self.open(result, path, *creates, *truncates, *appends);
            }
            Call::Close { fd } => {
                self.opened.remove(fd);
            }
            Call::Truncate { fd, length } => {
                let Some(Opened::File { file, .. }) = self.opened.get(fd) else { return };
                assert_eq!(self.files[*file].bytes.len() as u64, *length, "the model knows no change of a length");
            }
            Call::Rename { from, to } => {
                if let (Some((directory, from)), Some((other, to))) = (self.place(from), self.place(to)) {
                    assert_eq!(directory, other, "the model knows only renaming within a directory");
                    self.name(&directory, Naming::Rename(from, to));
                }
            }
            Call::Remove { path } => {
                if let Some((directory, name)) = self.place(path) {
                    self.name(&directory, Naming::Remove(name));
                }
            }
            Call::MakeDirectory { path } => {
                if let Some((directory, name)) = self.place(path) {
                    self.name(&directory, Naming::Make(name, Named::Directory));
                    self.directories.insert(path.clone(), Directory::default());
                }
            }
            Call::Sync { .. } | Call::Nothing => {}
        }
    }

    /// What a process prints, it has said by then.
    fn hear(&mut self, bytes: &[u8]) {
        self.told.extend(bytes);
        while let Some(end) = self.told.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.told.drain(..=end).collect();
            self.acknowledged.take(String::from_utf8_lossy(&line).trim_end());
        }
    }

    fn write_ended(&mut self, fd: i64, bytes: usize, result: i64) {
        let Some(Opened::File { file, at }) = self.opened.get_mut(&fd) else { return };
        let file = &mut self.files[*file];
        let missing = bytes - usize::try_from(result).unwrap_or(0);
        file.bytes.truncate(file.bytes.len() - missing);
        *at = file.bytes.len();
        file.written = file.bytes.len();
    }

    fn open(&mut self, fd: i64, path: &Path, creates: bool, truncates: bool, appends: bool) {
        if self.directories.contains_key(path) {
            self.opened.insert(fd, Opened::Directory(path.to_owned()));
            return;
        }
        let Some((directory, name)) = self.place(path) else { return };
        let file = match self.directories[&directory].names.get(&name) {
            Some(Named::File(file)) => *file,
            Some(Named::Directory) => unreachable!("directories are known by their paths"),
            None => {
                assert!(creates, "{} was opened, and the model does not know it", path.display());
                self.files.push(File::default());
                self.name(&directory, Naming::Make(name, Named::File(self.files.len() - 1)));
                self.files.len() - 1
            }
        };
        if truncates {
            assert!(self.files[file].bytes.is_empty(), "the model knows no emptying: {}", path.display());
        }
        let at = if appends { self.files[file].bytes.len() } else { 0 };
        self.opened.insert(fd, Opened::File { file, at });
    }

    /// The directory of a path and its name there, if it is on this disk.
    fn place(&self, path: &Path) -> Option<(PathBuf, String)> {
        let directory = path.parent()?;
        if !path.starts_with(&self.root) {
            return None;
        }
        assert!(self.directories.contains_key(directory), "the model does not know {}", directory.display());
        Some((directory.to_owned(), path.file_name()?.to_str()?.to_owned()))
    }

    fn name(&mut self, directory: &Path, naming: Naming) {
        self.namings += 1;
        let directory = self.directories.get_mut(directory).unwrap();
        apply(&mut directory.names, &naming);
        directory.pending.push_back((self.namings, naming));
    }

    fn synced(&mut self, syncing: Syncing) {
        match syncing {
            Syncing::File { file, up_to } => {
                let file = &mut self.files[file];
                file.synced = file.synced.max(file.forgotten_from.unwrap_or(usize::MAX).min(up_to));
            }
            Syncing::Directory { path, up_to } => {
                let directory = self.directories.get_mut(&path).unwrap();
                while let Some((_, naming)) = directory.pending.pop_front_if(|(number, _)| *number <= up_to) {
                    apply(&mut directory.durable, &naming);
                }
            }
        }
    }

    fn sync_failed(&mut self, syncing: Syncing) {
        self.failed_syncs += 1;
        if let Syncing::File { file, .. } = syncing {
            let file = &mut self.files[file];
            file.forgotten_from = Some(file.forgotten_from.unwrap_or(file.synced));
        }
    }

    /// How many write-ahead logs in a directory hold something that is not synced. Of two, a disk may keep the later one
    /// alone.
    pub fn unsynced_logs(&self, path: &Path) -> usize {
        let is_unsynced = |(name, named): &(&String, &Named)| match named {
            Named::File(file) => name.ends_with(".log") && self.files[*file].synced < self.files[*file].bytes.len(),
            Named::Directory => false,
        };
        self.directories.get(path).map_or(0, |directory| directory.names.iter().filter(is_unsynced).count())
    }

    /// Loses power: puts what is left into a directory.
    pub fn cut(&self, left: Left, random: &mut Random, into: &Path) {
        self.cut_directory(&self.root, left, random, into);
    }

    fn cut_directory(&self, path: &Path, left: Left, random: &mut Random, into: &Path) {
        std::fs::create_dir_all(into).unwrap();
        let directory = &self.directories[path];
        let mut names = directory.durable.clone();
        let kept = match left {
            Left::Nothing => 0,
            Left::Everything => directory.pending.len(),
            Left::SomeFirstPart | Left::Torn => random.below(directory.pending.len() as u64 + 1) as usize,
        };
        directory.pending.iter().take(kept).for_each(|(_, naming)| apply(&mut names, naming));
        for (name, named) in names {
            match named {
                Named::Directory => self.cut_directory(&path.join(&name), left, random, &into.join(&name)),
                Named::File(file) => std::fs::write(into.join(&name), self.files[file].cut(left, random)).unwrap(),
            }
        }
    }

    /// The names in a directory as a process sees them now; for the tests of this model.
    #[cfg(test)]
    fn seen(&self, path: &Path) -> Vec<&String> {
        self.directories[path].names.keys().collect()
    }
}

fn apply(names: &mut BTreeMap<String, Named>, naming: &Naming) {
    match naming {
        Naming::Make(name, named) => {
            names.insert(name.clone(), *named);
        }
        // Of a name whose making is lost, renaming and removing are lost too: what comes later in a directory never outlives
        // what came earlier.
        Naming::Rename(from, to) => {
            if let Some(named) = names.remove(from) {
                names.insert(to.clone(), named);
            }
        }
        Naming::Remove(name) => {
            names.remove(name);
        }
    }
}

impl File {
    /// Of a file that was written over: what it was at some time, or the newest as far as it came, over an older one.
    fn cut_between_versions(&self, random: &mut Random) -> Vec<u8> {
        let older = &self.older[random.below(self.older.len() as u64) as usize];
        match random.below(4) {
            0 => Vec::new(),
            1 => self.bytes.clone(),
            2 => older.clone(),
            _ => {
                let length = random.below(self.bytes.len() as u64 + 1) as usize;
                [&self.bytes[..length], &older[length..]].concat()
            }
        }
    }

    fn cut(&self, left: Left, random: &mut Random) -> Vec<u8> {
        if !self.older.is_empty() && matches!(left, Left::SomeFirstPart | Left::Torn) {
            return self.cut_between_versions(random);
        }
        let (synced, all) = (self.synced, self.bytes.len());
        let open = (all - synced) as u64;
        let length = match left {
            Left::Nothing => synced,
            Left::Everything => all,
            // Anywhere, but often within some bytes of either end.
            Left::SomeFirstPart | Left::Torn => match random.below(7) {
                0 => synced,
                1 => all,
                2 => synced + random.below(open.min(64) + 1) as usize,
                3 => all - random.below(open.min(64) + 1) as usize,
                _ => synced + random.below(open + 1) as usize,
            },
        };
        let mut bytes = self.bytes[..length].to_vec();
        if left == Left::Torn {
            let first = synced / PAGE_BYTES;
            for page in first..length.div_ceil(PAGE_BYTES) {
                if random.below(2) == 0 {
                    let (from, to) = ((page * PAGE_BYTES).max(synced), ((page + 1) * PAGE_BYTES).min(length));
                    bytes[from..to].fill(0);
                }
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(calls: &[(Call, i64)]) -> Disk {
        let mut disk = Disk::new(Path::new("/d"));
        let trace = Trace { calls: calls.iter().map(|(call, _)| call.clone()).collect(), events: Vec::new() };
        for (number, (_, result)) in calls.iter().enumerate() {
            disk.take(&trace, Event::Begins(number));
            disk.take(&trace, Event::Ends(number, *result));
        }
        disk
    }

    fn open(path: &str) -> Call {
        Call::Open { path: path.into(), creates: true, truncates: false, appends: false }
    }

    fn write(fd: i64, text: &str) -> (Call, i64) {
        (Call::Write { fd, bytes: text.into(), offset: None }, text.len() as i64)
    }

    fn left(disk: &Disk, left: Left) -> BTreeMap<String, String> {
        let into = tempfile::tempdir().unwrap();
        disk.cut(left, &mut Random(1), into.path());
        let entries = std::fs::read_dir(into.path()).unwrap().map(Result::unwrap);
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        entries.map(|entry| (entry.file_name().into_string().unwrap(), read(entry.path()))).collect()
    }

    fn files<const N: usize>(files: [(&str, &str); N]) -> BTreeMap<String, String> {
        files.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
    }

    #[test]
    fn only_what_was_synced_is_left_for_certain() {
        let mut calls = vec![(open("/d/a"), 5), write(5, "kept"), (Call::Sync { fd: 5 }, 0), write(5, " lost")];
        assert_eq!(left(&played(&calls), Left::Nothing), files([]), "its name was not");
        calls.extend([(open("/d"), 6), (Call::Sync { fd: 6 }, 0), (open("/d/b"), 7)]);
        let disk = played(&calls);
        assert_eq!(left(&disk, Left::Nothing), files([("a", "kept")]));
        assert_eq!(left(&disk, Left::Everything), files([("a", "kept lost"), ("b", "")]));
        assert_eq!(disk.seen(Path::new("/d")), ["a", "b"]);
        let lengths: Vec<usize> =
            (0..50).map(|seed| disk.files[0].cut(Left::SomeFirstPart, &mut Random(seed)).len()).collect();
        assert!(lengths.contains(&4) && lengths.contains(&9) && lengths.iter().all(|length| *length >= 4));
    }

    #[test]
    fn a_new_name_is_kept_by_syncing_its_directory_alone() {
        let mut calls = vec![(open("/d/new"), 5), write(5, "2"), (Call::Sync { fd: 5 }, 0)];
        calls.push((Call::Rename { from: "/d/new".into(), to: "/d/current".into() }, 0));
        assert_eq!(left(&played(&calls), Left::Nothing), files([]));
        calls.extend([(open("/d"), 6), (Call::Sync { fd: 6 }, 0)]);
        assert_eq!(left(&played(&calls), Left::Nothing), files([("current", "2")]));
    }

    /// What came before a sync that failed is not saved by one that ends well.
    #[test]
    fn a_sync_that_failed_is_not_made_good_by_the_next() {
        let calls = [
            (open("/d/a"), 5),
            (open("/d"), 6),
            (Call::Sync { fd: 6 }, 0),
            write(5, "ab"),
            (Call::Sync { fd: 5 }, 0),
            write(5, "cd"),
            (Call::Sync { fd: 5 }, -1),
            (Call::Sync { fd: 5 }, 0),
        ];
        let disk = played(&calls);
        assert_eq!(left(&disk, Left::Nothing), files([("a", "ab")]));
        assert_eq!((disk.failed_syncs, disk.after_a_failure.len()), (1, 1));
    }

    #[test]
    fn what_is_printed_is_acknowledged_when_it_is_printed() {
        let text = "ack 0:1=a 0:2=b\nserving\nack 0:3";
        let disk = played(&[(Call::Write { fd: 1, bytes: text.into(), offset: None }, 1)]);
        assert_eq!(disk.acknowledged.0, BTreeMap::from([(1, "a".to_owned()), (2, "b".to_owned())]));
    }
}
