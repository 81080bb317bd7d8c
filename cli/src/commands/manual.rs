//! Completions and the man page, generated from the arguments.

use anyhow::Result;
use clap::CommandFactory;

use crate::{arguments::Arguments, failure::Exit, output::Output};

/// `recant completions`.
pub fn completions(shell: clap_complete::Shell, output: &mut Output) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "recant", &mut script);
    output.line(String::from_utf8_lossy(&script))?;
    output.flush()?;
    Ok(Exit::Done)
}

/// `recant man`.
pub fn page(output: &mut Output) -> Result<Exit> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Arguments::command()).render(&mut page)?;
    for command in Arguments::command().get_subcommands() {
        clap_mangen::Man::new(command.clone()).render_description_section(&mut page)?;
    }
    output.line(String::from_utf8_lossy(&page))?;
    output.flush()?;
    Ok(Exit::Done)
}
