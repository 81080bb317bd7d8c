//! `recant import chat`: agents' transcripts as events with reasons.

use anyhow::Result;
use serde::Serialize;

use super::{
    append,
    appender::{Appender, Summary},
};
use crate::{
    arguments::{self, ReasonsArgument},
    escape,
    failure::{Exit, Problem, Sort},
    import::{Counts, ImportOptions, Line, NextLine, Reasons, Skipped, events_of_line, map::Map, next_line},
    output::{self, Output, counted},
    place::Place,
};

/// Lines that could not be read, and warnings, are told one by one up to so many.
const TOLD_MAX: usize = 100;

#[derive(Debug, Default, Serialize)]
struct Report {
    runs: u64,
    skipped_lines: u64,
    broken_lines: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    broken: Vec<Told>,
    observations: u64,
    beliefs: u64,
    actions: u64,
    justifications: u64,
    warnings: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warned: Vec<Told>,
    events: Summary,
}

#[derive(Debug, Serialize)]
struct Told {
    file: String,
    line: u64,
    detail: String,
}

/// Runs the command.
pub fn run(place: &Place, arguments: &arguments::ImportChat, output: &mut Output) -> Result<Exit> {
    let options = ImportOptions {
        space: place.space.clone(),
        reasons: match arguments.reasons {
            ReasonsArgument::Context => Reasons::Context,
            ReasonsArgument::Literals => Reasons::Literals,
        },
        map: read_maps(&arguments.map)?,
        run_prefix: arguments.run_prefix.clone(),
    };
    // Opened before the log is, so that a mistyped name creates nothing.
    let mut readers = Vec::new();
    for file in &arguments.files {
        readers.push((file.display().to_string(), append::open(file)?));
    }
    let writer = place.writer(arguments.new_log.partitions)?;
    let mut appender = Appender::new(writer, 1000, arguments.fates.as_deref())?;
    let mut report = Report::default();
    let mut buffer = Vec::new();
    for (file, mut reader) in readers {
        for line in 1.. {
            match next_line(&mut reader, &mut buffer)? {
                NextLine::End => break,
                NextLine::TooLong => report.broken_line(&file, line, "longer than 64 MiB; passed over".to_owned()),
                NextLine::Line => match events_of_line(line, &buffer, &options) {
                    Ok(Line::Skipped(Skipped::Blank)) => {}
                    Ok(Line::Skipped(Skipped::NoMessages)) => report.skipped_lines += 1,
                    Err(error) => report.broken_line(&file, line, error.problem.to_string()),
                    Ok(Line::Run(run)) => {
                        report.runs += 1;
                        report.count(&run.counts);
                        for warning in &run.warnings.first {
                            report.warn(&file, line, format!("{}: {warning}", run.run));
                        }
                        report.warnings += run.warnings.more as u64;
                        for event in &run.events {
                            appender.push(line, event, None)?;
                        }
                    }
                },
            }
        }
    }
    report.events = appender.finish()?;
    if output.is_json() {
        output.document(&report)?
    } else {
        report.show(output)?
    }
    Ok(if report.broken_lines > 0 { Exit::No } else { report.events.exit() })
}

fn read_maps(paths: &[std::path::PathBuf]) -> Result<Map> {
    let mut map = Map::default();
    for path in paths {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Problem { sort: Sort::Wrong, ..Problem::file(path, &error) })?;
        let wrong = |error: crate::import::map::MapError| {
            Problem::new(Sort::Wrong, "bad_map", "The map cannot be understood", error.to_string())
        };
        map.merge(&name, Map::parse(&name, &text).map_err(wrong)?).map_err(wrong)?;
    }
    Ok(map)
}

impl Report {
    fn broken_line(&mut self, file: &str, line: u64, detail: String) {
        self.broken_lines += 1;
        if self.broken.len() < TOLD_MAX {
            self.broken.push(Told { file: file.to_owned(), line, detail });
        }
    }

    fn warn(&mut self, file: &str, line: u64, detail: String) {
        self.warnings += 1;
        if self.warned.len() < TOLD_MAX {
            self.warned.push(Told { file: file.to_owned(), line, detail });
        }
    }

    fn count(&mut self, counts: &Counts) {
        self.observations += counts.observations as u64;
        self.beliefs += counts.beliefs as u64;
        self.actions += counts.actions as u64;
        self.justifications += counts.justifications as u64;
    }

    fn show(&self, output: &mut Output) -> Result<()> {
        let told = |told: &Told| format!("{}:{}: {}", escape::line(&told.file), told.line, escape::line(&told.detail));
        for broken in &self.broken {
            output.line(format!("{} {}", output::styled(output::OUT, "broken line"), told(broken)))?;
        }
        for warned in &self.warned {
            output.line(format!("warning {}", told(warned)))?;
        }
        output.line(format!(
            "{}: {}, {}, {}, with {}{}{}",
            counted(self.runs, "run"),
            counted(self.observations, "observation"),
            counted(self.beliefs, "belief"),
            counted(self.actions, "action"),
            counted(self.justifications, "reason"),
            if self.skipped_lines > 0 {
                format!("; {} without messages", counted(self.skipped_lines, "line"))
            } else {
                String::new()
            },
            if self.broken_lines > 0 {
                format!("; {} broken", counted(self.broken_lines, "line"))
            } else {
                String::new()
            },
        ))?;
        self.events.show(output)
    }
}
