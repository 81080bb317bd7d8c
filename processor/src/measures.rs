//! What is measured, by the OpenTelemetry API: one facade, read by whatever exporter the binary installs, or by none.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use opentelemetry::{
    KeyValue, global,
    metrics::{Counter, Gauge, Histogram, Meter},
};
use recant_projections::{
    fold::{Fate, Folded, Message, Turns},
    justification::settle::Work,
};

/// In seconds: a batch of one event takes some tens of microseconds to fold, a transaction on Kafka milliseconds.
const DURATIONS_S: [f64; 12] = [0.000_05, 0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0];

fn seconds(meter: &Meter, name: &'static str, description: &'static str) -> Histogram<f64> {
    let histogram = meter.f64_histogram(name).with_unit("s").with_description(description);
    histogram.with_boundaries(DURATIONS_S.to_vec()).build()
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The instruments of a partition's driver.
#[derive(Debug, Clone)]
pub struct Measures {
    partition: KeyValue,
    events: Counter<u64>,
    rejected: Counter<u64>,
    batch_events: Histogram<u64>,
    batch_rows: Histogram<u64>,
    cascade_changes: Histogram<u64>,
    suspects: Counter<u64>,
    switched: Counter<u64>,
    restored: Counter<u64>,
    aborted: Counter<u64>,
    lag_events: Gauge<u64>,
    lag_ms: Gauge<u64>,
    fold_s: Histogram<f64>,
    commit_s: Histogram<f64>,
    store_s: Histogram<f64>,
    resident_bytes: Gauge<u64>,
    spaces_turned: Counter<u64>,
}

impl Measures {
    /// The instruments for a partition.
    pub fn of(partition: u32) -> Measures {
        let meter = global::meter("recant");
        Measures {
            partition: KeyValue::new("partition", i64::from(partition)),
            events: meter.u64_counter("recant.events").with_description("Events folded, by fate").build(),
            rejected: meter.u64_counter("recant.rejected").with_description("Events rejected, by code").build(),
            batch_events: meter.u64_histogram("recant.batch.events").with_description("Events a batch").build(),
            batch_rows: meter.u64_histogram("recant.batch.rows").with_description("Rows written a batch").build(),
            cascade_changes: meter
                .u64_histogram("recant.cascade.changes")
                .with_description("Changes a cascade")
                .build(),
            suspects: meter
                .u64_counter("recant.engine.suspects")
                .with_description(
                    "Nodes that lost their support and found no other at once; beside changes, the engine's work",
                )
                .build(),
            switched: meter
                .u64_counter("recant.engine.switched")
                .with_description("Nodes that took another support")
                .build(),
            restored: meter.u64_counter("recant.engine.restored").with_description("Suspects that came back").build(),
            aborted: meter.u64_counter("recant.commits.aborted").with_description("Commits that were aborted").build(),
            spaces_turned: meter
                .u64_counter("recant.spaces.turned")
                .with_description("Spaces that turned resident while they were used, or were closed")
                .build(),
            resident_bytes: meter
                .u64_gauge("recant.spaces.resident")
                .with_unit("By")
                .with_description("Memory that open spaces take")
                .build(),
            lag_ms: meter
                .u64_gauge("recant.lag")
                .with_unit("ms")
                .with_description("How long the oldest event that is not yet folded has been in the log")
                .build(),
            fold_s: seconds(&meter, "recant.fold.duration", "Folding a batch"),
            commit_s: seconds(&meter, "recant.commit.duration", "Publishing a batch: on Kafka, one transaction"),
            store_s: seconds(&meter, "recant.store.duration", "Handing a batch to the state"),
            lag_events: meter.u64_gauge("recant.lag.events").with_description("Events that are not yet folded").build(),
        }
    }

    /// Counts a folded event.
    pub fn folded(&self, folded: &Folded) {
        let fate = match &folded.fate {
            Fate::Accepted => "accepted",
            Fate::Duplicate(_) => "duplicate",
            Fate::Skipped(_) => "skipped",
            Fate::Rejected(violation) => {
                self.rejected.add(1, &[self.partition.clone(), KeyValue::new("code", violation.code.as_str())]);
                "rejected"
            }
        };
        self.events.add(1, &[self.partition.clone(), KeyValue::new("fate", fate)]);
        let changes = folded.outputs.iter().filter(|output| matches!(output.message, Message::Change(_))).count();
        if changes > 0 {
            // The first record is the summary.
            self.cascade_changes.record(changes as u64 - 1, &self.of_partition());
        }
        let Work { suspects, switched, restored } = folded.work;
        for (counter, count) in [(&self.suspects, suspects), (&self.switched, switched), (&self.restored, restored)] {
            if count > 0 {
                counter.add(count, &self.of_partition());
            }
        }
    }

    /// Counts a batch that was stored.
    pub fn stored(&self, events: usize, rows: usize) {
        self.batch_events.record(events as u64, &self.of_partition());
        self.batch_rows.record(rows as u64, &self.of_partition());
    }

    /// Counts a commit that was aborted.
    pub fn aborted(&self) {
        self.aborted.add(1, &self.of_partition());
    }

    /// How far the driver is behind the end of the log, and since when.
    pub fn lag(&self, events: u64, oldest_ms: Option<i64>) {
        self.lag_events.record(events, &self.of_partition());
        let since = |oldest_ms| u64::try_from(now_ms().saturating_sub(oldest_ms)).unwrap_or(0);
        self.lag_ms.record(oldest_ms.map_or(0, since), &self.of_partition());
    }

    /// How long folding a batch took.
    pub fn fold_took(&self, begun: Instant) {
        self.fold_s.record(begun.elapsed().as_secs_f64(), &self.of_partition());
    }

    /// How long publishing a batch took.
    pub fn commit_took(&self, begun: Instant) {
        self.commit_s.record(begun.elapsed().as_secs_f64(), &self.of_partition());
    }

    /// How long handing a batch to the state took.
    pub fn store_took(&self, begun: Instant) {
        self.store_s.record(begun.elapsed().as_secs_f64(), &self.of_partition());
    }

    /// How much memory the open spaces take, and how often they changed their form.
    pub fn spaces(&self, resident_bytes: usize, turns: Turns) {
        self.resident_bytes.record(resident_bytes as u64, &self.of_partition());
        for (to, times) in [("resident", turns.resident), ("closed", turns.closed)] {
            if times > 0 {
                self.spaces_turned.add(times, &[self.partition.clone(), KeyValue::new("to", to)]);
            }
        }
    }

    fn of_partition(&self) -> [KeyValue; 1] {
        [self.partition.clone()]
    }
}

/// Counts a state that was of no use, and is made anew.
pub fn state_put_aside(partition: u32) {
    let counter = global::meter("recant")
        .u64_counter("recant.states.put_aside")
        .with_description("States that were damaged or did not fit the log, and were made anew")
        .build();
    counter.add(1, &[KeyValue::new("partition", i64::from(partition))]);
}

/// The instruments of a partition's snapshots.
#[derive(Debug, Clone)]
pub struct SnapshotMeasures {
    partition: [KeyValue; 1],
    next_offset: Gauge<u64>,
    uploaded_bytes: Counter<u64>,
    failed: Counter<u64>,
    skipped: Counter<u64>,
}

impl SnapshotMeasures {
    /// The instruments for a partition.
    pub fn of(partition: u32) -> SnapshotMeasures {
        let meter = global::meter("recant");
        SnapshotMeasures {
            partition: [KeyValue::new("partition", i64::from(partition))],
            next_offset: meter
                .u64_gauge("recant.snapshot.next_offset")
                .with_description("Up to where the newest snapshot has applied events")
                .build(),
            uploaded_bytes: meter
                .u64_counter("recant.snapshot.uploaded")
                .with_unit("By")
                .with_description("Bytes that snapshots have uploaded")
                .build(),
            failed: meter
                .u64_counter("recant.snapshots.failed")
                .with_description("Snapshots that could not be made")
                .build(),
            skipped: meter
                .u64_counter("recant.snapshots.skipped")
                .with_description("Snapshots that were not good enough to be restored")
                .build(),
        }
    }

    /// A snapshot was made.
    pub fn made(&self, next_offset: u64, uploaded_bytes: u64) {
        self.next_offset.record(next_offset, &self.partition);
        self.uploaded_bytes.add(uploaded_bytes, &self.partition);
    }

    /// One could not be made.
    pub fn failed(&self) {
        self.failed.add(1, &self.partition);
    }

    /// One was not restored.
    pub fn skipped(&self) {
        self.skipped.add(1, &self.partition);
    }
}
