//! `recant watch`: the change stream of a space, as another agent receives it.
//!
//! Delivery is at least once and in order; a cursor is resumed after, never at. With `--cursor-file` the cursor moves on
//! over what the filters leave out too, so that an idle filter does not fall behind the history that is kept.

use std::{
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;
use prost::Message;
use recant_eventlog::{ReadLimit, ReadLog, Topic};
use recant_gateway::{
    changes::{self, From},
    outcome::change_of_json,
    stream::{Filter, Selection},
};
use recant_proto::{names, position::ChangeId, time, v1::Change};
use serde::Deserialize;
use serde_json::Value;

use super::retract::{change_json, change_line};
use crate::{
    arguments::{self, FilterArguments, StatusArgument},
    escape,
    failure::{Exit, Problem},
    log::ReadableLog,
    output::{BOLD, DIM, Output, counted, styled},
    place::Place,
    remote::{Remote, read_owned},
};

const READ: ReadLimit = ReadLimit { records_max: 1000, bytes_max: 8 << 20 };

/// So long a server waits for something to tell, and so much it tells at once.
const POLL_MS: u64 = 25_000;
const POLLED_MAX: usize = 1_000;

/// Each look at what the writer has written since costs some milliseconds of CPU, so an idle watcher looks less often.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Runs the command.
pub fn run(place: &Place, arguments: &arguments::Watch, output: &mut Output) -> Result<Exit> {
    if let Some(remote) = place.remote()? {
        return ask(&remote, arguments, output);
    }
    // The stream is in the log alone; the state may be large, and is left closed.
    let log = place.log()?;
    let partition = names::partition_of(place.space.as_bytes(), log.partitions());
    let mut next = start(&log, partition, arguments)?;
    let selection = selection(arguments);
    let mut pause = PAUSE_MIN;
    loop {
        let records = log.read(Topic::Changes, partition, next, READ)?;
        let Some(last) = records.last() else {
            if arguments.until_caught_up {
                return Ok(Exit::Done);
            }
            log.wait(Topic::Changes, partition, next, pause)?;
            pause = (pause * 2).min(PAUSE_MAX);
            continue;
        };
        pause = PAUSE_MIN;
        next = last.position.offset + 1;
        let mut seen = None;
        for record in &records {
            let change = Change::decode(record.value.as_slice())?;
            if change.space == place.space && selection.lets_through(&change) {
                show(&change, output)?;
            }
            seen = Some(change.id);
        }
        output.flush()?;
        if let (Some(path), Some(id)) = (&arguments.cursor_file, seen) {
            keep_cursor(path, &id.parse::<ChangeId>()?.to_cursor())?;
        }
    }
}

/// Asks a server, again and again: what there is, and from where to go on.
fn ask(remote: &Remote, arguments: &arguments::Watch, output: &mut Output) -> Result<Exit> {
    let mut cursor = from(arguments)?;
    let wait_ms = if arguments.until_caught_up { 0 } else { POLL_MS };
    loop {
        let mut query = arguments.filter.query();
        query.extend([("from", cursor), ("wait_ms", wait_ms.to_string()), ("limit", POLLED_MAX.to_string())]);
        query.push(("digests", arguments.digests.to_string()));
        let polled: Polled = read_owned(remote.get(&["changes"], &query)?)?;
        for item in &polled.items {
            show(&change_of_json(item)?, output)?;
        }
        output.flush()?;
        if let Some(path) = &arguments.cursor_file {
            keep_cursor(path, &polled.cursor)?;
        }
        if arguments.until_caught_up && polled.caught_up {
            return Ok(Exit::Done);
        }
        cursor = polled.cursor;
    }
}

/// What a server tells at once.
#[derive(Deserialize)]
struct Polled {
    items: Vec<Value>,
    cursor: String,
    caught_up: bool,
}

/// Where to begin, as it is written.
fn from(arguments: &arguments::Watch) -> Result<String> {
    match (&arguments.cursor_file, &arguments.since, &arguments.from) {
        (Some(path), _, _) => Ok(read_cursor(path)?.map_or("earliest".to_owned(), |cursor| cursor.trim().to_owned())),
        (None, Some(since), _) => {
            let now_ms = jiff::Timestamp::now().as_millisecond();
            Ok(time::format_log_ms(now_ms.saturating_sub(duration_ms(since)?)))
        }
        (None, None, from) => Ok(from.clone().unwrap_or("latest".to_owned())),
    }
}

/// The offset in the changes topic at which to begin.
fn start(log: &ReadableLog, partition: u32, arguments: &arguments::Watch) -> Result<u64> {
    let from: From = from(arguments)?.parse()?;
    Ok(changes::start(log, partition, &from).map_err(Problem::from)?)
}

fn duration_ms(text: &str) -> Result<i64> {
    let wrong = || Problem::wrong(format!("{text:?} is not a duration such as 120s, 15m, 2h or 7d"));
    let (number, unit) = text.split_at(text.len() - text.chars().next_back().map_or(0, char::len_utf8));
    let unit_ms = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong().into()),
    };
    let number: i64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(unit_ms).filter(|milliseconds| *milliseconds >= 0).ok_or_else(|| wrong().into())
}

/// What it is to show.
fn selection(arguments: &arguments::Watch) -> Selection {
    let status = |status| if status == StatusArgument::In { "IN" } else { "OUT" };
    let FilterArguments { status: wanted, kind, source, agent, run, subject } = &arguments.filter;
    let filter = Filter {
        kind: kind.clone(),
        status: wanted.map(status),
        source: source.clone(),
        agent: agent.clone(),
        run: run.clone(),
        subject: subject.clone(),
        cause: None,
    };
    Selection { filter, digests: arguments.digests }
}

fn show(change: &Change, output: &mut Output) -> Result<()> {
    if output.is_json() {
        return Ok(output.json_line(&change_json(change))?);
    }
    if let Some(digest) = &change.digest {
        let place = styled(DIM, format!("{} {}", change.time, change.position));
        return Ok(output.line(format!("{place} digest {}", escape::line(&digest.digest)))?);
    }
    let Some(summary) = &change.summary else {
        return Ok(output.line(format!("  {}", change_line(change)))?);
    };
    let cause = change.cause.as_ref();
    let named =
        cause.map(|cause| if cause.retraction.is_empty() { cause.event.as_str() } else { cause.retraction.as_str() });
    let kind = cause.map(|cause| cause.r#type.as_str()).unwrap_or_default();
    let changed = counted(u64::from(summary.changed.unwrap_or_default()), "change");
    Ok(output.line(format!(
        "{} {} {}: {changed}",
        styled(DIM, format!("{} {}", change.time, change.position)),
        styled(BOLD, kind),
        escape::line(named.unwrap_or_default())
    ))?)
}

fn read_cursor(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Problem::file(path, &error).into()),
    }
}

/// Writes beside the file and renames, so that a crash leaves the old cursor or the new one.
fn keep_cursor(path: &Path, cursor: &str) -> Result<()> {
    let mut beside: PathBuf = path.to_owned();
    beside.as_mut_os_string().push(".new");
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(&beside)?;
        writeln!(file, "{cursor}")?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    write().map_err(|error| Problem::file(path, &error).into())
}
