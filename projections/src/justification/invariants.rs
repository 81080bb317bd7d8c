//! What must hold between operations. Tests check it after every step, `recant doctor` on demand.
//!
//! I1 `missing` of a justification = its premises that are not IN, plus one if it is covered; `waiting` = its premises
//!    that have not arrived.
//! I2 `valid`, `open` and `ready` of a node = its justifications with nothing missing; uncovered; uncovered and waiting
//!    for nothing.
//! I3 A derived node that is IN has its own support, valid, with every premise ranked below it, and nothing covers it; one
//!    that is OUT has no valid justification, or is covered, or has not arrived.
//! I4 An observation is IN exactly when it has arrived and nothing covers it.
//! I5 No working marks; `standing` is what the counts say.
//!
//! I1 to I3 together prove that the statuses are the least fixed point: by I1 and I3 they are a fixed point, and by the
//! ranks of I3 whatever is IN is so by a finite proof.

use super::{
    graph::{Graph, Justification, JustificationState, Node, NodeState},
    resident::Resident,
};

/// An invariant that does not hold, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// `I1` to `I5`.
    pub invariant: &'static str,
    /// What was found.
    pub found: String,
}

/// Every violation in a graph, up to `violations_max`.
pub fn check(graph: &Resident, violations_max: usize) -> Vec<Broken> {
    let nodes = graph.nodes().flat_map(|(node, state)| check_node(graph, node, state));
    let justifications = graph.justifications().flat_map(|(at, state)| check_justification(graph, at, state));
    justifications.chain(nodes).take(violations_max).collect()
}

fn broken(invariant: &'static str, holds: bool, found: impl FnOnce() -> String) -> Option<Broken> {
    (!holds).then(|| Broken { invariant, found: found() })
}

fn check_justification(graph: &Resident, at: Justification, state: &JustificationState) -> Vec<Broken> {
    let premises: Vec<NodeState> = graph.premises_of(state).map(|node| read(graph, node)).collect();
    let missing = count(&premises, |premise| !premise.is_in) + u32::from(state.covers > 0);
    let waiting = count(&premises, |premise| premise.arrival.is_none());
    broken("I1", (u32::from(state.missing), u32::from(state.waiting)) == (missing, waiting), || {
        format!(
            "justification {}: missing {}, counted {missing}; waiting {}, counted {waiting}",
            at.number(),
            state.missing,
            state.waiting
        )
    })
    .into_iter()
    .collect()
}

fn check_node(graph: &Resident, node: Node, state: &NodeState) -> Vec<Broken> {
    let own: Vec<JustificationState> =
        graph.justifications_of(node).into_iter().map(|at| read_justification(graph, at)).collect();
    let counted = [
        count(&own, |justification| justification.missing == 0),
        count(&own, |justification| justification.covers == 0),
        count(&own, |justification| justification.covers == 0 && justification.waiting == 0),
    ];
    let kept = [state.valid, state.open, state.ready];
    let status = if state.is_observation() {
        broken("I4", state.is_in == state.may_be_in(), || format!("observation {}: IN is {}", node.0, state.is_in))
    } else if state.is_in {
        broken("I3", state.may_be_in() && is_well_supported(graph, node, state), || {
            format!("node {}: IN by {:?} at rank {}", node.0, state.support, state.rank)
        })
    } else {
        broken("I3", state.valid == 0 || !state.may_be_in(), || {
            format!("node {}: OUT with {} valid", node.0, state.valid)
        })
    };
    let standing = state.arrival.is_none() || state.standing == state.judge();
    [
        broken("I2", kept == counted, || format!("node {}: valid, open, ready {kept:?}, counted {counted:?}", node.0)),
        status,
        broken("I5", state.marks.are_clear() && standing, || {
            format!("node {}: {:?}, {:?}", node.0, state.marks, state.standing)
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn is_well_supported(graph: &Resident, node: Node, state: &NodeState) -> bool {
    state.support.is_some_and(|support| {
        let support = read_justification(graph, support);
        let ranks_below = graph.premises_of(&support).all(|premise| read(graph, premise).rank < state.rank);
        support.head == node && support.missing == 0 && ranks_below
    })
}

fn count<T>(items: &[T], test: impl Fn(&T) -> bool) -> u32 {
    items.iter().map(|item| u32::from(test(item))).sum()
}

fn read(graph: &Resident, node: Node) -> NodeState {
    let Ok(state) = graph.node(node);
    state
}

fn read_justification(graph: &Resident, justification: Justification) -> JustificationState {
    let Ok(state) = graph.justification(justification);
    state
}
