//! Reading what the contract defines: events, changes, rejections, cursors, positions, times; and the log's records.

use prost::Message;
use recant_eventlog::Record;
use recant_proto::{
    position::{ChangeId, Incarnation, Position},
    time,
    v1::{Change, Event, Rejection},
    validate::{self, DEFAULT_LIMITS},
    wire,
};
use serde::{Serialize, de::DeserializeOwned};

use super::{files, record};

const GOLDEN: &str = "proto/tests/golden/v1";

/// A refusal's text has at most so many bytes, whatever was refused.
const DETAIL_BYTES_MAX: usize = 4096;

const CONTENT_TYPES: [Option<&str>; 5] = [
    None,
    Some("application/json"),
    Some("application/protobuf"),
    Some("application/JSON; charset=utf-8"),
    Some("text/plain"),
];

/// Reads an event in every way. Where it is one, both forms of it must be read as the same event again.
pub(super) fn events(bytes: &[u8]) {
    for content_type in CONTENT_TYPES {
        let decoded = match wire::decode(bytes, content_type) {
            Ok(decoded) => decoded,
            Err(violation) => {
                assert!(violation.to_string().len() <= DETAIL_BYTES_MAX, "{} bytes", violation.to_string().len());
                continue;
            }
        };
        wire::fingerprint(&decoded, bytes);
        match validate::check(&decoded.event, bytes.len(), &DEFAULT_LIMITS) {
            Ok(()) if decoded.unknown_body.is_none() => comes_back(&decoded.event),
            Ok(()) => {}
            Err(violation) => assert!(violation.to_string().len() <= DETAIL_BYTES_MAX),
        }
    }
}

fn comes_back(event: &Event) {
    let protobuf = wire::to_protobuf(event);
    let json = wire::to_json(event).to_string().into_bytes();
    for value in [&protobuf, &json] {
        let back = wire::decode(value, None).expect("what was written is read");
        assert_eq!(wire::to_protobuf(&back.event), protobuf);
        assert_eq!(back.unknown_body, None);
    }
}

pub(super) fn event_examples() -> Vec<Vec<u8>> {
    let mut examples = Vec::new();
    for ending in [".json", ".pb"] {
        examples.extend(files(GOLDEN, ending));
        examples.extend(files(&format!("{GOLDEN}/damaged"), ending));
    }
    examples
}

/// Reads what is published.
pub(super) fn changes(bytes: &[u8]) {
    message::<Change>(bytes);
    message::<Rejection>(bytes);
}

/// A message of the contract in either form: what is written of it is read as the same.
fn message<M: Message + Default + Serialize + DeserializeOwned>(bytes: &[u8]) {
    if let Ok(message) = M::decode(bytes) {
        let written = message.encode_to_vec();
        let again = M::decode(&written[..]).expect("what was written is read");
        assert_eq!(again.encode_to_vec(), written);
        from_json::<M>(wire::to_json(&message).to_string().as_bytes(), true);
    }
    from_json::<M>(bytes, false);
}

fn from_json<M: Message + Default + Serialize + DeserializeOwned>(bytes: &[u8], must: bool) {
    match serde_json::from_slice::<M>(bytes) {
        Ok(message) => {
            let json = wire::to_json(&message);
            let again: M = serde_json::from_value(json.clone()).expect("what was written is read");
            assert_eq!(wire::to_json(&again), json);
        }
        Err(error) => assert!(!must, "{error}"),
    }
}

pub(super) fn change_examples() -> Vec<Vec<u8>> {
    let mut examples = files(GOLDEN, "rejection.json");
    examples.extend(files(GOLDEN, "rejection.pb"));
    for name in ["change", "change-action", "change-born-out", "change-summary"] {
        examples.extend(files(GOLDEN, &format!("/{name}.json")));
        examples.extend(files(GOLDEN, &format!("/{name}.pb")));
    }
    examples
}

/// Reads cursors, positions, change ids, names of logs and times: each has one spelling.
pub(super) fn places(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(position) = text.parse::<Position>() {
        assert_eq!(position.to_string(), text);
    }
    if let Ok(id) = text.parse::<ChangeId>() {
        assert!(id.to_string().eq_ignore_ascii_case(text));
        assert_eq!(ChangeId::from_cursor(&id.to_cursor()), Ok(id));
    }
    if let Ok(id) = ChangeId::from_cursor(text) {
        assert_eq!(id.to_cursor(), text);
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    if let Ok(incarnation) = text.parse::<Incarnation>() {
        assert!(incarnation.to_string().eq_ignore_ascii_case(text));
    }
    match time::parse("time", text) {
        Err(violation) => assert!(violation.to_string().len() <= DETAIL_BYTES_MAX),
        Ok(instant) => {
            let ms = instant.to_log_ms();
            let written = time::format_log_ms(ms);
            // Beyond the year 9999, which an offset can reach, a time of the log has another form.
            if let Ok(again) = time::parse("time", &written) {
                assert_eq!(again.to_log_ms(), ms, "{text}");
            } else {
                assert!(written.ends_with("ms") || written.starts_with('-'), "{text}: {written}");
            }
        }
    }
}

pub(super) fn place_examples() -> Vec<Vec<u8>> {
    let id = ChangeId {
        incarnation: Incarnation(*b"0123456789abcdef"),
        position: Position { partition: 3, offset: 1 << 40 },
        index: 7,
    };
    let texts = [
        id.to_string(),
        id.to_cursor(),
        id.position.to_string(),
        id.incarnation.to_string(),
        "0:18446744073709551615".to_owned(),
        "2026-03-01T23:59:59.5+05:30".to_owned(),
        "1815-12-10T00:00:00Z".to_owned(),
        "9999-12-31T23:59:60.999999999-23:59".to_owned(),
        "0000-01-01t00:00:00z".to_owned(),
    ];
    texts.into_iter().map(String::into_bytes).collect()
}

const PLACE: Position = Position { partition: 0, offset: 0 };

/// Reads a record of the log.
pub(super) fn records(bytes: &[u8]) {
    let time = record::decode_append_time(bytes);
    let Ok(decoded) = record::decode(PLACE, bytes) else { return };
    assert_eq!(time, Ok(decoded.append_time_ms));
    assert_eq!(encode(&decoded), bytes);
}

fn encode(record: &Record) -> Vec<u8> {
    let mut bytes = record::encode(&record.key, &record.headers, &record.value).expect("nothing is too long");
    record::set_append_time(&mut bytes, record.append_time_ms);
    bytes
}

pub(super) fn record_examples() -> Vec<Vec<u8>> {
    let headers = [vec![], vec![("ce_id".to_owned(), b"e1".to_vec()), ("x".to_owned(), vec![])]];
    let records = headers.into_iter().zip(event_examples()).map(|(headers, value)| Record {
        position: PLACE,
        append_time_ms: 1_700_000_000_123,
        key: b"space".to_vec(),
        headers,
        value,
    });
    records.map(|record| encode(&record)).collect()
}
