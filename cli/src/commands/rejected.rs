//! `recant rejected`: events that could not be applied, and another try.

use anyhow::Result;
use prost::Message;
use recant_eventlog::{AppendLog, NewRecord, ReadLimit, ReadLog, Topic};
use recant_projections::fold::Fate;
use recant_proto::{position::Position, v1::Rejection, wire};
use serde_json::{Value, json};

use crate::{
    escape,
    failure::{Exit, Problem, Sort},
    output::{DIM, OUT, Output, counted, styled},
    place::Place,
};

/// `recant rejected list`.
pub fn list(place: &Place, limit: usize, output: &mut Output) -> Result<Exit> {
    let view = place.view()?;
    let log = view.viewer.log();
    let mut rejections = Vec::new();
    for partition in 0..log.partitions() {
        let bounds = log.bounds(Topic::Rejected, partition)?;
        let from = bounds.earliest.max(bounds.end.saturating_sub(limit as u64));
        let read = ReadLimit { records_max: limit, bytes_max: 256 << 20 };
        for record in log.read(Topic::Rejected, partition, from, read)? {
            let rejection = Rejection::decode(record.value.as_slice())?;
            if rejection.space == place.space || rejection.space.is_empty() {
                rejections.push(rejection);
            }
        }
    }
    if output.is_json() {
        let items: Vec<Value> = rejections.iter().map(wire::to_json).collect();
        output.document(
            &json!({ "items": items, "position": view.moment.position.to_string(), "cursor": view.moment.cursor() }),
        )?;
        return Ok(Exit::Done);
    }
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
