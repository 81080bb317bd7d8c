//! The change stream, for many who follow it at once.
//!
//! One task a partition reads what is new ([`tail`]), and puts what belongs to spaces that someone follows into a [`ring`]: a bounded
//! number of bytes that all share. A follower ([`Follower`]) takes from the ring what is of its space; who comes from further back, or
//! falls behind the ring, reads the log in small pages, a bounded number of them at once, until the ring has what comes next. So what a
//! slow follower costs is one page, however slow it is, and whoever is fast never notices.
//!
//! What is told is decided by [`Selection`]: a [`Filter`], and each cascade between its begin and its end ([`frames`]). Nothing is
//! buffered until a cascade is whole: each change says which of how many it is.

mod content;
mod filter;
mod follower;
pub mod frames;
mod lag;
mod ring;
mod tail;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use recant_eventlog::{LogError, Topic};
use tokio::sync::{Semaphore, watch};

pub use self::{
    content::Content,
    filter::{Filter, Selection},
    follower::{Follower, Told},
    frames::Framer,
    ring::Streamed,
};
use self::{lag::Lags, ring::Ring};
use crate::{
    changes::{self, From},
    host::{Host, HostError},
    problem::Problem,
};

/// So many follow at once.
const FOLLOWERS_MAX: usize = 10_000;
/// So many read pages of the log at once, to catch up.
const CATCHING_UP_MAX: usize = 4;
/// Bytes of records that all rings of the process keep.
const RINGS_BYTES: usize = 64 << 20;

/// The change streams of a host.
#[derive(Clone)]
pub struct Streams {
    inner: Arc<Inner>,
}

struct Inner {
    host: Host,
    rings: Vec<Ring>,
    catching_up: Semaphore,
    followers: AtomicUsize,
    lags: Arc<Lags>,
    /// Turns true when the server is told to end.
    is_over: watch::Sender<bool>,
}

impl Streams {
    /// Begins to read the ends of all partitions.
    pub async fn start(host: Host) -> Result<Streams, HostError> {
        let log = host.log();
        let ends = host.on_a_thread(move || {
            // In this order: then the changes of all events before the one lie before the other.
            let end = |partition| {
                let processed = log.committed(partition)?.next_offset;
                Ok::<_, LogError>((processed, log.bounds(Topic::Changes, partition)?.end))
            };
            (0..log.partitions()).map(end).collect::<Result<Vec<_>, _>>()
        });
        let ends = ends.await??;
        let ring_bytes = RINGS_BYTES / ends.len().max(1);
        let rings = ends.into_iter().map(|(processed, end)| Ring::new(end, processed, ring_bytes)).collect();
        let inner = Inner {
            host,
            rings,
            catching_up: Semaphore::new(CATCHING_UP_MAX),
            followers: AtomicUsize::new(0),
            lags: Arc::default(),
            is_over: watch::Sender::new(false),
        };
        let streams = Streams { inner: Arc::new(inner) };
        streams.inner.lags.measure();
        for (partition, _) in (0..).zip(&streams.inner.rings) {
            tokio::spawn(tail::read(streams.clone(), partition));
        }
        Ok(streams)
    }

    /// Follows a space.
    pub async fn follow(&self, space: &str, from: From, selection: Selection) -> Result<Follower, Problem> {
        let partition = self.inner.host.partition_of(space);
        let Some(ring) = self.inner.rings.get(partition as usize) else {
            return Err(HostError::Log(LogError::NoPartition(partition)).into());
        };
        let place = Place::take(self)?;
        // Before the place is looked up: what comes from now on is in the ring.
        let subscription = ring.subscribe(space);
        let log = self.inner.host.log();
        let begin = self.inner.host.on_a_thread(move || {
            let next = changes::start(&*log, partition, &from)?;
            Ok::<_, changes::PlaceError>((next, owed_end(&*log, partition, &from, next)?))
        });
        let (next, owed) = begin.await.map_err(Problem::from)??;
        Ok(Follower::new(self.clone(), partition, subscription, selection, next, owed, place))
    }

    /// Ends all streams, with a word to those who follow.
    pub fn end(&self) {
        self.inner.is_over.send_replace(true);
    }

    /// How many follow.
    pub fn followers(&self) -> usize {
        self.inner.followers.load(Ordering::Relaxed)
    }

    /// Whether all streams are to end.
    pub(crate) fn is_over(&self) -> watch::Receiver<bool> {
        self.inner.is_over.subscribe()
    }
}

/// Waits until all streams are to end.
pub(crate) async fn over(is_over: &mut watch::Receiver<bool>) {
    // It ends, too, if there is nobody left who could say so.
    let _ = is_over.wait_for(|is_over| *is_over).await;
}

/// The last change of a cascade that the follower has seen, whose end it may not have: none if it has.
fn owed_end(
    log: &(impl crate::host::TimedLog + ?Sized),
    partition: u32,
    from: &From,
    next: u64,
) -> Result<Option<recant_proto::v1::Change>, changes::PlaceError> {
    let From::After(seen) = from else { return Ok(None) };
    // Whoever has a list's cursor, or an end's, has all of the event's changes.
    if seen.index == u32::MAX || next == 0 {
        return Ok(None);
    }
    let last = changes::before(log, partition, next)?;
    let is_last = |change: &recant_proto::v1::Change| {
        let cascade = change.cascade.as_ref();
        change.id == seen.to_string() && cascade.is_some_and(|cascade| cascade.index == Some(cascade.total))
    };
    Ok(last.filter(is_last))
}

/// A place among those who may follow at once.
struct Place {
    streams: Streams,
}

impl Place {
    fn take(streams: &Streams) -> Result<Place, HostError> {
        let place = Place { streams: streams.clone() };
        if streams.inner.followers.fetch_add(1, Ordering::Relaxed) >= FOLLOWERS_MAX {
            return Err(HostError::Busy("too many follow the stream"));
        }
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.streams.inner.followers.fetch_sub(1, Ordering::Relaxed);
    }
}
