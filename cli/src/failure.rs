//! How things go wrong: an exit status, and a problem with a stable code that has a page (`recant_gateway::problem`).
//!
//! With `--json` the problem is an RFC 9457 object on standard error, else a sentence that says what to do.

use std::{io::Write, process::ExitCode};

pub use recant_gateway::problem::{Problem, Sort};

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

impl From<Sort> for Exit {
    fn from(sort: Sort) -> Exit {
        match sort {
            Sort::No => Exit::No,
            Sort::Wrong => Exit::Wrong,
            Sort::CouldNot => Exit::CouldNot,
        }
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
    ExitCode::from(Exit::from(problem.sort) as u8)
}

/// An error as a problem.
pub fn problem_of(error: &anyhow::Error) -> Problem {
    Problem::known(error.chain())
        .unwrap_or_else(|| Problem::new(Sort::CouldNot, "io", "Something outside recant failed", format!("{error:#}")))
}
