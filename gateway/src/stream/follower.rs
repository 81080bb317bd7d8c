//! One who follows a space: from the log until it has caught up with the ring, and from the ring from then on.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use recant_eventlog::ReadLimit;
use recant_proto::v1::Change;
use tokio::{sync::watch, time::Instant};

use super::{
    Place, Selection, Streams,
    lag::{Lag, passed},
    over,
    ring::{Next, Streamed, Subscription},
    tail,
};
use crate::{
    changes::{PlaceError, cursor_behind},
    problem::Problem,
};

/// What a follower holds in memory of the log, at most, whatever it costs to go on.
const PAGE: ReadLimit = ReadLimit { records_max: 256, bytes_max: 64 << 10 };
/// So many records are taken from the ring at once.
const TAKEN_MAX: usize = 64;

/// What a follower is told.
#[derive(Debug, Clone)]
pub enum Told {
    /// A summary, a change or a digest of its space, whether it wants to hear of it or not.
    Record(Arc<Streamed>),
    /// Everything that there was when it was looked at has been told; go on from this cursor.
    CaughtUp(String),
    /// Nothing has happened for a while; go on from this cursor.
    Nothing(String),
    /// It has fallen behind what is kept in memory, and is told the rest from the log.
    Behind,
    /// The server ends.
    Over,
}

/// One who follows.
pub struct Follower {
    streams: Streams,
    partition: u32,
    subscription: Subscription,
    selection: Selection,
    /// The offset of the stream that comes next.
    next: u64,
    waiting: VecDeque<Arc<Streamed>>,
    owed: Option<Change>,
    is_live: bool,
    is_told_caught_up: bool,
    is_over: watch::Receiver<bool>,
    /// For measures.
    lag: Arc<Lag>,
    _place: Place,
}

impl Follower {
    pub(super) fn new(
        streams: Streams,
        partition: u32,
        subscription: Subscription,
        selection: Selection,
        next: u64,
        owed: Option<Change>,
        place: Place,
    ) -> Follower {
        let is_over = streams.is_over();
        let (ring, space) = subscription.of();
        let lag = Arc::new(Lag::new(ring, space, next));
        streams.inner.lags.add(&lag);
        Follower {
            streams,
            partition,
            subscription,
            selection,
            next,
            waiting: VecDeque::new(),
            owed,
            is_live: false,
            is_told_caught_up: false,
            is_over,
            lag,
            _place: place,
        }
    }

    /// The last change of a cascade of which the follower has all changes, and may not have been told that it ended.
    pub fn take_owed(&mut self) -> Option<Change> {
        self.owed.take()
    }

    /// What it is told.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// The next record if it is at hand.
    pub fn at_hand(&mut self) -> Option<Arc<Streamed>> {
        let record = self.waiting.pop_front()?;
        self.lag.told_to(record.offset + 1);
        Some(record)
    }

    /// The next record, or what else there is to say; waits at most so long.
    pub async fn next(&mut self, patience: Duration) -> Result<Told, Problem> {
        let deadline = Instant::now() + patience;
        loop {
            if *self.is_over.borrow() {
                return Ok(Told::Over);
            }
            if let Some(record) = self.at_hand() {
                return Ok(Told::Record(record));
            }
            if let Some(told) = self.look(deadline).await? {
                return Ok(told);
            }
        }
    }

    /// Takes what there is, or waits for it.
    async fn look(&mut self, deadline: Instant) -> Result<Option<Told>, Problem> {
        let bell = self.subscription.bell.clone();
        let rung = bell.notified();
        tokio::pin!(rung);
        // From here on a ring is heard, also one between the look and the wait.
        rung.as_mut().enable();
        match self.subscription.from(self.next, TAKEN_MAX) {
            Next::Records(records) => {
                self.is_live = true;
                self.next = records.last().map_or(self.next, |last| last.offset + 1);
                self.waiting.extend(records);
            }
            Next::InLog if self.is_live => {
                self.is_live = false;
                self.is_told_caught_up = false;
                passed();
                return Ok(Some(Told::Behind));
            }
            Next::InLog => self.read_log().await?,
            Next::Nothing { next, processed } => {
                self.is_live = true;
                self.next = self.next.max(next);
                self.lag.told_to(self.next);
                let cursor = cursor_behind(self.streams.inner.host.log().incarnation(), self.partition, processed);
                if !self.is_told_caught_up {
                    self.is_told_caught_up = true;
                    return Ok(Some(Told::CaughtUp(cursor)));
                }
                if Instant::now() >= deadline {
                    return Ok(Some(Told::Nothing(cursor)));
                }
                // At the deadline it is looked at once more: where it is then is what is told.
                tokio::select! {
                    () = rung => {}
                    () = tokio::time::sleep_until(deadline) => {}
                    () = over(&mut self.is_over) => {}
                }
            }
        }
        Ok(None)
    }

    /// Reads a page of the log, when its turn comes.
    async fn read_log(&mut self) -> Result<(), Problem> {
        let inner = &self.streams.inner;
        let _turn = inner.catching_up.acquire().await;
        let (log, partition, next) = (inner.host.log(), self.partition, self.next);
        let space = self.subscription.space().as_bytes().to_vec();
        let read = tokio::task::spawn_blocking(move || {
            tail::page(&*log, partition, next, PAGE, |key| key == space.as_slice())
        });
        let read: Result<(Vec<Arc<Streamed>>, u64), PlaceError> =
            read.await.map_err(|_| Problem::from(crate::host::HostError::Closing))?;
        let (records, read_to) = read?;
        self.waiting.extend(records);
        self.next = read_to;
        Ok(())
    }
}
