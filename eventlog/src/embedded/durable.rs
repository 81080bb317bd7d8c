//! Directories that survive a loss of power. What is fsynced in a file is lost all the same if the name of a directory above
//! it was not: an fsync of the directory that holds the name is what keeps it.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

/// Makes a directory with all above it that are missing, and returns when their names are on disk. So are the names of the
/// directory itself and of the one above it, which a creation that was interrupted may have made.
pub(super) fn create_directory(dir: &Path) -> io::Result<()> {
    let dir = std::path::absolute(dir)?;
    let first_to_exist = dir.ancestors().position(Path::exists).unwrap_or(0);
    fs::create_dir_all(&dir)?;
    dir.ancestors().skip(1).take(first_to_exist.max(2)).try_for_each(sync_names)
}

fn sync_names(directory: &Path) -> io::Result<()> {
    match File::open(directory) {
        Ok(directory) => directory.sync_all(),
        // One may write in it and not read it. It is not ours then, and was there before.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That the names are fsynced is shown by the losses of power in `tests/src/crash/power`.
    #[test]
    fn it_makes_what_is_missing_and_takes_what_is_there() {
        let above = tempfile::tempdir().unwrap();
        for path in ["a/b/c/d/e", "a/b/c/d/e", "a", "f"] {
            create_directory(&above.path().join(path)).unwrap();
            assert!(above.path().join(path).is_dir());
        }
        fs::write(above.path().join("file"), "").unwrap();
        assert!(create_directory(&above.path().join("file/below")).is_err());
    }
}
