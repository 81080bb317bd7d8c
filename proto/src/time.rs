//! The writers' times: RFC 3339 with an offset, kept byte for byte, compared as instants.
//!
//! Years 0000 to 9999, up to nine digits of a second's fraction. A leap second (`:60`) counts as the second after it.
//! `Z` and a numeric offset are required: without one a time is not an instant, and recant does not guess.

use jiff::civil::{Date, DateTime, Time};

use crate::reject::{Code, Violation};

/// An instant on a writer's clock, in nanoseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub i128);

const NANOS_PER_MS: i128 = 1_000_000;
const NANOS_PER_SECOND: i128 = 1_000_000_000;

impl Instant {
    /// The instant of the log's clock, which counts milliseconds.
    pub fn from_log_ms(log_time_ms: i64) -> Instant {
        Instant(i128::from(log_time_ms) * NANOS_PER_MS)
    }

    /// Whole seconds since 1970, and the nanoseconds after them.
    pub fn to_seconds(self) -> (i64, u32) {
        // Years 0000 to 9999 in seconds fit i64, and a remainder of a division by a billion fits u32.
        (self.0.div_euclid(NANOS_PER_SECOND) as i64, self.0.rem_euclid(NANOS_PER_SECOND) as u32)
    }

    /// The instant so many seconds and nanoseconds after 1970 began.
    pub fn from_seconds(seconds: i64, nanos: u32) -> Instant {
        Instant(i128::from(seconds) * NANOS_PER_SECOND + i128::from(nanos))
    }

    /// Milliseconds of the log's clock, rounded towards the past.
    pub fn to_log_ms(self) -> i64 {
        // Years 0000 to 9999 in milliseconds fit i64 with room to spare.
        self.0.div_euclid(NANOS_PER_MS) as i64
    }
}

/// Reads a time of the envelope or a body; `field` is where it stands.
pub fn parse(field: &str, text: &str) -> Result<Instant, Violation> {
    parse_rfc3339(text).ok_or_else(|| {
        let lacks_offset = parse_rfc3339(&format!("{text}Z")).is_some();
        let detail = if lacks_offset {
            format!("{text:?} has no offset; write Z or, say, +05:30 at its end")
        } else {
            format!("{text:?} is not a time of RFC 3339, such as 2026-11-30T09:00:00Z")
        };
        Violation::at(Code::BadTime, field, detail)
    })
}

/// A time of the log's clock as RFC 3339 in UTC with milliseconds.
pub fn format_log_ms(log_time_ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(log_time_ms) {
        Ok(timestamp) => format!("{timestamp:.3}"),
        // Beyond jiff's year 9999; the number is the most honest answer.
        Err(_) => format!("{log_time_ms}ms"),
    }
}

fn parse_rfc3339(text: &str) -> Option<Instant> {
    let bytes = text.as_bytes();
    let punctuation = [(4, b"-"), (7, b"-"), (13, b":"), (16, b":")];
    if !text.is_ascii() || bytes.len() < 20 || punctuation.iter().any(|(at, mark)| bytes[*at] != mark[0]) {
        return None;
    }
    if !matches!(bytes[10], b'T' | b't') {
        return None;
    }
    let second = number(&text[17..19])?;
    let date = Date::new(number(&text[0..4])?.try_into().ok()?, small(&text[5..7])?, small(&text[8..10])?).ok()?;
    let time = Time::new(small(&text[11..13])?, small(&text[14..16])?, second.min(59).try_into().ok()?, 0).ok()?;
    if second > 60 {
        return None;
    }
    let (fraction_nanos, zone) = fraction(&text[19..])?;
    let local = DateTime::from_parts(date, time).duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
    let leap_nanos = if second == 60 { 1_000_000_000 } else { 0 };
    Some(Instant(local.as_nanos() + leap_nanos + fraction_nanos - offset_seconds(zone)? * 1_000_000_000))
}

/// The nanoseconds of a fraction, and what follows it.
fn fraction(text: &str) -> Option<(i128, &str)> {
    let Some(digits) = text.strip_prefix('.') else { return Some((0, text)) };
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    if !(1..=9).contains(&length) {
        return None;
    }
    let nanos = i128::from(number(&digits[..length])?) * 10_i128.pow(9 - length as u32);
    Some((nanos, &digits[length..]))
}

fn offset_seconds(zone: &str) -> Option<i128> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let bytes = zone.as_bytes();
    if bytes.len() != 6 || bytes[3] != b':' {
        return None;
    }
    let (hours, minutes) = (number(&zone[1..3])?, number(&zone[4..6])?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = i128::from(hours * 3600 + minutes * 60);
    match bytes[0] {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

fn number(digits: &str) -> Option<u32> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

fn small(digits: &str) -> Option<i8> {
    number(digits)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_the_same_in_every_offset() {
        let utc = parse("t", "2026-03-01T18:29:59.5Z").unwrap();
        assert_eq!(parse("t", "2026-03-01T23:59:59.500+05:30").unwrap(), utc);
        assert_eq!(format_log_ms(utc.to_log_ms()), "2026-03-01T18:29:59.500Z");
    }

    #[test]
    fn the_ends_of_time_are_read() {
        assert!(parse("t", "0000-01-01T00:00:00+14:00").unwrap() < parse("t", "1969-12-31T23:59:59Z").unwrap());
        assert!(parse("t", "9999-12-31T23:59:60.999999999-23:59").unwrap().to_log_ms() > 0);
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for text in [
            "",
            "2026-03-01",
            "2026-03-01T10:00:00",
            "2026-03-01 10:00:00Z",
            "2026-02-29T10:00:00Z",
            "2026-03-01T24:00:00Z",
            "2026-03-01T10:00:61Z",
            "2026-03-01T10:00:00.Z",
            "2026-03-01T10:00:00.1234567890Z",
            "2026-03-01T10:00:00+5:30",
            "2026-03-01T10:00:00+24:00",
            "２０26-03-01T10:00:00Z",
            "+026-03-01T10:00:00Z",
            "2026-03-01T10:00:00Zjunk",
        ] {
            assert_eq!(parse("t", text).unwrap_err().code, Code::BadTime, "{text}");
        }
        assert!(parse("t", "2026-03-01T10:00:00").unwrap_err().detail.contains("no offset"));
    }
}
