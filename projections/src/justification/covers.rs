//! What a retraction covers: from targets and windows to the nodes and justifications that they name.
//!
//! For each kind of target there is an index of what it can name, and of the standing retractions that name it; so a
//! retraction finds what is there, and what arrives later finds the retractions that stand.

use std::collections::{BTreeSet, HashMap};

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    Observed,
    Log,
}

/// A half-open window on one of the two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    clock: Clock,
    from: Option<Instant>,
    to: Option<Instant>,
}

impl Window {
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

    fn is_whole(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    fn contains_instant(&self, instant: Instant) -> bool {
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

/// What is needed beside the index to find items: kept on disk, and read for windows that the index does not sort by.
pub trait Items {
    /// What reading can fail with.
    type Error;

    /// When an item happened.
    fn times(&self, item: Item) -> Result<ItemTimes, Self::Error>;

    /// The justification of an id, if it has arrived.
    fn justification(&self, id: &str) -> Result<Option<Justification>, Self::Error>;

    /// Whether a node has arrived.
    fn has_arrived(&self, node: Node) -> bool;
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

#[derive(Debug, Default)]
struct SourceIndex {
    /// How many standing targets cover the source as a whole.
    whole: u32,
    windows: Vec<StandingWindow>,
    by_observed: BTreeSet<(Instant, Node)>,
    /// In order of arrival, which is the order of the log's clock.
    by_log: Vec<(i64, Node)>,
}

#[derive(Debug, Default)]
struct AgentIndex {
    standing: Vec<(Option<String>, StandingWindow)>,
    /// Items by run, in order of arrival.
    runs: HashMap<String, Vec<(i64, Item)>>,
}

/// What retractions can name, and those that stand.
#[derive(Debug, Default)]
pub struct CoverIndex {
    sources: HashMap<u32, SourceIndex>,
    agents: HashMap<String, AgentIndex>,
    nodes: HashMap<Node, Vec<StandingWindow>>,
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

impl CoverIndex {
    /// What would be covered and uncovered, if some targets began and others were lifted. Changes nothing.
    pub fn plan<I: Items>(&self, begin: &[Target], lift: &[Target], items: &I) -> Result<Plan, I::Error> {
        let mut plan = Plan::default();
        let mut whole: Vec<(u32, u32, u32)> = Vec::new();
        for (target, begins) in
            begin.iter().map(|target| (target, true)).chain(lift.iter().map(|target| (target, false)))
        {
            match target.whole_source() {
                None if begins => self.collect(target, items, &mut plan.cover)?,
                None => self.collect(target, items, &mut plan.uncover)?,
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
            let before = self.sources.get(&source).map_or(0, |index| index.whole);
            if before == 0 && begun > 0 {
                plan.cover.extend(self.observations(source));
            }
            if before + begun > 0 && before + begun == lifted {
                plan.uncover.extend(self.observations(source));
            }
        }
        Ok(plan)
    }

    /// The observations of a source.
    fn observations(&self, source: u32) -> impl Iterator<Item = Item> + '_ {
        self.sources.get(&source).into_iter().flat_map(|index| index.by_log.iter().map(|(_, node)| Item::Node(*node)))
    }

    fn collect<I: Items>(&self, target: &Target, items: &I, found: &mut Vec<Item>) -> Result<(), I::Error> {
        let window = &target.window;
        let keep = |item: Item| Ok(window.is_whole() || window.contains(items.times(item)?));
        match &target.named {
            Named::Nothing => {}
            Named::Source(source) => {
                if let Some(index) = self.sources.get(source) {
                    index.collect(window, found);
                }
            }
            Named::Node(node) => {
                if items.has_arrived(*node) && keep(Item::Node(*node))? {
                    found.push(Item::Node(*node));
                }
            }
            Named::Justification(id) => {
                if let Some(justification) = items.justification(id)?
                    && keep(Item::Justification(justification))?
                {
                    found.push(Item::Justification(justification));
                }
            }
            Named::Agent { agent, run } => {
                for written in self.agents.get(agent).iter().flat_map(|index| index.written(run.as_deref())) {
                    collect_written(written, window, items, found)?;
                }
            }
        }
        Ok(())
    }

    /// By how many standing targets an item that arrives is covered.
    pub fn covers_of(&self, arrived: &Arrived<'_>, justification_id: &str) -> u32 {
        let of_item = match arrived.item {
            Item::Node(node) => self.nodes.get(&node),
            Item::Justification(_) => self.justifications.get(justification_id),
        };
        let mut covers = of_item.map_or(0, |windows| matching(windows, arrived.times));
        if let Some(index) = arrived.source.and_then(|source| self.sources.get(&source)) {
            covers += u32::from(index.whole > 0) + matching(&index.windows, arrived.times);
        }
        if let Some(index) = self.agents.get(arrived.agent) {
            let of_run = index.standing.iter().filter(|(run, _)| run.as_deref().is_none_or(|run| run == arrived.run));
            covers += of_run.map(|(_, standing)| u32::from(standing.window.contains(arrived.times))).sum::<u32>();
        }
        covers
    }

    /// Takes in an item that arrived. Items come in the order of the log.
    pub fn insert(&mut self, arrived: &Arrived<'_>) {
        let log_time_ms = arrived.times.log.to_log_ms();
        if let (Some(source), Item::Node(node)) = (arrived.source, arrived.item) {
            let index = self.sources.entry(source).or_default();
            index.by_observed.insert((arrived.times.observed, node));
            index.by_log.push((log_time_ms, node));
        }
        if !arrived.agent.is_empty() {
            // Most items come from an agent and a run that are known: no copy of their names then.
            if !self.agents.contains_key(arrived.agent) {
                self.agents.insert(arrived.agent.to_owned(), AgentIndex::default());
            }
            if let Some(index) = self.agents.get_mut(arrived.agent) {
                match index.runs.get_mut(arrived.run) {
                    Some(items) => items.push((log_time_ms, arrived.item)),
                    None => {
                        index.runs.insert(arrived.run.to_owned(), vec![(log_time_ms, arrived.item)]);
                    }
                }
            }
        }
    }

    /// Notes that a retraction stands.
    pub fn begin(&mut self, retraction: u32, targets: &[Target]) {
        for target in targets {
            let standing = StandingWindow { retraction, window: target.window };
            match &target.named {
                Named::Source(source) => {
                    let index = self.sources.entry(*source).or_default();
                    if target.window.is_whole() { index.whole += 1 } else { index.windows.push(standing) }
                }
                Named::Node(node) => self.nodes.entry(*node).or_default().push(standing),
                Named::Justification(id) => self.justifications.entry(id.clone()).or_default().push(standing),
                Named::Agent { agent, run } => {
                    self.agents.entry(agent.clone()).or_default().standing.push((run.clone(), standing));
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
                    let index = self.sources.entry(*source).or_default();
                    if target.window.is_whole() {
                        index.whole = index.whole.saturating_sub(1)
                    } else {
                        index.windows.retain(others)
                    }
                }
                Named::Node(node) => self.nodes.entry(*node).or_default().retain(others),
                Named::Justification(id) => self.justifications.entry(id.clone()).or_default().retain(others),
                Named::Agent { agent, .. } => {
                    let index = self.agents.entry(agent.clone()).or_default();
                    index.standing.retain(|(_, standing)| others(standing));
                }
                Named::Nothing => {}
            }
        }
    }
}

fn matching(windows: &[StandingWindow], times: ItemTimes) -> u32 {
    windows.iter().map(|standing| u32::from(standing.window.contains(times))).sum()
}

impl SourceIndex {
    fn collect(&self, window: &Window, found: &mut Vec<Item>) {
        match window.clock {
            Clock::Log => {
                let of_window =
                    |(log_time_ms, _): &&(i64, Node)| window.contains_instant(Instant::from_log_ms(*log_time_ms));
                let start = first_at_or_after(&self.by_log, window.from);
                found.extend(self.by_log[start..].iter().take_while(of_window).map(|(_, node)| Item::Node(*node)));
            }
            Clock::Observed => {
                let start = (window.from.unwrap_or(Instant(i128::MIN)), Node(0));
                let of_window = |(instant, _): &&(Instant, Node)| window.contains_instant(*instant);
                found.extend(self.by_observed.range(start..).take_while(of_window).map(|(_, node)| Item::Node(*node)));
            }
        }
    }
}

impl AgentIndex {
    fn written(&self, run: Option<&str>) -> Vec<&[(i64, Item)]> {
        match run {
            Some(run) => self.runs.get(run).map(Vec::as_slice).into_iter().collect(),
            None => self.runs.values().map(Vec::as_slice).collect(),
        }
    }
}

fn first_at_or_after<T>(items: &[(i64, T)], from: Option<Instant>) -> usize {
    from.map_or(0, |from| items.partition_point(|(log_time_ms, _)| Instant::from_log_ms(*log_time_ms) < from))
}

fn collect_written<I: Items>(
    written: &[(i64, Item)],
    window: &Window,
    items: &I,
    found: &mut Vec<Item>,
) -> Result<(), I::Error> {
    if window.clock == Clock::Log {
        let start = first_at_or_after(written, window.from);
        let of_window = |(log_time_ms, _): &&(i64, Item)| window.contains_instant(Instant::from_log_ms(*log_time_ms));
        found.extend(written[start..].iter().take_while(of_window).map(|(_, item)| *item));
        return Ok(());
    }
    for (_, item) in written {
        if window.is_whole() || window.contains(items.times(*item)?) {
            found.push(*item);
        }
    }
    Ok(())
}
