//! `recant append`: events as JSON lines.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

use anyhow::Result;
use recant_gateway::read::read_event;
use recant_proto::{
    names,
    reject::{Code, Violation},
    time,
    v1::Event,
    validate,
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
            NextLine::Line => match read_event(&buffer, names::JSON, Some(&place.space)) {
                Ok(event) => {
                    let append_time_ms = if historical { occurred_ms(&event) } else { None };
                    appender.push(line, &event, append_time_ms)?;
                }
                Err(refused) => appender.refuse(line, &refused.event_id, &refused.violation)?,
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

/// The event's own time, on the log's clock; the log goes on with the last one where there is none.
fn occurred_ms(event: &Event) -> Option<i64> {
    // Checked before; an empty one gives none.
    let instant = time::parse("occurred_at", &event.occurred_at).ok();
    Some(instant.map_or(i64::MIN, time::Instant::to_log_ms))
}
