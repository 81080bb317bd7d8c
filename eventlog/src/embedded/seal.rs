//! The file `seal` in a database's directory: what its files had come to when something was last acknowledged. Held against
//! the files before they are opened, it tells damage from what a crash leaves behind.
//!
//! RocksDB takes a write-ahead log or a manifest as ended where a record runs over the end of the file, since that is what a
//! crash in the midst of a write leaves. A file that was cut, and one byte flipped in the length of a record of the last
//! 32 KiB, look the same, and what follows would be lost without a word. A manifest that lost its end goes further: RocksDB
//! removes the tables that it no longer names. So whoever writes says here how far the files had come:
//!
//! - the manifest only grows, until the next one takes its place at an opening: what was sealed of it must still be there;
//! - so must the newest write-ahead log, unless the manifest has changed since, which is how tables take its place;
//! - the number of the last write must be reached again by whoever opens the database.
//!
//! A seal is written without an fsync, and after what it speaks of is on disk: it may be behind, never ahead. A seal that is
//! missing or torn is no damage; then less is known.
//!
//! ```text
//! BLAKE3 of the rest, 32 bytes | its length, u16
//! 01 | number of the last write, u64 | manifest: number, u64, length, u64, BLAKE3 of so much of it, 32 bytes
//!    | newest write-ahead log: number, u64 (0: not sealed), length, u64, BLAKE3 of its first 64 bytes, 32 bytes
//! ```
//!
//! Numbers are big endian. Older WALs than the newest are RocksDB's to watch (`track_and_verify_wals_in_manifest`).

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

const FILE: &str = "seal";
const VERSION: u8 = 1;
const HEAD_BYTES: u64 = 64;
const HASH: usize = 32;
const BODY: usize = 1 + 8 + (8 + 8 + HASH) + (8 + 8 + HASH);

/// How often the files are looked at again while they change.
const ATTEMPTS: u32 = 5;

/// A file as it was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    number: u64,
    length: u64,
    hash: [u8; HASH],
}

/// What was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// RocksDB's number of the last write that was acknowledged.
    pub sequence: u64,
    manifest: Part,
    log: Option<Part>,
}

/// What the files of a directory are, held against the seal.
#[derive(Debug)]
#[must_use]
pub enum Files {
    /// There is no database, and nothing of one.
    None,
    /// Nothing speaks against them.
    Sound {
        /// What was sealed, if that is known.
        sealed: Option<Sealed>,
        /// Whether the newest write-ahead log ends where it was sealed, so that nothing in it can be torn.
        ends_as_sealed: bool,
    },
    /// Something is missing or is not what it was.
    Damaged(String),
}

/// Looks at the files of a database, which another process may be writing.
pub fn check(dir: &Path) -> io::Result<Files> {
    let mut found = Files::None;
    for _ in 0..ATTEMPTS {
        // Before the files, which only grow.
        let sealed = read(dir)?;
        let before = fs::read(dir.join("CURRENT")).ok();
        found = against(dir, sealed.as_ref())?;
        let is_same_moment = read(dir)? == sealed && fs::read(dir.join("CURRENT")).ok() == before;
        if is_same_moment || matches!(found, Files::Sound { .. }) {
            break;
        }
    }
    Ok(found)
}

/// Whether something was acknowledged in a database. One that was opened and closed has a seal, too.
pub(super) fn is_of_writes(dir: &Path) -> bool {
    matches!(read(dir), Ok(Some(sealed)) if sealed.sequence > 0)
}

fn against(dir: &Path, sealed: Option<&Sealed>) -> io::Result<Files> {
    let damaged = |text: String| Ok(Files::Damaged(text));
    let current = match fs::read(dir.join("CURRENT")) {
        Ok(current) => current,
        Err(error) if is_absent(&error) => {
            return Ok(match remains(dir)? {
                None => Files::None,
                Some(name) => Files::Damaged(format!("the file CURRENT is missing, and {name} is there")),
            });
        }
        Err(error) => return Err(error),
    };
    let Some(manifest) = manifest_number(&current) else {
        return damaged("the file CURRENT does not name a manifest".to_owned());
    };
    let name = manifest_name(manifest);
    let path = dir.join(&name);
    if !path.exists() {
        return damaged(format!("the file {name}, which CURRENT names, is missing"));
    }
    let unknown = Files::Sound { sealed: None, ends_as_sealed: false };
    let Some(sealed) = sealed else { return Ok(unknown) };
    if manifest < sealed.manifest.number {
        let newer = manifest_name(sealed.manifest.number);
        return damaged(format!("the file CURRENT names {name}, and {newer} was in its place already"));
    }
    if manifest > sealed.manifest.number {
        return Ok(Files::Sound { sealed: Some(*sealed), ends_as_sealed: false });
    }
    let length = fs::metadata(&path)?.len();
    if length < sealed.manifest.length {
        return damaged(format!("the file {name} has {length} bytes, and had {}", sealed.manifest.length));
    }
    if hash_start(&path, sealed.manifest.length)? != Some(sealed.manifest.hash) {
        return damaged(format!("the file {name} is not what it was when it was last sealed"));
    }
    let Some(log) = sealed.log else { return Ok(Files::Sound { sealed: Some(*sealed), ends_as_sealed: false }) };
    let log_name = log_name(log.number);
    let log_path = dir.join(&log_name);
    match fs::metadata(&log_path).map(|metadata| metadata.len()) {
        Err(error) if is_absent(&error) => {
            // Tables may have taken its place, but not without the manifest's saying so.
            if fs::metadata(&path)?.len() == sealed.manifest.length {
                return damaged(format!("the file {log_name} is missing"));
            }
            Ok(Files::Sound { sealed: Some(*sealed), ends_as_sealed: false })
        }
        Err(error) => Err(error),
        Ok(length) if length < log.length => {
            damaged(format!("the file {log_name} has {length} bytes, and {} were acknowledged", log.length))
        }
        Ok(length) => {
            if hash_start(&log_path, log.length.min(HEAD_BYTES))?.is_some_and(|hash| hash != log.hash) {
                return damaged(format!("the file {log_name} is not what it was when it was last sealed"));
            }
            let ends_as_sealed = length == log.length && newest_log(dir)? == Some(log.number);
            Ok(Files::Sound { sealed: Some(*sealed), ends_as_sealed })
        }
    }
}

/// Writes the seal of a database, for the process that writes it.
#[derive(Debug)]
pub struct Sealer {
    dir: PathBuf,
    file: Option<File>,
    sealed: Option<Sealed>,
    /// Whether what is written is on disk when it is acknowledged, so that the write-ahead log can be sealed too.
    is_synced: bool,
}

impl Sealer {
    /// For a database whose every write is on disk when it is acknowledged.
    pub fn of_synced(dir: &Path) -> Sealer {
        Sealer { dir: dir.to_owned(), file: None, sealed: None, is_synced: true }
    }

    /// For a database that may lose its last writes with the machine.
    pub fn of_unsynced(dir: &Path) -> Sealer {
        Sealer { is_synced: false, ..Sealer::of_synced(dir) }
    }

    /// Seals what the files have come to. That it cannot is no failure: an older seal holds as well.
    pub fn seal(&mut self, sequence: u64) {
        if let Err(error) = self.try_seal(sequence) {
            tracing::warn!(dir = %self.dir.display(), %error, "the files could not be sealed");
        }
    }

    fn try_seal(&mut self, sequence: u64) -> io::Result<()> {
        let Some(sealed) = self.look(sequence)? else { return Ok(()) };
        if self.file.is_none() {
            self.file = Some(File::options().create(true).truncate(false).write(true).open(self.dir.join(FILE))?);
        }
        if let Some(file) = &self.file {
            file.write_all_at(&encode(&sealed), 0)?;
        }
        self.sealed = Some(sealed);
        Ok(())
    }

    /// What is to be sealed, if it is not sealed yet. Mostly the log has grown and nothing else has changed.
    fn look(&self, sequence: u64) -> io::Result<Option<Sealed>> {
        if let Some(sealed) = &self.sealed {
            let manifest = fs::metadata(self.dir.join(manifest_name(sealed.manifest.number)));
            if manifest.is_ok_and(|manifest| manifest.len() == sealed.manifest.length) {
                let Some(log) = sealed.log.filter(|log| log.length >= HEAD_BYTES) else {
                    return if self.is_synced { self.look_at_all(sequence) } else { Ok(None) };
                };
                if let Ok(grown) = fs::metadata(self.dir.join(log_name(log.number))) {
                    return Ok(Some(Sealed { sequence, log: Some(Part { length: grown.len(), ..log }), ..*sealed }));
                }
            }
        }
        self.look_at_all(sequence)
    }

    fn look_at_all(&self, sequence: u64) -> io::Result<Option<Sealed>> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "CURRENT does not name a manifest");
        let number = manifest_number(&fs::read(self.dir.join("CURRENT"))?).ok_or_else(damaged)?;
        let manifest = self.part(number, &manifest_name(number), u64::MAX)?;
        let log = match newest_log(&self.dir)? {
            Some(number) if self.is_synced => Some(self.part(number, &log_name(number), HEAD_BYTES)?),
            _ => None,
        };
        Ok(Some(Sealed { sequence, manifest, log }))
    }

    fn part(&self, number: u64, name: &str, hashed_max: u64) -> io::Result<Part> {
        let path = self.dir.join(name);
        let length = fs::metadata(&path)?.len();
        let hash = hash_start(&path, length.min(hashed_max))?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(Part { number, length, hash })
    }
}

/// The hash of a file's first bytes; nothing if it has not so many.
fn hash_start(path: &Path, length: u64) -> io::Result<Option<[u8; HASH]>> {
    let mut hasher = blake3::Hasher::new();
    let read = io::copy(&mut File::open(path)?.take(length), &mut hasher)?;
    Ok((read == length).then(|| *hasher.finalize().as_bytes()))
}

fn manifest_name(number: u64) -> String {
    format!("MANIFEST-{number:06}")
}

fn log_name(number: u64) -> String {
    format!("{number:06}.log")
}

fn manifest_number(current: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(current).ok()?;
    text.strip_prefix("MANIFEST-")?.strip_suffix('\n')?.parse().ok()
}

fn newest_log(dir: &Path) -> io::Result<Option<u64>> {
    let mut newest = None;
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".log")).and_then(|number| number.parse().ok());
        newest = newest.max(number);
    }
    Ok(newest)
}

/// A file that only a database leaves behind which once had a CURRENT.
fn remains(dir: &Path) -> io::Result<Option<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if is_absent(&error) => return Ok(None),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_left = name.ends_with(".sst") || name.ends_with(".log") || name.starts_with("OPTIONS-") || name == FILE;
        if is_left {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn read(dir: &Path) -> io::Result<Option<Sealed>> {
    match fs::read(dir.join(FILE)) {
        Ok(bytes) => Ok(decode(&bytes)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn encode(sealed: &Sealed) -> Vec<u8> {
    let nothing = Part { number: 0, length: 0, hash: [0; HASH] };
    let mut body = vec![VERSION];
    body.extend(sealed.sequence.to_be_bytes());
    for part in [sealed.manifest, sealed.log.unwrap_or(nothing)] {
        body.extend(part.number.to_be_bytes());
        body.extend(part.length.to_be_bytes());
        body.extend(part.hash);
    }
    [&blake3::hash(&body).as_bytes()[..], &(BODY as u16).to_be_bytes(), &body].concat()
}

/// Nothing for what is torn, of another version, or no seal.
fn decode(bytes: &[u8]) -> Option<Sealed> {
    let (hash, rest) = bytes.split_first_chunk::<HASH>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let body = rest.get(..usize::from(u16::from_be_bytes(*length)))?;
    if blake3::hash(body).as_bytes() != hash {
        return None;
    }
    let rest = body.strip_prefix(&[VERSION])?;
    let (sequence, rest) = rest.split_first_chunk::<8>()?;
    let (manifest, rest) = decode_part(rest)?;
    let (log, _) = decode_part(rest)?;
    Some(Sealed { sequence: u64::from_be_bytes(*sequence), manifest, log: (log.number > 0).then_some(log) })
}

fn decode_part(bytes: &[u8]) -> Option<(Part, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (hash, rest) = rest.split_first_chunk::<HASH>()?;
    Some((Part { number: u64::from_be_bytes(*number), length: u64::from_be_bytes(*length), hash: *hash }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Sealed {
        let part = |number| Part { number, length: 1000 + number, hash: [number as u8; HASH] };
        Sealed { sequence: 77, manifest: part(5), log: Some(part(8)) }
    }

    /// What version 1 wrote must stay readable: a seal that is not understood protects nothing.
    #[test]
    fn a_seal_is_these_bytes() {
        let bytes = encode(&example());
        assert_eq!(bytes.len(), HASH + 2 + BODY);
        assert_eq!(&bytes[HASH..HASH + 11], b"\x00\x69\x01\x00\x00\x00\x00\x00\x00\x00\x4d");
        assert_eq!(decode(&bytes), Some(example()));
        let without_log = Sealed { log: None, ..example() };
        assert_eq!(decode(&encode(&without_log)), Some(without_log));
    }

    /// The machine may fail while a seal is written, and a reader may come in between.
    #[test]
    fn a_torn_seal_says_nothing() {
        let bytes = encode(&example());
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None);
        }
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert_eq!(decode(&flipped), None, "{at}");
        }
    }
}
