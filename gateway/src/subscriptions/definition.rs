//! What a subscription is made with: of which changes it hears, how, and within which bounds.

use recant_proto::id::{ID_BYTES_MAX, Kind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::progress::Bounds;
use crate::{
    problem::Problem,
    stream::{Content, Filter, Selection},
};

const ACK_DEADLINE_MS: u64 = 30_000;
const ACK_DEADLINE_MS_MIN: u64 = 100;
const ACK_DEADLINE_MS_MAX: u64 = 3_600_000;
const OUTSTANDING: u32 = 100;
const OUTSTANDING_MAX: u32 = 1_000;
const ATTEMPTS: u32 = 10;
const ATTEMPTS_MAX: u32 = 100;
const URL_BYTES_MAX: usize = 2_048;
const BACKOFF_MS: u64 = 1_000;
const BACKOFF_MS_MIN: u64 = 10;
const BACKOFF_MS_MAX: u64 = 60_000;
const TIMEOUT_MS: u64 = 10_000;
const TIMEOUT_MS_MIN: u64 = 100;
const TIMEOUT_MS_MAX: u64 = 60_000;

/// A named subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Its name, unique in the space: any text of 1 to 256 bytes.
    #[schema(min_length = 1, max_length = 256)]
    pub name: String,
    /// Of nodes of this kind: `observation`, `belief`, `plan` or `action`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kind: Option<String>,
    /// To this status: `in` or `out`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<String>,
    /// Of what was observed from this source.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub source: Option<String>,
    /// Of what this agent wrote.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<String>,
    /// Of what was written in this run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<String>,
    /// About this subject.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub subject: Option<String>,
    /// Because of this retraction, or this event.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<String>,
    /// `metadata`, or `full`: with the text and the attributes of the node.
    #[serde(default)]
    #[schema(inline)]
    pub content: Content,
    /// A change that was handed out and not acknowledged after so long is handed out again: 100 to 3600000.
    #[serde(default = "ack_deadline_ms")]
    #[schema(minimum = 100, maximum = 3600000)]
    pub ack_deadline_ms: u64,
    /// At most so many changes are handed out and not acknowledged, 1 to 1000; one, where they are pushed.
    #[serde(default = "outstanding_max")]
    #[schema(minimum = 1, maximum = 1000)]
    pub outstanding_max: u32,
    /// A change that was handed out so often and not acknowledged is parked: 1 to 100.
    #[serde(default = "attempts_max")]
    #[schema(minimum = 1, maximum = 100)]
    pub attempts_max: u32,
    /// Where changes are pushed to; without it they are pulled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub push: Option<Push>,
}

/// A webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Push {
    /// With https; with http only to addresses that the operator lists. Redirects are not followed.
    #[schema(max_length = 2048)]
    pub url: String,
    /// An answer must come within so long: 100 to 60000.
    #[serde(default = "timeout_ms")]
    #[schema(minimum = 100, maximum = 60000)]
    pub timeout_ms: u64,
    /// After the first attempt that failed it is waited about so long, after each further one twice as long, up to ten minutes: 10 to 60000.
    #[serde(default = "backoff_ms")]
    #[schema(minimum = 10, maximum = 60000)]
    pub backoff_ms: u64,
}

fn ack_deadline_ms() -> u64 {
    ACK_DEADLINE_MS
}

fn outstanding_max() -> u32 {
    OUTSTANDING
}

fn attempts_max() -> u32 {
    ATTEMPTS
}

fn timeout_ms() -> u64 {
    TIMEOUT_MS
}

fn backoff_ms() -> u64 {
    BACKOFF_MS
}

impl Definition {
    /// Refuses what cannot be meant.
    pub fn check(&self) -> Result<(), Problem> {
        let within = |what: &str, value: u64, min: u64, max: u64| {
            if (min..=max).contains(&value) {
                return Ok(());
            }
            Err(Problem::wrong_request(format!("{what} is {value}; it is {min} to {max}")))
        };
        within("the name's length in bytes", self.name.len() as u64, 1, ID_BYTES_MAX as u64)?;
        if let Some(kind) = self.kind.as_deref().filter(|kind| Kind::parse(kind).is_none()) {
            let detail = format!("kind is {kind:?}; it is observation, belief, plan or action");
            return Err(Problem::wrong_request(detail));
        }
        if let Some(status) = self.status.as_deref().filter(|status| !matches!(*status, "in" | "out")) {
            return Err(Problem::wrong_request(format!("status is {status:?}; it is in or out")));
        }
        let texts = [&self.source, &self.agent, &self.run, &self.subject, &self.cause];
        for text in texts.into_iter().flatten() {
            within("the length in bytes of what is filtered by", text.len() as u64, 1, ID_BYTES_MAX as u64)?;
        }
        within("ack_deadline_ms", self.ack_deadline_ms, ACK_DEADLINE_MS_MIN, ACK_DEADLINE_MS_MAX)?;
        within("outstanding_max", self.outstanding_max.into(), 1, OUTSTANDING_MAX.into())?;
        within("attempts_max", self.attempts_max.into(), 1, ATTEMPTS_MAX.into())?;
        let Some(push) = &self.push else { return Ok(()) };
        within("the url's length in bytes", push.url.len() as u64, 1, URL_BYTES_MAX as u64)?;
        within("timeout_ms", push.timeout_ms, TIMEOUT_MS_MIN, TIMEOUT_MS_MAX)?;
        within("backoff_ms", push.backoff_ms, BACKOFF_MS_MIN, BACKOFF_MS_MAX)
    }

    /// Which changes it hears of. Summaries and digests are not among them: each change says of which cascade it is.
    pub fn selection(&self) -> Selection {
        let filter = Filter {
            kind: self.kind.clone(),
            status: self.status.as_deref().map(|status| if status == "in" { "IN" } else { "OUT" }),
            source: self.source.clone(),
            agent: self.agent.clone(),
            run: self.run.clone(),
            subject: self.subject.clone(),
            cause: self.cause.clone(),
        };
        Selection { filter, digests: false }
    }

    /// Within which bounds. What is pushed is pushed one by one, so that it comes in order; while it is, nobody else takes it.
    pub fn bounds(&self) -> Bounds {
        let (outstanding_max, ack_deadline_ms) = match &self.push {
            Some(push) => (1, push.timeout_ms * 2),
            None => (self.outstanding_max as usize, self.ack_deadline_ms),
        };
        Bounds { outstanding_max, attempts_max: self.attempts_max, ack_deadline_ms }
    }
}
