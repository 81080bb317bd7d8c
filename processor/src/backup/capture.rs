//! A copy of a RocksDB database that another process writes, of one moment.
//!
//! RocksDB makes checkpoints only of databases that it writes itself: asked for one, a secondary instance leaves out the
//! write-ahead logs, and with them whatever is not yet in tables, without a word. So the files are taken as they lie. All of
//! them are opened between two looks at the database ([`Footprint`]); if in between nothing has changed but that the newest
//! write-ahead log has grown, then the manifest, the tables that it names, the older logs and any beginning of the newest
//! one are the database of one moment: what a kill of the writer at that moment would have left behind. An open file stays
//! readable when the writer removes it, so the copying itself may take its time.
//!
//! Tables are never changed once they are complete, and are linked where the file system can; everything else grows, and is
//! copied as far as it reached. A table that was in the making is taken along, is named by no manifest, and is removed by
//! [`remove_what_is_not_needed`].

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self as std_io, ErrorKind, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use recant_eventlog::embedded::Footprint;

use super::{BackupError, Progress, io};

/// How often the files are looked at again while the writer changes them, and after which pause.
const ATTEMPTS: u32 = 500;
const RETRY_AFTER: Duration = Duration::from_millis(10);

/// The files of a database as they were at one moment, held open.
pub(super) struct Capture {
    directory: PathBuf,
    files: Vec<Captured>,
}

struct Captured {
    name: OsString,
    file: File,
    /// How far it reached.
    bytes: u64,
}

impl Capture {
    /// The database in a directory; nothing if there is none.
    pub(super) fn of(directory: &Path) -> Result<Option<Capture>, BackupError> {
        Self::opened_by(directory, open_all)
    }

    fn opened_by(
        directory: &Path,
        mut open: impl FnMut(&Path) -> std_io::Result<Vec<Captured>>,
    ) -> Result<Option<Capture>, BackupError> {
        for _ in 0..ATTEMPTS {
            let before = (Footprint::of(directory)?, inode(directory));
            match open(directory) {
                Ok(files) => {
                    let after = (Footprint::of(directory)?, inode(directory));
                    if let ((Some(first), one), (Some(second), other)) = (before, after)
                        && one == other
                        && first.only_grew_into(&second)
                    {
                        return Ok(Some(Capture { directory: directory.to_owned(), files }));
                    }
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    if !directory.join("CURRENT").exists() && before.0.is_none() {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(io(directory)(error)),
            }
            std::thread::sleep(RETRY_AFTER);
        }
        let detail = format!("changed during each of {ATTEMPTS} looks; try again");
        Err(BackupError::Io { path: directory.to_owned(), detail })
    }

    /// Writes the database into a directory that does not exist.
    pub(super) fn write_to(self, directory: &Path, progress: Progress<'_>) -> Result<(), BackupError> {
        fs::create_dir_all(directory).map_err(io(directory))?;
        for captured in self.files {
            let to = directory.join(&captured.name);
            if !is_table(&captured.name) || !captured.link(&self.directory, &to).map_err(io(&to))? {
                captured.copy(&to).map_err(io(&to))?;
            }
            progress(captured.bytes);
        }
        Ok(())
    }
}

impl Captured {
    /// Links the file to another name. Whether it could: not to another file system, nor if it has been removed.
    fn link(&self, from: &Path, to: &Path) -> std_io::Result<bool> {
        if fs::hard_link(from.join(&self.name), to).is_err() {
            return Ok(false);
        }
        // The name may have come to mean another file.
        if fs::metadata(to)?.ino() == self.file.metadata()?.ino() {
            return Ok(true);
        }
        fs::remove_file(to)?;
        Ok(false)
    }

    fn copy(&self, to: &Path) -> std_io::Result<()> {
        let mut from = &self.file;
        from.seek(SeekFrom::Start(0))?;
        let copied = std_io::copy(&mut from.take(self.bytes), &mut File::create_new(to)?)?;
        if copied == self.bytes { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }
}

fn open_all(directory: &Path) -> std_io::Result<Vec<Captured>> {
    let current = fs::read_to_string(directory.join("CURRENT"))?;
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let is_manifest = name.to_str() == Some(current.trim());
        if is_manifest || is_table(&name) || is_write_ahead_log(&name) || name == "CURRENT" || name == "IDENTITY" {
            let file = File::open(directory.join(&name))?;
            let bytes = file.metadata()?.len();
            files.push(Captured { name, file, bytes });
        }
    }
    Ok(files)
}

fn inode(directory: &Path) -> Option<u64> {
    fs::metadata(directory).ok().map(|metadata| metadata.ino())
}

fn is_table(name: &OsStr) -> bool {
    has_extension(name, &["sst", "blob"])
}

fn is_write_ahead_log(name: &OsStr) -> bool {
    has_extension(name, &["log"])
}

fn has_extension(name: &OsStr, extensions: &[&str]) -> bool {
    Path::new(name).extension().is_some_and(|extension| extensions.iter().any(|known| extension == *known))
}

/// Removes what a copy of a database does not need: tables that its manifest does not name, and what is no part of it, such
/// as locks.
pub(super) fn remove_what_is_not_needed(directory: &Path, live_tables: &[String]) -> Result<(), BackupError> {
    for entry in fs::read_dir(directory).map_err(io(directory))? {
        let name = entry.map_err(io(directory))?.file_name();
        let is_live = |name: &OsStr| live_tables.iter().any(|live| name == live.as_str());
        let is_manifest = name.to_str().is_some_and(|name| name.starts_with("MANIFEST-"));
        let of_database = is_manifest || is_write_ahead_log(&name) || name == "CURRENT" || name == "IDENTITY";
        if !(of_database || (is_table(&name) && is_live(&name))) {
            let path = directory.join(name);
            fs::remove_file(&path).map_err(io(&path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What looks like a database, with one log and one table.
    fn database() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in [
            ("CURRENT", "MANIFEST-000001\n"),
            ("MANIFEST-000001", "edits"),
            ("000002.log", "batches"),
            ("000003.sst", "a table"),
            ("LOCK", ""),
            ("OPTIONS-000005", "options"),
        ] {
            fs::write(directory.path().join(name), content).unwrap();
        }
        directory
    }

    fn append(path: &Path, more: &str) {
        let content = fs::read_to_string(path).unwrap();
        fs::write(path, content + more).unwrap();
    }

    /// Captures while something is done after the files were opened for the first time; gives how often they were opened, and
    /// what was then copied.
    fn captured(directory: &Path, meanwhile: impl Fn(&Path)) -> (u32, Vec<(String, String)>) {
        let mut times = 0;
        let open = |directory: &Path| {
            let files = open_all(directory);
            times += 1;
            if times == 1 {
                meanwhile(directory);
            }
            files
        };
        let capture = Capture::opened_by(directory, open).unwrap().unwrap();
        let to = tempfile::tempdir().unwrap();
        capture.write_to(&to.path().join("copy"), &|_| {}).unwrap();
        let mut copied: Vec<(String, String)> = fs::read_dir(to.path().join("copy"))
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
            })
            .collect();
        copied.sort();
        (times, copied)
    }

    fn as_they_were() -> Vec<(String, String)> {
        [
            ("000002.log", "batches"),
            ("000003.sst", "a table"),
            ("CURRENT", "MANIFEST-000001\n"),
            ("MANIFEST-000001", "edits"),
        ]
        .map(|(name, content)| (name.to_owned(), content.to_owned()))
        .to_vec()
    }

    /// The writer appends: what was there when the files were opened is copied, and no more, since the log of events is
    /// captured after the state, and the state must not be ahead of it.
    #[test]
    fn what_is_appended_afterwards_is_left_out() {
        let directory = database();
        let more = |directory: &Path| append(&directory.join("000002.log"), " and more");
        assert_eq!(captured(directory.path(), more), (1, as_they_were()));
    }

    /// A flush in between: an older log without its end beside a newer one would be a database with a hole in it.
    #[test]
    fn a_flush_in_between_makes_it_begin_anew() {
        let flushes: [&dyn Fn(&Path); 4] = [
            &|directory| fs::write(directory.join("000004.log"), "").unwrap(),
            &|directory| append(&directory.join("MANIFEST-000001"), ", one more"),
            &|directory| {
                fs::write(directory.join("MANIFEST-000006"), "edits").unwrap();
                fs::write(directory.join("CURRENT"), "MANIFEST-000006\n").unwrap();
            },
            &|directory| fs::remove_file(directory.join("000002.log")).unwrap(),
        ];
        for flush in flushes {
            let directory = database();
            let (times, copied) = captured(directory.path(), flush);
            assert_eq!(times, 2, "{copied:?}");
            assert_ne!(copied, as_they_were());
        }
    }

    /// A rebuild puts another directory in the place of this one, whose files may have the same names and lengths.
    #[test]
    fn another_directory_in_its_place_makes_it_begin_anew() {
        let parent = tempfile::tempdir().unwrap();
        let standing = parent.path().join("0");
        fs::rename(database().keep(), &standing).unwrap();
        let (times, copied) = captured(&standing, |standing| {
            fs::rename(standing, standing.with_extension("discarded-1")).unwrap();
            fs::rename(database().keep(), standing).unwrap();
        });
        assert_eq!((times, copied), (2, as_they_were()));
    }

    /// The writer removes what it has compacted: an open file is still there.
    #[test]
    fn what_is_removed_afterwards_is_copied_all_the_same() {
        let directory = database();
        let capture = Capture::of(directory.path()).unwrap().unwrap();
        fs::remove_file(directory.path().join("000003.sst")).unwrap();
        // Another file may come by the same name.
        fs::write(directory.path().join("000003.sst"), "another table").unwrap();
        let to = tempfile::tempdir().unwrap();
        capture.write_to(&to.path().join("copy"), &|_| {}).unwrap();
        assert_eq!(fs::read_to_string(to.path().join("copy/000003.sst")).unwrap(), "a table");
    }

    #[test]
    fn where_nothing_is_there_is_nothing_to_capture() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Capture::of(&directory.path().join("absent")).unwrap().is_none());
        assert!(Capture::of(directory.path()).unwrap().is_none());
    }
}
