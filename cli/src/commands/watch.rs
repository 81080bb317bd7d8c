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
use recant_proto::{
    names,
    position::{ChangeId, Position},
    time,
    v1::Change,
};

use super::retract::{change_json, change_line};
use crate::{
    arguments::{self, FilterArguments, StatusArgument},
    escape,
    failure::{Exit, Problem, Sort},
    log::ReadableLog,
    output::{BOLD, DIM, Output, counted, styled},
    place::Place,
};

const READ: ReadLimit = ReadLimit { records_max: 1000, bytes_max: 8 << 20 };

/// Each look at what the writer has written since costs some milliseconds of CPU, so an idle watcher looks less often.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Runs the command.
pub fn run(place: &Place, arguments: &arguments::Watch, output: &mut Output) -> Result<Exit> {
    // The stream is in the log alone; the state may be large, and is left closed.
    let log = place.log()?;
    let partition = names::partition_of(place.space.as_bytes(), log.partitions());
    let mut next = start(&log, partition, arguments)?;
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
            let wanted =
                if change.digest.is_some() { arguments.digests } else { lets_through(&arguments.filter, &change) };
            if change.space == place.space && wanted {
                show(&change, output)?;
            }
            seen = Some(change.id);
        }
        output.flush()?;
        if let (Some(path), Some(id)) = (&arguments.cursor_file, seen) {
            keep_cursor(path, &id)?;
        }
    }
}

/// The offset in the changes topic at which to begin.
fn start(log: &ReadableLog, partition: u32, arguments: &arguments::Watch) -> Result<u64> {
    let bounds = log.bounds(Topic::Changes, partition)?;
    if let Some(path) = &arguments.cursor_file {
        return match read_cursor(path)? {
            Some(cursor) => after_cursor(log, partition, &cursor),
            None => Ok(bounds.earliest),
        };
    }
    if let Some(since) = &arguments.since {
        let milliseconds = duration_ms(since)?;
        let now_ms = jiff::Timestamp::now().as_millisecond();
        return at_time(log, partition, now_ms.saturating_sub(milliseconds));
    }
    match arguments.from.as_deref() {
        None | Some("latest") => Ok(bounds.end),
        Some("earliest") => Ok(bounds.earliest),
        Some(text) => match time::parse("--from", text) {
            Ok(instant) => at_time(log, partition, instant.to_log_ms()),
            Err(_) => after_cursor(log, partition, text),
        },
    }
}

fn after_cursor(log: &ReadableLog, partition: u32, text: &str) -> Result<u64> {
    let seen = ChangeId::from_cursor(text.trim()).map_err(|error| {
        let detail = format!("{error}; give earliest, latest, a cursor, or a time with an offset");
        Problem::new(Sort::Wrong, "bad_cursor", "The cursor cannot be read", detail)
    })?;
    if seen.incarnation != log.incarnation() || seen.position.partition != partition {
        let detail =
            "the cursor is of another log or partition. List what there is (recant list), then watch from its cursor";
        return Err(Problem::new(Sort::No, "other_log", "The cursor is of another log", detail).into());
    }
    // Whoever has told of a position has processed it before; only a log that was taken back can be behind it.
    let processed = log.committed(partition)?.next_offset;
    if seen.position.offset >= processed {
        let detail = format!(
            "the cursor is at {}, and the log was processed up to {partition}:{processed}: it was restored from an older snapshot, or is another copy. What followed the snapshot is gone. List what there is (recant list), then watch from its cursor",
            seen.position
        );
        return Err(Problem::new(Sort::No, "cursor_ahead", "The cursor is ahead of the log", detail).into());
    }
    let next = first_after(log, partition, |id| {
        id.position > seen.position || (id.position == seen.position && id.index > seen.index)
    })?;
    let bounds = log.bounds(Topic::Changes, partition)?;
    if next == bounds.earliest && bounds.earliest > 0 {
        let detail =
            "what followed the cursor is no longer kept. List what there is (recant list), then watch from its cursor";
        return Err(Problem::new(Sort::No, "history_gone", "The history after the cursor is gone", detail).into());
    }
    Ok(next)
}

/// The first change of an event whose log time is at least this.
fn at_time(log: &ReadableLog, partition: u32, log_time_ms: i64) -> Result<u64> {
    let offset = log.find_by_time(partition, log_time_ms)?;
    first_after(log, partition, |id| id.position >= Position { partition, offset })
}

/// The first offset of the changes topic whose id is in the upper part. Ids rise with offsets.
fn first_after(log: &ReadableLog, partition: u32, is_upper: impl Fn(&ChangeId) -> bool) -> Result<u64> {
    let bounds = log.bounds(Topic::Changes, partition)?;
    let (mut low, mut high) = (bounds.earliest, bounds.end);
    while low < high {
        let middle = low + (high - low) / 2;
        let records = log.read(Topic::Changes, partition, middle, ReadLimit { records_max: 1, bytes_max: 1 })?;
        // On Kafka the rest may be markers of transactions.
        let Some(record) = records.first() else {
            high = middle;
            continue;
        };
        let id: ChangeId = Change::decode(record.value.as_slice())?.id.parse()?;
        if is_upper(&id) { high = middle } else { low = record.position.offset + 1 }
    }
    Ok(low)
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

fn lets_through(filter: &FilterArguments, change: &Change) -> bool {
    let same = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
    // A summary is of a whole cascade: with a filter there is no saying what it would count.
    let unfiltered = filter.kind.is_none()
        && filter.source.is_none()
        && filter.agent.is_none()
        && filter.run.is_none()
        && filter.subject.is_none()
        && filter.status.is_none();
    if change.summary.is_some() {
        return unfiltered;
    }
    let status = |status: StatusArgument| if status == StatusArgument::In { "IN" } else { "OUT" };
    same(&filter.kind, &change.kind)
        && same(&filter.source, &change.source)
        && same(&filter.agent, &change.agent)
        && same(&filter.run, &change.run)
        && same(&filter.subject, &change.subject)
        && filter.status.is_none_or(|wanted| status(wanted) == change.to)
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
fn keep_cursor(path: &Path, id: &str) -> Result<()> {
    let cursor = id.parse::<ChangeId>()?.to_cursor();
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
