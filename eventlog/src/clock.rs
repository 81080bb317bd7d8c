//! Clocks for a log: the system's, and one that is set by hand for tests and demonstrations.
//!
//! This is the only place that asks the system what time it is; everywhere else time is handed in.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Clock;

/// The system's clock. It may jump, also backwards; the log's own time does not follow it back.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one place where the system's time enters")]
    fn now_ms(&self) -> i64 {
        let (sign, distance) = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => (1, since),
            Err(before) => (-1, before.duration()),
        };
        sign * i64::try_from(distance.as_millis()).unwrap_or(i64::MAX)
    }
}

/// A clock that stands still until it is set.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ms: AtomicI64,
}

impl ManualClock {
    /// A clock that shows `now_ms`.
    pub fn new(now_ms: i64) -> Self {
        ManualClock { now_ms: AtomicI64::new(now_ms) }
    }

    /// Sets it, forwards or backwards.
    pub fn set(&self, now_ms: i64) {
        self.now_ms.store(now_ms, Ordering::SeqCst);
    }

    /// Moves it on by so many milliseconds.
    pub fn advance(&self, ms: i64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst)
    }
}
