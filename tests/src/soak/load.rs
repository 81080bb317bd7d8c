//! What a writer appends. It must be of one kind all along, or nothing could be flat: sources are succeeded by others after
//! some observations, premises are of late, most rest on observations, so that what falls together has a size that does not
//! depend on how much there is; and of what a writer retracts it leaves little standing.
//!
//! One writer writes to every space, so that a call spans partitions. Its events in a space are numbered without a gap:
//! `e-WRITER.SPACE-NUMBER`.

use recant_proto::v1::{
    ActionProposed, Content, Derived, Event, Justification, Justified, Observed, Reinstated, Retracted, Target,
    content::Form, event::Body, target::What,
};

use crate::binary::Random;

/// The spaces; the first two, and so on by turns, lie in different partitions of two.
pub const SPACES: [&str; 6] = ["north", "south", "east", "west", "upper", "lower"];

/// How many partitions there are.
pub const PARTITIONS: u32 = 2;

const OBSERVATIONS_A_SOURCE: u64 = 40;
const RECENT_MAX: usize = 48;
const STANDING_MAX: usize = 3;
const TEXT_BYTES_MAX: u64 = 300;

/// One source under many beliefs, which falls and rises in one cascade; of the first writer, in the first space.
const HUB_BELIEFS: u64 = 300;
const HUB_TURNS_EVERY: u64 = 300;

/// A writer in one life.
pub struct Writer {
    name: String,
    random: Random,
    hub: Option<Hub>,
    places: Vec<Place>,
}

struct Hub {
    beliefs: u64,
    fallen: Option<String>,
}

/// What a writer knows of a space.
#[derive(Default)]
struct Place {
    events: u64,
    observed: u64,
    observations: Vec<String>,
    derived: Vec<String>,
    standing: Vec<String>,
}

impl Writer {
    /// A writer of a life.
    pub fn new(seed: u64, life: u64, number: u64) -> Writer {
        Writer {
            name: format!("w{number}-{life}"),
            random: Random(seed ^ (life << 32) ^ (number << 16)),
            hub: (number == 0).then_some(Hub { beliefs: 0, fallen: None }),
            places: SPACES.iter().map(|_| Place::default()).collect(),
        }
    }

    /// What it appends next, in one call.
    pub fn next_call(&mut self) -> Vec<Event> {
        (0..1 + self.random.below(6)).map(|_| self.next_event()).collect()
    }

    fn next_event(&mut self) -> Event {
        if let Some(event) = self.next_of_hub() {
            return event;
        }
        let space = self.random.below(SPACES.len() as u64) as usize;
        let number = self.places[space].events;
        let node = format!("n-{}.{}-{number}", self.name, SPACES[space]);
        let id = self.event_id(space);
        let body = match self.random.below(100) {
            0..42 => self.observed(space, node),
            42..68 => self.derived(space, node, "belief"),
            68..72 => self.derived(space, node, "plan"),
            72..78 => {
                let justified = self.recent(space, true);
                Body::Justified(Justified { node: justified, justification: Some(self.justification(space)) })
            }
            78..82 => Body::ActionProposed(ActionProposed {
                action: node,
                r#type: "payment.transfer".to_owned(),
                amount: "10.00".to_owned(),
                currency: "EUR".to_owned(),
                justification: Some(self.justification(space)),
                ..ActionProposed::default()
            }),
            82..98 => self.retracted_or_reinstated(space, &id),
            // Rejected: the name of a node that is there, with other content.
            _ => {
                let node = self.recent(space, false);
                Body::Observed(Observed { node, source: "elsewhere".to_owned(), ..Observed::default() })
            }
        };
        self.event(space, id, body)
    }

    fn event_id(&self, space: usize) -> String {
        format!("e-{}.{}-{}", self.name, SPACES[space], self.places[space].events)
    }

    fn event(&mut self, space: usize, id: String, body: Body) -> Event {
        self.places[space].events += 1;
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
    fn next_of_hub(&mut self) -> Option<Event> {
        let hub_name = format!("hub-{}", self.name);
        let id = self.event_id(0);
        let hub = self.hub.as_mut()?;
        let body = if hub.beliefs == 0 {
            hub.beliefs = 1;
            Body::Observed(Observed { node: hub_name.clone(), source: hub_name, ..Observed::default() })
        } else if hub.beliefs < HUB_BELIEFS {
            let node = format!("{hub_name}-{}", hub.beliefs);
            hub.beliefs += 1;
            let justification = Some(Justification { premises: vec![hub_name], ..Justification::default() });
            Body::Derived(Derived { node, kind: "belief".to_owned(), justification, ..Derived::default() })
        } else if self.random.below(HUB_TURNS_EVERY) > 0 {
            return None;
        } else if let Some(retraction) = hub.fallen.take() {
            Body::Reinstated(Reinstated { retraction, ..Reinstated::default() })
        } else {
            hub.fallen = Some(id.clone());
            retract(&id, What::Source(hub_name))
        };
        Some(self.event(0, id, body))
    }

    fn observed(&mut self, space: usize, node: String) -> Body {
        let source = self.source(space, 0);
        self.places[space].observed += 1;
        remember(&mut self.places[space].observations, &node);
        Body::Observed(Observed { node, source, content: Some(self.content()), ..Observed::default() })
    }

    /// The source that speaks now, or one that did before.
    fn source(&self, space: usize, before: u64) -> String {
        let now = self.places[space].observed / OBSERVATIONS_A_SOURCE;
        format!("s-{}-{}", self.name, now.saturating_sub(before))
    }

    fn derived(&mut self, space: usize, node: String, kind: &str) -> Body {
        let justification = Some(self.justification(space));
        remember(&mut self.places[space].derived, &node);
        let content = Some(self.content());
        Body::Derived(Derived { node, kind: kind.to_owned(), content, justification, ..Derived::default() })
    }

    fn justification(&mut self, space: usize) -> Justification {
        let premises = 1 + self.random.below(3);
        let premise = |writer: &mut Writer| {
            let is_derived = writer.random.below(5) == 0;
            writer.recent(space, is_derived)
        };
        Justification { premises: (0..premises).map(|_| premise(self)).collect(), ..Justification::default() }
    }

    /// A node of late; at times one that comes a little later, or never.
    fn recent(&mut self, space: usize, is_derived: bool) -> String {
        let ahead = self.random.below(20) == 0;
        let place = &self.places[space];
        let nodes = if is_derived { &place.derived } else { &place.observations };
        if nodes.is_empty() || ahead {
            let number = place.events + self.random.below(20);
            return format!("n-{}.{}-{number}", self.name, SPACES[space]);
        }
        nodes[self.random.below(nodes.len() as u64) as usize].clone()
    }

    fn content(&mut self) -> Content {
        let bytes = self.random.below(TEXT_BYTES_MAX);
        // Digits that compress badly, so that tables fill.
        let text: String = (0..bytes / 8).map(|_| format!("{:08x}", self.random.below(u64::from(u32::MAX)))).collect();
        Content { form: Some(Form::Text(text)), ..Content::default() }
    }

    fn retracted_or_reinstated(&mut self, space: usize, event: &str) -> Body {
        let standing = self.places[space].standing.len();
        if standing == STANDING_MAX || (standing > 0 && self.random.below(2) == 0) {
            let chosen = self.random.below(standing as u64) as usize;
            let retraction = self.places[space].standing.swap_remove(chosen);
            return Body::Reinstated(Reinstated { retraction, ..Reinstated::default() });
        }
        self.places[space].standing.push(event.to_owned());
        let what = match self.random.below(3) {
            0 => {
                let before = self.random.below(2);
                What::Source(self.source(space, before))
            }
            1 => What::Node(self.recent(space, false)),
            _ => {
                let back = 1 + self.random.below(30);
                let number = self.places[space].events.saturating_sub(back);
                What::Justification(format!("e-{}.{}-{number}", self.name, SPACES[space]))
            }
        };
        retract(event, what)
    }
}

fn remember(nodes: &mut Vec<String>, node: &str) {
    if nodes.len() == RECENT_MAX {
        nodes.remove(0);
    }
    nodes.push(node.to_owned());
}

fn retract(id: &str, what: What) -> Body {
    let targets = vec![Target { what: Some(what), window: None }];
    Body::Retracted(Retracted { retraction: id.to_owned(), targets, by: "ana".to_owned(), ..Retracted::default() })
}
