//! The oracle: the law. A deliberately naive second implementation of the rule of belief, which shares no code with the
//! engine. It keeps what the events said, and after every event works out everything from that again: who is covered,
//! the least fixed point (from nothing, by iteration), why, what changed, how far away, and the digest. No ranks, no
//! supports, nothing incremental.
//!
//! This file has the rule of belief. Beside it: `events`, what the events say and which are refused; `cascade`, what an
//! event changed; `digest`.
//!
//! It promises to be right rather than fast, and to be short enough to be checked against DESIGN 2 and 4 by reading.
//! Events must be valid by themselves (`recant_proto::validate`): the oracle knows only the rules that need the state.

mod cascade;
mod digest;
mod events;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use recant_proto::v1::{AgentTarget, Event, SourceDeclared, target::What};

pub use cascade::Change;
pub use events::{Fate, Oracle, Outcome};

/// A node's status and why: believed, or the reason for which it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Believed.
    In,
    /// OUT: covered.
    Retracted,
    /// OUT: no justification holds.
    Unsupported,
    /// OUT: every uncovered justification waits for a premise that has not arrived.
    Pending,
}

impl Standing {
    /// `IN` or `OUT`.
    pub fn status(self) -> &'static str {
        if self == Standing::In { "IN" } else { "OUT" }
    }

    /// Why it is OUT, as it is published.
    pub fn why(self) -> Option<&'static str> {
        match self {
            Standing::In => None,
            Standing::Retracted => Some("retracted"),
            Standing::Unsupported => Some("unsupported"),
            Standing::Pending => Some("pending"),
        }
    }
}

/// Who wrote an item, and its times on the two clocks, in nanoseconds since 1970.
#[derive(Debug, Clone)]
pub struct Written {
    /// The agent of the event that created the item.
    pub agent: String,
    /// Its run.
    pub run: String,
    /// The time on the writer's clock.
    pub observed: i128,
    /// Log time at the item's arrival.
    pub log: i128,
}

/// What may not differ when a node's id comes again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// `observation`, `belief`, `plan` or `action`.
    pub kind: String,
    /// The subject key.
    pub subject: String,
    /// The source of an observation, else empty.
    pub source: String,
    /// When the source said it, else empty.
    pub observed_at: String,
    /// The encoded content, empty if there is none.
    pub content: Vec<u8>,
    /// Type, amount and currency of an action, else empty.
    pub action: [String; 3],
}

/// A node that has arrived.
#[derive(Debug, Clone)]
pub struct Node {
    /// What it is.
    pub identity: Identity,
    /// Who wrote it, and when.
    pub written: Written,
    /// The offset at which it arrived.
    pub arrival: u64,
}

/// One reason for one node.
#[derive(Debug, Clone)]
pub struct Justification {
    /// The node that it supports, arrived or not.
    pub head: String,
    /// The nodes that are all needed, arrived or not.
    pub premises: BTreeSet<String>,
    /// Who wrote it, and when.
    pub written: Written,
}

/// One target of a retraction, its window as instants.
#[derive(Debug, Clone)]
pub struct Target {
    what: Option<What>,
    from: i128,
    to: i128,
    on_log_clock: bool,
    encoded: Vec<u8>,
}

/// What the accepted events of one space said, and what is believed because of it.
#[derive(Debug, Clone, Default)]
pub struct Space {
    /// Every node that has arrived.
    pub nodes: BTreeMap<String, Node>,
    /// Every justification, covered or not.
    pub justifications: BTreeMap<String, Justification>,
    /// Every retraction that has arrived, lifted or not.
    pub retractions: BTreeMap<String, Vec<Target>>,
    /// Every retraction id that was lifted, arrived or not.
    pub lifted: BTreeSet<String>,
    /// The state of every action that was settled, arrived or not.
    pub settled: BTreeMap<String, String>,
    sources: BTreeMap<String, SourceDeclared>,
    events: BTreeMap<String, (Event, Vec<u8>)>,
    last_applied: Option<u64>,
    standings: BTreeMap<String, Standing>,
    history: BTreeMap<String, Vec<(u64, Standing)>>,
}

impl Target {
    /// Whether the target names this node, and its window holds the node's time.
    pub fn covers_node(&self, id: &str, node: &Node) -> bool {
        let is_observation = node.identity.kind == "observation";
        let named = match &self.what {
            Some(What::Source(source)) => is_observation && *source == node.identity.source,
            Some(What::Node(node)) => node == id,
            Some(What::Agent(agent)) => is_observation && wrote(agent, &node.written),
            Some(What::Justification(_)) | None => false,
        };
        named && self.window_holds(&node.written)
    }

    /// Whether the target names this justification, and its window holds the justification's time.
    pub fn covers_justification(&self, id: &str, justification: &Justification) -> bool {
        let named = match &self.what {
            Some(What::Justification(justification)) => justification == id,
            Some(What::Agent(agent)) => wrote(agent, &justification.written),
            Some(What::Source(_) | What::Node(_)) | None => false,
        };
        named && self.window_holds(&justification.written)
    }

    fn window_holds(&self, written: &Written) -> bool {
        let time = if self.on_log_clock { written.log } else { written.observed };
        self.from <= time && time < self.to
    }
}

fn wrote(target: &AgentTarget, written: &Written) -> bool {
    target.agent == written.agent && (target.run.is_empty() || target.run == written.run)
}

impl Space {
    /// The retractions that stand.
    pub fn standing_retractions(&self) -> impl Iterator<Item = (&String, &Vec<Target>)> {
        self.retractions.iter().filter(|(id, _)| !self.lifted.contains(*id))
    }

    /// The nodes that a standing retraction covers.
    pub fn covered_nodes(&self) -> HashSet<&str> {
        let targets: Vec<&Target> = self.standing_retractions().flat_map(|(_, targets)| targets).collect();
        let covered = self.nodes.iter().filter(|(id, node)| targets.iter().any(|target| target.covers_node(id, node)));
        covered.map(|(id, _)| id.as_str()).collect()
    }

    /// The justifications that a standing retraction covers.
    pub fn covered_justifications(&self) -> HashSet<&str> {
        let targets: Vec<&Target> = self.standing_retractions().flat_map(|(_, targets)| targets).collect();
        let covered = self
            .justifications
            .iter()
            .filter(|(id, justification)| targets.iter().any(|target| target.covers_justification(id, justification)));
        covered.map(|(id, _)| id.as_str()).collect()
    }

    /// The nodes that are IN: the least fixed point, from nothing, adding whatever now has a reason until nothing does.
    pub fn believed(&self) -> HashSet<&str> {
        let (covered_nodes, covered_justifications) = (self.covered_nodes(), self.covered_justifications());
        let can_be_in = |id: &str, is_observation: bool| {
            let arrived = self.nodes.get(id).filter(|node| (node.identity.kind == "observation") == is_observation);
            arrived.is_some() && !covered_nodes.contains(id)
        };
        let mut believed: HashSet<&str> =
            self.nodes.keys().map(String::as_str).filter(|id| can_be_in(id, true)).collect();
        let reasons: Vec<&Justification> = self
            .justifications
            .iter()
            .filter(|(id, justification)| {
                !covered_justifications.contains(id.as_str()) && can_be_in(&justification.head, false)
            })
            .map(|(_, justification)| justification)
            .collect();
        loop {
            let before = believed.len();
            for reason in &reasons {
                if reason.premises.iter().all(|premise| believed.contains(premise.as_str())) {
                    believed.insert(&reason.head);
                }
            }
            if believed.len() == before {
                return believed;
            }
        }
    }

    fn work_out_standings(&self) -> BTreeMap<String, Standing> {
        let (believed, covered_nodes, covered_justifications) =
            (self.believed(), self.covered_nodes(), self.covered_justifications());
        // For each head that has an uncovered justification: whether all premises of one of them have arrived.
        let mut complete: BTreeMap<&str, bool> = BTreeMap::new();
        for (id, justification) in &self.justifications {
            if !covered_justifications.contains(id.as_str()) {
                let arrived = justification.premises.iter().all(|premise| self.nodes.contains_key(premise));
                *complete.entry(&justification.head).or_default() |= arrived;
            }
        }
        let standing = |id: &str| match complete.get(id) {
            _ if believed.contains(id) => Standing::In,
            _ if covered_nodes.contains(id) => Standing::Retracted,
            Some(false) => Standing::Pending,
            Some(true) | None => Standing::Unsupported,
        };
        self.nodes.keys().map(|id| (id.clone(), standing(id))).collect()
    }
}
