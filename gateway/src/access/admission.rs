//! What lasts ends with its caller's right to it. Who follows a stream, waits for an answer or has a session was let in once; when the token
//! expires, or is taken away, or what it grants changes, it is told so and ends. Whoever still has a right comes back with it.

use std::{pin::Pin, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use futures_util::StreamExt;
use jiff::Timestamp;
use recant_proto::wire;
use serde_json::json;
use tokio::sync::watch;

use super::{Access, Caller, Unauthenticated};
use crate::{
    problem::{Problem, Sort},
    stream::frames,
};

/// It is looked at again at least so often: an issuer may have taken a key back.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(300);
/// And not more often than this.
const LOOK_AGAIN_SOONEST: Duration = Duration::from_millis(100);
/// A client that comes back by itself may do so after this, with another token.
const RETRY_MS: u64 = 1_000;

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// The token does not count any more.
    #[error("the token with which this was opened has expired or was taken away; come back with another")]
    Unauthenticated,
    /// The token grants something else.
    #[error("what the token grants has changed; come back, and what it may do is looked at anew")]
    Changed,
}

impl From<Ended> for Problem {
    fn from(ended: Ended) -> Problem {
        let detail = ended.to_string();
        match ended {
            Ended::Unauthenticated => Problem::new(Sort::No, "unauthenticated", "Who calls is not known", detail),
            Ended::Changed => Problem::new(Sort::No, "forbidden", "The caller may not do this", detail),
        }
    }
}

/// Somebody was let in.
#[derive(Clone)]
pub struct Admission {
    access: Arc<Access>,
    /// The token, as it was given.
    headers: HeaderMap,
    caller: Caller,
    readings: watch::Receiver<u64>,
}

impl Admission {
    /// Lets somebody in.
    pub async fn of(access: &Arc<Access>, given: &HeaderMap) -> Result<Admission, Unauthenticated> {
        // Before the settings are looked at: what changes from now on is noticed.
        let readings = access.readings();
        let caller = access.authenticate(given, Timestamp::now()).await?;
        let authorization = given.get(header::AUTHORIZATION);
        let headers = authorization.iter().map(|token| (header::AUTHORIZATION, (*token).clone())).collect();
        Ok(Admission { access: access.clone(), headers, caller, readings })
    }

    /// Who.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Waits until it ends.
    pub async fn ended(mut self) -> Ended {
        loop {
            let expires_in = self.caller.valid_until().map(|until| until.duration_since(Timestamp::now()));
            let expires_in = expires_in.map_or(LOOK_AGAIN_AFTER, |left| Duration::try_from(left).unwrap_or_default());
            // Clocks of issuers count in seconds.
            let expires_in = expires_in.clamp(LOOK_AGAIN_SOONEST, LOOK_AGAIN_AFTER);
            tokio::select! {
                read = self.readings.changed() => {
                    // Its sender is the access's own, which is here.
                    if read.is_err() {
                        return Ended::Unauthenticated;
                    }
                }
                () = tokio::time::sleep(expires_in) => {}
            }
            match self.access.authenticate(&self.headers, Timestamp::now()).await {
                Ok(caller) if caller == self.caller => {}
                Ok(_) => return Ended::Changed,
                Err(_) => return Ended::Unauthenticated,
            }
        }
    }

    /// Has a stream of events end with the admission, and with a last event that says so.
    pub fn lasting(self, response: Response, last: fn(Ended) -> String) -> Response {
        let is_stream = |value: &HeaderValue| value.as_bytes().starts_with(b"text/event-stream");
        if !response.headers().get(header::CONTENT_TYPE).is_some_and(is_stream) {
            return response;
        }
        let (parts, body) = response.into_parts();
        let ended: Pin<Box<dyn Future<Output = Ended> + Send>> = Box::pin(self.ended());
        let going_on = Some((body.into_data_stream(), ended));
        let chunks = futures_util::stream::unfold(going_on, move |going_on| async move {
            let (mut chunks, mut ended) = going_on?;
            tokio::select! {
                biased;
                why = &mut ended => Some((Ok::<Bytes, axum::Error>(last(why).into()), None)),
                chunk = chunks.next() => Some((chunk?, Some((chunks, ended)))),
            }
        });
        Response::from_parts(parts, Body::from_stream(chunks))
    }
}

/// The last event of a change stream.
pub fn last_of_stream(ended: Ended) -> String {
    let mut told = String::new();
    frames::problem(&mut told, &ended.into(), RETRY_MS);
    told
}

/// The last message of a session with an assistant: a log message of the protocol, whose data is the problem.
pub fn last_of_session(ended: Ended) -> String {
    let params = json!({ "level": "error", "logger": "recant", "data": wire::to_json(&Problem::from(ended)) });
    let message = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params });
    format!("event: message\ndata: {message}\n\n")
}
