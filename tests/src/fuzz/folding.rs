//! Folding whatever lies in a log: records are rejected, the partition does not stop, and no position is lost.

use prost::Message as _;
use recant_projections::{
    audit,
    fold::{Fate, FoldError, Folded, Input, Partition},
    query::{self, Moment},
    store::memory::MemoryStore,
    tables::spaces,
};
use recant_proto::{
    names,
    position::Incarnation,
    v1::{Event, Rejection},
};

use super::contract;

const INCARNATION: Incarnation = Incarnation([7; 16]);

/// The bytes between two records of an input.
const BETWEEN: &[u8] = b"\xff\x00--\x00\xff";

/// Records of at most so many are folded.
const RECORDS_MAX: usize = 64;

/// A record of an input: its first byte says which headers it has and whether its key is that of its event.
struct Parsed<'a> {
    key: Vec<u8>,
    headers: Vec<(String, Vec<u8>)>,
    value: &'a [u8],
}

fn parse(bytes: &[u8]) -> Parsed<'_> {
    let (how, value) = bytes.split_first().map_or((0, bytes), |(how, value)| (*how, value));
    let mut headers = Vec::new();
    match how & 3 {
        0 => {}
        1 => headers.push((names::CONTENT_TYPE.to_owned(), names::JSON.into())),
        2 => headers.push((names::CONTENT_TYPE.to_owned(), names::PROTOBUF.into())),
        _ => headers.push((names::CONTENT_TYPE.to_owned(), value.iter().take(40).copied().collect())),
    }
    if how & 4 != 0 {
        headers.push((names::CE_ID.to_owned(), value.iter().take(9).copied().collect()));
    }
    if how & 8 != 0 {
        headers.push((names::CE_TYPE.to_owned(), b"recant.v1.observed".to_vec()));
    }
    let own = recant_proto::wire::decode(value, None).map(|decoded| decoded.event.space).unwrap_or_default();
    let key = if how & 16 == 0 { own.into_bytes() } else { value.iter().take(12).copied().collect() };
    Parsed { key, headers, value }
}

fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while parts.len() + 1 < RECORDS_MAX
        && let Some(at) = bytes.windows(BETWEEN.len()).position(|window| window == BETWEEN)
    {
        parts.push(&bytes[..at]);
        bytes = &bytes[at + BETWEEN.len()..];
    }
    parts.push(bytes);
    parts
}

/// Folds records, whatever they are.
pub(super) fn fold(bytes: &[u8]) {
    let mut partition = Partition::open(MemoryStore::default(), INCARNATION, 0).expect("an empty state opens");
    for (index, part) in split(bytes).into_iter().enumerate() {
        let Parsed { key, headers, value } = parse(part);
        let offset = partition.next_offset();
        let append_time_ms = 1_700_000_000_000 + index as i64;
        let input = Input { offset, append_time_ms, key: &key, headers: &headers, value };
        match partition.fold(&input) {
            Ok(folded) => {
                assert_eq!(partition.next_offset(), offset + 1, "the position moves on");
                keeps(&folded, value, offset);
            }
            // Only these may stop a partition; what came before stays.
            Err(FoldError::MustUnderstand { .. } | FoldError::LogicVersion { .. }) => {
                partition.abandon().expect("a batch can be forgotten");
                assert_eq!(partition.next_offset(), offset);
                break;
            }
            Err(error) => panic!("{error}"),
        }
        partition.store().expect("memory takes a batch");
    }
    check_state(partition.stored());
    let again = Partition::open(partition.stored().clone(), INCARNATION, 0).expect("what was stored opens");
    assert_eq!(again.next_offset(), partition.next_offset());
}

/// What was refused is kept whole.
fn keeps(folded: &Folded, value: &[u8], offset: u64) {
    if let Fate::Rejected(violation) = &folded.fate {
        let [output] = &folded.outputs[..] else { panic!("{} outputs of a rejection", folded.outputs.len()) };
        let rejection = Rejection::decode(&output.value[..]).expect("a rejection");
        assert_eq!(rejection.value, value);
        assert_eq!((rejection.code.as_str(), rejection.position), (violation.code.as_str(), format!("0:{offset}")));
    }
}

/// Every invariant holds in every space, and every question is answered.
fn check_state(store: &MemoryStore) {
    let Some(moment) = Moment::now(store).expect("a moment") else { return };
    for (name, _) in spaces::all(store).expect("spaces") {
        assert_eq!(audit::space(store, &name).expect("a space can be read"), Vec::<String>::new());
        query::sources(store, &name, &moment).expect("sources");
        query::retractions(store, &name, &moment).expect("retractions");
    }
}

pub(super) fn examples() -> Vec<Vec<u8>> {
    let all = contract::event_examples();
    let join = |values: &[Vec<u8>], how: u8| {
        let parts: Vec<Vec<u8>> = values.iter().map(|value| [&[how], &value[..]].concat()).collect();
        parts.join(BETWEEN)
    };
    let mut examples = vec![join(&story(), 0), join(&story(), 1)];
    examples.extend(all.chunks(7).enumerate().map(|(index, chunk)| join(chunk, (index % 32) as u8)));
    examples
}

/// A story in which something is retracted and reinstated, in both forms.
pub(super) fn story() -> Vec<Vec<u8>> {
    let mut events = crate::binary::story::events();
    events.push(crate::binary::story::retracted("r", "web:portal"));
    events.push(crate::binary::story::reinstated("e-back", "r"));
    let mut values = Vec::new();
    for (index, mut event) in events.into_iter().enumerate() {
        event["space"] = serde_json::json!("s");
        let json = event.to_string().into_bytes();
        let decoded: Event = recant_proto::wire::decode(&json, None).expect("the story is right").event;
        values.push(if index % 2 == 0 { json } else { recant_proto::wire::to_protobuf(&decoded) });
    }
    values
}
