//! What the writers have to say: events of the generator that the oracle runs use, in several spaces, and some records that
//! are no events or lie in a wrong place.

use std::collections::{BTreeMap, VecDeque};

use prost::Message as _;
use recant_eventlog::NewRecord;
use recant_proto::{
    id::CONTROL_SPACE,
    names::{self, partition_of},
    v1::{Event, event::Body},
    wire,
};

use super::choices::Choices;
use crate::generate::{self, BEGIN_MS, SPACES, Sequence, seeded};

/// Nodes that a sequence can name, and its longest length, before several are put together.
const UNIVERSE_MAX: u8 = 40;
const STEPS_MAX: usize = 120;

/// Of so many events about one comes with a record beside it that is refused.
const SPOILED_ONE_IN: u64 = 40;

/// Something that is going to be written.
#[derive(Debug, Clone)]
pub struct Letter {
    event: Event,
    /// What follows the event in its value: a body that nobody knows.
    suffix: Vec<u8>,
    in_json: bool,
    /// Of an event that holds only at a position: how many offsets before its own, and whether in another partition.
    only_if: Option<(u64, bool)>,
    /// Where it goes.
    pub partition: u32,
    has_headers: bool,
    spoiled: Option<Spoiled>,
    /// How far the clock moves before it is written.
    pub clock_ms: i64,
}

/// Why a record is refused, whatever the state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spoiled {
    Undecodable,
    AnotherKey,
    AnotherPartition,
    AnotherContentType,
}

/// What a value says, known without decoding it.
#[derive(Debug, Clone)]
pub struct Said {
    /// The event.
    pub event: Event,
    /// The code with which it is refused, if that does not depend on the state.
    pub refused: Option<&'static str>,
}

/// What every value in the log says. Values that are refused for their place have no twins elsewhere.
pub type Sayings = BTreeMap<Vec<u8>, Said>;

/// Everything that is going to be written in a run of at least so many events, in the order in which it was thought of.
pub fn letters(choices: &mut Choices, partitions: u32, groups: u64, events: usize) -> VecDeque<Letter> {
    let mut waiting: Vec<VecDeque<Letter>> =
        (0..groups).map(|group| of_group(choices, partitions, group, events.div_ceil(groups as usize))).collect();
    let mut letters = VecDeque::new();
    while !waiting.is_empty() {
        let group = choices.index(waiting.len());
        match waiting[group].pop_front() {
            Some(letter) => {
                let spoiled =
                    choices.one_in(SPOILED_ONE_IN).then(|| spoiled(choices, &letter, partitions, letters.len()));
                letters.push_back(letter);
                letters.extend(spoiled);
            }
            None => drop(waiting.swap_remove(group)),
        }
    }
    letters
}

/// The names of the spaces that a group of letters is about.
pub fn spaces_of(group: u64) -> [String; 2] {
    SPACES.map(|space| if group == 0 { space.to_owned() } else { format!("{space}-{group}") })
}

fn of_group(choices: &mut Choices, partitions: u32, group: u64, events: usize) -> VecDeque<Letter> {
    let spaces = spaces_of(group);
    let records = generate::records(&sequence(choices.any(), events));
    let mut before_ms = BEGIN_MS;
    let mut letters = VecDeque::new();
    // The first record creates the log, and is not of a group.
    for record in records.into_iter().skip(1) {
        let clock_ms = record.append_time_ms - before_ms;
        before_ms = record.append_time_ms;
        let in_json = record.value.first() == Some(&b'{');
        let suffix = if in_json { Vec::new() } else { record.value[record.event.encoded_len()..].to_vec() };
        let mut event = record.event;
        let in_other = event.space == SPACES[1];
        if event.space != CONTROL_SPACE {
            event.space.clone_from(&spaces[usize::from(in_other)]);
        }
        // The log's own events go where the group's first space is; each partition has some.
        let key = if event.space == CONTROL_SPACE { &spaces[0] } else { &event.space };
        let partition = partition_of(key.as_bytes(), partitions);
        let only_if = only_if(&mut event).map(|mark| marked(mark, record.offset));
        let has_headers = choices.one_in(4);
        letters.push_back(Letter { event, suffix, in_json, only_if, partition, has_headers, spoiled: None, clock_ms });
    }
    letters
}

fn sequence(seed: u64, steps: usize) -> Sequence {
    let mut sequences = seeded(seed, UNIVERSE_MAX, STEPS_MAX);
    let mut sequence = sequences.next().unwrap_or(Sequence { universe: 3, has_key: false, steps: Vec::new() });
    for more in sequences {
        if sequence.steps.len() >= steps {
            break;
        }
        sequence.steps.extend(more.steps);
    }
    sequence.steps.truncate(steps);
    sequence
}

/// The position at which an event holds only, if it says one.
fn only_if(event: &mut Event) -> Option<&mut String> {
    let position = match &mut event.body {
        Some(Body::Retracted(retracted)) => &mut retracted.only_if_position,
        Some(Body::Reinstated(reinstated)) => &mut reinstated.only_if_position,
        _ => return None,
    };
    if position.is_empty() { None } else { Some(position) }
}

/// How the generator's position lies to that of its record.
fn marked(position: &str, offset: u64) -> (u64, bool) {
    let (partition, marked) = position.split_once(':').unwrap_or_default();
    let marked: u64 = marked.parse().unwrap_or_default();
    (offset.saturating_sub(marked), partition != generate::PARTITION.to_string())
}

/// A record that looks like another, has an id of its own, and is refused.
fn spoiled(choices: &mut Choices, letter: &Letter, partitions: u32, number: usize) -> Letter {
    let mut kinds = vec![Spoiled::Undecodable, Spoiled::AnotherKey, Spoiled::AnotherContentType];
    let in_control = letter.event.space == CONTROL_SPACE;
    if partitions > 1 && !in_control {
        kinds.push(Spoiled::AnotherPartition);
    }
    let kind = kinds[choices.index(kinds.len())];
    let partition =
        if kind == Spoiled::AnotherPartition { (letter.partition + 1) % partitions } else { letter.partition };
    let event = Event { id: format!("spoiled-{number}"), ..letter.event.clone() };
    Letter { event, in_json: false, has_headers: false, spoiled: Some(kind), partition, clock_ms: 0, ..letter.clone() }
}

/// Writes letters out, and remembers what their values say.
#[derive(Default)]
pub struct Desk {
    sayings: Sayings,
    /// The position that an event named when it was first written: it says the same when it comes again.
    positions: BTreeMap<(String, String), String>,
}

impl Desk {
    /// What every value says that was written out.
    pub fn sayings(&self) -> &Sayings {
        &self.sayings
    }

    /// Notes what a value says.
    pub fn note(&mut self, value: Vec<u8>, said: Said) {
        self.sayings.insert(value, said);
    }

    /// The record of a letter, where its partition's events end now.
    pub fn write(&mut self, letter: &Letter, end: u64) -> NewRecord {
        let mut event = letter.event.clone();
        if let (Some((back, in_other_partition)), Some(position)) = (letter.only_if, only_if(&mut event)) {
            let partition = if in_other_partition { letter.partition + 1 } else { letter.partition };
            let now = || format!("{partition}:{}", end.saturating_sub(back));
            let first = self.positions.entry((letter.event.space.clone(), letter.event.id.clone())).or_insert_with(now);
            position.clone_from(first);
        }
        let mut value =
            if letter.in_json { wire::to_json(&event).to_string().into_bytes() } else { event.encode_to_vec() };
        value.extend_from_slice(&letter.suffix);
        let mut key = event.space.clone().into_bytes();
        let mut headers = Vec::new();
        if letter.has_headers {
            let form = if letter.in_json { names::JSON } else { names::PROTOBUF };
            headers.push((names::CE_ID.to_owned(), event.id.clone().into_bytes()));
            headers.push((names::CONTENT_TYPE.to_owned(), form.into()));
            headers.push((
                names::TRACEPARENT.to_owned(),
                b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
            ));
        }
        let refused = letter.spoiled.map(|spoiled| match spoiled {
            Spoiled::Undecodable => {
                // Field 1 as a number: the id is a text.
                value.extend([0x08, 0x01]);
                "undecodable"
            }
            Spoiled::AnotherKey => {
                key.extend(b"-or-another");
                "header_mismatch"
            }
            Spoiled::AnotherPartition => "wrong_partition",
            Spoiled::AnotherContentType => {
                headers.push((names::CONTENT_TYPE.to_owned(), b"text/plain".into()));
                "content_type"
            }
        });
        self.note(value.clone(), Said { event, refused });
        NewRecord { partition: letter.partition, key, headers, value, append_time_ms: None }
    }
}
