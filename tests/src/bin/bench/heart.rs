//! The heart: what it costs to retract a source and to reinstate it, beside recomputing everything.
//!
//! An operation begins with the observations of one source, and ends with the changes in the order in which they are
//! published, each with its distance, and the digest after them. Both sides do all of that, in memory, on one thread.
//! Nothing is decoded, looked up by id, stored or published.
//!
//! The opponent is measured twice: over a flat copy of the graph that suits it best, and over the engine's own arrays.
//! What it does is in [`crate::recompute`].
//!
//! Engine and recompute go through the same operations before and after the measured ones, and must agree each time on
//! every status, every change with its order and distance, and the digest. If they do not, there is no result.

use std::time::{Duration, Instant};

use recant_projections::justification::{
    graph::{Item, Node, NodeState},
    settle::{self, Edit, Settled, settle},
};

use crate::{
    recompute::{Change, Recompute, Rows},
    workload::{Arrived, Random, Workload, arrive},
};

/// How often each thing is done.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    /// Rounds of the engine alone that are measured.
    pub measured: u32,
    /// Rounds in which the opponent is measured and compared, before the engine's, and as many after them.
    pub compared: u32,
}

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// The median of the recompute over a flat copy, by the engine's.
    pub ratio_flat_copy: f64,
    /// The median of the recompute over the engine's own arrays, by the engine's.
    pub ratio_in_memory: f64,
    /// Retracting a source.
    pub retract: Spread,
    /// Reinstating it.
    pub reinstate: Spread,
    /// Recomputing at a retraction, over a flat copy.
    pub recompute: Spread,
    /// Recomputing at a retraction, over the engine's own arrays.
    pub recompute_same_arrays: Spread,
    /// Nodes that lost their support and found no other at once, for one change of status, over all retractions.
    pub suspects_per_change: f64,
    /// Changes of status in a retraction.
    pub changes_median: usize,
    /// Memories, justifications and premises take so many bytes for each memory.
    pub bytes_per_memory: usize,
}

/// The middle and the end of many durations.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    /// Half of them are at most so long.
    pub median_us: f64,
    /// 99 in 100 are at most so long.
    pub p99_us: f64,
}

/// Engine and recompute do not agree: a fault, and no result.
#[derive(Debug, Clone, thiserror::Error)]
#[error("engine and recompute differ in {what} after round {round}")]
pub struct Disagreement {
    what: &'static str,
    round: u32,
}

/// Measures one workload.
pub fn measure(workload: &Workload, rounds: Rounds, seed: u64) -> Result<Figures, Disagreement> {
    let mut engine = Engine(arrive(workload, seed));
    let mut random = Random::new(!seed);
    let rows = Rows::of(&engine.0.graph);
    let mut recompute = Recompute::new(&engine.0.graph, &rows);
    let mut opponents = Opponents::default();
    compare(&engine.0, &recompute, 0)?;
    for round in 0..rounds.compared {
        engine.compared_round(
            round,
            random.below(workload.retracted_sources()),
            &mut recompute,
            &rows,
            &mut opponents,
        )?;
    }
    let mut tally = Tally::default();
    for _ in 0..rounds.measured {
        engine.measured_round(random.below(workload.retracted_sources()), &mut tally);
    }
    compare(&engine.0, &recompute, rounds.compared)?;
    for round in rounds.compared..2 * rounds.compared {
        engine.compared_round(
            round,
            random.below(workload.retracted_sources()),
            &mut recompute,
            &rows,
            &mut opponents,
        )?;
    }
    let memories = workload.sources() + workload.nodes();
    let (retract, recompute) = (spread(tally.retract), spread(opponents.rows));
    let recompute_same_arrays = spread(opponents.same_arrays);
    tally.changes.sort_unstable();
    Ok(Figures {
        ratio_flat_copy: recompute.median_us / retract.median_us,
        ratio_in_memory: recompute_same_arrays.median_us / retract.median_us,
        retract,
        reinstate: spread(tally.reinstate),
        recompute,
        recompute_same_arrays,
        suspects_per_change: tally.suspects as f64 / tally.changes.iter().sum::<usize>() as f64,
        changes_median: tally.changes.get(tally.changes.len() / 2).copied().unwrap_or(0),
        bytes_per_memory: engine.0.graph.resident_bytes() / memories as usize,
    })
}

#[derive(Default)]
struct Opponents {
    rows: Vec<Duration>,
    same_arrays: Vec<Duration>,
}

#[derive(Default)]
struct Tally {
    retract: Vec<Duration>,
    reinstate: Vec<Duration>,
    changes: Vec<usize>,
    suspects: u64,
}

/// What the engine did in one operation.
struct Done {
    settled: Settled,
    took: Duration,
}

struct Engine(Arrived);

impl Engine {
    fn operate(&mut self, source: u32, put: impl FnOnce(Vec<Item>) -> Edit) -> Done {
        let started = Instant::now();
        let edit = put(self.0.observations_of[source as usize].clone());
        let Ok(settled) = settle(&mut self.0.graph, &edit);
        self.0.digest = self.0.digest.wrapping_add(settled.digest_delta);
        Done { settled, took: started.elapsed() }
    }

    fn retract(&mut self, source: u32) -> Done {
        self.operate(source, |cover| Edit { cover, ..Edit::default() })
    }

    fn reinstate(&mut self, source: u32) -> Done {
        self.operate(source, |uncover| Edit { uncover, ..Edit::default() })
    }

    fn measured_round(&mut self, source: u32, tally: &mut Tally) {
        let retracted = self.retract(source);
        tally.retract.push(retracted.took);
        tally.changes.push(retracted.settled.changes.len());
        tally.suspects += retracted.settled.work.suspects;
        tally.reinstate.push(self.reinstate(source).took);
    }

    fn compared_round(
        &mut self,
        round: u32,
        source: u32,
        recompute: &mut Recompute,
        rows: &Rows,
        opponents: &mut Opponents,
    ) -> Result<(), Disagreement> {
        let items = self.0.observations_of[source as usize].clone();
        let retracted = self.retract(source);
        opponents.rows.push(timed(|| recompute.cover(&items, rows).len()));
        compare_changes(&retracted.settled.changes, recompute.changes(), round)?;
        compare(&self.0, recompute, round)?;
        let reinstated = self.reinstate(source);
        recompute.uncover(&items, rows);
        compare_changes(&reinstated.settled.changes, recompute.changes(), round)?;
        compare(&self.0, recompute, round)?;
        // The other form of the opponent, on the same source: statuses, changes and digest must come out the same.
        opponents.same_arrays.push(timed(|| recompute.cover(&items, &self.0.graph).len()));
        compare_changes(&retracted.settled.changes, recompute.changes(), round)?;
        recompute.uncover(&items, &self.0.graph);
        compare(&self.0, recompute, round)
    }
}

fn timed(operate: impl FnOnce() -> usize) -> Duration {
    let started = Instant::now();
    std::hint::black_box(operate());
    started.elapsed()
}

fn compare_changes(engine: &[settle::Change], recompute: &[Change], round: u32) -> Result<(), Disagreement> {
    let engine = engine.iter().map(|change| Change {
        node: change.moved.node.0,
        is_in: change.moved.after.is_in(),
        distance: change.distance,
    });
    if engine.eq(recompute.iter().copied()) { Ok(()) } else { Err(Disagreement { what: "changes", round }) }
}

fn compare(engine: &Arrived, recompute: &Recompute, round: u32) -> Result<(), Disagreement> {
    if engine.digest != recompute.digest() {
        return Err(Disagreement { what: "the digest", round });
    }
    let agree = |(node, state): (Node, &NodeState)| state.is_in == recompute.is_in(node);
    if engine.graph.nodes().all(agree) { Ok(()) } else { Err(Disagreement { what: "statuses", round }) }
}

/// The middle and the end of some durations.
pub fn spread(mut durations: Vec<Duration>) -> Spread {
    durations.sort_unstable();
    let at = |hundredths: usize| {
        let place = durations.len().saturating_sub(1) * hundredths / 100;
        durations.get(place).map_or(0.0, |duration| duration.as_secs_f64() * 1e6)
    };
    Spread { median_us: at(50), p99_us: at(99) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Shape;

    const SMALL: Workload =
        Workload { name: "small", shape: Shape::Random { sources: 20, observations: 80, derived: 300 } };

    /// Protects the claim that there is no result unless both sides agree: on graphs with cycles they do, and each thing
    /// that is compared is found when it differs.
    #[test]
    fn both_sides_agree_and_a_difference_is_refused() {
        for seed in 0..20 {
            let rounds = Rounds { measured: 20, compared: 20 };
            measure(&SMALL, rounds, seed).expect("engine and recompute agree");
        }

        let mut engine = Engine(arrive(&SMALL, 1));
        let rows = Rows::of(&engine.0.graph);
        let mut recompute = Recompute::new(&engine.0.graph, &rows);
        let items = engine.0.observations_of[0].clone();
        let retracted = engine.retract(0);
        assert_eq!(compare(&engine.0, &recompute, 0).expect_err("only one side has retracted").what, "the digest");
        recompute.cover(&items, &rows);
        compare(&engine.0, &recompute, 0).expect("both have retracted");

        let mut changes = recompute.changes().to_vec();
        compare_changes(&retracted.settled.changes, &changes, 0).expect("the changes are the same");
        changes[0].distance += 1;
        compare_changes(&retracted.settled.changes, &changes, 0).expect_err("a distance differs");
        changes[0].distance -= 1;
        changes.swap(0, 1);
        compare_changes(&retracted.settled.changes, &changes, 0).expect_err("the order differs");

        let digest = engine.0.digest;
        engine.reinstate(0);
        engine.0.digest = digest;
        assert_eq!(compare(&engine.0, &recompute, 0).expect_err("statuses differ").what, "statuses");
    }
}
