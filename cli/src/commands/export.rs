//! `recant export`: the events as JSON lines, or a log that moves to Kafka.

use anyhow::Result;
use recant_eventlog::{LogError, ReadLimit, ReadLog, Record, Topic, embedded::Follower, kafka::CopyTarget};
use recant_processor::{
    moving::{self, MoveError, Moved},
    standalone::log_directory,
};
use recant_proto::{id::CONTROL_SPACE, names, wire};
use serde_json::json;

use crate::{
    arguments::{self, ExportTo},
    brokers::KafkaArguments,
    failure::{Exit, Problem, Sort},
    output::{Output, counted},
    place::Place,
    progress::Progress,
};

const READ: ReadLimit = ReadLimit { records_max: 1_000, bytes_max: 8 << 20 };

/// Runs the command.
pub fn run(place: &Place, kafka: &KafkaArguments, arguments: &arguments::Export, output: &mut Output) -> Result<Exit> {
    match arguments.to {
        ExportTo::Jsonl => to_lines(place, output),
        ExportTo::Kafka => to_kafka(place, kafka, output),
    }
}

/// Every event that is one, of one space if the user named it; the log's own are left out. Each is there as often as it was
/// appended, which makes no difference to whoever appends it again.
fn to_lines(place: &Place, output: &mut Output) -> Result<Exit> {
    let log = place.log()?;
    let partitions = match place.is_space_named {
        true => vec![names::partition_of(place.space.as_bytes(), log.partitions())],
        false => (0..log.partitions()).collect(),
    };
    let mut unreadable = 0;
    for partition in partitions {
        let bounds = log.bounds(Topic::Events, partition)?;
        let mut next = bounds.earliest;
        while next < bounds.end {
            let records = log.read(Topic::Events, partition, next, READ)?;
            let Some(last) = records.last() else { break };
            next = last.position.offset + 1;
            for record in &records {
                if record.key == CONTROL_SPACE.as_bytes()
                    || (place.is_space_named && record.key != place.space.as_bytes())
                {
                    continue;
                }
                match as_json(record) {
                    Some(event) => output.json_line(&event)?,
                    None => unreadable += 1,
                }
            }
        }
    }
    if unreadable > 0 {
        tracing::error!(unreadable, "records are no events that this version can read, and were left out");
    }
    Ok(if unreadable > 0 { Exit::No } else { Exit::Done })
}

/// An event as `recant append` takes it.
fn as_json(record: &Record) -> Option<serde_json::Value> {
    let content_type = record.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(names::CONTENT_TYPE));
    let content_type = content_type.and_then(|(_, value)| std::str::from_utf8(value).ok());
    let decoded = wire::decode(&record.value, content_type).ok().filter(|decoded| decoded.unknown_body.is_none())?;
    let mut event = decoded.event;
    // It may stand in the header alone.
    if event.id.is_empty() {
        let id = record.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(names::CE_ID));
        event.id = String::from_utf8(id?.1.clone()).ok()?;
    }
    Some(wire::to_json(&event))
}

fn to_kafka(place: &Place, kafka: &KafkaArguments, output: &mut Output) -> Result<Exit> {
    if place.kafka.is_some() {
        return Err(Problem::wrong("`--to kafka` moves a log in a data directory; leave out --log kafka").into());
    }
    let settings = kafka.of_brokers("--to kafka")?;
    // Held while it is copied, so that nothing is appended that would be left behind.
    let _held = place.open()?;
    let log = Follower::open(&log_directory(&place.data))?;
    let target = CopyTarget::create(settings, log.partitions())?;
    let progress = Progress::new("copying and folding events");
    let moved = moving::move_to(&log, &target, &place.data, &|events| progress.add(events)).map_err(cannot_move)?;
    drop(progress);
    target.finish()?;
    tell(&moved, &log.incarnation().to_string(), log.partitions(), output)
}

/// Says what moved.
pub fn tell(moved: &Moved, incarnation: &str, partitions: u32, output: &mut Output) -> Result<Exit> {
    if output.is_json() {
        output.document(&json!({ "incarnation": incarnation, "partitions": partitions, "events": moved.events,
            "left_out": moved.left_out, "digests": moved.digests }))?;
        return Ok(Exit::Done);
    }
    output.line(format!(
        "Copied {} to {}; {} have the digests that they had",
        counted(moved.events, "event"),
        counted(u64::from(partitions), "partition"),
        counted(moved.digests.len() as u64, "space"),
    ))?;
    if moved.left_out > 0 {
        output.line(format!(
            "Left out {}: duplicates, what was rejected, and the log's own",
            counted(moved.left_out, "event")
        ))?;
    }
    Ok(Exit::Done)
}

/// Why a log did not move.
pub fn cannot_move(error: MoveError) -> anyhow::Error {
    match error {
        MoveError::Log(error) => error.into(),
        MoveError::Drive(error) => error.into(),
        MoveError::Incomplete { .. } => LogError::Format(error.to_string()).into(),
        other => Problem::new(Sort::CouldNot, "copy_failed", "The log could not be copied", other.to_string()).into(),
    }
}
