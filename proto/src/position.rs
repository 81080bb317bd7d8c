//! Places: a position in the log, the id of a change, and the cursor of a consumer.
//!
//! Wire formats. Position: `partition:offset`. Change id: `incarnation:partition:offset:index`, the incarnation as 32
//! hexadecimal digits. Cursor, version 1: base64url without padding of
//! `01 | incarnation, 16 bytes | partition, u32 | offset, u64 | index, u32`, numbers big endian; opaque to consumers.

use std::{fmt, str::FromStr};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

const CURSOR_VERSION: u8 = 1;

/// Partition and offset of an event in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The partition.
    pub partition: u32,
    /// The offset within it.
    pub offset: u64,
}

/// Names one log for ever; a recreated log has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Incarnation(pub [u8; 16]);

/// Names one record of the change stream: the same after any replay. Its order is the stream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChangeId {
    /// The log.
    pub incarnation: Incarnation,
    /// Where the causing event lies.
    pub position: Position,
    /// Which record of the cascade.
    pub index: u32,
}

/// A text that is no position, change id or cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {expected}")]
pub struct ParseError {
    text: String,
    expected: &'static str,
}

impl ParseError {
    fn new(text: &str, expected: &'static str) -> Self {
        ParseError { text: text.to_owned(), expected }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.partition, self.offset)
    }
}

impl FromStr for Position {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError::new(text, "position (partition:offset)");
        let (partition, offset) = text.split_once(':').ok_or_else(error)?;
        Ok(Position { partition: decimal(partition).ok_or_else(error)?, offset: decimal(offset).ok_or_else(error)? })
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl FromStr for Incarnation {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError::new(text, "log incarnation (32 hexadecimal digits)");
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(error());
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| error())?;
        Ok(Incarnation(number.to_be_bytes()))
    }
}

impl fmt::Display for ChangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.incarnation, self.position, self.index)
    }
}

impl FromStr for ChangeId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError::new(text, "change id");
        let (incarnation, rest) = text.split_once(':').ok_or_else(error)?;
        let (position, index) = rest.rsplit_once(':').ok_or_else(error)?;
        Ok(ChangeId {
            incarnation: incarnation.parse().map_err(|_| error())?,
            position: position.parse().map_err(|_| error())?,
            index: decimal(index).ok_or_else(error)?,
        })
    }
}

impl ChangeId {
    /// The cursor from which a consumer that has handled this record goes on.
    pub fn to_cursor(self) -> String {
        let mut bytes = Vec::with_capacity(33);
        bytes.push(CURSOR_VERSION);
        bytes.extend(self.incarnation.0);
        bytes.extend(self.position.partition.to_be_bytes());
        bytes.extend(self.position.offset.to_be_bytes());
        bytes.extend(self.index.to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a cursor.
    pub fn from_cursor(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError::new(text, "cursor of this version");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| error())?;
        let bytes: [u8; 33] = bytes.try_into().map_err(|_| error())?;
        let [CURSOR_VERSION, rest @ ..] = bytes else { return Err(error()) };
        Ok(ChangeId {
            incarnation: Incarnation(field(&rest, 0)),
            position: Position {
                partition: u32::from_be_bytes(field(&rest, 16)),
                offset: u64::from_be_bytes(field(&rest, 20)),
            },
            index: u32::from_be_bytes(field(&rest, 28)),
        })
    }
}

fn field<const N: usize>(bytes: &[u8; 32], start: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[start + index])
}

/// A decimal number in its one spelling: no sign, no leading zero.
fn decimal<T: FromStr + ToString>(text: &str) -> Option<T> {
    let number: T = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_one_spelling_that_comes_back() {
        let id = ChangeId {
            incarnation: Incarnation(*b"0123456789abcdef"),
            position: Position { partition: 3, offset: 1 << 40 },
            index: 7,
        };
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(ChangeId::from_cursor(&id.to_cursor()), Ok(id));
        for text in ["", "1", "1:", ":1", "01:2", "+1:2", "1:-2", "1:2:3"] {
            assert!(text.parse::<Position>().is_err(), "{text}");
        }
        for text in ["", "!", "AAAA", &id.to_cursor()[1..]] {
            assert!(ChangeId::from_cursor(text).is_err(), "{text}");
        }
    }
}
