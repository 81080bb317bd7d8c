//! Whether it runs, and whether it answers with what is new.

use axum::{Json, extract::State, http::StatusCode, response::IntoResponse};
use recant_eventlog::Topic;
use serde::Serialize;
use utoipa::ToSchema;

use super::Gateway;
use crate::problem::{Problem, Sort};

/// Ready, when no more events than this wait in a partition to be applied.
const LAG_EVENTS_MAX: u64 = 10_000;

/// How it is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`.
    status: &'static str,
    /// How many events wait to be applied, in the partition that is furthest behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    lag_events: Option<u64>,
}

/// Whether the process runs.
#[utoipa::path(
    get, path = "/healthz", tag = "health", operation_id = "healthz", security(()),
    responses((status = 200, description = "It runs", body = Health))
)]
pub(super) async fn healthz() -> impl IntoResponse {
    Json(Health { status: "ok", lag_events: None })
}

/// Whether it has caught up, within a bound, and processing goes on.
#[utoipa::path(
    get, path = "/readyz", tag = "health", operation_id = "readyz", security(()),
    responses(
        (status = 200, description = "It is ready", body = Health),
        (status = 503, description = "It is not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn readyz(State(gateway): State<Gateway>) -> Result<impl IntoResponse, Problem> {
    let applied = gateway.host.applied().borrow().clone();
    let not_ready = |detail: String| Problem::new(Sort::CouldNot, "not_ready", "The server is not ready", detail);
    if let Some(error) = &applied.halted {
        return Err(not_ready(format!("processing has stopped: {error}")));
    }
    let log = gateway.host.log();
    let ends = gateway.host.on_a_thread(move || {
        let end = |partition| log.bounds(Topic::Events, partition).map(|bounds| bounds.end);
        (0..log.partitions()).map(end).collect::<Result<Vec<u64>, _>>()
    });
    let ends = ends.await?.map_err(|error| not_ready(error.to_string()))?;
    let here =
        (0..).zip(ends.iter().zip(&applied.next_offsets)).filter(|(partition, _)| gateway.host.holds(*partition));
    let lags = here.map(|(_, (end, next_offset))| end.saturating_sub(*next_offset));
    let lag_events = lags.max().unwrap_or(0);
    if lag_events > LAG_EVENTS_MAX {
        return Err(not_ready(format!("{lag_events} events wait to be applied; ready at {LAG_EVENTS_MAX}")));
    }
    Ok((StatusCode::OK, Json(Health { status: "ok", lag_events: Some(lag_events) })))
}
