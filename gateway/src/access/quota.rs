//! What a space may use: events and bytes a second, and change streams at once.
//!
//! Of each rate one instant is kept: when all that was taken will have been earned. Up to [`BURST`] may be taken ahead, and one batch
//! larger than that when nothing is owed, since it could not come in otherwise. So the long run keeps the rate, and no batch waits for ever.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;

use super::settings::{Quota, QuotaSettings};

const BURST: Duration = Duration::from_secs(1);

/// Spaces with a quota that used any of it in the last second or have a stream open; one more is asked to wait.
const SPACES_MAX: usize = 65_536;

/// It is too much for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the space has used up its quota of {what}; try again in {} ms", retry_after.as_millis())]
pub struct Exceeded {
    /// Of what.
    pub what: &'static str,
    /// When it may be tried again.
    pub retry_after: Duration,
}

/// The quotas, and what was used of them.
#[derive(Debug, Default)]
pub struct Quotas {
    settings: ArcSwap<QuotaSettings>,
    used: Mutex<HashMap<String, Used>>,
}

#[derive(Debug, Clone, Copy)]
struct Used {
    events_earned_at: Instant,
    bytes_earned_at: Instant,
    streams: u32,
}

/// A change stream that is open; dropped when it ends.
#[derive(Debug)]
pub struct StreamPermit(Option<(Arc<Quotas>, String)>);

impl Quotas {
    /// From now on these count.
    pub fn set(&self, settings: QuotaSettings) {
        self.settings.store(Arc::new(settings));
    }

    /// Takes what a write needs, all or nothing.
    pub fn take(&self, space: &str, events: usize, bytes: usize, now: Instant) -> Result<(), Exceeded> {
        let quota = self.settings.load().of(space);
        if quota == Quota::default() {
            return Ok(());
        }
        self.with(space, now, |used| {
            let after_events =
                earned(used.events_earned_at, now, events, quota.events_per_s.map(Into::into), "events")?;
            let after_bytes = earned(used.bytes_earned_at, now, bytes, quota.bytes_per_s, "bytes")?;
            (used.events_earned_at, used.bytes_earned_at) = (after_events, after_bytes);
            Ok(())
        })
    }

    /// Takes a change stream.
    pub fn open_stream(self: &Arc<Self>, space: &str, now: Instant) -> Result<StreamPermit, Exceeded> {
        let Some(streams_max) = self.settings.load().of(space).streams else { return Ok(StreamPermit(None)) };
        self.with(space, now, |used| {
            if used.streams >= streams_max.get() {
                return Err(Exceeded { what: "streams", retry_after: BURST });
            }
            used.streams += 1;
            Ok(())
        })?;
        Ok(StreamPermit(Some((self.clone(), space.to_owned()))))
    }

    fn with<T>(
        &self,
        space: &str,
        now: Instant,
        take: impl FnOnce(&mut Used) -> Result<T, Exceeded>,
    ) -> Result<T, Exceeded> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() >= SPACES_MAX && !used.contains_key(space) {
            used.retain(|_, used| used.streams > 0 || used.events_earned_at > now || used.bytes_earned_at > now);
            if used.len() >= SPACES_MAX {
                return Err(Exceeded { what: "spaces at once", retry_after: BURST });
            }
        }
        let new = Used { events_earned_at: now, bytes_earned_at: now, streams: 0 };
        take(used.entry(space.to_owned()).or_insert(new))
    }
}

/// When all that was taken will have been earned, this included.
fn earned(
    before: Instant,
    now: Instant,
    amount: usize,
    per_s: Option<std::num::NonZeroU64>,
    what: &'static str,
) -> Result<Instant, Exceeded> {
    let Some(per_s) = per_s else { return Ok(now) };
    let owed = before.saturating_duration_since(now);
    let taken = Duration::from_secs_f64(amount as f64 / per_s.get() as f64);
    if owed.is_zero() || owed + taken <= BURST {
        return Ok(now + owed + taken);
    }
    let retry_after = if taken <= BURST { owed + taken - BURST } else { owed };
    Err(Exceeded { what, retry_after })
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let Some((quotas, space)) = self.0.take() else { return };
        let mut used = quotas.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = used.get_mut(&space) {
            used.streams = used.streams.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas(toml: &str) -> Arc<Quotas> {
        let quotas = Quotas::default();
        quotas.set(toml::from_str(toml).unwrap());
        Arc::new(quotas)
    }

    #[test]
    fn in_the_long_run_the_rate_is_kept() {
        let quotas = quotas("events_per_s = 10");
        let begin = Instant::now();
        let taken = |ms| quotas.take("acme", 1, 0, begin + Duration::from_millis(ms)).is_ok();
        // Every 20 ms of ten seconds, five times the rate: the rate, and what may be taken ahead.
        let accepted = (0..500).filter(|step| taken(step * 20)).count();
        assert!((100..=110).contains(&accepted), "{accepted}");
    }

    #[test]
    fn one_is_told_when_to_come_again_and_then_it_is_taken() {
        let quotas = quotas("events_per_s = 10");
        let now = Instant::now();
        assert_eq!(quotas.take("acme", 10, 0, now), Ok(()));
        let exceeded = quotas.take("acme", 5, 0, now).unwrap_err();
        assert_eq!(exceeded, Exceeded { what: "events", retry_after: Duration::from_millis(500) });
        assert_eq!(quotas.take("acme", 5, 0, now + exceeded.retry_after), Ok(()));
    }

    #[test]
    fn a_batch_larger_than_a_seconds_quota_comes_in_once_nothing_is_owed() {
        let quotas = quotas("bytes_per_s = 1000");
        let now = Instant::now();
        assert_eq!(quotas.take("acme", 1, 5000, now), Ok(()));
        let exceeded = quotas.take("acme", 1, 5000, now).unwrap_err();
        assert_eq!(exceeded.retry_after, Duration::from_secs(5));
        assert_eq!(quotas.take("acme", 1, 5000, now + Duration::from_secs(5)), Ok(()));
    }

    #[test]
    fn what_is_refused_uses_up_nothing_and_spaces_do_not_share() {
        let quotas = quotas("events_per_s = 10\nbytes_per_s = 100\n[spaces.large]\nevents_per_s = 1000");
        let now = Instant::now();
        assert_eq!(quotas.take("acme", 1, 100, now), Ok(()));
        assert_eq!(quotas.take("acme", 8, 100, now).unwrap_err().what, "bytes");
        assert_eq!(quotas.take("acme", 9, 0, now), Ok(()));
        assert_eq!(quotas.take("other", 10, 0, now), Ok(()));
        assert_eq!(quotas.take("large", 1000, 1 << 30, now), Ok(()));
    }

    #[test]
    fn a_stream_that_ends_makes_room_for_another() {
        let quotas = quotas("streams = 1");
        let now = Instant::now();
        let open = quotas.open_stream("acme", now).unwrap();
        assert_eq!(quotas.open_stream("acme", now).unwrap_err().what, "streams");
        assert!(quotas.open_stream("other", now).is_ok());
        drop(open);
        assert!(quotas.open_stream("acme", now).is_ok());
    }
}
