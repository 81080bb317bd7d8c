//! Workloads: memories that arrive one by one, the same for the same seed; into a graph, or as events.
//!
//! Memories are numbered by their place in the order of arrival. They are drawn in one of four shapes:
//!
//! - **random** (W1, W2, and ten times that): observations come first, each from a source drawn at random; then derived
//!   memories, each with 1 to 3 justifications of 1 to 3 premises. A premise is drawn from what arrived earlier; one in a
//!   hundred is drawn from what arrives later instead, so that there are cycles.
//! - **fan** (W3): one source under 100,000 memories, of which two in five have a second reason.
//! - **chain** (W4): one source under a chain of 100,000.
//! - **hub** (W5): one source under a memory on which others rest, and which has got a second reason since.

use recant_projections::justification::{
    graph::{Arrival, Item, Node},
    resident::Resident,
    settle::{Arriving, Edit, Justifying, settle},
};
use recant_proto::{
    id::Kind,
    v1::{self, Derived, Event, Justified, Observed, event::Body},
};

/// One premise in so many is drawn from what arrives later.
const BACK_EDGE_ONE_IN: u64 = 100;

/// How memories are drawn.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// So many sources, observations and derived memories.
    Random {
        /// Sources.
        sources: u32,
        /// Observations.
        observations: u32,
        /// Derived memories.
        derived: u32,
    },
    /// So many memories on one observation, and a second reason for two in five.
    Fan {
        /// Derived memories.
        derived: u32,
    },
    /// So many memories, each on the one before.
    Chain {
        /// Derived memories.
        derived: u32,
    },
    /// So many memories on one, which has two reasons.
    Hub {
        /// Memories that rest on the hub.
        dependents: u32,
    },
}

/// A workload.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// Its name in results.
    pub name: &'static str,
    /// How it is drawn.
    pub shape: Shape,
}

/// 10,000 memories, sources included.
pub const W1: Workload =
    Workload { name: "w1", shape: Shape::Random { sources: 500, observations: 2_000, derived: 7_500 } };

/// 950,000 memories: 95 times W1.
pub const W2: Workload =
    Workload { name: "w2", shape: Shape::Random { sources: 47_500, observations: 190_000, derived: 712_500 } };

/// 9.5 million memories: ten times W2.
pub const W2_TENFOLD: Workload = Workload {
    name: "w2_tenfold",
    shape: Shape::Random { sources: 475_000, observations: 1_900_000, derived: 7_125_000 },
};

/// One source under 100,000 memories.
pub const W3: Workload = Workload { name: "w3", shape: Shape::Fan { derived: 100_000 } };

/// A chain of 100,000.
pub const W4: Workload = Workload { name: "w4", shape: Shape::Chain { derived: 100_000 } };

/// A hub under 100,000.
pub const W5: Workload = Workload { name: "w5", shape: Shape::Hub { dependents: 100_000 } };

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drawn {
    /// An observation from a source.
    Observed {
        /// Its place.
        place: u32,
        /// Its source.
        source: u32,
    },
    /// A belief with its first justification.
    Derived {
        /// Its place.
        place: u32,
        /// The places of its premises.
        premises: Vec<u32>,
    },
    /// One more justification.
    Justified {
        /// The place of what it justifies.
        place: u32,
        /// The places of its premises.
        premises: Vec<u32>,
    },
}

impl Workload {
    /// How many sources there are.
    pub fn sources(&self) -> u32 {
        match self.shape {
            Shape::Random { sources, .. } => sources,
            Shape::Fan { .. } | Shape::Hub { .. } => 2,
            Shape::Chain { .. } => 1,
        }
    }

    /// Of how many sources one is retracted at a time; the first ones.
    pub fn retracted_sources(&self) -> u32 {
        match self.shape {
            Shape::Random { sources, .. } => sources,
            _ => 1,
        }
    }

    /// How many observations and derived memories there are.
    pub fn nodes(&self) -> u32 {
        match self.shape {
            Shape::Random { observations, derived, .. } => observations + derived,
            Shape::Fan { derived } => derived + 2,
            Shape::Chain { derived } => derived + 1,
            Shape::Hub { dependents } => dependents + 3,
        }
    }

    /// Draws it, in the order of arrival.
    pub fn draw(&self, seed: u64, visit: impl FnMut(Drawn)) {
        match self.shape {
            Shape::Random { sources, observations, derived } => {
                draw_random([sources, observations, derived], seed, visit);
            }
            Shape::Fan { derived } => draw_fan(derived, visit),
            Shape::Chain { derived } => draw_chain(derived, visit),
            Shape::Hub { dependents } => draw_hub(dependents, visit),
        }
    }
}

fn draw_random([sources, observations, derived]: [u32; 3], seed: u64, mut visit: impl FnMut(Drawn)) {
    let mut random = Random::new(seed);
    for place in 0..observations {
        visit(Drawn::Observed { place, source: random.below(sources) });
    }
    let memories = observations + derived;
    for place in observations..memories {
        visit(Drawn::Derived { place, premises: draw_premises(&mut random, place, memories) });
        for _ in 0..random.below(3) {
            visit(Drawn::Justified { place, premises: draw_premises(&mut random, place, memories) });
        }
    }
}

fn draw_premises(random: &mut Random, head_place: u32, memories: u32) -> Vec<u32> {
    let mut places: Vec<u32> = Vec::with_capacity(3);
    for _ in 0..1 + random.below(3) {
        let later = memories - head_place - 1;
        let is_back_edge = later > 0 && random.next().is_multiple_of(BACK_EDGE_ONE_IN);
        places.push(if is_back_edge { head_place + 1 + random.below(later) } else { random.below(head_place) });
    }
    places.sort_unstable();
    places.dedup();
    places
}

fn draw_fan(derived: u32, mut visit: impl FnMut(Drawn)) {
    (0..2).for_each(|place| visit(Drawn::Observed { place, source: place }));
    for place in 2..derived + 2 {
        visit(Drawn::Derived { place, premises: vec![0] });
        if place % 5 < 2 {
            visit(Drawn::Justified { place, premises: vec![1] });
        }
    }
}

fn draw_chain(derived: u32, mut visit: impl FnMut(Drawn)) {
    visit(Drawn::Observed { place: 0, source: 0 });
    (1..=derived).for_each(|place| visit(Drawn::Derived { place, premises: vec![place - 1] }));
}

fn draw_hub(dependents: u32, mut visit: impl FnMut(Drawn)) {
    visit(Drawn::Observed { place: 0, source: 0 });
    visit(Drawn::Derived { place: 1, premises: vec![0] });
    (2..dependents + 2).for_each(|place| visit(Drawn::Derived { place, premises: vec![1] }));
    visit(Drawn::Observed { place: dependents + 2, source: 1 });
    visit(Drawn::Justified { place: 1, premises: vec![dependents + 2] });
}

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

/// Lets a workload arrive in a graph, through the engine.
pub fn arrive(workload: &Workload, seed: u64) -> Arrived {
    let mut arrivals = Arrivals::new(workload, seed);
    workload.draw(seed, |drawn| arrivals.take(drawn));
    arrivals.arrived
}

struct Arrivals {
    arrived: Arrived,
    random: Random,
    arrivals: u32,
    /// The memories that have been named, by place.
    named: Vec<Option<Node>>,
}

impl Arrivals {
    fn new(workload: &Workload, seed: u64) -> Arrivals {
        let graph = Resident::default();
        let observations_of = vec![Vec::new(); workload.sources() as usize];
        let arrived = Arrived { graph, digest: 0, observations_of };
        Arrivals { arrived, random: Random::new(!seed), arrivals: 0, named: vec![None; workload.nodes() as usize] }
    }

    fn take(&mut self, drawn: Drawn) {
        match drawn {
            Drawn::Observed { place, source } => {
                let node = self.arrive(place, Kind::Observation, None);
                self.arrived.observations_of[source as usize].push(Item::Node(node));
            }
            Drawn::Derived { place, premises } => {
                self.arrive(place, Kind::Belief, Some(premises));
            }
            Drawn::Justified { place, premises } => {
                let head = self.name(place);
                let justify = Some(self.justifying(head, premises));
                self.settle(&Edit { justify, ..Edit::default() });
            }
        }
    }

    /// The node at a place. It is numbered when it is first named, by its own arrival or as a premise.
    fn name(&mut self, place: u32) -> Node {
        *self.named[place as usize].get_or_insert_with(|| self.arrived.graph.add_node())
    }

    fn arrive(&mut self, place: u32, kind: Kind, premises: Option<Vec<u32>>) -> Node {
        let node = self.name(place);
        let commitment = self.random.commitment();
        let arrival = Arrival::new(self.arrivals);
        self.arrivals += 1;
        let arrive = Some(Arriving { node, kind, arrival, commitment, covers: 0 });
        let justify = premises.map(|premises| self.justifying(node, premises));
        self.settle(&Edit { arrive, justify, ..Edit::default() });
        node
    }

    fn justifying(&mut self, head: Node, premises: Vec<u32>) -> Justifying {
        let premises = premises.into_iter().map(|place| self.name(place)).collect();
        Justifying { head, premises, commitment: self.random.commitment(), covers: 0 }
    }

    fn settle(&mut self, edit: &Edit) {
        let Ok(settled) = settle(&mut self.arrived.graph, edit);
        self.arrived.digest = self.arrived.digest.wrapping_add(settled.digest_delta);
    }
}

/// What is drawn, as an event of a space. `number` makes its id.
pub fn event(space: &str, number: u64, drawn: &Drawn) -> Event {
    let justification = |premises: &[u32]| {
        Some(v1::Justification {
            premises: premises.iter().copied().map(node_id).collect(),
            ..v1::Justification::default()
        })
    };
    let body = match drawn {
        Drawn::Observed { place, source } => {
            Body::Observed(Observed { node: node_id(*place), source: source_id(*source), ..Observed::default() })
        }
        Drawn::Derived { place, premises } => Body::Derived(Derived {
            node: node_id(*place),
            kind: "belief".to_owned(),
            justification: justification(premises),
            ..Derived::default()
        }),
        Drawn::Justified { place, premises } => {
            Body::Justified(Justified { node: node_id(*place), justification: justification(premises) })
        }
    };
    Event {
        id: format!("e{number}"),
        space: space.to_owned(),
        agent: "agent".to_owned(),
        run: format!("run-{}", number / 1_000),
        body: Some(body),
        ..Event::default()
    }
}

/// The id of the memory at a place.
pub fn node_id(place: u32) -> String {
    format!("memory-{place}")
}

/// The id of a source.
pub fn source_id(source: u32) -> String {
    format!("source-{source}")
}
