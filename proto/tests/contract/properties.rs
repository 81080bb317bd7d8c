//! Whatever arrives: no bytes end the process, and what is written is read as it was.

use proptest::{collection, prelude::*, sample};
use recant_proto::{
    v1::Event,
    validate::{self, DEFAULT_LIMITS},
    wire,
};

use crate::{arbitrary, frozen};

const CONTENT_TYPES: [Option<&str>; 4] =
    [None, Some("application/json"), Some("application/protobuf"), Some("text/plain")];

/// Reads a value in every way. Where it is an event, both forms of it must be read as the same event again.
fn read_in_every_way(value: &[u8]) {
    for content_type in CONTENT_TYPES {
        let Ok(decoded) = wire::decode(value, content_type) else { continue };
        wire::fingerprint(&decoded, value);
        if validate::check(&decoded.event, value.len(), &DEFAULT_LIMITS).is_ok() && decoded.unknown_body.is_none() {
            assert_comes_back(&decoded.event);
        }
    }
}

fn assert_comes_back(event: &Event) {
    let protobuf = wire::to_protobuf(event);
    let json = wire::to_json(event).to_string().into_bytes();
    for value in [&protobuf, &json] {
        let back = wire::decode(value, None).unwrap();
        assert_eq!(&back.event, event);
        assert_eq!(back.unknown_body, None);
        assert_eq!(wire::to_protobuf(&back.event), protobuf);
        assert_eq!(wire::to_json(&back.event).to_string().into_bytes(), json);
        assert_eq!(
            wire::fingerprint(&back, value),
            wire::fingerprint(&wire::decode(&protobuf, None).unwrap(), &protobuf)
        );
    }
}

#[derive(Debug, Clone)]
enum Mutation {
    Flip(sample::Index, u8),
    Insert(sample::Index, Vec<u8>),
    Remove(sample::Index, usize),
    Repeat(sample::Index, usize),
    Cut(sample::Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<sample::Index>;
    prop_oneof![
        4 => (index(), 1..=u8::MAX).prop_map(|(at, mask)| Mutation::Flip(at, mask)),
        2 => (index(), collection::vec(any::<u8>(), 1..8)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        2 => (index(), 1..16_usize).prop_map(|(at, length)| Mutation::Remove(at, length)),
        1 => (index(), 1..64_usize).prop_map(|(at, length)| Mutation::Repeat(at, length)),
        1 => index().prop_map(Mutation::Cut),
    ]
}

impl Mutation {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let end = bytes.len();
        match self {
            Mutation::Flip(at, mask) if end > 0 => bytes[at.index(end)] ^= mask,
            Mutation::Insert(at, new) => {
                let at = at.index(end + 1);
                bytes.splice(at..at, new.iter().copied());
            }
            Mutation::Remove(at, length) => {
                let at = at.index(end + 1);
                bytes.drain(at..end.min(at + length));
            }
            Mutation::Repeat(at, length) => {
                let at = at.index(end + 1);
                let part = bytes[at..end.min(at + length)].to_vec();
                bytes.splice(at..at, part);
            }
            Mutation::Cut(at) => bytes.truncate(at.index(end + 1)),
            Mutation::Flip(..) => {}
        }
    }
}

fn frozen_values() -> Vec<Vec<u8>> {
    let whole = [".json", ".pb"].map(|ending| frozen::stems("", ending).into_iter().map(move |stem| stem + ending));
    whole.into_iter().flatten().map(|name| frozen::read(&name)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(value in collection::vec(any::<u8>(), 0..512)) {
        read_in_every_way(&value);
    }

    #[test]
    fn damaged_events_never_panic(
        mut value in sample::select(frozen_values()),
        mutations in collection::vec(mutation(), 1..8),
    ) {
        mutations.iter().for_each(|mutation| mutation.apply(&mut value));
        read_in_every_way(&value);
    }

    #[test]
    fn any_event_comes_back_from_both_forms(event in arbitrary::event()) {
        assert_comes_back(&event);
    }

    #[test]
    fn any_event_is_checked_without_a_panic(event in arbitrary::event()) {
        let value = wire::to_protobuf(&event);
        let _ = validate::check(&event, value.len(), &DEFAULT_LIMITS);
        let again = validate::check(&wire::decode(&value, None).unwrap().event, value.len(), &DEFAULT_LIMITS);
        prop_assert_eq!(validate::check(&event, value.len(), &DEFAULT_LIMITS), again);
    }
}
