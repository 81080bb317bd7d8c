//! How far followers are behind, for measures: of each what it has yet to be told of what is kept in memory. It is counted when somebody
//! asks, and costs a follower nothing but one number.

use std::{
    sync::{
        Arc, LazyLock, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use opentelemetry::{global, metrics::Counter};

use super::ring::Ring;

/// One follower's.
pub(super) struct Lag {
    ring: Ring,
    space: Arc<str>,
    /// The offset of the stream that it is told of next.
    next: AtomicU64,
}

/// How far one is behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Behind {
    /// So many records of its space it has yet to be told, at least: what the ring has passed is not counted.
    pub(super) records: u64,
    /// The oldest of them was read so long ago.
    pub(super) since: Duration,
}

impl Lag {
    pub(super) fn new(ring: Ring, space: Arc<str>, next: u64) -> Lag {
        Lag { ring, space, next: AtomicU64::new(next) }
    }

    pub(super) fn told_to(&self, next: u64) {
        self.next.store(next, Ordering::Relaxed);
    }

    fn behind(&self) -> Behind {
        self.ring.behind(&self.space, self.next.load(Ordering::Relaxed))
    }
}

/// Those of all followers of a process.
#[derive(Default)]
pub(super) struct Lags {
    followers: Mutex<Vec<Weak<Lag>>>,
}

/// Followers that have gone are forgotten when somebody asks, and else when there is no more room for another.
const FORGET_FROM: usize = 64;

impl Lags {
    /// From now on these are measured.
    pub(super) fn measure(self: &Arc<Self>) {
        let meter = global::meter("recant");
        let of = |lags: &Arc<Lags>, what: fn(u64, Behind) -> u64| {
            let lags = lags.clone();
            move || {
                let (followers, furthest) = lags.look();
                what(followers, furthest)
            }
        };
        let followers = of(self, |followers, _| followers);
        meter
            .u64_observable_gauge("recant.stream.subscribers")
            .with_description("Those who follow the change stream")
            .with_callback(move |observer| observer.observe(followers(), &[]))
            .build();
        let events = of(self, |_, behind| behind.records);
        meter
            .u64_observable_gauge("recant.stream.lag.events")
            .with_description(
                "Changes that the subscriber that is furthest behind has yet to be told, of those in memory",
            )
            .with_callback(move |observer| observer.observe(events(), &[]))
            .build();
        let since = of(self, |_, behind| u64::try_from(behind.since.as_millis()).unwrap_or(u64::MAX));
        meter
            .u64_observable_gauge("recant.stream.lag")
            .with_unit("ms")
            .with_description("How long the oldest of those has waited")
            .with_callback(move |observer| observer.observe(since(), &[]))
            .build();
    }

    pub(super) fn add(&self, lag: &Arc<Lag>) {
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        if followers.len() >= FORGET_FROM && followers.len() == followers.capacity() {
            followers.retain(|follower| follower.strong_count() > 0);
        }
        followers.push(Arc::downgrade(lag));
    }

    /// How many follow, and how far behind the one is that is furthest.
    fn look(&self) -> (u64, Behind) {
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.retain(|follower| follower.strong_count() > 0);
        let all: Vec<Arc<Lag>> = followers.iter().filter_map(Weak::upgrade).collect();
        drop(followers);
        let furthest = all.iter().map(|lag| lag.behind()).fold(Behind::default(), |furthest, behind| Behind {
            records: furthest.records.max(behind.records),
            since: furthest.since.max(behind.since),
        });
        (all.len() as u64, furthest)
    }
}

// Made when the first is counted, which is after the provider was set.
static TOLD_BEHIND: LazyLock<Counter<u64>> = LazyLock::new(|| {
    global::meter("recant")
        .u64_counter("recant.stream.behind")
        .with_description("How often a subscriber was passed by what is kept in memory, and told so")
        .build()
});

/// Counts a follower that was passed.
pub(super) fn passed() {
    TOLD_BEHIND.add(1, &[]);
}
