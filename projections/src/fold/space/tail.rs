//! What is in no segment yet: the uses, the writers and the sources of the newest items of a space. See
//! [`crate::tables::segments`].

use std::{collections::BTreeMap, ops::ControlFlow};

use hashbrown::HashMap;
use prost::Message as _;
use recant_proto::{id::Kind, time::Instant};

use super::load::scan_some;
use crate::{
    justification::{
        covers::Arrived,
        graph::{Item, Justification, Node},
        listed::ItemCode,
        paged::Recent,
    },
    store::{Batch, Rows, Store, StoreError},
    tables::{
        SpaceNumber, Table, blocks, justifications, moved, moves, node_states, nodes, of_space, said, segments, spaces,
        uses,
        written::{self, Writer},
    },
};

/// The newest items of a space.
#[derive(Debug, Default)]
pub(super) struct Tail {
    recent: Recent,
    /// The offsets of the events that moved a node.
    moves: HashMap<Node, Vec<u64>>,
    written: BTreeMap<Writer, Vec<ItemCode>>,
    said: BTreeMap<u32, Vec<(Instant, Node)>>,
    justifications: u32,
    observations: usize,
}

impl Tail {
    /// From the rows of the items that are in no segment.
    pub(super) fn read(store: &impl Store, space: &spaces::Row, segments: &segments::Row) -> Result<Tail, StoreError> {
        let mut tail = TailReader::default();
        scan_some(store, Table::Nodes, space.space(), segments.nodes, usize::MAX, |number, value| {
            if let Some(head) = nodes::Row::decode(value)?.head {
                tail.node(Node(number), &head);
            }
            Ok(())
        })?;
        let from = segments.justifications;
        scan_some(store, Table::Justifications, space.space(), from, usize::MAX, |number, value| {
            tail.justification(Justification::new(number), &justifications::Row::decode(value)?.head);
            Ok(())
        })?;
        tail.read_moves(store, space.space(), segments.offset)?;
        Ok(tail.finish())
    }

    /// Takes in the rows of the items that came after `known`, the row of the space that this was read with. Gives the nodes
    /// that were there and moved.
    pub(super) fn read_on(
        &mut self,
        store: &impl Store,
        known: &spaces::Row,
        segments: &segments::Row,
    ) -> Result<Vec<Node>, StoreError> {
        let space = known.space();
        let mut since = TailReader::default();
        scan_some(store, Table::Nodes, space, known.nodes, usize::MAX, |number, value| {
            if let Some(head) = nodes::Row::decode(value)?.head {
                since.node(Node(number), &head);
            }
            Ok(())
        })?;
        scan_some(store, Table::Justifications, space, known.justifications, usize::MAX, |number, value| {
            since.justification(Justification::new(number), &justifications::Row::decode(value)?.head);
            Ok(())
        })?;
        since.read_moves(store, space, known.last_offset)?;
        let moved: Vec<Node> = since.tail.recent.states.keys().copied().collect();
        for node in moved.iter().filter(|node| (segments.nodes..known.nodes).contains(&node.0)) {
            // Some that had been named have arrived.
            let value = nodes::value(store, space, *node)?;
            if let Some(head) = nodes::Row::decode(&value)?.head.filter(|head| head.offset >= known.last_offset) {
                since.node(*node, &head);
            }
        }
        self.append(since.finish());
        Ok(moved)
    }

    /// Adds what came later.
    fn append(&mut self, later: Tail) {
        for (node, uses) in later.recent.uses {
            self.recent.uses.entry(node).or_default().extend(uses);
        }
        self.recent.states.extend(later.recent.states);
        for (node, offsets) in later.moves {
            self.moves.entry(node).or_default().extend(offsets);
        }
        for (writer, codes) in later.written {
            self.written.entry(writer).or_default().extend(codes);
        }
        for (source, observations) in later.said {
            self.said.entry(source).or_default().extend(observations);
        }
        self.justifications += later.justifications;
        self.observations += later.observations;
    }

    pub(super) fn recent(&self) -> &Recent {
        &self.recent
    }

    /// The offsets of the events that moved a node, oldest first: those of the segments, then those in here.
    pub(super) fn moves_of(&self, rows: &impl Rows, space: SpaceNumber, node: Node) -> Result<Vec<u64>, StoreError> {
        let (mut offsets, mut outcome) = (Vec::new(), Ok(()));
        let prefix = moved::of_block(space, moved::block(node));
        rows.scan_under(Table::Moved, &prefix, &mut |_, value| {
            outcome = moved::of_node(value, node, &mut offsets);
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        outcome?;
        offsets.extend(self.moves.get(&node).into_iter().flatten());
        Ok(offsets)
    }

    /// Takes in what an event did to nodes that were there.
    pub(super) fn moved(&mut self, offset: u64, entries: &[moves::Entry]) {
        for entry in entries {
            self.recent.states.insert(entry.node, entry.state);
            if entry.moved_from.is_some() {
                self.moves.entry(entry.node).or_default().push(offset);
            }
        }
    }

    /// How many justifications the space has, with those in segments.
    pub(super) fn justifications(&self, segments: &segments::Row) -> u32 {
        segments.justifications + self.justifications
    }

    pub(super) fn said(&self, source: u32) -> &[(Instant, Node)] {
        self.said.get(&source).map_or(&[], Vec::as_slice)
    }

    pub(super) fn written(&self, agent: &str, run: Option<&str>, found: &mut Vec<ItemCode>) {
        let writer = Writer::new(agent, run.unwrap_or_default());
        match run {
            Some(_) => found.extend(self.written.get(&writer).into_iter().flatten()),
            None => {
                let of_agent = self.written.range(writer.first_of_agent()..);
                let of_agent = of_agent.take_while(|(other, _)| other.is_agent_of(&writer));
                found.extend(of_agent.flat_map(|(_, codes)| codes));
            }
        }
    }

    /// How many items there are.
    pub(super) fn items(&self) -> usize {
        self.justifications as usize + self.observations + self.recent.states.len()
    }

    /// Takes in an item that arrives. One that was named before the last segment was written is in no tail, and gets rows
    /// of its own.
    pub(super) fn note(
        &mut self,
        arrived: &Arrived<'_>,
        space: SpaceNumber,
        segments: &segments::Row,
        batch: &mut Batch,
    ) {
        let code = ItemCode::from(arrived.item);
        let writer = (!arrived.agent.is_empty()).then(|| Writer::new(arrived.agent, arrived.run));
        if let Item::Node(node) = arrived.item
            && node.0 < segments.nodes
        {
            if let Some(writer) = writer {
                let mut value = Vec::new();
                written::push(&mut value, code);
                batch.put(Table::Written, written::late_key(space, &writer, code), value);
            }
            if let Some(source) = arrived.source {
                let mut value = Vec::new();
                said::push(&mut value, arrived.times.observed, node);
                batch.put(Table::Said, said::late_key(space, source, node), value);
            }
            return;
        }
        if let Some(writer) = writer {
            self.written.entry(writer).or_default().push(code);
        }
        if let (Some(source), Item::Node(node)) = (arrived.source, arrived.item) {
            self.said.entry(source).or_default().push((arrived.times.observed, node));
            self.observations += 1;
        }
    }

    /// Takes in a justification that arrives, with its premises if no graph in memory has them.
    pub(super) fn justify(&mut self, justification: Justification, premises: &[Node]) {
        self.justifications += 1;
        for premise in premises {
            self.recent.uses.entry(*premise).or_default().push(justification);
        }
    }

    /// The uses, which are then no longer in here, in no particular order.
    pub(super) fn take_uses(&mut self) -> Vec<(Node, Justification)> {
        of_each(std::mem::take(&mut self.recent.uses))
    }

    /// Writes all of it as a segment, with the uses that are in none yet, and is empty.
    pub(super) fn write(
        &mut self,
        space: SpaceNumber,
        row: &spaces::Row,
        segments: &segments::Row,
        mut uses: Vec<(Node, Justification)>,
        batch: &mut Batch,
    ) -> segments::Row {
        let tail = std::mem::take(self);
        let segment = segments.count;
        for (block, entries) in by_block(&mut uses) {
            let mut value = Vec::with_capacity(entries.len() * 6);
            entries.iter().for_each(|(node, justification)| uses::push(&mut value, *node, *justification));
            batch.put(Table::Uses, uses::key(space, block, segment), value);
        }
        for (block, entries) in by_block(&mut of_each(tail.moves)) {
            let mut value = Vec::with_capacity(entries.len() * 10);
            entries.iter().for_each(|(node, offset)| moved::push(&mut value, *node, *offset));
            batch.put(Table::Moved, moved::key(space, block, segment), value);
        }
        for (node, state) in tail.recent.states {
            batch.put(Table::NodeStates, node_states::key(space, node), state.encode());
        }
        for (writer, codes) in tail.written {
            let mut value = Vec::with_capacity(codes.len() * 4);
            codes.iter().for_each(|code| written::push(&mut value, *code));
            batch.put(Table::Written, written::key(space, &writer, segment), value);
        }
        for (source, observations) in tail.said {
            let mut value = Vec::with_capacity(observations.len() * 16);
            observations.iter().for_each(|(observed, node)| said::push(&mut value, *observed, *node));
            batch.put(Table::Said, said::key(space, source, segment), value);
        }
        let justifications = segments.justifications + tail.justifications;
        let after = segments::Row { count: segment + 1, nodes: row.nodes, justifications, offset: row.last_offset };
        batch.put(Table::Segments, segments::key(space), after.encode_to_vec());
        after
    }

    pub(super) fn resident_bytes(&self) -> usize {
        // A tail is a 64th of a space: half a hundred bytes for each thing in it is near enough.
        let facts = self.recent.uses.len() + self.recent.states.len() + self.moves.len();
        facts * 64 + self.written.len() * 64 + self.said.len() * 64 + self.items() * 24
    }
}

/// Facts about nodes, each with its node.
fn of_each<F>(facts: HashMap<Node, Vec<F>>) -> Vec<(Node, F)> {
    facts.into_iter().flat_map(|(node, of_node)| of_node.into_iter().map(move |fact| (node, fact))).collect()
}

/// Facts about nodes by blocks, in order of nodes and then of facts.
fn by_block<F: Ord>(facts: &mut [(Node, F)]) -> impl Iterator<Item = (u32, &[(Node, F)])> {
    facts.sort_unstable();
    let blocks = facts.chunk_by(|(node, _), (next, _)| blocks::block(*node) == blocks::block(*next));
    blocks.map(|facts| (facts.first().map_or(0, |(node, _)| blocks::block(*node)), facts))
}

/// Makes a tail from rows, which come by number; what was written is put in the order of the log at the end.
#[derive(Debug, Default)]
pub(super) struct TailReader {
    tail: Tail,
    written: BTreeMap<Writer, Vec<(u64, ItemCode)>>,
}

impl TailReader {
    pub(super) fn node(&mut self, node: Node, head: &nodes::Head<'_>) {
        if head.kind != Kind::Observation {
            return;
        }
        self.wrote(head.agent, head.run, head.offset, Item::Node(node));
        if let Some(source) = head.source {
            self.tail.said.entry(source).or_default().push((head.observed, node));
            self.tail.observations += 1;
        }
    }

    pub(super) fn justification(&mut self, justification: Justification, head: &justifications::Head<'_>) {
        self.wrote(head.agent, head.run, head.offset, Item::Justification(justification));
        self.tail.justifications += 1;
        for premise in head.premises.nodes() {
            self.tail.recent.uses.entry(premise).or_default().push(justification);
        }
    }

    pub(super) fn read_moves(
        &mut self,
        store: &impl Store,
        space: SpaceNumber,
        from_offset: u64,
    ) -> Result<(), StoreError> {
        scan_moves(store, space, from_offset, |row| {
            let entries = row.entries().collect::<Result<Vec<_>, _>>()?;
            self.tail.moved(row.offset, &entries);
            Ok(())
        })
    }

    fn wrote(&mut self, agent: &str, run: &str, offset: u64, item: Item) {
        if !agent.is_empty() {
            self.written.entry(Writer::new(agent, run)).or_default().push((offset, item.into()));
        }
    }

    pub(super) fn finish(self) -> Tail {
        let in_order = |(writer, mut items): (Writer, Vec<(u64, ItemCode)>)| {
            items.sort_unstable();
            (writer, items.into_iter().map(|(_, code)| code).collect())
        };
        Tail { written: self.written.into_iter().map(in_order).collect(), ..self.tail }
    }
}

/// Scans what events did to nodes, from an offset on.
pub fn scan_moves(
    store: &impl Store,
    space: SpaceNumber,
    from_offset: u64,
    mut visit: impl FnMut(&moves::Row<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut outcome = Ok(());
    store.scan(Table::Moves, &of_space(space), &moves::key(space, from_offset, Node(0)), &mut |key, value| {
        outcome = moves::Row::decode(key, value).and_then(|row| visit(&row));
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    outcome
}

/// The states of the nodes of a space that changed after the last segment was written.
pub fn recent_states(store: &impl Store, space: SpaceNumber) -> Result<HashMap<Node, node_states::Row>, StoreError> {
    let mut states = HashMap::new();
    scan_moves(store, space, segments::get(store, space)?.offset, |row| {
        for entry in row.entries() {
            let entry = entry?;
            states.insert(entry.node, entry.state);
        }
        Ok(())
    })?;
    Ok(states)
}
