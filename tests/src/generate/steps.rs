//! The abstract steps of a sequence, and proptest's strategies for them.
//!
//! Weights are set so that rings, overlapping covers and premises that arrive late are frequent; `tests/generate.rs`
//! measures how frequent, and fails if one becomes rare.

use proptest::{
    collection::vec,
    option,
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

/// The steps of one partition over nodes with the numbers below `universe`.
#[derive(Debug, Clone)]
pub struct Sequence {
    /// How many nodes can be named.
    pub universe: u8,
    /// Whether the log has its own key for commitments.
    pub has_key: bool,
    /// What is written, in order.
    pub steps: Vec<Step>,
}

/// One record: who writes, where and when, and what.
#[derive(Debug, Clone)]
pub struct Step {
    /// What is written.
    pub action: Action,
    /// In the second space rather than the first.
    pub in_other_space: bool,
    /// The number of the agent.
    pub agent: u8,
    /// The number of the run.
    pub run: u8,
    /// The writer's time.
    pub occurred_at: Option<u8>,
    /// How far the log's clock has moved since the last record; it can go back.
    pub quarters: i8,
    /// Whether an offset before this record is not used.
    pub leaves_gap: bool,
}

/// What one record says.
#[derive(Debug, Clone)]
pub enum Action {
    /// A node arrives, or comes again.
    Assert(Assertion),
    /// One more reason for a node that has arrived or not.
    Justify {
        /// The head.
        node: Name,
        /// The reason.
        reason: Reason,
    },
    /// A retraction begins.
    Retract(Retraction),
    /// A retraction ends.
    Reinstate {
        /// Which.
        which: Which,
        /// Only if nothing was applied since.
        only_if: Option<Mark>,
    },
    /// An earlier event comes again.
    Repeat {
        /// How many events ago.
        back: u8,
        /// How it comes.
        how: Repetition,
    },
    /// A source is declared.
    Declare(Declaration),
    /// An action, arrived or not, is settled.
    Settle {
        /// The action.
        node: u8,
        /// The outcome.
        outcome: u8,
    },
    /// A body that is reserved.
    Review {
        /// The action.
        node: u8,
    },
    /// Something is read.
    Read {
        /// The node.
        node: u8,
    },
    /// Something is handed on.
    Handoff,
    /// Time passes.
    Tick,
    /// The logic version that is in force is activated.
    ActivateLogic,
    /// A body that nobody knows.
    Unknown,
}

/// A node arrives, with its first reason unless it is an observation.
#[derive(Debug, Clone)]
pub struct Assertion {
    /// The node.
    pub node: Name,
    /// The reason.
    pub reason: Reason,
    /// Which part of its content differs from what it usually is.
    pub deviates: Option<u8>,
    /// The kind that an observation gives its source.
    pub source_kind: u8,
    /// Whether an action asks to be allowed, which is reserved.
    pub asks: bool,
}

/// A reason.
#[derive(Debug, Clone)]
pub struct Reason {
    /// A number if it has an id of its own.
    pub id: Option<u8>,
    /// Nodes, arrived or not, the head among them or not.
    pub premises: Vec<Name>,
}

/// A retraction.
#[derive(Debug, Clone)]
pub struct Retraction {
    /// A number if it has an id of its own.
    pub id: Option<u8>,
    /// What is no longer trusted.
    pub targets: Vec<(Aim, Option<Interval>)>,
    /// What it lifts.
    pub replaces: Vec<Which>,
    /// Only if nothing was applied since.
    pub only_if: Option<Mark>,
}

/// What a target names.
#[derive(Debug, Clone)]
pub enum Aim {
    /// A source.
    Source(u8),
    /// A node.
    Node(Name),
    /// A justification.
    Justification(Which),
    /// An agent, in all its runs or one.
    Agent {
        /// The agent.
        agent: u8,
        /// The run.
        run: Option<u8>,
    },
}

/// A window, its ends in quarters of an hour since the sequence began, in either order.
#[derive(Debug, Clone)]
pub struct Interval {
    /// One end.
    pub from: Option<u8>,
    /// The other end.
    pub to: Option<u8>,
    /// The clock.
    pub clock: Clock,
}

/// The clock of a window.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// The one that the target has by default.
    Default,
    /// The writer's.
    Observed,
    /// The log's.
    Log,
}

/// A node.
#[derive(Debug, Clone)]
pub enum Name {
    /// One that was written, counted from the latest.
    Written(u8),
    /// An observation that was written, counted from the latest.
    Observed(u8),
    /// One that was written and is no observation, counted from the latest.
    Reasoned(u8),
    /// One that something was to rest on, or was a reason for, and that is not written yet.
    Awaited(u8),
    /// One with a number, written or not.
    Number(u8),
}

/// A retraction or justification.
#[derive(Debug, Clone)]
pub enum Which {
    /// One that was issued, counted from the latest.
    Issued(u8),
    /// One with an id of its own, issued or not.
    Named(u8),
}

/// A position: this many offsets before the record that carries it.
#[derive(Debug, Clone)]
pub struct Mark {
    /// How many offsets before.
    pub back: u8,
    /// In a partition that is not the record's.
    pub in_other_partition: bool,
}

/// How an event comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repetition {
    /// With the same bytes.
    Same,
    /// The same event in the other wire form.
    InJson,
    /// With the same id and other bytes.
    OtherBytes,
    /// With another id and otherwise the same.
    OtherId,
}

/// A source is declared.
#[derive(Debug, Clone)]
pub struct Declaration {
    /// The source.
    pub source: u8,
    /// Its kind, or none.
    pub kind: u8,
    /// Its name.
    pub name: Option<u8>,
    /// One attribute.
    pub attribute: Option<u8>,
    /// Trust, group and cost.
    pub vouched: Option<u8>,
    /// Whether an operator says so.
    pub by_operator: bool,
}

/// Sequences of 1 to `steps_max` steps over 3 to `universe_max` nodes.
pub fn sequences(universe_max: u8, steps_max: usize) -> impl Strategy<Value = Sequence> {
    let universe = prop_oneof![2 => 3..=universe_max.min(12), 2 => 3..=universe_max.min(30), 1 => 3..=universe_max];
    (universe, any::<bool>(), vec(step(), 1..=steps_max)).prop_map(|(universe, has_key, steps)| Sequence {
        universe,
        has_key,
        steps,
    })
}

/// The sequences that a seed gives: always the same, without end.
pub fn seeded(seed: u64, universe_max: u8, steps_max: usize) -> impl Iterator<Item = Sequence> {
    let seed: [u8; 32] = std::array::from_fn(|index| seed.to_le_bytes()[index % 8]);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = sequences(universe_max, steps_max);
    // None of the strategies here can fail to give a value.
    std::iter::from_fn(move || strategy.new_tree(&mut runner).ok().map(|tree| tree.current()))
}

fn step() -> impl Strategy<Value = Step> {
    let quarters = prop_oneof![2 => Just(0_i8), 4 => 1..=2_i8, 1 => -8..=-1_i8, 1 => 3..=6_i8];
    let occurred_at = option::weighted(0.4, 0..96_u8);
    (action(), prop::bool::weighted(0.12), 0..4_u8, 0..3_u8, occurred_at, quarters, prop::bool::weighted(0.1)).prop_map(
        |(action, in_other_space, agent, run, occurred_at, quarters, leaves_gap)| Step {
            action,
            in_other_space,
            agent,
            run,
            occurred_at,
            quarters,
            leaves_gap,
        },
    )
}

fn action() -> impl Strategy<Value = Action> {
    let only_if = option::weighted(0.08, mark());
    let reinstate = (which(), only_if).prop_map(|(which, only_if)| Action::Reinstate { which, only_if });
    let how = prop_oneof![
        1 => Just(Repetition::Same),
        1 => Just(Repetition::InJson),
        1 => Just(Repetition::OtherBytes),
        3 => Just(Repetition::OtherId),
    ];
    let head = prop_oneof![3 => (0..30_u8).prop_map(Name::Reasoned), 1 => (0..=u8::MAX).prop_map(Name::Number)];
    prop_oneof![
        40 => assertion().prop_map(Action::Assert),
        16 => (head, reason()).prop_map(|(node, reason)| Action::Justify { node, reason }),
        13 => retraction().prop_map(Action::Retract),
        14 => reinstate,
        8 => (0..40_u8, how).prop_map(|(back, how)| Action::Repeat { back, how }),
        4 => declaration().prop_map(Action::Declare),
        2 => (0..=u8::MAX, 0..4_u8).prop_map(|(node, outcome)| Action::Settle { node, outcome }),
        3 => prop_oneof![
            (0..=u8::MAX).prop_map(|node| Action::Review { node }),
            (0..=u8::MAX).prop_map(|node| Action::Read { node }),
            Just(Action::Handoff),
            Just(Action::Tick),
            Just(Action::ActivateLogic),
            Just(Action::Unknown),
        ],
    ]
}

fn assertion() -> impl Strategy<Value = Assertion> {
    let node = prop_oneof![5 => (0..=u8::MAX).prop_map(Name::Number), 4 => (0..8_u8).prop_map(Name::Awaited)];
    (node, reason(), option::weighted(0.04, 0..3_u8), 0..4_u8, prop::bool::weighted(0.05))
        .prop_map(|(node, reason, deviates, source_kind, asks)| Assertion { node, reason, deviates, source_kind, asks })
}

fn reason() -> impl Strategy<Value = Reason> {
    let premises = prop_oneof![6 => vec(name(), 1), 3 => vec(name(), 2), 1 => vec(name(), 3)];
    (option::weighted(0.25, 0..16_u8), premises).prop_map(|(id, premises)| Reason { id, premises })
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        4 => (0..30_u8).prop_map(Name::Observed),
        1 => (0..30_u8).prop_map(Name::Written),
        4 => (0..5_u8).prop_map(Name::Reasoned),
        2 => (0..30_u8).prop_map(Name::Reasoned),
        3 => (0..=u8::MAX).prop_map(Name::Number),
    ]
}

fn retraction() -> impl Strategy<Value = Retraction> {
    let targets = prop_oneof![5 => vec(target(), 1), 2 => vec(target(), 2), 1 => vec(target(), 3)];
    let replaces = prop_oneof![3 => vec(which(), 0), 1 => vec(which(), 1..=2)];
    (option::weighted(0.4, 0..16_u8), targets, replaces, option::weighted(0.08, mark()))
        .prop_map(|(id, targets, replaces, only_if)| Retraction { id, targets, replaces, only_if })
}

fn target() -> impl Strategy<Value = (Aim, Option<Interval>)> {
    let aim = prop_oneof![
        5 => (0..4_u8).prop_map(Aim::Source),
        3 => name().prop_map(Aim::Node),
        3 => which().prop_map(Aim::Justification),
        3 => (0..3_u8, option::weighted(0.5, 0..3_u8)).prop_map(|(agent, run)| Aim::Agent { agent, run }),
    ];
    let clock = prop_oneof![2 => Just(Clock::Default), 1 => Just(Clock::Observed), 1 => Just(Clock::Log)];
    let end = || option::weighted(0.6, 0..64_u8);
    let interval = prop_oneof![
        8 => (end(), end(), clock.clone()).prop_map(|(from, to, clock)| Interval { from, to, clock }),
        1 => (0..64_u8, clock).prop_map(|(at, clock)| Interval { from: Some(at), to: Some(at), clock }),
    ];
    (aim, option::weighted(0.4, interval))
}

fn which() -> impl Strategy<Value = Which> {
    prop_oneof![4 => (0..5_u8).prop_map(Which::Issued), 1 => (0..16_u8).prop_map(Which::Named)]
}

fn mark() -> impl Strategy<Value = Mark> {
    (0..6_u8, prop::bool::weighted(0.1)).prop_map(|(back, in_other_partition)| Mark { back, in_other_partition })
}

fn declaration() -> impl Strategy<Value = Declaration> {
    let small = || option::weighted(0.4, 0..4_u8);
    (0..4_u8, 0..4_u8, small(), small(), option::weighted(0.2, 0..4_u8), prop::bool::weighted(0.3)).prop_map(
        |(source, kind, name, attribute, vouched, by_operator)| Declaration {
            source,
            kind,
            name,
            attribute,
            vouched,
            by_operator,
        },
    )
}
