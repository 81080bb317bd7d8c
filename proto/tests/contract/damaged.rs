//! Damaged, odd and hostile values, each with what becomes of it. The partition goes on past every one of them, unless a
//! newer writer said `must_understand`.
//!
//! `golden/v1/damaged/expected.toml` says for each file its `fate` (`accepted`, `skipped`, `stops`, or a code), the
//! content type that its record names (none if absent), a text that the error must hold (`says`), and the JSON of the
//! event that it must equal (`same_as`).

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::{frozen, reader, reader::Fate};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    file: Vec<File>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    fate: String,
    content_type: Option<String>,
    says: Option<String>,
    same_as: Option<String>,
}

fn expected() -> Vec<File> {
    toml::from_str::<Expected>(&frozen::read_text("damaged/expected.toml")).unwrap().file
}

/// A flipped bit or a hostile record is rejected with its code, or is documented to pass; it never ends the process.
#[test]
fn each_damaged_file_has_the_fate_that_is_written_beside_it() {
    for (name, bytes) in built() {
        frozen::compare(&format!("damaged/{name}"), &bytes);
    }
    for file in expected() {
        let fate = reader::fate(&frozen::read(&format!("damaged/{}", file.name)), file.content_type.as_deref());
        assert_eq!(fate.word(), file.fate, "{}: {fate:?}", file.name);
        if let Some(text) = &file.says {
            let Fate::Rejected(violation) = &fate else { panic!("{}: {fate:?}", file.name) };
            assert!(violation.to_string().contains(text), "{}: {violation}", file.name);
        }
        if let Some(json) = &file.same_as {
            assert_eq!(fate, Fate::Accepted(Box::new(reader::event(json))), "{}", file.name);
        }
    }
}

#[test]
fn no_file_is_without_its_fate_and_no_fate_without_its_file() {
    let files: BTreeSet<String> =
        frozen::stems("damaged", "").into_iter().filter(|name| name != "expected.toml").collect();
    let named: BTreeSet<String> = expected().into_iter().map(|file| file.name).collect();
    let built: BTreeSet<String> = built().into_iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(files, named);
    assert_eq!(built, named);
}

/// The field numbers of a body that nobody has invented yet, of a member of the envelope, of `tick` and of `must_understand`.
const UNKNOWN_BODY: &[u8] = &[0x9a, 0x06, 0x02, 0x0a, 0x00];
const UNKNOWN_FIELD: &[u8] = &[0x82, 0x01, 0x01, b'x'];
const TICK: &[u8] = &[0xda, 0x02, 0x00];
const MUST_UNDERSTAND: &[u8] = &[0x40, 0x01];
const ID_AND_SPACE: &[u8] = b"\x0a\x03e-1\x12\x04acme";
/// `observed`, with node `n-1`, source `s-1` and the text `hello`.
const OBSERVED: &[u8] = b"\xaa\x01\x13\x0a\x03n-1\x12\x03s-1\x22\x07\x0a\x05hello";

fn built() -> Vec<(&'static str, Vec<u8>)> {
    let whole = [ID_AND_SPACE, OBSERVED].concat();
    let with = |more: &[u8]| [&whole, more].concat();
    let json = |members: &str| format!(r#"{{"id":"e-1","space":"acme",{members}}}"#).into_bytes();
    let observed = r#""observed":{"node":"n-1","source":"s-1","content":{"text":"hello"}}"#;
    vec![
        ("whole.pb", whole.clone()),
        ("whole.json", json(observed)),
        ("empty.pb", vec![]),
        ("empty.json", b"{}".to_vec()),
        ("no-body.pb", ID_AND_SPACE.to_vec()),
        ("no-body.json", br#"{"id":"e-1","space":"acme"}"#.to_vec()),
        // Damage.
        ("truncated.pb", whole[..whole.len() - 3].to_vec()),
        ("truncated.json", json(observed)[..40].to_vec()),
        ("flipped-length.pb", flipped(&whole, ID_AND_SPACE.len() + 2, 0x40)),
        ("flipped-text.pb", flipped(&whole, whole.len() - 1, 0x01)),
        ("wrong-wire-type.pb", flipped(&whole, 0, 0x02)),
        ("field-number-zero.pb", with(&[0x02, 0x00])),
        ("trailing.json", [json(observed), b" {}".to_vec()].concat()),
        ("byte-order-mark.json", [b"\xef\xbb\xbf".to_vec(), json(observed)].concat()),
        ("json-called-protobuf.json", json(observed)),
        ("protobuf-called-json.pb", whole.clone()),
        ("called-text.json", json(observed)),
        ("array.json", [b"[".to_vec(), json(observed), b"]".to_vec()].concat()),
        // Text.
        ("lone-surrogate.json", json(r#""observed":{"node":"\ud800","source":"s-1"}"#)),
        ("invalid-utf8.json", replaced(&json(observed), b"hello", b"he\xfflo")),
        ("invalid-utf8.pb", replaced(&whole, b"hello", b"he\xfflo")),
        ("nul.json", replaced(&json(observed), b"hello", b"he\\u0000lo")),
        ("nul.pb", replaced(&whole, b"hello", b"he\0lo")),
        // Bodies.
        ("two-bodies.pb", with(TICK)),
        ("two-bodies.json", json(&format!(r#"{observed},"tick":{{}}"#))),
        ("same-body-twice.pb", with(OBSERVED)),
        ("known-and-unknown-body.pb", with(UNKNOWN_BODY)),
        ("known-and-unknown-body.json", json(&format!(r#"{observed},"from_the_future":{{}}"#))),
        ("two-unknown-bodies.json", json(r#""from_the_future":{},"from_further":{}"#)),
        ("unknown-body.pb", [ID_AND_SPACE, UNKNOWN_BODY].concat()),
        ("unknown-body.json", json(r#""from_the_future":{"nodes":["n-1"]}"#)),
        ("unknown-body-must-understand.pb", [ID_AND_SPACE, MUST_UNDERSTAND, UNKNOWN_BODY].concat()),
        ("unknown-body-must-understand.json", json(r#""must_understand":true,"from_the_future":{}"#)),
        ("unknown-body-bad-time.json", json(r#""occurred_at":"now","from_the_future":{}"#)),
        (
            "unknown-body-must-understand-bad-time.json",
            json(r#""must_understand":true,"occurred_at":"now","from_the_future":{}"#),
        ),
        ("unknown-body-no-object.json", json(r#""from_the_future":1"#)),
        // Fields.
        ("unknown-field.pb", with(UNKNOWN_FIELD)),
        ("unknown-field.json", json(&format!(r#"{observed},"importance":1"#))),
        ("unknown-field-in-body.json", json(r#""observed":{"node":"n-1","source":"s-1","text":"hello"}"#)),
        ("null-for-absent.json", json(&format!(r#""agent":null,"tick":null,"signature":null,{observed}"#))),
        (
            "null-in-body.json",
            replaced(&json(observed), br#""node""#, br#""subject":null,"attributes":{"a":null},"node""#),
        ),
        ("null-body.json", json(r#""observed":null"#)),
        ("null-in-list.json", json(r#""read":{"nodes":["n-1",null]}"#)),
        ("null-member-twice.json", json(&format!(r#""agent":null,"agent":"a",{observed}"#))),
        ("member-twice.json", json(&format!(r#""agent":"a","agent":"b",{observed}"#))),
        ("attribute-twice.json", replaced(&json(observed), br#""node""#, br#""attributes":{"a":"1","a":"2"},"node""#)),
        (
            "both-spellings.json",
            json(&format!(r#""occurred_at":"2026-03-02T09:15:00Z","occurredAt":"2026-03-02T09:15:00Z",{observed}"#)),
        ),
        ("camel-case.json", json(&format!(r#""mustUnderstand":true,"occurredAt":"2026-03-02T09:15:00Z",{observed}"#))),
        // Numbers.
        (
            "nan.json",
            json(r#""observed":{"node":"n-1","source":"s-1","embedding":{"model":"m","values":[0.5,"NaN"]}}"#),
        ),
        (
            "nan.pb",
            [ID_AND_SPACE, b"\xaa\x01\x15\x0a\x03n-1\x12\x03s-1\x3a\x09\x0a\x01m\x12\x04\x00\x00\xc0\x7f"].concat(),
        ),
        ("number-too-large.json", json(r#""source_declared":{"source":"s-1","cost_millionths":1e999}"#)),
        // Bombs.
        ("nesting-bomb.json", json(&format!(r#""from_the_future":{{"a":{}{}}}"#, "[".repeat(1000), "]".repeat(1000)))),
        ("nesting-bomb.pb", with(&[0x83, 0x01].repeat(1000))),
    ]
}

fn flipped(bytes: &[u8], at: usize, mask: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= mask;
    bytes
}

/// The bytes with the one place that reads `old` reading `new`.
fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let at = bytes.windows(old.len()).position(|window| window == old).unwrap();
    [&bytes[..at], new, &bytes[at + old.len()..]].concat()
}
