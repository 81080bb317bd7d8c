//! One file a command.

mod append;
mod appender;
mod demo;
mod diff;
mod doctor;
mod explain;
mod export;
mod gateway;
mod import_chat;
pub mod key;
mod list;
mod manual;
mod mcp;
mod rebuild;
mod rejected;
mod repartition;
mod replay;
mod restore;
mod retract;
mod run;
mod scratch;
mod serve;
mod snapshot;
mod token;
mod tree;
mod upgrade;
mod verify;
mod watch;
mod what_if;
pub mod writer;

use anyhow::Result;

use crate::{
    arguments::{Arguments, Command, FilterArguments, Import, Rejected, StatusArgument},
    failure::Exit,
    output::Output,
    place::Place,
};
use recant_projections::query::Filter;
use recant_proto::id::Kind;

/// Runs a command.
pub fn run(arguments: Arguments, output: &mut Output) -> Result<Exit> {
    let place = Place::of(&arguments.common)?;
    if let Command::Doctor(_) | Command::Snapshot(_) | Command::Restore(_) | Command::Rebuild(_) = arguments.command {
        place.needs_embedded()?;
    }
    if !is_asked_of_servers(&arguments.command) {
        place.needs_no_server()?;
    }
    match arguments.command {
        Command::Demo(demo) => demo::run(&place, &demo, output),
        Command::Serve(serve) => serve::run(&place, &serve, output),
        Command::Mcp => mcp::run(&place),
        Command::Token(token) => token::run(&token, output),
        Command::Init(init) => key::init(&place, &init, output),
        Command::Key(key) => key::run(&place, &key, output),
        Command::Append(append) => append::run(&place, &append, output),
        Command::Import(Import::Chat(import)) => import_chat::run(&place, &import, output),
        Command::Retract(retract) => retract::retract(&place, &retract, output),
        Command::Reinstate(reinstate) => retract::reinstate(&place, &reinstate, output),
        Command::Explain(explain) => explain::run(&place, &explain, output),
        Command::List(list) => list::run(&place, &list, output),
        Command::Watch(watch) => watch::run(&place, &watch, output),
        Command::Run(run) => run::run(&place, &run, output),
        Command::Rejected(Rejected::List { limit }) => rejected::list(&place, limit, output),
        Command::Rejected(Rejected::Retry { position }) => rejected::retry(&place, &position, output),
        Command::Doctor(_) => doctor::run(&place, output),
        Command::Snapshot(snapshot) => snapshot::run(&place, &snapshot, output),
        Command::Restore(restore) => restore::run(&place, &restore, output),
        Command::Rebuild(rebuild) => rebuild::run(&place, &rebuild, output),
        Command::Upgrade(upgrade) => upgrade::run(&place, &upgrade, output),
        Command::Export(export) => export::run(&place, &arguments.common.kafka, &export, output),
        Command::Repartition(repartition) => repartition::run(&place, &arguments.common.kafka, &repartition, output),
        Command::Diff(diff) => diff::run(&place, &diff, output),
        Command::WhatIf(what_if) => what_if::run(&place, &what_if, output),
        Command::Verify(verify) => verify::run(&place, &verify, output),
        Command::Replay(replay) => replay::run(&place, &replay, output),
        Command::Completions { shell } => manual::completions(shell, output),
        Command::Man => manual::page(output),
    }
}

/// Whether a command works on a running server, too.
fn is_asked_of_servers(command: &Command) -> bool {
    matches!(
        command,
        Command::Append(_)
            | Command::Retract(_)
            | Command::Reinstate(_)
            | Command::Explain(_)
            | Command::List(_)
            | Command::Watch(_)
            | Command::Rejected(Rejected::List { .. })
            | Command::Completions { .. }
            | Command::Man
    )
}

impl FilterArguments {
    /// Whether it is to be IN or OUT.
    fn is_in(&self) -> Option<bool> {
        self.status.map(|status| status == StatusArgument::In)
    }

    fn kind(&self) -> Option<Kind> {
        self.kind.as_deref().and_then(Kind::parse)
    }

    /// The same, as a server is asked.
    fn query(&self) -> Vec<(&'static str, String)> {
        let status = self.is_in().map(|is_in| if is_in { "in" } else { "out" }.to_owned());
        let all = [
            ("status", &status),
            ("kind", &self.kind),
            ("source", &self.source),
            ("agent", &self.agent),
            ("run", &self.run),
            ("subject", &self.subject),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }

    /// Which nodes they let through.
    fn of_nodes(&self) -> Filter {
        Filter {
            is_in: self.is_in(),
            kind: self.kind(),
            source: self.source.clone(),
            agent: self.agent.clone(),
            run: self.run.clone(),
            subject: self.subject.clone(),
            words: Vec::new(),
        }
    }
}
