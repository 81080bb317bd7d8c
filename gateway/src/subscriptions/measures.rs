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
    gauge("recant.subscriptions", "Named subscriptions of the spaces that are served here", |standing| {
        &standing.subscriptions
    });
    gauge("recant.subscriptions.outstanding", "Changes handed out and not settled", |standing| &standing.outstanding);
    gauge("recant.subscriptions.parked", "Changes that were parked", |standing| &standing.parked);
    Standing::default()
});

fn gauge(name: &'static str, description: &'static str, of: fn(&Standing) -> &AtomicU64) {
    global::meter("recant")
        .u64_observable_gauge(name)
        .with_description(description)
        .with_callback(move |observer| observer.observe(of(&STANDING).load(Ordering::Relaxed), &[]))
        .build();
}

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
