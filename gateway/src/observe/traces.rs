//! Traces across processes: W3C `traceparent`, from whoever calls to the record, and from there to the changes.
//!
//! What is carried is the span that answers the request where traces are sent somewhere, else what the caller sent, so that its trace is not
//! torn here either way.

use std::{collections::HashMap, future::Future};

use axum::http::HeaderMap;
use opentelemetry::{
    Context,
    propagation::{Extractor, TextMapPropagator},
    trace::TraceContextExt,
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use recant_proto::names::TRACEPARENT;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

tokio::task_local! {
    /// Of the request that this task answers.
    static CURRENT: Option<String>;
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}

/// The trace that a caller is in.
pub fn of_headers(headers: &HeaderMap) -> Context {
    if !headers.contains_key(TRACEPARENT) {
        return Context::new();
    }
    TraceContextPropagator::new().extract(&Headers(headers))
}

/// A trace as it is carried; none if there is none.
pub fn traceparent_of(context: &Context) -> Option<String> {
    if !context.span().span_context().is_valid() {
        return None;
    }
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(context, &mut carrier);
    carrier.remove(TRACEPARENT)
}

/// Answers a request whose caller is in a trace, within a span.
pub async fn carrying<R>(caller: &Context, span: &Span, answer: impl Future<Output = R>) -> R {
    let own = span.context();
    let carried = traceparent_of(&own).or_else(|| traceparent_of(caller));
    CURRENT.scope(carried, answer).await
}

/// What an event that is published now is to carry.
pub fn current() -> Option<String> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(traceparent: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, traceparent.parse().unwrap());
        headers
    }

    #[tokio::test]
    async fn a_callers_trace_is_carried_even_where_traces_are_sent_nowhere() {
        let caller = of_headers(&headers(SENT));
        let carried = carrying(&caller, &Span::none(), async { current() }).await;
        assert_eq!(carried.as_deref(), Some(SENT));
        assert_eq!(current(), None, "only while its request is answered");
    }

    #[test]
    fn what_is_no_trace_is_not_carried() {
        for wrong in ["", "00-0-0-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "nonsense"] {
            assert_eq!(traceparent_of(&of_headers(&headers(wrong))), None, "{wrong}");
        }
        assert_eq!(traceparent_of(&of_headers(&HeaderMap::new())), None);
    }
}
