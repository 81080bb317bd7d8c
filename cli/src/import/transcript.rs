//! The shapes of transcripts that agents' frameworks write, and the one shape that the rest of the import reads.
//!
//! Read are, also mixed in one file:
//! - OpenAI's chat completions: `content` as text, as parts, or null; `tool_calls` with arguments as a JSON text or an
//!   object; `function_call` of old; results by `tool_call_id` (role `tool`) or by name (role `function`).
//! - Anthropic's messages: blocks `text`, `tool_use`, `tool_result`, `thinking`; `system` beside the messages.
//!
//! Whatever is not known passes. Nothing that was said is dropped silently:
//! - A result belongs to the first call of its id that has no result yet; without an id to the first open call of its
//!   name, or without a name to the first open call. A second result of a call, and a result of no call, are kept as
//!   observations.
//! - Arguments that are not JSON are one argument, `arguments`, with the text as it stands. So are those that are JSON and
//!   not an object. None, null and an empty text are no arguments.
//! - A part that is not text stands as its type in brackets, such as `[image_url]`.
//! - A message of an unknown role is kept as an observation. Only what is no object at all is left out, with a warning.

use recant_proto::time;

use super::{Warning, Warnings, ids, json::Json, numbers};

/// One run, as the import reads it.
#[derive(Debug)]
pub struct Transcript {
    /// The run's id.
    pub run: String,
    /// The agent that wrote it.
    pub agent: String,
    /// The model behind it; empty if not told.
    pub model: String,
    /// The person it works for, if the line names one.
    pub user: Option<String>,
    /// What was said, in order.
    pub entries: Vec<Entry>,
}

/// One thing that was said.
#[derive(Debug)]
pub struct Entry {
    /// The part of its node's id after the run's.
    pub name: String,
    /// The index of the message that holds it.
    pub step: String,
    /// When, as far as the data tell; else empty.
    pub occurred_at: String,
    /// What it is.
    pub what: What,
}

/// What was said.
#[derive(Debug)]
pub enum What {
    /// By those whom the agent works for, or by a role that is not known.
    Told {
        /// Whose words they are.
        role: Role,
        /// The name that the message gives, if any.
        name: Option<String>,
        /// The words.
        text: String,
    },
    /// By the agent.
    Concluded {
        /// The agent, if the message names it.
        agent: Option<String>,
        /// The words.
        text: String,
        /// The calls that it made.
        calls: Vec<Call>,
    },
    /// By a tool.
    Returned(Returned),
}

/// Who tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The system prompt (`system`, `developer`).
    System,
    /// The person.
    User,
    /// A role that is not known.
    Other(String),
}

/// A call of a tool.
#[derive(Debug, Clone)]
pub struct Call {
    /// The tool's name.
    pub tool: String,
    /// An object.
    pub arguments: Json,
}

/// A tool's result.
#[derive(Debug)]
pub struct Returned {
    /// Which entry and which of its calls it answers.
    pub call: Option<(usize, usize)>,
    /// Whether it is the first answer to that call.
    pub is_first: bool,
    /// The tool, if it is known without a call.
    pub tool: String,
    /// The text, with the error if there is one.
    pub text: String,
    /// What the transcript says went wrong.
    pub error: Option<String>,
}

/// A run of so many messages is one that never was; each takes some kilobytes while it is turned into events.
const MESSAGES_MAX: usize = 50_000;

/// Reads a line's run. `None` if it has no `messages`; an error tells what they are if not a list.
pub fn read(line: &Json, warnings: &mut Warnings) -> Result<Option<Transcript>, &'static str> {
    let messages = match line.get("messages") {
        None => return Ok(None),
        Some(messages) => messages.list().ok_or("not a list")?,
    };
    if messages.len() > MESSAGES_MAX {
        return Err("a list of more than 50,000; give the run several lines");
    }
    let metadata = line.get("metadata").unwrap_or(&Json::Null);
    let told = |key: &str| ids::name(line, key).or_else(|| ids::name(metadata, key));
    let model = told("model").unwrap_or_default();
    let agent = told("agent").or_else(|| Some(model.clone()).filter(|model| !model.is_empty()));
    let mut reader = Reader { entries: Vec::new(), open: Vec::new(), occurred_at: String::new(), warnings };
    reader.occurred_at = reader.time_of(line, None).unwrap_or_default();
    if let Some(system) = line.get("system") {
        let what = What::Told { role: Role::System, name: None, text: text_of(system) };
        reader.push("system".to_owned(), "system".to_owned(), String::new(), what);
    }
    for (index, message) in messages.iter().enumerate() {
        reader.message(index, message);
    }
    reader.note_unanswered();
    let entries = reader.entries;
    Ok(Some(Transcript {
        run: ids::run_id(line),
        agent: agent.unwrap_or_else(|| "assistant".to_owned()),
        model,
        user: told("user"),
        entries,
    }))
}

struct OpenCall {
    entry: usize,
    call: usize,
    id: String,
    tool: String,
    answered: bool,
}

struct Reader<'a> {
    entries: Vec<Entry>,
    open: Vec<OpenCall>,
    /// The line's own time, which holds where a message has none.
    occurred_at: String,
    warnings: &'a mut Warnings,
}

impl Reader<'_> {
    fn warn(&mut self, index: usize, text: impl Into<String>) {
        self.warnings.push(Warning { message: Some(index), text: text.into() });
    }

    fn push(&mut self, name: String, step: String, occurred_at: String, what: What) {
        let occurred_at = if occurred_at.is_empty() { self.occurred_at.clone() } else { occurred_at };
        self.entries.push(Entry { name, step, occurred_at, what });
    }

    fn message(&mut self, index: usize, message: &Json) {
        if !matches!(message, Json::Object(_)) {
            return self.warn(index, "is no object and is left out");
        }
        let role = message.get("role").and_then(Json::text).unwrap_or("");
        let at = self.time_of(message, Some(index)).unwrap_or_default();
        match role {
            "assistant" => self.assistant(index, at, message),
            "tool" | "function" => {
                let id = id_of(message, "tool_call_id");
                self.result(index, 0, at, message, id);
            }
            _ => self.told(index, at, message, role),
        }
    }

    fn told(&mut self, index: usize, at: String, message: &Json, role: &str) {
        let content = message.get("content").unwrap_or(&Json::Null);
        let is_result = |block: &&Json| block.get("type").and_then(Json::text) == Some("tool_result");
        let blocks = content.list().unwrap_or_default();
        let mut results = 0;
        for block in blocks.iter().filter(is_result) {
            self.result(index, results, at.clone(), block, id_of(block, "tool_use_id"));
            results += 1;
        }
        let text = text_of(content);
        if results > 0 && results == blocks.len() {
            return;
        }
        let role = match role {
            "system" | "developer" => Role::System,
            "user" => Role::User,
            other => {
                self.warn(index, format!("has the role {other:?}, which is not known; kept as an observation"));
                Role::Other(other.to_owned())
            }
        };
        let kind = match &role {
            Role::System => "system",
            Role::User => "user",
            Role::Other(_) => "other",
        };
        let what = What::Told { role, name: ids::name(message, "name"), text };
        self.push(format!("{index}/{kind}"), index.to_string(), at, what);
    }

    fn assistant(&mut self, index: usize, at: String, message: &Json) {
        let content = message.get("content").unwrap_or(&Json::Null);
        let mut text = text_of(content);
        if let Some(refusal) = message.get("refusal").and_then(Json::text).filter(|refusal| !refusal.is_empty()) {
            append_line(&mut text, refusal);
        }
        let blocks = content.list().unwrap_or_default();
        let uses = blocks.iter().filter(|block| block.get("type").and_then(Json::text) == Some("tool_use"));
        let listed = message.get("tool_calls").and_then(Json::list).unwrap_or_default();
        let old = message.get("function_call");
        let mut calls = Vec::new();
        for written in uses.chain(listed).chain(old) {
            let call = self.call(index, written);
            let open = OpenCall {
                entry: self.entries.len(),
                call: calls.len(),
                id: id_of(written, "id"),
                tool: call.tool.clone(),
                answered: false,
            };
            self.open.push(open);
            calls.push(call);
        }
        let what = What::Concluded { agent: ids::name(message, "name"), text, calls };
        self.push(format!("{index}/assistant"), index.to_string(), at, what);
    }

    /// A call, in any of its shapes: `{"function": {"name", "arguments"}}`, `{"name", "input"}`, `{"function": NAME, "args"}`.
    fn call(&mut self, index: usize, written: &Json) -> Call {
        let inner =
            [written.get("function"), written.get("custom")].into_iter().flatten().find(|it| it.text().is_none());
        let inner = inner.unwrap_or(written);
        let named = ids::name(inner, "name").or_else(|| ids::name(written, "function"));
        let tool = named.unwrap_or_else(|| {
            self.warn(index, "calls a tool that it does not name");
            "unknown".to_owned()
        });
        let arguments = ["arguments", "input", "args"].iter().find_map(|key| inner.get(key)).unwrap_or(&Json::Null);
        let arguments = self.arguments(index, &tool, arguments);
        Call { tool, arguments }
    }

    fn arguments(&mut self, index: usize, tool: &str, written: &Json) -> Json {
        let parsed = match written {
            Json::Text(text) if text.trim().is_empty() => Json::Null,
            Json::Text(text) => Json::parse(text).unwrap_or_else(|_| {
                self.warn(index, format!("calls {tool} with arguments that are not JSON; kept as one text"));
                written.clone()
            }),
            other => other.clone(),
        };
        match parsed {
            Json::Object(_) => parsed,
            Json::Null => Json::Object(Default::default()),
            other => Json::Object([("arguments".to_owned(), other)].into()),
        }
    }

    fn result(&mut self, index: usize, number: usize, at: String, message: &Json, id: String) {
        let own = message.get("tool_call").unwrap_or(&Json::Null);
        let name = ids::name(message, "name").or_else(|| ids::name(own, "function"));
        let (call, is_first) = self.answered(index, &id, name.as_deref());
        let mut text = text_of(message.get("content").unwrap_or(&Json::Null));
        let said = message.get("error").map(|error| match error {
            Json::Text(text) => text.clone(),
            other => other.canonical(),
        });
        let said = said.filter(|error| !error.is_empty() && error != "false");
        if let Some(error) = &said {
            append_line(&mut text, error);
        }
        let is_error = message.get("is_error") == Some(&Json::Bool(true));
        let error = said.or_else(|| is_error.then(|| text.clone()));
        let tool = match call.and_then(|(entry, call)| self.call_at(entry, call)) {
            Some(call) => call.tool.clone(),
            None => name.unwrap_or_else(|| "unknown".to_owned()),
        };
        let number = if number == 0 { String::new() } else { format!("/{number}") };
        let what = What::Returned(Returned { call, is_first, tool, text, error });
        self.push(format!("{index}/tool{number}"), index.to_string(), at, what);
    }

    fn call_at(&self, entry: usize, call: usize) -> Option<&Call> {
        match &self.entries.get(entry)?.what {
            What::Concluded { calls, .. } => calls.get(call),
            _ => None,
        }
    }

    /// The call that a result answers, and whether for the first time.
    fn answered(&mut self, index: usize, id: &str, name: Option<&str>) -> (Option<(usize, usize)>, bool) {
        let fits = |open: &&mut OpenCall| match (id, name) {
            ("", Some(name)) => open.tool == name,
            ("", None) => true,
            _ => open.id == id,
        };
        if let Some(open) = self.open.iter_mut().filter(|open| !open.answered).find(fits) {
            open.answered = true;
            let place = (open.entry, open.call);
            if id.is_empty() && name.is_none() {
                self.warn(index, "is a result without a call's id; taken for the first call that has none");
            }
            return (Some(place), true);
        }
        let again = self.open.iter().find(|open| !id.is_empty() && open.id == id).map(|open| (open.entry, open.call));
        match again {
            Some(_) => self.warn(index, format!("is another result of the call {id:?}; kept as an observation")),
            None => self.warn(index, "is a result of no call; kept as an observation"),
        }
        (again, false)
    }

    fn note_unanswered(&mut self) {
        let steps: Vec<_> =
            self.open.iter().filter(|open| !open.answered).map(|open| (open.entry, open.tool.clone())).collect();
        for (entry, tool) in steps {
            let message = self.entries.get(entry).and_then(|entry| entry.step.parse().ok());
            self.warnings.push(Warning { message, text: format!("calls {tool}, and no result is there") });
        }
    }

    /// When it was, if that is told as an instant: RFC 3339 with an offset, or seconds (or milliseconds) since 1970.
    fn time_of(&mut self, value: &Json, index: Option<usize>) -> Option<String> {
        let told = ["occurred_at", "timestamp", "created_at", "created"].iter().find_map(|key| value.get(key))?;
        let instant = match told {
            Json::Text(text) => time::parse("occurred_at", text).is_ok().then(|| text.clone()),
            Json::Number(number) => since_1970(number),
            _ => None,
        };
        if instant.is_none() {
            let text = format!("has the time {}, which is no RFC 3339 time with an offset; left out", told.canonical());
            self.warnings.push(Warning { message: index, text });
        }
        instant
    }
}

fn since_1970(number: &str) -> Option<String> {
    /// Later than any second of year 9999, and earlier than any millisecond after 1978.
    const SECONDS_MAX: i64 = 253_402_300_800;
    let decimal = numbers::plain_decimal(number)?;
    let (whole, fraction) = decimal.split_once('.').unwrap_or((&decimal, ""));
    let value: i64 = whole.parse().ok()?;
    let ms = if (0..SECONDS_MAX).contains(&value) {
        numbers::shifted(whole, fraction, 3).split('.').next()?.parse().ok()?
    } else {
        value
    };
    (0..SECONDS_MAX * 1000).contains(&ms).then(|| time::format_log_ms(ms))
}

fn id_of(value: &Json, key: &str) -> String {
    ids::name(value, key).unwrap_or_default()
}

fn append_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// The text of a content, whatever its shape; calls and results have their own place.
fn text_of(content: &Json) -> String {
    let mut text = String::new();
    match content {
        Json::Null => {}
        Json::Text(words) => text.push_str(words),
        Json::List(parts) => parts.iter().filter_map(part_text).for_each(|part| append_line(&mut text, &part)),
        other => text.push_str(&part_text(other).unwrap_or_else(|| other.canonical())),
    }
    text
}

fn part_text(part: &Json) -> Option<String> {
    if let Some(words) = part.text() {
        return Some(words.to_owned());
    }
    let kind = part.get("type").and_then(Json::text).unwrap_or("");
    if matches!(kind, "tool_use" | "tool_result") {
        return None;
    }
    let words = ["text", "refusal", "thinking"].iter().find_map(|key| part.get(key).and_then(Json::text));
    Some(match words {
        Some(words) => words.to_owned(),
        None if kind.is_empty() => part.canonical(),
        None => format!("[{kind}]"),
    })
}
