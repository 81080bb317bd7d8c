//! The figures of Kafka, recant's and the peer's, of one run on one broker.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use recant_tests::kafka::broker::Broker;
use serde_json::{Value, json};

use crate::{
    kafka::{self, KafkaError},
    kafka_cascade, kafka_recovery, streams,
};

/// Figures by their keys.
pub type Fields = Vec<(&'static str, Value)>;

fn rounded(value: f64) -> Value {
    json!((value * 100.0).round() / 100.0)
}

/// Ingest, beside the peer and beside reading alone.
pub fn ingest(broker: &Broker, events: u64, seed: u64) -> Result<Fields, KafkaError> {
    let mut out = io::stdout();
    writeln!(out, "kafka: a real broker on this machine; {events} events of 300 bytes in 64 spaces; seed {seed}")?;
    let mut fields = Vec::new();
    for (partitions, [rate, streams, ratio, of_limit]) in [
        (1, ["events_per_s", "streams_events_per_s", "ratio_to_streams", "of_limit_percent"]),
        (4, ["events_per_s_4", "streams_events_per_s_4", "ratio_to_streams_4", "of_limit_percent_4"]),
    ] {
        let figures = kafka::ingest(broker, partitions, events, seed)?;
        let of_streams = streams::ingest(broker, partitions, events, seed)?;
        writeln!(
            out,
            "  {partitions} partitions: {:.0} events/s, Kafka Streams {of_streams:.0}, reading and writing alone {:.0}",
            figures.events_per_s, figures.limit_events_per_s
        )?;
        fields.extend([
            (rate, json!(figures.events_per_s.round())),
            (streams, json!(of_streams.round())),
            (ratio, rounded(figures.events_per_s / of_streams)),
            (of_limit, rounded(figures.events_per_s / figures.limit_events_per_s * 100.0)),
        ]);
    }
    Ok(fields)
}

/// Revocation latency, beside a plain produce and consume, a bare loop of transactions, and the peer; and while other events come.
pub fn latency(broker: &Broker) -> Result<Fields, KafkaError> {
    const TIMES: usize = 2_000;
    const OTHER_EVENTS_PER_S: u64 = 1_000;
    let pace = Duration::from_millis(10);
    let figures = kafka::latency(broker, TIMES, pace, 0)?;
    let busy = kafka::latency(broker, TIMES, pace, OTHER_EVENTS_PER_S)?;
    let bare = kafka::bare_loop(broker, TIMES, pace)?;
    let of_streams = streams::latency(broker, TIMES, pace)?;
    let bare_p50_ms = kafka::percentile(&bare, 0.5);
    let [streams_p50_ms, streams_p99_ms] = [0.5, 0.99].map(|share| kafka::percentile(&of_streams, share));
    Ok(vec![
        ("p50_to_bare", rounded(figures.p50_ms / bare_p50_ms)),
        ("p50_to_streams", rounded(figures.p50_ms / streams_p50_ms)),
        ("p99_to_streams", rounded(figures.p99_ms / streams_p99_ms)),
        ("busy_p50_to_idle", rounded(busy.p50_ms / figures.p50_ms)),
        ("busy_p99_to_idle", rounded(busy.p99_ms / figures.p99_ms)),
        ("p50_ms", rounded(figures.p50_ms)),
        ("p99_ms", rounded(figures.p99_ms)),
        ("plain_p50_ms", rounded(figures.plain_p50_ms)),
        ("plain_p99_ms", rounded(figures.plain_p99_ms)),
        ("busy_p50_ms", rounded(busy.p50_ms)),
        ("busy_p99_ms", rounded(busy.p99_ms)),
        ("bare_p50_ms", rounded(bare_p50_ms)),
        ("bare_p99_ms", rounded(kafka::percentile(&bare, 0.99))),
        ("streams_p50_ms", rounded(streams_p50_ms)),
        ("streams_p99_ms", rounded(streams_p99_ms)),
    ])
}

/// A cascade of so many changes. A transaction has 15 minutes with brokers as they come: how many would fit into that.
pub fn cascade(broker: &Broker, changes: u64) -> Result<Fields, KafkaError> {
    const TRANSACTION_S: f64 = 900.0;
    let mut out = io::stdout();
    writeln!(out, "cascade: {changes} changes, published in one transaction, and consumed by a slow client")?;
    let figures = kafka_cascade::measure(broker, changes)?;
    let mib = |kib: u64| json!(kib >> 10);
    let published_s = figures.published.as_secs_f64();
    Ok(vec![
        ("changes", json!(changes)),
        ("published_s", rounded(published_s)),
        ("fit_into_15_min", json!((changes as f64 / published_s * TRANSACTION_S).round())),
        ("before_peak_mib", mib(figures.before_peak_kib)),
        ("peak_mib", mib(figures.peak_kib)),
        ("consumed", json!(figures.seen.records)),
        ("out_of_order", json!(figures.seen.out_of_order)),
        ("transactions", json!(figures.seen.gaps + 1)),
        ("consumer_peak_mib", mib(figures.seen.peak_kib)),
        ("whole", json!(figures.is_whole)),
    ])
}

/// Recovery after kill -9, beside the peer's.
pub fn recovery(broker: &Broker, events: u64, seed: u64) -> Result<Fields, KafkaError> {
    let figures = kafka_recovery::recovery(broker, events, seed)?;
    let of_streams = streams::restore(broker, events, seed)?;
    Ok(vec![
        ("kept_to_streams", rounded(figures.kept_s / of_streams.restore_s)),
        ("kept_s", rounded(figures.kept_s)),
        ("lost_s", rounded(figures.lost_s)),
        ("standby_s", rounded(figures.standby_s)),
        ("streams_restore_s", rounded(of_streams.restore_s)),
        ("streams_first_record_s", rounded(of_streams.first_record_s)),
    ])
}
