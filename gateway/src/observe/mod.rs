//! Seeing it run: measures, traces and logs of a server.
//!
//! Instruments are OpenTelemetry's ([`recant_processor::measures`] has those of partitions, [`requests`] and [`process`] those of the server); what
//! is measured is shown at `/metrics` as Prometheus reads it, and sent over OTLP where the standard variables name a place
//! (`OTEL_EXPORTER_OTLP_ENDPOINT` and its kin). Traces go there too. A caller's `traceparent` is carried through the record's header to the
//! changes that it causes ([`traces`]), whether traces are sent anywhere or not.
//!
//! Logs go to standard error, as JSON unless that is a terminal; `RECANT_TRACE` filters them.

mod otlp;
pub mod process;
pub mod requests;
pub mod traces;

use std::{io::IsTerminal, path::Path};

use opentelemetry::{global, trace::TracerProvider};
use opentelemetry_sdk::{
    Resource,
    metrics::{PeriodicReader, SdkMeterProvider},
    propagation::TraceContextPropagator,
    trace::SdkTracerProvider,
};
use prometheus::{Registry, TextEncoder};
use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

/// The variable that filters logs.
pub const FILTER_VARIABLE: &str = "RECANT_TRACE";

/// What is logged unless the variable says otherwise. What sends telemetry is not itself a subject of it.
const FILTER_DEFAULT: &str = "info,hyper=warn,h2=warn,reqwest=warn,rmcp=warn,opentelemetry=warn,opentelemetry_sdk=warn";

/// Why nothing can be observed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The place that the variables name cannot be sent to.
    #[error("OTLP cannot be set up as the OTEL_EXPORTER_OTLP_… variables say: {0}")]
    Otlp(String),
    /// Measures cannot be shown.
    #[error("measures cannot be set up: {0}")]
    Measures(String),
}

/// What observes a server; it is told to end, so that what was measured last is sent.
pub struct Observing {
    registry: Registry,
    meters: SdkMeterProvider,
    tracers: Option<SdkTracerProvider>,
}

impl Observing {
    /// Begins to measure, and to log. Must be called in the runtime that is to send what goes over OTLP, before anything is measured.
    pub fn start(data: &Path) -> Result<Observing, ObserveError> {
        let resource = Resource::builder().with_service_name("recant").build();
        let measures = |error: &dyn std::fmt::Display| ObserveError::Measures(error.to_string());
        let registry = Registry::new();
        let prometheus = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .build()
            .map_err(|error| measures(&error))?;
        let mut meters = SdkMeterProvider::builder().with_resource(resource.clone()).with_reader(prometheus);
        if let Some(exporter) = otlp::metrics()? {
            meters = meters.with_reader(PeriodicReader::builder(exporter).build());
        }
        let meters = meters.build();
        global::set_meter_provider(meters.clone());
        global::set_text_map_propagator(TraceContextPropagator::new());
        let tracers = otlp::spans()?
            .map(|exporter| SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build());
        log(tracers.as_ref());
        process::measure(data);
        Ok(Observing { registry, meters, tracers })
    }

    /// What is measured, as Prometheus reads it.
    pub fn registry(&self) -> Registry {
        self.registry.clone()
    }

    /// Sends what was measured last. Blocks.
    pub fn end(self) {
        let ended = [Some(self.meters.shutdown()), self.tracers.map(|tracers| tracers.shutdown())];
        for error in ended.into_iter().flatten().filter_map(Result::err) {
            tracing::warn!(%error, "the last measures or traces were not sent");
        }
    }
}

fn log(tracers: Option<&SdkTracerProvider>) {
    let filter = || EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| EnvFilter::new(FILTER_DEFAULT));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = if std::io::stderr().is_terminal() { lines.boxed() } else { lines.json().boxed() };
    let spans = tracers.map(|tracers| tracing_opentelemetry::layer().with_tracer(tracers.tracer("recant")));
    let logging = tracing_subscriber::registry().with(lines.with_filter(filter())).with(spans);
    if logging.try_init().is_err() {
        tracing::debug!("logs were set up before");
    }
}

/// What is measured, as text.
pub fn text_of(registry: &Registry) -> Result<String, ObserveError> {
    TextEncoder::new().encode_to_string(&registry.gather()).map_err(|error| ObserveError::Measures(error.to_string()))
}
