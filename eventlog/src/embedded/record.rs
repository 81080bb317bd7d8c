//! How a record lies in the database, version 1:
//!
//! ```text
//! 01 | append time in ms, i64 | key length, u32 | key | number of headers, u32
//!    | for each header: name length, u32 | name, UTF-8 | value length, u32 | value
//!    | the record's value, to the end
//! ```
//!
//! Numbers are big endian. Partition and offset are in the database's key. The append time has its place at the front, so
//! that the caller encodes and the committer, who alone knows the time, writes it in.

use recant_proto::position::Position;

use crate::Record;

const VERSION: u8 = 1;
const TIME_START: usize = 1;
const TIME_END: usize = TIME_START + size_of::<i64>();

/// An encoded record that has not yet been given its append time. Nothing if a part of it is too long for the format.
pub(super) fn encode(key: &[u8], headers: &[(String, Vec<u8>)], value: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(encoded_len(key, headers, value));
    bytes.push(VERSION);
    bytes.extend(0_i64.to_be_bytes());
    put_part(&mut bytes, key)?;
    bytes.extend(u32::try_from(headers.len()).ok()?.to_be_bytes());
    for (name, header_value) in headers {
        put_part(&mut bytes, name.as_bytes())?;
        put_part(&mut bytes, header_value)?;
    }
    bytes.extend(value);
    Some(bytes)
}

/// How long the encoding is.
pub(super) fn encoded_len(key: &[u8], headers: &[(String, Vec<u8>)], value: &[u8]) -> usize {
    const LENGTH: usize = size_of::<u32>();
    let headers_len: usize = headers.iter().map(|(name, value)| 2 * LENGTH + name.len() + value.len()).sum();
    TIME_END + LENGTH + key.len() + LENGTH + headers_len + value.len()
}

/// Writes the append time into an encoded record.
pub(super) fn set_append_time(encoded: &mut [u8], append_time_ms: i64) {
    encoded[TIME_START..TIME_END].copy_from_slice(&append_time_ms.to_be_bytes());
}

/// Only the append time.
pub(super) fn decode_append_time(bytes: &[u8]) -> Result<i64, String> {
    let mut rest = Reader(bytes);
    rest.version()?;
    rest.array().map(i64::from_be_bytes)
}

/// The whole record.
pub(super) fn decode(position: Position, bytes: &[u8]) -> Result<Record, String> {
    let mut rest = Reader(bytes);
    rest.version()?;
    let append_time_ms = rest.array().map(i64::from_be_bytes)?;
    let key = rest.part()?.to_vec();
    let headers = (0..rest.length()?)
        .map(|_| {
            let name = std::str::from_utf8(rest.part()?).map_err(|error| format!("a header's name: {error}"))?;
            Ok((name.to_owned(), rest.part()?.to_vec()))
        })
        .collect::<Result<_, String>>()?;
    Ok(Record { position, append_time_ms, key, headers, value: rest.0.to_vec() })
}

fn put_part(bytes: &mut Vec<u8>, part: &[u8]) -> Option<()> {
    bytes.extend(u32::try_from(part.len()).ok()?.to_be_bytes());
    bytes.extend(part);
    Some(())
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn version(&mut self) -> Result<(), String> {
        match self.array()? {
            [VERSION] => Ok(()),
            [other] => Err(format!("its encoding has version {other}, not {VERSION}")),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (array, rest) = self.0.split_first_chunk().ok_or("it ends early")?;
        self.0 = rest;
        Ok(*array)
    }

    fn length(&mut self) -> Result<usize, String> {
        self.array().map(|bytes| u32::from_be_bytes(bytes) as usize)
    }

    fn part(&mut self) -> Result<&'a [u8], String> {
        let length = self.length()?;
        let (part, rest) = self.0.split_at_checked(length).ok_or("it ends early")?;
        self.0 = rest;
        Ok(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POSITION: Position = Position { partition: 3, offset: 7 };

    fn example() -> Record {
        Record {
            position: POSITION,
            append_time_ms: 1_700_000_000_123,
            key: b"space".to_vec(),
            headers: vec![("ce_id".to_owned(), b"e1".to_vec()), ("x".to_owned(), vec![])],
            value: vec![0, 1, 255],
        }
    }

    fn encode_whole(record: &Record) -> Vec<u8> {
        let mut bytes = encode(&record.key, &record.headers, &record.value).unwrap();
        set_append_time(&mut bytes, record.append_time_ms);
        bytes
    }

    /// What was written by version 1 must stay readable for ever.
    #[test]
    fn version_1_is_these_bytes() {
        let golden: &[u8] = b"\x01\x00\x00\x01\x8b\xcf\xe5\x68\x7b\
            \x00\x00\x00\x05space\
            \x00\x00\x00\x02\
            \x00\x00\x00\x05ce_id\x00\x00\x00\x02e1\
            \x00\x00\x00\x01x\x00\x00\x00\x00\
            \x00\x01\xff";
        assert_eq!(encode_whole(&example()), golden);
        assert_eq!(decode(POSITION, golden).unwrap(), example());
        assert_eq!(decode_append_time(golden).unwrap(), example().append_time_ms);
    }

    #[test]
    fn the_length_is_known_beforehand() {
        let record = example();
        assert_eq!(encode_whole(&record).len(), encoded_len(&record.key, &record.headers, &record.value));
    }

    #[test]
    fn a_record_cut_short_before_its_value_or_of_another_version_is_an_error() {
        let whole = encode_whole(&example());
        for length in 0..whole.len() - 3 {
            assert!(decode(POSITION, &whole[..length]).is_err(), "{length}");
        }
        let mut newer = whole;
        newer[0] = 2;
        assert!(decode(POSITION, &newer).unwrap_err().contains("version 2"));
        assert!(decode_append_time(&newer).is_err());
    }
}
