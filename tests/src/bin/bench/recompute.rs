//! The opponent: from what is covered, everything anew, in time linear in the size of the graph.
//!
//! The least fixed point by counting (Dowling and Gallier 1984, algorithm 2: unit propagation over Horn clauses), then the
//! difference from the statuses before, the order and distance of the changes, and the digest. It shares nothing with
//! the engine but the graph. Its arrays are flat, of 32 bits, and allocated once.

use recant_projections::justification::{
    graph::{Graph, Item, Justification, Node},
    resident::Resident,
};

/// A change as the opponent finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Which node.
    pub node: u32,
    /// Whether it is IN now.
    pub is_in: bool,
    /// How far from what was covered or uncovered.
    pub distance: u32,
}

/// The edges as the opponent reads them, and what it needs of nodes that changed.
pub trait Edges {
    /// The justifications in which a node is a premise.
    fn uses(&self, node: u32) -> impl Iterator<Item = u32>;
    /// The node that a justification justifies.
    fn head(&self, justification: u32) -> u32;
    /// A node's place in the order of arrival.
    fn arrival(&self, node: u32) -> u32;
    /// A node's commitment.
    fn commitment(&self, node: u32) -> u128;
}

/// The edges in compressed rows: what suits recomputing best.
#[derive(Debug, Default)]
pub struct Rows {
    /// Where the uses of each node begin, and where those of the last end.
    starts: Vec<u32>,
    uses: Vec<u32>,
    heads: Vec<u32>,
    arrivals: Vec<u32>,
    commitments: Vec<u128>,
}

impl Rows {
    /// A copy of a graph.
    pub fn of(graph: &Resident) -> Rows {
        let mut rows = Rows { starts: vec![0], ..Rows::default() };
        for (node, state) in graph.nodes() {
            rows.uses.extend(graph.uses_of(node).into_iter().map(|justification| justification.number()));
            rows.starts.push(rows.uses.len() as u32);
            rows.arrivals.push(state.arrival.map_or(u32::MAX, |arrival| arrival.number()));
            rows.commitments.push(state.commitment);
        }
        rows.heads = graph.justifications().map(|(_, state)| state.head.0).collect();
        rows
    }
}

impl Edges for Rows {
    fn uses(&self, node: u32) -> impl Iterator<Item = u32> {
        let (start, end) = (self.starts[node as usize], self.starts[node as usize + 1]);
        self.uses[start as usize..end as usize].iter().copied()
    }

    fn head(&self, justification: u32) -> u32 {
        self.heads[justification as usize]
    }

    fn arrival(&self, node: u32) -> u32 {
        self.arrivals[node as usize]
    }

    fn commitment(&self, node: u32) -> u128 {
        self.commitments[node as usize]
    }
}

/// The engine's own arrays: without a copy of the graph.
impl Edges for Resident {
    fn uses(&self, node: u32) -> impl Iterator<Item = u32> {
        let follow = |place| {
            let Ok(used) = self.follow(place);
            used
        };
        let Ok(first) = self.first_use(Node(node));
        std::iter::successors(first.map(follow), move |(_, next)| next.map(follow))
            .map(|(justification, _)| justification.number())
    }

    fn head(&self, justification: u32) -> u32 {
        let Ok(state) = Graph::justification(self, Justification::new(justification));
        state.head.0
    }

    fn arrival(&self, node: u32) -> u32 {
        let Ok(state) = Graph::node(self, Node(node));
        state.arrival.map_or(u32::MAX, |arrival| arrival.number())
    }

    fn commitment(&self, node: u32) -> u128 {
        let Ok(state) = Graph::node(self, Node(node));
        state.commitment
    }
}

/// Statuses, and room to work them out in.
#[derive(Debug)]
pub struct Recompute {
    observations: Vec<u32>,
    premise_counts: Vec<u32>,
    covers: Vec<u32>,
    missing: Vec<u32>,
    is_in: Vec<u8>,
    was_in: Vec<u8>,
    /// Nodes that are IN, in the order in which they came in; the first so many have been passed on.
    reached: Vec<u32>,
    /// 1 for a node that changed and whose distance is not known.
    is_unplaced: Vec<u8>,
    frontier: Vec<(u32, u32)>,
    next_frontier: Vec<(u32, u32)>,
    changes: Vec<Change>,
    digest: u128,
}

impl Recompute {
    /// Everything, from a graph in which nothing is covered.
    pub fn new(graph: &Resident, edges: &impl Edges) -> Recompute {
        let nodes = graph.nodes().count();
        let justified: u128 = graph
            .justifications()
            .map(|(_, state)| u128::from(state.commitment))
            .fold(0, |sum, next| sum.wrapping_add(next));
        let mut recompute = Recompute {
            observations: graph.nodes().filter(|(_, state)| state.is_observation()).map(|(node, _)| node.0).collect(),
            premise_counts: graph.justifications().map(|(_, state)| u32::from(state.premise_count)).collect(),
            covers: vec![0; nodes],
            missing: Vec::new(),
            is_in: vec![0; nodes],
            was_in: vec![0; nodes],
            reached: Vec::with_capacity(nodes),
            is_unplaced: vec![0; nodes],
            frontier: Vec::new(),
            next_frontier: Vec::new(),
            changes: Vec::new(),
            // Every node OUT: weight 2; no justification covered: weight 1.
            digest: graph.nodes().fold(justified, |sum, (_, state)| sum.wrapping_add(state.commitment.wrapping_mul(2))),
        };
        recompute.missing = recompute.premise_counts.clone();
        recompute.run(&[], edges);
        // Births are placed by nothing that was named.
        recompute.is_unplaced.fill(0);
        recompute
    }

    /// Covers observations once more, and works everything out.
    pub fn cover(&mut self, items: &[Item], edges: &impl Edges) -> &[Change] {
        for node in nodes_of(items) {
            self.covers[node as usize] += 1;
        }
        self.run(items, edges)
    }

    /// Covers observations once less, and works everything out.
    pub fn uncover(&mut self, items: &[Item], edges: &impl Edges) -> &[Change] {
        for node in nodes_of(items) {
            self.covers[node as usize] -= 1;
        }
        self.run(items, edges)
    }

    /// Whether a node is IN.
    pub fn is_in(&self, node: Node) -> bool {
        self.is_in[node.0 as usize] == 1
    }

    /// The changes of the last operation, in order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The digest.
    pub fn digest(&self) -> u128 {
        self.digest
    }

    fn run(&mut self, items: &[Item], edges: &impl Edges) -> &[Change] {
        self.fixed_point(edges);
        self.differ(edges);
        self.place(items, edges);
        &self.changes
    }

    fn fixed_point(&mut self, edges: &impl Edges) {
        std::mem::swap(&mut self.is_in, &mut self.was_in);
        self.is_in.fill(0);
        self.missing.copy_from_slice(&self.premise_counts);
        self.reached.clear();
        for node in &self.observations {
            if self.covers[*node as usize] == 0 {
                self.is_in[*node as usize] = 1;
                self.reached.push(*node);
            }
        }
        let mut passed_on = 0;
        while let Some(node) = self.reached.get(passed_on) {
            passed_on += 1;
            for justification in edges.uses(*node) {
                let missing = &mut self.missing[justification as usize];
                *missing -= 1;
                if *missing == 0 {
                    let head = edges.head(justification);
                    if self.is_in[head as usize] == 0 && self.covers[head as usize] == 0 {
                        self.is_in[head as usize] = 1;
                        self.reached.push(head);
                    }
                }
            }
        }
    }

    /// Marks what changed, and counts it in the digest.
    fn differ(&mut self, edges: &impl Edges) {
        const STRIDE: usize = 64;
        for (chunk, (now, before)) in self.is_in.chunks(STRIDE).zip(self.was_in.chunks(STRIDE)).enumerate() {
            if now == before {
                continue;
            }
            for offset in (0..now.len()).filter(|offset| now[*offset] != before[*offset]) {
                let node = chunk * STRIDE + offset;
                self.is_unplaced[node] = 1;
                let commitment = edges.commitment(node as u32);
                // From weight 2 to weight 1, or back.
                self.digest = if now[offset] == 1 {
                    self.digest.wrapping_sub(commitment)
                } else {
                    self.digest.wrapping_add(commitment)
                };
            }
        }
    }

    /// The changes breadth-first from what was covered or uncovered, each distance in order of arrival.
    fn place(&mut self, items: &[Item], edges: &impl Edges) {
        self.changes.clear();
        self.frontier.clear();
        let unplaced = &mut self.is_unplaced;
        let mut reach = |node: u32, frontier: &mut Vec<(u32, u32)>| {
            if unplaced[node as usize] == 1 {
                unplaced[node as usize] = 0;
                frontier.push((edges.arrival(node), node));
            }
        };
        for node in nodes_of(items) {
            reach(node, &mut self.frontier);
        }
        let mut distance = 0;
        while !self.frontier.is_empty() {
            self.frontier.sort_unstable();
            self.next_frontier.clear();
            for (_, node) in &self.frontier {
                self.changes.push(Change { node: *node, is_in: self.is_in[*node as usize] == 1, distance });
                for justification in edges.uses(*node) {
                    reach(edges.head(justification), &mut self.next_frontier);
                }
            }
            std::mem::swap(&mut self.frontier, &mut self.next_frontier);
            distance += 1;
        }
    }
}

fn nodes_of(items: &[Item]) -> impl Iterator<Item = u32> + '_ {
    items.iter().filter_map(|item| match item {
        Item::Node(node) => Some(node.0),
        Item::Justification(_) => None,
    })
}
