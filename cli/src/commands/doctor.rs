//! `recant doctor`: everything that must be right, checked one by one, with what to do; and what takes how much room.

use std::path::Path;

use anyhow::Result;
use recant_eventlog::{LogError, ReadLog, Topic};
use recant_processor::{
    standalone::{log_directory, state_directory},
    viewer::{ViewError, Viewer},
};
use recant_projections::{
    audit,
    store::{StoreError, rocks::RocksStore},
    tables,
};
use serde::Serialize;

use crate::{
    escape,
    failure::Exit,
    output::{BOLD, DIM, IN, OUT, Output, bytes, styled},
    place::Place,
};

#[derive(Debug, Serialize)]
struct Check {
    name: String,
    ok: bool,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct Report {
    ok: bool,
    checks: Vec<Check>,
    disk: Disk,
}

/// What takes how much room; as this process sees it, which of what another one writes is a moment ago.
#[derive(Debug, Default, Serialize)]
struct Disk {
    /// Of the whole data directory.
    total_bytes: u64,
    databases: Vec<DatabaseUse>,
}

#[derive(Debug, Serialize)]
struct DatabaseUse {
    /// Its directory below the data directory: `log`, `state/0`.
    name: String,
    /// Of all files.
    bytes: u64,
    /// Of the write-ahead logs among them.
    write_ahead_bytes: u64,
    tables: Vec<TableUse>,
}

#[derive(Debug, Serialize)]
struct TableUse {
    table: String,
    /// Of the files that hold it, compressed.
    file_bytes: u64,
    /// What is in memory and the write-ahead log alone.
    memory_bytes: u64,
    /// How many keys, about.
    keys: u64,
}

/// What to do about a state that is not right: the log is the truth.
const REBUILD: &str = "`recant rebuild` makes the state anew from the log, which is not concerned";

/// What to do about a state that knows more than the log, or something else.
const REUNITE: &str = "first find out whether the log is the right one, and not an older copy of it or one that lost its end: then restore it (recant restore SNAPSHOT --data DIR); else `recant rebuild`";

/// What to do about a log that is not right: nothing else holds what it held.
const RESTORE: &str = "restore the log from its newest snapshot (recant restore SNAPSHOT --data DIR); see docs/damage.md if there is none";

/// Runs the command.
pub fn run(place: &Place, output: &mut Output) -> Result<Exit> {
    let mut checks = Vec::new();
    let mut disk = Disk { total_bytes: bytes_in(&place.data, |_| true), databases: Vec::new() };
    if let Some(viewer) = check_log(place, &mut checks) {
        disk.databases.push(log_use(place, &viewer)?);
        for partition in 0..viewer.log().partitions() {
            if let Some(store) = check_partition(place, &viewer, partition, &mut checks) {
                disk.databases.push(state_use(place, &store, partition)?);
            }
        }
    }
    let report = Report { ok: checks.iter().all(|check| check.ok), checks, disk };
    if output.is_json() {
        output.document(&report)?
    } else {
        show(&report, output)?
    }
    Ok(if report.ok { Exit::Done } else { Exit::No })
}

fn passed(name: impl Into<String>, found: impl Into<String>) -> Check {
    Check { name: name.into(), ok: true, found: found.into(), advice: None }
}

fn failed(name: impl Into<String>, found: impl Into<String>, advice: &'static str) -> Check {
    Check { name: name.into(), ok: false, found: found.into(), advice: Some(advice) }
}

fn check_log(place: &Place, checks: &mut Vec<Check>) -> Option<Viewer> {
    let directory = log_directory(&place.data);
    match Viewer::open(&place.data) {
        Err(error) => {
            let is_damaged = matches!(error, ViewError::Log(LogError::DamagedFiles { .. }));
            let advice = if is_damaged { RESTORE } else { "name the right directory with --data" };
            checks.push(failed("the log opens", error.to_string(), advice));
            None
        }
        Ok(viewer) => {
            let log = viewer.log();
            let found =
                format!("{}, log {}, {} partition(s)", directory.display(), log.incarnation(), log.partitions());
            checks.push(passed("the log opens", found));
            checks.push(match viewer.check_files_of_log() {
                Ok(()) => passed("no file of the log is missing", "each is there, with its length"),
                Err(error) => failed("no file of the log is missing", error.to_string(), RESTORE),
            });
            Some(viewer)
        }
    }
}

/// Checks a partition, and gives its state if it opens.
fn check_partition(place: &Place, viewer: &Viewer, partition: u32, checks: &mut Vec<Check>) -> Option<RocksStore> {
    let log = viewer.log();
    let name = |what: &str| format!("partition {partition}: {what}");
    for (topic, records) in [(Topic::Events, "event"), (Topic::Changes, "change"), (Topic::Rejected, "rejection")] {
        let name = name(&format!("every {records} can be read"));
        checks.push(match read_through(log, topic, partition) {
            Ok(count) => passed(name, format!("{count} records")),
            Err(error) => failed(name, error.to_string(), RESTORE),
        });
    }
    let store = match viewer.state(partition) {
        Ok(store) => store,
        // Whoever creates the log makes the state before it processes anything: it was stopped in between.
        Err(ViewError::Store(StoreError::Absent(_)))
            if log.committed(partition).is_ok_and(|at| at.next_offset == 0) =>
        {
            let found = "there is none yet, and nothing was processed; the next command that writes makes it";
            checks.push(passed(name("the state opens"), found));
            return None;
        }
        Err(error) => {
            let directory = state_directory(&place.data, partition);
            let advice = if matches!(error, ViewError::Mismatch { .. }) { REUNITE } else { REBUILD };
            checks.push(failed(name("the state opens"), format!("{}: {error}", directory.display()), advice));
            return None;
        }
    };
    checks.push(match viewer.check_files_of_state(partition) {
        Ok(()) => passed(name("no file of the state is missing"), "each is there, with its length"),
        Err(error) => failed(name("no file of the state is missing"), error.to_string(), REBUILD),
    });
    checks.push(match store.read_through() {
        Ok(rows) => passed(name("every row of the state can be read"), format!("{rows} rows")),
        Err(error) => failed(name("every row of the state can be read"), error.to_string(), REBUILD),
    });
    let position = check_position(log, &store, partition);
    checks.push(match position {
        Ok(found) => passed(name("the state is where the log says"), found),
        Err(found) => failed(name("the state is where the log says"), found, REUNITE),
    });
    let spaces = match tables::spaces::all(&store) {
        Ok(spaces) => spaces,
        Err(error) => {
            checks.push(failed(name("its spaces can be read"), error.to_string(), REBUILD));
            return Some(store);
        }
    };
    for (space, row) in spaces {
        let name = format!("space {space:?}");
        checks.push(match audit::space(&store, &space) {
            Ok(broken) if broken.is_empty() => {
                passed(name, format!("{} nodes, {} IN, every invariant holds", row.arrived, row.nodes_in))
            }
            Ok(broken) => failed(name, broken.join("; "), REBUILD),
            Err(error) => failed(name, error.to_string(), REBUILD),
        });
    }
    if let Ok(bounds) = log.bounds(Topic::Rejected, partition) {
        let rejected = bounds.end - bounds.earliest;
        checks.push(passed(name("rejected events"), format!("{rejected}; see `recant rejected list`")));
    }
    Some(store)
}

fn read_through(log: &impl ReadLog, topic: Topic, partition: u32) -> Result<u64> {
    let bounds = log.bounds(topic, partition)?;
    let limit = recant_eventlog::ReadLimit { records_max: 10_000, bytes_max: 32 << 20 };
    let mut next = bounds.earliest;
    let mut count = 0;
    while next < bounds.end {
        let records = log.read(topic, partition, next, limit)?;
        let Some(last) = records.last() else { break };
        next = last.position.offset + 1;
        count += records.len() as u64;
    }
    Ok(count)
}

/// State and log of a directory that is being written are of slightly different moments, the log's the later: so only a
/// state that is ahead of the log is wrong, and one that is behind is on its way.
fn check_position(log: &impl ReadLog, store: &RocksStore, partition: u32) -> Result<String, String> {
    // An empty one is behind by all that was processed.
    let row = tables::partition::get(store).map_err(|error| error.to_string())?.unwrap_or_default();
    log.refresh().map_err(|error| error.to_string())?;
    let committed = log.committed(partition).map_err(|error| error.to_string())?;
    let end = log.bounds(Topic::Events, partition).map_err(|error| error.to_string())?.end;
    let behind = end.saturating_sub(row.next_offset);
    if row.next_offset > committed.next_offset {
        return Err(format!(
            "the state is at offset {}, and the log was processed up to {}",
            row.next_offset, committed.next_offset
        ));
    }
    if row.next_offset == committed.next_offset && row.outputs_hash != committed.metadata {
        return Err("the hash of what was published is not the one that is kept beside the log's position".to_owned());
    }
    Ok(format!("offset {}, {behind} events behind the end", row.next_offset))
}

fn log_use(place: &Place, viewer: &Viewer) -> Result<DatabaseUse> {
    let tables = viewer.log().disk_use()?.into_iter().map(|used| TableUse {
        table: used.table,
        file_bytes: used.file_bytes,
        memory_bytes: used.memory_bytes,
        keys: used.keys,
    });
    Ok(DatabaseUse::of(&log_directory(&place.data), "log".to_owned(), tables.collect()))
}

fn state_use(place: &Place, store: &RocksStore, partition: u32) -> Result<DatabaseUse> {
    let tables = store.disk_use()?.into_iter().map(|used| TableUse {
        table: used.table.name().to_owned(),
        file_bytes: used.file_bytes,
        memory_bytes: used.memory_bytes,
        keys: used.keys,
    });
    Ok(DatabaseUse::of(&state_directory(&place.data, partition), format!("state/{partition}"), tables.collect()))
}

impl DatabaseUse {
    fn of(directory: &Path, name: String, tables: Vec<TableUse>) -> DatabaseUse {
        let is_write_ahead_log = |path: &Path| path.extension().is_some_and(|extension| extension == "log");
        let (bytes, write_ahead_bytes) = (bytes_in(directory, |_| true), bytes_in(directory, is_write_ahead_log));
        DatabaseUse { name, bytes, write_ahead_bytes, tables }
    }
}

/// The lengths of the files below a directory. What comes and goes while it is looked at is not counted.
fn bytes_in(directory: &Path, which: fn(&Path) -> bool) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path(), which),
        Ok(metadata) if which(&entry.path()) => metadata.len(),
        _ => 0,
    };
    entries.flatten().map(of).sum()
}

fn show_disk(disk: &Disk, output: &mut Output) -> Result<()> {
    output.line(format!("{}: {}", styled(BOLD, "room on disk"), bytes(disk.total_bytes)))?;
    for database in &disk.databases {
        let of_which =
            format!("{}, of which not yet in tables {}", bytes(database.bytes), bytes(database.write_ahead_bytes));
        output.line(format!("  {}: {of_which}", database.name))?;
        for used in database.tables.iter().filter(|used| used.keys > 0 || used.file_bytes > 0) {
            output.line(styled(
                DIM,
                format!(
                    "    {:<22}{:>12} in files {:>12} in memory {:>12} keys, about",
                    used.table,
                    bytes(used.file_bytes),
                    bytes(used.memory_bytes),
                    used.keys
                ),
            ))?;
        }
    }
    Ok(())
}

fn show(report: &Report, output: &mut Output) -> Result<()> {
    for check in &report.checks {
        let sign = if check.ok { styled(IN, "✓") } else { styled(OUT, "✗") };
        output.line(format!("{sign} {}: {}", escape::line(&check.name), escape::line(&check.found)))?;
        if let Some(advice) = check.advice {
            output.line(format!("  {advice}"))?;
        }
    }
    show_disk(&report.disk, output)?;
    output.line(if report.ok { "All is well." } else { "Something is wrong; nothing was changed." })?;
    Ok(())
}
