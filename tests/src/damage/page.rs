//! The table in `docs/damage.md`: read, compared, written.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use super::{
    Outcome, Seen,
    cells::{Cell, Damage, Database, Kind},
};

const BEGIN: &str = "<!-- the table: written by tests/tests/damage_matrix.rs -->\n";
const END: &str = "<!-- the end of the table -->\n";
const HEAD: &str =
    "| directory | file | damage | `list`, `explain` | `doctor` | `append` |\n|---|---|---|---|---|---|\n";

type Key = (Database, Kind, &'static str);

/// What was seen of each kind of file and damage; a flipped byte has several outcomes, by where it lies.
#[derive(Debug, Default)]
pub struct Table {
    rows: BTreeMap<Key, [BTreeSet<Outcome>; 3]>,
}

impl Table {
    /// Adds what was seen of one cell.
    pub fn add(&mut self, cell: &Cell, seen: Seen) {
        let row = self.rows.entry((cell.database, cell.kind, cell.damage.name())).or_default();
        for (column, outcome) in row.iter_mut().zip([seen.reader, seen.doctor, seen.writer]) {
            column.insert(outcome);
        }
    }

    /// Compares with the page: nothing may be seen that it does not say, and what it says must be seen, but for flipped
    /// bytes, where it depends on what lies at the places that were tried. Gives what differs.
    pub fn differences(&self, page: &str) -> Vec<String> {
        let written = read(page);
        let mut differences = Vec::new();
        for ((database, kind, damage), columns) in &self.rows {
            let key = [database.to_string(), format!("`{kind}`"), (*damage).to_owned()];
            let Some(said) = written.get(&key) else {
                differences.push(format!("{} has no row", key.join(" ")));
                continue;
            };
            for (seen, said) in columns.iter().zip(said) {
                let seen: BTreeSet<String> = seen.iter().map(Outcome::to_string).collect();
                let is_flip = *damage == Damage::Flipped(0).name();
                if !seen.is_subset(said) || (!is_flip && seen != *said) {
                    differences.push(format!("{}: {seen:?} was seen, the page says {said:?}", key.join(" ")));
                }
            }
        }
        let seen: BTreeSet<[String; 3]> = self
            .rows
            .keys()
            .map(|(database, kind, damage)| [database.to_string(), format!("`{kind}`"), (*damage).to_owned()])
            .collect();
        differences.extend(
            written.keys().filter(|key| !seen.contains(*key)).map(|key| format!("{} was not tried", key.join(" "))),
        );
        differences
    }

    /// The page with this table in its place; outcomes of flipped bytes that it has already stay.
    pub fn written_into(&self, page: &str) -> String {
        let known = read(page);
        let mut table = HEAD.to_owned();
        for ((database, kind, damage), columns) in &self.rows {
            let key = [database.to_string(), format!("`{kind}`"), (*damage).to_owned()];
            let is_flip = *damage == Damage::Flipped(0).name();
            let columns: Vec<String> = (0..3)
                .map(|index| {
                    let mut words: BTreeSet<String> = columns[index].iter().map(Outcome::to_string).collect();
                    if let Some(known) = known.get(&key).filter(|_| is_flip) {
                        words.extend(known[index].iter().cloned());
                    }
                    words.into_iter().collect::<Vec<_>>().join(OR)
                })
                .collect();
            table.push_str(&format!("| {} | {} |\n", key.join(" | "), columns.join(" | ")));
        }
        let (before, after) = around(page);
        format!("{before}{BEGIN}{table}{END}{after}")
    }
}

const OR: &str = ", or ";

/// Where the page is.
pub fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/damage.md")
}

/// The page.
pub fn text() -> String {
    fs::read_to_string(path()).expect("docs/damage.md can be read")
}

fn around(page: &str) -> (&str, &str) {
    let (before, rest) = page.split_once(BEGIN).expect("the page has the table's beginning");
    (before, rest.split_once(END).expect("and its end").1)
}

fn read(page: &str) -> BTreeMap<[String; 3], [BTreeSet<String>; 3]> {
    let (_, rest) = page.split_once(BEGIN).expect("the page has the table's beginning");
    let (table, _) = rest.split_once(END).expect("and its end");
    let mut rows = BTreeMap::new();
    for line in table.lines().skip(2) {
        let columns: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [database, kind, damage, reader, doctor, writer] = columns[..] else {
            panic!("a row of the table: {line}")
        };
        let words = |column: &str| column.split(OR).map(str::to_owned).collect::<BTreeSet<_>>();
        rows.insert(
            [database.to_owned(), kind.to_owned(), damage.to_owned()],
            [words(reader), words(doctor), words(writer)],
        );
    }
    rows
}
