//! JSON with its numbers as they were written.
//!
//! An account number of 22 digits or an amount of `98.70` must not pass through a binary float, so a number is kept as
//! text. Objects are kept sorted by key, and of a key that stands twice the last counts; so equal values have one
//! [canonical](Json::canonical) text, from which ids are made.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::numbers;

/// Lists and objects may be nested this deep; a deeper line is refused rather than risking the stack.
pub const DEPTH_MAX: usize = 128;

/// Any JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as it was written.
    Number(String),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object.
    Object(BTreeMap<String, Json>),
}

/// Why a text is not JSON that can be imported.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// Not JSON, with what the parser says.
    #[error("{0}")]
    Syntax(#[from] serde_json::Error),
    /// Nested deeper than [`DEPTH_MAX`].
    #[error("nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
}

impl Json {
    /// Reads one JSON text.
    pub fn parse(text: &str) -> Result<Json, JsonError> {
        Json::from_raw(serde_json::from_str::<&RawValue>(text)?.get(), 0)
    }

    fn from_raw(raw: &str, depth: usize) -> Result<Json, JsonError> {
        if depth > DEPTH_MAX {
            return Err(JsonError::TooDeep);
        }
        Ok(match raw.as_bytes().first() {
            Some(b'{') => Json::Object(
                serde_json::from_str::<BTreeMap<String, &RawValue>>(raw)?
                    .into_iter()
                    .map(|(key, value)| Ok((key, Json::from_raw(value.get(), depth + 1)?)))
                    .collect::<Result<_, JsonError>>()?,
            ),
            Some(b'[') => Json::List(
                serde_json::from_str::<Vec<&RawValue>>(raw)?
                    .into_iter()
                    .map(|item| Json::from_raw(item.get(), depth + 1))
                    .collect::<Result<_, JsonError>>()?,
            ),
            Some(b'"') => Json::Text(serde_json::from_str(raw)?),
            Some(b't' | b'f') => Json::Bool(serde_json::from_str(raw)?),
            Some(b'n') => Json::Null,
            _ => Json::Number(raw.to_owned()),
        })
    }

    /// The member of an object; absent and null are the same.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.get(key).filter(|value| **value != Json::Null),
            _ => None,
        }
    }

    /// The value at a dotted path, such as `invoice.total` or `recipients.0`.
    pub fn at(&self, path: &str) -> Option<&Json> {
        // A key that itself holds a dot is found whole before the path is taken apart.
        if let Some(whole) = self.get(path) {
            return Some(whole);
        }
        path.split('.').try_fold(self, |value, step| match value {
            Json::List(items) => items.get(step.parse::<usize>().ok()?),
            other => other.get(step),
        })
    }

    /// The text of a string.
    pub fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The items of an array.
    pub fn list(&self) -> Option<&[Json]> {
        match self {
            Json::List(items) => Some(items),
            _ => None,
        }
    }

    /// The one text of equal values: keys sorted, no spaces, numbers as plain decimals.
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        self.write_canonical(&mut text);
        text
    }

    fn write_canonical(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(true) => out.push_str("true"),
            Json::Bool(false) => out.push_str("false"),
            Json::Number(number) => match numbers::plain_decimal(number) {
                Some(decimal) => out.push_str(&decimal),
                None => out.push_str(number),
            },
            Json::Text(text) => write_string(text, out),
            Json::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write_canonical(out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_string(key, out);
                    out.push(':');
                    value.write_canonical(out);
                }
                out.push('}');
            }
        }
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::String(text.to_owned()).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits() {
        let json = Json::parse(r#"{"account": 12345678901234567890123, "amount": 98.70}"#).unwrap();
        assert_eq!(json.get("account"), Some(&Json::Number("12345678901234567890123".into())));
        assert_eq!(json.get("amount"), Some(&Json::Number("98.70".into())));
    }

    #[test]
    fn equal_values_have_one_canonical_text() {
        let one = Json::parse(r#"{ "b": [5.0, "é\n"], "a": null }"#).unwrap();
        let other = Json::parse(r#"{"a":null,"b":[5,"\u00e9\n"]}"#).unwrap();
        assert_eq!(one.canonical(), r#"{"a":null,"b":[5,"é\n"]}"#);
        assert_eq!(one.canonical(), other.canonical());
    }

    #[test]
    fn paths_lead_into_objects_and_lists() {
        let json = Json::parse(r#"{"a": {"b": [1, {"c": "x"}]}, "d.e": 2, "n": null}"#).unwrap();
        assert_eq!(json.at("a.b.1.c").and_then(Json::text), Some("x"));
        assert_eq!(json.at("d.e"), Some(&Json::Number("2".into())));
        for absent in ["a.b.2", "a.c", "n", "a.b.x", ""] {
            assert_eq!(json.at(absent), None, "{absent}");
        }
    }

    /// A line of a hundred thousand brackets must end in an error, not in a stack overflow.
    #[test]
    fn depth_is_bounded() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(matches!(Json::parse(&deep), Err(JsonError::TooDeep)));
        let allowed = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        assert!(Json::parse(&allowed).is_ok());
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in ["", "{", "{\"a\":}", "nul", "01", "{} {}", r#""\ud800""#] {
            assert!(matches!(Json::parse(text), Err(JsonError::Syntax(_))), "{text}");
        }
    }
}
