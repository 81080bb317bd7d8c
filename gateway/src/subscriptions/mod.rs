//! Named subscriptions: for those who cannot keep a cursor themselves.
//!
//! The server keeps how far each has come ([`progress`]), in a compacted topic beside the log ([`rows`]): a subscription is no belief, and
//! no state or digest knows of it. What is handed out ([`subscription`]) and not acknowledged in time is handed out again, in the order of
//! the space; what cannot be handled is parked, with a reason, and can be retried. Delivery is at least once.
//!
//! A subscription lives where its space does: the process that serves the space's partition takes the partition of the topic, too, which
//! fences whoever had it before. So nothing of it is written by two processes, and a gateway that does not serve the partition says
//! `elsewhere`. What was handed out and not acknowledged when a partition moves, or a process dies, is handed out again by the next.

mod definition;
mod measures;
mod progress;
mod pushing;
mod rows;
mod subscription;
mod webhook;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use recant_eventlog::{LogError, compacted::CompactedTopic};
use tokio::sync::{Mutex, RwLock};

pub use self::{
    definition::{Definition, Push},
    progress::{Delivery, Parked, Place},
    subscription::{Status, Subscription},
};
use self::{
    progress::Kept,
    rows::{Found, Key, Row},
    subscription::{State, Surroundings},
    webhook::Webhooks,
};
use crate::{
    access::{Access, Caller, Right},
    changes::{self, From, PlaceError},
    host::{Host, HostError},
    problem::{Problem, Sort},
    stream::Streams,
};

/// So many subscriptions a space can have.
const OF_A_SPACE_MAX: usize = 100;
/// So many a process has.
const SUBSCRIPTIONS_MAX: usize = 10_000;
/// So often it is looked which partitions are served here.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// So often they are counted.
const MEASURE_EVERY: Duration = Duration::from_secs(2);
/// So often unused feeds are let go.
const TIDY_EVERY: Duration = Duration::from_secs(30);

/// Why there are no subscriptions.
#[derive(Debug, thiserror::Error)]
pub enum SubscriptionError {
    /// Webhooks cannot be sent.
    #[error("webhooks cannot be sent: {0}")]
    Client(String),
}

/// The subscriptions of the spaces that are served here.
#[derive(Clone)]
pub struct Subscriptions {
    inner: Arc<Inner>,
}

struct Inner {
    around: Surroundings,
    webhooks: Arc<Webhooks>,
    partitions: Vec<Partition>,
    count: AtomicUsize,
}

#[derive(Default)]
struct Partition {
    held: RwLock<Option<Held>>,
    /// Held while one is made, so that a name is given once.
    making: Mutex<()>,
}

/// What is held of a partition that is served here.
struct Held {
    subscriptions: BTreeMap<Key, Arc<Subscription>>,
    /// Whether the topic's partition is taken: where nothing stands there, only once there is something to write.
    is_taken: bool,
}

impl Subscriptions {
    /// Begins with what stands in the topic, of the partitions that are served here.
    pub async fn start(
        host: Host,
        streams: Streams,
        topic: Arc<dyn CompactedTopic>,
        access: Arc<Access>,
    ) -> Result<Subscriptions, SubscriptionError> {
        let webhooks = Arc::new(Webhooks::new(access)?);
        let partitions = (0..host.log().partitions()).map(|_| Partition::default()).collect();
        let around = Surroundings { host, streams, topic, begun: Instant::now() };
        let subscriptions =
            Subscriptions { inner: Arc::new(Inner { around, webhooks, partitions, count: AtomicUsize::new(0) }) };
        subscriptions.look().await;
        tokio::spawn(subscriptions.clone().keep_looking());
        Ok(subscriptions)
    }

    async fn keep_looking(self) {
        let (mut tidied_at, mut measured_at) = (Instant::now(), Instant::now());
        let mut is_over = self.inner.around.streams.is_over();
        loop {
            tokio::select! {
                () = crate::stream::over(&mut is_over) => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            self.look().await;
            if measured_at.elapsed() >= MEASURE_EVERY {
                measured_at = Instant::now();
                self.measure().await;
            }
            if tidied_at.elapsed() >= TIDY_EVERY {
                tidied_at = Instant::now();
                for subscription in self.all().await {
                    subscription.tidy().await;
                }
            }
        }
    }

    /// Takes the partitions that are served here, and lets go of those that are not any more.
    async fn look(&self) {
        for (number, partition) in (0..).zip(&self.inner.partitions) {
            let is_served = self.inner.around.host.serves(number);
            let is_current = match &*partition.held.read().await {
                None => !is_served,
                Some(held) => {
                    let is_stale = |subscription: &Arc<Subscription>| *subscription.state().borrow() == State::Stale;
                    is_served && !held.subscriptions.values().any(is_stale)
                }
            };
            if is_current {
                continue;
            }
            let mut held = partition.held.write().await;
            self.let_go(number, &mut held).await;
            if !is_served {
                continue;
            }
            match self.take(number).await {
                Ok(taken) => *held = Some(taken),
                Err(error) => {
                    tracing::warn!(partition = number, %error, "the subscriptions could not be read, and are tried again");
                }
            }
        }
    }

    /// Lets go of a partition. If it is served here it is taken anew, and read, by whoever looks next.
    async fn let_go(&self, partition: u32, held: &mut Option<Held>) {
        let Some(before) = held.take() else { return };
        self.inner.count.fetch_sub(before.subscriptions.len(), Ordering::Relaxed);
        before.subscriptions.values().for_each(|subscription| subscription.end());
        let topic = self.inner.around.topic.clone();
        // It can block, as all calls of the topic; that it was broken off would be told by the next.
        let _ = tokio::task::spawn_blocking(move || topic.let_go(partition)).await;
    }

    async fn take(&self, partition: u32) -> Result<Held, Problem> {
        let topic = self.inner.around.topic.clone();
        let taken = tokio::task::spawn_blocking(move || {
            Ok::<_, LogError>(if topic.may_hold_any(partition)? { Some(topic.take(partition)?) } else { None })
        });
        let taken = taken.await.map_err(|_| HostError::Closing)?.map_err(HostError::from)?;
        let is_taken = taken.is_some();
        let found = rows::read(&taken.unwrap_or_default());
        let found = found.map_err(|error| {
            Problem::new(Sort::CouldNot, "format", "The log is not one that this version can read", error.to_string())
        })?;
        let subscriptions: BTreeMap<Key, Arc<Subscription>> =
            found.into_iter().map(|(key, found)| (key.clone(), self.begin(key, partition, found))).collect();
        self.inner.count.fetch_add(subscriptions.len(), Ordering::Relaxed);
        Ok(Held { subscriptions, is_taken })
    }

    fn begin(&self, key: Key, partition: u32, found: Found) -> Arc<Subscription> {
        let subscription = Subscription::of(key, partition, self.inner.around.clone(), found);
        if subscription.row().definition.push.is_some() {
            let (webhooks, host) = (self.inner.webhooks.clone(), self.inner.around.host.clone());
            tokio::spawn(pushing::push(subscription.clone(), webhooks, host));
        }
        subscription
    }

    async fn measure(&self) {
        let (mut outstanding, mut parked) = (0, 0);
        let all = self.all().await;
        for subscription in &all {
            let status = subscription.status().await;
            outstanding += status.outstanding as u64;
            parked += status.parked as u64;
        }
        let standing = &*measures::STANDING;
        standing.subscriptions.store(all.len() as u64, Ordering::Relaxed);
        standing.outstanding.store(outstanding, Ordering::Relaxed);
        standing.parked.store(parked, Ordering::Relaxed);
    }

    async fn all(&self) -> Vec<Arc<Subscription>> {
        let mut all = Vec::new();
        for partition in &self.inner.partitions {
            let held = partition.held.read().await;
            all.extend(held.iter().flat_map(|held| held.subscriptions.values().cloned()));
        }
        all
    }

    /// Does something with what is held of a space's partition.
    async fn with<R>(&self, space: &str, what: impl FnOnce(&mut Held) -> R) -> Result<R, HostError> {
        let number = self.inner.around.host.partition_of(space);
        let partition = self.partition(number)?;
        match &mut *partition.held.write().await {
            Some(held) => Ok(what(held)),
            None if self.inner.around.host.serves(number) => Err(HostError::Busy("the subscriptions are being read")),
            None => Err(HostError::Elsewhere(number)),
        }
    }

    fn partition(&self, number: u32) -> Result<&Partition, HostError> {
        self.inner.partitions.get(number as usize).ok_or(HostError::Log(LogError::NoPartition(number)))
    }

    /// The subscriptions of a space that are a caller's.
    pub async fn list(&self, caller: &Caller, space: &str) -> Result<Vec<Arc<Subscription>>, Problem> {
        let all = self.with(space, |held| {
            let of_space = held.subscriptions.iter().filter(|((of, _), _)| of == space);
            of_space.map(|(_, subscription)| subscription.clone()).collect::<Vec<_>>()
        });
        Ok(all.await?.into_iter().filter(|subscription| is_theirs(caller, space, subscription)).collect())
    }

    /// A subscription, if it is the caller's; another's is as one that does not exist.
    pub async fn get(&self, caller: &Caller, space: &str, name: &str) -> Result<Arc<Subscription>, Problem> {
        let key = (space.to_owned(), name.to_owned());
        let found = self.with(space, |held| held.subscriptions.get(&key).cloned()).await?;
        let theirs = found.filter(|subscription| is_theirs(caller, space, subscription));
        theirs.ok_or_else(|| Problem::not_found("subscription", name))
    }

    /// Makes a subscription that begins somewhere; and whether it was made now. The same definition again is the same subscription.
    pub async fn make(
        &self,
        caller: &Caller,
        space: &str,
        definition: Definition,
        from: From,
    ) -> Result<(Arc<Subscription>, bool), Problem> {
        definition.check()?;
        let secret = self.allow_push(caller, space, &definition)?;
        let number = self.inner.around.host.partition_of(space);
        let _one_at_a_time = self.partition(number)?.making.lock().await;
        let key = (space.to_owned(), definition.name.clone());
        let (found, of_space) = self
            .with(space, |held| {
                let of_space = held.subscriptions.keys().filter(|(of, _)| of == space).count();
                (held.subscriptions.get(&key).cloned(), of_space)
            })
            .await?;
        if let Some(found) = found {
            if found.row().definition == definition && is_theirs(caller, space, &found) {
                return Ok((found, false));
            }
            let detail = format!("{:?} is the name of another subscription of this space", definition.name);
            return Err(Problem::new(Sort::No, "subscription_taken", "The name is taken", detail));
        }
        if of_space >= OF_A_SPACE_MAX || self.inner.count.load(Ordering::Relaxed) >= SUBSCRIPTIONS_MAX {
            let detail = format!("a space has at most {OF_A_SPACE_MAX}, a process {SUBSCRIPTIONS_MAX}; delete some");
            return Err(Problem::new(Sort::No, "too_many_subscriptions", "There are too many subscriptions", detail));
        }
        let kept = Kept { floor: self.floor_of(number, from).await?, ..Kept::default() };
        let row = Row::new(definition, caller.name().map(str::to_owned), Timestamp::now().to_string(), secret);
        let row = row.with(kept);
        self.write_first(number, &key, &row).await?;
        let subscription = self.begin(key.clone(), number, Found { row, parked: BTreeMap::new() });
        let added = subscription.clone();
        self.with(space, move |held| held.subscriptions.insert(key, added)).await?;
        self.inner.count.fetch_add(1, Ordering::Relaxed);
        Ok((subscription, true))
    }

    /// Lets a definition push, if it wants to; gives a new secret then.
    fn allow_push(&self, caller: &Caller, space: &str, definition: &Definition) -> Result<Option<String>, Problem> {
        let Some(push) = &definition.push else { return Ok(None) };
        // It goes on when its caller's token has gone.
        caller.check(space, Right::Operate)?;
        self.inner.webhooks.check(&push.url).map_err(|refused| {
            Problem::new(Sort::No, "destination_refused", "Changes may not be pushed there", refused.to_string())
        })?;
        let no_randomness =
            || Problem::new(Sort::CouldNot, "io", "Something outside recant failed", "there are no random bytes");
        webhook::new_secret().map(Some).ok_or_else(no_randomness)
    }

    /// The last place before where it is to begin; none for the earliest that is kept.
    async fn floor_of(&self, partition: u32, from: From) -> Result<Option<Place>, Problem> {
        let host = &self.inner.around.host;
        let log = host.log();
        let floor = host.on_a_thread(move || {
            Ok::<_, PlaceError>(match from {
                From::Earliest => None,
                // Whether it can be followed from there is told now.
                From::After(seen) => changes::start(&*log, partition, &from).map(|_| Some(Place::of(&seen)))?,
                From::Latest => {
                    let processed = log.committed(partition)?.next_offset;
                    Some(Place { offset: processed.saturating_sub(1), index: u32::MAX })
                }
                From::Time(_) => {
                    let next = changes::start(&*log, partition, &from)?;
                    let last = changes::before(&*log, partition, next)?;
                    last.and_then(|change| change.id.parse().ok()).map(|id| Place::of(&id))
                }
            })
        });
        Ok(floor.await??)
    }

    /// Keeps a new subscription. Where nothing stood before, the topic's partition is taken first.
    async fn write_first(&self, partition: u32, key: &Key, row: &Row) -> Result<(), Problem> {
        let is_taken = self.with(&key.0, |held| std::mem::replace(&mut held.is_taken, true)).await?;
        let (topic, changes) = (self.inner.around.topic.clone(), vec![rows::keep(key, Some(row))]);
        let written = tokio::task::spawn_blocking(move || {
            // What another process has written meanwhile has not been read.
            if !is_taken && !topic.take(partition)?.is_empty() {
                return Err(LogError::Taken(partition));
            }
            topic.write(partition, changes)
        });
        let written = written.await.map_err(|_| HostError::Closing)?;
        if written.is_err() {
            self.let_go(partition, &mut *self.partition(partition)?.held.write().await).await;
        }
        Ok(written.map_err(HostError::from)?)
    }

    /// Deletes a subscription, with all that is parked of it.
    pub async fn delete(&self, subscription: &Arc<Subscription>) -> Result<(), Problem> {
        let space = subscription.space();
        let name = subscription.row().definition.name.clone();
        let key = (space.to_owned(), name);
        let number = self.inner.around.host.partition_of(space);
        let _one_at_a_time = self.partition(number)?.making.lock().await;
        subscription.delete().await?;
        let gone = self.with(space, |held| held.subscriptions.remove(&key)).await?;
        if gone.is_some() {
            self.inner.count.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Whether a caller may use a subscription: its own, or any where it has the right to operate.
fn is_theirs(caller: &Caller, space: &str, subscription: &Subscription) -> bool {
    caller.name() == subscription.row().owner.as_deref() || caller.may(Right::Operate, space)
}
