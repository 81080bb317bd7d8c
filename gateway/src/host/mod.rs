//! What holds log and state, as everything that answers callers sees it: HTTP, its change stream, MCP.
//!
//! A [`Host`] is a handle, cheap to clone. It publishes events and tells what became of them, shows the state of a space at one moment
//! ([`Reading`]), at a position if that is asked for, and gives the log to those who follow it. All waiting has a bound.
//!
//! Reads run beside processing, on a bounded number of threads, and see whole batches only.

mod embedded;
mod error;
mod fates;
mod gather;
mod kafka;
mod log;
mod opened;
mod past;
mod reading;

use std::{path::Path, sync::Arc, thread::JoinHandle, time::Duration};

use recant_eventlog::{LogError, kafka::KafkaLog};
use recant_processor::{
    door::Door,
    driver::DriveError,
    serve::{held::Held, members::Members},
    standalone::{NewEvent, Standalone},
};
use recant_projections::{fold::Fate, store::rocks::Reader};
use recant_proto::{names, position::Position};
use tokio::sync::{Semaphore, watch};

use self::{embedded::Embedded, kafka::Kafka, opened::Opened, past::Past};
pub use self::{
    error::HostError,
    log::{SharedLog, TimedLog},
    reading::Reading,
};
use crate::observe::traces;

/// So many reads are under way at once; more wait for one to end.
const READS_MAX: usize = 16;
/// So many wait at most; beyond that they are refused at once.
const READS_WAITING_MAX: usize = 4_096;

/// How far processing has come.
#[derive(Debug, Clone, Default)]
pub struct Applied {
    /// For each partition the offset behind the last event that is applied.
    pub next_offsets: Vec<u64>,
    /// Why it stands still, if it does.
    pub halted: Option<Arc<DriveError>>,
}

impl Applied {
    fn at(next_offsets: Vec<u64>) -> Applied {
        Applied { next_offsets, halted: None }
    }

    fn next_offset(&self, partition: u32) -> u64 {
        self.next_offsets.get(partition as usize).copied().unwrap_or(0)
    }
}

/// How new an answer must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Freshness {
    /// As the state is.
    #[default]
    Now,
    /// With everything up to a position.
    AtLeast(Position),
    /// With everything that was in the log when the question came.
    Fresh,
}

/// What a writer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Until the events are durable.
    Durable,
    /// Until they are applied, at most so long.
    Applied(Duration),
}

/// An event that is in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Where.
    pub position: Position,
    /// What became of it; none if that was not waited for, or not known in time.
    pub fate: Option<Fate>,
}

/// A handle on log and state.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    kind: Kind,
    log: Arc<dyn SharedLog>,
    applied: watch::Receiver<Applied>,
    opened: Opened,
    reads: Arc<Semaphore>,
    reads_waiting: Semaphore,
}

enum Kind {
    Embedded(Embedded),
    Kafka(Kafka),
    Past(Past),
}

/// What a [`Host`] runs on. It ends once every handle is gone.
pub struct Running {
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Waits until what was appended is processed and everything is closed. Blocks.
    pub fn join(self) {
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the host ended by a panic");
            }
        }
    }
}

impl Host {
    /// Over the embedded log and its state, which this process writes from now on.
    pub fn embedded(standalone: Standalone) -> Result<(Host, Running), HostError> {
        let (embedded, threads) = Embedded::start(standalone)?;
        let (log, applied) = (embedded.log(), embedded.applied());
        Ok((Host::new(Kind::Embedded(embedded), log, applied), Running { threads }))
    }

    /// Over a log on Kafka, the states that this process holds of it, and those who hold the others.
    pub fn kafka(log: Arc<KafkaLog>, door: Door, held: Held, members: Members) -> Result<(Host, Running), HostError> {
        let (kafka, threads) = Kafka::start(log, door, held, members)?;
        let (log, applied) = (kafka.log(), kafka.applied());
        Ok((Host::new(Kind::Kafka(kafka), log, applied), Running { threads }))
    }

    /// Over a data directory that nobody writes, such as `recant replay` makes.
    pub fn past(data: &Path) -> Result<(Host, Running), HostError> {
        let past = Past::open(data)?;
        let (log, applied) = (past.log(), past.applied());
        Ok((Host::new(Kind::Past(past), log, applied), Running { threads: Vec::new() }))
    }

    fn new(kind: Kind, log: Arc<dyn SharedLog>, applied: watch::Receiver<Applied>) -> Host {
        let (reads, reads_waiting) = (Arc::new(Semaphore::new(READS_MAX)), Semaphore::new(READS_WAITING_MAX));
        Host { inner: Arc::new(Inner { kind, log, applied, opened: Opened::default(), reads, reads_waiting }) }
    }

    /// The log, for those who follow it. Reading it blocks.
    pub fn log(&self) -> Arc<dyn SharedLog> {
        self.inner.log.clone()
    }

    /// How far processing has come; changes when there is more.
    pub fn applied(&self) -> watch::Receiver<Applied> {
        self.inner.applied.clone()
    }

    /// The partition of a space.
    pub fn partition_of(&self, space: &str) -> u32 {
        names::partition_of(space.as_bytes(), self.inner.log.partitions())
    }

    /// Whether the state of a partition is here.
    pub fn holds(&self, partition: u32) -> bool {
        self.reader(partition).is_ok()
    }

    /// Whether a partition is processed here.
    pub fn serves(&self, partition: u32) -> bool {
        match &self.inner.kind {
            Kind::Embedded(_) => true,
            Kind::Kafka(kafka) => kafka.serves(partition),
            Kind::Past(_) => false,
        }
    }

    /// Whether other processes may have what is not here.
    pub fn shares_its_log(&self) -> bool {
        matches!(self.inner.kind, Kind::Kafka(_))
    }

    /// Where another process answers for a partition, if one has announced that it does.
    pub fn url_of(&self, partition: u32) -> Option<String> {
        match &self.inner.kind {
            Kind::Kafka(kafka) => kafka.url_of(partition),
            Kind::Embedded(_) | Kind::Past(_) => None,
        }
    }

    /// Whether nothing can be appended here.
    pub fn is_read_only(&self) -> bool {
        matches!(self.inner.kind, Kind::Past(_))
    }

    /// Appends events, which the contract was found to allow, all or none; gives the place and the fate of each, in their order.
    /// When it returns they are on disk. If it is not awaited to its end they may be in the log or not: the same event twice is one.
    pub async fn publish(&self, mut events: Vec<NewEvent>, wait: Wait) -> Result<Vec<Published>, HostError> {
        let traceparent = traces::current();
        for event in events.iter_mut().filter(|event| event.traceparent.is_none()) {
            event.traceparent.clone_from(&traceparent);
        }
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let accepted = match &self.inner.kind {
            Kind::Embedded(embedded) => embedded.append(events).await?,
            Kind::Kafka(kafka) => kafka.append(events).await?,
            Kind::Past(_) => return Err(HostError::ReadOnly),
        };
        let fates = match wait {
            Wait::Durable => None,
            // The other error is that processing has stopped: then, too, the fates are not known.
            Wait::Applied(within) => tokio::time::timeout(within, accepted.fates).await.ok().and_then(Result::ok),
        };
        let mut fates = fates.unwrap_or_default().into_iter();
        Ok(accepted.positions.into_iter().map(|position| Published { position, fate: fates.next() }).collect())
    }

    /// Asks something of a space, of one moment that is as new as is demanded; waits for that at most so long. The question runs on a
    /// thread where it may block.
    pub async fn read<R: Send + 'static>(
        &self,
        space: &str,
        freshness: Freshness,
        within: Duration,
        ask: impl FnOnce(Reading<'_>) -> R + Send + 'static,
    ) -> Result<R, HostError> {
        let partition = self.partition_of(space);
        let wanted = self.reach(partition, freshness, within).await?;
        let reader = self.reader(partition)?;
        let (space, inner) = (space.to_owned(), self.inner.clone());
        self.on_a_thread(move || {
            let reading = Reading::of(&reader, &inner.opened, &space)?;
            match wanted {
                // The state that was looked at may have gone meanwhile, and this be another: what is answered from is what counts.
                Some(wanted) if !reading.has(wanted) => {
                    Err(HostError::NotReached { wanted, at: reading.position(), waited: within })
                }
                _ => Ok(ask(reading)),
            }
        })
        .await?
    }

    /// Does what blocks, when its turn comes.
    pub async fn on_a_thread<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, HostError> {
        let busy = |_| HostError::Busy("too many reads are waiting");
        let waiting = self.inner.reads_waiting.try_acquire().map_err(busy)?;
        let turn = self.inner.reads.clone().acquire_owned().await.map_err(|_| HostError::Closing)?;
        drop(waiting);
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        done.await.map_err(|_| HostError::Closing)
    }

    /// Waits until a partition is as new as is demanded; gives the event that an answer must have, if there is one.
    async fn reach(
        &self,
        partition: u32,
        freshness: Freshness,
        within: Duration,
    ) -> Result<Option<Position>, HostError> {
        let wanted = match freshness {
            Freshness::Now => return Ok(None),
            Freshness::AtLeast(position) if position.partition != partition => {
                return Err(HostError::OtherPartition { wanted: position, partition });
            }
            Freshness::AtLeast(position) => position,
            Freshness::Fresh => {
                let Some(offset) = self.last_event(partition).await? else { return Ok(None) };
                Position { partition, offset }
            }
        };
        let mut applied = self.applied();
        let has_left = || self.shares_its_log() && !self.holds(partition);
        let is_over = |applied: &Applied| {
            applied.next_offset(partition) > wanted.offset || applied.halted.is_some() || has_left()
        };
        // Its sender goes when processing ends.
        let _ = tokio::time::timeout(within, applied.wait_for(is_over)).await;
        let applied = applied.borrow();
        let next_offset = applied.next_offset(partition);
        if next_offset > wanted.offset {
            return Ok(Some(wanted));
        }
        if has_left() {
            return Err(HostError::Elsewhere(partition));
        }
        if let Some(error) = &applied.halted {
            return Err(HostError::Halted(error.clone()));
        }
        let at = Position { partition, offset: next_offset.saturating_sub(1) };
        Err(HostError::NotReached { wanted, at, waited: within })
    }

    /// The offset of the last event that is in the log now; none if there is none.
    async fn last_event(&self, partition: u32) -> Result<Option<u64>, HostError> {
        let log = self.log();
        let bounds = move || log.bounds(recant_eventlog::Topic::Events, partition);
        let end = self.on_a_thread(bounds).await??.end;
        if let Kind::Kafka(kafka) = &self.inner.kind {
            // What lies at the end may be no event.
            let (log, applied) = (kafka.log(), self.inner.applied.borrow().next_offset(partition));
            if applied < end && self.on_a_thread(move || kafka::has_none(&log, partition, applied, end)).await?? {
                return Ok(applied.checked_sub(1));
            }
        }
        Ok(end.checked_sub(1))
    }

    fn reader(&self, partition: u32) -> Result<Reader, HostError> {
        let reader = match &self.inner.kind {
            Kind::Embedded(embedded) => embedded.reader(partition),
            Kind::Kafka(kafka) => return kafka.reader(partition).ok_or(HostError::Elsewhere(partition)),
            Kind::Past(past) => past.reader(partition),
        };
        reader.ok_or(HostError::Log(LogError::NoPartition(partition)))
    }
}
