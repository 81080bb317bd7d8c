//! `GET changes`: the change stream as Server-Sent Events, or by long poll.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Json,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use super::{
    Gateway,
    ask::{Milliseconds, Path, Query, limit},
    nodes::{KindOfNode, Status},
};
use crate::{
    access::{Caller, StreamPermit},
    changes::From,
    host::{Host, HostError},
    problem::Problem,
    stream::{Content, Filter, Follower, Framer, Selection, Streamed, Told, frames},
};

const EVENT_STREAM: &str = "text/event-stream";
/// So often a follower hears something, if only where it is.
const HEARTBEAT: Duration = Duration::from_secs(15);
const HEARTBEAT_MIN: Duration = Duration::from_millis(100);
/// So long a long poll waits for something to tell.
const POLL: Duration = Duration::from_secs(25);
const POLL_MAX: Duration = Duration::from_secs(60);
/// A chunk that has so many bytes is sent; more may be at hand.
const CHUNK_BYTES: usize = 32 << 10;
/// When to come back after a break.
const RETRY_MS: u64 = 1_000;
/// When to come back: after the server has ended, spread out so that not all come at once; and where what was asked for is gone.
const RETRY_MS_MIN: u64 = 500;
const RETRY_MS_SPREAD: u64 = 10;
const RETRY_GONE_MS: u64 = 30_000;

/// From where, and of what.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Following {
    /// `earliest`, `latest`, a cursor, or a time on the log's clock; `latest` if it is not said. `Last-Event-ID` goes before it.
    from: Option<String>,
    /// Of nodes of this kind.
    #[param(inline)]
    kind: Option<KindOfNode>,
    /// To this status.
    #[param(inline)]
    status: Option<Status>,
    /// Of what was observed from this source.
    source: Option<String>,
    /// Of what this agent wrote.
    agent: Option<String>,
    /// Of what was written in this run.
    run: Option<String>,
    /// About this subject.
    subject: Option<String>,
    /// Because of this retraction, or this event.
    cause: Option<String>,
    /// Digests, too.
    #[serde(default)]
    digests: bool,
    /// `metadata`, or `full`: with the text and the attributes of each node.
    #[serde(default)]
    #[param(inline)]
    content: Content,
    /// Server-Sent Events: a heartbeat after so many milliseconds in which nothing was told.
    #[param(value_type = Option<u32>, maximum = 600000)]
    heartbeat_ms: Option<Milliseconds>,
    /// Long poll: wait at most so many milliseconds for something to tell.
    #[param(value_type = Option<u32>, maximum = 600000)]
    wait_ms: Option<Milliseconds>,
    /// Long poll: at most so many changes, 1 to 1000; 100 if it is not said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

impl Following {
    fn selection(&self) -> Selection {
        let kind = self.kind.map(|kind| recant_proto::id::Kind::from(kind).as_str().to_owned());
        let status = self.status.map(|status| if status == Status::In { "IN" } else { "OUT" });
        let filter = Filter {
            kind,
            status,
            source: self.source.clone(),
            agent: self.agent.clone(),
            run: self.run.clone(),
            subject: self.subject.clone(),
            cause: self.cause.clone(),
        };
        Selection { filter, digests: self.digests }
    }

    fn from(&self, headers: &HeaderMap) -> Result<From, Problem> {
        let last_seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()).filter(|id| !id.is_empty());
        last_seen.or(self.from.as_deref()).map_or(Ok(From::Latest), str::parse)
    }
}

/// Changes, and where to go on.
#[derive(Serialize, ToSchema)]
pub(super) struct Polled {
    /// Summaries, changes and digests, in the order of the stream.
    #[schema(value_type = Vec<Object>)]
    items: Vec<Box<RawValue>>,
    /// Ask again from this cursor.
    cursor: String,
    /// Whether there was nothing more when it was looked at.
    caught_up: bool,
}

/// An event of the stream, as the fields of a Server-Sent Event.
#[derive(Serialize, ToSchema)]
#[allow(dead_code, reason = "it describes what is written field by field")]
struct StreamEvent {
    /// `begin`, `change`, `end`, `digest`, `caught-up`, `heartbeat`, `behind`, `problem` or `closing`.
    event: String,
    /// The cursor after which to go on.
    id: Option<String>,
    /// JSON.
    data: String,
    /// When to come back, in ms.
    retry: Option<u64>,
}

/// Follow what changes: Server-Sent Events, or with `Accept: application/json` by long poll.
///
/// Delivery is at least once and in order, and each record has the cursor from which to go on. What is no longer kept is never passed over
/// in silence: the answer is a problem, over Server-Sent Events an event `problem`, that names the earliest cursor; list the nodes then, and
/// follow from the list's cursor.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/changes", tag = "follow", operation_id = "follow_changes",
    params(("space" = String, Path, description = "The space"), Following,
        ("Last-Event-ID" = Option<String>, Header, description = "The cursor after which to go on; browsers send it by themselves")),
    responses(
        (status = 200, description = "The stream, or what there is of it", content((StreamEvent = "text/event-stream"), (Polled = "application/json"))),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn changes(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path(space): Path<String>,
    Query(following): Query<Following>,
    headers: HeaderMap,
) -> Response {
    let space = gateway.seen(&caller, &space);
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let wants_events = accepts.contains(EVENT_STREAM);
    let permit = match gateway.access.quotas().open_stream(space, std::time::Instant::now()) {
        Ok(permit) => permit,
        Err(exceeded) => return exceeded.into_response(),
    };
    let begun = async {
        let (from, items_max) = (following.from(&headers)?, limit(following.limit)?);
        Ok::<_, Problem>((gateway.streams.follow(space, from, following.selection()).await?, items_max))
    };
    match begun.await {
        Ok((follower, _)) if wants_events || !accepts.contains("json") => {
            events(gateway.host.clone(), space.to_owned(), follower, &following, permit)
        }
        Ok((follower, items_max)) => match poll(&gateway.host, space, follower, &following, items_max).await {
            Ok(polled) => Json(polled).into_response(),
            Err(problem) => problem.into_response(),
        },
        // An EventSource reads no answer but a stream, and comes back after any other.
        Err(problem) if wants_events && problem.status() == StatusCode::GONE.as_u16() => {
            let mut told = String::new();
            frames::problem(&mut told, &problem, RETRY_GONE_MS);
            event_stream(Body::from(told))
        }
        Err(problem) => problem.into_response(),
    }
}

fn event_stream(body: Body) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that gather what they pass on would hold the stream back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A stream that goes on as its reader takes what it is sent: whoever does not read costs nothing but what it holds.
fn events(host: Host, space: String, mut follower: Follower, following: &Following, permit: StreamPermit) -> Response {
    let heartbeat = following.heartbeat_ms.map_or(HEARTBEAT, Duration::from).max(HEARTBEAT_MIN);
    let framer = Framer::new(follower.selection().clone());
    let mut told = String::new();
    frames::retry(&mut told, RETRY_MS);
    if let Some(last) = follower.take_owed() {
        framer.end(&last, &mut told);
    }
    let telling = Telling {
        host,
        space,
        content: following.content,
        follower,
        framer,
        heartbeat,
        told,
        told_at: Instant::now(),
        is_over: false,
        _permit: permit,
    };
    let chunks = futures_util::stream::unfold(telling, |mut telling| async move {
        let chunk = telling.chunk().await?;
        Some((Ok::<Bytes, Infallible>(chunk), telling))
    });
    event_stream(Body::from_stream(chunks))
}

/// A follower who is being told.
struct Telling {
    /// Which has what the nodes say.
    host: Host,
    space: String,
    content: Content,
    follower: Follower,
    framer: Framer,
    heartbeat: Duration,
    /// What is to be sent.
    told: String,
    told_at: Instant,
    is_over: bool,
    /// Of the space's quota.
    _permit: StreamPermit,
}

impl Telling {
    /// The next chunk; none at the end.
    async fn chunk(&mut self) -> Option<Bytes> {
        while self.told.is_empty() {
            if self.is_over {
                return None;
            }
            match self.follower.next(self.heartbeat).await {
                Ok(Told::Record(record)) => {
                    if let Err(error) = self.tell(&record).await {
                        frames::problem(&mut self.told, &error.into(), RETRY_MS_MIN);
                        self.is_over = true;
                    }
                    // A filter that leaves everything out does not keep its follower behind.
                    if self.told.is_empty() && self.told_at.elapsed() >= self.heartbeat {
                        let cursor = frames::cursor_of(&record.change);
                        cursor.iter().for_each(|cursor| frames::place(&mut self.told, "heartbeat", cursor));
                    }
                }
                Ok(Told::CaughtUp(cursor)) => frames::place(&mut self.told, "caught-up", &cursor),
                Ok(Told::Nothing(cursor)) => frames::place(&mut self.told, "heartbeat", &cursor),
                Ok(Told::Behind) => frames::behind(&mut self.told),
                Ok(Told::Over) => {
                    let spread = u64::from(uuid::Uuid::new_v4().as_bytes()[0]) * RETRY_MS_SPREAD;
                    frames::closing(&mut self.told, RETRY_MS_MIN + spread);
                    self.is_over = true;
                }
                Err(problem) => {
                    frames::problem(&mut self.told, &problem, RETRY_MS_MIN);
                    self.is_over = true;
                }
            }
        }
        self.told_at = Instant::now();
        Some(Bytes::from(std::mem::take(&mut self.told)))
    }

    /// Tells a record, and what is at hand after it.
    async fn tell(&mut self, record: &Arc<Streamed>) -> Result<(), HostError> {
        if self.content == Content::Metadata {
            self.framer.record(record, record.json(), &mut self.told);
            while self.told.len() < CHUNK_BYTES
                && let Some(record) = self.follower.at_hand()
            {
                self.framer.record(&record, record.json(), &mut self.told);
            }
            return Ok(());
        }
        let mut records = vec![record.clone()];
        while records.len() < self.content.at_once(usize::MAX)
            && let Some(record) = self.follower.at_hand()
        {
            records.push(record);
        }
        let wanted: Vec<_> =
            records.iter().filter(|record| self.follower.selection().lets_through(&record.change)).cloned().collect();
        let mut bodies = self.content.of(&self.host, &self.space, &wanted).await?.into_iter();
        for record in &records {
            let body = if self.follower.selection().lets_through(&record.change) { bodies.next() } else { None };
            // One that is not wanted may still end its cascade.
            self.framer.record(record, body.as_deref().unwrap_or_default(), &mut self.told);
        }
        Ok(())
    }
}

async fn poll(
    host: &Host,
    space: &str,
    mut follower: Follower,
    following: &Following,
    items_max: usize,
) -> Result<Polled, Problem> {
    let items_max = following.content.at_once(items_max);
    let deadline = Instant::now() + following.wait_ms.map_or(POLL, Duration::from).min(POLL_MAX);
    let selection = follower.selection().clone();
    let mut polled = Polled { items: Vec::new(), cursor: String::new(), caught_up: false };
    let mut records = Vec::new();
    while records.len() < items_max {
        let patience = deadline.saturating_duration_since(Instant::now());
        match follower.next(patience).await? {
            Told::Record(record) => {
                polled.cursor = frames::cursor_of(&record.change).unwrap_or_default();
                polled.caught_up = false;
                if selection.lets_through(&record.change) {
                    records.push(record);
                }
            }
            Told::CaughtUp(cursor) | Told::Nothing(cursor) => {
                polled.cursor = cursor;
                polled.caught_up = true;
                if !records.is_empty() || Instant::now() >= deadline {
                    break;
                }
            }
            Told::Behind => {}
            Told::Over if polled.cursor.is_empty() => return Err(HostError::Closing.into()),
            Told::Over => break,
        }
    }
    let told = following.content.of(host, space, &records).await?;
    polled.items = told.into_iter().filter_map(|item| RawValue::from_string(item.into_owned()).ok()).collect();
    Ok(polled)
}
