//! What the events say, and which of them are refused: DESIGN 4.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use recant_proto::{
    position::Position,
    time,
    v1::{self, Event, SourceDeclared, event::Body, target::What},
};

use super::{Change, Identity, Justification, Node, Space, Standing, Target, Written, cascade::Named};

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was applied, with or without effect.
    Accepted,
    /// Its id and its content were seen before.
    Duplicate,
    /// It breaks a rule; the code.
    Rejected(&'static str),
    /// Its body is not known.
    Skipped,
    /// The partition must stop: what is not known here must not be passed over.
    Stopped,
}

/// What one event did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What became of it.
    pub fate: Fate,
    /// Its cascade, in order.
    pub changes: Vec<Change>,
    /// How many sources the retraction that began, or else ended, has as targets.
    pub sources: usize,
}

/// One partition of the log, folded event by event.
#[derive(Debug, Clone)]
pub struct Oracle {
    partition: u32,
    log_time_ms: Option<i64>,
    clock: Vec<(u64, i64)>,
    commitment_key: [u8; 32],
    spaces: BTreeMap<String, Space>,
}

/// Where and when an event lies in the log.
struct Place {
    position: Position,
    log: i128,
}

type Applied = Result<Named, &'static str>;

impl Oracle {
    /// A partition in which nothing has happened.
    pub fn new(partition: u32) -> Self {
        let commitment_key = blake3::derive_key("recant 2026 state digest v1", b"");
        Oracle { partition, log_time_ms: None, clock: Vec::new(), commitment_key, spaces: BTreeMap::new() }
    }

    /// Applies the next record. An event without body is taken for one whose body is not known; `value` tells such
    /// apart.
    pub fn step(&mut self, offset: u64, append_time_ms: i64, event: &Event, value: &[u8]) -> Outcome {
        let log_time_ms = self.log_time_ms.map_or(append_time_ms, |latest| latest.max(append_time_ms));
        self.log_time_ms = Some(log_time_ms);
        self.clock.push((offset, log_time_ms));
        let position = Position { partition: self.partition, offset };
        let place = Place { position, log: i128::from(log_time_ms) * 1_000_000 };
        let outcome = self.spaces.entry(event.space.clone()).or_default().step(&place, event, value);
        if let (Fate::Accepted, Some(Body::LogCreated(created))) = (outcome.fate, &event.body)
            && let Ok(key) = created.commitment_key.as_slice().try_into()
        {
            self.commitment_key = key;
        }
        outcome
    }

    /// A space in which something was written.
    pub fn space(&self, space: &str) -> Option<&Space> {
        self.spaces.get(space)
    }

    /// Every space in which something was written, in the order of the bytes.
    pub fn spaces(&self) -> impl Iterator<Item = (&str, &Space)> {
        self.spaces.iter().map(|(id, space)| (id.as_str(), space))
    }

    /// How a node stands now; absent if it has not arrived.
    pub fn standing(&self, space: &str, node: &str) -> Option<Standing> {
        self.spaces.get(space)?.standings.get(node).copied()
    }

    /// How a node stood when everything up to an offset had been applied.
    pub fn standing_as_of(&self, space: &str, node: &str, offset: u64) -> Option<Standing> {
        let history = self.spaces.get(space)?.history.get(node)?;
        history.iter().rev().find(|(since, _)| *since <= offset).map(|(_, standing)| *standing)
    }

    /// The last offset whose log time is not after a time: what "as of" that time includes.
    pub fn offset_as_of(&self, log_time_ms: i64) -> Option<u64> {
        self.clock.iter().rev().find(|(_, time)| *time <= log_time_ms).map(|(offset, _)| *offset)
    }

    /// The state digest of a space.
    pub fn digest(&self, space: &str) -> String {
        format!("{:032x}", self.spaces.get(space).map_or(0, |space| space.digest(&self.commitment_key)))
    }
}

impl Space {
    /// Every node that has arrived, and how it stands.
    pub fn standings(&self) -> &BTreeMap<String, Standing> {
        &self.standings
    }

    /// The moves of a node, also of why alone, oldest first: the offset and how it stood from then on.
    pub fn history(&self, node: &str) -> &[(u64, Standing)] {
        self.history.get(node).map_or(&[], Vec::as_slice)
    }

    fn step(&mut self, place: &Place, event: &Event, value: &[u8]) -> Outcome {
        let without_effect = |fate| Outcome { fate, changes: Vec::new(), sources: 0 };
        let value = if event.body.is_none() { value } else { &[] };
        if let Some((seen, seen_value)) = self.events.get(&event.id) {
            let is_same = seen == event && seen_value == value;
            return without_effect(if is_same { Fate::Duplicate } else { Fate::Rejected("event_id_taken") });
        }
        let stops = match &event.body {
            Some(Body::LogicActivated(activated)) => activated.logic_version != 1,
            Some(_) => false,
            None => event.must_understand,
        };
        if stops {
            return without_effect(Fate::Stopped);
        }
        let named = match self.apply(place, event) {
            Ok(named) => named,
            Err(code) => return without_effect(Fate::Rejected(code)),
        };
        self.events.insert(event.id.clone(), (event.clone(), value.to_vec()));
        if event.body.is_none() {
            return without_effect(Fate::Skipped);
        }
        let offset = place.position.offset;
        self.last_applied = Some(offset);
        let before = std::mem::take(&mut self.standings);
        self.standings = self.work_out_standings();
        for (node, standing) in &self.standings {
            if before.get(node) != Some(standing) {
                self.history.entry(node.clone()).or_default().push((offset, *standing));
            }
        }
        Outcome { fate: Fate::Accepted, changes: self.changes(&before, &named), sources: named.sources }
    }

    fn apply(&mut self, place: &Place, event: &Event) -> Applied {
        let identity = |kind: &str, subject: &str, content: &Option<v1::Content>| Identity {
            kind: kind.to_owned(),
            subject: subject.to_owned(),
            content: content.as_ref().map(Message::encode_to_vec).unwrap_or_default(),
            ..Identity::default()
        };
        match &event.body {
            Some(Body::SourceDeclared(declared)) => self.declare(declared),
            Some(Body::Observed(observed)) => {
                let (source, observed_at) = (observed.source.clone(), observed.observed_at.clone());
                let identity = identity("observation", &observed.subject, &observed.content);
                self.observe(
                    place,
                    event,
                    &observed.node,
                    Identity { source, observed_at, ..identity },
                    &observed.source_kind,
                )
            }
            Some(Body::Derived(derived)) => {
                let identity = identity(&derived.kind, &derived.subject, &derived.content);
                self.derive(place, event, &derived.node, identity, &derived.justification)
            }
            Some(Body::ActionProposed(proposed)) if proposed.mode == "ask" => Err("not_in_this_version"),
            Some(Body::ActionProposed(proposed)) => {
                let identity = identity("action", &proposed.subject, &proposed.content);
                let action = [proposed.r#type.clone(), proposed.amount.clone(), proposed.currency.clone()];
                self.derive(place, event, &proposed.action, Identity { action, ..identity }, &proposed.justification)
            }
            Some(Body::Justified(justified)) => self.justify(place, event, &justified.node, &justified.justification),
            Some(Body::Retracted(retracted)) => self.retract(place, event, retracted),
            Some(Body::Reinstated(reinstated)) => {
                self.check_position(place, &reinstated.only_if_position)?;
                let targets = self.lift(&reinstated.retraction);
                Ok(Named { sources: count_sources(&targets), targets, ..Named::default() })
            }
            Some(Body::ActionSettled(settled)) => self.settle(&settled.action, &settled.outcome),
            Some(Body::ActionReviewed(_) | Body::PolicySet(_)) => Err("not_in_this_version"),
            // Logs whose writers sign have tests of their own.
            Some(Body::KeyEnrolled(_) | Body::KeyRevoked(_)) => Err("bad_value"),
            Some(Body::Read(_) | Body::Handoff(_) | Body::LogCreated(_) | Body::LogicActivated(_) | Body::Tick(_))
            | None => Ok(Named::default()),
        }
    }

    fn observe(&mut self, place: &Place, event: &Event, id: &str, identity: Identity, source_kind: &str) -> Applied {
        match self.nodes.get(id) {
            Some(node) if node.identity == identity => return Ok(Named::default()),
            Some(_) => return Err("node_id_taken"),
            None => {}
        }
        let source = self.sources.entry(identity.source.clone()).or_default();
        source.source = identity.source.clone();
        if source.kind.is_empty() {
            source.kind = source_kind.to_owned();
        }
        let written = written(place, event, &[&identity.observed_at, &event.occurred_at]);
        self.nodes.insert(id.to_owned(), Node { identity, written, arrival: place.position.offset });
        Ok(Named { heads: [id.to_owned()].into(), ..Named::default() })
    }

    fn derive(
        &mut self,
        place: &Place,
        event: &Event,
        id: &str,
        identity: Identity,
        justification: &Option<v1::Justification>,
    ) -> Applied {
        if self.nodes.get(id).is_some_and(|node| node.identity != identity) {
            return Err("node_id_taken");
        }
        let named = self.justify(place, event, id, justification)?;
        let written = written(place, event, &[&event.occurred_at]);
        self.nodes.entry(id.to_owned()).or_insert(Node { identity, written, arrival: place.position.offset });
        Ok(named)
    }

    fn justify(&mut self, place: &Place, event: &Event, head: &str, reason: &Option<v1::Justification>) -> Applied {
        let reason = reason.clone().unwrap_or_default();
        let id = if reason.id.is_empty() { event.id.clone() } else { reason.id };
        let premises: BTreeSet<String> = reason.premises.into_iter().collect();
        match self.justifications.get(&id) {
            Some(known) if known.head == head && known.premises == premises => {}
            Some(_) => return Err("justification_id_taken"),
            None => {
                let written = written(place, event, &[&event.occurred_at]);
                self.justifications.insert(id, Justification { head: head.to_owned(), premises, written });
            }
        }
        Ok(Named { heads: [head.to_owned()].into(), ..Named::default() })
    }

    fn retract(&mut self, place: &Place, event: &Event, retracted: &v1::Retracted) -> Applied {
        let id = if retracted.retraction.is_empty() { &event.id } else { &retracted.retraction };
        if retracted.replaces.contains(id) {
            return Err("bad_value");
        }
        if self.retractions.contains_key(id) {
            return Err("retraction_id_taken");
        }
        self.check_position(place, &retracted.only_if_position)?;
        let mut targets: Vec<Target> = retracted.targets.iter().map(target).collect();
        self.retractions.insert(id.clone(), targets.clone());
        // One that was lifted before it arrived covers nothing; what it replaces it lifts all the same.
        if self.lifted.contains(id) {
            targets.clear();
        }
        let lifted: Vec<Target> = retracted.replaces.iter().flat_map(|replaced| self.lift(replaced)).collect();
        let sources = count_sources(if targets.is_empty() { &lifted } else { &targets });
        targets.extend(lifted);
        Ok(Named { targets, sources, ..Named::default() })
    }

    /// Lifts a retraction, known or not; the targets that end by it.
    fn lift(&mut self, id: &str) -> Vec<Target> {
        let stood = self.lifted.insert(id.to_owned());
        self.retractions.get(id).filter(|_| stood).cloned().unwrap_or_default()
    }

    fn check_position(&self, place: &Place, only_if_position: &str) -> Result<(), &'static str> {
        let holds = only_if_position.parse::<Position>().map_or(only_if_position.is_empty(), |expected| {
            expected.partition == place.position.partition
                && self.last_applied.is_none_or(|last| last <= expected.offset)
        });
        if holds { Ok(()) } else { Err("position_passed") }
    }

    fn declare(&mut self, declared: &SourceDeclared) -> Applied {
        let is_ground = |kind: &str| ["system", "user", "operator"].contains(&kind);
        let known = self.sources.get(&declared.source);
        let changes_kind = known.is_some_and(|known| {
            !declared.kind.is_empty()
                && known.kind != declared.kind
                && (!known.kind.is_empty() || is_ground(&declared.kind))
        });
        if changes_kind && declared.operator.is_empty() {
            return Err("operator_needed");
        }
        let source = self.sources.entry(declared.source.clone()).or_default();
        source.source = declared.source.clone();
        let replace = |known: &mut String, said: &String| {
            if !said.is_empty() {
                known.clone_from(said);
            }
        };
        replace(&mut source.kind, &declared.kind);
        replace(&mut source.name, &declared.name);
        replace(&mut source.group, &declared.group);
        source.trust_millionths = declared.trust_millionths.or(source.trust_millionths);
        source.cost_millionths = declared.cost_millionths.or(source.cost_millionths);
        source.attributes.extend(declared.attributes.clone());
        Ok(Named::default())
    }

    fn settle(&mut self, action: &str, outcome: &str) -> Applied {
        if self.nodes.get(action).is_some_and(|node| node.identity.kind != "action") {
            return Err("action_transition");
        }
        let state = self.settled.get(action).map_or("recorded", String::as_str);
        match (state, outcome) {
            ("recorded", "done" | "failed" | "abandoned") | ("done", "undone") => {}
            (state, outcome) if state == outcome => {}
            _ => return Err("action_transition"),
        }
        self.settled.insert(action.to_owned(), outcome.to_owned());
        Ok(Named::default())
    }
}

/// Who wrote an item and when; on the writer's clock the first of `said` that is there, else log time.
fn written(place: &Place, event: &Event, said: &[&str]) -> Written {
    let observed = said.iter().find_map(|text| time::parse("", text).ok()).map_or(place.log, |instant| instant.0);
    Written { agent: event.agent.clone(), run: event.run.clone(), observed, log: place.log }
}

fn target(target: &v1::Target) -> Target {
    let window = target.window.clone().unwrap_or_default();
    let end = |text: &str, open: i128| time::parse("", text).map_or(open, |instant| instant.0);
    let is_agent = matches!(target.what, Some(What::Agent(_)));
    let on_log_clock = if window.clock.is_empty() { is_agent } else { window.clock == "log" };
    let (from, to) = (end(&window.from, i128::MIN), end(&window.to, i128::MAX));
    Target { what: target.what.clone(), from, to, on_log_clock, encoded: target.encode_to_vec() }
}

fn count_sources(targets: &[Target]) -> usize {
    let source = |target: &Target| match &target.what {
        Some(What::Source(source)) => Some(source.clone()),
        _ => None,
    };
    targets.iter().filter_map(source).collect::<BTreeSet<String>>().len()
}
