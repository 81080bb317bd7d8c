//! `POST events`: one event, or many, in any form that the contract has; each with its fate.

use std::time::Duration;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use recant_processor::standalone::NewEvent;
use recant_projections::fold::Fate;
use recant_proto::{
    names,
    position::Position,
    reject::{Code, Violation},
    v1::Event,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::{
    Gateway,
    answer::At,
    ask::{Body, Demand, Milliseconds, Path, Query, content_type, idempotency_key},
};
use crate::{
    access::Caller,
    host::{Published, Wait},
    problem::{Problem, Sort},
    read::{Refused, read_event_for},
};

/// JSON lines go by several names.
const JSON_LINES: [&str; 4] =
    ["application/x-ndjson", "application/jsonl", "application/json-lines", "application/x-jsonlines"];
/// Several CloudEvents in one array.
const CLOUD_EVENTS_BATCH: &str = "application/cloudevents-batch+json";
const CLOUD_EVENT: &str = "application/cloudevents+json";
/// Said of protobuf that holds several events, each behind its length as a varint.
const DELIMITED: &str = "delimited=true";
/// Events of one body.
const BATCH_EVENTS_MAX: usize = 10_000;

/// How a write waits.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Waiting {
    /// `applied`, or `durable` to be answered as soon as the events are on disk.
    #[serde(default)]
    #[param(inline)]
    wait: WaitFor,
    /// Wait at most so many milliseconds until they are applied.
    #[param(value_type = Option<u32>, maximum = 600000)]
    wait_ms: Option<Milliseconds>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum WaitFor {
    #[default]
    Applied,
    Durable,
}

impl Waiting {
    pub(super) fn of(&self, gateway: &Gateway) -> Wait {
        match self.wait {
            WaitFor::Durable => Wait::Durable,
            WaitFor::Applied => Wait::Applied(self.within(gateway)),
        }
    }

    pub(super) fn within(&self, gateway: &Gateway) -> Duration {
        gateway.limits.within(self.wait_ms)
    }
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Fate)]
enum Told {
    /// It was applied.
    Accepted,
    /// It was applied before.
    Duplicate,
    /// Its body is from a newer writer; it is kept, and passed over.
    Skipped,
    /// It was not applied.
    Rejected,
    /// It is in the log, and not known yet to be applied: ask for the event by its id.
    Unknown,
}

/// One event, and what became of it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EventFate {
    /// Its id, as far as it could be read.
    event: String,
    /// Which of a batch, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// Where it lies in the log; absent if it was refused before.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<String>,
    fate: Told,
    /// Where the same event was applied before.
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate_of: Option<String>,
    /// The code of its rejection.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    /// What the code means.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'static str>,
    /// What was wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// What became of many.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct Fates {
    /// Applied.
    accepted: usize,
    /// Applied before.
    duplicates: usize,
    /// Kept, with a body that this version does not know.
    skipped: usize,
    /// Not applied.
    rejected: usize,
    /// Not known yet.
    unknown: usize,
    /// The position of the last event that came into the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<String>,
    /// Each of them, in order.
    items: Vec<EventFate>,
}

/// One event's fate, or those of many.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum EventsAnswer {
    One(EventFate),
    Many(Fates),
}

/// Publish events: when it is answered they are on disk, and applied.
///
/// One event (`application/json`, `application/protobuf`, `application/cloudevents+json`) is answered with its fate, or with the problem for
/// which it was refused. Many (a JSON array, `application/x-ndjson`, `application/cloudevents-batch+json`, `application/protobuf;
/// delimited=true`) are answered with the fate of each.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/events", tag = "write", operation_id = "publish_events",
    params(("space" = String, Path, description = "The space"), Waiting,
        ("Idempotency-Key" = Option<String>, Header, description = "The id of a single event, if it does not say it itself")),
    request_body(content((Object = "application/json"), (String = "application/x-ndjson"), (String = "application/protobuf"),
        (Object = "application/cloudevents+json"))),
    responses(
        (status = 200, description = "Applied, or in a batch refused one by one", body = EventsAnswer),
        (status = 202, description = "In the log, and not known yet to be applied", body = EventsAnswer),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn publish(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path(space): Path<String>,
    Query(waiting): Query<Waiting>,
    headers: HeaderMap,
    body: axum::body::Body,
) -> Result<Response, Problem> {
    let body = Body::read(&gateway, &headers, body).await?;
    let key = idempotency_key(&headers);
    let sent = Sent::read(&headers, &body.bytes)?;
    let wait = waiting.of(&gateway);
    match sent {
        Sent::One(value, content_type) => {
            let mut event = read_event_for(&space, value, &content_type, key.as_deref())
                .map_err(|refused| Problem::refused(Sort::Wrong, &refused.violation))?;
            gateway.admit(&caller, &space, std::iter::once(&mut event))?;
            let published = gateway.host.publish(vec![NewEvent::of(&event)], wait).await?;
            let Some(published) = published.first() else { return Err(nothing_published()) };
            one(&event, published).map(IntoResponse::into_response)
        }
        Sent::Many(..) if key.is_some() => {
            let detail = "an Idempotency-Key is the id of one event; in a batch each event says its own id";
            Err(Problem::wrong_request(detail))
        }
        Sent::Many(values, content_type) => {
            let read = values.iter().map(|value| read_event_for(&space, value, &content_type, None)).collect();
            many(&gateway, &caller, &space, read, wait).await.map(IntoResponse::into_response)
        }
    }
}

/// The values of the events in a body, with their content type.
enum Sent<'a> {
    One(&'a [u8], String),
    Many(Vec<&'a [u8]>, String),
}

impl<'a> Sent<'a> {
    fn read(headers: &HeaderMap, body: &'a [u8]) -> Result<Sent<'a>, Problem> {
        let (media_type, parameters) = content_type(headers);
        let undecodable = |detail: String| Problem::refused(Sort::Wrong, &Violation::new(Code::Undecodable, detail));
        let is_array = || body.trim_ascii_start().first() == Some(&b'[');
        let array = || -> Result<Vec<&'a [u8]>, Problem> {
            let values: Vec<&'a RawValue> =
                serde_json::from_slice(body).map_err(|error| undecodable(format!("not a JSON array: {error}")))?;
            Ok(values.into_iter().map(|value| value.get().as_bytes()).collect())
        };
        let many = match media_type.as_str() {
            names::JSON if is_array() => (array()?, names::JSON),
            CLOUD_EVENTS_BATCH => (array()?, CLOUD_EVENT),
            lines if JSON_LINES.contains(&lines) => {
                let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
                (lines.collect(), names::JSON)
            }
            names::PROTOBUF | "application/x-protobuf" if parameters == DELIMITED => {
                (delimited(body).map_err(undecodable)?, names::PROTOBUF)
            }
            names::JSON | names::PROTOBUF | "application/x-protobuf" | CLOUD_EVENT => {
                return Ok(Sent::One(body, media_type));
            }
            other => {
                let detail = format!(
                    "content type {other:?}; recant reads {}, {}, {}, {CLOUD_EVENT} and {CLOUD_EVENTS_BATCH}",
                    names::JSON,
                    JSON_LINES[0],
                    names::PROTOBUF
                );
                return Err(Problem::refused(Sort::Wrong, &Violation::new(Code::ContentType, detail)));
            }
        };
        if many.0.len() > BATCH_EVENTS_MAX {
            let detail = format!("{} events in one body; send at most {BATCH_EVENTS_MAX}", many.0.len());
            return Err(Problem::new(Sort::Wrong, "body_too_large", "The body is too large", detail));
        }
        Ok(Sent::Many(many.0, many.1.to_owned()))
    }
}

/// Splits messages that stand behind their lengths.
fn delimited(mut body: &[u8]) -> Result<Vec<&[u8]>, String> {
    let mut values = Vec::new();
    while !body.is_empty() {
        let length = prost::encoding::decode_varint(&mut body).map_err(|error| format!("not a length: {error}"))?;
        let length = usize::try_from(length).ok().filter(|length| *length <= body.len());
        let (value, rest) = body.split_at(length.ok_or("a message ends beyond the body")?);
        values.push(value);
        body = rest;
    }
    Ok(values)
}

fn one(event: &Event, published: &Published) -> Result<At<EventsAnswer>, Problem> {
    if let Some(Fate::Rejected(violation)) = &published.fate {
        let position = Some(published.position.to_string());
        return Err(Problem { position, ..Problem::refused(Sort::No, violation) });
    }
    let fate = EventFate::of(event.id.clone(), None, published);
    let status = if fate.fate == Told::Unknown { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok(At { status, position: published.position.to_string(), body: EventsAnswer::One(fate) })
}

/// Publishes those of a batch that the contract allows by themselves, and tells the fates of all.
async fn many(
    gateway: &Gateway,
    caller: &Caller,
    space: &str,
    mut read: Vec<Result<Event, Refused>>,
    wait: Wait,
) -> Result<At<EventsAnswer>, Problem> {
    gateway.admit(caller, space, read.iter_mut().flatten())?;
    let events = read.iter().flatten().map(NewEvent::of).collect();
    let published = gateway.host.publish(events, wait).await?;
    let position = published.last().map(|published| published.position.to_string());
    let mut published = published.iter();
    let mut fates = Fates { position: position.clone(), ..Fates::default() };
    for (line, event) in (1..).zip(read) {
        let item = match event {
            Ok(event) => EventFate::of(event.id, Some(line), published.next().ok_or_else(nothing_published)?),
            Err(refused) => EventFate::refused(refused.event_id, Some(line), None, &refused.violation),
        };
        match item.fate {
            Told::Accepted => fates.accepted += 1,
            Told::Duplicate => fates.duplicates += 1,
            Told::Skipped => fates.skipped += 1,
            Told::Rejected => fates.rejected += 1,
            Told::Unknown => fates.unknown += 1,
        }
        fates.items.push(item);
    }
    let status = if fates.unknown > 0 { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok(At { status, position: position.unwrap_or_default(), body: EventsAnswer::Many(fates) })
}

/// The host gives as many as it was given.
fn nothing_published() -> Problem {
    Problem::fate_unknown("it was not told; append it again")
}

impl EventFate {
    fn of(event: String, line: Option<usize>, published: &Published) -> EventFate {
        let position = published.position;
        let (fate, duplicate_of) = match &published.fate {
            None => (Told::Unknown, None),
            Some(Fate::Accepted) => (Told::Accepted, None),
            Some(Fate::Duplicate(offset)) => {
                (Told::Duplicate, Some(Position { offset: *offset, ..position }.to_string()))
            }
            Some(Fate::Skipped(_)) => (Told::Skipped, None),
            Some(Fate::Rejected(violation)) => return EventFate::refused(event, line, Some(position), violation),
        };
        let position = Some(position.to_string());
        EventFate { event, line, position, fate, duplicate_of, code: None, title: None, detail: None }
    }

    fn refused(event: String, line: Option<usize>, position: Option<Position>, violation: &Violation) -> EventFate {
        EventFate {
            event,
            line,
            position: position.map(|position| position.to_string()),
            fate: Told::Rejected,
            duplicate_of: None,
            code: Some(violation.code.as_str()),
            title: Some(violation.code.title()),
            detail: Some(violation.to_string()),
        }
    }
}

/// What became of an event, by its id.
///
/// One that was rejected, or is not processed yet, is not found: `rejected` has the rejected ones.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/events/{id}", tag = "read", operation_id = "get_event",
    params(("space" = String, Path, description = "The space"), ("id" = String, Path, description = "The event's id"), Demand),
    responses(
        (status = 200, description = "It was applied", body = EventFate),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn event(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path((space, id)): Path<(String, String)>,
    Query(demand): Query<Demand>,
) -> Result<At<EventFate>, Problem> {
    let space = gateway.seen(&caller, &space);
    let (event, within) = (id.clone(), demand.within(&gateway));
    let found = gateway.host.read(space, demand.freshness()?, within, move |reading| {
        Ok::<_, Problem>((reading.position(), reading.event(&event)?))
    });
    let (position, row) = found.await??;
    let (at, was_skipped) = row.ok_or_else(|| Problem::not_found("event", &id))?;
    let fate = if was_skipped { Fate::Skipped(String::new()) } else { Fate::Accepted };
    Ok(At::of(position, EventFate::of(id, None, &Published { position: at, fate: Some(fate) })))
}
