//! What retractions can name, in memory: the observations of each source by the writers' clock, and what each agent wrote
//! in each run, in the order of the log.
//!
//! A number and, for observations, an instant is all that is kept of an item; times on the other clock are read from its
//! row when a window asks for them.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use recant_proto::time::Instant;

use super::{
    covers::{Arrived, Catalogue, Clock, Window},
    graph::{Item, Justification, Node},
};

/// An item in four bytes: its number, with the lowest bit set for justifications. So a space holds fewer than 2^31 of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ItemCode(pub u32);

impl From<Item> for ItemCode {
    fn from(item: Item) -> Self {
        match item {
            Item::Node(node) => ItemCode(node.0 << 1),
            Item::Justification(justification) => ItemCode(justification.number() << 1 | 1),
        }
    }
}

impl From<ItemCode> for Item {
    fn from(code: ItemCode) -> Self {
        let number = code.0 >> 1;
        if code.0 & 1 == 0 { Item::Node(Node(number)) } else { Item::Justification(Justification::new(number)) }
    }
}

/// An instant in twelve bytes that need no alignment of eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Packed {
    seconds_high: i32,
    seconds_low: u32,
    nanos: u32,
}

impl From<Instant> for Packed {
    fn from(instant: Instant) -> Self {
        let (seconds, nanos) = instant.to_seconds();
        Packed { seconds_high: (seconds >> 32) as i32, seconds_low: seconds as u32, nanos }
    }
}

impl From<Packed> for Instant {
    fn from(packed: Packed) -> Self {
        Instant::from_seconds(i64::from(packed.seconds_high) << 32 | i64::from(packed.seconds_low), packed.nanos)
    }
}

/// The items of a space by source and writer.
#[derive(Debug, Default)]
pub struct Listed {
    sources: HashMap<u32, BTreeSet<(Packed, Node)>>,
    agents: HashMap<String, HashMap<String, Vec<ItemCode>>>,
}

impl Listed {
    /// Takes in an item that arrived. Items come in the order of the log.
    pub fn insert(&mut self, arrived: &Arrived<'_>) {
        if let (Some(source), Item::Node(node)) = (arrived.source, arrived.item) {
            self.sources.entry(source).or_default().insert((arrived.times.observed.into(), node));
        }
        if !arrived.agent.is_empty() {
            push(self.written_mut(arrived.agent, arrived.run), arrived.item.into());
        }
    }

    /// What an agent wrote in a run, to be added to.
    pub(crate) fn written_mut(&mut self, agent: &str, run: &str) -> &mut Vec<ItemCode> {
        // Most items come from an agent and a run that are known: no copy of their names then.
        if !self.agents.contains_key(agent) {
            self.agents.insert(agent.to_owned(), HashMap::new());
        }
        let runs = self.agents.entry(agent.to_owned()).or_default();
        runs.entry(run.to_owned()).or_default()
    }

    /// The observations of a source within a window, if it is one that this index sorts by; else all of them.
    pub(crate) fn observations<'a>(&'a self, source: u32, window: &Window) -> impl Iterator<Item = Node> + use<'a> {
        let by_index = *window;
        let by_index = if by_index.clock == Clock::Observed { by_index } else { Window::WHOLE };
        let start =
            by_index.from.map_or((Packed { seconds_high: i32::MIN, seconds_low: 0, nanos: 0 }, Node(0)), |from| {
                (Packed::from(from), Node(0))
            });
        let before_end =
            move |(instant, _): &&(Packed, Node)| by_index.to.is_none_or(|to| Instant::from(*instant) < to);
        let of_source = self.sources.get(&source).into_iter();
        of_source.flat_map(move |all| all.range(start..).take_while(before_end).map(|(_, node)| *node))
    }

    /// What an agent wrote, by run, in the order of the log.
    pub(crate) fn written(&self, agent: &str, run: Option<&str>) -> Vec<&[ItemCode]> {
        let Some(runs) = self.agents.get(agent) else { return Vec::new() };
        match run {
            Some(run) => runs.get(run).map(Vec::as_slice).into_iter().collect(),
            None => runs.values().map(Vec::as_slice).collect(),
        }
    }

    /// Every agent that wrote something.
    pub(crate) fn agents(&self) -> impl Iterator<Item = &str> {
        self.agents.keys().map(String::as_str)
    }

    /// Bytes in use, as near as can be told from here.
    pub fn resident_bytes(&self) -> usize {
        // A tree of sets is three quarters full, and a map of few entries costs about a cache line for each.
        let sources: usize = self.sources.values().map(|all| 96 + all.len() * 24).sum();
        let runs = |runs: &HashMap<String, Vec<ItemCode>>| -> usize {
            runs.iter().map(|(run, items)| 96 + run.len() + items.capacity() * size_of::<ItemCode>()).sum()
        };
        sources + self.agents.iter().map(|(agent, of_agent)| 96 + agent.len() + runs(of_agent)).sum::<usize>()
    }
}

/// Adds to a list that grows by an eighth once it is long.
fn push(list: &mut Vec<ItemCode>, code: ItemCode) {
    if list.len() == list.capacity() && list.len() >= 64 {
        list.reserve_exact(list.len() / 8);
    }
    list.push(code);
}

/// Finds within a list that is in the order of the log what falls into a window.
pub(crate) fn within<C: Catalogue>(
    written: &[ItemCode],
    window: &Window,
    there: &C,
    found: &mut Vec<Item>,
) -> Result<(), C::Error> {
    if window.clock == Clock::Log && !window.is_whole() {
        let start = match window.from {
            None => 0,
            Some(from) => first_at_or_after(written, from, there)?,
        };
        for code in &written[start..] {
            let item = Item::from(*code);
            if !window.contains(there.times(item)?) {
                break;
            }
            found.push(item);
        }
        return Ok(());
    }
    for code in written {
        let item = Item::from(*code);
        if window.is_whole() || window.contains(there.times(item)?) {
            found.push(item);
        }
    }
    Ok(())
}

/// By halving: the log's clock never falls.
fn first_at_or_after<C: Catalogue>(written: &[ItemCode], from: Instant, there: &C) -> Result<usize, C::Error> {
    let (mut low, mut high) = (0, written.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if there.times(written[middle].into())?.log < from { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}
