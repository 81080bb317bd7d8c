//! What would have come out differently: one space replayed with something changed, and compared with what really is.
//!
//! The real side is the kept state, whose history says what became of each node since. The other side branches from a state at
//! or before the moment, kept or empty, gets the events that did not happen, and the rest of the log without those that are left
//! out. What people and models said is in the log and is said again. Whether agents would have done all of it again is
//! another question: an event that brought a node on living reasons, and in the branch brings it on dead ones, might
//! not have happened at all, and is told.
//!
//! Nothing real changes: the branch is a directory of its own.

mod sides;

use std::{
    collections::{BTreeMap, BTreeSet},
    str::FromStr as _,
};

use bigdecimal::BigDecimal;
use recant_eventlog::{ReadLog, Record};
use recant_projections::{
    fold::{Fate, Folded, Partition},
    store::{Store, WriteStore},
    tables::spaces,
};
use recant_proto::{position::Position, v1::Event};
use serde::Serialize;

use self::sides::Sides;
use crate::replay::{Observer, Replay, ReplayError};

/// What is changed, and where.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// Behind the event at this offset.
    pub after: u64,
    /// Events that did not happen and are taken to have.
    pub with: Vec<Event>,
    /// Offsets of events that are taken not to have happened.
    pub without: BTreeSet<u64>,
}

/// A node that would be something else now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Its id.
    pub node: String,
    /// What it is.
    pub kind: &'static str,
    /// Its subject.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// `IN` or `OUT`, as it really is; absent if it really is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub really: Option<&'static str>,
    /// What it would be; absent if it would not be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what_if: Option<&'static str>,
    /// Why it would be OUT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
    /// Of an action: what it is, and its real state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
}

/// An action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Action {
    /// For example `payment.transfer`.
    #[serde(rename = "type")]
    pub action_type: String,
    /// Its state.
    pub state: String,
    /// Its amount, as it was written.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub amount: String,
    /// Its currency.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub currency: String,
}

/// What actions of a currency come to that really are IN and would not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Money {
    /// The currency.
    pub currency: String,
    /// How many actions.
    pub actions: u64,
    /// Their sum.
    pub amount: String,
    /// The sum of those that were done.
    pub done: String,
}

/// An event that might not have happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Doubtful {
    /// Its position in the log.
    pub position: String,
    /// Its id.
    pub event: String,
    /// The node that it brought, on reasons that would have been gone.
    pub node: String,
    /// What that is.
    pub kind: &'static str,
    /// Of an action: what it is, and its real state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
}

/// An event that would have been refused, and really was not; or one that was to be inserted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Its position in the log; absent of one that is in none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<String>,
    /// Its id.
    pub event: String,
    /// The code.
    pub code: String,
}

/// What would have come out differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Behind this position something was changed.
    pub at: String,
    /// Up to this one the two are compared.
    pub position: String,
    /// How many events were folded for it.
    pub events: u64,
    /// What would be something else, in the order of arrival.
    pub outcomes: Vec<Outcome>,
    /// What really was believed at birth and would not have been: the events that brought it might not have happened at all.
    pub might_not_have_happened: Vec<Doubtful>,
    /// What would have been refused.
    pub refused: Vec<Refused>,
    /// The money of the actions among both that really are IN, or were when they were proposed.
    pub money: Vec<Money>,
}

/// Replays a space from a branch, whose state is at or before the change, and compares it with the real state.
pub fn compare<L: ReadLog + Sync, B: WriteStore, R: Store>(
    mut branch: Replay<'_, L, B>,
    change: &Change,
    space: &str,
    real: &R,
    end: u64,
) -> Result<Comparison, ReplayError> {
    let from = branch.next_offset();
    // Nodes that had been named by then have the same numbers on both sides.
    let shared_nodes = spaces::get(branch.partition().stored(), space)?.map_or(0, |row| row.nodes);
    let mut told = Told::default();
    branch.up_to(change.after.saturating_add(1), &mut told)?;
    for event in &change.with {
        let folded = branch.insert(event)?;
        told.refused.extend(refusal(None, &folded));
    }
    // What was refused before was refused in reality.
    told.compares = true;
    branch.up_to(end, &mut told)?;
    let number = branch.number();
    let at = |offset: u64| Position { partition: number, offset }.to_string();
    branch.partition().finish()?;
    let sides = Sides::of(real, branch.partition().stored(), space, change, shared_nodes)?;
    let outcomes = sides.outcomes()?;
    let might_not_have_happened = sides.doubtful(&at)?;
    let refused = told.refused.into_iter().filter(|refused| sides.was_accepted(refused)).collect();
    Ok(Comparison {
        at: at(change.after),
        position: at(end.saturating_sub(1)),
        events: end.saturating_sub(from) + change.with.len() as u64,
        money: money(&outcomes, &might_not_have_happened),
        outcomes,
        might_not_have_happened,
        refused,
    })
}

/// What the branch refuses.
#[derive(Default)]
struct Told {
    compares: bool,
    refused: Vec<Refused>,
}

impl<S> Observer<S> for Told {
    fn before(&mut self, _: &Record, _: &mut Partition<S>) -> Result<(), ReplayError> {
        Ok(())
    }

    fn after(&mut self, record: &Record, folded: &Folded) -> Result<(), ReplayError> {
        if self.compares {
            self.refused.extend(refusal(Some(record.position), folded));
        }
        Ok(())
    }
}

fn refusal(position: Option<Position>, folded: &Folded) -> Option<Refused> {
    match &folded.fate {
        Fate::Rejected(violation) => Some(Refused {
            position: position.map(|position| position.to_string()),
            event: folded.event_id.clone(),
            code: violation.code.to_string(),
        }),
        _ => None,
    }
}

/// Sums by currency, of actions each counted once.
fn money(outcomes: &[Outcome], doubtful: &[Doubtful]) -> Vec<Money> {
    let fallen = outcomes.iter().filter(|outcome| outcome.really == Some("IN") && outcome.what_if != Some("IN"));
    let fallen = fallen.filter_map(|outcome| Some((&outcome.node, outcome.action.as_ref()?)));
    let doubtful = doubtful.iter().filter_map(|doubtful| Some((&doubtful.node, doubtful.action.as_ref()?)));
    let actions: BTreeMap<&String, &Action> = fallen.chain(doubtful).collect();
    let mut sums: BTreeMap<&str, (u64, BigDecimal, BigDecimal)> = BTreeMap::new();
    for action in actions.into_values() {
        // An amount that was accepted is a decimal.
        let Ok(amount) = BigDecimal::from_str(&action.amount) else { continue };
        let (count, all, done) = sums.entry(&action.currency).or_default();
        *count += 1;
        if action.state == "done" {
            *done += &amount;
        }
        *all += amount;
    }
    let money = |(currency, (actions, amount, done)): (&str, (u64, BigDecimal, BigDecimal))| Money {
        currency: currency.to_owned(),
        actions,
        amount: amount.to_plain_string(),
        done: done.to_plain_string(),
    };
    sums.into_iter().map(money).collect()
}
