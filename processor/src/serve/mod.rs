//! Serves the partitions of a log on Kafka that the group gives to this process.
//!
//! One thread speaks with the group ([`Server::run`]); each partition has one of its own (`worker.rs`), which goes through the phases
//! of `phases.rs`. A partition that is revoked is given up once its batch is whole, and the group waits for that; one that
//! stays is not touched.
//!
//! Whoever takes a partition needs no state of it: what it lacks it folds from the log, silently up to what was published; and what
//! has a state that is of no use puts it aside (`mending.rs`). With standbys (`standby.rs`) it lacks next to nothing.
//!
//! In `recant.members` each process announces what it serves, and where it answers (`members.rs`).

pub mod held;
pub mod members;
mod mending;
pub mod phases;
mod snapshotting;
mod standby;
mod worker;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender, unbounded};
use recant_eventlog::{
    LogError, ReadLimit, ReadLog,
    kafka::{KafkaLog, Membership, Turn},
};
use recant_projections::fold::Forms;

pub use self::snapshotting::SnapshotOptions;
use self::{
    held::Held,
    members::{Announcement, Members},
    phases::Ended,
    standby::Standby,
    worker::{Work, Worker},
};
use crate::{
    driver::{BatchLimit, DriveError},
    memory::Memory,
    snapshots::{Remote, SnapshotError, Snapshots},
};

/// A batch is what has gathered, up to this. A commit costs the same for one event and for thousands.
const BATCH: ReadLimit = ReadLimit { records_max: 10_000, bytes_max: 8 << 20 };

/// So often the group and the workers are asked for news.
const TURN_WAIT: Duration = Duration::from_millis(100);

/// What happens while a process serves.
#[derive(Debug, Clone)]
pub enum Told {
    /// The group gave these partitions to this process.
    Assigned(Vec<u32>),
    /// A partition has caught up, and follows the log's end.
    Serving {
        /// Which.
        partition: u32,
        /// Up to where its state is.
        next_offset: u64,
    },
    /// Something failed that may pass; the partition is acquired anew.
    Interrupted {
        /// Which.
        partition: u32,
        /// What failed.
        error: String,
    },
    /// A partition stands still, until someone has done something about it.
    Halted {
        /// Which.
        partition: u32,
        /// Why.
        error: Arc<DriveError>,
    },
    /// A snapshot of a partition is where snapshots are.
    SnapshotMade {
        /// Which.
        partition: u32,
        /// Up to where it has applied events.
        next_offset: u64,
        /// What it holds.
        bytes: u64,
        /// What of that no earlier one had.
        uploaded_bytes: u64,
    },
    /// One could not be made.
    SnapshotFailed {
        /// Which partition.
        partition: u32,
        /// What failed.
        error: String,
    },
    /// A snapshot is not good enough to be restored; an older one is tried, or the log.
    SnapshotSkipped {
        /// Which partition.
        partition: u32,
        /// Where its manifest is.
        snapshot: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A snapshot was put in the place of the state.
    Restored {
        /// Which partition.
        partition: u32,
        /// Up to where it has applied events.
        next_offset: u64,
        /// What was downloaded.
        bytes: u64,
    },
    /// The log loses events: those at the position of the oldest snapshot, which is of no use then, or any, as it is set now. If
    /// those behind the newest follow, a lost disk is a lost state.
    RetentionAlarm {
        /// Which partition.
        partition: u32,
        /// Where the log begins now.
        earliest: u64,
        /// Up to where the oldest snapshot has applied events.
        oldest_snapshot: u64,
        /// How long events are kept, if not for ever.
        retention_ms: Option<u64>,
    },
    /// A state was of no use, and is made anew, from a snapshot or from the log.
    StatePutAside {
        /// Which partition's.
        partition: u32,
        /// What was found.
        error: String,
        /// Where the old one is kept.
        kept: PathBuf,
    },
    /// A partition is no longer this process's.
    Ended {
        /// Which.
        partition: u32,
        /// How.
        ended: Ended,
    },
}

/// What a server is to be.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where states are; each process needs a directory of its own.
    pub data: PathBuf,
    /// A name that the process keeps over restarts, for static membership.
    pub static_member: Option<String>,
    /// Whether the states of the partitions that others serve are kept up, too.
    pub keeps_standbys: bool,
    /// What it may take of memory.
    pub memory: Memory,
    /// Snapshots of the states, if any are made.
    pub snapshots: Option<SnapshotOptions>,
}

/// Why a process cannot begin to serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The log or its group failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The place for snapshots cannot be used.
    #[error(transparent)]
    Snapshots(#[from] SnapshotError),
}

/// A process that serves.
pub struct Server {
    log: Arc<KafkaLog>,
    options: ServerOptions,
    membership: Membership,
    /// Its name in `recant.members`.
    member: String,
    /// Where it answers, if it does.
    url: Option<String>,
    workers: BTreeMap<u32, Worker>,
    standbys: BTreeMap<u32, Standby>,
    snapshots: Option<Arc<Snapshots>>,
    held: Held,
    tell: Sender<Told>,
    told: Receiver<Told>,
}

impl Server {
    /// Joins the group.
    pub fn join(log: KafkaLog, options: ServerOptions) -> Result<Server, ServeError> {
        let snapshots = match &options.snapshots {
            Some(wanted) => {
                Some(Arc::new(Snapshots::of(Remote::open(&wanted.url, std::env::vars())?, log.incarnation())))
            }
            None => None,
        };
        let membership = Membership::join(log.settings(), options.static_member.as_deref())?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let own_name = || format!("{}:{}", host.trim(), std::process::id());
        let member = options.static_member.clone().unwrap_or_else(own_name);
        // Each worker tells of its own changes of phase, and the server listens many times a second.
        let (tell, told) = unbounded();
        Ok(Server {
            log: Arc::new(log),
            options,
            membership,
            member,
            url: None,
            workers: BTreeMap::new(),
            standbys: BTreeMap::new(),
            snapshots,
            held: Held::default(),
            tell,
            told,
        })
    }

    /// The states that it holds, for those who read them while it serves.
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// The members, this one left out where it is looked for.
    pub fn members(&self) -> Result<Members, LogError> {
        Members::follow(self.log.clone(), &self.member)
    }

    /// The same, announced as one that answers at a URL.
    pub fn answering_at(self, url: String) -> Server {
        Server { url: Some(url), ..self }
    }

    /// Serves until it is told to stop, and then gives everything up. `observe` is told of what happens.
    pub fn run(mut self, stop: &AtomicBool, observe: &mut dyn FnMut(&Told)) -> Result<(), LogError> {
        let all: Vec<u32> = (0..self.log.partitions()).collect();
        self.start_standbys(&all)?;
        let served = loop {
            if stop.load(Ordering::SeqCst) {
                break Ok(());
            }
            if let Err(error) = self.turn(observe) {
                break Err(error);
            }
        };
        self.end_standbys(&all);
        self.end_workers(&all, false);
        self.hear(observe);
        if let Err(error) = self.log.announce(&self.member, None) {
            tracing::warn!(%error, "the member's announcement stays where it is");
        }
        served
    }

    fn turn(&mut self, observe: &mut dyn FnMut(&Told)) -> Result<(), LogError> {
        let turn = self.membership.poll(TURN_WAIT)?;
        self.hear(observe);
        match turn {
            None => return Ok(()),
            Some(Turn::Assigned(partitions)) => {
                self.membership.accept(&partitions)?;
                self.end_standbys(&partitions);
                self.start_workers(&partitions)?;
                observe(&Told::Assigned(partitions));
            }
            Some(Turn::Revoked(partitions)) => {
                self.end_workers(&partitions, false);
                self.hear(observe);
                self.membership.release(&partitions)?;
                self.start_standbys(&partitions)?;
            }
            Some(Turn::Lost(partitions)) => {
                self.end_workers(&partitions, true);
                self.hear(observe);
                self.membership.release(&partitions)?;
                self.start_standbys(&partitions)?;
            }
        }
        self.announce();
        Ok(())
    }

    fn hear(&self, observe: &mut dyn FnMut(&Told)) {
        self.told.try_iter().for_each(|told| observe(&told));
    }

    fn start_workers(&mut self, partitions: &[u32]) -> Result<(), LogError> {
        for partition in partitions {
            let worker = Worker::start(self.work(*partition), self.tell.clone())?;
            self.workers.insert(*partition, worker);
        }
        Ok(())
    }

    fn work(&self, partition: u32) -> Work {
        // As if all partitions could come here: what is open of a space is not closed because another partition came.
        let of_partition = self.options.memory.spaces_bytes / self.log.partitions() as usize;
        let forms = Forms { memory_budget_bytes: of_partition, ..Forms::default() };
        Work {
            log: self.log.clone(),
            data: self.options.data.clone(),
            partition,
            limit: BatchLimit { read: BATCH, forms, ..BatchLimit::default() },
            memory: self.options.memory.clone(),
            snapshots: self.snapshots.clone().zip(self.options.snapshots.clone()),
            held: self.held.clone(),
        }
    }

    fn start_standbys(&mut self, partitions: &[u32]) -> Result<(), LogError> {
        if !self.options.keeps_standbys {
            return Ok(());
        }
        for partition in partitions {
            let standby = Standby::start(self.work(*partition), self.tell.clone())?;
            self.standbys.insert(*partition, standby);
        }
        Ok(())
    }

    /// Ends some standbys, all at the same time.
    fn end_standbys(&mut self, partitions: &[u32]) {
        let ending: Vec<Standby> = partitions.iter().filter_map(|partition| self.standbys.remove(partition)).collect();
        ending.iter().for_each(Standby::end);
        ending.into_iter().for_each(Standby::join);
    }

    /// Ends some partitions, all at the same time.
    fn end_workers(&mut self, partitions: &[u32], are_lost: bool) {
        let ending: Vec<Worker> = partitions.iter().filter_map(|partition| self.workers.remove(partition)).collect();
        for worker in &ending {
            if are_lost { worker.orders.lose() } else { worker.orders.give_up() }
        }
        ending.into_iter().for_each(Worker::join);
    }

    /// Who serves what is of use to those who ask, and no condition for serving.
    fn announce(&self) {
        let announcement = Announcement {
            member: self.member.clone(),
            partitions: self.workers.keys().copied().collect(),
            pid: std::process::id(),
            url: self.url.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let announced = serde_json::to_vec(&announcement)
            .map_err(|error| LogError::Io(error.to_string()))
            .and_then(|bytes| self.log.announce(&self.member, Some(&bytes)));
        if let Err(error) = announced {
            tracing::warn!(%error, "the member could not be announced");
        }
    }
}
