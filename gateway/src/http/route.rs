//! A question about a space is answered where its state is: here, or by the process that announced its partition.
//!
//! - **Whoever is asked decides.** The request is passed on as it came, with the caller's token, and the process that has the state
//!   finds out by itself who calls and what it may; it trusts this one no more than any caller. Where a token may be sent to,
//!   [`crate::access`] says.
//! - **No circles.** What was passed on says so (`Recant-Forwarded`) and is never passed on again: at most one process lies between a
//!   caller and its answer. Anybody can say it, and is not helped by it: it only takes a way to an answer away.
//! - **While a partition moves** the question waits, at most as long as its caller waits (`wait_ms`), for the state to be here, or to be
//!   announced where it can be asked. Then it is a problem, `elsewhere`, with `Retry-After`.
//! - **Bounds.** What is passed on counts among the requests that are under way, its body among the bodies; the answer is
//!   passed on piece by piece as its reader takes it, and is to begin within [`ANSWERED_WITHIN`].
//! - **Once.** A question is asked again where another process did not have the state, which has done nothing then. What may have been
//!   written is not sent twice: its fate is unknown, and the caller is told that.
//!
//! Events need no state: whoever gets them appends them. Neither does the change stream, which is read from the log.

use std::time::Duration;

use axum::{
    RequestExt,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts},
    middleware::Next,
    response::Response,
};
use recant_proto::names::TRACEPARENT;
use serde::Deserialize;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use super::{
    Gateway,
    ask::{self, Milliseconds, Path, Query},
};
use crate::{
    access::{Caller, NotAsked},
    host::HostError,
    observe::{requests, traces},
    problem::{ELSEWHERE, Problem, Sort},
};

/// Said of what another process has passed on.
const FORWARDED: HeaderName = HeaderName::from_static("recant-forwarded");
/// So often it is looked where the state is by now.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// So long another process may take until its answer begins: as long as it may wait for a position, twice.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);
/// A problem is no longer than this.
const PROBLEM_BYTES_MAX: usize = 64 << 10;

/// What concerns one connection, whatever `Connection` names beside.
const OF_THE_CONNECTION: [HeaderName; 8] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
];

/// What of a question matters here.
#[derive(Debug, Default, Deserialize)]
struct Asked {
    #[serde(default)]
    preview: bool,
    wait_ms: Option<Milliseconds>,
}

#[derive(Debug, Deserialize)]
struct InSpace {
    space: String,
}

/// A response that is the problem `elsewhere`.
#[derive(Debug, Clone, Copy)]
pub(super) struct IsElsewhere;

/// Has a question answered where the state of its space is.
pub(super) async fn answer_where_the_state_is(
    State(gateway): State<Gateway>,
    caller: Caller,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let Path(InSpace { space }) = request.extract_parts().await?;
    // What cannot be read, its handler tells of.
    let asked = request.extract_parts::<Query<Asked>>().await.map(|Query(asked)| asked).unwrap_or_default();
    let is_read = request.method().is_safe() || asked.preview;
    // A space that a caller sees nothing of is asked for where no space is.
    let partition = gateway.host.partition_of(if is_read { gateway.seen(&caller, &space) } else { &space });
    let deadline = Instant::now() + gateway.limits.within(asked.wait_ms);
    let (parts, body) = request.into_parts();
    let (body, room) = ask::Body::read(&gateway, &parts.headers, body).await?.into_parts();
    Question { gateway, partition, is_read, parts, body, room: Some(room), deadline }.answer(next).await
}

struct Question {
    gateway: Gateway,
    partition: u32,
    /// Whether it may be asked twice.
    is_read: bool,
    parts: Parts,
    body: Bytes,
    /// What the body takes of the room for all bodies.
    room: Option<OwnedSemaphorePermit>,
    deadline: Instant,
}

/// What came of asking another process.
enum Asking {
    Answered(Response),
    /// It does not have the state, or is not there: nothing was done.
    NotThere,
}

impl Question {
    async fn answer(mut self, next: Next) -> Result<Response, Problem> {
        let may_pass_on = !self.parts.headers.contains_key(FORWARDED);
        loop {
            if self.gateway.host.holds(self.partition) {
                // The handler takes what it needs by itself.
                self.room = None;
                let request = Request::from_parts(self.parts.clone(), Body::from(self.body.clone()));
                let answer = next.clone().run(request).await;
                let has_moved = answer.extensions().get::<IsElsewhere>().is_some();
                if !has_moved || self.is_late() {
                    return Ok(answer);
                }
            } else if may_pass_on
                && let Some(announced) = self.gateway.host.url_of(self.partition)
                && let Asking::Answered(answer) = self.pass_on(&announced).await?
            {
                return Ok(answer);
            }
            if self.is_late() {
                return Err(HostError::Elsewhere(self.partition).into());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Asks the process that is announced at an address.
    async fn pass_on(&self, announced: &str) -> Result<Asking, Problem> {
        let not_asked = |error: NotAsked| {
            Problem::new(Sort::CouldNot, ELSEWHERE, "The state is not here", error.to_string())
        };
        let (client, mut url) = self.gateway.access.peer(announced).map_err(not_asked)?;
        let path = self.parts.uri.path();
        url.set_path(path);
        if url.path().split('/').count() != path.split('/').count() {
            return Err(Problem::wrong_request("an id such as \"..\" cannot stand in a path; give it as ?id="));
        }
        url.set_query(self.parts.uri.query());
        let request = client.request(self.parts.method.clone(), url).headers(self.headers()).body(self.body.clone());
        let asked = match tokio::time::timeout(ANSWERED_WITHIN, request.send()).await {
            Ok(Ok(response)) => self.passed_back(response.into()).await,
            Ok(Err(error)) if error.is_connect() => Ok(Asking::NotThere),
            Ok(Err(error)) => self.broken_off(&error),
            Err(late) => self.broken_off(&late),
        };
        requests::forwarded(match &asked {
            Ok(Asking::Answered(_)) => "answered",
            Ok(Asking::NotThere) => "not_there",
            Err(_) => "broken_off",
        });
        asked
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = without_those_of_the_connection(self.parts.headers.clone());
        for name in [header::HOST, header::CONTENT_LENGTH, header::ORIGIN] {
            headers.remove(name);
        }
        headers.insert(FORWARDED, HeaderValue::from_static("1"));
        if let Some(traceparent) = traces::current().and_then(|carried| HeaderValue::from_str(&carried).ok()) {
            headers.insert(TRACEPARENT, traceparent);
        }
        headers
    }

    /// The answer as it came, unless it says that the state is not there either.
    async fn passed_back(&self, response: axum::http::Response<reqwest::Body>) -> Result<Asking, Problem> {
        let (mut parts, body) = response.into_parts();
        parts.headers = without_those_of_the_connection(parts.headers);
        let body = Body::new(body);
        if parts.status != StatusCode::SERVICE_UNAVAILABLE {
            return Ok(Asking::Answered(Response::from_parts(parts, body)));
        }
        match axum::body::to_bytes(body, PROBLEM_BYTES_MAX).await {
            Ok(told) if is_elsewhere(&told) => Ok(Asking::NotThere),
            Ok(told) => Ok(Asking::Answered(Response::from_parts(parts, Body::from(told)))),
            Err(error) => self.broken_off(&error),
        }
    }

    /// It was asked, and nobody knows what it has done.
    fn broken_off(&self, error: &dyn std::error::Error) -> Result<Asking, Problem> {
        tracing::debug!(partition = self.partition, %error, "another process has not answered");
        if self.is_read {
            return Ok(Asking::NotThere);
        }
        Err(Problem::fate_unknown(
            "the process that serves the space did not answer; ask for the event by its id, or send it again under the same id",
        ))
    }
}

/// Whether a problem says that the state is elsewhere.
fn is_elsewhere(told: &[u8]) -> bool {
    serde_json::from_slice::<Problem>(told).is_ok_and(|problem| problem.code == ELSEWHERE)
}

/// Without what concerns one connection, and not what is behind it (RFC 9110, 7.6.1).
fn without_those_of_the_connection(mut headers: HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|names| names.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    named.into_iter().chain(OF_THE_CONNECTION).for_each(|name| drop(headers.remove(name)));
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_concerns_a_connection_is_not_passed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Own"),
            ("x-own", "1"),
            ("transfer-encoding", "chunked"),
            ("authorization", "Bearer t"),
            ("x-request-id", "r"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let mut left: Vec<String> =
            without_those_of_the_connection(headers).keys().map(|name| name.to_string()).collect();
        left.sort();
        assert_eq!(left, ["authorization", "x-request-id"]);
    }

    #[test]
    fn only_one_problem_says_that_the_state_is_elsewhere() {
        let told = |problem: Problem| serde_json::to_vec(&problem).unwrap();
        assert!(is_elsewhere(&told(HostError::Elsewhere(0).into())));
        assert!(!is_elsewhere(&told(HostError::Closing.into())));
        assert!(!is_elsewhere(b"elsewhere"));
    }
}
