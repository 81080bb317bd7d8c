//! Starting the victim, waiting for its end, and reading what it told.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: a process that cannot be started ends the run"
)]

use std::{
    fs::File,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use super::{check::Acknowledged, victim::Orders};

/// So long a process may take to reach its step or its end. One that takes longer has not reached it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A program of this build: beside the executable that runs, or one directory above it where that is a test.
pub fn program(name: &str) -> PathBuf {
    if name == "recant"
        && let Some(path) = std::env::var_os("RECANT_BIN")
    {
        return PathBuf::from(path);
    }
    let executable = std::env::current_exe().expect("the executable has a path");
    let found =
        executable.ancestors().skip(1).take(2).map(|directory| directory.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} is not built: cargo build --release --locked --workspace --bins"))
}

/// The command that runs a victim.
pub fn victim(orders: &Orders) -> Command {
    let mut command = Command::new(program("victim"));
    command.arg("live").args(orders.arguments());
    command
}

/// What a process told, and how it ended.
#[derive(Debug)]
pub struct Ended {
    /// Its end; none if it had to be ended.
    pub status: Option<ExitStatus>,
    /// The whole lines that it printed.
    pub lines: Vec<String>,
    /// What it said on standard error.
    pub errors: String,
}

impl Ended {
    /// Whether it killed itself with kill -9 at a step.
    pub fn died_at(&self, step: impl std::fmt::Display) -> bool {
        let said = self.lines.iter().any(|line| *line == format!("dying at {step}"));
        said && self.status.is_some_and(|status| status.signal() == Some(9))
    }

    /// Whether it came to its end by itself, with all done.
    pub fn is_done(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Adds what was acknowledged.
    pub fn acknowledge(&self, acknowledged: &mut Acknowledged) {
        for line in &self.lines {
            acknowledged.take(line);
        }
    }

    /// The lines that begin with a word.
    pub fn lines_of<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a str> {
        self.lines.iter().filter_map(move |line| line.strip_prefix(word)?.strip_prefix(' '))
    }
}

/// Runs a process to its end. What it prints goes into a file, which outlives it.
pub fn run(command: Command, told: &Path) -> Ended {
    run_while(command, told, || {})
}

/// The same, and does something as soon as it runs.
pub fn run_while(mut command: Command, told: &Path, act: impl FnOnce()) -> Ended {
    let errors = told.with_extension("errors");
    command.stdin(Stdio::null()).stdout(File::create(told).unwrap()).stderr(File::create(&errors).unwrap());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    act();
    let status = wait(&mut child);
    let lines = whole_lines(told);
    Ended { status, lines, errors: std::fs::read_to_string(errors).unwrap_or_default() }
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

/// The whole lines of a file; none if there is no file.
pub fn whole_lines(path: &Path) -> Vec<String> {
    let told = std::fs::read(path).unwrap_or_default();
    let whole = told.iter().rposition(|byte| *byte == b'\n').map_or(&[][..], |end| &told[..end]);
    String::from_utf8_lossy(whole).split('\n').filter(|line| !line.is_empty()).map(str::to_owned).collect()
}
