//! What each body does to a space. Everything that can be refused is refused before anything is changed.

use std::collections::BTreeMap;

use prost::Message;
use recant_proto::{
    id::{Kind, is_ground},
    reject::{Code, Violation},
    time::Instant,
    v1::{
        self, ActionProposed, Content, Derived, Embedding, Justified, Literal, Observed, SourceDeclared, event::Body,
    },
};

use super::{Context, Output, Refusal, publish, retract, space::Outcome};
use crate::{
    actions,
    justification::{
        covers::{Arrived, ItemTimes},
        digest::NodeIdentity,
        graph::{Arrival, Item, Justification, Node},
        settle::{Arriving, Edit, Justifying, Work},
    },
    store::{Store, StoreError},
    tables::{
        Table,
        ids::{self, Namespace},
        justification_covers, justifications, moves, node_states, nodes, source_history, sources,
    },
};

/// So few names are looked through quicker than they are hashed.
const LOOKED_THROUGH_MAX: usize = 16;

type Published = (Vec<Output>, Work);

/// Applies a body to its space.
pub(super) fn apply<S: Store>(context: &mut Context<'_, S>, body: &Body) -> Result<Published, Refusal> {
    match body {
        Body::SourceDeclared(declared) => context.declare(declared)?,
        Body::Observed(observed) => return context.bear(&Birth::observed(observed)),
        Body::Derived(derived) => return context.bear(&Birth::derived(derived)),
        Body::ActionProposed(proposed) => {
            actions::check_proposed(proposed)?;
            return context.bear(&Birth::proposed(proposed));
        }
        Body::Justified(justified) => return context.justified(justified),
        Body::Retracted(retracted) => return retract::begin(context, retracted),
        Body::Reinstated(reinstated) => return retract::lift(context, reinstated),
        Body::ActionSettled(settled) => actions::settle(context, settled)?,
        Body::ActionReviewed(_) => {
            return Err(Violation::new(Code::NotInThisVersion, "nothing is held for review in logic version 1").into());
        }
        // Kept in the log, without effect on statuses. The bodies of the control space do not come here.
        Body::Read(_)
        | Body::Handoff(_)
        | Body::LogCreated(_)
        | Body::PolicySet(_)
        | Body::LogicActivated(_)
        | Body::KeyEnrolled(_)
        | Body::KeyRevoked(_)
        | Body::Tick(_) => {}
    }
    Ok((Vec::new(), Work::default()))
}

/// The birth of a node, whatever its kind.
struct Birth<'a> {
    kind: Kind,
    id: &'a str,
    subject: &'a str,
    content: Option<&'a Content>,
    polarity: &'a str,
    literals: &'a [Literal],
    attributes: &'a BTreeMap<String, String>,
    embedding: Option<&'a Embedding>,
    observed: Option<&'a Observed>,
    action: Option<&'a ActionProposed>,
    justification: Option<&'a v1::Justification>,
}

impl<'a> Birth<'a> {
    fn observed(observed: &'a Observed) -> Self {
        Birth {
            kind: Kind::Observation,
            id: &observed.node,
            subject: &observed.subject,
            content: observed.content.as_ref(),
            polarity: &observed.polarity,
            literals: &observed.literals,
            attributes: &observed.attributes,
            embedding: observed.embedding.as_ref(),
            observed: Some(observed),
            action: None,
            justification: None,
        }
    }

    fn derived(derived: &'a Derived) -> Self {
        Birth {
            kind: Kind::parse(&derived.kind).unwrap_or(Kind::Belief),
            id: &derived.node,
            subject: &derived.subject,
            content: derived.content.as_ref(),
            polarity: &derived.polarity,
            literals: &derived.literals,
            attributes: &derived.attributes,
            embedding: derived.embedding.as_ref(),
            observed: None,
            action: None,
            justification: derived.justification.as_ref(),
        }
    }

    fn proposed(proposed: &'a ActionProposed) -> Self {
        Birth {
            kind: Kind::Action,
            id: &proposed.action,
            subject: &proposed.subject,
            content: proposed.content.as_ref(),
            polarity: "",
            literals: &[],
            attributes: &proposed.attributes,
            embedding: None,
            observed: None,
            action: Some(proposed),
            justification: proposed.justification.as_ref(),
        }
    }

    fn identity(&self) -> NodeIdentity<'a> {
        NodeIdentity {
            id: self.id,
            kind: self.kind.as_str(),
            subject: self.subject,
            source: self.observed.map_or("", |observed| &observed.source),
            observed_at: self.observed.map_or("", |observed| &observed.observed_at),
            content: self.content,
            action: self.action.map_or([""; 3], |action| [&action.r#type, &action.amount, &action.currency]),
        }
    }
}

/// A justification that was checked and is to be added.
struct NewReason<'a> {
    id: &'a str,
    premises: Vec<&'a str>,
    rule: Option<&'a v1::Rule>,
}

/// A node that arrives: what is written of it.
pub(super) struct Newborn {
    arriving: Arriving,
    source: Option<u32>,
    observed: Instant,
    texts: nodes::Texts,
    /// Whether its own event is the first to name it: then all that there is of it is in its row.
    is_first_named: bool,
}

impl<S: Store> Context<'_, S> {
    // Names.

    /// The node of an id, if it has been named.
    pub(crate) fn known_node(&mut self, id: &str) -> Result<Option<Node>, StoreError> {
        let space = self.space.number();
        if let Some(node) = self.known_ids.get(space, id) {
            return Ok(Some(node));
        }
        let found = ids::get(&self.staged, space, Namespace::Node, id)?.map(Node);
        if let Some(node) = found {
            self.space.check_node(node)?;
            self.known_ids.insert(space, id, node);
        }
        Ok(found)
    }

    /// The node of an id, named now if it was not.
    pub(crate) fn name_node(&mut self, id: &str) -> Result<Node, StoreError> {
        match self.known_node(id)? {
            Some(node) => Ok(node),
            None => {
                let node = self.number_node(id);
                self.staged.put(Table::Nodes, nodes::key(self.space.number(), node), nodes::named(id));
                Ok(node)
            }
        }
    }

    /// Numbers an id that has not been named. The row of the node is for the caller.
    fn number_node(&mut self, id: &str) -> Node {
        let node = self.space.name_node();
        let space = self.space.number();
        self.staged.put(Table::Ids, ids::key(space, Namespace::Node, id), node.0.to_be_bytes());
        self.known_ids.insert(space, id, node);
        node
    }

    /// The source of an id with its row, named now if it was not.
    pub(crate) fn name_source(&mut self, id: &str) -> Result<(u32, sources::Row), StoreError> {
        let space = self.space.number();
        if let Some(number) = ids::get(&self.staged, space, Namespace::Source, id)? {
            return Ok((number, sources::get(&self.staged, space, number)?));
        }
        let number = self.space.row.sources;
        self.space.row.sources += 1;
        self.staged.put(Table::Ids, ids::key(space, Namespace::Source, id), number.to_be_bytes());
        let row = sources::Row::named(id);
        self.put_source(number, &row);
        Ok((number, row))
    }

    fn put_source(&mut self, number: u32, row: &sources::Row) {
        self.staged.put(Table::Sources, sources::key(self.space.number(), number), row.encode_to_vec());
    }

    /// Replaces what is known of a source, in the table and in the digest.
    fn update_source(&mut self, number: u32, before: &sources::Row, after: &sources::Row) {
        let weight = |row: &sources::Row| if row.exists { self.committer.source(&row.known()) } else { 0 };
        let delta = weight(after).wrapping_sub(weight(before));
        self.space.row.add_to_digest(delta);
        if let Some(kept) = source_history::changed(before, after) {
            let key = source_history::key(self.space.number(), number, self.position.offset);
            self.staged.put(Table::SourceHistory, key, kept.encode_to_vec());
        }
        self.put_source(number, after);
    }

    fn times(&self, writers: [&str; 2]) -> Result<ItemTimes, StoreError> {
        let observed = nodes::instant(writers, self.log_time_ms)?;
        Ok(ItemTimes { observed, log: Instant::from_log_ms(self.log_time_ms) })
    }

    // Sources.

    fn declare(&mut self, declared: &SourceDeclared) -> Result<(), Refusal> {
        let space = self.space.number();
        if let Some(number) = ids::get(&self.staged, space, Namespace::Source, &declared.source)? {
            let row = sources::get(&self.staged, space, number)?;
            if row.exists {
                check_kind_change(&row.known().kind, declared)?;
            }
        }
        let (number, before) = self.name_source(&declared.source)?;
        let after = sources::Row {
            known: Some(merge(before.known(), declared)),
            exists: true,
            declared: true,
            ..before.clone()
        };
        self.update_source(number, &before, &after);
        Ok(())
    }

    fn observe_source(&mut self, observed: &Observed) -> Result<u32, StoreError> {
        let (number, before) = self.name_source(&observed.source)?;
        let mut known = before.known();
        if known.kind.is_empty() {
            known.kind.clone_from(&observed.source_kind);
        }
        let after =
            sources::Row { known: Some(known), exists: true, observations: before.observations + 1, ..before.clone() };
        self.update_source(number, &before, &after);
        Ok(number)
    }

    // Nodes and justifications.

    fn bear(&mut self, birth: &Birth<'_>) -> Result<Published, Refusal> {
        let commitment = self.committer.node(birth.identity());
        let named = self.known_node(birth.id)?;
        let has_arrived = match named {
            None => false,
            Some(node) => {
                let state = self.space.node(&self.staged, node)?;
                if state.arrival.is_some() && state.commitment != commitment {
                    let detail = format!(
                        "{:?} is another node already; an id stands for one kind, subject and content. Use a new id, or justify that one",
                        birth.id
                    );
                    return Err(Violation::at(Code::NodeIdTaken, "node", detail).into());
                }
                state.arrival.is_some()
            }
        };
        let reason = self.check_reason(birth.id, birth.justification)?;
        if has_arrived && reason.is_none() {
            return Ok((Vec::new(), Work::default()));
        }
        let is_own_premise = reason.as_ref().is_some_and(|reason| reason.premises.contains(&birth.id));
        let premises = self.name_premises(reason.as_ref())?;
        let node = match named {
            Some(node) => node,
            None if is_own_premise => self.name_node(birth.id)?,
            // Its row comes when it is settled.
            None => self.number_node(birth.id),
        };
        let mut edit = Edit::default();
        let mut newborn = None;
        if !has_arrived {
            let arriving = self.arriving(birth, node, commitment, named.is_none())?;
            edit.arrive = Some(arriving.0);
            newborn = Some(arriving.1);
        }
        self.settle_with_reason(edit, newborn, node, birth.id, reason, premises)
    }

    fn justified(&mut self, justified: &Justified) -> Result<Published, Refusal> {
        let Some(reason) = self.check_reason(&justified.node, justified.justification.as_ref())? else {
            return Ok((Vec::new(), Work::default()));
        };
        let premises = self.name_premises(Some(&reason))?;
        let head = self.name_node(&justified.node)?;
        self.settle_with_reason(Edit::default(), None, head, &justified.node, Some(reason), premises)
    }

    /// How a node enters the graph, and what is written of it once its state at birth is known.
    fn arriving(
        &mut self,
        birth: &Birth<'_>,
        node: Node,
        commitment: u128,
        is_first_named: bool,
    ) -> Result<(Arriving, Newborn), StoreError> {
        let source = birth.observed.map(|observed| self.observe_source(observed)).transpose()?;
        let observed_at = birth.observed.map_or("", |observed| &observed.observed_at);
        let times = self.times([observed_at, &self.event.occurred_at])?;
        let event = self.event;
        let is_observation = birth.kind == Kind::Observation;
        let (agent, run) = if is_observation { (event.agent.as_str(), event.run.as_str()) } else { ("", "") };
        let arrived = Arrived { item: Item::Node(node), source, agent, run, times };
        let covers = self.space.standing.covers_of(&arrived, "");
        if is_observation {
            self.space.note(&arrived, self.staged.batch);
        }
        let arrival = self.space.row.arrived;
        self.space.row.arrived += 1;
        if let Some(proposed) = birth.action {
            actions::propose(self, node, proposed)?;
        }
        let texts = nodes::Texts {
            id: birth.id.to_owned(),
            step: event.step.clone(),
            occurred_at: event.occurred_at.clone(),
            observed_at: observed_at.to_owned(),
            subject: birth.subject.to_owned(),
            content: birth.content.cloned(),
            polarity: birth.polarity.to_owned(),
            literals: birth.literals.to_vec(),
            attributes: birth.attributes.clone(),
            embedding: birth.embedding.cloned(),
            event: event.id.clone(),
        };
        let arriving = Arriving { node, kind: birth.kind, arrival: Arrival::new(arrival), commitment, covers };
        Ok((arriving, Newborn { arriving, source, observed: times.observed, texts, is_first_named }))
    }

    /// Whether a justification is new; refuses one whose id is taken.
    fn check_reason<'b>(
        &mut self,
        head: &str,
        justification: Option<&'b v1::Justification>,
    ) -> Result<Option<NewReason<'b>>, Refusal>
    where
        Self: 'b,
    {
        let Some(justification) = justification else { return Ok(None) };
        let premises = each_once(&justification.premises);
        let id = if justification.id.is_empty() { None } else { Some(justification.id.as_str()) };
        let space = self.space.number();
        let known = match id {
            Some(id) => justifications::find(&self.staged, space, id)?,
            // The event is new, so that no justification has its id from it.
            None if self.space.row.named_justifications == 0 => None,
            None => ids::get(&self.staged, space, Namespace::Justification, &self.event.id)?.map(Justification::new),
        };
        if let Some(known) = known {
            if self.is_same_reason(known, head, &premises)? {
                return Ok(None);
            }
            let detail = format!("{:?} is another justification already", id.unwrap_or(&self.event.id));
            return Err(Violation::at(Code::JustificationIdTaken, "justification.id", detail).into());
        }
        Ok(Some(NewReason { id: id.unwrap_or_default(), premises, rule: justification.rule.as_ref() }))
    }

    fn is_same_reason(&mut self, known: Justification, head: &str, premises: &[&str]) -> Result<bool, StoreError> {
        let row = justifications::get(&self.staged, self.space.number(), known)?;
        if self.known_node(head)? != Some(row.head) || row.premises.len() != premises.len() {
            return Ok(false);
        }
        for premise in premises {
            match self.known_node(premise)? {
                Some(node) if row.premises.contains(&node) => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    fn name_premises(&mut self, reason: Option<&NewReason<'_>>) -> Result<Vec<Node>, StoreError> {
        reason.iter().flat_map(|reason| &reason.premises).map(|premise| self.name_node(premise)).collect()
    }

    fn settle_with_reason(
        &mut self,
        mut edit: Edit,
        newborn: Option<Newborn>,
        head: Node,
        head_id: &str,
        reason: Option<NewReason<'_>>,
        premises: Vec<Node>,
    ) -> Result<Published, Refusal> {
        if let Some(reason) = reason {
            edit.justify = Some(self.justifying(head, head_id, &reason, premises)?);
        }
        Ok(self.settle(&edit, newborn, &[])?)
    }

    /// Writes what a justification is, and says how it enters the graph.
    fn justifying(
        &mut self,
        head: Node,
        head_id: &str,
        reason: &NewReason<'_>,
        premises: Vec<Node>,
    ) -> Result<Justifying, StoreError> {
        let space = self.space.number();
        let event = self.event;
        let id = if reason.id.is_empty() { &event.id } else { reason.id };
        let mut sorted = reason.premises.clone();
        sorted.sort_unstable();
        let commitment = self.committer.justification([id, head_id, &event.agent, &event.run], sorted.into_iter());
        let justification = Justification::new(self.space.row.justifications);
        self.space.row.justifications += 1;
        let times = self.times(["", &event.occurred_at])?;
        let (item, agent, run) = (Item::Justification(justification), event.agent.as_str(), event.run.as_str());
        let arrived = Arrived { item, source: None, agent, run, times };
        let covers = self.space.standing.covers_of(&arrived, id);
        self.space.note(&arrived, self.staged.batch);
        let new = justifications::New {
            head: justifications::Head {
                head,
                next_of_head: self.space.newest_justification(&self.staged, head)?,
                offset: self.position.offset,
                log_time_ms: self.log_time_ms,
                observed: times.observed,
                commitment,
                premises: justifications::NO_PREMISES,
                agent,
                run,
            },
            premises: &premises,
        };
        let texts = justifications::Texts {
            id: id.to_owned(),
            step: event.step.clone(),
            rule: reason.rule.cloned(),
            occurred_at: event.occurred_at.clone(),
        };
        let key = justifications::key(space, justification);
        self.staged.put(Table::Justifications, key, justifications::value(&new, &texts));
        if !reason.id.is_empty() {
            let number = justification.number().to_be_bytes().to_vec();
            self.staged.put(Table::Ids, ids::key(space, Namespace::Justification, id), number);
            self.space.row.named_justifications += 1;
        }
        if let Some(value) = justification_covers::value(covers) {
            self.staged.put(Table::JustificationCovers, justification_covers::key(space, justification), value);
        }
        Ok(Justifying { head, premises, commitment, covers })
    }

    // Settling.

    /// Settles the graph, stages what moved, and makes the records of the cascade. `targets` are those of the retraction
    /// that begins or ends.
    pub(super) fn settle(
        &mut self,
        edit: &Edit,
        newborn: Option<Newborn>,
        targets: &[v1::Target],
    ) -> Result<Published, StoreError> {
        let outcome = self.space.settle(&self.staged, self.engine, edit)?;
        self.space.row.add_to_digest(outcome.settled.digest_delta);
        self.stage(&outcome, newborn);
        Ok((publish::cascade(self, &outcome.settled.changes, targets)?, outcome.settled.work))
    }

    fn stage(&mut self, outcome: &Outcome, newborn: Option<Newborn>) {
        let space = self.space.number();
        let settled = &outcome.settled;
        let born_with_its_row = newborn.as_ref().filter(|newborn| newborn.is_first_named);
        let born_with_its_row = born_with_its_row.map(|newborn| newborn.arriving.node);
        let mut entries = Vec::with_capacity(settled.touched.len());
        for (node, state) in settled.touched.iter().zip(&outcome.touched) {
            let state = node_states::Row::of(state);
            if let Some(newborn) = newborn.as_ref().filter(|newborn| newborn.arriving.node == *node) {
                self.staged.put(Table::Nodes, nodes::key(space, *node), self.newborn_value(newborn, &state));
            }
            if born_with_its_row != Some(*node) {
                entries.push(moves::Entry { node: *node, moved_from: None, state });
            }
        }
        entries.sort_unstable_by_key(|entry| entry.node);
        for (justification, state) in settled.recovered.iter().zip(&outcome.recovered) {
            let key = justification_covers::key(space, *justification);
            match justification_covers::value(state.covers) {
                Some(value) => self.staged.put(Table::JustificationCovers, key, value),
                None => self.staged.delete(Table::JustificationCovers, key),
            }
        }
        for moved in settled.moves() {
            self.space.row.nodes_in += u32::from(moved.after.is_in());
            self.space.row.nodes_in -= u32::from(moved.before.is_some_and(|before| before.is_in()));
            // A birth is in the row of the node.
            if let Ok(place) = entries.binary_search_by_key(&moved.node, |entry| entry.node) {
                entries[place].moved_from = moved.before;
            }
        }
        if entries.is_empty() {
            return;
        }
        let cause = publish::cause_of(self.event);
        let cause = moves::Cause { event: cause.event, body: cause.r#type, retraction: cause.retraction };
        for (key, value) in moves::rows(space, self.position.offset, self.log_time_ms, &cause, &entries) {
            self.staged.put(Table::Moves, key, value);
        }
        self.space.note_moves(self.position.offset, &entries);
    }

    fn newborn_value(&self, newborn: &Newborn, birth: &node_states::Row) -> Vec<u8> {
        let head = nodes::Head {
            kind: newborn.arriving.kind,
            standing: birth.standing,
            arrival: newborn.arriving.arrival.number(),
            offset: self.position.offset,
            log_time_ms: self.log_time_ms,
            source: newborn.source,
            observed: newborn.observed,
            commitment: newborn.arriving.commitment,
            rank: birth.rank,
            support: birth.support,
            newest_justification: birth.newest_justification,
            covers: birth.covers,
            agent: &self.event.agent,
            run: &self.event.run,
        };
        nodes::arrived(&head, &newborn.texts)
    }
}

/// Whether the justification in a body has no id of its own, and so that of its event.
pub(super) fn is_named_by_its_event(body: &Body) -> bool {
    let justification = match body {
        Body::Derived(derived) => derived.justification.as_ref(),
        Body::ActionProposed(proposed) => proposed.justification.as_ref(),
        Body::Justified(justified) => justified.justification.as_ref(),
        _ => None,
    };
    justification.is_some_and(|justification| justification.id.is_empty())
}

/// The kind of a source that exists is the operator's to change; so is whether it is ground.
fn check_kind_change(known: &str, declared: &SourceDeclared) -> Result<(), Violation> {
    let kind = &declared.kind;
    let changes = !kind.is_empty() && known != kind && (!known.is_empty() || is_ground(kind));
    if !changes || !declared.operator.is_empty() {
        return Ok(());
    }
    let detail = format!("a change of kind from {known:?} to {kind:?} needs the operator who vouches for it");
    Err(Violation::at(Code::OperatorNeeded, "source_declared.operator", detail))
}

/// What is known of a source after one more declaration.
fn merge(mut known: SourceDeclared, declared: &SourceDeclared) -> SourceDeclared {
    for (old, new) in
        [(&mut known.kind, &declared.kind), (&mut known.name, &declared.name), (&mut known.group, &declared.group)]
    {
        if !new.is_empty() {
            old.clone_from(new);
        }
    }
    known.trust_millionths = declared.trust_millionths.or(known.trust_millionths);
    known.cost_millionths = declared.cost_millionths.or(known.cost_millionths);
    known.attributes.extend(declared.attributes.clone());
    known
}

/// Names in their order, each once.
fn each_once(names: &[String]) -> Vec<&str> {
    let mut once: Vec<&str> = Vec::with_capacity(names.len());
    if names.len() <= LOOKED_THROUGH_MAX {
        for name in names {
            if !once.contains(&name.as_str()) {
                once.push(name);
            }
        }
        return once;
    }
    let mut seen = hashbrown::HashSet::with_capacity(names.len());
    once.extend(names.iter().map(String::as_str).filter(|name| seen.insert(*name)));
    once
}
