//! OTLP over HTTP, where the standard variables name a place.
//!
//! The SDK exports on threads of its own, on which there is no runtime; so requests are made by the server's.

use std::{env, time::Duration};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{ExporterBuildError, MetricExporter, SpanExporter, WithHttpConfig};
use tokio::runtime::Handle;

use super::ObserveError;

/// A place that does not answer holds up nothing for longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const DISABLED: &str = "OTEL_SDK_DISABLED";

/// What sends measures; none if no place is named.
pub fn metrics() -> Result<Option<MetricExporter>, ObserveError> {
    if !is_named("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") {
        return Ok(None);
    }
    let built = MetricExporter::builder().with_http().with_http_client(Client::in_this_runtime()?).build();
    built.map(Some).map_err(failed)
}

/// What sends spans; none if no place is named.
pub fn spans() -> Result<Option<SpanExporter>, ObserveError> {
    if !is_named("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
        return Ok(None);
    }
    let built = SpanExporter::builder().with_http().with_http_client(Client::in_this_runtime()?).build();
    built.map(Some).map_err(failed)
}

fn is_named(of_signal: &str) -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_disabled = env::var(DISABLED).is_ok_and(|value| value.eq_ignore_ascii_case("true"));
    !is_disabled && (is_set(of_signal) || is_set(ENDPOINT))
}

fn failed(error: ExporterBuildError) -> ObserveError {
    ObserveError::Otlp(error.to_string())
}

#[derive(Debug)]
struct Client {
    runtime: Handle,
    client: reqwest::Client,
}

impl Client {
    fn in_this_runtime() -> Result<Client, ObserveError> {
        crate::access::install_provider();
        let failed = |error: &dyn std::fmt::Display| ObserveError::Otlp(error.to_string());
        let runtime = Handle::try_current().map_err(|error| failed(&error))?;
        let client = reqwest::Client::builder()
            .timeout(REQUEST_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| failed(&error))?;
        Ok(Client { runtime, client })
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        self.runtime.spawn(async move { client.send_bytes(request).await }).await?
    }
}
