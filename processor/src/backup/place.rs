//! A directory that is made under another name, and has its own once it is whole.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use super::{BackupError, io, sync};

/// So many names are tried before giving up: leftovers of processes that were killed.
const NAMES_MAX: u32 = 1000;

/// A directory in the making. Dropped before it has its name, it is removed.
pub struct NewDirectory {
    partial: PathBuf,
    to: PathBuf,
    has_its_name: bool,
}

impl NewDirectory {
    /// Begins one at a place where nothing is, or an empty directory.
    pub fn beside(to: &Path) -> Result<NewDirectory, BackupError> {
        let to = std::path::absolute(to).map_err(io(to))?;
        check_empty(&to)?;
        let (Some(parent), Some(name)) = (to.parent(), to.file_name()) else {
            return Err(BackupError::NotEmpty(to));
        };
        fs::create_dir_all(parent).map_err(io(parent))?;
        for number in 0..NAMES_MAX {
            let mut partial = name.to_owned();
            partial.push(format!(".partial-{}-{number}", std::process::id()));
            let partial = parent.join(partial);
            match fs::create_dir(&partial) {
                Ok(()) => return Ok(NewDirectory { partial, to, has_its_name: false }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io(&partial)(error)),
            }
        }
        let detail = format!("{NAMES_MAX} directories are there that begin like it and have .partial- in their names");
        Err(BackupError::Io { path: to, detail })
    }

    /// Where it is made.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Syncs its directories, and gives it its name, on disk.
    pub fn take_its_name(mut self) -> Result<(), BackupError> {
        sync_directories(&self.partial)?;
        // Over an empty directory, if one is there.
        fs::rename(&self.partial, &self.to).map_err(|error| {
            let detail = match error.kind() {
                ErrorKind::ResourceBusy | ErrorKind::CrossesDevices => {
                    format!("{error}; it is where a file system begins: name a directory inside it")
                }
                _ => error.to_string(),
            };
            BackupError::Io { path: self.to.clone(), detail }
        })?;
        self.has_its_name = true;
        self.to.parent().map_or(Ok(()), sync)
    }
}

impl Drop for NewDirectory {
    fn drop(&mut self) {
        if !self.has_its_name
            && let Err(error) = fs::remove_dir_all(&self.partial)
        {
            tracing::warn!(path = %self.partial.display(), %error, "a directory that was not finished could not be removed");
        }
    }
}

fn check_empty(path: &Path) -> Result<(), BackupError> {
    match fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(false) => Err(BackupError::NotEmpty(path.to_owned())),
        Err(error) if error.kind() == ErrorKind::NotADirectory => Err(BackupError::NotEmpty(path.to_owned())),
        Err(error) => Err(io(path)(error)),
    }
}

fn sync_directories(directory: &Path) -> Result<(), BackupError> {
    for entry in fs::read_dir(directory).map_err(io(directory))? {
        let entry = entry.map_err(io(directory))?;
        if entry.file_type().map_err(io(directory))?.is_dir() {
            sync_directories(&entry.path())?;
        }
    }
    sync(directory)
}
