//! Appends events in batches, and tells what became of each.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
};

use anyhow::Result;
use recant_processor::standalone::NewEvent;
use recant_projections::fold::Fate;
use recant_proto::{position::Position, reject::Violation, v1::Event};
use serde::Serialize;

use super::writer::Writer;
use crate::{
    escape,
    failure::{Exit, Problem},
    output::{self, Output, counted},
    progress::Progress,
};

/// Rejections are told one by one up to so many, and counted beyond.
const REJECTIONS_TOLD_MAX: usize = 100;

/// A batch is appended when it has so many bytes, however few its events.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// What became of the events of a file.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    /// Applied.
    pub accepted: u64,
    /// Applied before.
    pub duplicates: u64,
    /// Kept, with a body that this version does not know.
    pub skipped: u64,
    /// Not applied.
    pub rejected: u64,
    /// Why, for the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejections: Vec<Rejection>,
    /// The position of the last event that was appended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<String>,
}

/// An event that was not applied.
#[derive(Debug, Clone, Serialize)]
pub struct Rejection {
    /// The line of the input.
    pub line: u64,
    /// The event's id, as far as it could be read.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub event: String,
    /// Where it lies, if it came as far as the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<String>,
    /// A stable code.
    #[serde(rename = "type")]
    pub code: String,
    /// What it means.
    pub title: String,
    /// What was wrong here.
    pub detail: String,
}

/// One line of a file of fates.
#[derive(Serialize)]
struct FateLine<'a> {
    line: u64,
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<String>,
    fate: &'a str,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
}

/// Where an event stood in the input.
struct Line {
    number: u64,
    event_id: String,
}

/// Appends events in batches.
pub struct Appender {
    writer: Writer,
    pending: Vec<(Line, NewEvent)>,
    pending_bytes: usize,
    batch_events: usize,
    summary: Summary,
    fates: Option<BufWriter<File>>,
    progress: Progress,
}

impl Appender {
    /// Appends to a log, and tells fates to a file if one is named.
    pub fn new(writer: Writer, batch_events: usize, fates: Option<&Path>) -> Result<Appender> {
        let create = |path: &Path| File::create(path).map(BufWriter::new).map_err(|error| Problem::file(path, &error));
        Ok(Appender {
            writer,
            pending: Vec::new(),
            pending_bytes: 0,
            batch_events,
            summary: Summary::default(),
            fates: fates.map(create).transpose()?,
            progress: Progress::new("events"),
        })
    }

    /// Appends an event of a line, now or with others.
    pub fn push(&mut self, line: u64, event: &Event, append_time_ms: Option<i64>) -> Result<()> {
        let event_id = &event.id;
        let event = NewEvent { append_time_ms, ..NewEvent::of(event) };
        self.pending_bytes += event.value.len();
        self.pending.push((Line { number: line, event_id: event_id.clone() }, event));
        if self.pending.len() >= self.batch_events || self.pending_bytes >= BATCH_BYTES_MAX {
            self.flush()?;
        }
        Ok(())
    }

    /// Counts a line that is no event.
    pub fn refuse(&mut self, line: u64, event_id: &str, violation: &Violation) -> Result<()> {
        self.reject(line, event_id, None, violation)
    }

    /// Appends what is pending, and learns its fate. What it tells of is on disk.
    pub fn flush(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        if pending.is_empty() {
            return Ok(());
        }
        let (lines, events): (Vec<Line>, Vec<NewEvent>) = pending.into_iter().unzip();
        self.progress.add(events.len() as u64);
        for (line, (position, fate)) in lines.iter().zip(self.writer.append(events)?) {
            self.count(line.number, position, &line.event_id, &fate)?;
            self.summary.position = Some(position.to_string());
        }
        if let Some(fates) = &mut self.fates {
            fates.flush()?;
        }
        Ok(())
    }

    fn count(&mut self, line: u64, position: Position, event_id: &str, fate: &Fate) -> Result<()> {
        let told = match fate {
            Fate::Accepted => {
                self.summary.accepted += 1;
                "accepted"
            }
            Fate::Duplicate(_) => {
                self.summary.duplicates += 1;
                "duplicate"
            }
            Fate::Skipped(_) => {
                self.summary.skipped += 1;
                "skipped"
            }
            Fate::Rejected(violation) => return self.reject(line, event_id, Some(position), violation),
        };
        self.tell(&FateLine { line, event: event_id, position: Some(position.to_string()), fate: told, code: None })
    }

    fn reject(&mut self, line: u64, event_id: &str, position: Option<Position>, violation: &Violation) -> Result<()> {
        self.summary.rejected += 1;
        let position = position.map(|position| position.to_string());
        let code = violation.code.as_str();
        if self.summary.rejections.len() < REJECTIONS_TOLD_MAX {
            self.summary.rejections.push(Rejection {
                line,
                event: event_id.to_owned(),
                position: position.clone(),
                code: code.to_owned(),
                title: violation.code.title().to_owned(),
                detail: violation.to_string(),
            });
        }
        self.tell(&FateLine { line, event: event_id, position, fate: "rejected", code: Some(code) })
    }

    fn tell(&mut self, fate: &FateLine<'_>) -> Result<()> {
        if let Some(fates) = &mut self.fates {
            writeln!(fates, "{}", serde_json::to_string(fate)?)?;
        }
        Ok(())
    }

    /// Appends what is pending, and gives the summary.
    pub fn finish(mut self) -> Result<Summary> {
        self.flush()?;
        if let Some(fates) = &mut self.fates {
            fates.flush()?;
        }
        Ok(self.summary)
    }
}

impl Summary {
    /// Whether something was rejected.
    pub fn exit(&self) -> Exit {
        if self.rejected == 0 { Exit::Done } else { Exit::No }
    }

    /// For people.
    pub fn show(&self, output: &mut Output) -> Result<()> {
        for rejection in &self.rejections {
            let code = output::styled(output::OUT, format!("rejected[{}]", rejection.code));
            output.line(format!("line {}: {code}: {}", rejection.line, escape::line(&rejection.detail)))?;
        }
        let untold = self.rejected - self.rejections.len() as u64;
        if untold > 0 {
            output.line(format!("and {untold} more; --fates FILE has them all"))?;
        }
        let skipped = if self.skipped > 0 { format!(", {} skipped", self.skipped) } else { String::new() };
        output.line(format!(
            "{} accepted, {}, {} rejected{skipped}",
            self.accepted,
            counted(self.duplicates, "duplicate"),
            self.rejected
        ))?;
        Ok(())
    }
}
