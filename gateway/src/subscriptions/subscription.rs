//! One subscription, as it is used: the stream that feeds it, how far it has come, and where that is kept.
//!
//! Each operation runs in a task of its own, so that a caller that goes away leaves nothing half done. What an operation settles is
//! durable before it is answered; if it cannot be written, the subscription is read again from what is kept.

use std::{
    sync::Arc,
    time::{Duration, Instant as Moment},
};

use jiff::Timestamp;
use recant_eventlog::{
    LogError,
    compacted::{Change as RowChange, CompactedTopic},
};
use recant_proto::position::{ChangeId, Incarnation};
use tokio::{
    sync::{Mutex, MutexGuard, Notify, watch},
    time::Instant,
};

use super::{
    progress::{Delivery, Parked, Place, Progress},
    rows::{self, Found, Key, Row},
};
use crate::{
    changes::From,
    host::{Host, HostError},
    problem::{Problem, Sort},
    stream::{Follower, Streamed, Streams, Told},
};

/// A feed that nobody has used for so long is let go.
const FEED_IDLE_MAX: Duration = Duration::from_secs(60);
/// So often a wait is looked at where nobody rings: a change handed out to another may come back.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a subscription needs of its surroundings.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) host: Host,
    pub(super) streams: Streams,
    pub(super) topic: Arc<dyn CompactedTopic>,
    /// What the clock of deadlines counts from.
    pub(super) begun: Moment,
}

/// A subscription.
pub struct Subscription {
    key: Key,
    partition: u32,
    around: Surroundings,
    row: Row,
    progress: Mutex<Progress>,
    feed: Mutex<Option<Feed>>,
    /// Rings when something is due that was not.
    bell: Notify,
    state: watch::Sender<State>,
}

/// Whether it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It does.
    Open,
    /// It was deleted, or its partition is served elsewhere.
    Ended,
    /// What was to be kept is not: it is to be read again.
    Stale,
}

struct Feed {
    follower: Follower,
    used_at: Moment,
}

/// How it stands.
#[derive(Debug, Clone)]
pub struct Status {
    /// The cursor up to which everything is settled; none if nothing that is kept of the stream is.
    pub cursor: Option<String>,
    /// How many are handed out, or about to be.
    pub outstanding: usize,
    /// How many are parked.
    pub parked: usize,
}

impl Subscription {
    pub(super) fn of(key: Key, partition: u32, around: Surroundings, found: Found) -> Arc<Subscription> {
        let Found { row, parked } = found;
        let progress = Progress::of(row.definition.bounds(), row.kept.clone(), parked);
        Arc::new(Subscription {
            key,
            partition,
            around,
            row,
            progress: Mutex::new(progress),
            feed: Mutex::new(None),
            bell: Notify::new(),
            state: watch::Sender::new(State::Open),
        })
    }

    /// Its space.
    pub fn space(&self) -> &str {
        &self.key.0
    }

    /// What it was made with, by whom, when, and the secret of its webhook.
    pub fn row(&self) -> &Row {
        &self.row
    }

    pub(super) fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    pub(super) fn end(&self) {
        self.state.send_replace(State::Ended);
        self.bell.notify_waiters();
    }

    fn incarnation(&self) -> Incarnation {
        self.around.host.log().incarnation()
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.around.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// How far it has come, if it goes on.
    async fn progress(&self) -> Result<MutexGuard<'_, Progress>, Problem> {
        let progress = self.progress.lock().await;
        match *self.state.borrow() {
            State::Open => Ok(progress),
            State::Ended => Err(Problem::not_found("subscription", &self.key.1)),
            State::Stale => Err(HostError::Busy("the subscription is read again").into()),
        }
    }

    /// How it stands.
    pub async fn status(&self) -> Status {
        let progress = self.progress.lock().await;
        let cursor = progress.floor().map(|place| place.id(self.incarnation(), self.partition).to_cursor());
        Status { cursor, outstanding: progress.outstanding(), parked: progress.parked().count() }
    }

    /// What is parked.
    pub async fn parked(&self) -> Vec<Parked> {
        self.progress.lock().await.parked().cloned().collect()
    }

    /// Hands out changes, at most so many, once there are any; none after the wait.
    pub async fn pull(&self, deliveries_max: usize, wait: Duration) -> Result<Vec<Delivery>, Problem> {
        let deadline = Instant::now() + wait;
        loop {
            let handed_out = self.hand_out(deliveries_max, deadline).await?;
            if !handed_out.is_empty() || Instant::now() >= deadline {
                return Ok(handed_out);
            }
            self.look(deadline).await?;
        }
    }

    async fn hand_out(&self, deliveries_max: usize, deadline: Instant) -> Result<Vec<Delivery>, Problem> {
        let mut progress = self.progress().await?;
        if progress.is_parked_full() {
            let detail = "too many of its changes are parked; retry them, or acknowledge them";
            return Err(Problem::new(Sort::No, "parked_full", "Too many changes are parked", detail));
        }
        let handed_out = progress.hand_out(self.now_ms(), deliveries_max, &now());
        let touched = progress.take_touched();
        if !touched.is_empty() {
            self.keep(&progress, touched).await?;
        }
        if handed_out.is_empty() && !progress.has_room() && Instant::now() >= deadline {
            let detail = "as many changes are handed out as may be; acknowledge some, or wait for their deadline";
            return Err(Problem::new(Sort::CouldNot, "outstanding_full", "Too many changes are outstanding", detail));
        }
        Ok(handed_out)
    }

    /// Waits until there may be something to hand out.
    async fn look(&self, deadline: Instant) -> Result<(), Problem> {
        let rung = self.bell.notified();
        tokio::pin!(rung);
        rung.as_mut().enable();
        let (has_room, due_ms) = {
            let progress = self.progress().await?;
            (progress.has_room(), progress.next_due_ms())
        };
        let due = due_ms.map_or(LOOK_EVERY, |due_ms| Duration::from_millis(due_ms.saturating_sub(self.now_ms())));
        let until = deadline.min(Instant::now() + due.min(LOOK_EVERY));
        if !has_room {
            tokio::select! {
                () = rung => {}
                () = tokio::time::sleep_until(until) => {}
            }
            return Ok(());
        }
        // Whoever else looks at this moment brings what there is for all.
        tokio::select! {
            () = rung => Ok(()),
            () = tokio::time::sleep_until(until) => Ok(()),
            mut feed = self.feed.lock() => self.take_from_stream(&mut feed, until).await,
        }
    }

    async fn take_from_stream(&self, feed: &mut Option<Feed>, until: Instant) -> Result<(), Problem> {
        if feed.is_none() {
            let floor = self.progress().await?.floor();
            let from = floor.map_or(From::Earliest, |place| From::After(place.id(self.incarnation(), self.partition)));
            let selection = self.row.definition.selection();
            let follower = self.around.streams.follow(&self.key.0, from, selection).await?;
            *feed = Some(Feed { follower, used_at: Moment::now() });
        }
        let Some(Feed { follower, used_at }) = feed else { return Ok(()) };
        *used_at = Moment::now();
        let told = follower.next(until.saturating_duration_since(Instant::now())).await;
        let told = match told {
            Ok(told) => told,
            Err(problem) => {
                *feed = None;
                return Err(problem);
            }
        };
        let mut progress = self.progress().await?;
        match told {
            Told::Record(record) => {
                self.take(&mut progress, follower, record);
                while progress.has_room()
                    && let Some(record) = follower.at_hand()
                {
                    self.take(&mut progress, follower, record);
                }
                // Others who pull may have waited for it.
                drop(progress);
                self.bell.notify_waiters();
            }
            Told::CaughtUp(cursor) | Told::Nothing(cursor) => {
                if let Ok(id) = ChangeId::from_cursor(&cursor) {
                    progress.looked_at(Place::of(&id));
                }
            }
            Told::Behind => {}
            Told::Over => return Err(HostError::Closing.into()),
        }
        Ok(())
    }

    fn take(&self, progress: &mut Progress, follower: &Follower, record: Arc<Streamed>) {
        // One of ours that cannot be read is told of by whoever reads the log.
        let Ok(id) = record.change.id.parse::<ChangeId>() else { return };
        let is_wanted = record.change.summary.is_none() && follower.selection().lets_through(&record.change);
        if is_wanted { progress.admit(Place::of(&id), record) } else { progress.looked_at(Place::of(&id)) }
    }

    /// The place of a change's id or a cursor, if it is of this stream and has been told.
    pub async fn place(&self, id: ChangeId) -> Result<Place, Problem> {
        if id.incarnation != self.incarnation() || id.position.partition != self.partition {
            let detail = "it is a change or a cursor of another log or partition";
            return Err(Problem::new(Sort::No, "other_log", "The cursor is of another log", detail));
        }
        let (log, partition) = (self.around.host.log(), self.partition);
        let committed = self.around.host.on_a_thread(move || log.committed(partition)).await?;
        let processed = committed.map_err(HostError::from)?.next_offset;
        if id.position.offset >= processed {
            let detail = format!("it is at {}, and the log was processed up to {partition}:{processed}", id.position);
            return Err(Problem::new(Sort::No, "cursor_ahead", "The cursor is ahead of the log", detail));
        }
        Ok(Place::of(&id))
    }

    /// Does something to how far it has come, and keeps what that came to.
    async fn change<R>(&self, what: impl FnOnce(&mut Progress) -> R) -> Result<R, Problem> {
        let mut progress = self.progress().await?;
        let done = what(&mut progress);
        let touched = progress.take_touched();
        self.keep(&progress, touched).await?;
        drop(progress);
        self.bell.notify_waiters();
        Ok(done)
    }

    async fn keep(&self, progress: &Progress, touched: Vec<(Place, Option<Parked>)>) -> Result<(), Problem> {
        let row = self.row.clone().with(progress.kept());
        let mut changes = vec![rows::keep(&self.key, Some(&row))];
        changes.extend(touched.iter().map(|(place, parked)| rows::keep_parked(&self.key, *place, parked.as_ref())));
        self.write(changes).await
    }

    async fn write(&self, changes: Vec<RowChange>) -> Result<(), Problem> {
        let (topic, partition) = (self.around.topic.clone(), self.partition);
        let written = tokio::task::spawn_blocking(move || topic.write(partition, changes)).await;
        let written = written.unwrap_or_else(|_| Err(LogError::NotAccepting("the server is shutting down".to_owned())));
        written.map_err(|error| {
            tracing::warn!(space = self.key.0, name = self.key.1, %error, "how far a subscription has come was not kept");
            self.state.send_replace(State::Stale);
            Problem::from(HostError::Log(error))
        })
    }

    /// Settles changes; gives how many were not settled before.
    pub async fn settle(&self, places: Vec<Place>) -> Result<usize, Problem> {
        self.change(move |progress| places.into_iter().filter(|place| progress.settle(*place)).count()).await
    }

    /// Settles everything up to a place; gives how many were handed out.
    pub async fn settle_up_to(&self, place: Place) -> Result<usize, Problem> {
        self.change(move |progress| progress.settle_up_to(place)).await
    }

    /// Parks changes that were handed out; gives how many.
    pub async fn park(&self, places: Vec<Place>, reason: String) -> Result<usize, Problem> {
        let parked_at = now();
        self.change(move |progress| {
            places.into_iter().filter(|place| progress.park(*place, &reason, &parked_at)).count()
        })
        .await
    }

    /// Hands out parked changes again, all if none are named; gives how many.
    pub async fn retry(&self, places: Option<Vec<Place>>) -> Result<usize, Problem> {
        self.change(move |progress| {
            let places = places.unwrap_or_else(|| progress.parked_places());
            places.into_iter().filter(|place| progress.retry(*place)).count()
        })
        .await
    }

    /// A change was not handled: it is handed out again after a pause, or parked with the reason where that was the last attempt. Whether it
    /// was parked.
    pub(super) async fn failed(&self, place: Place, pause: Duration, reason: &str) -> Result<bool, Problem> {
        let due_ms = self.now_ms() + u64::try_from(pause.as_millis()).unwrap_or(u64::MAX / 2);
        let attempts_max = self.row.definition.bounds().attempts_max;
        self.change(move |progress| {
            let is_last = progress.attempts(place) >= attempts_max;
            if is_last && progress.park(place, reason, &now()) {
                return true;
            }
            progress.postpone(place, due_ms);
            false
        })
        .await
    }

    /// Has all that is kept of it go, and ends it.
    pub(super) async fn delete(&self) -> Result<(), Problem> {
        let progress = self.progress().await?;
        let mut changes = vec![rows::keep(&self.key, None)];
        changes.extend(progress.kept_aside().map(|place| rows::keep_parked(&self.key, place, None)));
        self.write(changes).await?;
        self.end();
        Ok(())
    }

    /// Lets go of what is not used; keeps where an idle filter has come to. Once in a while.
    pub(super) async fn tidy(&self) {
        let Ok(mut feed) = self.feed.try_lock() else { return };
        if feed.as_ref().is_some_and(|feed| feed.used_at.elapsed() < FEED_IDLE_MAX) {
            return;
        }
        if feed.take().is_some() {
            // What it came to is told by the next operation, if this is not kept.
            let _ = self.change(|_| ()).await;
        }
    }
}

fn now() -> String {
    // To the millisecond, as everywhere.
    Timestamp::now().round(jiff::Unit::Millisecond).unwrap_or(Timestamp::UNIX_EPOCH).to_string()
}
