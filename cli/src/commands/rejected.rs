//! `recant rejected`: events that could not be applied, and another try.

use anyhow::Result;
use prost::Message;
use recant_eventlog::{AppendLog, NewRecord, ReadLimit, ReadLog, Topic};
use recant_gateway::rejected;
use recant_projections::fold::Fate;
use recant_proto::{position::Position, v1::Rejection, wire};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    escape,
    failure::{Exit, Problem, Sort},
    output::{DIM, OUT, Output, counted, styled},
    place::Place,
    remote::read_owned,
};

/// A server is asked for at most so many.
const ASKED_MAX: usize = 1_000;

/// `recant rejected list`.
pub fn list(place: &Place, limit: usize, output: &mut Output) -> Result<Exit> {
    let found = match place.remote()? {
        Some(remote) => read_owned(remote.get(&["rejected"], &[("limit", limit.clamp(1, ASKED_MAX).to_string())])?)?,
        None => look(place, limit)?,
    };
    if output.is_json() {
        output.document(&found)?;
        return Ok(Exit::Done);
    }
    let rejections = found.items.iter().map(Rejection::deserialize).collect::<Result<Vec<_>, _>>()?;
    for rejection in &rejections {
        let code = styled(OUT, format!("rejected[{}]", rejection.code));
        let event = if rejection.event.is_empty() {
            "an event without an id".to_owned()
        } else {
            escape::line(&rejection.event)
        };
        output.line(format!("{} {code} {event}: {}", rejection.position, escape::line(&rejection.detail)))?;
    }
    output.line(styled(DIM, counted(rejections.len() as u64, "rejected event")))?;
    Ok(Exit::Done)
}

/// Rejected events, and the position that they were looked for at.
#[derive(Serialize, Deserialize)]
struct Found {
    items: Vec<Value>,
    position: String,
    cursor: String,
}

fn look(place: &Place, limit: usize) -> Result<Found> {
    let view = place.view()?;
    let rejections = rejected::newest(view.viewer.log(), &place.space, limit).map_err(Problem::from)?;
    let items = rejections.iter().map(wire::to_json).collect();
    Ok(Found { items, position: view.moment.position.to_string(), cursor: view.moment.cursor() })
}

/// `recant rejected retry`.
pub fn retry(place: &Place, position: &str, output: &mut Output) -> Result<Exit> {
    let at: Position = position.parse().map_err(|error| Problem::wrong(format!("{error}")))?;
    let mut standalone = place.open()?;
    let one = ReadLimit { records_max: 1, bytes_max: 1 };
    let records = standalone.log().read(Topic::Events, at.partition, at.offset, one)?;
    let Some(record) = records.into_iter().find(|record| record.position == at) else {
        return Err(Problem::not_found("event", position).into());
    };
    if !was_rejected(standalone.log(), at)? {
        let detail = format!("the event at {position} was not rejected; there is nothing to retry");
        return Err(Problem::new(Sort::No, "not_rejected", "The event was not rejected", detail).into());
    }
    let again = NewRecord {
        partition: at.partition,
        key: record.key,
        headers: record.headers,
        value: record.value,
        append_time_ms: None,
    };
    let position = standalone.log().append(vec![again])?.first().copied();
    let mut fate = None;
    standalone.process(&mut |at, folded| {
        if Some(at) == position {
            fate = Some(folded.fate.clone());
        }
    })?;
    let position = position.map(|position| position.to_string()).unwrap_or_default();
    let told = match fate {
        Some(Fate::Rejected(violation)) => {
            return Err(Problem { position: Some(position), ..Problem::refused(Sort::No, &violation) }.into());
        }
        Some(Fate::Duplicate(_)) => "duplicate",
        Some(Fate::Skipped(_)) => "skipped",
        _ => "accepted",
    };
    if output.is_json() {
        output.document(&json!({ "position": position, "fate": told }))?;
    } else {
        output.line(format!("{told} at {position}"))?;
    }
    Ok(Exit::Done)
}

fn was_rejected(log: &impl ReadLog, at: Position) -> Result<bool> {
    let bounds = log.bounds(Topic::Rejected, at.partition)?;
    let limit = ReadLimit { records_max: 1000, bytes_max: 16 << 20 };
    let mut next = bounds.earliest;
    while next < bounds.end {
        let records = log.read(Topic::Rejected, at.partition, next, limit)?;
        let Some(last) = records.last() else { break };
        next = last.position.offset + 1;
        for record in &records {
            if Rejection::decode(record.value.as_slice())?.position == at.to_string() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
