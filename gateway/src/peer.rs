//! Asking another process of the log: what a caller asked here is passed on, and its answer passed back as it comes.
//!
//! - **No circles.** What was passed on says so ([`FORWARDED`]) and is never passed on again: at most one process lies between a
//!   caller and its answer. Anybody can say it, and is not helped by it: it only takes a way to an answer away.
//! - **Whoever is asked decides.** The caller's token goes along, and the process that is asked finds out by itself who calls and what
//!   it may; it trusts this one no more than any caller. Where a token may be sent to, [`crate::access`] says.
//! - **Bounds.** An answer is to begin within [`ANSWERED_WITHIN`], and goes on as its reader takes it.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::Response,
};
use recant_proto::names::TRACEPARENT;

use crate::{
    access::{Access, NotAsked},
    observe::{requests, traces},
    problem::{ELSEWHERE, Problem, Sort},
};

/// Said of what another process has passed on.
pub const FORWARDED: HeaderName = HeaderName::from_static("recant-forwarded");
/// So often it is looked where a state is by now.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);
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

/// What is passed on.
pub struct Passed<'a> {
    /// Its method.
    pub method: Method,
    /// Its path, as it came.
    pub path: &'a str,
    /// Its query, as it came.
    pub query: Option<&'a str>,
    /// Its headers, the token among them.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// What came of asking.
pub enum Asked {
    /// The answer.
    Answered(Response),
    /// The process does not have the state, or is not there: nothing was done.
    NotThere,
    /// It was asked, and nobody knows what it has done.
    BrokenOff,
}

impl Asked {
    fn outcome(&self) -> &'static str {
        match self {
            Asked::Answered(_) => "answered",
            Asked::NotThere => "not_there",
            Asked::BrokenOff => "broken_off",
        }
    }
}

impl From<NotAsked> for Problem {
    fn from(error: NotAsked) -> Problem {
        Problem::new(Sort::CouldNot, ELSEWHERE, "The state is not here", error.to_string())
    }
}

/// Asks the process that is announced at an address.
pub async fn ask(access: &Access, announced: &str, passed: Passed<'_>) -> Result<Asked, Problem> {
    let (client, mut url) = access.peer(announced)?;
    url.set_path(passed.path);
    if url.path().split('/').count() != passed.path.split('/').count() {
        return Err(Problem::wrong_request("an id such as \"..\" cannot stand in a path; give it as ?id="));
    }
    url.set_query(passed.query);
    let request = client.request(passed.method, url).headers(on_the_way(passed.headers)).body(passed.body);
    let asked = match tokio::time::timeout(ANSWERED_WITHIN, request.send()).await {
        Ok(Ok(response)) => passed_back(response.into()).await,
        Ok(Err(error)) if error.is_connect() => Asked::NotThere,
        Ok(Err(_)) | Err(_) => Asked::BrokenOff,
    };
    requests::forwarded(asked.outcome());
    Ok(asked)
}

/// The headers that are passed on. What the door has checked of a browser is not: the other process has another origin.
fn on_the_way(headers: HeaderMap) -> HeaderMap {
    let mut headers = without_those_of_the_connection(headers);
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
async fn passed_back(response: axum::http::Response<reqwest::Body>) -> Asked {
    let (mut parts, body) = response.into_parts();
    parts.headers = without_those_of_the_connection(parts.headers);
    let body = Body::new(body);
    if parts.status != StatusCode::SERVICE_UNAVAILABLE {
        return Asked::Answered(Response::from_parts(parts, body));
    }
    match axum::body::to_bytes(body, PROBLEM_BYTES_MAX).await {
        Ok(told) if is_elsewhere(&told) => Asked::NotThere,
        Ok(told) => Asked::Answered(Response::from_parts(parts, Body::from(told))),
        Err(_) => Asked::BrokenOff,
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
    use crate::host::HostError;

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
