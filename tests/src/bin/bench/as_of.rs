//! A question about the past beside the same one about the present: `explain` over a million nodes with ten million entries of
//! history, of nodes and moments drawn at random.
//!
//! Both read the same space in pages, as a command does; which of the two is asked first changes from node to node, so that
//! neither always finds read what the other had to read.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    durable::{Bed, DurableError, SPACE, reinstatement, retraction},
    heart::{Spread, spread},
    workload::{Random, Shape, Workload, node_id},
};
use recant_projections::{
    fold::{Forms, space::Space},
    query::{Moment, explain},
    store::rocks::RocksStore,
};

/// A million nodes, on so few sources that with each a thousand nodes fall.
const MILLION: Workload =
    Workload { name: "as_of", shape: Shape::Random { sources: 500, observations: 200_000, derived: 800_000 } };

/// As many as `recant explain` shows unless it is told otherwise.
const NODES_MAX: usize = 200;

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Nodes.
    pub nodes: u32,
    /// Entries of history: births and moves.
    pub entries: u64,
    /// A question about the past.
    pub past: Spread,
    /// The same about the present.
    pub now: Spread,
}

/// Measures so many questions of each kind over so many entries of history.
pub fn measure(entries: u64, questions: u32, seed: u64) -> Result<Figures, DurableError> {
    let directory = tempfile::tempdir()?;
    let (first_offset, entries) = fill(directory.path(), entries, seed)?;
    let missing = || DurableError::from(std::io::Error::other("the space or a node is missing"));
    let store = RocksStore::follow(directory.path())?;
    let space = Space::open(&store, SPACE, Forms::default().resident_max)?.ok_or_else(missing)?;
    let now = Moment::now(&store)?.ok_or_else(missing)?;
    let mut random = Random::new(!seed);
    let ask = |moment: &Moment, node: &str| -> Result<Duration, DurableError> {
        let started = Instant::now();
        explain(&store, &space, moment, node, NODES_MAX)?.ok_or_else(missing)?;
        Ok(started.elapsed())
    };
    let moves = (now.position.offset - first_offset) as u32;
    let (mut of_past, mut of_now) = (Vec::new(), Vec::new());
    for question in 0..questions {
        let node = node_id(random.below(MILLION.nodes()));
        let then = now.clone().at_offset(first_offset + u64::from(random.below(moves)));
        if question % 2 == 0 {
            of_now.push(ask(&now, &node)?);
            of_past.push(ask(&then, &node)?);
        } else {
            of_past.push(ask(&then, &node)?);
            of_now.push(ask(&now, &node)?);
        }
    }
    Ok(Figures { nodes: MILLION.nodes(), entries, past: spread(of_past), now: spread(of_now) })
}

/// Lets the nodes arrive, and turns many of them until there are so many entries: from which offset on they turned, and how
/// many entries there are.
fn fill(directory: &Path, entries_min: u64, seed: u64) -> Result<(u64, u64), DurableError> {
    let mut bed = Bed::open(directory, Forms { resident_max: u32::MAX, ..Forms::default() })?;
    bed.arrive(&MILLION, seed)?;
    let first_offset = bed.next;
    let mut random = Random::new(seed);
    let mut entries = u64::from(MILLION.nodes());
    while entries < entries_min {
        let retracted = retraction(bed.next, random.below(MILLION.sources()));
        for event in [&retracted, &reinstatement(bed.next + 1, &retracted)] {
            // One of what a cascade publishes is its summary.
            entries += (bed.fold(event)?.outputs.len() as u64).saturating_sub(1);
        }
        if bed.partition.open_rows() > 1_000 {
            bed.partition.store()?;
        }
    }
    bed.store()?;
    Ok((first_offset, entries))
}
