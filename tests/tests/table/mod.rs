//! Hand-written tables: events in few words, and a log that checks what each of them causes.
#![allow(dead_code, reason = "no test file uses all of these words")]

use prost::Message;
use recant_proto::{
    v1::{
        Content, Derived, Event, Justification, Justified, Observed, Reinstated, Retracted, Target, Window,
        content::Form, event::Body, target::What,
    },
    validate,
};
use recant_tests::{
    generate::BEGIN_MS,
    oracle::{Change, Fate, Oracle, Standing},
};

/// Between two events of a table.
pub const HOUR_MS: i64 = 3_600_000;

/// Steps through a table: one space, one hour between events.
pub struct Table {
    pub oracle: Oracle,
    pub offset: u64,
}

impl Table {
    pub fn new() -> Self {
        Table { oracle: Oracle::new(0), offset: 0 }
    }

    pub fn fate(&mut self, event: Event) -> (Fate, Vec<String>) {
        assert_eq!(validate::check(&event, event.encoded_len(), &validate::DEFAULT_LIMITS), Ok(()));
        let append_time_ms = BEGIN_MS + self.offset as i64 * HOUR_MS;
        let outcome = self.oracle.step(self.offset, append_time_ms, &event, &[]);
        self.offset += 1;
        let text = |change: &Change| {
            let why = change.why.map(|why| format!(" {why}")).unwrap_or_default();
            format!("{} {}>{}{why} @{}", change.node, change.from.unwrap_or(""), change.to, change.distance)
        };
        (outcome.fate, outcome.changes.iter().map(text).collect())
    }

    /// The event is accepted and causes exactly this cascade.
    pub fn step(&mut self, event: Event, changes: &[&str]) {
        let shown = format!("{event:?}");
        assert_eq!(
            self.fate(event),
            (Fate::Accepted, changes.iter().map(|change| change.to_string()).collect()),
            "{shown}"
        );
    }

    /// The event is refused with this code, and leaves no trace in the digest.
    pub fn refused(&mut self, event: Event, code: &'static str) {
        let (digest, shown) = (self.oracle.digest("s"), format!("{event:?}"));
        assert_eq!(self.fate(event), (Fate::Rejected(code), vec![]), "{shown}");
        assert_eq!(self.oracle.digest("s"), digest, "{shown}");
    }

    pub fn is(&self, node: &str, standing: Standing) {
        assert_eq!(self.oracle.standing("s", node), Some(standing), "{node}");
    }
}

pub fn event(id: &str, body: Body) -> Event {
    Event { id: id.to_owned(), space: "s".to_owned(), agent: "a".to_owned(), body: Some(body), ..Event::default() }
}

pub fn text(text: &str) -> Option<Content> {
    Some(Content { form: Some(Form::Text(text.to_owned())), media_type: String::new() })
}

pub fn observed(node: &str, source: &str) -> Event {
    let observed =
        Observed { node: node.to_owned(), source: source.to_owned(), content: text(node), ..Observed::default() };
    event(&format!("observed {node}"), Body::Observed(observed))
}

pub fn reason(premises: &[&str]) -> Option<Justification> {
    Some(Justification { premises: premises.iter().map(|id| id.to_string()).collect(), ..Justification::default() })
}

/// A belief; the id of the event, and so of its justification, is `head<premises`.
pub fn derived(node: &str, premises: &[&str]) -> Event {
    let derived = Derived {
        node: node.to_owned(),
        kind: "belief".to_owned(),
        content: text(node),
        justification: reason(premises),
        ..Derived::default()
    };
    event(&format!("{node}<{}", premises.join("+")), Body::Derived(derived))
}

pub fn justified(node: &str, premises: &[&str]) -> Event {
    let justified = Justified { node: node.to_owned(), justification: reason(premises) };
    event(&format!("{node}<{}", premises.join("+")), Body::Justified(justified))
}

pub fn source(id: &str) -> Target {
    Target { what: Some(What::Source(id.to_owned())), window: None }
}

pub fn node(id: &str) -> Target {
    Target { what: Some(What::Node(id.to_owned())), window: None }
}

pub fn justification(id: &str) -> Target {
    Target { what: Some(What::Justification(id.to_owned())), window: None }
}

pub fn within(target: Target, from: &str, to: &str, clock: &str) -> Target {
    Target { window: Some(Window { from: from.to_owned(), to: to.to_owned(), clock: clock.to_owned() }), ..target }
}

pub fn retracted(id: &str, targets: &[Target]) -> Event {
    event(id, Body::Retracted(Retracted { targets: targets.to_vec(), ..Retracted::default() }))
}

pub fn reinstated(id: &str) -> Event {
    let reinstated = Reinstated { retraction: id.to_owned(), ..Reinstated::default() };
    event(&format!("reinstate {id}"), Body::Reinstated(reinstated))
}

pub fn named_retraction(id: &str, targets: &[Target]) -> Event {
    let retracted = Retracted { retraction: id.to_owned(), targets: targets.to_vec(), ..Retracted::default() };
    event(id, Body::Retracted(retracted))
}
