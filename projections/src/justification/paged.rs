//! The paged graph: point reads with a cache, for spaces that are cold or larger than memory.
//!
//! [`View`] reads; edits go to an [`super::overlay`] over it, and [`Pages::absorb`] takes them in when the operation is
//! done. So what a view reads is always of before the operation, and counts can be made from the rows of premises and
//! reasons without asking what the operation has already done to them.
//!
//! A node costs the rows of its reasons and of their premises when its counts are needed, and its own two rows when not. So
//! a node with very many reasons is slow here, and fast in a resident graph.

use std::{
    hash::Hash,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use hashbrown::HashMap;

use super::{
    graph::{Arrival, Graph, Justification, JustificationState, Node, NodeState, Premised, Sizes},
    overlay::Edits,
};
use crate::{
    store::{Read, Rows, StoreError},
    tables::{SpaceNumber, Table, damaged, justification_covers, justifications, node_states, nodes, uses},
};

/// So many entries of each kind are kept in each of two generations.
const GENERATION_MAX: usize = 1 << 14;

/// What was read of a space, and may be read again.
#[derive(Debug, Default)]
pub struct Pages {
    /// Nodes without their counts.
    bare: Cache<Node, NodeState>,
    /// Nodes with their counts.
    counted: Cache<Node, NodeState>,
    justifications: Cache<Justification, Arc<Page>>,
    /// Oldest first, without those of the tail.
    uses: Cache<Node, Arc<Vec<Justification>>>,
    misses: AtomicU64,
}

#[derive(Debug)]
struct Page {
    state: JustificationState,
    premises: Vec<Node>,
}

/// What is in no segment yet.
#[derive(Debug, Default)]
pub struct Recent {
    /// Uses of nodes, oldest first.
    pub uses: HashMap<Node, Vec<Justification>>,
    /// States of nodes.
    pub states: HashMap<Node, node_states::Row>,
}

impl Recent {
    fn uses_of(&self, node: Node) -> &[Justification] {
        self.uses.get(&node).map_or(&[], Vec::as_slice)
    }

    /// The state of a node that is not as it was born.
    pub fn state(
        &self,
        rows: &impl Read,
        space: SpaceNumber,
        node: Node,
    ) -> Result<Option<node_states::Row>, StoreError> {
        match self.states.get(&node) {
            Some(state) => Ok(Some(*state)),
            None => node_states::get(rows, space, node),
        }
    }
}

impl Pages {
    /// How many rows or lists had to be read.
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Bytes in use, as near as can be told from here.
    pub fn resident_bytes(&self) -> usize {
        let nodes = (self.bare.len() + self.counted.len()) * (size_of::<NodeState>() + 16);
        nodes + self.justifications.len() * (size_of::<Page>() + 48) + self.uses.len() * 64
    }

    /// Takes in a node that has been named.
    pub fn name(&self, node: Node) {
        self.bare.insert(node, NodeState::named(node));
        self.counted.insert(node, NodeState::named(node));
    }

    /// Takes in what an operation edited.
    pub fn absorb(&self, mut edits: Edits) {
        for (node, state) in edits.nodes {
            self.bare.insert(node, state);
            self.counted.insert(node, state);
        }
        for (justification, state) in edits.justifications {
            let premises = match edits.premises.remove(&justification) {
                Some(premises) => Some(premises),
                None => self.justifications.get(&justification).map(|page| page.premises.clone()),
            };
            if let Some(premises) = premises {
                self.justifications.insert(justification, Arc::new(Page { state, premises }));
            }
        }
    }

    /// Forgets what was read of nodes that have moved since, and what was made of them: counts, and reasons that lack a premise.
    pub fn forget_moved(&self, moved: &[Node]) {
        moved.iter().for_each(|node| self.bare.remove(node));
        self.counted.clear();
        self.justifications.clear();
    }

    /// Forgets the lists of uses: the tail has become a segment.
    pub fn forget_uses(&self) {
        self.uses.clear();
    }
}

/// A space as its rows have it.
#[derive(Debug)]
pub struct View<'a, R> {
    /// The rows.
    pub rows: &'a R,
    /// The space.
    pub space: SpaceNumber,
    /// How many nodes and justifications it has.
    pub sizes: Sizes,
    /// What was read before.
    pub pages: &'a Pages,
    /// What is in no segment yet.
    pub recent: &'a Recent,
}

impl<R: Rows> View<'_, R> {
    /// A node without its counts.
    pub fn bare(&self, node: Node) -> Result<NodeState, StoreError> {
        if let Some(state) = self.pages.bare.get(&node) {
            return Ok(state);
        }
        if node.0 >= self.sizes.nodes {
            return Err(damaged(Table::Nodes, format!("node {} is missing", node.0)));
        }
        self.missed();
        let state = bare(self.rows, self.recent, self.space, node)?;
        self.pages.bare.insert(node, state);
        Ok(state)
    }

    fn page(&self, justification: Justification) -> Result<Arc<Page>, StoreError> {
        if let Some(page) = self.pages.justifications.get(&justification) {
            return Ok(page);
        }
        self.missed();
        let bytes = justifications::bytes(self.rows, self.space, justification)?;
        let head = justifications::Row::decode(&bytes)?.head;
        justifications::check_older(justification, head.next_of_head)?;
        let premises: Vec<Node> = head.premises.nodes().collect();
        let key = justification_covers::key(self.space, justification);
        let covers = self.rows.read(Table::JustificationCovers, &key)?;
        let covers = covers.map_or(Ok(0), |value| justification_covers::covers(&value))?;
        let mut state = JustificationState::new(head.head, head.next_of_head, head.commitment, premises.len());
        state.covers = covers;
        state.missing = u16::from(covers > 0);
        for premise in &premises {
            let premise = self.bare(*premise)?;
            state.missing += u16::from(!premise.is_in);
            state.waiting += u16::from(premise.arrival.is_none());
        }
        let page = Arc::new(Page { state, premises });
        self.pages.justifications.insert(justification, page.clone());
        Ok(page)
    }

    /// The uses of a node that are in the table, oldest first.
    fn stored_uses(&self, node: Node) -> Result<Arc<Vec<Justification>>, StoreError> {
        if let Some(uses) = self.pages.uses.get(&node) {
            return Ok(uses);
        }
        self.missed();
        let mut list = Vec::new();
        let mut outcome = Ok(());
        let prefix = uses::of_block(self.space, uses::block(node));
        self.rows.scan_under(Table::Uses, &prefix, &mut |_, value| {
            outcome = uses::of_node(value, node, &mut list);
            if outcome.is_ok() { std::ops::ControlFlow::Continue(()) } else { std::ops::ControlFlow::Break(()) }
        })?;
        outcome?;
        let list = Arc::new(list);
        self.pages.uses.insert(node, list.clone());
        Ok(list)
    }

    /// The justifications in which a node is a premise, the oldest first.
    pub fn uses_of(&self, node: Node) -> Result<Vec<Justification>, StoreError> {
        Ok([self.stored_uses(node)?.as_slice(), self.recent.uses_of(node)].concat())
    }

    fn missed(&self) {
        self.pages.misses.fetch_add(1, Ordering::Relaxed);
    }
}

/// A node without its counts, from its rows.
fn bare(rows: &impl Read, recent: &Recent, space: SpaceNumber, node: Node) -> Result<NodeState, StoreError> {
    let value = nodes::value(rows, space, node)?;
    let head = nodes::Row::decode(&value)?.head;
    let mut state = NodeState::named(node);
    if let Some(head) = &head {
        state.kind = Some(head.kind);
        state.arrival = Some(Arrival::new(head.arrival));
        state.commitment = head.commitment;
    }
    if let Some(row) = recent.state(rows, space, node)?.or_else(|| head.map(|head| head.birth(node))) {
        row.put_into(&mut state);
    }
    Ok(state)
}

impl<R: Rows> Graph for View<'_, R> {
    type Error = StoreError;
    /// A node, and how many of its uses, oldest first, are still to come.
    type Use = (Node, usize);

    fn node(&self, node: Node) -> Result<NodeState, StoreError> {
        if let Some(state) = self.pages.counted.get(&node) {
            return Ok(state);
        }
        let mut state = self.bare(node)?;
        (state.valid, state.open, state.ready) = (0, 0, 0);
        let mut next = state.newest_justification;
        while let Some(justification) = next {
            let reason = self.page(justification)?.state;
            state.valid += u32::from(reason.missing == 0);
            state.open += u32::from(reason.covers == 0);
            state.ready += u32::from(reason.covers == 0 && reason.waiting == 0);
            next = reason.next_of_head;
        }
        self.pages.counted.insert(node, state);
        Ok(state)
    }

    fn premised(&self, node: Node) -> Result<Premised, StoreError> {
        Ok(self.bare(node)?.as_premise())
    }

    fn justification(&self, justification: Justification) -> Result<JustificationState, StoreError> {
        Ok(self.page(justification)?.state)
    }

    fn premise(&self, of: Justification, _state: &JustificationState, place: u16) -> Result<Node, StoreError> {
        let page = self.page(of)?;
        let premise = page.premises.get(usize::from(place)).copied();
        premise.ok_or_else(|| damaged(Table::Justifications, format!("justification {} lacks a premise", of.number())))
    }

    fn first_use(&self, node: Node) -> Result<Option<Self::Use>, StoreError> {
        let count = self.stored_uses(node)?.len() + self.recent.uses_of(node).len();
        Ok((count > 0).then_some((node, count)))
    }

    fn follow(&self, (node, count): Self::Use) -> Result<(Justification, Option<Self::Use>), StoreError> {
        let place = count.saturating_sub(1);
        let stored = self.stored_uses(node)?;
        let found = match place.checked_sub(stored.len()) {
            Some(recent) => self.recent.uses_of(node).get(recent),
            None => stored.get(place),
        };
        let justification = found.ok_or_else(|| damaged(Table::Uses, format!("node {} lacks a use", node.0)))?;
        Ok((*justification, (place > 0).then_some((node, place))))
    }

    fn sizes(&self) -> Sizes {
        self.sizes
    }
}

/// Two generations: what is not asked for while one fills goes with it.
#[derive(Debug)]
struct Cache<K, V>(Mutex<Generations<K, V>>);

#[derive(Debug)]
struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Cache(Mutex::new(Generations { young: HashMap::new(), old: HashMap::new() }))
    }
}

impl<K: Hash + Eq + Copy, V: Clone> Cache<K, V> {
    fn lock(&self) -> MutexGuard<'_, Generations<K, V>> {
        // Whoever panicked while holding it left whole entries only.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, key: &K) -> Option<V> {
        let mut generations = self.lock();
        if let Some(value) = generations.old.remove(key) {
            generations.insert(*key, value);
        }
        generations.young.get(key).cloned()
    }

    fn insert(&self, key: K, value: V) {
        self.lock().insert(key, value);
    }

    fn remove(&self, key: &K) {
        let mut generations = self.lock();
        generations.young.remove(key);
        generations.old.remove(key);
    }

    fn clear(&self) {
        let mut generations = self.lock();
        generations.young.clear();
        generations.old.clear();
    }

    fn len(&self) -> usize {
        let generations = self.lock();
        generations.young.len() + generations.old.len()
    }
}

impl<K: Hash + Eq, V> Generations<K, V> {
    fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }
}
