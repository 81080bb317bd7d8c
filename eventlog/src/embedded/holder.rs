//! The file `writer` in the log's directory: who writes the log, so that whoever is refused learns whom to wait for.
//!
//! It is a courtesy and no lock: the lock is on the file `writer.lock`, and goes with its process. RocksDB has a lock of its
//! own, but before it comes to take it, it moves and removes files of whoever holds it. A process that was killed leaves its
//! `writer` behind, so what it says is held against the processes that run before it is told. JSON, an object with
//! `pid`, `host`, `process_start` (field 22 of `/proc/PID/stat`, which tells two processes with one number apart), `since`
//! and `command`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use recant_proto::time::format_log_ms;
use serde::{Deserialize, Serialize};

use crate::{Clock, LogError, clock::SystemClock};

const FILE: &str = "writer";
const LOCK_FILE: &str = "writer.lock";
const COMMAND_CHARS_MAX: usize = 500;

/// The file, for as long as this process writes the log.
pub(super) struct Holder {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Identity {
    pid: u32,
    host: Option<String>,
    process_start: Option<u64>,
    since: String,
    command: String,
}

impl Holder {
    /// Says that this process, which has the lock, writes the log.
    pub(super) fn write(dir: &Path) -> io::Result<Holder> {
        let path = dir.join(FILE);
        let whole = dir.join("writer.new");
        fs::write(&whole, serde_json::to_vec(&Identity::of_this_process())?)?;
        fs::rename(whole, &path)?;
        Ok(Holder { path })
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "the writer's file could not be removed");
        }
    }
}

/// Takes the lock of a directory that is there, for as long as the file is open.
pub(super) fn lock(dir: &Path) -> Result<fs::File, LogError> {
    let io = |error: io::Error| LogError::Io(format!("{}: {error}", dir.join(LOCK_FILE).display()));
    let file = fs::File::options().create(true).truncate(false).write(true).open(dir.join(LOCK_FILE)).map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(held(dir)),
        Err(fs::TryLockError::Error(error)) => Err(io(error)),
    }
}

/// That another has the lock.
pub(super) fn held(dir: &Path) -> LogError {
    LogError::Held { path: dir.display().to_string(), holder: describe(dir) }
}

/// Who holds the lock, as far as its file and the processes that run say.
pub(super) fn describe(dir: &Path) -> String {
    match fs::read(dir.join(FILE)).ok().and_then(|text| serde_json::from_slice::<Identity>(&text).ok()) {
        Some(identity) => identity.describe(),
        None => "which one is not known".to_owned(),
    }
}

impl Identity {
    fn of_this_process() -> Identity {
        let command: Vec<_> = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let pid = std::process::id();
        Identity {
            pid,
            host: host(),
            process_start: process_start(pid),
            since: format_log_ms(SystemClock.now_ms()),
            command: command.join(" ").chars().take(COMMAND_CHARS_MAX).collect(),
        }
    }

    fn describe(&self) -> String {
        let Identity { pid, since, .. } = self;
        if self.host != host() {
            let host = self.host.as_deref().unwrap_or("another host").escape_debug().to_string();
            return format!("pid {pid} on {host}, since {}", since.escape_debug());
        }
        // Where there is no /proc nothing is known, and the file is believed.
        if process_start(std::process::id()).is_some() && process_start(*pid) != self.process_start {
            return format!("the last to say so was pid {pid}, which is no longer running");
        }
        // Shown on terminals: escaped.
        format!("pid {pid}, {}, since {}", self.command.escape_debug(), since.escape_debug())
    }
}

fn host() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned())
}

/// When a process began, in ticks since the machine's start.
fn process_start(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may hold anything; the third follows the last of them.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(dir: &Path, change: impl FnOnce(&mut Identity)) -> String {
        let mut identity = Identity::of_this_process();
        change(&mut identity);
        fs::write(dir.join(FILE), serde_json::to_vec(&identity).unwrap()).unwrap();
        describe(dir)
    }

    #[test]
    fn what_a_dead_process_left_behind_does_not_mislead() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(describe(dir.path()), "which one is not known");
        let own_pid = format!("pid {}", std::process::id());
        let running = told(dir.path(), |_| ());
        assert!(running.starts_with(&own_pid) && running.contains("recant_eventlog"), "{running}");
        // No process has this number: it is above the kernel's highest.
        assert!(told(dir.path(), |identity| identity.pid = 1 << 23).contains("no longer running"));
        // The number is in use again, by a process that began at another time.
        assert!(told(dir.path(), |identity| identity.process_start = Some(1)).contains("no longer running"));
        assert!(told(dir.path(), |identity| identity.host = Some("far".to_owned())).contains("on far"));
        fs::write(dir.path().join(FILE), "no JSON").unwrap();
        assert_eq!(describe(dir.path()), "which one is not known");
    }

    #[test]
    fn the_file_is_there_while_the_log_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let holder = Holder::write(dir.path()).unwrap();
        assert!(describe(dir.path()).starts_with("pid "));
        drop(holder);
        assert!(!dir.path().join(FILE).exists());
    }
}
