//! A space: its graph in one of two forms, what retractions can name, those that stand, and its row.
//!
//! A small space, and one that is busy, is resident: loaded whole ([`load`]), and quick. Others are paged: opened at
//! once, and read row by row. Which form a space has changes no answer.

mod load;
mod tail;
mod there;

use recant_proto::v1;

pub(crate) use load::Loader;
pub use load::scan_space;
pub use tail::{recent_states, scan_moves};
pub use there::There;

use crate::{
    justification::{
        covers::{Arrived, Named, Standing, Target, Window},
        graph::{Graph, Justification, JustificationState, Node, NodeState, Sizes},
        listed::Listed,
        overlay::Overlay,
        paged::{Pages, View},
        resident::Resident,
        settle::{self, Change, Edit, Settled},
    },
    store::{Batch, Read, Rows, Store, StoreError},
    tables::{
        SpaceNumber, Table, damaged, decode,
        ids::{self, Namespace},
        moves, retractions, segments, spaces,
    },
};
use tail::Tail;

/// A space that is open.
#[derive(Debug)]
pub struct Space {
    /// Its name.
    pub name: String,
    /// What is kept of it as a whole.
    pub row: spaces::Row,
    /// The retractions that stand.
    pub standing: Standing,
    form: Form,
    /// What is in no segment yet.
    tail: Tail,
    segments: segments::Row,
    /// The resident form that is being made beside the paged one.
    loading: Option<Box<Loader>>,
}

#[derive(Debug)]
enum Form {
    Resident { graph: Resident, listed: Listed },
    Paged(Pages),
}

impl Space {
    /// A space of which nothing has been heard.
    pub fn empty(name: &str, number: u32) -> Space {
        let form = Form::Resident { graph: Resident::default(), listed: Listed::default() };
        Space::new(name, spaces::Row { number, ..spaces::Row::default() }, form)
    }

    fn new(name: &str, row: spaces::Row, form: Form) -> Space {
        let name = name.to_owned();
        let (standing, tail, segments) = (Standing::default(), Tail::default(), segments::Row::default());
        Space { name, row, standing, form, tail, segments, loading: None }
    }

    /// Loads a space, to be resident; none if nothing was ever applied to it.
    pub fn load(store: &impl Store, name: &str) -> Result<Option<Space>, StoreError> {
        let Some(row) = spaces::get(store, name)? else { return Ok(None) };
        let segments = segments::get(store, row.space())?;
        let mut loader = Loader::new(segments);
        while !loader.step(store, &row, usize::MAX)? {}
        loader.read_moves(store, &row)?;
        let mut space = Space::new(name, row, Form::Paged(Pages::default()));
        space.segments = segments;
        space.tail = loader.take_tail();
        space.become_resident(store, loader)?;
        space.load_standing(store)?;
        Ok(Some(space))
    }

    /// Opens a space: loaded if it has at most so many nodes and justifications, else paged. None as above.
    pub fn open(store: &impl Store, name: &str, resident_max: u32) -> Result<Option<Space>, StoreError> {
        let Some(row) = spaces::get(store, name)? else { return Ok(None) };
        if row.items() <= u64::from(resident_max) {
            return Space::load(store, name);
        }
        let mut space = Space::new(name, row, Form::Paged(Pages::default()));
        space.segments = segments::get(store, space.number())?;
        space.tail = Tail::read(store, &space.row, &space.segments)?;
        space.load_standing(store)?;
        Ok(Some(space))
    }

    /// Brings a space that was opened to be read to a later moment of its store: at the cost of what came since.
    pub fn catch_up(&mut self, store: &impl Store) -> Result<(), StoreError> {
        let Some(row) = spaces::get(store, &self.name)? else { return Ok(()) };
        if row == self.row {
            return Ok(());
        }
        // A state that was restored may be behind what was read of the one before.
        let is_behind = row.last_offset < self.row.last_offset || row.items() < self.row.items();
        if is_behind || self.resident().is_some() || segments::get(store, row.space())? != self.segments {
            *self = Space::open(store, &self.name, 0)?.unwrap_or_else(|| Space::empty(&self.name, row.number));
            return Ok(());
        }
        let moved = self.tail.read_on(store, &self.row, &self.segments)?;
        let stood = std::mem::take(&mut self.standing);
        self.load_standing(store)?;
        self.row = row;
        // A justification that is covered once more moves no node.
        if let Form::Paged(pages) = &self.form
            && (!moved.is_empty() || stood != self.standing)
        {
            pages.forget_moved(&moved);
        }
        Ok(())
    }

    fn load_standing(&mut self, store: &impl Store) -> Result<(), StoreError> {
        let mut standing = Vec::new();
        scan_space(store, Table::Retractions, self.number(), |number, value| {
            let row: retractions::Row = decode(Table::Retractions, value)?;
            if row.stands() {
                standing.push((number, row.targets));
            }
            Ok(())
        })?;
        for (number, targets) in standing {
            let targets = known_targets(store, self.number(), &targets)?;
            self.standing.begin(number, &targets);
        }
        Ok(())
    }

    /// The number under which the tables have it.
    pub fn number(&self) -> SpaceNumber {
        self.row.space()
    }

    /// Its graph, if it is resident.
    pub fn resident(&self) -> Option<&Resident> {
        match &self.form {
            Form::Resident { graph, .. } => Some(graph),
            Form::Paged(_) => None,
        }
    }

    /// Every agent that wrote something, if it is resident.
    pub(crate) fn agents(&self) -> Vec<&str> {
        match &self.form {
            Form::Resident { listed, .. } => listed.agents().collect(),
            Form::Paged(_) => Vec::new(),
        }
    }

    /// What there is that a retraction can name.
    pub fn there<'a, R: Rows>(&'a self, rows: &'a R) -> There<'a, R> {
        There { rows, space: self }
    }

    fn view<'a, R>(&'a self, pages: &'a Pages, rows: &'a R) -> View<'a, R> {
        let sizes = Sizes { nodes: self.row.nodes, justifications: self.justifications() };
        View { rows, space: self.number(), sizes, pages, recent: self.tail.recent() }
    }

    /// How many justifications the graph has: its row counts one that is being applied already.
    fn justifications(&self) -> u32 {
        self.tail.justifications(&self.segments)
    }

    /// Numbers come from rows, which RocksDB's checksums guard; a wrong one is damage all the same, and no panic.
    pub(crate) fn check_node(&self, node: Node) -> Result<(), StoreError> {
        if node.0 < self.row.nodes {
            return Ok(());
        }
        Err(damaged(Table::Ids, format!("there is no node {}", node.0)))
    }

    /// The state of a node.
    pub fn node(&self, rows: &impl Rows, node: Node) -> Result<NodeState, StoreError> {
        self.check_node(node)?;
        match &self.form {
            Form::Resident { graph, .. } => read(graph.node(node)),
            Form::Paged(pages) => self.view(pages, rows).node(node),
        }
    }

    /// Whether a node has arrived.
    pub fn has_arrived(&self, rows: &impl Rows, node: Node) -> Result<bool, StoreError> {
        self.check_node(node)?;
        match &self.form {
            Form::Resident { graph, .. } => Ok(read(graph.premised(node))?.has_arrived),
            Form::Paged(pages) => Ok(self.view(pages, rows).premised(node)?.has_arrived),
        }
    }

    /// The newest justification of a node.
    pub fn newest_justification(&self, rows: &impl Rows, node: Node) -> Result<Option<Justification>, StoreError> {
        self.check_node(node)?;
        match &self.form {
            Form::Resident { graph, .. } => Ok(read(graph.node(node))?.newest_justification),
            Form::Paged(pages) => Ok(self.view(pages, rows).bare(node)?.newest_justification),
        }
    }

    /// The state of a justification.
    pub fn justification(&self, rows: &impl Rows, at: Justification) -> Result<JustificationState, StoreError> {
        match &self.form {
            Form::Resident { graph, .. } => read(graph.justification(at)),
            Form::Paged(pages) => self.view(pages, rows).justification(at),
        }
    }

    /// The justifications in which a node is a premise, the oldest first.
    pub fn uses_of(&self, rows: &impl Rows, node: Node) -> Result<Vec<Justification>, StoreError> {
        self.check_node(node)?;
        match &self.form {
            Form::Resident { graph, .. } => Ok(graph.uses_of(node)),
            Form::Paged(pages) => self.view(pages, rows).uses_of(node),
        }
    }

    /// Numbers a node that is named for the first time.
    pub(crate) fn name_node(&mut self) -> Node {
        let node = Node(self.row.nodes);
        self.row.nodes += 1;
        match &mut self.form {
            Form::Resident { graph, .. } => {
                graph.add_node();
            }
            Form::Paged(pages) => pages.name(node),
        }
        node
    }

    /// Takes in an item that arrives, so that later retractions find it.
    pub(crate) fn note(&mut self, arrived: &Arrived<'_>, batch: &mut Batch) {
        let number = self.number();
        self.tail.note(arrived, number, &self.segments, batch);
        if let Form::Resident { listed, .. } = &mut self.form {
            listed.insert(arrived);
        }
    }

    /// Takes in what an event did to nodes that were there.
    pub(crate) fn note_moves(&mut self, offset: u64, entries: &[moves::Entry]) {
        self.tail.moved(offset, entries);
    }

    /// The offsets of the events that moved a node's standing, oldest first.
    pub fn moves_of(&self, rows: &impl Rows, node: Node) -> Result<Vec<u64>, StoreError> {
        self.tail.moves_of(rows, self.number(), node)
    }

    /// Settles the graph: what was done, the changes in order, and the state of each node and justification whose row
    /// may differ from before.
    pub(crate) fn settle(&mut self, rows: &impl Rows, engine: Engine, edit: &Edit) -> Result<Outcome, StoreError> {
        let outcome = match &mut self.form {
            Form::Resident { graph, .. } => {
                let settled = read(engine(graph, edit))?;
                Outcome::read(graph, settled)?
            }
            Form::Paged(pages) => {
                let sizes = Sizes { nodes: self.row.nodes, justifications: self.tail.justifications(&self.segments) };
                let view = View { rows, space: self.row.space(), sizes, pages, recent: self.tail.recent() };
                let mut overlay = Overlay::over(&view);
                let settled = settle::settle(&mut overlay, edit)?;
                let outcome = Outcome::read(&overlay, settled)?;
                pages.absorb(overlay.into_edits());
                outcome
            }
        };
        if let (Some(justification), Some(justify)) = (outcome.settled.justified, &edit.justify) {
            match &self.form {
                Form::Resident { .. } => self.tail.justify(justification, &[]),
                Form::Paged(_) => self.tail.justify(justification, &justify.premises),
            }
        }
        if let Some(loader) = &mut self.loading {
            loader.changed(&outcome.settled);
        }
        Ok(outcome)
    }

    /// What an edit would do.
    pub(crate) fn preview(&self, rows: &impl Rows, edit: &Edit) -> Result<Vec<Change>, StoreError> {
        match &self.form {
            Form::Resident { graph, .. } => read(preview(graph, edit)),
            Form::Paged(pages) => preview(&self.view(pages, rows), edit),
        }
    }

    /// Writes a segment, if the tail has become long: with at least so many items, and a 64th of the space.
    pub(crate) fn write_segment(&mut self, items_min: usize, batch: &mut Batch) {
        let long = items_min.max((self.row.items() / 64) as usize);
        if self.tail.items() >= long {
            let uses = match &self.form {
                Form::Resident { graph, .. } => graph.uses_from(Justification::new(self.segments.justifications)),
                Form::Paged(pages) => {
                    pages.forget_uses();
                    self.tail.take_uses()
                }
            };
            self.segments = self.tail.write(self.number(), &self.row, &self.segments, uses, batch);
        }
    }

    /// Whether a paged space was read so much that it had better be resident: a sixteenth of it.
    pub(crate) fn is_busy(&self) -> bool {
        match &self.form {
            Form::Resident { .. } => false,
            Form::Paged(pages) => pages.misses() > self.row.items() / 16,
        }
    }

    /// Makes a paged space resident, some rows at a time, while it goes on being used. Only when no batch is open. Says
    /// whether it is.
    pub(crate) fn load_more(&mut self, store: &impl Store, rows_max: usize) -> Result<bool, StoreError> {
        if self.resident().is_some() {
            return Ok(true);
        }
        let mut loader =
            self.loading.take().unwrap_or_else(|| Box::new(Loader::beside(self.segments, self.tail.recent())));
        if loader.step(store, &self.row, rows_max)? {
            self.become_resident(store, *loader)?;
            return Ok(true);
        }
        self.loading = Some(loader);
        Ok(false)
    }

    fn become_resident(&mut self, store: &impl Store, loader: Loader) -> Result<(), StoreError> {
        let (graph, listed) = loader.finish(store, &self.row, self.tail.recent())?;
        self.form = Form::Resident { graph, listed };
        // The graph has them too.
        self.tail.take_uses();
        Ok(())
    }

    /// Bytes in use, as near as can be told from here.
    pub fn resident_bytes(&self) -> usize {
        let form = match &self.form {
            Form::Resident { graph, listed } => graph.resident_bytes() + listed.resident_bytes(),
            Form::Paged(pages) => pages.resident_bytes(),
        };
        let loading = self.loading.as_ref().map_or(0, |loader| loader.resident_bytes());
        size_of::<Space>() + self.name.len() + form + loading + self.tail.resident_bytes()
    }

    /// How many bytes the resident form of a space takes, from its sizes.
    pub(crate) fn bytes_if_resident(&self) -> usize {
        self.row.nodes as usize * 72 + self.row.justifications as usize * 72
    }
}

/// The one operation of the engine on a resident graph. Always [`settle::settle`], but in the tests that plant faults.
pub type Engine = fn(&mut Resident, &Edit) -> Result<Settled, std::convert::Infallible>;

/// What an operation did, and how it left what it touched.
pub(crate) struct Outcome {
    pub settled: Settled,
    /// In the order of `settled.touched`.
    pub touched: Vec<NodeState>,
    /// In the order of `settled.recovered`.
    pub recovered: Vec<JustificationState>,
}

impl Outcome {
    fn read<G: Graph>(graph: &G, settled: Settled) -> Result<Outcome, StoreError>
    where
        StoreError: From<G::Error>,
    {
        let touched = settled.touched.iter().map(|node| graph.node(*node)).collect::<Result<_, _>>()?;
        let recovered = settled.recovered.iter().map(|at| graph.justification(*at)).collect::<Result<_, _>>()?;
        Ok(Outcome { settled, touched, recovered })
    }
}

fn preview<G: Graph>(graph: &G, edit: &Edit) -> Result<Vec<Change>, G::Error> {
    Ok(settle::settle(&mut Overlay::over(graph), edit)?.changes)
}

/// Reading what is in memory does not fail.
fn read<T>(found: Result<T, std::convert::Infallible>) -> Result<T, StoreError> {
    let Ok(found) = found;
    Ok(found)
}

impl From<std::convert::Infallible> for StoreError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
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
