//! What a retraction covers: from targets and windows to the nodes and justifications that they name.
//!
//! A retraction that begins looks into a [`Catalogue`] for what is there and matches; what arrives later looks into
//! [`Standing`] for the retractions that stand and match it.

use std::collections::HashMap;

use recant_proto::{
    reject::Violation,
    time::{self, Instant},
    v1,
};

use super::graph::{Item, Justification, Node};

/// When an item happened, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemTimes {
    /// By the writer: `observed_at` of an observation, else `occurred_at`, else the log's.
    pub observed: Instant,
    /// By the log.
    pub log: Instant,
}

/// One of the two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The writers'.
    Observed,
    /// The log's.
    Log,
}

/// A half-open window on one of the two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Which clock.
    pub clock: Clock,
    /// From this instant on.
    pub from: Option<Instant>,
    /// Up to this instant, which is outside.
    pub to: Option<Instant>,
}

impl Window {
    /// The window into which everything falls.
    pub const WHOLE: Window = Window { clock: Clock::Observed, from: None, to: None };

    /// The window of a target.
    pub fn of(target: &v1::Target) -> Result<Window, Violation> {
        let default = match target.what {
            Some(v1::target::What::Agent(_)) => Clock::Log,
            _ => Clock::Observed,
        };
        let Some(window) = &target.window else { return Ok(Window { clock: default, from: None, to: None }) };
        let end = |text: &str| if text.is_empty() { Ok(None) } else { time::parse("window", text).map(Some) };
        let clock = match window.clock.as_str() {
            "log" => Clock::Log,
            "observed" => Clock::Observed,
            _ => default,
        };
        Ok(Window { clock, from: end(&window.from)?, to: end(&window.to)? })
    }

    /// Whether everything falls into it.
    pub fn is_whole(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    /// Whether an instant of its clock falls into it.
    pub fn contains_instant(&self, instant: Instant) -> bool {
        self.from.is_none_or(|from| from <= instant) && self.to.is_none_or(|to| instant < to)
    }

    /// Whether an item falls into it.
    pub fn contains(&self, times: ItemTimes) -> bool {
        self.contains_instant(match self.clock {
            Clock::Observed => times.observed,
            Clock::Log => times.log,
        })
    }
}

/// What a target names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// A source, by its number.
    Source(u32),
    /// A node.
    Node(Node),
    /// A justification, by its id: it may not have arrived.
    Justification(String),
    /// An agent, in one run or in all.
    Agent {
        /// The agent.
        agent: String,
        /// The run.
        run: Option<String>,
    },
    /// Something that has not been named before, in a preview: nothing yet.
    Nothing,
}

/// A target whose ids and times have been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// What it names.
    pub named: Named,
    /// When.
    pub window: Window,
}

impl Target {
    /// The source that it covers as a whole.
    fn whole_source(&self) -> Option<u32> {
        match self.named {
            Named::Source(source) if self.window.is_whole() => Some(source),
            _ => None,
        }
    }
}

/// What there is that a retraction can name: in memory ([`super::listed`]), or in pages.
pub trait Catalogue {
    /// What reading can fail with.
    type Error;

    /// When an item happened.
    fn times(&self, item: Item) -> Result<ItemTimes, Self::Error>;

    /// The justification of an id, if it has arrived.
    fn justification(&self, id: &str) -> Result<Option<Justification>, Self::Error>;

    /// Whether a node has arrived.
    fn has_arrived(&self, node: Node) -> Result<bool, Self::Error>;

    /// The observations of a source within a window, in no particular order.
    fn of_source(&self, source: u32, window: &Window, found: &mut Vec<Item>) -> Result<(), Self::Error>;

    /// What an agent wrote, in one run or in all, within a window, in no particular order.
    fn of_agent(
        &self,
        agent: &str,
        run: Option<&str>,
        window: &Window,
        found: &mut Vec<Item>,
    ) -> Result<(), Self::Error>;
}

/// Who wrote an item that arrives, and what else a target can name it by.
#[derive(Debug, Clone, Copy)]
pub struct Arrived<'a> {
    /// The item.
    pub item: Item,
    /// The source of an observation; none for others.
    pub source: Option<u32>,
    /// The writer of an observation or justification; empty for other nodes, which no agent's cover covers.
    pub agent: &'a str,
    /// The run in which it was written.
    pub run: &'a str,
    /// When.
    pub times: ItemTimes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StandingWindow {
    retraction: u32,
    window: Window,
}

#[derive(Debug, Default, PartialEq)]
struct OverSource {
    /// How many standing targets cover the source as a whole.
    whole: u32,
    windows: Vec<StandingWindow>,
}

/// The retractions that stand, by what they name.
#[derive(Debug, Default, PartialEq)]
pub struct Standing {
    sources: HashMap<u32, OverSource>,
    /// By agent; in one run or in all.
    agents: HashMap<String, Vec<(Option<String>, StandingWindow)>>,
    nodes: HashMap<Node, Vec<StandingWindow>>,
    /// By id: it may not have arrived.
    justifications: HashMap<String, Vec<StandingWindow>>,
}

/// What beginning some targets and lifting others covers and uncovers.
#[derive(Debug, Default, Clone)]
pub struct Plan {
    /// Covered once more each time that it is listed.
    pub cover: Vec<Item>,
    /// Covered once less each time that it is listed.
    pub uncover: Vec<Item>,
}

impl Standing {
    /// What would be covered and uncovered, if some targets began and others were lifted. Changes nothing.
    pub fn plan<C: Catalogue>(&self, begin: &[Target], lift: &[Target], there: &C) -> Result<Plan, C::Error> {
        let mut plan = Plan::default();
        let mut whole: Vec<(u32, u32, u32)> = Vec::new();
        for (target, begins) in
            begin.iter().map(|target| (target, true)).chain(lift.iter().map(|target| (target, false)))
        {
            match target.whole_source() {
                None if begins => collect(target, there, &mut plan.cover)?,
                None => collect(target, there, &mut plan.uncover)?,
                Some(source) => {
                    let at = whole.iter().position(|(other, ..)| *other == source).unwrap_or_else(|| {
                        whole.push((source, 0, 0));
                        whole.len() - 1
                    });
                    if begins { whole[at].1 += 1 } else { whole[at].2 += 1 }
                }
            }
        }
        // However many whole covers a source has, they count as one cover of each of its observations.
        for (source, begun, lifted) in whole {
            let before = self.sources.get(&source).map_or(0, |over| over.whole);
            if before == 0 && begun > 0 {
                there.of_source(source, &Window::WHOLE, &mut plan.cover)?;
            }
            if before + begun > 0 && before + begun == lifted {
                there.of_source(source, &Window::WHOLE, &mut plan.uncover)?;
            }
        }
        Ok(plan)
    }

    /// By how many standing targets an item that arrives is covered.
    pub fn covers_of(&self, arrived: &Arrived<'_>, justification_id: &str) -> u32 {
        let of_item = match arrived.item {
            Item::Node(node) => self.nodes.get(&node),
            Item::Justification(_) => self.justifications.get(justification_id),
        };
        let mut covers = of_item.map_or(0, |windows| matching(windows, arrived.times));
        if let Some(over) = arrived.source.and_then(|source| self.sources.get(&source)) {
            covers += u32::from(over.whole > 0) + matching(&over.windows, arrived.times);
        }
        if let Some(over) = self.agents.get(arrived.agent) {
            let of_run = over.iter().filter(|(run, _)| run.as_deref().is_none_or(|run| run == arrived.run));
            covers += of_run.map(|(_, standing)| u32::from(standing.window.contains(arrived.times))).sum::<u32>();
        }
        covers
    }

    /// Notes that a retraction stands.
    pub fn begin(&mut self, retraction: u32, targets: &[Target]) {
        for target in targets {
            let standing = StandingWindow { retraction, window: target.window };
            match &target.named {
                Named::Source(source) => {
                    let over = self.sources.entry(*source).or_default();
                    if target.window.is_whole() { over.whole += 1 } else { over.windows.push(standing) }
                }
                Named::Node(node) => self.nodes.entry(*node).or_default().push(standing),
                Named::Justification(id) => self.justifications.entry(id.clone()).or_default().push(standing),
                Named::Agent { agent, run } => {
                    self.agents.entry(agent.clone()).or_default().push((run.clone(), standing));
                }
                Named::Nothing => {}
            }
        }
    }

    /// Notes that a retraction no longer stands. `targets` are those with which it began.
    pub fn lift(&mut self, retraction: u32, targets: &[Target]) {
        let others = |standing: &StandingWindow| standing.retraction != retraction;
        for target in targets {
            match &target.named {
                Named::Source(source) => {
                    let over = self.sources.entry(*source).or_default();
                    if target.window.is_whole() {
                        over.whole = over.whole.saturating_sub(1)
                    } else {
                        over.windows.retain(others)
                    }
                }
                Named::Node(node) => self.nodes.entry(*node).or_default().retain(others),
                Named::Justification(id) => self.justifications.entry(id.clone()).or_default().retain(others),
                Named::Agent { agent, .. } => {
                    let over = self.agents.entry(agent.clone()).or_default();
                    over.retain(|(_, standing)| others(standing));
                }
                Named::Nothing => {}
            }
        }
    }
}

fn matching(windows: &[StandingWindow], times: ItemTimes) -> u32 {
    windows.iter().map(|standing| u32::from(standing.window.contains(times))).sum()
}

fn collect<C: Catalogue>(target: &Target, there: &C, found: &mut Vec<Item>) -> Result<(), C::Error> {
    let window = &target.window;
    let keep = |item: Item| Ok(window.is_whole() || window.contains(there.times(item)?));
    match &target.named {
        Named::Nothing => {}
        Named::Source(source) => there.of_source(*source, window, found)?,
        Named::Node(node) => {
            if there.has_arrived(*node)? && keep(Item::Node(*node))? {
                found.push(Item::Node(*node));
            }
        }
        Named::Justification(id) => {
            if let Some(justification) = there.justification(id)?
                && keep(Item::Justification(justification))?
            {
                found.push(Item::Justification(justification));
            }
        }
        Named::Agent { agent, run } => there.of_agent(agent, run.as_deref(), window, found)?,
    }
    Ok(())
}
