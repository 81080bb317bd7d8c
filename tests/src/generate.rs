//! Random sequences of events over a small universe, for everything that must agree with the oracle.
//!
//! A [`Sequence`] is a list of small abstract steps; [`records`] turns it into the records of one partition, always the
//! same ones. Numbers in steps are taken modulo what there is, so that a sequence from which steps were dropped still
//! means something: proptest shrinks the list and the numbers, never the events. Every event is valid by itself;
//! whether it is accepted depends on what came before, and the generator knows nothing of that.
//!
//! The first record is a `LogCreated`. Two spaces are interleaved, with the same ids in both. All times are whole
//! quarters of an hour, so that windows often begin or end exactly at an item's time.

mod steps;

use std::collections::BTreeMap;

use prost::Message;
use recant_proto::{
    id::CONTROL_SPACE,
    v1::{
        ActionProposed, ActionReviewed, ActionSettled, AgentTarget, Content, Derived, Event, Handoff, Justification,
        Justified, LogCreated, LogicActivated, Observed, Read, Reinstated, Retracted, SourceDeclared, Target, Tick,
        Window, content::Form, event::Body, target::What,
    },
    wire,
};

pub use steps::{
    Action, Aim, Assertion, Clock, Declaration, Interval, Mark, Name, Reason, Repetition, Retraction, Sequence, Step,
    Which, seeded, sequences,
};

/// The partition of every record; it is the only one of its log.
pub const PARTITION: u32 = 0;

/// The two spaces of a sequence.
pub const SPACES: [&str; 2] = ["north", "south"];

/// 2026-03-01T00:00:00Z, at which every sequence begins, in milliseconds since 1970.
pub const BEGIN_MS: i64 = 1_772_323_200_000;

const QUARTER_MS: i64 = 15 * 60 * 1000;

/// One record of the partition.
#[derive(Debug, Clone)]
pub struct Record {
    /// Its offset; some offsets are not used, as on Kafka.
    pub offset: u64,
    /// The log's clock when it was appended; goes back at times.
    pub append_time_ms: i64,
    /// The event; without body if its body is one that nobody knows.
    pub event: Event,
    /// The event as it lies in the log.
    pub value: Vec<u8>,
}

/// The records of a sequence.
pub fn records(sequence: &Sequence) -> Vec<Record> {
    let created = LogCreated {
        incarnation: "00112233445566778899aabbccddeeff".to_owned(),
        partitions: 1,
        logic_version: 1,
        commitment_key: if sequence.has_key { vec![7; 32] } else { Vec::new() },
        writers: "open".to_owned(),
        log_time: "append".to_owned(),
        ..LogCreated::default()
    };
    let mut writer = Writer { universe: sequence.universe.max(1), ..Writer::default() };
    let event = envelope("log-created", CONTROL_SPACE, Body::LogCreated(created));
    let value = wire::to_protobuf(&event);
    let mut records = vec![Record { offset: 0, append_time_ms: BEGIN_MS, event, value }];
    let (mut offset, mut append_time_ms) = (0, BEGIN_MS);
    for (number, step) in sequence.steps.iter().enumerate() {
        offset += if step.leaves_gap { 2 } else { 1 };
        append_time_ms += i64::from(step.quarters) * QUARTER_MS;
        let (event, value) = writer.write(number, offset, step);
        records.push(Record { offset, append_time_ms, event, value });
    }
    records
}

/// Drops one record after the other as long as what is left still fails. To be called on what proptest has shrunk: dropping
/// a step moves what the numbers in other steps mean, dropping a record does not.
pub fn minimized(records: Vec<Record>, fails: impl Fn(&[Record]) -> bool) -> Vec<Record> {
    let mut left = records;
    loop {
        let before = left.len();
        for index in (0..before).rev() {
            let mut fewer = left.clone();
            fewer.remove(index);
            if fails(&fewer) {
                left = fewer;
            }
        }
        if left.len() == before {
            return left;
        }
    }
}

/// The records as lines to read when something differs: position, the log's clock, and the event as JSON.
pub fn listing(records: &[Record]) -> String {
    let line = |record: &Record| {
        let body = if record.event.body.is_some() { "" } else { " and a body that nobody knows" };
        let event = wire::to_json(&record.event);
        format!("{PARTITION}:{} at {} ms: {event}{body}\n", record.offset, record.append_time_ms)
    };
    records.iter().map(line).collect()
}

/// A time, in quarters of an hour since the sequence began; every third one with another offset.
pub fn time(quarters: u8) -> String {
    let (offset_minutes, zone) = [(0, "Z"), (330, "+05:30"), (60, "+01:00")][usize::from(quarters) % 3];
    let minutes = u32::from(quarters) * 15 + offset_minutes;
    format!("2026-03-{:02}T{:02}:{:02}:00{zone}", 1 + minutes / 1440, minutes / 60 % 24, minutes % 60)
}

/// What is needed to write the next event: what was issued so far.
#[derive(Debug, Default)]
struct Writer {
    universe: u8,
    written: Vec<Event>,
    nodes: BTreeMap<String, Nodes>,
    justifications: BTreeMap<String, Vec<String>>,
    retractions: BTreeMap<String, Vec<String>>,
}

/// The nodes of one space, in the order in which they were first written, or awaited.
#[derive(Debug, Default)]
struct Nodes {
    written: Vec<u8>,
    awaited: Vec<u8>,
}

impl Nodes {
    fn write(&mut self, node: u8) {
        self.awaited.retain(|awaited| *awaited != node);
        if !self.written.contains(&node) {
            self.written.push(node);
        }
    }
}

impl Writer {
    fn write(&mut self, number: usize, offset: u64, step: &Step) -> (Event, Vec<u8>) {
        let id = format!("e{number}");
        if let Action::Repeat { back, how } = &step.action
            && let Some(event) = nth_last(&self.written, *back).cloned()
        {
            return repeat(event, id, *how);
        }
        let space = SPACES[usize::from(step.in_other_space)];
        let (space, body) = match &step.action {
            Action::Tick => (CONTROL_SPACE, Some(Body::Tick(Tick {}))),
            Action::ActivateLogic => (CONTROL_SPACE, Some(Body::LogicActivated(LogicActivated { logic_version: 1 }))),
            Action::Unknown => (space, None),
            action => (space, Some(self.body(space, &id, offset, action))),
        };
        let event = Event {
            id,
            space: space.to_owned(),
            agent: agent(step.agent),
            run: run(step.run),
            step: String::new(),
            occurred_at: step.occurred_at.map(time).unwrap_or_default(),
            body,
            ..Event::default()
        };
        self.written.push(event.clone());
        let value = encode(&event);
        (event, value)
    }

    fn body(&mut self, space: &str, event_id: &str, offset: u64, action: &Action) -> Body {
        match action {
            Action::Assert(assertion) => self.assertion(space, event_id, assertion),
            Action::Justify { node, reason } => {
                let node = self.named(space, node);
                Body::Justified(Justified { node, justification: Some(self.justification(space, event_id, reason)) })
            }
            Action::Retract(retraction) => Body::Retracted(self.retraction(space, event_id, offset, retraction)),
            Action::Reinstate { which, only_if } => Body::Reinstated(Reinstated {
                retraction: issued(&self.retractions, space, "r", which),
                only_if_position: only_if.as_ref().map(|mark| position(mark, offset)).unwrap_or_default(),
                by: "ana".to_owned(),
                ..Reinstated::default()
            }),
            Action::Declare(declaration) => Body::SourceDeclared(declared(declaration)),
            Action::Settle { node, outcome } => Body::ActionSettled(ActionSettled {
                action: node_id(self.modulo(*node)),
                outcome: ["done", "failed", "abandoned", "undone"][usize::from(*outcome) % 4].to_owned(),
                ..ActionSettled::default()
            }),
            Action::Review { node } => Body::ActionReviewed(ActionReviewed {
                action: node_id(self.modulo(*node)),
                verdict: "allow".to_owned(),
                by: "ana".to_owned(),
                ..ActionReviewed::default()
            }),
            Action::Read { node } => {
                Body::Read(Read { nodes: vec![node_id(self.modulo(*node))], query: "what is known?".to_owned() })
            }
            // A repetition of nothing: the first of all steps is a repetition.
            Action::Repeat { .. } | Action::Handoff | Action::Tick | Action::ActivateLogic | Action::Unknown => {
                Body::Handoff(Handoff { to_agent: agent(0), ..Handoff::default() })
            }
        }
    }

    fn modulo(&self, number: u8) -> u8 {
        number % self.universe
    }

    /// The number of a node. One that is not written is awaited from now on.
    fn node(&mut self, space: &str, name: &Name) -> u8 {
        let universe = self.universe;
        let nodes = self.nodes.entry(space.to_owned()).or_default();
        let is_observation = |node: &u8| Nature::of(*node) == Nature::Observation;
        let (observed, reasoned): (Vec<u8>, Vec<u8>) = nodes.written.iter().partition(|node| is_observation(node));
        let nth = |counted: &[u8], back: &u8| nth_last(counted, *back).copied().unwrap_or(*back % universe);
        let node = match name {
            Name::Written(back) => nth(&nodes.written, back),
            Name::Observed(back) => nth(&observed, back),
            Name::Reasoned(back) => nth(&reasoned, back),
            Name::Awaited(back) => nth(&nodes.awaited, back),
            Name::Number(number) => number % universe,
        };
        if !nodes.written.contains(&node) && !nodes.awaited.contains(&node) {
            nodes.awaited.push(node);
        }
        node
    }

    fn named(&mut self, space: &str, name: &Name) -> String {
        node_id(self.node(space, name))
    }

    /// A node arrives: its kind and content follow from its number, so that it often comes again with the same.
    fn assertion(&mut self, space: &str, event_id: &str, assertion: &Assertion) -> Body {
        let node = self.node(space, &assertion.node);
        let deviates = |part: u8| assertion.deviates == Some(part);
        let content = Some(Content {
            form: Some(Form::Text(format!("text of {node}{}", if deviates(0) { ", edited" } else { "" }))),
            media_type: String::new(),
        });
        let subject = if deviates(1) { "another subject".to_owned() } else { format!("subject {}", node % 3) };
        let justification = |writer: &mut Self| Some(writer.justification(space, event_id, &assertion.reason));
        self.nodes.entry(space.to_owned()).or_default().write(node);
        match Nature::of(node) {
            Nature::Observation => Body::Observed(Observed {
                node: node_id(node),
                source: source_id(if deviates(2) { node } else { node / 3 % 3 }),
                source_kind: source_kind(assertion.source_kind),
                content,
                subject,
                // Of four observations one has no time of its own.
                observed_at: if node % 4 == 3 { String::new() } else { time(node.wrapping_mul(11) % 48) },
                ..Observed::default()
            }),
            Nature::Belief | Nature::Plan => Body::Derived(Derived {
                node: node_id(node),
                kind: if deviates(2) != (Nature::of(node) == Nature::Plan) { "plan" } else { "belief" }.to_owned(),
                subject,
                content,
                justification: justification(self),
                ..Derived::default()
            }),
            Nature::Action => Body::ActionProposed(ActionProposed {
                action: node_id(node),
                r#type: "payment.transfer".to_owned(),
                amount: if deviates(2) { "7.00" } else { "34500.00" }.to_owned(),
                currency: "EUR".to_owned(),
                subject,
                content,
                justification: justification(self),
                mode: if assertion.asks { "ask" } else { "" }.to_owned(),
                ..ActionProposed::default()
            }),
        }
    }

    fn justification(&mut self, space: &str, event_id: &str, reason: &Reason) -> Justification {
        let id = reason.id.map(|number| format!("j{number}")).unwrap_or_default();
        let issued = if id.is_empty() { event_id.to_owned() } else { id.clone() };
        self.justifications.entry(space.to_owned()).or_default().push(issued);
        let premises = reason.premises.iter().map(|premise| self.named(space, premise)).collect();
        Justification { id, premises, rule: None }
    }

    fn retraction(&mut self, space: &str, event_id: &str, offset: u64, retraction: &Retraction) -> Retracted {
        let replaces = &retraction.replaces;
        let replaces: Vec<String> = replaces.iter().map(|which| issued(&self.retractions, space, "r", which)).collect();
        let id = retraction.id.map(|number| format!("r{number}")).unwrap_or_default();
        let targets = retraction
            .targets
            .iter()
            .map(|(aim, interval)| Target { what: Some(self.what(space, aim)), window: interval.as_ref().map(window) });
        let retracted = Retracted {
            targets: targets.collect(),
            replaces,
            only_if_position: retraction.only_if.as_ref().map(|mark| position(mark, offset)).unwrap_or_default(),
            retraction: id.clone(),
            reason: "was hacked".to_owned(),
            by: "ana".to_owned(),
        };
        let issued = if id.is_empty() { event_id.to_owned() } else { id };
        self.retractions.entry(space.to_owned()).or_default().push(issued);
        retracted
    }

    fn what(&mut self, space: &str, aim: &Aim) -> What {
        match aim {
            Aim::Source(number) => What::Source(source_id(*number)),
            Aim::Node(name) => What::Node(self.named(space, name)),
            Aim::Justification(which) => What::Justification(issued(&self.justifications, space, "j", which)),
            Aim::Agent { agent: number, run: of_run } => {
                What::Agent(AgentTarget { agent: agent(number % 3), run: of_run.map(run).unwrap_or_default() })
            }
        }
    }
}

/// What the node with a number is: of eight nodes three are observations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nature {
    Observation,
    Belief,
    Plan,
    Action,
}

impl Nature {
    fn of(node: u8) -> Nature {
        match node % 8 {
            0 | 3 | 6 => Nature::Observation,
            1 | 2 | 4 => Nature::Belief,
            5 => Nature::Plan,
            _ => Nature::Action,
        }
    }
}

/// The id of the node with a number.
pub fn node_id(node: u8) -> String {
    let kind = match Nature::of(node) {
        Nature::Observation => "observation",
        Nature::Belief => "belief",
        Nature::Plan => "plan",
        Nature::Action => "action",
    };
    format!("{kind}-{node}")
}

fn source_id(number: u8) -> String {
    format!("source-{}", number % 4)
}

fn source_kind(number: u8) -> String {
    ["", "web", "tool", "user"][usize::from(number) % 4].to_owned()
}

/// The fourth agent has no name, and no target can name it.
fn agent(number: u8) -> String {
    ["planner", "buyer", "critic", ""][usize::from(number) % 4].to_owned()
}

fn run(number: u8) -> String {
    ["", "run-1", "run-2"][usize::from(number) % 3].to_owned()
}

/// A retraction or justification by its place among those issued, the latest first, or by a name that may not be there
/// yet.
fn issued(known: &BTreeMap<String, Vec<String>>, space: &str, prefix: &str, which: &Which) -> String {
    let named = |number: u8| format!("{prefix}{number}");
    match which {
        Which::Named(number) => named(*number),
        Which::Issued(back) => {
            known.get(space).and_then(|ids| nth_last(ids, *back)).cloned().unwrap_or_else(|| named(*back))
        }
    }
}

fn nth_last<T>(items: &[T], back: u8) -> Option<&T> {
    items.iter().rev().nth(usize::from(back) % items.len().max(1))
}

fn position(mark: &Mark, offset: u64) -> String {
    let partition = if mark.in_other_partition { PARTITION + 1 } else { PARTITION };
    format!("{partition}:{}", offset.saturating_sub(u64::from(mark.back)))
}

fn window(interval: &Interval) -> Window {
    let (from, to) = match (interval.from, interval.to) {
        (Some(from), Some(to)) => (Some(from.min(to)), Some(from.max(to))),
        ends => ends,
    };
    Window {
        from: from.map(time).unwrap_or_default(),
        to: to.map(time).unwrap_or_default(),
        clock: match interval.clock {
            Clock::Default => "",
            Clock::Observed => "observed",
            Clock::Log => "log",
        }
        .to_owned(),
    }
}

fn declared(declaration: &Declaration) -> SourceDeclared {
    let attribute =
        declaration.attribute.map(|number| (format!("attribute-{}", number % 2), format!("value {number}")));
    SourceDeclared {
        source: source_id(declaration.source),
        kind: source_kind(declaration.kind),
        name: declaration.name.map(|number| format!("name {number}")).unwrap_or_default(),
        attributes: attribute.into_iter().collect(),
        trust_millionths: declaration.vouched.map(|number| i64::from(number) * 1000),
        group: declaration.vouched.map(|number| format!("group {}", number % 2)).unwrap_or_default(),
        cost_millionths: declaration.vouched.map(i64::from),
        operator: if declaration.by_operator || declaration.vouched.is_some() { "olga" } else { "" }.to_owned(),
    }
}

fn repeat(event: Event, id: String, how: Repetition) -> (Event, Vec<u8>) {
    let event = match how {
        Repetition::Same | Repetition::InJson => event,
        Repetition::OtherBytes => Event { step: "changed".to_owned(), ..event },
        Repetition::OtherId => Event { id, ..event },
    };
    let value = if how == Repetition::InJson && event.body.is_some() {
        wire::to_json(&event).to_string().into_bytes()
    } else {
        encode(&event)
    };
    (event, value)
}

/// The event in protobuf; one without body gets a body that nobody knows.
fn encode(event: &Event) -> Vec<u8> {
    let mut value = event.encode_to_vec();
    if event.body.is_none() {
        // Field 61, of length 2.
        value.extend([0xea, 0x03, 2, 0x08, 1]);
    }
    value
}

fn envelope(id: &str, space: &str, body: Body) -> Event {
    Event { id: id.to_owned(), space: space.to_owned(), body: Some(body), ..Event::default() }
}
