//! Why a node is believed or not: all its reasons, down to the sources, as they were at a moment.

use std::collections::{BTreeSet, HashMap, VecDeque, hash_map::Entry};

use recant_proto::{
    id::{Kind, Standing},
    position::Position,
    time::{self, Instant},
    v1::Rule,
};
use serde::{Deserialize, Serialize};

use super::{Moment, NodeView, RetractionView, covering};
use crate::{
    fold::space::Space,
    history,
    justification::{covers::ItemTimes, graph::Node},
    store::{Store, StoreError},
    tables::{
        ids::{self, Namespace},
        justifications, moves, nodes, sources,
    },
};

/// The answer to "why?".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(utoipa::ToSchema))]
#[serde(bound(deserialize = "'de: 'static"))]
pub struct Explanation {
    /// The node that was asked for.
    pub id: String,
    /// The position that the answer reflects.
    pub position: String,
    /// Where to follow from.
    pub cursor: String,
    /// The node, and everything that its reasons rest on, breadth-first; each once.
    pub nodes: Vec<ExplainedNode>,
    /// Whether there are more than were asked for.
    pub truncated: bool,
    /// What rests on it directly.
    pub rests_on_it: Vec<NodeView>,
    /// How many rest on it directly.
    pub rests_on_it_total: usize,
    /// Its standings, the first first.
    pub history: Vec<HistoryEntry>,
    /// The retractions that stood over anything shown.
    pub retractions: Vec<RetractionView>,
}

/// A node with its reasons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(utoipa::ToSchema))]
#[serde(bound(deserialize = "'de: 'static"))]
pub struct ExplainedNode {
    /// The node.
    #[serde(flatten)]
    pub node: NodeView,
    /// The retractions that cover it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub covered_by: Vec<String>,
    /// Its justifications, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub reasons: Vec<Reason>,
}

/// A justification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(utoipa::ToSchema))]
pub struct Reason {
    /// Its id.
    pub id: String,
    /// Whether it is uncovered and all its premises are IN.
    pub holds: bool,
    /// Its premises, all of which are needed.
    pub premises: Vec<String>,
    /// The premises that have not arrived.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub waits_for: Vec<String>,
    /// The retractions that cover it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub covered_by: Vec<String>,
    /// Who wrote it.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub agent: String,
    /// In which run.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub run: String,
    /// In which step.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub step: String,
    /// What made it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "schemas", schema(value_type = Option<Object>))]
    pub rule: Option<Rule>,
    /// When recant learned it.
    pub recorded_at: String,
    /// Where it lies in the log.
    pub position: String,
}

/// A standing that a node had.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(utoipa::ToSchema))]
pub struct HistoryEntry {
    /// From this position on.
    pub position: String,
    /// From this log time on.
    pub time: String,
    /// `IN` or `OUT`.
    pub status: &'static str,
    /// Why it was OUT.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<&'static str>,
    /// The id of the event that brought it about, where it was not the node's own birth.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event: Option<String>,
    /// What kind of event that was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event_type: Option<String>,
    /// The retraction that began or ended with it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retraction: Option<String>,
}

/// Explains a node of a space at a moment: at most `nodes_max` nodes below it and beside it. None if the id is not that
/// of a node that had arrived or been named.
pub fn explain(
    store: &impl Store,
    space: &Space,
    moment: &Moment,
    id: &str,
    nodes_max: usize,
) -> Result<Option<Explanation>, StoreError> {
    let Some(node) = ids::get(store, space.number(), Namespace::Node, id)?.map(Node) else { return Ok(None) };
    let standing = covering::Standing::at(store, space.number(), moment)?;
    let mut asker = Asker { store, space, moment, standing, standings: HashMap::new(), rows: HashMap::new() };
    if !asker.shows(node)? || (asker.standing(node)?.is_none() && asker.reasons_of(node)?.is_empty()) {
        return Ok(None);
    }
    let (nodes, truncated) = asker.walk(node, nodes_max)?;
    let uses = asker.dependents_of(node)?;
    let mut rests_on_it = Vec::new();
    for dependent in uses.iter().take(nodes_max) {
        rests_on_it.push(asker.view(*dependent)?);
    }
    let covering: BTreeSet<String> = nodes
        .iter()
        .flat_map(|node| node.covered_by.iter().chain(node.reasons.iter().flat_map(|reason| &reason.covered_by)))
        .cloned()
        .collect();
    Ok(Some(Explanation {
        id: id.to_owned(),
        position: moment.position.to_string(),
        cursor: moment.cursor(),
        nodes,
        truncated,
        rests_on_it,
        rests_on_it_total: uses.len(),
        history: asker.history(node)?,
        retractions: asker.standing.views(&covering, moment),
    }))
}

struct Asker<'a, S> {
    store: &'a S,
    space: &'a Space,
    moment: &'a Moment,
    standing: covering::Standing,
    standings: HashMap<Node, Option<Standing>>,
    /// A premise is asked about by each reason that needs it, and for itself.
    rows: HashMap<Node, nodes::Whole>,
}

impl<S: Store> Asker<'_, S> {
    fn standing(&mut self, node: Node) -> Result<Option<Standing>, StoreError> {
        if let Some(known) = self.standings.get(&node) {
            return Ok(*known);
        }
        let entry = history::standing_at(self.store, self.space, node, self.moment.position.offset)?;
        let standing = entry.map(|entry| entry.standing);
        self.standings.insert(node, standing);
        Ok(standing)
    }

    fn row(&mut self, node: Node) -> Result<&nodes::Whole, StoreError> {
        match self.rows.entry(node) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) => Ok(unknown.insert(nodes::get(self.store, self.space.number(), node)?)),
        }
    }

    /// Whether a node is shown at the moment, by its writer's clock. What has not arrived has none.
    fn shows(&self, node: Node) -> Result<bool, StoreError> {
        if self.moment.valid_at.is_none() {
            return Ok(true);
        }
        let value = nodes::value(self.store, self.space.number(), node)?;
        let head = nodes::Row::decode(&value)?.head;
        Ok(head.is_none_or(|head| head.offset > self.moment.position.offset || self.moment.shows(head.observed)))
    }

    fn view(&mut self, node: Node) -> Result<NodeView, StoreError> {
        let standing = self.standing(node)?;
        let row = self.row(node)?.clone();
        NodeView::read(self.store, (&self.space.name, self.space.number()), self.moment, node, row, standing)
    }

    fn walk(&mut self, node: Node, nodes_max: usize) -> Result<(Vec<ExplainedNode>, bool), StoreError> {
        let mut explained = Vec::new();
        let mut seen = std::collections::HashSet::from([node]);
        let mut queue = VecDeque::from([node]);
        while let Some(node) = queue.pop_front() {
            if explained.len() == nodes_max {
                return Ok((explained, true));
            }
            let mut reasons = Vec::new();
            for reason in self.reasons_of(node)? {
                for premise in &reason.premises {
                    if seen.insert(*premise) && self.shows(*premise)? {
                        queue.push_back(*premise);
                    }
                }
                reasons.push(self.reason(&reason)?);
            }
            let covered_by = self.covers_of_node(node)?;
            explained.push(ExplainedNode { node: self.view(node)?, covered_by, reasons });
        }
        Ok((explained, false))
    }

    /// The justifications that a node had at the moment, the oldest first.
    fn reasons_of(&self, node: Node) -> Result<Vec<justifications::Whole>, StoreError> {
        let mut reasons = Vec::new();
        let mut next = self.space.newest_justification(self.store, node)?;
        while let Some(justification) = next {
            let reason = justifications::get(self.store, self.space.number(), justification)?;
            next = reason.next_of_head;
            if reason.offset <= self.moment.position.offset && self.moment.shows(reason.observed) {
                reasons.push(reason);
            }
        }
        reasons.reverse();
        Ok(reasons)
    }

    fn reason(&mut self, row: &justifications::Whole) -> Result<Reason, StoreError> {
        let mut ids = Vec::with_capacity(row.premises.len());
        let mut waits_for = Vec::new();
        let mut all_in = true;
        for premise in &row.premises {
            let id = self.row(*premise)?.texts.id.clone();
            match self.standing(*premise)? {
                None => {
                    waits_for.push(id.clone());
                    all_in = false;
                }
                Some(standing) => all_in &= standing.is_in(),
            }
            ids.push(id);
        }
        let times = ItemTimes { observed: row.observed, log: Instant::from_log_ms(row.log_time_ms) };
        let covered_by = self.standing.covering(&covering::Described {
            node: "",
            justification: &row.texts.id,
            source: "",
            agent: &row.agent,
            run: &row.run,
            times,
        });
        Ok(Reason {
            id: row.texts.id.clone(),
            holds: all_in && covered_by.is_empty(),
            premises: ids,
            waits_for,
            covered_by,
            agent: row.agent.clone(),
            run: row.run.clone(),
            step: row.texts.step.clone(),
            rule: row.texts.rule.clone(),
            recorded_at: time::format_log_ms(row.log_time_ms),
            position: Position { offset: row.offset, ..self.moment.position }.to_string(),
        })
    }

    fn covers_of_node(&mut self, node: Node) -> Result<Vec<String>, StoreError> {
        if self.standing.is_empty() || self.standing(node)?.is_none() {
            return Ok(Vec::new());
        }
        let row = self.row(node)?.clone();
        let source = row.source.map(|number| sources::get(self.store, self.space.number(), number)).transpose()?;
        let is_observation = row.kind == Some(Kind::Observation);
        let times = ItemTimes { observed: row.observed_instant()?, log: Instant::from_log_ms(row.log_time_ms) };
        Ok(self.standing.covering(&covering::Described {
            node: &row.texts.id,
            justification: "",
            source: source.as_ref().map_or("", |source| source.id()),
            agent: if is_observation { &row.agent } else { "" },
            run: &row.run,
            times,
        }))
    }

    /// The nodes that rested on a node at the moment, by a justification that they had then; each once.
    fn dependents_of(&self, node: Node) -> Result<Vec<Node>, StoreError> {
        let mut heads = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for justification in self.space.uses_of(self.store, node)? {
            let value = justifications::bytes(self.store, self.space.number(), justification)?;
            let reason = justifications::Row::decode(&value)?.head;
            let is_known = reason.offset <= self.moment.position.offset && self.moment.shows(reason.observed);
            if is_known && seen.insert(reason.head) && self.shows(reason.head)? {
                heads.push(reason.head);
            }
        }
        Ok(heads)
    }

    fn history(&self, node: Node) -> Result<Vec<HistoryEntry>, StoreError> {
        let mut entries = Vec::new();
        for entry in history::of_node(self.store, self.space, node)? {
            if entry.offset > self.moment.position.offset {
                break;
            }
            let cause = match moves::cause(self.store, self.space.number(), entry.offset)? {
                Some(cause) => Some(cause),
                None => self.cause_of_birth(node, entry.standing)?,
            };
            entries.push(HistoryEntry {
                position: Position { offset: entry.offset, ..self.moment.position }.to_string(),
                time: time::format_log_ms(entry.log_time_ms),
                status: entry.standing.status(),
                why: entry.standing.why(),
                event: cause.as_ref().map(|cause| cause.event.clone()),
                event_type: cause.as_ref().map(|cause| cause.body.clone()),
                retraction: cause.map(|cause| cause.retraction).filter(|retraction| !retraction.is_empty()),
            });
        }
        Ok(entries)
    }

    /// What bore a node OUT, if nothing else was moved by it: its own event.
    fn cause_of_birth(&self, node: Node, standing: Standing) -> Result<Option<moves::Cause>, StoreError> {
        if standing.is_in() {
            return Ok(None);
        }
        let row = nodes::get(self.store, self.space.number(), node)?;
        let Some(kind) = row.kind else { return Ok(None) };
        Ok(Some(moves::Cause { event: row.texts.event, body: kind.born_by().to_owned(), ..moves::Cause::default() }))
    }
}
