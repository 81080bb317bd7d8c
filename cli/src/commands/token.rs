//! `recant token`: makes a token, and says what is kept of it.

use std::io::Write;

use anyhow::Result;
use recant_gateway::access::{Grants, NewToken, settings::TokenSettings};
use serde_json::json;

use crate::{
    arguments,
    failure::{Exit, Problem, Sort},
    output::Output,
};

/// Runs the command.
pub fn run(arguments: &arguments::Token, output: &mut Output) -> Result<Exit> {
    let no_randomness =
        || Problem::new(Sort::CouldNot, "io", "Something outside recant failed", "the system gives no random bytes");
    let new = NewToken::make().ok_or_else(no_randomness)?;
    let grants = arguments.grants.iter().fold(Grants::default(), |grants, (space, rights)| grants.grant(space, rights));
    let settings = TokenSettings {
        name: arguments.name.clone(),
        hash: new.hash,
        expires: arguments.expires.map(|expires| expires.to_string()),
        spaces: grants,
    };
    if output.is_json() {
        output.json_line(&json!({ "token": new.token, "settings": settings }))?;
        return Ok(Exit::Done);
    }
    // So that the file can be appended to, and the token is in none.
    let mut error = anstream::stderr();
    writeln!(error, "The token, which is shown once: {}", new.token)?;
    output.line(toml::to_string(&json!({ "token": [settings] }))?.trim_end())?;
    Ok(Exit::Done)
}
