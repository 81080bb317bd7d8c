//! The newest records of a partition's stream, of the spaces that someone follows: read once, shared by all, bounded in bytes.
//!
//! For each such space it is known from which offset on all of its records are here. What was evicted, or came before anyone followed, is
//! in the log alone.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Instant,
};

use prost::Message;
use recant_proto::v1::Change;
use tokio::sync::Notify;

use super::lag::Behind;
use crate::outcome::change_json;

/// A record of the stream, decoded once.
#[derive(Debug)]
pub struct Streamed {
    /// Where it lies in the topic.
    pub(super) offset: u64,
    /// What it says.
    pub change: Change,
    json: OnceLock<String>,
    /// Of the record as it lies in the log.
    bytes: usize,
    read_at: Instant,
}

/// A record takes about so many times its bytes: decoded, as JSON, and what holds them.
const BYTES_FACTOR: usize = 4;
const BYTES_BESIDE: usize = 512;

impl Streamed {
    pub(crate) fn new(offset: u64, change: Change, record_bytes: usize) -> Streamed {
        Streamed {
            offset,
            change,
            json: OnceLock::new(),
            bytes: record_bytes * BYTES_FACTOR + BYTES_BESIDE,
            read_at: Instant::now(),
        }
    }

    /// A change that was kept elsewhere, and lies nowhere in the topic.
    pub(crate) fn of(change: Change) -> Streamed {
        let bytes = change.encoded_len();
        Streamed::new(u64::MAX, change, bytes)
    }

    /// What it takes in memory, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// It in JSON, made once for all who are told it.
    pub fn json(&self) -> &str {
        self.json.get_or_init(|| change_json(&self.change).to_string())
    }
}

/// What the ring has for a follower.
#[derive(Debug)]
pub(super) enum Next {
    /// These, in order.
    Records(Vec<Arc<Streamed>>),
    /// Nothing: everything before this offset of the stream is told, and with it every change of the events before `processed`.
    Nothing { next: u64, processed: u64 },
    /// What comes next is in the log alone.
    InLog,
}

/// A partition's ring.
#[derive(Clone)]
pub(super) struct Ring {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    spaces: HashMap<Arc<str>, Followed>,
    /// The spaces of the records, oldest first, with their offsets.
    order: VecDeque<(Arc<str>, u64)>,
    bytes: usize,
    bytes_max: usize,
    /// The stream is read up to here.
    next: u64,
    /// And with it every change of the events before this offset.
    processed: u64,
}

struct Followed {
    records: VecDeque<Arc<Streamed>>,
    /// All records of the space from this offset on, up to `next`, are here.
    complete_from: u64,
    bell: Arc<Notify>,
    followers: usize,
}

impl Ring {
    pub(super) fn new(next: u64, processed: u64, bytes_max: usize) -> Ring {
        let inner = Inner { spaces: HashMap::new(), order: VecDeque::new(), bytes: 0, bytes_max, next, processed };
        Ring { inner: Arc::new(Mutex::new(inner)) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it holds the lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The offset from which on the stream is to be read.
    pub(super) fn next(&self) -> u64 {
        self.lock().next
    }

    /// Whether anyone follows a space.
    pub(super) fn is_followed(&self, space: &[u8]) -> bool {
        std::str::from_utf8(space).is_ok_and(|space| self.lock().spaces.contains_key(space))
    }

    /// Takes what was read, up to an offset of the stream.
    pub(super) fn take(&self, records: Vec<Arc<Streamed>>, next: u64) {
        let mut inner = self.lock();
        let mut bells: Vec<Arc<Notify>> = Vec::new();
        for record in records {
            let Some((space, followed)) = inner.spaces.get_key_value(record.change.space.as_str()) else { continue };
            let space = space.clone();
            if !bells.iter().any(|bell| Arc::ptr_eq(bell, &followed.bell)) {
                bells.push(followed.bell.clone());
            }
            inner.keep(space, record);
        }
        inner.next = next;
        drop(inner);
        bells.iter().for_each(|bell| bell.notify_waiters());
    }

    /// Takes note that the stream has every change of the events before an offset.
    pub(super) fn processed(&self, processed: u64) {
        self.lock().processed = processed;
    }

    /// How far one who follows a space is behind that is told of this offset next.
    pub(super) fn behind(&self, space: &str, next: u64) -> Behind {
        let inner = self.lock();
        let Some(followed) = inner.spaces.get(space) else { return Behind::default() };
        let first = followed.records.partition_point(|record| record.offset < next);
        let since = followed.records.get(first).map(|oldest| oldest.read_at.elapsed());
        Behind { records: (followed.records.len() - first) as u64, since: since.unwrap_or_default() }
    }

    /// Follows a space from now on.
    pub(super) fn subscribe(&self, space: &str) -> Subscription {
        let mut inner = self.lock();
        let space: Arc<str> = space.into();
        let complete_from = inner.next;
        let followed = inner.spaces.entry(space.clone()).or_insert_with(|| Followed {
            records: VecDeque::new(),
            complete_from,
            bell: Arc::default(),
            followers: 0,
        });
        followed.followers += 1;
        let bell = followed.bell.clone();
        Subscription { ring: self.clone(), space, bell }
    }
}

impl Inner {
    fn keep(&mut self, space: Arc<str>, record: Arc<Streamed>) {
        let (offset, bytes) = (record.offset, record.bytes);
        if let Some(followed) = self.spaces.get_mut(&space) {
            followed.records.push_back(record);
            self.order.push_back((space, offset));
            self.bytes += bytes;
        }
        while self.bytes > self.bytes_max
            && let Some((space, offset)) = self.order.pop_front()
        {
            let Some(followed) = self.spaces.get_mut(&space) else { continue };
            if followed.records.front().is_some_and(|first| first.offset == offset)
                && let Some(evicted) = followed.records.pop_front()
            {
                followed.complete_from = offset + 1;
                self.bytes -= evicted.bytes;
            }
        }
    }
}

/// A follower's hand on the ring.
pub(super) struct Subscription {
    ring: Ring,
    space: Arc<str>,
    /// Rings when there are records of the space. Who waits for it begins before it looks.
    pub(super) bell: Arc<Notify>,
}

impl Subscription {
    /// The ring, and the space.
    pub(super) fn of(&self) -> (Ring, Arc<str>) {
        (self.ring.clone(), self.space.clone())
    }

    /// The space.
    pub(super) fn space(&self) -> &str {
        &self.space
    }

    /// What there is from an offset of the stream on, at most so many.
    pub(super) fn from(&self, next: u64, records_max: usize) -> Next {
        let inner = self.ring.lock();
        let nothing = Next::Nothing { next: inner.next, processed: inner.processed };
        let Some(followed) = inner.spaces.get(&self.space) else { return Next::InLog };
        if next < followed.complete_from {
            return Next::InLog;
        }
        let first = followed.records.partition_point(|record| record.offset < next);
        let records: Vec<_> = followed.records.iter().skip(first).take(records_max).cloned().collect();
        if records.is_empty() { nothing } else { Next::Records(records) }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut inner = self.ring.lock();
        let Some(followed) = inner.spaces.get_mut(&self.space) else { return };
        followed.followers -= 1;
        if followed.followers == 0
            && let Some(gone) = inner.spaces.remove(&self.space)
        {
            inner.bytes -= gone.records.iter().map(|record| record.bytes).sum::<usize>();
            inner.order.retain(|(space, _)| *space != self.space);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(space: &str, offset: u64) -> Arc<Streamed> {
        Arc::new(Streamed::new(offset, Change { space: space.to_owned(), ..Change::default() }, 100))
    }

    const RECORD_BYTES: usize = 100 * BYTES_FACTOR + BYTES_BESIDE;

    fn offsets(next: Next) -> Vec<u64> {
        match next {
            Next::Records(records) => records.iter().map(|record| record.offset).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// Protects followers from gaps: what was evicted, or came before anyone followed, is in the log, and is never passed over.
    #[test]
    fn what_is_not_here_is_in_the_log() {
        let ring = Ring::new(10, 0, 3 * RECORD_BYTES);
        let one = ring.subscribe("one");
        assert!(matches!(one.from(9, 10), Next::InLog), "before anyone followed");
        ring.take(vec![record("one", 10), record("other", 11), record("one", 12)], 13);
        assert_eq!(offsets(one.from(10, 10)), [10, 12]);
        assert_eq!(offsets(one.from(11, 1)), [12]);
        let other = ring.subscribe("other");
        assert!(matches!(other.from(11, 10), Next::InLog), "nobody followed it then");
        ring.take(vec![record("other", 13), record("one", 14)], 15);
        assert!(matches!(one.from(10, 10), Next::InLog), "evicted");
        assert_eq!(offsets(one.from(11, 10)), [12, 14]);
        assert_eq!(offsets(other.from(13, 10)), [13]);
        assert!(matches!(one.from(15, 10), Next::Nothing { next: 15, .. }));
        assert_eq!([11, 13, 15].map(|next| ring.behind("one", next).records), [2, 1, 0]);
    }

    /// Protects memory: what is kept is within the bound, and goes with the last who follows.
    #[test]
    fn what_is_kept_is_bounded_and_goes() {
        let ring = Ring::new(0, 0, 5 * RECORD_BYTES);
        let first = ring.subscribe("one");
        let second = ring.subscribe("one");
        for offset in 0..100 {
            ring.take(vec![record("one", offset)], offset + 1);
            assert!(ring.lock().bytes <= 5 * RECORD_BYTES);
        }
        drop(first);
        assert_eq!(offsets(second.from(95, 10)), [95, 96, 97, 98, 99]);
        drop(second);
        let inner = ring.lock();
        assert_eq!((inner.bytes, inner.spaces.len(), inner.order.len()), (0, 0, 0));
    }
}
