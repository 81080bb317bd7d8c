//! Spaces beside each other: ten thousand that are touched in turn, one of a million nodes that turns resident while others
//! are written to, and questions while a partition takes in as much as it can.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use prost::Message as _;
use recant_projections::{
    fold::{Forms, space::Space},
    query::{Moment, explain},
    store::rocks::Reader,
};
use recant_proto::v1::{Event, Observed, event::Body};

use crate::{
    durable::{Bed, DurableError, SPACE},
    heart::{Spread, spread},
    ingest,
    opening::MILLION,
    workload::{Random, Shape, Workload, event, node_id},
};

const SMALL: Workload = Workload { name: "small", shape: Shape::Random { sources: 2, observations: 5, derived: 15 } };

/// What ten thousand spaces in turn came to.
#[derive(Debug, Clone, Copy)]
pub struct InTurn {
    /// Events a second, each in another space than the one before, when there is memory for all of them.
    pub events_per_s: f64,
    /// The same when there is memory for an eighth of them.
    pub short_of_memory_events_per_s: f64,
    /// Events a second, all in one space.
    pub one_space_events_per_s: f64,
}

/// Measures spaces in turn: so many of them, each with 20 nodes, and each touched so many times.
pub fn in_turn(spaces: u32, rounds: u32, seed: u64) -> Result<InTurn, DurableError> {
    let directory = tempfile::tempdir()?;
    let mut bed = Bed::open(directory.path(), Forms::default())?;
    for space in 0..spaces {
        let mut events = Vec::new();
        SMALL.draw(seed.wrapping_add(u64::from(space)), |drawn| {
            events.push(event(&tenant(space), bed.next + events.len() as u64, &drawn));
        });
        events.iter().try_for_each(|event| bed.fold(event).map(drop))?;
        if space % 64 == 0 {
            bed.store()?;
            bed.partition.keep_within_budget();
        }
    }
    bed.store()?;
    bed.partition.keep_within_budget();
    let needed = bed.partition.resident_bytes();
    let touches = spaces * rounds;
    let events_per_s = touch(&mut bed, touches, |touch| tenant(touch % spaces))?;
    let one_space_events_per_s = touch(&mut bed, touches, |_| "one".to_owned())?;
    let next = bed.next;
    drop(bed);
    let little = Forms { memory_budget_bytes: needed / 8, ..Forms::default() };
    let mut bed = Bed { next, ..Bed::open(directory.path(), little)? };
    let short_of_memory_events_per_s = touch(&mut bed, touches, |touch| tenant(touch % spaces))?;
    Ok(InTurn { events_per_s, short_of_memory_events_per_s, one_space_events_per_s })
}

fn tenant(number: u32) -> String {
    format!("tenant-{number}")
}

fn touch(bed: &mut Bed, touches: u32, space_of: impl Fn(u32) -> String) -> Result<f64, DurableError> {
    let started = Instant::now();
    for number in 0..touches {
        bed.fold(&observed(&space_of(number), bed.next))?;
        if number % 1_000 == 999 {
            bed.partition.store()?;
            bed.partition.keep_within_budget();
        }
    }
    bed.store()?;
    Ok(f64::from(touches) / started.elapsed().as_secs_f64())
}

fn observed(space: &str, number: u64) -> Event {
    let observed = Observed { node: format!("later-{number}"), source: "inbox".into(), ..Observed::default() };
    Event {
        id: format!("touch-{number}"),
        space: space.to_owned(),
        agent: "agent-7".into(),
        occurred_at: "2026-11-30T09:00:00Z".into(),
        body: Some(Body::Observed(observed)),
        ..Event::default()
    }
}

/// What a load beside other spaces came to.
#[derive(Debug, Clone, Copy)]
pub struct Beside {
    /// An event of a small space, from its bytes to the store, before.
    pub before: Spread,
    /// The same while a million nodes turn resident in the same partition; what it waited for is counted.
    pub during: Spread,
    /// How long the longest of them took.
    pub during_max_us: f64,
    /// How many events there were meanwhile.
    pub events: usize,
}

/// Measures in a directory that holds the million nodes of [`crate::opening::prepare`].
pub fn beside_a_load(directory: &Path, seed: u64) -> Result<Beside, DurableError> {
    let mut bed = Bed::open(directory, Forms::default())?;
    let mut random = Random::new(seed);
    let before = (0..2_000).map(|_| one_event(&mut bed)).collect::<Result<Vec<_>, _>>()?;
    // It is read until it has become busy.
    let mut during = Vec::new();
    loop {
        let node = node_id(random.below(MILLION.nodes()));
        bed.partition.read(SPACE, |space, rows| space.uses_of(rows, recant_node(rows, space, &node)?))?;
        bed.partition.keep_within_budget();
        if bed.partition.load_busy()? {
            break;
        }
    }
    loop {
        let started = Instant::now();
        let goes_on = bed.partition.load_busy()?;
        let waited = started.elapsed();
        during.push(waited + one_event(&mut bed)?);
        if !goes_on {
            break;
        }
    }
    let events = during.len();
    let during_max_us = during.iter().max().map_or(0.0, |longest| longest.as_secs_f64() * 1e6);
    Ok(Beside { before: spread(before), during: spread(during), during_max_us, events })
}

fn recant_node(
    rows: &impl recant_projections::store::Read,
    space: &Space,
    id: &str,
) -> Result<recant_projections::justification::graph::Node, recant_projections::store::StoreError> {
    use recant_projections::tables::ids::{Namespace, get};
    let number = get(rows, space.number(), Namespace::Node, id)?.unwrap_or(0);
    Ok(recant_projections::justification::graph::Node(number))
}

fn one_event(bed: &mut Bed) -> Result<Duration, DurableError> {
    let value = observed("small", bed.next).encode_to_vec();
    let started = Instant::now();
    bed.fold_value("small", &value)?;
    bed.store()?;
    let took = started.elapsed();
    bed.partition.keep_within_budget();
    Ok(took)
}

/// What questions during ingest came to.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// `explain` of a node at random, when nothing else happens.
    pub at_rest: Spread,
    /// The same while the partition takes in batches of 1,000 events, one after the other.
    pub during_ingest: Spread,
    /// Events a second that it took in meanwhile.
    pub events_per_s: f64,
}

/// Measures questions as the gateway asks them: each of the state as it is then, from another thread than the one that writes,
/// of a space that is kept open.
pub fn reading(nodes: u32, questions: u32, seed: u64) -> Result<Asked, DurableError> {
    let directory = tempfile::tempdir()?;
    let mut bed = ingest::observed(directory.path())?;
    let mut ingesting = ingest::Beliefs::new(seed);
    while bed.next < u64::from(nodes) {
        ingesting.batch(&mut bed)?;
    }
    bed.partition.finish()?;
    let reader = bed.partition.stored().reader();
    let at_rest = ask(&reader, nodes, questions, seed)?;
    let is_over = AtomicBool::new(false);
    let (first, started) = (bed.next, Instant::now());
    let during_ingest = std::thread::scope(|scope| {
        let writing = scope.spawn(|| -> Result<(), DurableError> {
            while !is_over.load(Ordering::Relaxed) {
                ingesting.batch(&mut bed)?;
            }
            Ok(bed.partition.finish()?)
        });
        let asked = ask(&reader, nodes, questions, !seed);
        is_over.store(true, Ordering::Relaxed);
        writing.join().map_err(|_| std::io::Error::other("the writer panicked"))??;
        asked
    })?;
    let events_per_s = (bed.next - first) as f64 / started.elapsed().as_secs_f64();
    Ok(Asked { at_rest, during_ingest, events_per_s })
}

fn ask(reader: &Reader, nodes: u32, questions: u32, seed: u64) -> Result<Spread, DurableError> {
    let missing = || DurableError::from(std::io::Error::other("the space or the node is missing"));
    let mut random = Random::new(seed);
    let mut durations = Vec::new();
    let mut space = Space::open(&reader.moment(), SPACE, 0)?.ok_or_else(missing)?;
    for _ in 0..questions {
        let node = node_id(random.below(nodes));
        let started = Instant::now();
        let store = reader.moment();
        space.catch_up(&store)?;
        let moment = Moment::now(&store)?.ok_or_else(missing)?;
        explain(&store, &space, &moment, &node, 100)?.ok_or_else(missing)?;
        durations.push(started.elapsed());
    }
    Ok(spread(durations))
}
