//! The soak's verdict on growth: what grows with data passes, what grows by itself does not.

#![allow(clippy::unwrap_used, reason = "for tests alone: what fails here fails a test")]

use std::time::Duration;

use recant_tests::soak::flat::{Growth, Sample};

const LENGTH: Duration = Duration::from_secs(400);
const MIB: u64 = 1 << 20;

/// A run of 400 seconds, 100 events in each, with the figures of each second.
fn run(figures: impl Fn(u64) -> (u64, u64, u64)) -> Vec<String> {
    let sample = |second: u64| {
        let (rss_bytes, files, disk_bytes) = figures(second);
        let (log_bytes, state_bytes) = (disk_bytes / 2, disk_bytes / 2);
        Sample { at: Duration::from_secs(second), rss_bytes, files, log_bytes, state_bytes, events: second * 100 }
    };
    let samples: Vec<Sample> = (1..=400).map(sample).collect();
    Growth::of(&samples, LENGTH).unwrap().wrong()
}

#[test]
fn what_grows_with_data_is_flat() {
    // Caches fill in the first quarter; each event takes its kilobyte.
    let wrong = run(|second| (60 * MIB + second.min(100) * MIB, 90 + second / 40, second * 100 * 1_000));
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn one_outlier_is_no_growth() {
    let wrong = run(|second| (if second == 390 { 900 * MIB } else { 160 * MIB }, 90, second * 100 * 1_000));
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_leak_is_noticed_in_memory_and_in_files() {
    let wrong = run(|second| (160 * MIB + second * MIB / 2, 90 + second * 2, second * 100 * 1_000));
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong[0].starts_with("memory") && wrong[1].starts_with("the number of open files"), "{wrong:?}");
}

#[test]
fn disk_that_grows_faster_than_data_is_noticed() {
    // An event takes more the more there are, as where nothing is ever compacted.
    let wrong = run(|second| (160 * MIB, 90, second * 100 * (1_000 + second * 4)));
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].starts_with("disk an event"), "{wrong:?}");
}

#[test]
fn a_quarter_without_samples_gives_no_verdict() {
    let sample =
        Sample { at: Duration::from_secs(10), rss_bytes: MIB, files: 1, log_bytes: 1, state_bytes: 1, events: 1 };
    assert_eq!(Growth::of(&[sample], LENGTH), None);
}
