//! Everything that can go wrong as one shape, RFC 9457's, with a stable code that has a page in `docs/problems` (or
//! `docs/errors`, where the contract refuses an event). The command line and HTTP say the same of the same error: this is where
//! errors become problems.
//!
//! Over HTTP a problem is `application/problem+json`; its status follows from its code, else from its [`Sort`].

use recant_eventlog::LogError;
use recant_processor::{backup::BackupError, door::DoorError, driver::DriveError, viewer::ViewError};
use recant_projections::{
    fold::{FoldError, PreviewError},
    query::PageError,
    store::StoreError,
};
use recant_proto::reject::{Code, Violation};
use recant_replayer::replay::ReplayError;
use serde::{Deserialize, Serialize};

/// The code of the one problem that another process may not have.
pub const ELSEWHERE: &str = "elsewhere";

/// What a problem is to the one who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// The answer is "no": refused, not found, gone.
    No,
    /// What was asked cannot be understood.
    Wrong,
    /// It could not be done: disk, network, lock.
    #[default]
    CouldNot,
}

/// A problem, as RFC 9457 has it.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error, utoipa::ToSchema)]
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
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub position: Option<String>,
    /// Where in the input.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<u64>,
    /// The earliest place in the change stream from which one can still follow, where what was asked for is gone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub earliest: Option<String>,
    /// After so many seconds it may be tried again, where that is known.
    #[serde(skip)]
    pub retry_after_s: Option<u64>,
    /// What it is to the one who asked.
    #[serde(skip)]
    pub sort: Sort,
}

impl Problem {
    /// A problem without a place.
    pub fn new(sort: Sort, code: &str, title: &str, detail: impl Into<String>) -> Problem {
        Problem {
            code: code.into(),
            title: title.into(),
            detail: detail.into(),
            position: None,
            line: None,
            earliest: None,
            retry_after_s: None,
            sort,
        }
    }

    /// Nothing has this id.
    pub fn not_found(what: &str, id: &str) -> Problem {
        Problem::new(
            Sort::No,
            "not_found",
            "There is no such thing in this space",
            format!("no {what} has the id {id:?}"),
        )
    }

    /// What the user typed or gave is wrong.
    pub fn wrong(detail: impl Into<String>) -> Problem {
        Problem::new(Sort::Wrong, "wrong_usage", "The command cannot be understood", detail)
    }

    /// What a request says cannot be read.
    pub fn wrong_request(detail: impl Into<String>) -> Problem {
        Problem::new(Sort::Wrong, "wrong_request", "The request cannot be understood", detail)
    }

    /// A time or a position is none that can be asked for.
    pub fn bad_moment(detail: impl Into<String>) -> Problem {
        Problem::new(Sort::Wrong, "bad_moment", "The moment cannot be asked for", detail)
    }

    /// It is not known what became of an event.
    pub fn fate_unknown(detail: impl Into<String>) -> Problem {
        Problem::new(Sort::CouldNot, "fate_unknown", "The fate of the event is not known", detail)
    }

    /// Another process was asked to write something, and has not said what it did.
    pub fn broken_off() -> Problem {
        Problem::fate_unknown(
            "the process that serves the space did not answer; ask for the event by its id, or send it again under the same id",
        )
    }

    /// A rule of the contract was broken; `sort` says whether by the input or by what it met.
    pub fn refused(sort: Sort, violation: &Violation) -> Problem {
        Problem::new(sort, violation.code.as_str(), violation.code.title(), violation.to_string())
    }

    /// A file could not be read or written.
    pub fn file(path: &std::path::Path, error: &std::io::Error) -> Problem {
        Problem::new(
            Sort::CouldNot,
            "io",
            "A file could not be read or written",
            format!("{}: {error}", path.display()),
        )
    }

    /// The status with which HTTP gives it.
    pub fn status(&self) -> u16 {
        match self.code.as_str() {
            "not_found" => 404,
            "forbidden" => 403,
            "unauthenticated" => 401,
            "method_not_allowed" => 405,
            "not_acceptable" => 406,
            "event_id_taken" | "node_id_taken" | "justification_id_taken" | "retraction_id_taken" => 409,
            "history_gone" | "cursor_ahead" | "other_log" => 410,
            "subscription_taken" => 409,
            "position_passed" => 412,
            "event_too_large" | "text_too_large" | "body_too_large" => 413,
            "content_type" => 415,
            "too_many_requests" | "outstanding_full" => 429,
            "busy" | ELSEWHERE | "not_ready" | "not_reached" | "closing" | "held" | "unreachable" | "fate_unknown" => {
                503
            }
            "disk_full" => 507,
            // The request can be read, and what it says cannot be done.
            "bad_cursor" | "bad_moment" => 422,
            code if Code::parse(code).is_some() => 422,
            _ => match self.sort {
                Sort::No => 422,
                Sort::Wrong => 400,
                Sort::CouldNot => 500,
            },
        }
    }

    /// What a problem was to a server that gave it with this status.
    pub fn sort_of_status(status: u16) -> Sort {
        match status {
            401 | 403 | 404 | 409 | 410 | 412 | 422 => Sort::No,
            400..=499 => Sort::Wrong,
            _ => Sort::CouldNot,
        }
    }

    /// An error, or the first of those that caused it that is known, as a problem.
    pub fn known<'a>(chain: impl Iterator<Item = &'a (dyn std::error::Error + 'static)>) -> Option<Problem> {
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

    /// A driver's error as a problem.
    pub fn of_driver(error: &DriveError) -> Problem {
        of_drive(error).unwrap_or_else(|| could_not("processing_failed", "Processing failed", error))
    }
}

fn could_not(code: &str, title: &str, error: &impl std::fmt::Display) -> Problem {
    Problem::new(Sort::CouldNot, code, title, error.to_string())
}

fn of_log(error: &LogError) -> Problem {
    match error {
        LogError::Absent(_) => could_not("no_log", "There is no log in this place", error),
        LogError::NoPartition(_) => {
            Problem::new(Sort::No, "not_found", "There is no such partition", error.to_string())
        }
        LogError::Held { .. } => could_not("held", "Another process writes to the log", error),
        LogError::Format(_) => could_not("format", "The log is not one that this version can read", error),
        LogError::Damaged { .. } | LogError::DamagedFiles { .. } => could_not("damaged", "The log is damaged", error),
        LogError::OutOfRange { .. } => {
            Problem::new(Sort::No, "history_gone", "That part of the log is gone, or not there yet", error.to_string())
        }
        LogError::Taken(_) => could_not("elsewhere", "The state is not here", error),
        LogError::NoRoom(_) => could_not("disk_full", "There is no room on the disk", error),
        LogError::Setting(_) => {
            Problem::new(Sort::Wrong, "bad_setting", "A setting of Kafka's client cannot be used", error.to_string())
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
            Some(Problem::new(Sort::No, "past", "The directory is the past, and is only read", error.to_string()))
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
        ReplayError::OldState { .. } => Some(could_not("state_mismatch", "The state does not fit the log", error)),
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
        FoldError::NotInForce { .. } => {
            Some(could_not("upgrade_needed", "An older logic version is in force in this log", error))
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
            Some(Problem::new(Sort::Wrong, "bad_cursor", "The cursor is not one of this list", error.to_string()))
        }
        PageError::Store(error) => Some(of_store(error)),
    }
}

fn of_preview(error: &PreviewError) -> Option<Problem> {
    match error {
        PreviewError::Refused(violation) => Some(Problem::refused(Sort::No, violation)),
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
            Problem::new(Sort::Wrong, "not_a_snapshot", "The directory is no snapshot", error.to_string())
        }
        BackupError::Newer { .. } => could_not("newer_snapshot", "The snapshot was made by a newer version", error),
        BackupError::Missing(_) | BackupError::Damaged { .. } => {
            could_not("snapshot_damaged", "The snapshot is not what it was when it was made", error)
        }
        BackupError::NotEmpty(_) => {
            Problem::new(Sort::Wrong, "not_empty", "The directory is not empty", error.to_string())
        }
        BackupError::Mismatch { .. } => could_not("state_mismatch", "The state does not fit the log", error),
        _ => could_not("io", "A file could not be read or written", error),
    }
}
