//! A snapshot becomes a data directory.

use std::{
    fs::{self, File},
    io::{self as std_io, Write},
    path::Path,
};

use super::{BackupError, Manifest, Progress, io, manifest::copy_in_pieces, place::NewDirectory, verify::verify};

/// Verifies a snapshot, and copies it to a place where nothing is. Copies are never links: the data and the snapshot live on
/// apart.
pub fn restore(snapshot: &Path, data: &Path, progress: Progress<'_>) -> Result<Manifest, BackupError> {
    let target = NewDirectory::beside(data)?;
    let manifest = verify(snapshot, progress)?;
    for file in &manifest.files {
        let (from, to) = (snapshot.join(&file.path), target.path().join(&file.path));
        if let Some(directory) = to.parent() {
            fs::create_dir_all(directory).map_err(io(directory))?;
        }
        let hash = copy(&from, &to, progress).map_err(io(&to))?;
        if hash != file.blake3 {
            return Err(BackupError::Damaged {
                what: file.path.clone(),
                detail: "it changed while it was read".into(),
            });
        }
    }
    target.take_its_name()?;
    Ok(manifest)
}

/// Copies a file, and gives the hash of what was copied.
fn copy(from: &Path, to: &Path, progress: Progress<'_>) -> std_io::Result<String> {
    let mut copy = Hashed { file: File::create_new(to)?, hasher: blake3::Hasher::new() };
    copy_in_pieces(&mut File::open(from)?, &mut copy, progress)?;
    copy.file.sync_all()?;
    Ok(copy.hasher.finalize().to_hex().to_string())
}

struct Hashed {
    file: File,
    hasher: blake3::Hasher,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> std_io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> std_io::Result<()> {
        self.file.flush()
    }
}
