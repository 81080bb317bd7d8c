//! Workloads: graphs of memories that are the same for the same seed, and their arrival through the engine.
//!
//! Memories are numbered by their place in the order of arrival. Observations come first, each from a source drawn at
//! random; then derived memories, each with 1 to 3 justifications of 1 to 3 premises. A premise is drawn from what arrived
//! earlier; one in a hundred is drawn from what arrives later instead, so that there are cycles.

use recant_projections::justification::{
    graph::{Arrival, Item, Node, Sizes},
    resident::Resident,
    settle::{Arriving, Edit, Justifying, settle},
};
use recant_proto::id::Kind;

/// One premise in so many is drawn from what arrives later.
const BACK_EDGE_ONE_IN: u64 = 100;

/// How large a graph is.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// Its name in results.
    pub name: &'static str,
    /// Sources.
    pub sources: u32,
    /// Observations.
    pub observations: u32,
    /// Derived memories.
    pub derived: u32,
}

/// 10,000 memories, sources included.
pub const W1: Workload = Workload { name: "w1", sources: 500, observations: 2_000, derived: 7_500 };

/// 950,000 memories: 95 times W1.
pub const W2: Workload = Workload { name: "w2", sources: 47_500, observations: 190_000, derived: 712_500 };

/// SplitMix64 (Steele, Lea and Flood 2014): small, and the same everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; the bias of this way is below 2^-32 for the bounds used here.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u32
    }

    /// A commitment. The real ones are hashes of content, and look as random.
    fn commitment(&mut self) -> u128 {
        (u128::from(self.next()) << 64) | u128::from(self.next())
    }
}

/// A workload that has arrived.
#[derive(Debug)]
pub struct Arrived {
    /// The graph.
    pub graph: Resident,
    /// The sum of the digest's changes.
    pub digest: u128,
    /// The observations of each source.
    pub observations_of: Vec<Vec<Item>>,
}

/// Lets a workload arrive, event by event, through the engine.
pub fn arrive(workload: &Workload, seed: u64) -> Arrived {
    let mut arrivals = Arrivals::new(workload, seed);
    let mut observations_of = vec![Vec::new(); workload.sources as usize];
    for place in 0..workload.observations {
        let node = arrivals.arrive(place, Kind::Observation, None);
        let source = arrivals.random.below(workload.sources);
        observations_of[source as usize].push(Item::Node(node));
    }
    for place in workload.observations..workload.observations + workload.derived {
        let premises = arrivals.draw_premises(place);
        let head = arrivals.arrive(place, Kind::Belief, Some(premises));
        for _ in 0..arrivals.random.below(3) {
            let premises = arrivals.draw_premises(place);
            let justify = arrivals.justifying(head, premises);
            arrivals.settle(&Edit { justify: Some(justify), ..Edit::default() });
        }
    }
    Arrived { graph: arrivals.graph, digest: arrivals.digest, observations_of }
}

struct Arrivals {
    graph: Resident,
    digest: u128,
    random: Random,
    /// The memories that have been named, by place.
    named: Vec<Option<Node>>,
}

impl Arrivals {
    fn new(workload: &Workload, seed: u64) -> Arrivals {
        let memories = workload.observations + workload.derived;
        let mut graph = Resident::default();
        // Two justifications for each derived memory and two premises for each of those, on average.
        let (justifications, premises) = (2 * workload.derived, 4 * workload.derived);
        graph.reserve(Sizes { nodes: memories, justifications }, premises as usize);
        Arrivals { graph, digest: 0, random: Random::new(seed), named: vec![None; memories as usize] }
    }

    /// The node at a place. It is numbered when it is first named, by its own arrival or as a premise.
    fn name(&mut self, place: u32) -> Node {
        *self.named[place as usize].get_or_insert_with(|| self.graph.add_node())
    }

    fn arrive(&mut self, place: u32, kind: Kind, premises: Option<Vec<Node>>) -> Node {
        let node = self.name(place);
        let commitment = self.random.commitment();
        let arrive = Some(Arriving { node, kind, arrival: Arrival::new(place), commitment, covers: 0 });
        let justify = premises.map(|premises| self.justifying(node, premises));
        self.settle(&Edit { arrive, justify, ..Edit::default() });
        node
    }

    fn justifying(&mut self, head: Node, premises: Vec<Node>) -> Justifying {
        Justifying { head, premises, commitment: self.random.commitment(), covers: 0 }
    }

    fn draw_premises(&mut self, head_place: u32) -> Vec<Node> {
        let memories = self.named.len() as u32;
        let mut places: Vec<u32> = Vec::with_capacity(3);
        for _ in 0..1 + self.random.below(3) {
            let later = memories - head_place - 1;
            let is_back_edge = later > 0 && self.random.next().is_multiple_of(BACK_EDGE_ONE_IN);
            places.push(if is_back_edge {
                head_place + 1 + self.random.below(later)
            } else {
                self.random.below(head_place)
            });
        }
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|place| self.name(place)).collect()
    }

    fn settle(&mut self, edit: &Edit) {
        let Ok(settled) = settle(&mut self.graph, edit);
        self.digest = self.digest.wrapping_add(settled.digest_delta);
    }
}
