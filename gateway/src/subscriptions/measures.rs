//! What is measured of subscriptions: how many changes are outstanding and parked, and what became of webhooks. Named in
//! `docs/how-to/observe.md`.

use std::sync::{
    LazyLock,
    atomic::{AtomicU64, Ordering},
};

use opentelemetry::{KeyValue, global, metrics::Counter};

/// As they were when they were looked at last, over all subscriptions of the process.
#[derive(Debug, Default)]
pub(super) struct Standing {
    pub(super) subscriptions: AtomicU64,
    pub(super) outstanding: AtomicU64,
    pub(super) parked: AtomicU64,
}

pub(super) static STANDING: LazyLock<Standing> = LazyLock::new(|| {
    let meter = global::meter("recant");
    let gauges: [(&'static str, &'static str, fn(&Standing) -> &AtomicU64); 3] = [
        ("recant.subscriptions", "Named subscriptions of the spaces that are served here", |s| &s.subscriptions),
        ("recant.subscriptions.outstanding", "Changes handed out and not settled", |s| &s.outstanding),
        ("recant.subscriptions.parked", "Changes that were parked", |s| &s.parked),
    ];
    for (name, description, of) in gauges {
        meter
            .u64_observable_gauge(name)
            .with_description(description)
            .with_callback(move |observer| observer.observe(of(&STANDING).load(Ordering::Relaxed), &[]))
            .build();
    }
    Standing::default()
});

// Made when the first is counted, which is after the provider was set.
static DELIVERIES: LazyLock<Counter<u64>> = LazyLock::new(|| {
    global::meter("recant")
        .u64_counter("recant.webhooks")
        .with_description("Attempts to deliver webhooks, by outcome; and changes that were parked after the last")
        .build()
});

/// Counts what became of a webhook.
pub(super) fn delivered(outcome: &'static str) {
    DELIVERIES.add(1, &[KeyValue::new("outcome", outcome)]);
}
