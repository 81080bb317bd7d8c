//! A source's id with arguments of the call in it: `file:{file_path}`.
//!
//! An argument is named by its dotted path in braces; a brace itself is written twice. Text stands as it is, a number as a
//! plain decimal, a list of one as its item, anything else as canonical JSON. An argument that is absent or empty is missing.

use std::fmt;

use super::{json::Json, numbers};

/// A source with arguments in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Fixed(String),
    Argument(String),
}

impl Template {
    /// Reads a template; `None` if its braces do not match, or it is empty.
    pub fn parse(text: &str) -> Option<Template> {
        let mut parts = Vec::new();
        let mut fixed = String::new();
        let mut characters = text.chars().peekable();
        while let Some(c) = characters.next() {
            match c {
                '{' | '}' if characters.peek() == Some(&c) => {
                    characters.next();
                    fixed.push(c);
                }
                '{' => {
                    let name: String = characters.by_ref().take_while(|c| *c != '}').collect();
                    if name.is_empty() || name.contains('{') || !text.contains(&format!("{{{name}}}")) {
                        return None;
                    }
                    if !fixed.is_empty() {
                        parts.push(Part::Fixed(std::mem::take(&mut fixed)));
                    }
                    parts.push(Part::Argument(name));
                }
                '}' => return None,
                _ => fixed.push(c),
            }
        }
        if !fixed.is_empty() {
            parts.push(Part::Fixed(fixed));
        }
        (!parts.is_empty()).then_some(Template { parts })
    }

    /// Whether a call's arguments take part in it.
    pub fn has_arguments(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Argument(_)))
    }

    /// The source that a call reads, or the argument that is missing.
    pub fn render(&self, arguments: &Json) -> Result<String, String> {
        let mut source = String::new();
        for part in &self.parts {
            match part {
                Part::Fixed(text) => source.push_str(text),
                Part::Argument(path) => {
                    let value = arguments.at(path).map(shown).filter(|text| !text.is_empty());
                    source.push_str(&value.ok_or_else(|| path.clone())?);
                }
            }
        }
        Ok(source)
    }
}

/// A value inside a source's id. A list of one is its item.
fn shown(value: &Json) -> String {
    match value {
        Json::Text(text) => text.clone(),
        Json::Number(number) => numbers::plain_decimal(number).unwrap_or_else(|| number.clone()),
        Json::List(items) if items.len() == 1 => items.first().map(shown).unwrap_or_default(),
        Json::List(items) if items.is_empty() => String::new(),
        other => other.canonical(),
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Fixed(text) => f.write_str(&text.replace('{', "{{").replace('}', "}}")),
            Part::Argument(path) => write!(f, "{{{path}}}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_take_values_of_any_type() {
        let arguments =
            Json::parse(r#"{"a": {"b": 5.0}, "one": ["x"], "two": ["x", "y"], "none": null, "empty": ""}"#).unwrap();
        let render = |text: &str| Template::parse(text).unwrap().render(&arguments);
        assert_eq!(render("s:{a.b}").as_deref(), Ok("s:5"));
        assert_eq!(render("{one}/{two}").as_deref(), Ok(r#"x/["x","y"]"#));
        assert_eq!(render("{{{one}}}").as_deref(), Ok("{x}"));
        for (text, missing) in [("s:{none}", "none"), ("s:{empty}", "empty"), ("s:{a.c}", "a.c")] {
            assert_eq!(render(text), Err(missing.to_owned()));
        }
    }

    #[test]
    fn braces_must_match() {
        for text in ["", "file:{path", "file:}", "{}", "{a{b}}"] {
            assert_eq!(Template::parse(text), None, "{text}");
        }
        assert_eq!(Template::parse("{{x}} {a}").unwrap().to_string(), "{{x}} {a}");
    }
}
