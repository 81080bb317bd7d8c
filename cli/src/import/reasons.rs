//! From what was said in a run to events with reasons.
//!
//! Both modes: what the agent was told and what a tool returned are observations; what the agent says is a belief that
//! rests on its previous message and on all that came since (the *context*); a call that the map names is an action.
//! Sources: a system prompt is `system:` and a hash of its text, so that one bad prompt can be retracted wherever it was
//! used; a person is `user:NAME` where the transcript names them, else `user:RUN`, since two unknown persons are not one;
//! a tool's result is from what the map says, or from `tool:NAME(ARGUMENTS)`, and an action's from `tool:NAME`.
//!
//! `context`: an action rests on the message that made the call.
//!
//! `literals`: each argument of an action that carries a value becomes a belief, with one reason for each observation
//! before it in which the value stands ([`corpus`](super::corpus) says when it does). The action rests on all these
//! beliefs and on the request, the last that a user said; not on the message. A value that stands nowhere rests on the
//! message's context. An action without any value rests on the context alone, since nothing else speaks for it.
//! - Lists and objects are taken apart: `recipients[0]`, `attachments[0].file_id`. `true`, `false`, null and empty texts
//!   carry no value. A number equals only a number (or a long code of the same digits), at whatever place it stands.
//! - What the agent said itself is no reason. Nor is an echo: a tool's result is no reason for a value that stood in the
//!   call itself (for a call that only reads: in a text, so that a page size is no echo of an amount), nor for one that
//!   stood in an action called before it, since a world that repeats what the agent wrote into it vouches for nothing.
//!   What the system and the user say is never an echo.

use std::collections::{BTreeMap, BTreeSet};

use recant_proto::v1::Event;

use super::{
    ImportOptions, Reasons, Warning, Warnings,
    corpus::{Corpus, Value},
    events::{self, Context, Deed, Observation, Reason, Writer},
    ids::{self, shortened},
    json::Json,
    map::{self, ActionRule, Currency, Tool},
    normalise::normalise,
    numbers,
    transcript::{Call, Entry, Returned, Role, Transcript, What},
    words,
};

/// A value has at most this many reasons; more are told in a warning.
const REASONS_MAX: usize = 1_024;

/// Arguments of a call that read are told with its result up to this length; they stand in the agent's message in any case.
const ARGUMENTS_BYTES_MAX: usize = 64 << 10;

/// The events of a run, in order.
pub fn events(transcript: &Transcript, options: &ImportOptions, warnings: &mut Warnings) -> (String, Vec<Event>) {
    let run = match &options.run_prefix {
        Some(prefix) => format!("{prefix}/{}", transcript.run),
        None => transcript.run.clone(),
    };
    let run = shortened(run);
    let mut importer = Importer {
        transcript,
        options,
        warnings,
        writer: Writer::new(&options.space, &run),
        run,
        previous: None,
        since: Vec::new(),
        request: None,
        observations: Vec::new(),
        corpus: Corpus::default(),
        told: Told::default(),
        actions: BTreeMap::new(),
    };
    for (number, entry) in transcript.entries.iter().enumerate() {
        importer.entry(number, entry);
    }
    for node in std::mem::take(&mut importer.writer.hashed) {
        importer
            .warnings
            .push(Warning { message: None, text: format!("{node}: its text is over 256 KiB; kept as its hash") });
    }
    (importer.run, importer.writer.into_events())
}

struct Importer<'a> {
    transcript: &'a Transcript,
    options: &'a ImportOptions,
    warnings: &'a mut Warnings,
    run: String,
    writer: Writer,
    /// The agent's previous message.
    previous: Option<String>,
    /// What was observed since.
    since: Vec<String>,
    /// The last that a user said.
    request: Option<String>,
    /// All observations, numbered as the texts of the corpus.
    observations: Vec<Seen>,
    corpus: Corpus,
    told: Told,
    /// The nodes of actions, by entry and call.
    actions: BTreeMap<(usize, usize), String>,
}

/// An observation in which values are looked up.
struct Seen {
    node: String,
    /// For a tool's result: its entry, and the call that it answers.
    result: Option<(usize, Option<(usize, usize)>)>,
}

/// What the agent put into its calls: the values that a result can echo.
#[derive(Default)]
struct Told {
    corpus: Corpus,
    arguments: Vec<Argument>,
}

struct Argument {
    call: (usize, usize),
    is_action: bool,
    is_text: bool,
}

impl Told {
    fn add(&mut self, place: (usize, usize), call: &Call, is_action: bool) {
        for leaf in leaves(&call.arguments) {
            let (text, is_text) = match leaf.value {
                Json::Text(text) => (text, true),
                Json::Number(number) => (number, false),
                _ => continue,
            };
            self.corpus.add(text);
            self.arguments.push(Argument { call: place, is_action, is_text });
        }
    }

    /// Whether one of the arguments in which a value stands makes that result an echo of it.
    fn is_echo(&self, standing: &BTreeSet<usize>, entry: usize, answers: Option<(usize, usize)>) -> bool {
        standing.iter().filter_map(|number| self.arguments.get(*number)).any(|argument| {
            let before = argument.call.0 < entry;
            let own = Some(argument.call) == answers;
            (argument.is_action && before) || (own && (argument.is_text || argument.is_action))
        })
    }
}

impl Importer<'_> {
    fn node(&self, name: &str) -> String {
        shortened(format!("{}/{name}", self.run))
    }

    fn warn(&mut self, entry: &Entry, text: String) {
        self.warnings.push(Warning { message: entry.step.parse().ok(), text });
    }

    fn context(&self, entry: &Entry, agent: Option<&String>) -> Context {
        Context {
            agent: agent.unwrap_or(&self.transcript.agent).clone(),
            step: entry.step.clone(),
            occurred_at: entry.occurred_at.clone(),
        }
    }

    fn entry(&mut self, number: usize, entry: &Entry) {
        match &entry.what {
            What::Told { role, name, text } => self.told(entry, role, name.as_deref(), text),
            What::Concluded { agent, text, calls } => self.concluded(number, entry, agent.as_ref(), text, calls),
            What::Returned(returned) => self.returned(number, entry, returned),
        }
    }

    fn observe(&mut self, entry: &Entry, result: Option<(usize, Option<(usize, usize)>)>, observation: Observation) {
        if self.options.reasons == Reasons::Literals {
            self.corpus.add(&observation.text);
            self.observations.push(Seen { node: observation.node.clone(), result });
        }
        self.since.push(observation.node.clone());
        let context = self.context(entry, None);
        self.writer.observe(&context, observation);
    }

    fn told(&mut self, entry: &Entry, role: &Role, name: Option<&str>, text: &str) {
        let node = self.node(&entry.name);
        let (source, kind) = match role {
            Role::System => (format!("system:{}", ids::hash(text, 16)), "system"),
            Role::User => {
                let person = name.or(self.transcript.user.as_deref()).unwrap_or(&self.run);
                self.request = Some(node.clone());
                (format!("user:{person}"), "user")
            }
            Role::Other(role) => (format!("role:{role}"), "unknown"),
        };
        let (kind, text, attributes) = (kind.to_owned(), text.to_owned(), BTreeMap::new());
        self.observe(entry, None, Observation { node, source, kind, text, attributes });
    }

    fn returned(&mut self, number: usize, entry: &Entry, returned: &Returned) {
        let call = returned.call.and_then(|(at, call)| self.call_at(at, call));
        let tool = self.options.map.tool(&returned.tool);
        let (source, kind) = self.source_of(entry, returned, call.as_ref(), tool);
        let mut attributes = BTreeMap::from([("tool".to_owned(), shortened(returned.tool.clone()))]);
        if let Some(arguments) =
            call.map(|call| call.arguments.canonical()).filter(|it| it.len() <= ARGUMENTS_BYTES_MAX)
        {
            attributes.insert("arguments".to_owned(), arguments);
        }
        let (node, kind, text) = (self.node(&entry.name), kind.to_owned(), returned.text.clone());
        self.observe(entry, Some((number, returned.call)), Observation { node, source, kind, text, attributes });
        let action = returned.call.filter(|_| returned.is_first).and_then(|call| self.actions.get(&call));
        if let Some(action) = action.cloned() {
            let says_failed = tool.is_some_and(|tool| tool.says_failed(&returned.text));
            let error = returned.error.as_deref().or(says_failed.then_some(returned.text.as_str()));
            let context = self.context(entry, None);
            self.writer.settle(&context, &action, error);
        }
    }

    fn call_at(&self, entry: usize, call: usize) -> Option<Call> {
        match &self.transcript.entries.get(entry)?.what {
            What::Concluded { calls, .. } => calls.get(call).cloned(),
            _ => None,
        }
    }

    /// The source that a result comes from, and its kind.
    fn source_of<'a>(
        &mut self,
        entry: &Entry,
        returned: &Returned,
        call: Option<&Call>,
        tool: Option<&'a Tool>,
    ) -> (String, &'a str) {
        let name = &returned.tool;
        let kind = tool.map_or(map::DEFAULT_KIND, Tool::kind);
        let template = tool.and_then(|tool| tool.source.as_ref());
        // The kind of a default source is the map's only if the map names a kind and no source.
        let default_kind = if template.is_none() { kind } else { map::DEFAULT_KIND };
        let Some(call) = call else { return (format!("tool:{name}"), default_kind) };
        let default = match tool.and_then(|tool| tool.action.as_ref()) {
            Some(_) => format!("tool:{name}"),
            None => format!("tool:{name}({})", call.arguments.canonical()),
        };
        let Some(template) = template else { return (default, default_kind) };
        match template.render(&call.arguments) {
            // An argument must not name what the agent was told by those it works for.
            Ok(source) if map::is_reserved(&source) && !recant_proto::id::is_ground(kind) => {
                let text =
                    format!("{name} would have read {source:?}, which is kept for ground; its default source is used");
                self.warn(entry, text);
                (default, default_kind)
            }
            Ok(source) => (source, kind),
            Err(missing) => {
                let text = format!("the source of {name} needs the argument `{missing}`; its default source is used");
                self.warn(entry, text);
                (default, default_kind)
            }
        }
    }

    fn concluded(&mut self, number: usize, entry: &Entry, agent: Option<&String>, text: &str, calls: &[Call]) {
        let context = self.context(entry, agent);
        let premises = self.premises_so_far(entry);
        let node = self.node(&entry.name);
        let told = calls.iter().map(|call| format!("{}({})", call.tool, call.arguments.canonical()));
        let text: Vec<String> = Some(text.to_owned()).filter(|text| !text.is_empty()).into_iter().chain(told).collect();
        let from_context = Reason { premises, rule: "context", model: self.transcript.model.clone() };
        self.writer.believe(&context, &node, text.join("\n"), from_context.clone());
        for (index, call) in calls.iter().enumerate() {
            let action = self.options.map.tool(&call.tool).and_then(|tool| tool.action.as_ref());
            if self.options.reasons == Reasons::Literals {
                self.told.add((number, index), call, action.is_some());
            }
            let Some(rule) = action else { continue };
            let action_node = self.node(&format!("{}/call/{index}", entry.step));
            let reason = match self.options.reasons {
                Reasons::Context => Reason { premises: vec![node.clone()], ..from_context.clone() },
                Reasons::Literals => self.reason_by_arguments(entry, &context, &action_node, call, rule, &from_context),
            };
            let deed = Deed {
                action_type: rule.action_type.clone(),
                money: self.money(entry, call, rule),
                text: format!("{}({})", call.tool, call.arguments.canonical()),
                tool: shortened(call.tool.clone()),
            };
            self.writer.act(&context, &action_node, deed, reason);
            self.actions.insert((number, index), action_node);
        }
        self.previous = Some(node);
    }

    /// The previous message and all that came since. A run that begins with the agent's own words rests on what was not
    /// recorded, and says so.
    fn premises_so_far(&mut self, entry: &Entry) -> Vec<String> {
        if self.previous.is_none() && self.since.is_empty() {
            self.warn(entry, "is the agent's, and nothing before it was recorded".to_owned());
            let observation = Observation {
                node: self.node("unrecorded"),
                source: format!("unrecorded:{}", self.run),
                kind: "unrecorded".to_owned(),
                text: String::new(),
                attributes: BTreeMap::new(),
            };
            self.observe(entry, None, observation);
        }
        self.previous.take().into_iter().chain(std::mem::take(&mut self.since)).collect()
    }

    /// The amount as a decimal, with its currency.
    fn money(&mut self, entry: &Entry, call: &Call, rule: &ActionRule) -> Option<(String, String)> {
        let amount_path = rule.amount.as_ref()?;
        let currency = match rule.currency.as_ref()? {
            Currency::Fixed(currency) => currency.clone(),
            Currency::Argument(path) => call.arguments.at(path).and_then(Json::text).unwrap_or_default().to_uppercase(),
        };
        let written = call.arguments.at(amount_path)?;
        let amount = match written {
            // As it was written, if it is plain: 98.70 stays 98.70.
            Json::Number(number) if events::is_amount(number, &currency) => Some(number.clone()),
            Json::Number(number) => numbers::plain_decimal(number),
            Json::Text(text) if events::is_amount(text.trim(), &currency) => Some(text.trim().to_owned()),
            Json::Text(text) => only_number(text),
            _ => None,
        };
        let money =
            amount.map(|amount| (amount, currency)).filter(|(amount, currency)| events::is_amount(amount, currency));
        if money.is_none() {
            let written = written.canonical();
            self.warn(entry, format!("{}: {written} is no amount with a currency of ISO 4217; left out", call.tool));
        }
        money
    }

    /// One belief for each value among the arguments; the action rests on them and on the request.
    fn reason_by_arguments(
        &mut self,
        entry: &Entry,
        context: &Context,
        action: &str,
        call: &Call,
        rule: &ActionRule,
        from_context: &Reason,
    ) -> Reason {
        let mut premises = Vec::new();
        for leaf in leaves(&call.arguments) {
            let (shown, value) = match leaf.value {
                Json::Text(text) if text.trim().is_empty() => continue,
                Json::Text(text) => (text.clone(), Value::of_text(text)),
                Json::Number(number) => (number.clone(), Value::of_number(number)),
                _ => continue,
            };
            let node = shortened(format!("{action}/arg/{}", leaf.path));
            let standing = self.standing(&value);
            if !standing.is_empty() {
                self.believe_value(entry, context, &node, format!("{} = {shown}", leaf.path), standing);
            } else if is_incidental(&leaf.path, rule) {
                premises.extend(self.values_within(entry, context, &node, &leaf));
                continue;
            } else {
                self.writer.believe(context, &node, format!("{} = {shown}", leaf.path), from_context.clone());
            }
            premises.push(node);
        }
        if premises.is_empty() {
            return from_context.clone();
        }
        premises.extend(self.request.clone());
        Reason { premises, rule: "arguments", model: String::new() }
    }

    /// The long codes and addresses in a text of the agent's own that were read somewhere.
    fn values_within(&mut self, entry: &Entry, context: &Context, node: &str, leaf: &Leaf<'_>) -> Vec<String> {
        let Json::Text(text) = leaf.value else { return Vec::new() };
        let mut nodes = Vec::new();
        for (number, found) in codes_within(text).into_iter().enumerate() {
            let standing = self.standing(&Value::of_text(&found));
            if !standing.is_empty() {
                let node = shortened(format!("{node}/{number}"));
                self.believe_value(entry, context, &node, format!("{} holds {found}", leaf.path), standing);
                nodes.push(node);
            }
        }
        nodes
    }

    /// The observations that are reasons for a value.
    fn standing(&self, value: &Value) -> Vec<String> {
        let told = self.told.corpus.texts_with(value);
        let is_reason =
            |seen: &&Seen| seen.result.is_none_or(|(entry, answers)| !self.told.is_echo(&told, entry, answers));
        let texts = self.corpus.texts_with(value);
        let seen = texts.into_iter().filter_map(|number| self.observations.get(number));
        seen.filter(is_reason).map(|seen| seen.node.clone()).collect()
    }

    fn believe_value(&mut self, entry: &Entry, context: &Context, node: &str, text: String, mut standing: Vec<String>) {
        if standing.len() > REASONS_MAX {
            self.warn(
                entry,
                format!("{node} stands in {} observations; the first {REASONS_MAX} are its reasons", standing.len()),
            );
            standing.truncate(REASONS_MAX);
        }
        let literal = |premise: String| Reason { premises: vec![premise], rule: "literal", model: String::new() };
        let mut reasons = standing.into_iter().map(literal);
        if let Some(first) = reasons.next() {
            self.writer.believe(context, node, text, first);
        }
        for (number, reason) in reasons.enumerate() {
            self.writer.believe_again(context, node, number + 1, reason);
        }
    }
}

struct Leaf<'a> {
    path: String,
    value: &'a Json,
}

/// The values that are no lists or objects, with their paths, in the order of their keys.
fn leaves(arguments: &Json) -> Vec<Leaf<'_>> {
    fn walk<'a>(path: String, value: &'a Json, found: &mut Vec<Leaf<'a>>) {
        match value {
            Json::List(items) => {
                items.iter().enumerate().for_each(|(index, item)| walk(format!("{path}[{index}]"), item, found));
            }
            Json::Object(members) => members.iter().for_each(|(key, member)| {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                walk(path, member, found);
            }),
            _ => found.push(Leaf { path, value }),
        }
    }
    let mut found = Vec::new();
    walk(String::new(), arguments, &mut found);
    found
}

fn is_incidental(path: &str, rule: &ActionRule) -> bool {
    rule.incidental.iter().any(|name| {
        path.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    })
}

/// The long codes, addresses of mail and of the web in a text.
fn codes_within(text: &str) -> Vec<String> {
    let normal = normalise(text);
    let is_code = |word: &words::Word<'_>| {
        let is_address = word.raw.contains('@') || word.raw.contains("://") || word.raw.starts_with("www.");
        is_address || word.readings.iter().any(|reading| reading.starts_with('c'))
    };
    words::words(&normal).into_iter().filter(is_code).map(|word| word.raw.to_owned()).collect()
}

/// The one number in a text such as `$1,000.00`, if it can be read in one way.
fn only_number(text: &str) -> Option<String> {
    let normal = normalise(text);
    let mut numbers = words::words(&normal)
        .into_iter()
        .flat_map(|word| word.readings)
        .filter_map(|reading| reading.strip_prefix('n').map(str::to_owned));
    let number = numbers.next()?;
    numbers.next().is_none().then_some(number)
}
