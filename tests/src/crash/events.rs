//! The load: what each of several writers appends. Sources that many observations share, beliefs and plans on them, actions,
//! retractions and reinstatements that overlap, what comes before its premises, what is rejected, and a hub: one source under
//! many beliefs, which falls and rises in cascades larger than a piece of a commit.
//!
//! What a writer appends follows from the seed, its number and its life; a life ends when the process is killed.

use recant_eventlog::NewRecord;
use recant_proto::{
    id::CONTROL_SPACE,
    names,
    position::Incarnation,
    v1::{
        ActionProposed, Content, Derived, Event, Justification, Justified, LogCreated, Observed, Reinstated, Retracted,
        Target, content::Form, event::Body, target::What,
    },
    wire,
};

use crate::binary::Random;

/// The spaces that are written to; each writer writes to both.
pub const SPACES: [&str; 2] = ["north", "south"];

/// The log's name.
pub const INCARNATION: Incarnation = Incarnation([0x5a; 16]);

const SOURCES: u64 = 8;
const HUB_BELIEFS: u64 = 60;
const TEXT_BYTES_MAX: u64 = 400;

/// One writer in one life.
pub struct Writer {
    name: String,
    random: Random,
    written: u64,
    nodes: [Vec<String>; 2],
    standing: Vec<(usize, String)>,
    hub: Hub,
}

/// How far the hub has come; only the first writer has one.
enum Hub {
    None,
    Built(u64),
    Fallen(String),
}

impl Writer {
    /// A writer of a life.
    pub fn new(seed: u64, life: u64, number: u64) -> Writer {
        Writer {
            name: format!("w{number}-{life}"),
            random: Random(seed ^ (life << 32) ^ (number << 16)),
            written: 0,
            nodes: [Vec::new(), Vec::new()],
            standing: Vec::new(),
            hub: if number == 0 { Hub::Built(0) } else { Hub::None },
        }
    }

    /// What it appends next, in one call.
    pub fn next_call(&mut self) -> Vec<Event> {
        let events = match self.hub {
            Hub::Built(beliefs) if beliefs < HUB_BELIEFS => 20,
            _ => 1 + self.random.below(4),
        };
        (0..events).map(|_| self.next_event()).collect()
    }

    fn next_event(&mut self) -> Event {
        let id = format!("e-{}-{}", self.name, self.written);
        let node = format!("n-{}-{}", self.name, self.written);
        self.written += 1;
        if let Some(body) = self.next_of_hub(&id) {
            return self.event(0, id, body);
        }
        let space = self.random.below(2) as usize;
        let body = match self.random.below(100) {
            0..38 => self.observed(space, node),
            38..63 => self.derived(space, node, "belief"),
            63..68 => self.derived(space, node, "plan"),
            68..74 => {
                Body::Justified(Justified { node: self.earlier(space), justification: Some(self.justification(space)) })
            }
            74..79 => Body::ActionProposed(ActionProposed {
                action: node,
                r#type: "payment.transfer".to_owned(),
                amount: "10.00".to_owned(),
                currency: "EUR".to_owned(),
                justification: Some(self.justification(space)),
                ..ActionProposed::default()
            }),
            79..87 => self.retracted(space, &id),
            87..95 => return self.reinstated(id),
            // Rejected: the name of a node that is there, with other content.
            _ => {
                let node = self.earlier(space);
                Body::Observed(Observed { node, source: "elsewhere".to_owned(), ..Observed::default() })
            }
        };
        self.event(space, id, body)
    }

    fn event(&self, space: usize, id: String, body: Body) -> Event {
        Event {
            id,
            space: SPACES[space].to_owned(),
            agent: self.name.clone(),
            run: "load".to_owned(),
            body: Some(body),
            ..Event::default()
        }
    }

    /// The hub is built, then falls and rises.
    fn next_of_hub(&mut self, event: &str) -> Option<Body> {
        let hub = format!("hub-{}", self.name);
        match &self.hub {
            Hub::None => None,
            Hub::Built(0) => {
                self.hub = Hub::Built(1);
                Some(Body::Observed(Observed { node: hub.clone(), source: hub, ..Observed::default() }))
            }
            Hub::Built(beliefs @ ..HUB_BELIEFS) => {
                let node = format!("{hub}-{beliefs}-{}", "x".repeat(100));
                self.hub = Hub::Built(beliefs + 1);
                let justification = Justification { premises: vec![hub], ..Justification::default() };
                let kind = "belief".to_owned();
                Some(Body::Derived(Derived { node, kind, justification: Some(justification), ..Derived::default() }))
            }
            Hub::Built(_) if self.random.below(8) == 0 => {
                self.hub = Hub::Fallen(event.to_owned());
                Some(retract(event, What::Source(hub)))
            }
            Hub::Fallen(retraction) if self.random.below(4) == 0 => {
                let retraction = retraction.clone();
                self.hub = Hub::Built(HUB_BELIEFS);
                Some(Body::Reinstated(Reinstated { retraction, ..Reinstated::default() }))
            }
            Hub::Built(_) | Hub::Fallen(_) => None,
        }
    }

    fn observed(&mut self, space: usize, node: String) -> Body {
        let source = format!("s-{}", self.random.below(SOURCES));
        self.nodes[space].push(node.clone());
        Body::Observed(Observed { node, source, content: Some(self.content()), ..Observed::default() })
    }

    fn derived(&mut self, space: usize, node: String, kind: &str) -> Body {
        let justification = Some(self.justification(space));
        self.nodes[space].push(node.clone());
        let content = Some(self.content());
        Body::Derived(Derived { node, kind: kind.to_owned(), content, justification, ..Derived::default() })
    }

    fn justification(&mut self, space: usize) -> Justification {
        let premises = 1 + self.random.below(3);
        Justification { premises: (0..premises).map(|_| self.earlier(space)).collect(), ..Justification::default() }
    }

    /// A node of this writer, often one of the last; at times one that does not come before long, or never.
    fn earlier(&mut self, space: usize) -> String {
        let nodes = self.nodes[space].len() as u64;
        if nodes == 0 || self.random.below(20) == 0 {
            return format!("n-{}-{}", self.name, self.written + self.random.below(30));
        }
        let back = self.random.below(nodes.min(40));
        self.nodes[space][(nodes - 1 - back) as usize].clone()
    }

    fn content(&mut self) -> Content {
        let bytes = self.random.below(TEXT_BYTES_MAX);
        // Digits that compress badly, so that tables fill.
        let text: String = (0..bytes / 8).map(|_| format!("{:08x}", self.random.below(u64::from(u32::MAX)))).collect();
        Content { form: Some(Form::Text(text)), ..Content::default() }
    }

    fn retracted(&mut self, space: usize, event: &str) -> Body {
        self.standing.push((space, event.to_owned()));
        let what = match self.random.below(3) {
            0 => What::Source(format!("s-{}", self.random.below(SOURCES))),
            1 => What::Node(self.earlier(space)),
            _ => What::Justification(format!("e-{}-{}", self.name, self.random.below(self.written))),
        };
        retract(event, what)
    }

    /// Reinstates what it retracted, or says something that is rejected.
    fn reinstated(&mut self, id: String) -> Event {
        let count = self.standing.len() as u64;
        let chosen = (count > 0).then(|| self.random.below(count) as usize);
        let (space, retraction) = chosen.map_or((0, String::new()), |at| self.standing.swap_remove(at));
        self.event(space, id, Body::Reinstated(Reinstated { retraction, ..Reinstated::default() }))
    }
}

fn retract(id: &str, what: What) -> Body {
    let targets = vec![Target { what: Some(what), window: None }];
    Body::Retracted(Retracted { retraction: id.to_owned(), targets, by: "ana".to_owned(), ..Retracted::default() })
}

/// An event as it is appended; the log has one partition.
pub fn record(event: &Event) -> NewRecord {
    NewRecord {
        partition: 0,
        key: event.space.clone().into_bytes(),
        headers: vec![(names::CONTENT_TYPE.to_owned(), names::PROTOBUF.into())],
        value: wire::to_protobuf(event),
        append_time_ms: None,
    }
}

/// The first record of the log.
pub fn log_created() -> NewRecord {
    let created = LogCreated {
        incarnation: INCARNATION.to_string(),
        partitions: 1,
        logic_version: 1,
        writers: "open".to_owned(),
        log_time: "append".to_owned(),
        ..LogCreated::default()
    };
    record(&Event {
        id: "log-created-0".to_owned(),
        space: CONTROL_SPACE.to_owned(),
        must_understand: true,
        body: Some(Body::LogCreated(created)),
        ..Event::default()
    })
}
