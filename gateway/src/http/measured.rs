//! `GET /metrics`: what is measured, as Prometheus reads it.

use axum::{extract::State, http::header, response::IntoResponse};

use super::Gateway;
use crate::{
    access::{Caller, Right},
    observe,
    problem::{Problem, Sort},
};

/// The text format of Prometheus.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is measured, as Prometheus reads it.
///
/// It is of all spaces together, and takes the right to operate in every one.
#[utoipa::path(
    get, path = "/metrics", tag = "health", operation_id = "get_metrics",
    responses(
        (status = 200, description = "What is measured", body = String, content_type = "text/plain"),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn metrics(State(gateway): State<Gateway>, caller: Caller) -> Result<impl IntoResponse, Problem> {
    if !caller.may_everywhere(Right::Operate) {
        let detail = "this takes the right to operate in every space (\"*\")";
        return Err(Problem::new(Sort::No, "forbidden", "The caller may not do this", detail));
    }
    let absent = || Problem::new(Sort::No, "not_found", "There is no such path", "this server measures nothing");
    let registry = gateway.measures.as_ref().ok_or_else(absent)?;
    let could_not = |error: observe::ObserveError| {
        Problem::new(Sort::CouldNot, "io", "Something outside recant failed", error.to_string())
    };
    let text = observe::text_of(registry).map_err(could_not)?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text))
}
