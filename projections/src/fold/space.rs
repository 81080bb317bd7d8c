//! A space in memory: its graph, the index of what retractions can name, and its row; loaded from the tables.

use std::ops::ControlFlow;

use recant_proto::v1;

use crate::{
    justification::{
        covers::{Arrived, CoverIndex, ItemTimes, Items, Named, Target, Window},
        graph::{Arrival, Graph, Item, Justification, Node},
        resident::Resident,
    },
    store::{Read, Store, StoreError},
    tables::{
        SpaceNumber, Table, damaged, decode,
        ids::{self, Namespace},
        justification_covers, justifications, node_states, nodes, number_of, of_space, retractions, spaces,
    },
};
use recant_proto::time::Instant;

/// A space in memory.
#[derive(Debug)]
pub struct Space {
    /// Its name.
    pub name: String,
    /// What is kept of it as a whole.
    pub row: spaces::Row,
    /// Its nodes and justifications.
    pub graph: Resident,
    /// What retractions can name, and those that stand.
    pub covers: CoverIndex,
}

impl Space {
    /// A space of which nothing has been heard.
    pub fn empty(name: &str, number: u32) -> Space {
        let row = spaces::Row { number, ..spaces::Row::default() };
        Space { name: name.to_owned(), row, graph: Resident::default(), covers: CoverIndex::default() }
    }

    /// Loads a space from the tables; none if nothing was ever applied to it.
    pub fn load(store: &impl Store, name: &str) -> Result<Option<Space>, StoreError> {
        let Some(row) = spaces::get(store, name)? else { return Ok(None) };
        let mut space = Space { name: name.to_owned(), row, graph: Resident::default(), covers: CoverIndex::default() };
        space.covers = space.load_graph(store)?;
        load_standing_retractions(store, &mut space)?;
        Ok(Some(space))
    }

    /// Loads the graph, and gives the index of what retractions can name, as if none stood.
    fn load_graph(&mut self, store: &impl Store) -> Result<CoverIndex, StoreError> {
        // Items are indexed in the order of the log, and nodes come from one table, justifications from another.
        let mut written = load_nodes(store, self)?;
        load_node_states(store, self)?;
        written.extend(load_justifications(store, self)?);
        load_justification_covers(store, self)?;
        count(&mut self.graph);
        written.sort_by_key(|item| item.offset);
        let mut index = CoverIndex::default();
        for item in &written {
            index.insert(&item.arrived());
        }
        Ok(index)
    }

    /// The index of what retractions can name, as if none stood; for an audit.
    pub(crate) fn bare_index(&self, store: &impl Store) -> Result<CoverIndex, StoreError> {
        let row = self.row.clone();
        let (graph, covers) = (Resident::default(), CoverIndex::default());
        Space { name: self.name.clone(), row, graph, covers }.load_graph(store)
    }

    /// The number under which the tables have it.
    pub fn number(&self) -> SpaceNumber {
        self.row.space()
    }
}

/// An item as it is indexed.
struct Written {
    offset: u64,
    item: Item,
    source: Option<u32>,
    agent: String,
    run: String,
    times: ItemTimes,
}

impl Written {
    fn arrived(&self) -> Arrived<'_> {
        Arrived { item: self.item, source: self.source, agent: &self.agent, run: &self.run, times: self.times }
    }
}

/// Scans the rows of a space in a table, in order of their numbers.
pub fn scan_space(
    store: &impl Store,
    table: Table,
    space: SpaceNumber,
    mut row: impl FnMut(u32, &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut outcome = Ok(());
    let prefix = of_space(space);
    store.scan(table, &prefix, &prefix, &mut |key, value| {
        outcome = number_of(table, key).and_then(|number| row(number, value));
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    outcome
}

fn load_nodes(store: &impl Store, space: &mut Space) -> Result<Vec<Written>, StoreError> {
    let mut written = Vec::new();
    let graph = &mut space.graph;
    scan_space(store, Table::Nodes, space.row.space(), |number, value| {
        let row: nodes::Row = decode(Table::Nodes, value)?;
        let node = graph.add_node();
        if node.0 != number {
            return Err(damaged(Table::Nodes, format!("node {} is missing", node.0)));
        }
        let Some(kind) = row.kind() else { return Ok(()) };
        let commitment = row.commitment()?;
        let Ok(()) = graph.edit_node(node, |state| {
            state.kind = Some(kind);
            state.arrival = Some(Arrival::new(row.arrival));
            state.commitment = commitment;
        });
        if kind == recant_proto::id::Kind::Observation {
            let times = ItemTimes { observed: row.observed_instant()?, log: Instant::from_log_ms(row.log_time_ms) };
            let source = row.source();
            written.push(Written {
                offset: row.offset,
                item: Item::Node(node),
                source,
                agent: row.agent,
                run: row.run,
                times,
            });
        }
        Ok(())
    })?;
    if space.graph.sizes().nodes != space.row.nodes {
        return Err(damaged(
            Table::Nodes,
            format!("{} nodes instead of {}", space.graph.sizes().nodes, space.row.nodes),
        ));
    }
    Ok(written)
}

fn load_node_states(store: &impl Store, space: &mut Space) -> Result<(), StoreError> {
    let graph = &mut space.graph;
    scan_space(store, Table::NodeStates, space.row.space(), |number, value| {
        let row = node_states::Row::decode(value)?;
        if number >= graph.sizes().nodes {
            return Err(damaged(Table::NodeStates, format!("there is no node {number}")));
        }
        let Ok(()) = graph.edit_node(Node(number), |state| {
            state.standing = row.standing;
            state.is_in = state.arrival.is_some() && row.standing.is_in();
            state.rank = row.rank;
            state.home = row.home;
            state.support = row.support;
            state.covers = row.covers;
        });
        Ok(())
    })
}

fn load_justifications(store: &impl Store, space: &mut Space) -> Result<Vec<Written>, StoreError> {
    let mut written = Vec::new();
    let graph = &mut space.graph;
    scan_space(store, Table::Justifications, space.row.space(), |number, value| {
        let row: justifications::Row = decode(Table::Justifications, value)?;
        let known = graph.sizes().nodes;
        if row.head >= known || row.premises.iter().any(|premise| *premise >= known) {
            return Err(damaged(Table::Justifications, format!("justification {number} names a node that is missing")));
        }
        let premises: Vec<Node> = row.premises.iter().copied().map(Node).collect();
        let Ok(justification) = graph.add_justification(Node(row.head), &premises, row.commitment()?);
        if justification.number() != number {
            return Err(damaged(Table::Justifications, format!("justification {} is missing", justification.number())));
        }
        let times = ItemTimes {
            observed: nodes::instant([&row.occurred_at], row.log_time_ms)?,
            log: Instant::from_log_ms(row.log_time_ms),
        };
        let item = Item::Justification(justification);
        written.push(Written { offset: row.offset, item, source: None, agent: row.agent, run: row.run, times });
        Ok(())
    })?;
    if space.graph.sizes().justifications != space.row.justifications {
        return Err(damaged(Table::Justifications, "some are missing at the end"));
    }
    Ok(written)
}

fn load_justification_covers(store: &impl Store, space: &mut Space) -> Result<(), StoreError> {
    let graph = &mut space.graph;
    scan_space(store, Table::JustificationCovers, space.row.space(), |number, value| {
        let covers = justification_covers::covers(value)?;
        if number >= graph.sizes().justifications {
            return Err(damaged(Table::JustificationCovers, format!("there is no justification {number}")));
        }
        let Ok(()) = graph.edit_justification(Justification::new(number), |state| state.covers = covers);
        Ok(())
    })
}

/// The counts of the engine, from statuses, arrivals, covers and edges.
fn count(graph: &mut Resident) {
    for number in 0..graph.sizes().justifications {
        let justification = Justification::new(number);
        let Ok(state) = graph.justification(justification);
        let (mut missing, mut waiting) = (u32::from(state.covers > 0), 0);
        for premise in state.premises() {
            let Ok(edge) = graph.premise(premise);
            let Ok(premise) = graph.node(edge.node);
            missing += u32::from(!premise.is_in);
            waiting += u32::from(premise.arrival.is_none());
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

fn load_standing_retractions(store: &impl Store, space: &mut Space) -> Result<(), StoreError> {
    let mut standing = Vec::new();
    scan_space(store, Table::Retractions, space.number(), |number, value| {
        let row: retractions::Row = decode(Table::Retractions, value)?;
        if row.stands() {
            standing.push((number, row.targets));
        }
        Ok(())
    })?;
    for (number, targets) in standing {
        let targets = known_targets(store, space.number(), &targets)?;
        space.covers.begin(number, &targets);
    }
    Ok(())
}

/// Targets by what they name. What has never been named covers nothing yet.
pub fn known_targets(store: &impl Read, space: SpaceNumber, targets: &[v1::Target]) -> Result<Vec<Target>, StoreError> {
    let mut known = Vec::with_capacity(targets.len());
    for target in targets {
        let window = Window::of(target).map_err(|error| damaged(Table::Retractions, error.to_string()))?;
        let number = |namespace, id: &str| ids::get(store, space, namespace, id);
        let named = match &target.what {
            Some(v1::target::What::Source(id)) => number(Namespace::Source, id)?.map_or(Named::Nothing, Named::Source),
            Some(v1::target::What::Node(id)) => {
                number(Namespace::Node, id)?.map_or(Named::Nothing, |at| Named::Node(Node(at)))
            }
            Some(v1::target::What::Justification(id)) => Named::Justification(id.clone()),
            Some(v1::target::What::Agent(agent)) => {
                Named::Agent { agent: agent.agent.clone(), run: (!agent.run.is_empty()).then(|| agent.run.clone()) }
            }
            None => Named::Nothing,
        };
        known.push(Target { named, window });
    }
    Ok(known)
}

/// The items of a space, read through a store.
pub struct StoredItems<'a, R> {
    /// Rows.
    pub store: &'a R,
    /// The space.
    pub space: SpaceNumber,
    /// Which nodes have arrived.
    pub graph: &'a Resident,
}

impl<R: Read> Items for StoredItems<'_, R> {
    type Error = StoreError;

    fn times(&self, item: Item) -> Result<ItemTimes, StoreError> {
        let (observed, log_time_ms) = match item {
            Item::Node(node) => {
                let row = nodes::get(self.store, self.space, node)?;
                (row.observed_instant()?, row.log_time_ms)
            }
            Item::Justification(justification) => {
                let row = justifications::get(self.store, self.space, justification)?;
                (nodes::instant([&row.occurred_at], row.log_time_ms)?, row.log_time_ms)
            }
        };
        Ok(ItemTimes { observed, log: Instant::from_log_ms(log_time_ms) })
    }

    fn justification(&self, id: &str) -> Result<Option<Justification>, StoreError> {
        Ok(ids::get(self.store, self.space, Namespace::Justification, id)?.map(Justification::new))
    }

    fn has_arrived(&self, node: Node) -> bool {
        let Ok(state) = self.graph.node(node);
        state.arrival.is_some()
    }
}
