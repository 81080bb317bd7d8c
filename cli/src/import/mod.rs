//! Agents' transcripts become events with reasons: the conversion behind `recant import chat`.
//!
//! A transcript is one JSON object a line with its `messages`. A line becomes one run, by [`events_of_line`], which knows
//! nothing of other lines: memory is bounded by the longest line, and no file is opened here. [`next_line`] reads lines
//! under that bound.
//!
//! - [`transcript`] reads the shapes of OpenAI and Anthropic.
//! - [`map`] says what each tool reads and does, [`template`] how a source is called.
//! - [`reasons`] says what rests on what, in the two modes.
//! - [`normalise`], [`words`], [`numbers`] and [`corpus`] find where a value stands.
//! - [`ids`] and [`events`] write it down, the same at every import: there is no clock and no randomness, so importing a
//!   file twice adds nothing. The two modes use the same ids for different reasons, so a space takes one mode of a run.

use std::io::{self, BufRead, Read};

use recant_proto::v1::{Event, event::Body};

pub mod corpus;
pub mod events;
pub mod ids;
pub mod json;
pub mod map;
pub mod normalise;
pub mod numbers;
pub mod reasons;
pub mod template;
pub mod transcript;
pub mod words;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_agentdojo;
#[cfg(test)]
mod tests_transcripts;
#[cfg(test)]
mod tests_values;

/// A line has at most this many bytes.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// So many warnings of a line are kept; more are counted.
pub const WARNINGS_MAX: usize = 20;

/// How reasons are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reasons {
    /// A message rests on the one before and on all that came since.
    Context,
    /// Beside that, an action rests on its arguments, and each on the observations in which it stands.
    Literals,
}

/// What the import is told.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// The space of the events.
    pub space: String,
    /// How reasons are recorded.
    pub reasons: Reasons,
    /// What the tools read and do.
    pub map: map::Map,
    /// Put before each run's id, for files whose runs are called alike.
    pub run_prefix: Option<String>,
}

/// What a line became.
#[derive(Debug)]
pub enum Line {
    /// A run.
    Run(Imported),
    /// No run, and no mistake either.
    Skipped(Skipped),
}

/// Why a line is no run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Skipped {
    /// Nothing but white space.
    #[error("blank")]
    Blank,
    /// No `messages`, as in a line of metadata, or none in them.
    #[error("no messages")]
    NoMessages,
}

/// A run as events.
#[derive(Debug)]
pub struct Imported {
    /// The run's id, as in the events.
    pub run: String,
    /// The events, in order.
    pub events: Vec<Event>,
    /// What they are.
    pub counts: Counts,
    /// What had to be decided.
    pub warnings: Warnings,
}

/// How many of what; sums over lines are the caller's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sources that the run read. Another run may read them too.
    pub sources: usize,
    /// Observations.
    pub observations: usize,
    /// Beliefs: messages, and with literals arguments.
    pub beliefs: usize,
    /// Actions.
    pub actions: usize,
    /// Justifications, the first ones of nodes included.
    pub justifications: usize,
}

/// Something that had to be decided for the transcript's author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The index of the message, if it concerns one.
    pub message: Option<usize>,
    /// What was found and what was done.
    pub text: String,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.message {
            Some(index) => write!(f, "message {index}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// The warnings of a line: the first ones, and how many more there were.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Warnings {
    /// The first [`WARNINGS_MAX`].
    pub first: Vec<Warning>,
    /// How many more.
    pub more: usize,
}

impl Warnings {
    /// Keeps a warning, or counts it.
    pub fn push(&mut self, warning: Warning) {
        if self.first.len() < WARNINGS_MAX { self.first.push(warning) } else { self.more += 1 }
    }
}

/// A line that cannot be imported. The lines after it can.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct LineError {
    /// The line's number, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub problem: LineProblem,
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub enum LineProblem {
    /// Over the limit.
    #[error("longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// Not text.
    #[error("not UTF-8 after byte {valid_bytes}")]
    NotUtf8 {
        /// How many bytes are.
        valid_bytes: usize,
    },
    /// Not JSON.
    #[error("not JSON: {0}")]
    NotJson(#[from] json::JsonError),
    /// JSON, but no object.
    #[error("no JSON object")]
    NoObject,
    /// `messages` is something else than a list.
    #[error("`messages` is {0}")]
    Messages(&'static str),
    /// An event would break the contract: a mistake of the import, not of the line.
    #[error("event {event:?} breaks the contract: {violation}")]
    Invalid {
        /// The event's id.
        event: String,
        /// How.
        violation: recant_proto::reject::Violation,
    },
}

/// Converts one line, without its line feed. `line_number` counts from 1 and stands in errors only.
pub fn events_of_line(line_number: u64, line: &[u8], options: &ImportOptions) -> Result<Line, LineError> {
    convert(line, options).map_err(|problem| LineError { line: line_number, problem })
}

fn convert(line: &[u8], options: &ImportOptions) -> Result<Line, LineProblem> {
    if line.len() > LINE_BYTES_MAX {
        return Err(LineProblem::TooLong);
    }
    let text = std::str::from_utf8(line).map_err(|error| LineProblem::NotUtf8 { valid_bytes: error.valid_up_to() })?;
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Ok(Line::Skipped(Skipped::Blank));
    }
    let json = json::Json::parse(text)?;
    if !matches!(json, json::Json::Object(_)) {
        return Err(LineProblem::NoObject);
    }
    let mut warnings = Warnings::default();
    let transcript = transcript::read(&json, &mut warnings).map_err(LineProblem::Messages)?;
    let Some(transcript) = transcript.filter(|transcript| !transcript.entries.is_empty()) else {
        return Ok(Line::Skipped(Skipped::NoMessages));
    };
    let (run, events) = reasons::events(&transcript, options, &mut warnings);
    for event in &events {
        check(event)?;
    }
    let counts = count(&events);
    Ok(Line::Run(Imported { run, events, counts, warnings }))
}

fn check(event: &Event) -> Result<(), LineProblem> {
    let bytes = recant_proto::wire::to_protobuf(event).len();
    recant_proto::validate::check(event, bytes, &recant_proto::validate::DEFAULT_LIMITS)
        .map_err(|violation| LineProblem::Invalid { event: event.id.clone(), violation })
}

fn count(events: &[Event]) -> Counts {
    let mut counts = Counts::default();
    for event in events {
        match &event.body {
            Some(Body::SourceDeclared(_)) => counts.sources += 1,
            Some(Body::Observed(_)) => counts.observations += 1,
            Some(Body::Derived(_)) => {
                counts.beliefs += 1;
                counts.justifications += 1;
            }
            Some(Body::Justified(_)) => counts.justifications += 1,
            Some(Body::ActionProposed(_)) => {
                counts.actions += 1;
                counts.justifications += 1;
            }
            _ => {}
        }
    }
    counts
}

/// What [`next_line`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextLine {
    /// The buffer holds a line without its line feed.
    Line,
    /// A line was longer than [`LINE_BYTES_MAX`]; it was passed over without being kept.
    TooLong,
    /// There are no more lines.
    End,
}

/// Reads the next line into the buffer, never more than the limit.
pub fn next_line(reader: &mut impl BufRead, buffer: &mut Vec<u8>) -> io::Result<NextLine> {
    buffer.clear();
    let read = reader.take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', buffer)?;
    if read == 0 {
        return Ok(NextLine::End);
    }
    if buffer.last() == Some(&b'\n') {
        buffer.pop();
    } else if buffer.len() > LINE_BYTES_MAX {
        buffer.clear();
        reader.skip_until(b'\n')?;
        return Ok(NextLine::TooLong);
    }
    Ok(NextLine::Line)
}
