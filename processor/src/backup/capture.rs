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
        for _ in 0..ATTEMPTS {
            let before = (Footprint::of(directory)?, inode(directory));
            match open_all(directory) {
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
