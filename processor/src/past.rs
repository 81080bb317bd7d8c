//! A data directory of the past is read and never written: what would be appended to it has not happened, and its positions
//! and cursors are those of the log that it was made from. The file `PAST` in it says so, with the last position of each
//! partition, one a line.

use std::{fs, io::ErrorKind, path::Path};

use recant_eventlog::LogError;

use crate::driver::DriveError;

const MARK: &str = "PAST";

/// Marks a data directory as the past, up to these positions.
pub fn mark(data: &Path, positions: &[String]) -> Result<(), LogError> {
    let path = data.join(MARK);
    let write = || {
        let mut file = fs::File::create_new(&path)?;
        std::io::Write::write_all(&mut file, (positions.join("\n") + "\n").as_bytes())?;
        file.sync_all()
    };
    write().map_err(|error| LogError::Io(format!("{}: {error}", path.display())))
}

/// Refuses to write to the past.
pub(crate) fn refuse(data: &Path) -> Result<(), DriveError> {
    let path = data.join(MARK);
    match fs::metadata(&path) {
        Ok(_) => Err(DriveError::Past(data.display().to_string())),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(()),
        Err(error) => Err(LogError::Io(format!("{}: {error}", path.display())).into()),
    }
}
