//! `recant demo`: the story from an empty directory, with the real engine; ends by checking what it claims.
//!
//! [`story`] has the events, [`telling`] the narration, [`claims`] what is claimed and the checks of it, [`elsewhere`] the
//! other process that follows the stream. Two tellings print the same bytes: the log's clock is given, its name and all
//! ids are fixed, and nothing is said of directories or durations.

mod claims;
mod elsewhere;
mod story;
mod telling;
#[cfg(test)]
mod tests;

use std::{ffi::OsString, path::Path};

use anyhow::Result;
use serde::Serialize;

use self::claims::{Claim, Seen};
use crate::{
    arguments,
    failure::{Exit, Problem, Sort},
    output::{BOLD, DIM, IN, OUT, Output, counted, styled},
    place::Place,
};

/// Runs the command.
pub fn run(place: &Place, arguments: &arguments::Demo, output: &mut Output) -> Result<Exit> {
    if arguments.rehearse {
        return rehearse(output);
    }
    match &arguments.keep {
        Some(directory) => {
            check_empty(directory)?;
            let exit = tell(directory, true, output)?;
            if !output.is_json() {
                show_how_to_go_on(directory, place, output)?;
            }
            Ok(exit)
        }
        None => {
            let directory = tempfile::Builder::new()
                .prefix("recant-demo-")
                .tempdir()
                .map_err(|error| Problem::file(&std::env::temp_dir(), &error))?;
            let exit = tell(directory.path(), false, output)?;
            if !output.is_json() {
                let how = styled(BOLD, "recant demo --keep DIR");
                output.line(format!(
                    "\nGo on by yourself: {how} keeps the story's data, and says with which commands."
                ))?;
            }
            Ok(exit)
        }
    }
}

/// The answer in JSON.
#[derive(Debug, Serialize)]
struct Report<'a> {
    ok: bool,
    claims: &'a [Claim],
    digest: Digests<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
}

#[derive(Debug, Serialize)]
struct Digests<'a> {
    before: &'a str,
    retracted: &'a str,
    reinstated: &'a str,
}

/// Tells the story in a directory, and checks it.
fn tell(directory: &Path, kept: bool, output: &mut Output) -> Result<Exit> {
    let events = story::events();
    let (seen, claims);
    if output.is_json() {
        seen =
            telling::tell(directory, &events, &elsewhere::printed, &mut Output::to(false, Box::new(std::io::sink())))?;
        claims = claims::check(&seen);
        output.document(&report(&seen, &claims, kept.then_some(directory)))?;
    } else {
        output.line(styled(BOLD, "recant: memory that can take things back. A story in eight steps."))?;
        seen = telling::tell(directory, &events, &elsewhere::printed, output)?;
        claims = claims::check(&seen);
        show(&claims, output)?;
    }
    Ok(exit_of(&claims))
}

fn exit_of(claims: &[Claim]) -> Exit {
    if claims.iter().all(|claim| claim.ok) { Exit::Done } else { Exit::No }
}

fn report<'a>(seen: &'a Seen, claims: &'a [Claim], kept: Option<&Path>) -> Report<'a> {
    Report {
        ok: exit_of(claims) == Exit::Done,
        claims,
        digest: Digests {
            before: &seen.digest_before,
            retracted: &seen.digest_retracted,
            reinstated: &seen.digest_reinstated,
        },
        data: kept.map(|directory| directory.display().to_string()),
    }
}

fn show(claims: &[Claim], output: &mut Output) -> Result<()> {
    output.line("")?;
    output.line(styled(BOLD, "Every claim, checked against the engine"))?;
    for claim in claims {
        if claim.ok {
            output.line(format!("{} {}", styled(IN, "✓"), claim.claim))?;
        } else {
            output.line(format!("{} {}; found: {}", styled(OUT, "✗"), claim.claim, claim.found))?;
        }
    }
    Ok(())
}

fn show_how_to_go_on(kept: &Path, place: &Place, output: &mut Output) -> Result<()> {
    output.line("\nGo on by yourself:")?;
    let mut common = vec!["--data".to_owned(), kept.display().to_string()];
    // Where another space is configured, it has to be named.
    if place.space != story::SPACE {
        common.extend(["--space", story::SPACE].map(str::to_owned));
    }
    let ways = [
        vec!["list", "--status", "out"],
        vec!["explain", story::PENDING_PAYMENT],
        vec!["reinstate", "bank-page", "--preview"],
        vec!["watch", "--from", "earliest", "--until-caught-up"],
        vec!["verify"],
        vec!["doctor"],
    ];
    for way in ways {
        let words: Vec<String> = common.iter().cloned().chain(way.into_iter().map(str::to_owned)).collect();
        output.line(format!("  {}", telling::command_line(&words)))?;
    }
    Ok(())
}

/// A directory in which a story can be told: absent, or empty.
fn check_empty(directory: &Path) -> Result<()> {
    let mut entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Problem { sort: Sort::Wrong, ..Problem::file(directory, &error) }.into()),
    };
    if entries.next().is_none() {
        return Ok(());
    }
    let detail =
        format!("{} is not empty; --keep takes an empty directory, or one that is not there yet", directory.display());
    Err(Problem::wrong(detail).into())
}

/// What two tellings printed.
#[derive(Debug, Serialize)]
struct Rehearsal {
    ok: bool,
    tellings: u32,
    bytes: usize,
    lines: usize,
    found: String,
}

/// Tells it twice, in processes and directories of their own, and compares what they print.
fn rehearse(output: &mut Output) -> Result<Exit> {
    let mut words: Vec<OsString> = vec!["demo".into()];
    if output.is_json() {
        words.push("--json".into());
    }
    let (first, second) = (elsewhere::run(&words, false)?, elsewhere::run(&words, false)?);
    let told_well = first.status.success() && second.status.success();
    let found = compare(&first.stdout, &second.stdout);
    let rehearsal = Rehearsal {
        ok: told_well && found.is_ok(),
        tellings: 2,
        bytes: first.stdout.len(),
        lines: String::from_utf8_lossy(&first.stdout).lines().count(),
        found: match found {
            _ if !told_well => {
                let said = [&first, &second].map(|telling| String::from_utf8_lossy(&telling.stderr).trim().to_owned());
                format!("a telling did not end well: {}, {} {}", first.status, second.status, said.join(" "))
            }
            Ok(found) | Err(found) => found,
        },
    };
    if output.is_json() {
        output.document(&rehearsal)?;
    } else {
        show_rehearsal(&rehearsal, output)?;
    }
    Ok(if rehearsal.ok { Exit::Done } else { Exit::No })
}

fn show_rehearsal(rehearsal: &Rehearsal, output: &mut Output) -> Result<()> {
    let sign = if rehearsal.ok { styled(IN, "✓") } else { styled(OUT, "✗") };
    let extent = format!("{}, {} bytes", counted(rehearsal.lines as u64, "line"), rehearsal.bytes);
    Ok(output.line(format!("{sign} Told twice, in new directories: {}  {}", rehearsal.found, styled(DIM, extent)))?)
}

/// Whether two tellings printed the same bytes, and if not, where they part.
fn compare(first: &[u8], second: &[u8]) -> Result<String, String> {
    if first == second {
        return Ok("the same bytes".to_owned());
    }
    let (first, second) = (String::from_utf8_lossy(first), String::from_utf8_lossy(second));
    let (mut first, mut second) = (first.lines(), second.lines());
    let mut line = 1;
    loop {
        match (first.next(), second.next()) {
            (one, other) if one != other => {
                return Err(format!(
                    "line {line} is {:?}, then {:?}",
                    one.unwrap_or_default(),
                    other.unwrap_or_default()
                ));
            }
            (None, None) => return Err("they differ in their line ends".to_owned()),
            _ => line += 1,
        }
    }
}
