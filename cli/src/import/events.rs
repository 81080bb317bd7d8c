//! Events of one run, in order, each valid by itself.
//!
//! The id of an event is the id of the node it creates; a further reason adds `/reason/N`, an outcome `/settled`. A source
//! is declared by `declared/KIND/SOURCE`, and by the same bytes in every run that reads it: it names no run and no time.
//!
//! The contract's limits are kept without cutting: a text over 256 KiB is given as its hash (BLAKE3) and length, and more
//! than 1,024 premises stand in groups, each a belief of its own that rests on all of its part.

use std::collections::{BTreeMap, BTreeSet};

use recant_proto::{
    v1::{
        ActionProposed, ActionSettled, Content, ContentHash, Derived, Event, Justification, Justified, Observed, Rule,
        SourceDeclared, content::Form, event::Body,
    },
    validate::{self, DEFAULT_LIMITS},
};

use super::ids::shortened;

/// Who, in which run and step, and when: what all events of one entry share.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The agent.
    pub agent: String,
    /// The step of the run.
    pub step: String,
    /// When, or empty.
    pub occurred_at: String,
}

/// An observation to be written.
#[derive(Debug)]
pub struct Observation {
    /// Its node.
    pub node: String,
    /// Its source.
    pub source: String,
    /// The source's kind.
    pub kind: String,
    /// What it says.
    pub text: String,
    /// More about it.
    pub attributes: BTreeMap<String, String>,
}

/// One reason to be written.
#[derive(Debug, Clone)]
pub struct Reason {
    /// What it rests on; at least one node.
    pub premises: Vec<String>,
    /// The rule that made it.
    pub rule: &'static str,
    /// The model that concluded, or empty.
    pub model: String,
}

/// What an action is, beside its reason.
#[derive(Debug, Default)]
pub struct Deed {
    /// Its type.
    pub action_type: String,
    /// Its amount and currency, both or neither.
    pub money: Option<(String, String)>,
    /// What is done.
    pub text: String,
    /// The tool that does it.
    pub tool: String,
}

/// Writes the events of one run.
#[derive(Debug)]
pub struct Writer {
    space: String,
    run: String,
    events: Vec<Event>,
    declared: BTreeSet<String>,
    /// Nodes whose text was too long for an event.
    pub hashed: Vec<String>,
}

/// Whether the contract takes this as an amount with its currency.
pub fn is_amount(amount: &str, currency: &str) -> bool {
    let body = ActionProposed {
        action: "a".to_owned(),
        r#type: "t".to_owned(),
        amount: amount.to_owned(),
        currency: currency.to_owned(),
        justification: Some(Justification { premises: vec!["p".to_owned()], ..Justification::default() }),
        ..ActionProposed::default()
    };
    let body = Some(Body::ActionProposed(body));
    let event = Event { id: "e".to_owned(), space: "s".to_owned(), body, ..Event::default() };
    !amount.is_empty() && validate::check(&event, 0, &DEFAULT_LIMITS).is_ok()
}

impl Writer {
    /// A writer of events of this run.
    pub fn new(space: &str, run: &str) -> Self {
        let (space, run) = (space.to_owned(), shortened(run.to_owned()));
        Writer { space, run, events: Vec::new(), declared: BTreeSet::new(), hashed: Vec::new() }
    }

    /// The events, in order.
    pub fn into_events(self) -> Vec<Event> {
        self.events
    }

    fn push(&mut self, id: String, context: &Context, body: Body) {
        self.events.push(Event {
            id,
            space: self.space.clone(),
            agent: shortened(context.agent.clone()),
            run: self.run.clone(),
            step: context.step.clone(),
            occurred_at: context.occurred_at.clone(),
            body: Some(body),
            ..Event::default()
        });
    }

    fn content(&mut self, node: &str, text: String) -> Option<Content> {
        let form = if text.len() > DEFAULT_LIMITS.max_text_bytes as usize {
            self.hashed.push(node.to_owned());
            Form::Hash(ContentHash {
                algorithm: "blake3".to_owned(),
                digest: blake3::hash(text.as_bytes()).as_bytes().to_vec(),
                length_bytes: text.len() as u64,
            })
        } else {
            Form::Text(text)
        };
        Some(Content { form: Some(form), ..Content::default() })
    }

    fn declare(&mut self, source: &str, kind: &str) {
        let id = shortened(format!("declared/{kind}/{source}"));
        if !self.declared.insert(id.clone()) {
            return;
        }
        let declared = SourceDeclared { source: source.to_owned(), kind: kind.to_owned(), ..SourceDeclared::default() };
        let body = Some(Body::SourceDeclared(declared));
        self.events.push(Event { id, space: self.space.clone(), body, ..Event::default() });
    }

    /// An observation, and its source if it is new in this run.
    pub fn observe(&mut self, context: &Context, observation: Observation) {
        let Observation { node, source, kind, text, attributes } = observation;
        let source = shortened(source);
        self.declare(&source, &kind);
        let content = self.content(&node, text);
        let observed =
            Observed { node: node.clone(), source, source_kind: kind, content, attributes, ..Observed::default() };
        self.push(node, context, Body::Observed(observed));
    }

    /// A belief with its first reason.
    pub fn believe(&mut self, context: &Context, node: &str, text: String, reason: Reason) {
        let justification = Some(self.justification(context, node, reason));
        let content = self.content(node, text);
        let (node, kind) = (node.to_owned(), "belief".to_owned());
        let derived = Derived { node: node.clone(), kind, content, justification, ..Derived::default() };
        self.push(node, context, Body::Derived(derived));
    }

    /// One more reason for a belief; `number` counts from 1.
    pub fn believe_again(&mut self, context: &Context, node: &str, number: usize, reason: Reason) {
        let id = shortened(format!("{node}/reason/{number}"));
        let justification = Some(self.justification(context, &id, reason));
        self.push(id, context, Body::Justified(Justified { node: node.to_owned(), justification }));
    }

    /// An action that was recorded.
    pub fn act(&mut self, context: &Context, node: &str, deed: Deed, reason: Reason) {
        let justification = Some(self.justification(context, node, reason));
        let content = self.content(node, deed.text);
        let (amount, currency) = deed.money.unwrap_or_default();
        let proposed = ActionProposed {
            action: node.to_owned(),
            r#type: deed.action_type,
            amount,
            currency,
            content,
            justification,
            mode: "record".to_owned(),
            attributes: [("tool".to_owned(), deed.tool)].into(),
            ..ActionProposed::default()
        };
        self.push(node.to_owned(), context, Body::ActionProposed(proposed));
    }

    /// How an action went.
    pub fn settle(&mut self, context: &Context, action: &str, error: Option<&str>) {
        let outcome = if error.is_some() { "failed" } else { "done" };
        let fits = |text: &&str| text.len() <= DEFAULT_LIMITS.max_text_bytes as usize;
        let settled = ActionSettled {
            action: action.to_owned(),
            outcome: outcome.to_owned(),
            detail: error.filter(fits).unwrap_or_default().to_owned(),
            settled_at: context.occurred_at.clone(),
        };
        self.push(shortened(format!("{action}/settled")), context, Body::ActionSettled(settled));
    }

    fn justification(&mut self, context: &Context, head: &str, reason: Reason) -> Justification {
        let Reason { premises, rule, model } = reason;
        let premises = self.within_limit(context, head, premises);
        let rule = Rule { name: rule.to_owned(), model: shortened(model), ..Rule::default() };
        Justification { premises, rule: Some(rule), ..Justification::default() }
    }

    fn within_limit(&mut self, context: &Context, head: &str, premises: Vec<String>) -> Vec<String> {
        let limit = DEFAULT_LIMITS.max_premises as usize;
        if premises.len() <= limit {
            return premises;
        }
        let mut groups = Vec::new();
        for (number, part) in premises.chunks(limit).enumerate() {
            let node = shortened(format!("{head}/premises/{number}"));
            let text = format!("{} premises of {head}", part.len());
            self.believe(context, &node, text, Reason { premises: part.to_vec(), rule: "group", model: String::new() });
            groups.push(node);
        }
        self.within_limit(context, &format!("{head}/premises"), groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(event: &Event) {
        let bytes = recant_proto::wire::to_protobuf(event).len();
        validate::check(event, bytes, &DEFAULT_LIMITS).unwrap();
    }

    #[test]
    fn amounts_are_those_of_the_contract() {
        for (amount, currency, sound) in
            [("98.7", "USD", true), ("98.7", "", false), ("", "", false), ("1e3", "USD", false), ("5", "usd", false)]
        {
            assert_eq!(is_amount(amount, currency), sound, "{amount} {currency}");
        }
    }

    /// Nothing is cut: a text over the limit keeps its hash, and premises over the limit all count.
    #[test]
    fn what_is_over_a_limit_is_kept_whole() {
        let mut writer = Writer::new("s", "r");
        let context = Context { agent: "a".repeat(300), step: "1".into(), occurred_at: String::new() };
        let premises: Vec<String> = (0..2_500).map(|number| format!("p{number}")).collect();
        let reason = Reason { premises, rule: "context", model: String::new() };
        writer.believe(&context, "b", "x".repeat(300_000), reason);
        assert_eq!(writer.hashed, ["b"]);
        let events = writer.into_events();
        events.iter().for_each(check);
        let premises = |event: &Event| match &event.body {
            Some(Body::Derived(derived)) => derived.justification.clone().unwrap().premises,
            _ => Vec::new(),
        };
        let groups: Vec<_> = events[..3].iter().map(premises).collect();
        assert_eq!(groups.concat().len(), 2_500);
        assert_eq!(premises(&events[3]), ["b/premises/0", "b/premises/1", "b/premises/2"]);
    }

    /// Every run that reads a source declares it by the same event.
    #[test]
    fn a_source_is_declared_by_the_same_bytes_everywhere() {
        let declare = |run: &str| {
            let mut writer = Writer::new("s", run);
            let context =
                Context { agent: run.to_owned(), step: "3".into(), occurred_at: "2026-01-01T00:00:00Z".into() };
            for node in ["n1", "n2"] {
                let observation = Observation {
                    node: format!("{run}/{node}"),
                    source: "file:a".into(),
                    kind: "file".into(),
                    text: run.to_owned(),
                    attributes: BTreeMap::new(),
                };
                writer.observe(&context, observation);
            }
            writer.into_events()
        };
        let (one, other) = (declare("r1"), declare("r2"));
        assert_eq!(one[0], other[0]);
        assert_eq!(one.len(), 3);
        one.iter().chain(&other).for_each(check);
    }
}
