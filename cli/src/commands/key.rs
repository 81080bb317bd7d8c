//! `recant init`, and `recant key`: logs whose writers sign, and the keys that count in them.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use anyhow::Result;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use recant_eventlog::{
    AppendLog as _, ReadLog as _,
    kafka::{KafkaLog, NewLog as NewKafkaLog},
};
use recant_gateway::access::random_bytes;
use recant_processor::{
    signer::{Signer, SignerError},
    standalone::{NewLog, control_record, log_created, log_directory, signed_log_created},
    viewer::Viewer,
};
use recant_projections::{fold::Fate, tables::partition};
use recant_proto::{
    id::CONTROL_SPACE,
    position::Incarnation,
    v1::{Event, KeyEnrolled, KeyRevoked, event::Body},
    validate, wire,
};
use serde::Serialize;
use serde_json::json;

use super::writer::{Writer, fate_unknown};
use crate::{
    arguments::{Init, Key, Writers},
    escape,
    failure::{Exit, Problem, Sort},
    output::{DIM, Output, counted, styled},
    place::Place,
};

/// Makes an empty log.
pub fn init(place: &Place, arguments: &Init, output: &mut Output) -> Result<Exit> {
    place.needs_no_server()?;
    let operator_key = match arguments.writers {
        Writers::Open => None,
        Writers::Signed => Some(enrolled(&*signer(place)?, true)),
    };
    let incarnation = Incarnation(*uuid::Uuid::new_v4().as_bytes());
    let partitions = arguments.partitions;
    let found = match &place.kafka {
        None => {
            if log_directory(&place.data).exists() {
                return Err(Problem::wrong(format!("{} holds a log already", place.data.display())).into());
            }
            let new = NewLog { incarnation, partitions, log_time_occurred: false };
            place.create(&new, operator_key.as_ref())?.log().incarnation()
        }
        Some(settings) => {
            let first_event = |incarnation, partitions, partition| match &operator_key {
                None => log_created(incarnation, partitions, partition, false),
                Some(key) => signed_log_created(incarnation, partitions, partition, key),
            };
            let new = NewKafkaLog { incarnation, partitions, first_event: &first_event };
            KafkaLog::open_or_create(settings.clone(), &new)?.incarnation()
        }
    };
    if found != incarnation {
        return Err(Problem::wrong(format!("there is a log already, {found}")).into());
    }
    let writers = if operator_key.is_some() { "signed" } else { "open" };
    if output.is_json() {
        output.document(
            &json!({ "incarnation": incarnation.to_string(), "partitions": partitions, "writers": writers }),
        )?;
    } else {
        let partitions = counted(u64::from(partitions), "partition");
        output.line(format!("the log {incarnation} is there: {partitions}, writers {writers}"))?;
    }
    Ok(Exit::Done)
}

/// Runs `recant key`.
pub fn run(place: &Place, arguments: &Key, output: &mut Output) -> Result<Exit> {
    match arguments {
        Key::New { id, out } => new(id, out, output),
        Key::Enrol { id, public_key, operator, holder } => {
            let public_key =
                BASE64_STANDARD.decode(public_key).map_err(|_| Problem::wrong("--public-key is no base64"))?;
            let holder = holder.clone().unwrap_or_default();
            let enrolled = KeyEnrolled { key_id: id.clone(), public_key, operator: *operator, holder };
            say(place, &format!("key-enrolled-{id}"), Body::KeyEnrolled(enrolled), output)
        }
        Key::Revoke { id, reason } => {
            let revoked = KeyRevoked { key_id: id.clone(), reason: reason.clone().unwrap_or_default() };
            say(place, &format!("key-revoked-{id}"), Body::KeyRevoked(revoked), output)
        }
        Key::List => list(place, output),
    }
}

fn new(id: &str, out: &Path, output: &mut Output) -> Result<Exit> {
    validate::check_id("ID", id).map_err(|violation| Problem::wrong(violation.to_string()))?;
    if id.contains(['\n', '\r']) {
        return Err(Problem::wrong("an id of a key is one line").into());
    }
    let no_randomness =
        || Problem::new(Sort::CouldNot, "io", "Something outside recant failed", "the system gives no random bytes");
    let signer = Signer::of(id, &random_bytes().ok_or_else(no_randomness)?);
    signer.write(out).map_err(|error| unusable(out, &error))?;
    let public_key = BASE64_STANDARD.encode(signer.public_key());
    if output.is_json() {
        output.document(&json!({ "key_id": id, "public_key": public_key }))?;
    } else {
        output.line(format!("{}  {public_key}", escape::line(id)))?;
    }
    Ok(Exit::Done)
}

/// Reads the key that a process signs with.
pub fn read(path: &Path) -> Result<Signer> {
    Ok(Signer::read(path).map_err(|error| unusable(path, &error))?)
}

fn unusable(path: &Path, error: &SignerError) -> Problem {
    match error {
        SignerError::Io(error) => Problem::file(path, error),
        error => Problem::wrong(format!("{}: {error}", path.display())),
    }
}

fn signer(place: &Place) -> Result<Arc<Signer>> {
    let missing = || Problem::wrong("it is signed by an operator's key: --key FILE (RECANT_KEY)");
    Ok(place.signer.clone().ok_or_else(missing)?)
}

fn enrolled(signer: &Signer, operator: bool) -> KeyEnrolled {
    let public_key = signer.public_key().to_vec();
    KeyEnrolled { key_id: signer.key_id().to_owned(), public_key, operator, holder: String::new() }
}

/// Says something of a key in each partition. What was said already is a duplicate there: so a command that was interrupted
/// is given again.
fn say(place: &Place, id: &str, body: Body, output: &mut Output) -> Result<Exit> {
    let signer = signer(place)?;
    let (id, space, body) = (id.to_owned(), CONTROL_SPACE.to_owned(), Some(body));
    let event = Event { id, space, must_understand: true, body, ..Event::default() };
    validate::check(&event, wire::to_protobuf(&event).len(), &validate::DEFAULT_LIMITS)
        .map_err(|violation| Problem::refused(Sort::Wrong, &violation))?;
    let fates = match place.writer_of_existing()? {
        Writer::Remote(_) => return Err(place.needs_no_server().err().unwrap_or_else(|| fate_unknown().into())),
        Writer::Embedded(mut standalone) => {
            let log = standalone.shared_log();
            let event = signer.sign(log.incarnation(), event);
            let records = (0..log.partitions()).map(|partition| control_record(partition, &event, None));
            let positions = log.append(records.collect())?;
            let mut fates = Vec::with_capacity(positions.len());
            standalone.process(&mut |position, folded| {
                if positions.contains(&position) {
                    fates.push(folded.fate.clone());
                }
            })?;
            fates
        }
        Writer::Kafka(door) => {
            let event = signer.sign(door.log().incarnation(), event);
            let records = (0..door.log().partitions()).map(|partition| control_record(partition, &event, None));
            let appended = door.append_records(records.collect())?;
            door.fates(&appended)?
        }
    };
    for fate in &fates {
        if let Fate::Rejected(violation) = fate {
            return Err(Problem::refused(Sort::No, violation).into());
        }
    }
    let partitions = counted(fates.len() as u64, "partition");
    if output.is_json() {
        output.document(&json!({ "partitions": fates.len() }))?;
    } else {
        output.line(format!("in force in {partitions}"))?;
    }
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct KeyTold {
    key_id: String,
    public_key: String,
    operator: bool,
    revoked: bool,
    /// In how many partitions it is so.
    partitions: u32,
}

fn list(place: &Place, output: &mut Output) -> Result<Exit> {
    place.needs_no_server()?;
    let viewer = Viewer::over(&place.data, place.log()?);
    let mut keys: BTreeMap<(String, bool), KeyTold> = BTreeMap::new();
    let mut writers_sign = false;
    for number in 0..viewer.log().partitions() {
        // On Kafka other processes have the others.
        if place.kafka.is_some() && !viewer.directory_of_state(number).exists() {
            continue;
        }
        let row = partition::get(&viewer.state(number)?)?.unwrap_or_default();
        writers_sign |= row.writers_sign;
        for key in row.keys {
            let told = keys.entry((key.key_id.clone(), key.is_revoked)).or_insert_with(|| KeyTold {
                public_key: BASE64_STANDARD.encode(&key.public_key),
                operator: key.is_operator,
                revoked: key.is_revoked,
                partitions: 0,
                key_id: key.key_id,
            });
            told.partitions += 1;
        }
    }
    let keys: Vec<KeyTold> = keys.into_values().collect();
    if output.is_json() {
        output.document(&json!({ "writers": if writers_sign { "signed" } else { "open" }, "keys": keys }))?;
        return Ok(Exit::Done);
    }
    if !writers_sign {
        output.line("the writers of this log do not sign")?;
    }
    for key in keys {
        let (operator, revoked) =
            (if key.operator { "  operator" } else { "" }, if key.revoked { "  revoked" } else { "" });
        let partitions = styled(DIM, format!("  in {}", counted(u64::from(key.partitions), "partition")));
        output.line(format!("{}  {}{operator}{revoked}{partitions}", escape::line(&key.key_id), key.public_key))?;
    }
    Ok(Exit::Done)
}
