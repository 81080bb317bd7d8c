//! The same binary in another process.

use std::{
    ffi::OsString,
    process::{Command, Output, Stdio},
};

use anyhow::Result;

use crate::failure::{Problem, Sort};

/// Runs `recant` with some words in another process, to its end, whatever its exit status. With `colours` it writes them
/// although it writes into a pipe: whoever shows what it wrote strips them where they are not welcome.
pub fn run(words: &[OsString], colours: bool) -> Result<Output> {
    let failed = |error: std::io::Error| {
        let detail = format!("{}: {error}", named(words));
        Problem::new(Sort::CouldNot, "io", "Another process could not be run", detail)
    };
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    if colours {
        command.env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1");
    }
    Ok(command.output().map_err(failed)?)
}

/// What it printed; an error unless it was done.
pub fn printed(words: &[OsString]) -> Result<String> {
    let done = run(words, true)?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    let detail = format!("{}: {}: {said}", named(words), done.status);
    Err(Problem::new(Sort::CouldNot, "io", "Another process failed", detail).into())
}

fn named(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    format!("recant {}", words.join(" "))
}
