//! Questions about an earlier moment, and the answers that the oracle gave then.

use std::collections::{BTreeMap, BTreeSet};

use recant_projections::{
    fold::space::Space,
    history,
    justification::graph::Node,
    query::{self, ExplainedNode, Explanation, Filter, Moment, NodeView, PageRequest, Reason},
    store::Store,
    tables::{
        ids::{self, Namespace},
        spaces,
    },
};
use recant_proto::{id::Kind, position::Position, time::Instant};

use super::{Chance, Differs, Purpose, expected::action_state, same};
use crate::{
    generate::{PARTITION, SPACES},
    oracle::{self, Oracle, Standing},
};

/// The oracle as it was after a record.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) offset: u64,
    pub(super) oracle: Oracle,
}

type Shown = (&'static str, Option<&'static str>);

fn shown(standing: Standing) -> Shown {
    (standing.status(), standing.why())
}

/// The standing of every node at an offset, by the history: how many were compared.
pub(super) fn standings(store: &impl Store, oracle: &Oracle, offset: u64) -> Result<u64, Differs> {
    let mut compared = 0;
    for name in SPACES {
        let (Some(row), Some(space)) = (spaces::get(store, name)?, oracle.space(name)) else { continue };
        let Some(opened) = Space::open(store, name, 0)? else { continue };
        let moved_since = history::moved_since(store, row.space(), offset)?;
        for id in space.nodes.keys() {
            let Some(number) = ids::get(store, row.space(), Namespace::Node, id)? else {
                return same("the number of a node that has arrived", id.as_str(), "none").map(|()| 0);
            };
            let entry = history::standing_at(store, &opened, Node(number), offset)?;
            let found = entry.map(|entry| (entry.standing.status(), entry.standing.why()));
            let expected = oracle.standing_as_of(name, id, offset).map(shown);
            same("standing at an earlier offset", (id, expected), (id, found))?;
            if let (Some(before), Some(entry)) = (moved_since.get(&Node(number)), entry) {
                same("the standing before what moved since", *before, entry.standing)?;
            }
            compared += 1;
        }
    }
    Ok(compared)
}

/// The offset that a time on the log's clock stands for.
pub(super) fn offsets(
    store: &impl Store,
    oracle: &Oracle,
    latest_ms: i64,
    chance: Chance,
    offset: u64,
) -> Result<(), Differs> {
    let Some(now) = Moment::now(store)? else { return Ok(()) };
    let back_ms = chance.pick(200, Purpose::Time, offset) as i64 * 7 * 60 * 1000;
    let time_ms = latest_ms - back_ms;
    let found = now.at_time(store, time_ms)?.map(|moment| moment.position.offset);
    same("the last offset at a log time", (time_ms, oracle.offset_as_of(time_ms)), (time_ms, found))
}

/// Lists and explanations as of a snapshot: how many standings were compared.
pub(super) fn answers(
    store: &impl Store,
    snapshot: &Snapshot,
    present: &Oracle,
    chance: Chance,
) -> Result<u64, Differs> {
    let mut compared = 0;
    for name in SPACES {
        let (Some(then), Some(space)) = (snapshot.oracle.space(name), opened(store, name, chance, snapshot.offset)?)
        else {
            continue;
        };
        let Some(moment) = Moment::now(store)?.map(|now| now.at_offset(snapshot.offset)) else { continue };
        let position = Position { partition: PARTITION, offset: snapshot.offset };
        same("the position of an answer", position, moment.position)?;
        let past = Past { store, name, then, moment };
        compared += past.lists(chance)?;
        past.retractions()?;
        let ids: Vec<&String> = present.space(name).into_iter().flat_map(|space| space.nodes.keys()).collect();
        for draw in 0..3 {
            let which = chance.pick(ids.len() as u64, Purpose::Explain, snapshot.offset + draw);
            if let Some(id) = ids.get(which as usize) {
                compared += past.explains(&space, id)?;
            }
        }
    }
    Ok(compared)
}

/// What turned between two snapshots, and at which event: how many nodes were compared.
pub(super) fn turns(store: &impl Store, from: &Snapshot, to: &Snapshot) -> Result<u64, Differs> {
    let mut compared = 0;
    let Some(now) = Moment::now(store)? else { return Ok(0) };
    let [before, after] = [from, to].map(|snapshot| now.clone().at_offset(snapshot.offset));
    let status =
        |standing: Option<&Standing>| standing.map(|standing| standing.status().to_owned()).unwrap_or_default();
    for name in SPACES {
        let Some(later) = to.oracle.space(name) else { continue };
        let earlier = from.oracle.space(name).cloned().unwrap_or_default();
        let mut expected = BTreeMap::new();
        for (id, standing) in later.standings() {
            let (was, is) = (status(earlier.standings().get(id)), status(Some(standing)));
            if was != is {
                let position = turned_at(later.history(id));
                let position = Position { partition: PARTITION, offset: position }.to_string();
                expected.insert(id.clone(), (was, is, standing.why().unwrap_or_default().to_owned(), position));
            }
        }
        let diff = query::diff(store, name, &before, &after, &Filter::default(), usize::MAX)?;
        compared += expected.len() as u64;
        same("how much turned between two offsets", expected.len(), diff.total)?;
        let found = diff.items.into_iter().map(|item| (item.node, (item.from, item.to, item.why, item.position)));
        same("what turned between two offsets", expected, found.collect())?;
    }
    Ok(compared)
}

/// The offset at which a node last became IN or OUT.
fn turned_at(history: &[(u64, Standing)]) -> u64 {
    let mut at = u64::MAX;
    let mut status = "";
    for (offset, standing) in history {
        if standing.status() != status {
            (at, status) = (*offset, standing.status());
        }
    }
    at
}

/// A space in either form.
fn opened(store: &impl Store, name: &str, chance: Chance, offset: u64) -> Result<Option<Space>, Differs> {
    let resident_max = if chance.one_in(2, Purpose::PreviewPaged, offset) { 0 } else { u32::MAX };
    Ok(Space::open(store, name, resident_max)?)
}

struct Past<'a, S> {
    store: &'a S,
    name: &'a str,
    then: &'a oracle::Space,
    moment: Moment,
}

impl<S: Store> Past<'_, S> {
    /// Every node in small pages, and those that a filter lets through.
    fn lists(&self, chance: Chance) -> Result<u64, Differs> {
        let arrived = self.then.nodes.keys().map(|id| (id.clone(), self.node(id))).collect();
        let listed = self.list(&Filter::default(), 5)?;
        let compared = listed.len() as u64;
        same("a list as of an earlier offset", &arrived, &listed)?;
        let kind = Kind::ALL[chance.pick(4, Purpose::Ask, self.moment.position.offset) as usize];
        let is_in = chance.one_in(2, Purpose::Ask, self.moment.position.offset + 1);
        let filter = Filter { is_in: Some(is_in), kind: Some(kind), ..Filter::default() };
        let wanted = |shown: &Listed| shown[1] == kind.as_str() && (shown[2] == "IN") == is_in;
        let filtered: BTreeMap<String, Listed> = arrived.into_iter().filter(|(_, shown)| wanted(shown)).collect();
        same("a filtered list as of an earlier offset", filtered, self.list(&filter, usize::MAX)?)?;
        self.valid_at(chance)?;
        Ok(compared)
    }

    /// What writers date to an instant or before, exactly at the time of one of the nodes, and just before it.
    fn valid_at(&self, chance: Chance) -> Result<(), Differs> {
        let which = chance.pick(self.then.nodes.len() as u64, Purpose::Valid, self.moment.position.offset) as usize;
        let Some(node) = self.then.nodes.values().nth(which) else { return Ok(()) };
        for instant in [node.written.observed, node.written.observed - 1] {
            let moment = self.moment.clone().valid_at(Some(Instant(instant)));
            let valid = self.then.nodes.iter().filter(|(_, node)| node.written.observed <= instant);
            let expected: BTreeMap<String, Listed> = valid.map(|(id, _)| (id.clone(), self.node(id))).collect();
            let past = Past { store: self.store, name: self.name, then: self.then, moment };
            same("a list by the writers' clock", expected, past.list(&Filter::default(), 7)?)?;
        }
        Ok(())
    }

    fn list(&self, filter: &Filter, items_max: usize) -> Result<BTreeMap<String, Listed>, Differs> {
        let mut request = PageRequest { after: None, items_max };
        let mut listed = BTreeMap::new();
        loop {
            let page = query::list(self.store, self.name, self.moment.clone(), filter, &request)?;
            same("the position of a page", self.moment.position.to_string(), page.position)?;
            for item in page.items {
                let shown = of_view(&item);
                same("the same node on an earlier page", None, listed.insert(item.id, shown))?;
            }
            if page.next.is_none() {
                return Ok(listed);
            }
            request.after = page.next;
        }
    }

    /// What the oracle knows of a node, as it is listed.
    fn node(&self, id: &str) -> Listed {
        let (Some(node), Some(standing)) = (self.then.nodes.get(id), self.then.standings().get(id)) else {
            return not_arrived(self.name);
        };
        let action =
            if node.identity.kind == "action" { action_state(self.then, id, node) } else { Default::default() };
        [
            self.name,
            &node.identity.kind,
            standing.status(),
            standing.why().unwrap_or_default(),
            &node.written.agent,
            &node.written.run,
            &node.identity.source,
            &node.identity.subject,
            &node.identity.observed_at,
            &Position { partition: PARTITION, offset: node.arrival }.to_string(),
            &action.r#type,
            &action.state,
            &action.amount,
            &action.currency,
        ]
        .map(str::to_owned)
    }

    fn retractions(&self) -> Result<(), Differs> {
        let known = self.then.retractions.keys().chain(&self.then.lifted);
        let expected = known.map(|id| {
            let (targets, lifted) = (self.then.retractions.get(id), self.then.lifted.contains(id));
            let state = match (targets, lifted) {
                (_, false) => "standing",
                (Some(_), true) => "lifted",
                (None, true) => "lifted_in_advance",
            };
            (id.clone(), (state, targets.map_or(0, Vec::len)))
        });
        let found = query::retractions(self.store, self.name, &self.moment)?.items.into_iter();
        let found: BTreeMap<String, (&str, usize)> =
            found.map(|view| (view.id, (view.state, view.targets.len()))).collect();
        same("retractions as of an earlier offset", expected.collect(), found)
    }

    /// The whole tree of reasons of a node.
    fn explains(&self, space: &Space, id: &str) -> Result<u64, Differs> {
        let all = usize::MAX;
        let Some(explanation) = query::explain(self.store, space, &self.moment, id, all)? else {
            let reasons = self.then.justifications.values().filter(|reason| reason.head == id).count();
            let known = (self.then.nodes.contains_key(id), reasons);
            return same("a node that is not explained", (false, 0), known).map(|()| 0);
        };
        let mut found = BTreeMap::new();
        for node in &explanation.nodes {
            found.insert(node.node.id.clone(), self.explained(node));
        }
        let mut expected = BTreeMap::new();
        let mut waiting = vec![id];
        while let Some(id) = waiting.pop() {
            if !expected.contains_key(id) {
                let (shown, premises) = self.expected(id);
                expected.insert(id.to_owned(), shown);
                waiting.extend(premises);
            }
        }
        let compared = expected.len() as u64;
        same("an explanation as of an earlier offset", expected, found)?;
        self.neighbours(id, &explanation)?;
        Ok(compared)
    }

    fn explained(&self, node: &ExplainedNode) -> Explained {
        let reason = |reason: &Reason| {
            let set = |ids: &[String]| ids.iter().cloned().collect::<BTreeSet<String>>();
            let said = [&reason.premises, &reason.waits_for, &reason.covered_by].map(|ids| set(ids));
            (reason.id.clone(), (reason.holds, said))
        };
        let covered_by = node.covered_by.iter().cloned().collect();
        (of_view(&node.node), covered_by, node.reasons.iter().map(reason).collect())
    }

    /// What the oracle says of a node and its reasons, and what those rest on.
    fn expected(&self, id: &str) -> (Explained, Vec<&str>) {
        let then = self.then;
        let covering = |covers: &dyn Fn(&oracle::Target) -> bool| -> BTreeSet<String> {
            let covers = then.standing_retractions().filter(|(_, targets)| targets.iter().any(covers));
            covers.map(|(id, _)| id.clone()).collect()
        };
        let covered_by = then.nodes.get(id).map(|node| covering(&|target| target.covers_node(id, node)));
        let is_in = |premise: &String| then.standings().get(premise) == Some(&Standing::In);
        let own = then.justifications.iter().filter(|(_, reason)| reason.head == id);
        let mut premises = Vec::new();
        let mut reasons = BTreeMap::new();
        for (id, reason) in own {
            premises.extend(reason.premises.iter().map(String::as_str));
            let covered_by = covering(&|target| target.covers_justification(id, reason));
            let waits_for = reason.premises.iter().filter(|premise| !then.nodes.contains_key(*premise)).cloned();
            let holds = covered_by.is_empty() && reason.premises.iter().all(is_in);
            reasons.insert(id.clone(), (holds, [reason.premises.clone(), waits_for.collect(), covered_by]));
        }
        ((self.node(id), covered_by.unwrap_or_default(), reasons), premises)
    }

    /// What rests on a node, and what has become of it so far.
    fn neighbours(&self, id: &str, explanation: &Explanation) -> Result<(), Differs> {
        let uses = self.then.justifications.values().filter(|reason| reason.premises.contains(id));
        let expected: BTreeMap<String, Listed> =
            uses.map(|reason| (reason.head.clone(), self.node(&reason.head))).collect();
        let found: BTreeMap<String, Listed> =
            explanation.rests_on_it.iter().map(|view| (view.id.clone(), of_view(view))).collect();
        same("what rests on a node", expected.len(), explanation.rests_on_it_total)?;
        same("what rests on a node", expected, found)?;
        let shown = |offset: u64| Position { partition: PARTITION, offset }.to_string();
        let expected = self.then.history(id).iter();
        let expected: Vec<(String, Shown)> =
            expected.map(|(offset, standing)| (shown(*offset), (standing.status(), standing.why()))).collect();
        let found = explanation.history.iter().map(|entry| (entry.position.clone(), (entry.status, entry.why)));
        same("the history of a node", expected, found.collect())
    }
}

/// A node as it is listed: all that the oracle knows of it too.
type Listed = [String; 14];

/// A node with the retractions that cover it, and its reasons: whether each holds, its premises, those of them that have
/// not arrived, and what covers it.
type Explained = (Listed, BTreeSet<String>, BTreeMap<String, (bool, [BTreeSet<String>; 3])>);

fn of_view(view: &NodeView) -> Listed {
    [
        view.space.as_str(),
        view.kind.unwrap_or_default(),
        view.status,
        view.why.unwrap_or_default(),
        &view.agent,
        &view.run,
        &view.source,
        &view.subject,
        &view.observed_at,
        &view.position,
        &view.action_type,
        &view.state,
        &view.amount,
        &view.currency,
    ]
    .map(str::to_owned)
}

/// What had not arrived is an id, and waits.
fn not_arrived(space: &str) -> Listed {
    let mut listed = Listed::default();
    listed[0] = space.to_owned();
    listed[2] = "OUT".to_owned();
    listed[3] = "pending".to_owned();
    listed
}
