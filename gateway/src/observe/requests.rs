//! Requests: a span for each, how long they take, and why some are refused. Named as OpenTelemetry's conventions have it.

use std::{sync::LazyLock, time::Instant};

use axum::{
    extract::{MatchedPath, Request},
    http::StatusCode,
    middleware::Next,
    response::Response,
};
use opentelemetry::{
    KeyValue, global,
    metrics::{Counter, Histogram},
};
use tracing::{Instrument, field::Empty};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::traces;

/// What is not one of the paths has no name of its own: callers could make as many as they like.
const NO_SUCH_PATH: &str = "(none)";

/// In seconds: a read of one node takes some tens of microseconds, a wait ten seconds.
const DURATIONS_S: [f64; 13] =
    [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0];

struct Measures {
    duration: Histogram<f64>,
    refused: Counter<u64>,
    forwarded: Counter<u64>,
}

// Made when the first request comes, which is after the provider was set.
static MEASURES: LazyLock<Measures> = LazyLock::new(|| {
    let meter = global::meter("recant");
    Measures {
        duration: meter
            .f64_histogram("http.server.request.duration")
            .with_unit("s")
            .with_description("Requests, until their answer begins")
            .with_boundaries(DURATIONS_S.to_vec())
            .build(),
        refused: meter
            .u64_counter("recant.refused")
            .with_description("Requests refused at the gate or for a bound, by reason")
            .build(),
        forwarded: meter
            .u64_counter("recant.forwarded")
            .with_description("Questions passed on to the process that has the state, by what came of it")
            .build(),
    }
});

/// Counts a request that was refused.
pub fn refused(reason: &'static str) {
    MEASURES.refused.add(1, &[KeyValue::new("reason", reason)]);
}

/// Counts a question that was passed on to another process.
pub fn forwarded(outcome: &'static str) {
    MEASURES.forwarded.add(1, &[KeyValue::new("outcome", outcome)]);
}

/// Answers a request within a span of its caller's trace, and measures it.
pub async fn observe(request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or(NO_SUCH_PATH, MatchedPath::as_str).to_owned();
    let caller = traces::of_headers(request.headers());
    let span = tracing::info_span!(
        "request",
        otel.name = %format_args!("{method} {route}"),
        otel.kind = "server",
        http.request.method = %method,
        http.route = route,
        http.response.status_code = Empty,
        otel.status_code = Empty,
    );
    // It fails where spans go nowhere, and then there is nothing to belong to.
    let _ = span.set_parent(caller.clone());
    let answered = traces::carrying(&caller, &span, next.run(request).instrument(span.clone())).await;
    let status = answered.status();
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
    match status {
        StatusCode::UNAUTHORIZED => refused("unauthenticated"),
        StatusCode::FORBIDDEN => refused("forbidden"),
        StatusCode::TOO_MANY_REQUESTS => refused("quota"),
        StatusCode::SERVICE_UNAVAILABLE => refused("busy"),
        _ => {}
    }
    let attributes = [
        KeyValue::new("http.request.method", method_name(&method)),
        KeyValue::new("http.route", route),
        KeyValue::new("http.response.status_code", i64::from(status.as_u16())),
    ];
    MEASURES.duration.record(begun.elapsed().as_secs_f64(), &attributes);
    answered
}

/// Of methods, too, callers could make as many as they like.
fn method_name(method: &axum::http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        _ => "_OTHER",
    }
}
