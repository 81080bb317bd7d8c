//! The map file: what each tool of one's own reads, and what it does.
//!
//! ```toml
//! [tools.read_file]
//! source = "file:{file_path}"        # the thing that was read; {…} is an argument, by a dotted path if need be
//! kind = "file"                      # the kind of that source; `tool` if absent
//!
//! [tools.send_money]
//! action = "payment.transfer"        # a call of this tool is an action of this type
//! amount = "amount"                  # the argument that holds the amount …
//! currency_fixed = "USD"             # … with its currency, or `currency = "…"`, the argument that holds it
//! failure = ["insufficient funds"]   # a result that holds one of these, in any case, says that it failed
//! incidental = ["subject"]           # arguments that the agent words itself: see below
//! ```
//!
//! A tool may have both a source and an action: to fetch a web page is a request that leaves the house, and reads. A tool
//! that the map does not name reads, from `tool:NAME(ARGUMENTS)`. An unknown key is an error, since it is a slip.
//!
//! `incidental` concerns the literals mode only. Such an argument becomes a belief where it, or a long code or address
//! in it, was read somewhere; where it stands nowhere the action does not rest on it. Without `incidental` an argument
//! that stands nowhere rests on the whole context, and the action with it.
//!
//! Sources that begin with `user:` or `system:` are kept for what the agent was told by those it works for. A tool may
//! have such a kind (one that asks the user), but then its source is fixed: no argument can name it, since arguments can be
//! an attacker's.

use std::{collections::BTreeMap, ops::Range};

use recant_proto::{id, validate};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{events, template::Template};

/// The kind of a source for which the map gives none.
pub const DEFAULT_KIND: &str = "tool";

/// What the tools of a transcript read and do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Map {
    tools: BTreeMap<String, Tool>,
}

/// One tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tool {
    /// What it reads.
    pub source: Option<Template>,
    /// The kind of what it reads.
    pub kind: Option<String>,
    /// What it does.
    pub action: Option<ActionRule>,
    /// A result that holds one of these says that it failed.
    pub failure: Vec<String>,
}

/// How a call becomes an action.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActionRule {
    /// The action's type.
    pub action_type: String,
    /// The argument that holds the amount.
    pub amount: Option<String>,
    /// Where its currency comes from.
    pub currency: Option<Currency>,
    /// Arguments that the agent words itself.
    pub incidental: Vec<String>,
}

/// Where an amount's currency comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Currency {
    /// The map names it.
    Fixed(String),
    /// An argument names it.
    Argument(String),
}

/// A mistake in a map file, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {problem}")]
pub struct MapError {
    /// The file's name, as it was given.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong in a map file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Not TOML.
    #[error("{0}")]
    Syntax(String),
    /// A key that a map does not have.
    #[error("unknown key `{key}`{}", suggestion(.nearest, .known))]
    UnknownKey {
        /// The key.
        key: String,
        /// The known key that is nearest, if one is near.
        nearest: Option<&'static str>,
        /// The keys that can stand here.
        known: &'static [&'static str],
    },
    /// A value of the wrong type.
    #[error("`{key}` must be {expected}")]
    WrongType {
        /// The key.
        key: String,
        /// What it must be.
        expected: &'static str,
    },
    /// A source whose braces do not match.
    #[error("the source {0:?} is no template: an argument is written {{name}}, and a brace itself {{{{ or }}}}")]
    Template(String),
    /// A key that says something only beside another.
    #[error("`{key}` needs `{needs}` beside it")]
    Needs {
        /// The key.
        key: &'static str,
        /// What is missing.
        needs: &'static str,
    },
    /// Two ways to give the currency.
    #[error("give `currency` or `currency_fixed`, not both")]
    TwoCurrencies,
    /// No currency of ISO 4217.
    #[error("{0:?} is not an ISO 4217 currency such as \"EUR\"")]
    Currency(String),
    /// A ground kind with a source that an argument can name.
    #[error("a source of kind `{0}` is ground: it must be fixed, without arguments, since those can be an attacker's")]
    GroundFromArgument(String),
    /// A source that looks like ground and is not.
    #[error("sources that begin with `user:` or `system:` are kept for kinds of ground")]
    Reserved,
    /// One source with two kinds.
    #[error("the source {source_text:?} has the kind `{one}` here and `{other}` for another tool")]
    TwoKinds {
        /// The source as written.
        source_text: String,
        /// The kind here.
        one: String,
        /// The kind elsewhere.
        other: String,
    },
    /// A tool that another map describes in another way.
    #[error("the tool `{0}` is described in another way by another map")]
    Conflict(String),
}

fn suggestion(nearest: &Option<&'static str>, known: &[&str]) -> String {
    match nearest {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => format!("; a map has {}", known.join(", ")),
    }
}

const TOP_KEYS: &[&str] = &["tools"];
const TOOL_KEYS: &[&str] =
    &["source", "kind", "action", "amount", "currency", "currency_fixed", "failure", "incidental"];

impl Map {
    /// Reads a map; `file` is its name in errors.
    pub fn parse(file: &str, text: &str) -> Result<Map, MapError> {
        Reader { file, text }.map()
    }

    /// Adds the tools of another map. A tool may be in both if both say the same of it.
    pub fn merge(&mut self, file: &str, other: Map) -> Result<(), MapError> {
        let conflict = |problem| MapError { file: file.to_owned(), line: 1, column: 1, problem };
        for (name, tool) in other.tools {
            if self.tools.get(&name).is_some_and(|known| *known != tool) {
                return Err(conflict(Problem::Conflict(name)));
            }
            self.check_kind(&tool).map_err(conflict)?;
            self.tools.insert(name, tool);
        }
        Ok(())
    }

    /// What is known of a tool.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }

    /// One source has one kind: the same event must declare it, whichever tool reads it.
    fn check_kind(&self, tool: &Tool) -> Result<(), Problem> {
        let Some(source) = &tool.source else { return Ok(()) };
        match self.tools.values().find(|known| known.source.as_ref() == Some(source) && known.kind() != tool.kind()) {
            None => Ok(()),
            Some(known) => Err(Problem::TwoKinds {
                source_text: source.to_string(),
                one: tool.kind().to_owned(),
                other: known.kind().to_owned(),
            }),
        }
    }
}

impl Tool {
    /// The kind of what it reads.
    pub fn kind(&self) -> &str {
        self.kind.as_deref().unwrap_or(DEFAULT_KIND)
    }

    /// Whether a result says that the call failed.
    pub fn says_failed(&self, result: &str) -> bool {
        let result = result.to_lowercase();
        self.failure.iter().any(|mark| result.contains(&mark.to_lowercase()))
    }
}

/// Whether a source's id is kept for what the agent was told by those it works for.
pub fn is_reserved(source: &str) -> bool {
    source.starts_with("user:") || source.starts_with("system:")
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

type Item<'a> = Spanned<DeValue<'a>>;

impl Reader<'_> {
    fn error(&self, span: Range<usize>, problem: Problem) -> MapError {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        MapError {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            problem,
        }
    }

    fn map(&self) -> Result<Map, MapError> {
        let top = DeTable::parse(self.text).map_err(|error| {
            self.error(error.span().unwrap_or_default(), Problem::Syntax(error.message().to_owned()))
        })?;
        let mut map = Map::default();
        for (key, value) in top.get_ref() {
            if key.get_ref() != "tools" {
                return Err(self.unknown(key.get_ref(), key.span(), TOP_KEYS));
            }
            for (name, body) in self.table("tools", value)? {
                let tool = self.tool(name.get_ref(), name.span(), body)?;
                map.check_kind(&tool).map_err(|problem| self.error(name.span(), problem))?;
                map.tools.insert(name.get_ref().to_string(), tool);
            }
        }
        Ok(map)
    }

    fn tool(&self, name: &str, span: Range<usize>, body: &Item<'_>) -> Result<Tool, MapError> {
        let table = self.table(name, body)?;
        let mut tool = Tool::default();
        let mut action = ActionRule::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "source" => {
                    let text = self.string("source", value)?;
                    let template = Template::parse(&text);
                    tool.source = Some(template.ok_or_else(|| self.error(value.span(), Problem::Template(text)))?);
                }
                "kind" => tool.kind = Some(self.id("kind", value)?),
                "action" => action.action_type = self.id("action", value)?,
                "amount" => action.amount = Some(self.string("amount", value)?),
                "currency" | "currency_fixed" if action.currency.is_some() => {
                    return Err(self.error(key.span(), Problem::TwoCurrencies));
                }
                "currency" => action.currency = Some(Currency::Argument(self.string("currency", value)?)),
                "currency_fixed" => {
                    let currency = self.string("currency_fixed", value)?;
                    if !events::is_amount("1", &currency) {
                        return Err(self.error(value.span(), Problem::Currency(currency)));
                    }
                    action.currency = Some(Currency::Fixed(currency));
                }
                "failure" => tool.failure = self.strings("failure", value)?,
                "incidental" => action.incidental = self.strings("incidental", value)?,
                other => return Err(self.unknown(other, key.span(), TOOL_KEYS)),
            }
        }
        let needs = |key, needs| Err(self.error(span.clone(), Problem::Needs { key, needs }));
        match (&action.amount, &action.currency) {
            (Some(_), None) => return needs("amount", "currency"),
            (None, Some(_)) => return needs("currency", "amount"),
            _ => {}
        }
        if !action.action_type.is_empty() {
            tool.action = Some(action);
        } else if action.amount.is_some() {
            return needs("amount", "action");
        } else if !action.incidental.is_empty() {
            return needs("incidental", "action");
        } else if !tool.failure.is_empty() {
            return needs("failure", "action");
        }
        self.check_ground(&tool, span)?;
        Ok(tool)
    }

    fn check_ground(&self, tool: &Tool, span: Range<usize>) -> Result<(), MapError> {
        let is_ground = id::is_ground(tool.kind());
        let problem = match &tool.source {
            None if is_ground => Some(Problem::Needs { key: "kind", needs: "source" }),
            Some(source) if is_ground && source.has_arguments() => {
                Some(Problem::GroundFromArgument(tool.kind().to_owned()))
            }
            Some(source) if !is_ground && is_reserved(&source.to_string()) => Some(Problem::Reserved),
            _ => None,
        };
        problem.map_or(Ok(()), |problem| Err(self.error(span, problem)))
    }

    fn unknown(&self, key: &str, span: Range<usize>, known: &'static [&'static str]) -> MapError {
        /// A key with more slips than this is another word.
        const SLIPS_MAX: usize = 3;
        let slips = known.iter().map(|candidate| (edit_distance(key, candidate), *candidate)).min();
        let nearest =
            slips.filter(|(slips, candidate)| *slips <= SLIPS_MAX.min(candidate.len() / 2)).map(|(_, nearest)| nearest);
        self.error(span, Problem::UnknownKey { key: key.to_owned(), nearest, known })
    }

    fn wrong_type(&self, key: &str, value: &Item<'_>, expected: &'static str) -> MapError {
        self.error(value.span(), Problem::WrongType { key: key.to_owned(), expected })
    }

    fn table<'a, 'b>(&self, key: &str, value: &'a Item<'b>) -> Result<&'a DeTable<'b>, MapError> {
        value.get_ref().as_table().ok_or_else(|| self.wrong_type(key, value, "a table"))
    }

    fn string(&self, key: &str, value: &Item<'_>) -> Result<String, MapError> {
        let text = value.get_ref().as_str().filter(|text| !text.is_empty());
        text.map(str::to_owned).ok_or_else(|| self.wrong_type(key, value, "a text that is not empty"))
    }

    fn id(&self, key: &str, value: &Item<'_>) -> Result<String, MapError> {
        let text = self.string(key, value)?;
        match validate::check_id(key, &text) {
            Ok(()) => Ok(text),
            Err(_) => Err(self.wrong_type(key, value, "a text of at most 256 bytes")),
        }
    }

    fn strings(&self, key: &str, value: &Item<'_>) -> Result<Vec<String>, MapError> {
        let wrong = || self.wrong_type(key, value, "a list of texts");
        let items = value.get_ref().as_array().ok_or_else(wrong)?;
        items.iter().map(|item| item.get_ref().as_str().map(str::to_owned).ok_or_else(wrong)).collect()
    }
}

/// How many letters have to be put in, left out or changed (Levenshtein).
fn edit_distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, c) in one.chars().enumerate() {
        let mut diagonal = above;
        row[0] = above + 1;
        for (at, target) in other.iter().enumerate() {
            let changed = diagonal + usize::from(c != *target);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::{super::json::Json, *};

    fn problem(text: &str) -> (usize, usize, Problem) {
        let error = Map::parse("map.toml", text).unwrap_err();
        (error.line, error.column, error.problem)
    }

    #[test]
    fn a_map_is_read() {
        let map = Map::parse(
            "map.toml",
            r#"
            [tools.read_file]
            source = "file:{file_path}"
            kind = "file"
            [tools.send_money]
            action = "payment.transfer"
            amount = "amount"
            currency_fixed = "USD"
            failure = ["Insufficient funds"]
            incidental = ["subject"]
            "#,
        )
        .unwrap();
        let read = map.tool("read_file").unwrap();
        let arguments = Json::parse(r#"{"file_path": "a.txt"}"#).unwrap();
        assert_eq!(read.source.as_ref().unwrap().render(&arguments).as_deref(), Ok("file:a.txt"));
        assert_eq!((read.kind(), &read.action), ("file", &None));
        let send = map.tool("send_money").unwrap();
        assert_eq!(send.action.as_ref().unwrap().currency, Some(Currency::Fixed("USD".into())));
        assert!(send.says_failed("Error: INSUFFICIENT FUNDS") && !send.says_failed("sent"));
        assert_eq!(map.tool("other"), None);
    }

    /// A slip must be shown where it is, with what was meant.
    #[test]
    fn slips_are_shown_where_they_are() {
        let (line, column, slip) = problem("[tools.pay]\naction = \"x\"\n  amout = \"amount\"\n");
        assert_eq!((line, column), (3, 3));
        assert_eq!(slip.to_string(), "unknown key `amout`; did you mean `amount`?");
        assert!(problem("[tool.pay]\n").2.to_string().contains("did you mean `tools`?"));
        assert!(problem("[tools.pay]\nwibble = 1\n").2.to_string().contains("a map has source, kind"));
        assert!(matches!(problem("[tools.pay]\naction = 1\n"), (2, 10, Problem::WrongType { .. })));
        assert!(matches!(problem("[tools.pay\n"), (1, _, Problem::Syntax(_))));
        assert!(matches!(problem("tools = 3\n").2, Problem::WrongType { .. }));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (body, expected) in [
            ("action = \"x\"\namount = \"a\"", "needs `currency`"),
            ("amount = \"a\"\ncurrency_fixed = \"USD\"", "needs `action`"),
            ("action = \"x\"\ncurrency_fixed = \"USD\"", "needs `amount`"),
            ("action = \"x\"\namount = \"a\"\ncurrency = \"c\"\ncurrency_fixed = \"USD\"", "not both"),
            ("action = \"x\"\namount = \"a\"\ncurrency_fixed = \"DOLLARS\"", "ISO 4217"),
            ("source = \"file:{path\"", "no template"),
            ("source = \"file:}\"", "no template"),
            ("source = \"\"", "not empty"),
            ("source = \"user:{name}\"", "kinds of ground"),
            ("source = \"asked {name}\"\nkind = \"user\"", "must be fixed"),
            ("kind = \"user\"", "needs `source`"),
            ("failure = [\"x\"]", "needs `action`"),
        ] {
            let shown = problem(&format!("[tools.t]\n{body}\n")).2.to_string();
            assert!(shown.contains(expected), "{body}: {shown}");
        }
        let shown = problem("[tools.a]\nsource = \"s:{x}\"\n[tools.b]\nsource = \"s:{x}\"\nkind = \"file\"\n").2;
        assert!(matches!(shown, Problem::TwoKinds { .. }));
    }

    #[test]
    fn maps_are_merged_where_they_agree() {
        let parse = |text: &str| Map::parse("m", text).unwrap();
        let mut map = parse("[tools.a]\nsource = \"s\"\n");
        map.merge("m2", parse("[tools.a]\nsource = \"s\"\n[tools.b]\naction = \"x\"\n")).unwrap();
        assert!(map.tool("b").is_some());
        let error = map.merge("m3", parse("[tools.a]\nsource = \"t\"\n")).unwrap_err();
        assert_eq!(error.problem, Problem::Conflict("a".into()));
    }
}
