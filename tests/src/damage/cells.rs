//! Which file is damaged, and how.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use super::names;

/// A database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Database {
    /// The log: `DIR/log`.
    Log,
    /// The state of the only partition: `DIR/state/0`.
    State,
}

impl Database {
    /// Both.
    pub const ALL: [Database; 2] = [Database::Log, Database::State];

    /// Where it is in a data directory.
    pub fn directory(self, data: &Path) -> PathBuf {
        match self {
            Database::Log => data.join("log"),
            Database::State => data.join("state/0"),
        }
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Database::Log => "log",
            Database::State => "state",
        })
    }
}

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Tables.
    Sst,
    /// The write-ahead log.
    Wal,
    /// Which tables and write-ahead logs there are.
    Manifest,
    /// Which manifest.
    Current,
    /// How the database was set.
    Options,
    /// RocksDB's lock.
    Lock,
    /// The database's name.
    Identity,
    /// Who writes the log.
    Writer,
    /// The log's lock.
    WriterLock,
    /// What the files had come to.
    Seal,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 10] = [
        Kind::Sst,
        Kind::Wal,
        Kind::Manifest,
        Kind::Current,
        Kind::Options,
        Kind::Lock,
        Kind::Identity,
        Kind::Writer,
        Kind::WriterLock,
        Kind::Seal,
    ];

    fn is(self, name: &str) -> bool {
        match self {
            Kind::Sst => name.ends_with(".sst"),
            Kind::Wal => name.ends_with(".log"),
            Kind::Manifest => name.starts_with("MANIFEST-"),
            Kind::Options => name.starts_with("OPTIONS-"),
            Kind::Current | Kind::Lock | Kind::Identity | Kind::Writer | Kind::WriterLock | Kind::Seal => {
                name == self.to_string()
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Sst => "*.sst",
            Kind::Wal => "*.log",
            Kind::Manifest => "MANIFEST-*",
            Kind::Current => "CURRENT",
            Kind::Options => "OPTIONS-*",
            Kind::Lock => "LOCK",
            Kind::Identity => "IDENTITY",
            Kind::Writer => "writer",
            Kind::WriterLock => "writer.lock",
            Kind::Seal => "seal",
        })
    }
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Damage {
    /// Nothing is left in it.
    Emptied,
    /// It ends in its middle.
    Halved,
    /// Its last byte is gone.
    Shortened,
    /// Bits of one byte are turned over, at a place in thousandths of its length.
    Flipped(u32),
    /// It is gone.
    Missing,
    /// The file of the same kind from another directory is in its place.
    Foreign,
    /// A text is in its place.
    Text,
}

impl Damage {
    /// Every one, with flips at several places of what RocksDB reads.
    fn all(kind: Kind) -> impl Iterator<Item = Damage> {
        let flips: &[u32] = match kind {
            Kind::Sst | Kind::Wal | Kind::Manifest | Kind::Current => &[0, 3, 130, 300, 500, 700, 870, 960, 985, 1000],
            _ => &[0, 500, 1000],
        };
        let flips = flips.iter().copied().map(Damage::Flipped);
        [Damage::Emptied, Damage::Halved, Damage::Shortened].into_iter().chain(flips).chain([
            Damage::Missing,
            Damage::Foreign,
            Damage::Text,
        ])
    }

    /// As the table says it.
    pub fn name(self) -> &'static str {
        match self {
            Damage::Emptied => "empty",
            Damage::Halved => "cut in the middle",
            Damage::Shortened => "last byte cut off",
            Damage::Flipped(_) => "a byte flipped",
            Damage::Missing => "missing",
            Damage::Foreign => "another directory's",
            Damage::Text => "a text instead",
        }
    }

    /// Damages a file. Whether that made it another.
    fn apply(self, path: &Path, foreign: &[u8]) -> bool {
        let before = fs::read(path).expect("the file is there");
        let mut after = before.clone();
        match self {
            Damage::Missing => {
                fs::remove_file(path).expect("a file can be removed");
                return true;
            }
            Damage::Emptied => after.clear(),
            Damage::Halved => after.truncate(before.len() / 2),
            Damage::Shortened => after.truncate(before.len().saturating_sub(1)),
            Damage::Flipped(thousandths) => {
                let last = before.len().saturating_sub(1);
                if let Some(byte) = after.get_mut(last * thousandths as usize / 1000) {
                    *byte ^= 0x41;
                }
            }
            Damage::Foreign => after = foreign.to_vec(),
            Damage::Text => after = b"This is a note that somebody saved in the wrong place.\n".repeat(40),
        }
        fs::write(path, &after).expect("a file can be written");
        after != before
    }
}

/// One file of one database, and what happens to it.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The database.
    pub database: Database,
    /// The kind of file.
    pub kind: Kind,
    /// Its name.
    pub file: String,
    /// What happens to it.
    pub damage: Damage,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {} ({:?})", self.database, self.file, self.damage.name(), self.damage)
    }
}

/// Every cell of a data directory. Of the tables, the largest, the smallest and one in between.
pub fn all(data: &Path) -> Vec<Cell> {
    let mut cells = Vec::new();
    for database in Database::ALL {
        let directory = database.directory(data);
        for kind in Kind::ALL {
            for file in of_kind(&directory, kind) {
                cells.extend(Damage::all(kind).map(|damage| Cell { database, kind, file: file.clone(), damage }));
            }
        }
    }
    cells
}

fn of_kind(directory: &Path, kind: Kind) -> Vec<String> {
    let size = |name: &String| fs::metadata(directory.join(name)).map_or(0, |file| file.len());
    let mut files: Vec<String> = names(directory).into_iter().filter(|name| kind.is(name)).collect();
    files.sort_by_key(size);
    if kind == Kind::Sst {
        let chosen = [0, files.len() / 2, files.len().saturating_sub(1)];
        return chosen.into_iter().filter_map(|index| files.get(index).cloned()).collect();
    }
    // The newest: older ones are on their way out.
    files.sort();
    files.pop().into_iter().collect()
}

impl Cell {
    /// Damages a copy of a data directory. Whether that changed anything.
    pub fn apply(&self, data: &Path, foreign_data: &Path) -> bool {
        let foreign = of_kind(&self.database.directory(foreign_data), self.kind);
        let foreign = foreign.last().map(|name| self.database.directory(foreign_data).join(name));
        let foreign = foreign.map(|path| fs::read(path).expect("a file can be read")).unwrap_or_default();
        self.damage.apply(&self.database.directory(data).join(&self.file), &foreign)
    }
}
