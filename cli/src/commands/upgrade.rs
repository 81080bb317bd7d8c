//! `recant upgrade`: this program's logic version takes over from an older one, or a preview of that.

use std::{path::Path, sync::Arc};

use anyhow::Result;
use recant_eventlog::{AppendLog, ProcessLog, clock::SystemClock, embedded::EmbeddedLog, kafka::KafkaLog};
use recant_processor::{
    driver::{source_of, to_log},
    standalone::{log_directory, state_directory},
    switch,
};
use recant_projections::{fold::Logic, store::rocks::RocksStore};
use recant_proto::id::{Kind, Standing};
use recant_replayer::{
    parallel,
    upgrade::{Otherwise, SpaceDifferences, Subject, Upgrade},
};
use serde::Serialize;

use super::scratch;
use crate::{
    arguments, escape,
    failure::Exit,
    output::{self, BOLD, DIM, Output, counted, styled},
    place::Place,
    progress::Progress,
};

#[derive(Serialize)]
struct Told {
    logic_version: u32,
    preview: bool,
    partitions: Vec<PartitionTold>,
    truncated: bool,
}

#[derive(Serialize)]
struct PartitionTold {
    partition: u32,
    outcome: Outcome,
    changed: usize,
    spaces: Vec<SpaceTold>,
}

/// What became of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// Its state is of this version.
    InForce,
    /// It would take over.
    WouldTakeOver,
    /// It took over.
    TookOver,
    /// It had taken over before, and its state was made now.
    StateMade,
}

#[derive(Serialize)]
struct SpaceTold {
    space: String,
    changed: usize,
    changes: Vec<ChangeTold>,
}

#[derive(Serialize)]
struct ChangeTold {
    node: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'static str>,
    /// Absent of a node that this version does not have.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

/// Runs the command.
pub fn run(place: &Place, arguments: &arguments::Upgrade, output: &mut Output) -> Result<Exit> {
    place.needs_no_server()?;
    match &place.kafka {
        // Open to write: nobody else does meanwhile.
        None => all(place, &EmbeddedLog::open(&log_directory(&place.data), Arc::new(SystemClock))?, arguments, output),
        Some(settings) => all(place, &KafkaLog::open(settings.clone())?, arguments, output),
    }
}

fn all<L: ProcessLog + AppendLog + Sync>(
    place: &Place,
    log: &L,
    arguments: &arguments::Upgrade,
    output: &mut Output,
) -> Result<Exit> {
    let scratch = scratch::directory(arguments.scratch.as_deref())?;
    // On Kafka other partitions' states are elsewhere.
    let is_here = |number: &u32| place.kafka.is_none() || state_directory(&place.data, *number).exists();
    let numbers: Vec<u32> = (0..log.partitions()).filter(is_here).collect();
    let budget_bytes = place.memory_budget_bytes / parallel::workers(numbers.len());
    let progress = Progress::new("folding events");
    let add = |events| progress.add(events);
    let upgraded = parallel::each(numbers, |number| {
        let one = One { place, log, number, budget_bytes, progress: &add };
        let (outcome, differences) =
            if arguments.preview { one.preview(scratch.path())? } else { one.upgrade(arguments.keep_old)? };
        Ok::<_, anyhow::Error>((number, outcome, differences))
    })?;
    drop(progress);
    let mut left = arguments.limit;
    let partitions: Vec<PartitionTold> = upgraded
        .into_iter()
        .map(|(partition, outcome, spaces)| PartitionTold {
            partition,
            outcome,
            changed: spaces.iter().map(|space| space.nodes.len()).sum(),
            spaces: spaces.into_iter().map(|space| SpaceTold::of(space, &mut left)).collect(),
        })
        .collect();
    let shown = partitions.iter().flat_map(|partition| &partition.spaces).map(|space| space.changes.len()).sum();
    let truncated = partitions.iter().map(|partition| partition.changed).sum::<usize>() > shown;
    let logic_version = Logic::default().version;
    let told = Told { logic_version, preview: arguments.preview, partitions, truncated };
    if output.is_json() {
        output.document(&told)?
    } else {
        show(&told, output)?
    }
    Ok(Exit::Done)
}

/// A partition, to be upgraded.
struct One<'a, L> {
    place: &'a Place,
    log: &'a L,
    number: u32,
    budget_bytes: usize,
    progress: &'a (dyn Fn(u64) + Sync),
}

impl<L: ProcessLog + AppendLog + Sync> One<'_, L> {
    fn preview(&self, scratch: &Path) -> Result<(Outcome, Vec<SpaceDifferences>)> {
        if self.is_in_force() {
            return Ok((Outcome::InForce, Vec::new()));
        }
        let mut upgrade = self.begin(&scratch.join(self.number.to_string()))?;
        let outcome = if upgrade.is_due() { Outcome::WouldTakeOver } else { Outcome::InForce };
        Ok((outcome, upgrade.differences()?))
    }

    fn upgrade(&self, keep_old: bool) -> Result<(Outcome, Vec<SpaceDifferences>)> {
        switch::finish_switch(&self.place.data, self.number)?;
        if self.is_in_force() {
            return Ok((Outcome::InForce, Vec::new()));
        }
        let building = switch::begin(&self.place.data, self.number)?;
        let upgraded = self.take_over(&building);
        match upgraded {
            Ok((Outcome::InForce, _)) => switch::remove(&building),
            Ok(_) => drop(switch::finish(&self.place.data, self.number, &building, keep_old)?),
            Err(_) => switch::remove(&building),
        }
        upgraded
    }

    fn take_over(&self, building: &Path) -> Result<(Outcome, Vec<SpaceDifferences>)> {
        let mut upgrade = self.begin(building)?;
        if !upgrade.is_due() {
            return Ok((Outcome::InForce, Vec::new()));
        }
        if upgrade.has_taken_over() {
            upgrade.complete()?;
            return Ok((Outcome::StateMade, Vec::new()));
        }
        upgrade.announce()?;
        let source = source_of(self.log);
        let differences = upgrade.take_over(&|output| to_log(output, &source, None))?;
        upgrade.complete()?;
        Ok((Outcome::TookOver, differences))
    }

    fn begin(&self, building: &Path) -> Result<Upgrade<'_, L>> {
        let old = state_directory(&self.place.data, self.number);
        let subject = Subject { number: self.number, old: &old, building, logic: Logic::default() };
        Ok(Upgrade::begin(self.log, subject, self.budget_bytes, self.progress)?)
    }

    /// Whether the state is of this program's version, which is looked at before anything is folded.
    fn is_in_force(&self) -> bool {
        let row = RocksStore::row_of(&state_directory(&self.place.data, self.number));
        row.is_ok_and(|row| row.is_some_and(|row| row.logic_version == Logic::default().version))
    }
}

impl SpaceTold {
    /// With at most so many changes, which are then taken from what is left.
    fn of(differences: SpaceDifferences, left: &mut usize) -> SpaceTold {
        let SpaceDifferences { space, nodes } = differences;
        let changed = nodes.len();
        let changes: Vec<_> = nodes.into_iter().take(*left).map(ChangeTold::of).collect();
        *left -= changes.len();
        SpaceTold { space, changed, changes }
    }
}

impl ChangeTold {
    fn of(otherwise: Otherwise) -> ChangeTold {
        let status = |standing: Option<Standing>| standing.map(Standing::status);
        ChangeTold {
            kind: otherwise.kind.map_or("", Kind::as_str),
            from: status(otherwise.before),
            to: status(otherwise.after),
            why: otherwise.after.and_then(Standing::why),
            node: otherwise.id,
        }
    }
}

fn show(told: &Told, output: &mut Output) -> Result<()> {
    let version = told.logic_version;
    for partition in &told.partitions {
        let changed = counted(partition.changed as u64, "node");
        let what = match partition.outcome {
            Outcome::InForce => format!("logic version {version} is in force; there is nothing to do"),
            Outcome::WouldTakeOver => format!("logic version {version} would take over; {changed} would turn"),
            Outcome::TookOver => format!("logic version {version} took over; {changed} turned, which is published"),
            Outcome::StateMade => format!("logic version {version} had taken over; its state was made"),
        };
        output.line(format!("{}: {what}", styled(BOLD, format!("partition {}", partition.partition))))?;
        for space in &partition.spaces {
            output.line(format!("  {}: {}", escape::line(&space.space), counted(space.changed as u64, "node")))?;
            space.changes.iter().try_for_each(|change| output.line(format!("    {}", change_line(change))))?;
        }
    }
    if told.truncated {
        output.line("There are more; --limit shows them")?;
    }
    if told.preview {
        output.line(styled(DIM, "Nothing was changed."))?;
    }
    Ok(())
}

fn change_line(change: &ChangeTold) -> String {
    let status =
        |status: Option<&str>, why| status.map_or("not there".to_owned(), |status| output::status(status, why));
    let (to, from) = (status(change.to, change.why), status(change.from, None));
    format!("{to} instead of {from}  {} {}", change.kind, escape::line(&change.node))
}
