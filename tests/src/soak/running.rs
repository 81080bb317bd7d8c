//! The writer as the runner holds it: started, asked, and killed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: a process that cannot be started ends the run"
)]

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    time::Duration,
};

use crate::crash::process::program;

/// So many lines of a process wait to be read; then it waits.
const LINES_MAX: usize = 65_536;

/// A process whose whole lines can be read, also those that it printed before it died.
pub struct Running {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Running {
    /// Starts the writer in a life.
    pub fn writer(data: &Path, seed: u64, life: u64, events_per_s: u64, errors: &Path) -> Running {
        let mut command = Command::new(program("soak"));
        command.arg("live").arg(data).args([seed, life, events_per_s].map(|number| number.to_string()));
        Running::start(command, errors)
    }

    /// Starts a process.
    pub fn start(mut command: Command, errors: &Path) -> Running {
        let errors = File::options().create(true).append(true).open(errors).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let input = child.stdin.take().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = sync_channel(LINES_MAX);
        // It ends with the process.
        std::thread::spawn(move || {
            while let Some(line) = whole_line(&mut out) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Running { child, input, lines }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line, if it comes within this time.
    pub fn line(&self, within: Duration) -> Line {
        match self.lines.recv_timeout(within) {
            Ok(line) => Line::Told(line),
            Err(RecvTimeoutError::Timeout) => Line::NoneYet,
            Err(RecvTimeoutError::Disconnected) => Line::Ended,
        }
    }

    /// Asks it for something; it may have died.
    pub fn ask(&mut self, what: &str) -> bool {
        writeln!(self.input, "{what}").is_ok()
    }

    /// kill -9; whether it was still there. What it printed before can still be read.
    pub fn kill(&mut self) -> bool {
        let was_there = self.child.try_wait().unwrap().is_none();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        was_there
    }

    /// Whether it came to a good end by itself.
    pub fn is_done(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<String> {
        self.child.try_wait().unwrap().map(|status| status.to_string())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What comes when one waits for a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A whole line.
    Told(String),
    /// Nothing so far.
    NoneYet,
    /// Nothing more: the process has ended.
    Ended,
}

/// A line that was not written to its end was not told.
fn whole_line(out: &mut BufReader<impl Read>) -> Option<String> {
    let mut line = Vec::new();
    out.read_until(b'\n', &mut line).ok()?;
    (line.pop() == Some(b'\n')).then(|| String::from_utf8_lossy(&line).into_owned())
}
