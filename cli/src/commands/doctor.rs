//! `recant doctor`: everything that must be right, checked one by one, with what to do.

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
    output::{IN, OUT, Output, styled},
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
    if let Some(viewer) = check_log(place, &mut checks) {
        for partition in 0..viewer.log().partitions() {
            check_partition(place, &viewer, partition, &mut checks);
        }
    }
    let report = Report { ok: checks.iter().all(|check| check.ok), checks };
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
            Some(viewer)
        }
    }
}

fn check_partition(place: &Place, viewer: &Viewer, partition: u32, checks: &mut Vec<Check>) {
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
            return;
        }
        Err(error) => {
            let directory = state_directory(&place.data, partition);
            let advice = if matches!(error, ViewError::Mismatch { .. }) { REUNITE } else { REBUILD };
            checks.push(failed(name("the state opens"), format!("{}: {error}", directory.display()), advice));
            return;
        }
    };
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
            return;
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

fn show(report: &Report, output: &mut Output) -> Result<()> {
    for check in &report.checks {
        let sign = if check.ok { styled(IN, "✓") } else { styled(OUT, "✗") };
        output.line(format!("{sign} {}: {}", escape::line(&check.name), escape::line(&check.found)))?;
        if let Some(advice) = check.advice {
            output.line(format!("  {advice}"))?;
        }
    }
    output.line(if report.ok { "All is well." } else { "Something is wrong; nothing was changed." })?;
    Ok(())
}
