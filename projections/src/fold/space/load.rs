//! A space's resident form, made from its rows: whole, or some rows at a time while the space goes on being used in pages.

use std::collections::{HashMap, HashSet};

use recant_proto::{id::Kind, time::Instant};

use super::tail::{Tail, TailReader};
use crate::{
    justification::{
        covers::{Arrived, ItemTimes},
        graph::{Arrival, EditGraph, Graph, Item, Justification, Node},
        listed::{ItemCode, Listed},
        paged::Recent,
        resident::Resident,
        settle::Settled,
    },
    store::{Store, StoreError},
    tables::{SpaceNumber, Table, damaged, justification_covers, justifications, node_states, nodes, segments, spaces},
};

/// Makes a resident form. Only what is stored is read: no batch may be open when it takes a step.
#[derive(Debug)]
pub(crate) struct Loader {
    graph: Resident,
    listed: Listed,
    written: Writers,
    tail: TailReader,
    segments: segments::Row,
    /// Nodes, states, justifications and covers below these numbers are read.
    nodes: u32,
    states: u32,
    justifications: u32,
    covers: u32,
    /// What changed after loading began, and may have been read before that.
    changed_nodes: HashSet<Node>,
    changed_justifications: HashSet<Justification>,
}

impl Loader {
    pub(super) fn new(segments: segments::Row) -> Loader {
        Loader {
            graph: Resident::default(),
            listed: Listed::default(),
            written: Writers::default(),
            tail: TailReader::default(),
            segments,
            nodes: 0,
            states: 0,
            justifications: 0,
            covers: 0,
            changed_nodes: HashSet::new(),
            changed_justifications: HashSet::new(),
        }
    }

    /// For a space that goes on being used. A segment may be written while its states are read, and take the recent ones to
    /// where this has read already: they count as changed.
    pub(super) fn beside(segments: segments::Row, recent: &Recent) -> Loader {
        let mut loader = Loader::new(segments);
        loader.changed_nodes.extend(recent.states.keys());
        loader
    }

    /// What is in no segment, of a space that was not in use while it was loaded.
    pub(super) fn take_tail(&mut self) -> Tail {
        std::mem::take(&mut self.tail).finish()
    }

    /// Reads what events did after the last segment was written.
    pub(super) fn read_moves(&mut self, store: &impl Store, space: &spaces::Row) -> Result<(), StoreError> {
        self.tail.read_moves(store, space.space(), self.segments.offset)
    }

    /// Notes what an operation did meanwhile.
    pub(super) fn changed(&mut self, settled: &Settled) {
        self.changed_nodes.extend(&settled.touched);
        self.changed_justifications.extend(&settled.recovered);
    }

    pub(super) fn resident_bytes(&self) -> usize {
        self.graph.resident_bytes() + self.listed.resident_bytes() + self.written.resident_bytes()
    }

    /// Reads at most so many rows, and says whether all are read.
    pub(super) fn step(
        &mut self,
        store: &impl Store,
        space: &spaces::Row,
        rows_max: usize,
    ) -> Result<bool, StoreError> {
        if self.nodes == 0 {
            check_last(store, space)?;
        }
        if self.nodes < space.nodes {
            self.read_nodes(store, space, rows_max)?;
        } else if self.states < self.nodes {
            self.read_states(store, space.space(), rows_max)?;
        } else if self.justifications < space.justifications {
            self.read_justifications(store, space, rows_max)?;
        } else if self.covers < self.justifications {
            self.read_covers(store, space.space(), rows_max)?;
        } else {
            return Ok(true);
        }
        Ok(false)
    }

    fn read_nodes(&mut self, store: &impl Store, space: &spaces::Row, rows_max: usize) -> Result<(), StoreError> {
        let end = self.nodes.saturating_add(clamp(rows_max)).min(space.nodes);
        scan_some(store, Table::Nodes, space.space(), self.nodes, rows_max, |number, value| {
            let node = self.graph.add_node();
            if node.0 != number {
                return Err(damaged(Table::Nodes, format!("node {} is missing", node.0)));
            }
            if let Some(head) = nodes::Row::decode(value)?.head {
                self.put(node, &head, None);
                self.list(node, &head);
                if number >= self.segments.nodes {
                    self.tail.node(node, &head);
                }
            }
            Ok(())
        })?;
        self.nodes = self.graph.sizes().nodes;
        if self.nodes < end { Err(damaged(Table::Nodes, format!("node {} is missing", self.nodes))) } else { Ok(()) }
    }

    /// Puts what the rows say of a node into the graph; its list of justifications is made from those.
    fn put(&mut self, node: Node, head: &nodes::Head<'_>, changed: Option<node_states::Row>) {
        let row = changed.unwrap_or_else(|| head.birth(node));
        let Ok(()) = self.graph.edit_node(node, |state| {
            state.kind = Some(head.kind);
            state.arrival = Some(Arrival::new(head.arrival));
            state.commitment = head.commitment;
        });
        self.put_state(node, &row);
    }

    /// The list of justifications stays: the graph makes it from those that were read.
    fn put_state(&mut self, node: Node, row: &node_states::Row) {
        let Ok(()) = self.graph.edit_node(node, |state| {
            let newest_justification = state.newest_justification;
            row.put_into(state);
            state.newest_justification = newest_justification;
        });
    }

    fn put_recent(&mut self, recent: &Recent) -> Result<(), StoreError> {
        let known = self.graph.sizes().nodes;
        for (node, row) in &recent.states {
            if node.0 >= known {
                return Err(damaged(Table::Moves, format!("there is no node {}", node.0)));
            }
            self.put_state(*node, row);
        }
        Ok(())
    }

    fn list(&mut self, node: Node, head: &nodes::Head<'_>) {
        if head.kind != Kind::Observation {
            return;
        }
        let times = ItemTimes { observed: head.observed, log: Instant::from_log_ms(head.log_time_ms) };
        let item = Item::Node(node);
        self.listed.insert(&Arrived { item, source: head.source, agent: "", run: "", times });
        self.written.push(head.agent, head.run, head.offset, item.into());
    }

    fn read_states(&mut self, store: &impl Store, space: SpaceNumber, rows_max: usize) -> Result<(), StoreError> {
        let known = self.graph.sizes().nodes;
        let last = scan_some(store, Table::NodeStates, space, self.states, rows_max, |number, value| {
            if number >= known {
                return Err(damaged(Table::NodeStates, format!("there is no node {number}")));
            }
            self.put_state(Node(number), &node_states::Row::decode(value)?);
            Ok(())
        })?;
        self.states = last.map_or(known, |last| last + 1);
        Ok(())
    }

    fn read_justifications(
        &mut self,
        store: &impl Store,
        space: &spaces::Row,
        rows_max: usize,
    ) -> Result<(), StoreError> {
        let known = self.graph.sizes().nodes;
        let end = self.justifications.saturating_add(clamp(rows_max)).min(space.justifications);
        let mut premises = Vec::new();
        scan_some(store, Table::Justifications, space.space(), self.justifications, rows_max, |number, value| {
            let head = justifications::Row::decode(value)?.head;
            premises.clear();
            premises.extend(head.premises.nodes());
            if head.head.0 >= known || premises.iter().any(|premise| premise.0 >= known) {
                let detail = format!("justification {number} names a node that is missing");
                return Err(damaged(Table::Justifications, detail));
            }
            let Ok(justification) = self.graph.add_justification(head.head, &premises, head.commitment);
            if justification.number() != number {
                let detail = format!("justification {} is missing", justification.number());
                return Err(damaged(Table::Justifications, detail));
            }
            self.written.push(head.agent, head.run, head.offset, Item::Justification(justification).into());
            if number >= self.segments.justifications {
                self.tail.justification(justification, &head);
            }
            Ok(())
        })?;
        self.justifications = self.graph.sizes().justifications;
        if self.justifications < end {
            return Err(damaged(Table::Justifications, "some are missing at the end"));
        }
        Ok(())
    }

    fn read_covers(&mut self, store: &impl Store, space: SpaceNumber, rows_max: usize) -> Result<(), StoreError> {
        let known = self.graph.sizes().justifications;
        let last = scan_some(store, Table::JustificationCovers, space, self.covers, rows_max, |number, value| {
            let covers = justification_covers::covers(value)?;
            if number >= known {
                return Err(damaged(Table::JustificationCovers, format!("there is no justification {number}")));
            }
            let Ok(()) = self.graph.edit_justification(Justification::new(number), |state| state.covers = covers);
            Ok(())
        })?;
        self.covers = last.map_or(known, |last| last + 1);
        Ok(())
    }

    /// Reads again what changed meanwhile, and counts.
    pub(super) fn finish(
        mut self,
        store: &impl Store,
        space: &spaces::Row,
        recent: &Recent,
    ) -> Result<(Resident, Listed), StoreError> {
        self.put_recent(recent)?;
        for node in std::mem::take(&mut self.changed_nodes) {
            let value = nodes::value(store, space.space(), node)?;
            let changed = recent.state(store, space.space(), node)?;
            let Ok(known) = self.graph.node(node);
            match (nodes::Row::decode(&value)?.head, changed) {
                (Some(head), changed) => {
                    if known.kind.is_none() {
                        self.list(node, &head);
                    }
                    self.put(node, &head, changed);
                }
                (None, Some(row)) => self.put_state(node, &row),
                (None, None) => {}
            }
        }
        for at in std::mem::take(&mut self.changed_justifications) {
            let value = store.get(Table::JustificationCovers, &justification_covers::key(space.space(), at))?;
            let covers = value.map_or(Ok(0), |value| justification_covers::covers(&value))?;
            let Ok(()) = self.graph.edit_justification(at, |state| state.covers = covers);
        }
        check_supports(&self.graph)?;
        count(&mut self.graph);
        self.written.put_into(&mut self.listed);
        Ok((self.graph, self.listed))
    }
}

/// Whether the last node and the last justification are there: room is made for as many as the space says it has, and a number
/// that is damaged can be any.
fn check_last(store: &impl Store, space: &spaces::Row) -> Result<(), StoreError> {
    if let Some(last) = space.nodes.checked_sub(1)
        && store.get(Table::Nodes, &nodes::key(space.space(), Node(last)))?.is_none()
    {
        return Err(damaged(Table::Nodes, format!("node {last} is missing")));
    }
    if let Some(last) = space.justifications.checked_sub(1)
        && store.get(Table::Justifications, &justifications::key(space.space(), Justification::new(last)))?.is_none()
    {
        return Err(damaged(Table::Justifications, format!("justification {last} is missing")));
    }
    Ok(())
}

/// The only numbers in rows that nothing else has to find first.
fn check_supports(graph: &Resident) -> Result<(), StoreError> {
    let justifications = graph.sizes().justifications;
    for (node, state) in graph.nodes() {
        if let Some(support) = state.support
            && support.number() >= justifications
        {
            let detail = format!("node {} stands on {}, and there is no such justification", node.0, support.number());
            return Err(damaged(Table::Nodes, detail));
        }
    }
    Ok(())
}

fn clamp(rows: usize) -> u32 {
    u32::try_from(rows).unwrap_or(u32::MAX)
}

/// Scans the rows of a space in a table from a number on, at most so many. Gives the last number if it stopped for that.
pub(super) fn scan_some(
    store: &impl Store,
    table: Table,
    space: SpaceNumber,
    from: u32,
    rows_max: usize,
    mut row: impl FnMut(u32, &[u8]) -> Result<(), StoreError>,
) -> Result<Option<u32>, StoreError> {
    let mut rows = 0;
    let mut outcome = Ok(());
    let mut last = None;
    let prefix = crate::tables::of_space(space);
    store.scan(table, &prefix, &crate::tables::numbered(space, from), &mut |key, value| {
        outcome = crate::tables::number_of(table, key).and_then(|number| {
            rows += 1;
            last = (rows == rows_max).then_some(number);
            row(number, value)
        });
        if outcome.is_ok() && last.is_none() {
            std::ops::ControlFlow::Continue(())
        } else {
            std::ops::ControlFlow::Break(())
        }
    })?;
    outcome.map(|()| last)
}

/// Scans the rows of a space in a table, in order of their numbers.
pub fn scan_space(
    store: &impl Store,
    table: Table,
    space: SpaceNumber,
    row: impl FnMut(u32, &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    scan_some(store, table, space, 0, usize::MAX, row).map(drop)
}

/// The counts of the engine, from statuses, arrivals, covers and edges.
fn count(graph: &mut Resident) {
    for number in 0..graph.sizes().justifications {
        let justification = Justification::new(number);
        let Ok(state) = graph.justification(justification);
        let (mut missing, mut waiting) = (u16::from(state.covers > 0), 0);
        for place in 0..state.premise_count {
            let Ok(node) = graph.premise(justification, &state, place);
            let Ok(premise) = graph.premised(node);
            missing += u16::from(!premise.is_in);
            waiting += u16::from(!premise.has_arrived);
        }
        let Ok(()) =
            graph.edit_justification(justification, |state| (state.missing, state.waiting) = (missing, waiting));
        let Ok(()) = graph.edit_node(state.head, |head| {
            head.valid += u32::from(missing == 0);
            head.open += u32::from(state.covers == 0);
            head.ready += u32::from(state.covers == 0 && waiting == 0);
        });
    }
}

/// What was written, by agent and run, to be put in the order of the log at the end: nodes and justifications are read
/// one after the other.
#[derive(Debug, Default)]
struct Writers {
    places: HashMap<String, HashMap<String, usize>>,
    lists: Vec<Vec<(u64, ItemCode)>>,
    /// The writer of the last item, who mostly wrote the next one too.
    last: Option<(String, String, usize)>,
}

impl Writers {
    fn push(&mut self, agent: &str, run: &str, offset: u64, code: ItemCode) {
        if agent.is_empty() {
            return;
        }
        let place = match &self.last {
            Some((last_agent, last_run, place)) if last_agent == agent && last_run == run => *place,
            _ => self.find(agent, run),
        };
        self.lists[place].push((offset, code));
    }

    fn find(&mut self, agent: &str, run: &str) -> usize {
        let known = self.places.get(agent).and_then(|runs| runs.get(run)).copied();
        let place = known.unwrap_or_else(|| {
            self.lists.push(Vec::new());
            let place = self.lists.len() - 1;
            self.places.entry(agent.to_owned()).or_default().insert(run.to_owned(), place);
            place
        });
        self.last = Some((agent.to_owned(), run.to_owned(), place));
        place
    }

    fn put_into(mut self, listed: &mut Listed) {
        for (agent, runs) in &self.places {
            for (run, place) in runs {
                let mut list = std::mem::take(&mut self.lists[*place]);
                list.sort_unstable();
                let codes = listed.written_mut(agent, run);
                codes.reserve_exact(list.len());
                codes.extend(list.into_iter().map(|(_, code)| code));
            }
        }
    }

    fn resident_bytes(&self) -> usize {
        self.lists.iter().map(|list| 96 + list.capacity() * size_of::<(u64, ItemCode)>()).sum()
    }
}
