//! What is measured can be read by an exporter: the facade is OpenTelemetry's, and the instruments carry what they say.

use std::sync::Arc;

use opentelemetry::global;
use opentelemetry_sdk::metrics::{
    InMemoryMetricExporter, PeriodicReader, SdkMeterProvider,
    data::{AggregatedMetrics, MetricData},
};
use recant_eventlog::clock::ManualClock;
use recant_processor::standalone::{NewEvent, NewLog, Standalone};
use recant_proto::{
    position::Incarnation,
    v1::{Event, Observed, Retracted, Target, event::Body, target::What},
};

fn event(id: &str, body: Body) -> NewEvent {
    NewEvent::of(&Event { id: id.into(), space: "s".into(), body: Some(body), ..Event::default() })
}

#[test]
fn an_exporter_sees_events_by_fate_and_cascades() {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_reader(PeriodicReader::builder(exporter.clone()).build()).build();
    global::set_meter_provider(provider.clone());

    let data = tempfile::tempdir().unwrap();
    let new = NewLog { incarnation: Incarnation([1; 16]), partitions: 1, log_time_occurred: false };
    let mut standalone = Standalone::create(data.path(), &new, Arc::new(ManualClock::new(1))).unwrap();
    let observed =
        |source: &str| Body::Observed(Observed { node: "o".into(), source: source.into(), ..Observed::default() });
    let targets = vec![Target { what: Some(What::Source("web".into())), window: None }];
    let retracted = Body::Retracted(Retracted { targets, ..Retracted::default() });
    standalone.append(vec![event("1", observed("web")), event("2", observed("other")), event("3", retracted)]).unwrap();
    standalone.process(&mut |_, _| {}).unwrap();
    provider.force_flush().unwrap();

    let mut seen = std::collections::BTreeMap::new();
    for metrics in exporter.get_finished_metrics().unwrap() {
        for metric in metrics.scope_metrics().flat_map(|scope| scope.metrics()) {
            let total = match metric.data() {
                AggregatedMetrics::U64(MetricData::Sum(sum)) => sum.data_points().map(|point| point.value()).sum(),
                AggregatedMetrics::U64(MetricData::Histogram(histogram)) => {
                    histogram.data_points().map(|point| point.sum()).sum()
                }
                AggregatedMetrics::U64(MetricData::Gauge(gauge)) => {
                    gauge.data_points().map(|point| point.value()).sum()
                }
                _ => 0,
            };
            seen.insert(metric.name().to_owned(), total);
        }
    }
    // The log's own first event, two that were accepted, one that was rejected.
    assert_eq!(seen.get("recant.events"), Some(&4), "{seen:?}");
    assert_eq!(seen.get("recant.rejected"), Some(&1), "{seen:?}");
    assert_eq!(seen.get("recant.cascade.changes"), Some(&1), "{seen:?}");
    assert_eq!(seen.get("recant.lag.events"), Some(&0), "{seen:?}");
}
