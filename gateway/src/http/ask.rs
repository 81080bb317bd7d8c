//! How questions are read: paths, queries, bodies. What cannot be read is a problem, like everything else that goes wrong.

use std::time::Duration;

use axum::{
    body::Bytes,
    extract::{
        FromRequestParts,
        rejection::{PathRejection, QueryRejection},
    },
    http::{HeaderMap, header},
};
use recant_projections::query::PageRequest;
use recant_proto::{
    names,
    position::Position,
    reject::{Code, Violation},
};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use utoipa::IntoParams;

use super::{BODY_PERMIT_BYTES, Gateway};
use crate::{
    host::{Freshness, HostError},
    problem::{Problem, Sort},
};

/// The parts of a path.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(Problem))]
pub(super) struct Path<T>(pub(super) T);

/// The query.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Problem))]
pub(super) struct Query<T>(pub(super) T);

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Problem {
        Problem::wrong_request(rejection.body_text())
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Problem {
        Problem::wrong_request(rejection.body_text())
    }
}

/// How long is waited, as it is asked for. What is longer than the server waits is cut to that; ten minutes are the most that can be said.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct Milliseconds(u64);

const MILLISECONDS_MAX: u64 = 600_000;

impl TryFrom<u64> for Milliseconds {
    type Error = String;

    fn try_from(asked: u64) -> Result<Milliseconds, String> {
        if asked > MILLISECONDS_MAX {
            return Err(format!("{asked} ms are asked for; at most {MILLISECONDS_MAX} can be"));
        }
        Ok(Milliseconds(asked))
    }
}

impl From<Milliseconds> for Duration {
    fn from(milliseconds: Milliseconds) -> Duration {
        Duration::from_millis(milliseconds.0)
    }
}

/// How new an answer must be.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Demand {
    /// With everything up to this position (`partition:offset`), which a write gave.
    at_least: Option<String>,
    /// With everything that was in the log when the question came.
    #[serde(default)]
    fresh: bool,
    /// Wait at most so many milliseconds for that.
    #[param(value_type = Option<u32>, maximum = 600000)]
    wait_ms: Option<Milliseconds>,
}

/// What is fresh has every position that a write has given.
pub(super) fn freshness(at_least: Option<&str>, fresh: bool) -> Result<Freshness, Problem> {
    match at_least {
        _ if fresh => Ok(Freshness::Fresh),
        None => Ok(Freshness::Now),
        Some(text) => text
            .parse::<Position>()
            .map(Freshness::AtLeast)
            .map_err(|error| Problem::bad_moment(format!("at_least: {error}"))),
    }
}

impl Demand {
    pub(super) fn freshness(&self) -> Result<Freshness, Problem> {
        freshness(self.at_least.as_deref(), self.fresh)
    }

    pub(super) fn within(&self, gateway: &Gateway) -> Duration {
        gateway.limits.within(self.wait_ms)
    }
}

/// The moment of an answer.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct When {
    /// As of a time on the log's clock, or a position (`partition:offset`).
    pub(super) as_of: Option<String>,
    /// Only what its writer dates to this time or before; no status changes.
    pub(super) valid_at: Option<String>,
}

/// How many items, and from where.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Paging {
    /// At most so many, 1 to 1000; 100 if it is not said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Go on after a page: its `next`.
    cursor: Option<String>,
}

const ITEMS_MAX: u32 = 1_000;
const ITEMS_DEFAULT: u32 = 100;

impl Paging {
    pub(super) fn request(self) -> Result<PageRequest, Problem> {
        Ok(PageRequest { items_max: limit(self.limit)?, after: self.cursor })
    }
}

/// A limit that was asked for.
pub(super) fn limit(asked: Option<u32>) -> Result<usize, Problem> {
    match asked.unwrap_or(ITEMS_DEFAULT) {
        limit @ 1..=ITEMS_MAX => Ok(limit as usize),
        limit => Err(Problem::wrong_request(format!("limit is {limit}; it is 1 to {ITEMS_MAX}"))),
    }
}

/// The id of the one event that a request writes, where a header says it.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Option<String> {
    headers.get("idempotency-key").map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned())
}

/// The content type, without its parameters, and those.
pub(super) fn content_type(headers: &HeaderMap) -> (String, String) {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (media_type, parameters) = value.split_once(';').unwrap_or((value, ""));
    (media_type.trim().to_ascii_lowercase(), parameters.trim().to_ascii_lowercase())
}

/// A body that has come whole. Its bytes count among those of all bodies for as long as it lives.
pub(super) struct Body {
    pub(super) bytes: Bytes,
    room: OwnedSemaphorePermit,
}

impl Body {
    /// Reads a body, once there is room for it.
    pub(super) async fn read(gateway: &Gateway, headers: &HeaderMap, body: axum::body::Body) -> Result<Body, Problem> {
        let limits = &gateway.limits;
        let too_large = || {
            let detail = format!("a body has at most {} bytes; send several", limits.body_bytes_max);
            Problem::new(Sort::Wrong, "body_too_large", "The body is too large", detail)
        };
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        let bytes_max = announced.unwrap_or(limits.body_bytes_max);
        if bytes_max > limits.body_bytes_max {
            return Err(too_large());
        }
        // Small enough for a u32: it is at most that many KiB.
        let permits = bytes_max.div_ceil(BODY_PERMIT_BYTES) as u32;
        let come = async {
            let room = gateway.bodies.clone().acquire_many_owned(permits).await.map_err(|_| HostError::Closing)?;
            let bytes = axum::body::to_bytes(body, bytes_max).await.map_err(|error| {
                let is_too_long =
                    std::error::Error::source(&error).is_some_and(|cause| cause.to_string().contains("limit"));
                if is_too_long { too_large() } else { Problem::wrong_request(format!("the body broke off: {error}")) }
            })?;
            Ok(Body { bytes, room })
        };
        let late = |_| {
            let detail = format!(
                "the body did not come within {} s, or there was no room for it",
                limits.body_wait_max.as_secs()
            );
            Problem::new(Sort::CouldNot, "busy", "Too much is under way", detail)
        };
        tokio::time::timeout(limits.body_wait_max, come).await.map_err(late)?
    }

    /// Its bytes, and what they take of the room for all bodies.
    pub(super) fn into_parts(self) -> (Bytes, OwnedSemaphorePermit) {
        (self.bytes, self.room)
    }

    /// The JSON in it.
    pub(super) fn json<T: serde::de::DeserializeOwned>(&self, headers: &HeaderMap) -> Result<T, Problem> {
        let (media_type, _) = content_type(headers);
        if media_type != names::JSON {
            let detail = format!("the content type is {media_type:?}; this takes {}", names::JSON);
            return Err(Problem::refused(Sort::Wrong, &Violation::new(Code::ContentType, detail)));
        }
        serde_json::from_slice(&self.bytes).map_err(|error| Problem::wrong_request(error.to_string()))
    }
}
