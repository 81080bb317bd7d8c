//! How things go wrong: an exit status, and a problem with a stable code that has a page.
//!
//! With `--json` the problem is an RFC 9457 object on standard error, else a sentence that says what to do.

use std::{io::Write, process::ExitCode};

use recant_eventlog::LogError;
use recant_processor::{backup::BackupError, door::DoorError, driver::DriveError, viewer::ViewError};
use recant_projections::{
    fold::{FoldError, PreviewError},
    query::PageError,
    store::StoreError,
};
use recant_proto::reject::Violation;
use recant_replayer::replay::ReplayError;
use serde::Serialize;

/// The exit statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The answer is "no": refused, differs, not found.
    No = 1,
    /// Wrong usage or input.
    Wrong = 2,
    /// Could not: I/O, network, lock.
    CouldNot = 3,
}

/// A problem, as RFC 9457 has it.
#[derive(Debug, Clone, Serialize, thiserror::Error)]
#[error("{detail}")]
pub struct Problem {
    /// A stable code.
    #[serde(rename = "type")]
    pub code: String,
    /// What the code means.
    pub title: String,
    /// What was wrong here, and what to do.
    pub detail: String,
    /// Where in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<String>,
    /// Where in the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The exit status that it leads to.
    #[serde(skip)]
    pub exit: Exit,
}

impl Problem {
    /// A problem without a place.
    pub fn new(exit: Exit, code: &str, title: &str, detail: impl Into<String>) -> Problem {
        Problem { code: code.into(), title: title.into(), detail: detail.into(), position: None, line: None, exit }
    }

    /// Nothing has this id.
    pub fn not_found(what: &str, id: &str) -> Problem {
        Problem::new(
            Exit::No,
            "not_found",
            "There is no such thing in this space",
            format!("no {what} has the id {id:?}"),
        )
    }

    /// What the user typed or gave is wrong.
    pub fn wrong(detail: impl Into<String>) -> Problem {
        Problem::new(Exit::Wrong, "wrong_usage", "The command cannot be understood", detail)
    }

    /// A rule of the contract was broken; `exit` says whether by the input or by what it met.
    pub fn refused(exit: Exit, violation: &Violation) -> Problem {
        Problem::new(exit, violation.code.as_str(), violation.code.title(), violation.to_string())
    }

    /// A file could not be read or written.
    pub fn file(path: &std::path::Path, error: &std::io::Error) -> Problem {
        Problem::new(
            Exit::CouldNot,
            "io",
            "A file could not be read or written",
            format!("{}: {error}", path.display()),
        )
    }
}

/// Whether the reader of the output has gone.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// A mistake on the command line, or a question for help.
pub fn usage(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if error.use_stderr() && wants_json {
        let text = error.to_string();
        return report(&Problem::wrong(text.strip_prefix("error: ").unwrap_or(&text).trim()).into(), true);
    }
    // Nobody to tell if that fails.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(Exit::Wrong as u8) } else { ExitCode::SUCCESS }
}

/// Says what went wrong, on standard error.
pub fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    let problem = problem_of(error);
    // Nobody to tell if that fails.
    let _ = if json {
        writeln!(std::io::stderr(), "{}", crate::escape::json(serde_json::to_string(&problem).unwrap_or_default()))
    } else {
        let red = anstyle::AnsiColor::Red.on_default().bold();
        let place = problem.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        writeln!(
            anstream::stderr(),
            "{red}error{red:#}[{}]: {place}{}",
            problem.code,
            crate::escape::block(&problem.detail)
        )
    };
    ExitCode::from(problem.exit as u8)
}

/// An error as a problem.
pub fn problem_of(error: &anyhow::Error) -> Problem {
    known(error.chain())
        .unwrap_or_else(|| Problem::new(Exit::CouldNot, "io", "Something outside recant failed", format!("{error:#}")))
}

/// A driver's error as a problem.
pub fn problem_of_driver(error: &DriveError) -> Problem {
    of_drive(error).unwrap_or_else(|| could_not("processing_failed", "Processing failed", error))
}

fn known<'a>(chain: impl Iterator<Item = &'a (dyn std::error::Error + 'static)>) -> Option<Problem> {
    for cause in chain {
        if let Some(problem) = cause.downcast_ref::<Problem>() {
            return Some(problem.clone());
        }
        let found = cause
            .downcast_ref::<LogError>()
            .map(of_log)
            .or_else(|| cause.downcast_ref::<StoreError>().map(of_store))
            .or_else(|| cause.downcast_ref::<DriveError>().and_then(of_drive))
            .or_else(|| cause.downcast_ref::<ReplayError>().and_then(of_replay))
            .or_else(|| cause.downcast_ref::<FoldError>().and_then(of_fold))
            .or_else(|| cause.downcast_ref::<ViewError>().and_then(of_view))
            .or_else(|| cause.downcast_ref::<PageError>().and_then(of_page))
            .or_else(|| cause.downcast_ref::<PreviewError>().and_then(of_preview))
            .or_else(|| cause.downcast_ref::<BackupError>().map(of_backup))
            .or_else(|| cause.downcast_ref::<DoorError>().map(of_door));
        if found.is_some() {
            return found;
        }
    }
    None
}

fn could_not(code: &str, title: &str, error: &impl std::fmt::Display) -> Problem {
    Problem::new(Exit::CouldNot, code, title, error.to_string())
}

fn of_log(error: &LogError) -> Problem {
    match error {
        LogError::Absent(_) => could_not("no_log", "There is no log in this place", error),
        LogError::NoPartition(_) => {
            Problem::new(Exit::No, "not_found", "There is no such partition", error.to_string())
        }
        LogError::Held { .. } => could_not("held", "Another process writes to the log", error),
        LogError::Format(_) => could_not("format", "The log is not one that this version can read", error),
        LogError::Damaged { .. } | LogError::DamagedFiles { .. } => could_not("damaged", "The log is damaged", error),
        LogError::OutOfRange { .. } => {
            Problem::new(Exit::No, "history_gone", "That part of the log is gone, or not there yet", error.to_string())
        }
        LogError::NoRoom(_) => could_not("disk_full", "There is no room on the disk", error),
        LogError::Setting(_) => {
            Problem::new(Exit::Wrong, "bad_setting", "A setting of Kafka's client cannot be used", error.to_string())
        }
        LogError::Topic { .. } => could_not("topic_refused", "A topic is not what the log needs", error),
        LogError::Unreachable(_) => could_not("unreachable", "The brokers do not answer", error),
        LogError::PositionLost { .. } => {
            could_not("position_lost", "The committed position of a partition is gone", error)
        }
        _ => could_not("log_failed", "The log failed", error),
    }
}

fn of_store(error: &StoreError) -> Problem {
    match error {
        StoreError::Absent(_) => could_not("no_log", "There is no state in this place", error),
        StoreError::Held(_) => could_not("held", "Another process writes to the state", error),
        StoreError::Format(_) => could_not("format", "The state is not one that this version can read", error),
        StoreError::Damaged { .. } | StoreError::DamagedFiles { .. } => {
            could_not("damaged", "The state is damaged", error)
        }
        StoreError::NoRoom(_) => could_not("disk_full", "There is no room on the disk", error),
        _ => could_not("state_failed", "The state store failed", error),
    }
}

fn of_drive(error: &DriveError) -> Option<Problem> {
    match error {
        DriveError::Log(error) => Some(of_log(error)),
        DriveError::Fold(error) => of_fold(error),
        DriveError::Mismatch { .. } => Some(could_not("state_mismatch", "The state does not fit the log", error)),
        DriveError::Past(_) => {
            Some(Problem::new(Exit::No, "past", "The directory is the past, and is only read", error.to_string()))
        }
        DriveError::NotDeterministic { .. } => {
            Some(could_not("not_deterministic", "Folding gave another result than before", error))
        }
        _ => Some(could_not("processing_failed", "Processing failed", error)),
    }
}

fn of_replay(error: &ReplayError) -> Option<Problem> {
    match error {
        ReplayError::Log(error) => Some(of_log(error)),
        ReplayError::Fold(error) => of_fold(error),
        ReplayError::NotDeterministic { .. } => {
            Some(could_not("not_deterministic", "Folding gave another result than before", error))
        }
        ReplayError::Published { .. } => Some(could_not("damaged", "What was published is damaged", error)),
        ReplayError::Incomplete { .. } => {
            Some(could_not("history_gone", "That part of the log is gone, or not there yet", error))
        }
        _ => None,
    }
}

fn of_fold(error: &FoldError) -> Option<Problem> {
    match error {
        FoldError::Store(error) => Some(of_store(error)),
        FoldError::MustUnderstand { .. } | FoldError::LogicVersion { .. } => {
            Some(could_not("newer_version_needed", "An event needs a newer recant", error))
        }
        _ => Some(could_not("state_mismatch", "The state does not fit the log", error)),
    }
}

fn of_view(error: &ViewError) -> Option<Problem> {
    match error {
        ViewError::Log(error) => Some(of_log(error)),
        ViewError::Store(error) => Some(of_store(error)),
        ViewError::Mismatch { .. } => Some(could_not("state_mismatch", "The state does not fit the log", error)),
        _ => None,
    }
}

fn of_page(error: &PageError) -> Option<Problem> {
    match error {
        PageError::Cursor(_) => {
            Some(Problem::new(Exit::Wrong, "bad_cursor", "The cursor is not one of this list", error.to_string()))
        }
        PageError::Store(error) => Some(of_store(error)),
    }
}

fn of_preview(error: &PreviewError) -> Option<Problem> {
    match error {
        PreviewError::Refused(violation) => Some(Problem::refused(Exit::No, violation)),
        PreviewError::Store(error) => Some(of_store(error)),
    }
}

fn of_door(error: &DoorError) -> Problem {
    match error {
        DoorError::Log(error) => of_log(error),
        DoorError::FateUnknown { position, .. } => Problem {
            position: Some(position.to_string()),
            ..could_not("fate_unknown", "The fate of the event is not known", error)
        },
        _ => could_not("log_failed", "The log failed", error),
    }
}

fn of_backup(error: &BackupError) -> Problem {
    match error {
        BackupError::Log(error) => of_log(error),
        BackupError::Store(error) => of_store(error),
        BackupError::NotASnapshot(_) => {
            Problem::new(Exit::Wrong, "not_a_snapshot", "The directory is no snapshot", error.to_string())
        }
        BackupError::Newer { .. } => could_not("newer_snapshot", "The snapshot was made by a newer version", error),
        BackupError::Missing(_) | BackupError::Damaged { .. } => {
            could_not("snapshot_damaged", "The snapshot is not what it was when it was made", error)
        }
        BackupError::NotEmpty(_) => {
            Problem::new(Exit::Wrong, "not_empty", "The directory is not empty", error.to_string())
        }
        BackupError::Mismatch { .. } => could_not("state_mismatch", "The state does not fit the log", error),
        _ => could_not("io", "A file could not be read or written", error),
    }
}
