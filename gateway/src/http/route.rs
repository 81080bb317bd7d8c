//! A question about a space is answered where its state is: here, or by the process that announced its partition ([`crate::peer`]).
//!
//! While a partition moves the question waits, at most as long as its caller waits (`wait_ms`), for the state to be here, or to be
//! announced where it can be asked. Then it is a problem, `elsewhere`, with `Retry-After`.
//!
//! What is passed on counts among the requests that are under way, its body among the bodies. It is asked again where another process did
//! not have the state, which has done nothing then. What may have been written is not sent twice: its fate is unknown, and the caller
//! is told that.
//!
//! Events need no state: whoever gets them appends them. Neither does the change stream, which is read from the log.

use axum::{
    RequestExt,
    body::{Body, Bytes},
    extract::{Request, State},
    http::request::Parts,
    middleware::Next,
    response::Response,
};
use serde::Deserialize;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use super::{
    Gateway,
    ask::{self, Milliseconds, Path, Query},
};
use crate::{
    access::Caller,
    host::HostError,
    peer::{self, Asked, FORWARDED, LOOK_EVERY, Passed},
    problem::Problem,
};

/// What of a question matters here.
#[derive(Debug, Default, Deserialize)]
struct Asking {
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
    let asking = request.extract_parts::<Query<Asking>>().await.map(|Query(asking)| asking).unwrap_or_default();
    let is_read = request.method().is_safe() || asking.preview;
    // A space that a caller sees nothing of is asked for where no space is.
    let partition = gateway.host.partition_of(if is_read { gateway.seen(&caller, &space) } else { &space });
    let deadline = Instant::now() + gateway.limits.within(asking.wait_ms);
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

impl Question {
    async fn answer(mut self, next: Next) -> Result<Response, Problem> {
        let may_pass_on = !self.parts.headers.contains_key(FORWARDED);
        loop {
            if self.gateway.host.holds(self.partition) {
                // The handler takes what it needs by itself.
                self.room = None;
                let request = Request::from_parts(self.parts.clone(), Body::from(self.body.clone()));
                let answer = next.clone().run(request).await;
                // It has moved, or is kept here for reading alone.
                let is_elsewhere = answer.extensions().get::<IsElsewhere>().is_some();
                if !is_elsewhere || self.is_late() {
                    return Ok(answer);
                }
            }
            if may_pass_on && let Some(announced) = self.gateway.host.url_of(self.partition) {
                match peer::ask(&self.gateway.access, &announced, self.passed()).await? {
                    Asked::Answered(answer) => return Ok(answer),
                    Asked::BrokenOff if !self.is_read => return Err(Problem::broken_off()),
                    Asked::BrokenOff | Asked::NotThere => {}
                }
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

    fn passed(&self) -> Passed<'_> {
        let Parts { method, uri, headers, .. } = &self.parts;
        Passed {
            method: method.clone(),
            path: uri.path(),
            query: uri.query(),
            headers: headers.clone(),
            body: self.body.clone(),
        }
    }
}
