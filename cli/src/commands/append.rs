//! `recant append`: events as JSON lines.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

use anyhow::Result;
use recant_proto::{
    names,
    reject::{Code, Violation},
    time,
    v1::Event,
    validate, wire,
};

use super::{appender::Appender, writer::Writer};
use crate::{
    arguments,
    failure::{Exit, Problem, Sort},
    import::{NextLine, next_line},
    output::Output,
    place::Place,
};

/// Far beyond what an event of the largest size takes in JSON, where each of its bytes may be written as six.
const LINE_BYTES_MAX: usize = 8 * validate::DEFAULT_LIMITS.max_event_bytes as usize;

/// Runs the command.
pub fn run(place: &Place, arguments: &arguments::Append, output: &mut Output) -> Result<Exit> {
    let historical = arguments.log_time.is_some();
    let mut reader = open(&arguments.file)?;
    let partitions = arguments.new_log.partitions;
    let writer =
        if historical { Writer::Embedded(place.create_historical(partitions)?) } else { place.writer(partitions)? };
    let mut appender = Appender::new(writer, arguments.batch_events as usize, arguments.fates.as_deref())?;
    let mut buffer = Vec::new();
    for line in 1.. {
        match next_line(&mut reader, &mut buffer).map_err(|error| Problem::file(&arguments.file, &error))? {
            NextLine::End => break,
            NextLine::TooLong => {
                let detail = "a line is longer than 64 MiB, and was passed over";
                appender.refuse(line, "", &Violation::new(Code::EventTooLarge, detail))?;
            }
            NextLine::Line if buffer.trim_ascii().is_empty() => {}
            // Read, it would take a hundred times its size in memory before it is found to be too large.
            NextLine::Line if buffer.len() > LINE_BYTES_MAX => {
                let detail =
                    format!("{} bytes in one line; an event in JSON has at most {LINE_BYTES_MAX}", buffer.len());
                appender.refuse(line, "", &Violation::new(Code::EventTooLarge, detail))?;
            }
            NextLine::Line => match read_event(&buffer, &place.space) {
                Ok(event) => {
                    let append_time_ms = if historical { occurred_ms(&event) } else { None };
                    appender.push(line, &event, append_time_ms)?;
                }
                Err((event_id, violation)) => appender.refuse(line, &event_id, &violation)?,
            },
        }
    }
    let summary = appender.finish()?;
    if output.is_json() {
        output.document(&summary)?
    } else {
        summary.show(output)?
    }
    Ok(summary.exit())
}

/// Opens a file, or standard input for `-`.
pub fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let wrong = |error: io::Error| Problem { sort: Sort::Wrong, ..Problem::file(path, &error) };
    let file = File::open(path).map_err(wrong)?;
    // A directory opens, and fails only when it is read.
    if file.metadata().map_err(wrong)?.is_dir() {
        return Err(wrong(io::ErrorKind::IsADirectory.into()).into());
    }
    Ok(Box::new(BufReader::new(file)))
}

/// Reads and checks one event. What breaks a rule by itself is refused here, and never comes as far as the log.
pub(super) fn read_event(line: &[u8], default_space: &str) -> Result<Event, (String, Violation)> {
    let decoded = wire::decode(line, Some(names::JSON)).map_err(|violation| (String::new(), violation))?;
    let mut event = decoded.event;
    let refused = |violation: Violation| (event.id.clone(), violation);
    if let Some(body) = &decoded.unknown_body {
        let detail = format!("this version does not know the body {body:?}, and would lose it; install a newer recant");
        return Err(refused(Violation::new(Code::UnknownField, detail)));
    }
    if event.body.is_none() {
        let detail = "an event says one thing: observed, derived, retracted and so on";
        return Err(refused(Violation::new(Code::MissingBody, detail)));
    }
    if event.space.is_empty() {
        event.space = default_space.to_owned();
    }
    if event.space == recant_proto::id::CONTROL_SPACE {
        let detail = format!("the space {} is the log's own", event.space);
        return Err((event.id, Violation::at(Code::WrongSpace, "space", detail)));
    }
    match validate::check(&event, wire::to_protobuf(&event).len(), &validate::DEFAULT_LIMITS) {
        Ok(()) => Ok(event),
        Err(violation) => Err((event.id, violation)),
    }
}

/// The event's own time, on the log's clock; the log goes on with the last one where there is none.
fn occurred_ms(event: &Event) -> Option<i64> {
    // Checked before; an empty one gives none.
    let instant = time::parse("occurred_at", &event.occurred_at).ok();
    Some(instant.map_or(i64::MIN, time::Instant::to_log_ms))
}
