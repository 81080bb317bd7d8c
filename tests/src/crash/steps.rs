//! The named steps at which a process is killed.

use std::fmt;

/// What a directory is like when a process that is to die at some step starts in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// It holds a log and its state, which the process goes on with.
    Work,
    /// Its state is far behind its log.
    Recovery,
    /// There is nothing in it.
    Creation,
}

/// A step. Most are reached in the thread that takes them, which then goes no further; some are seen from aside, by a thread
/// that looks at what the others are doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each has a name that says it, in `name`")]
pub enum Step {
    AppendBegins,
    AppendUnderWay,
    AppendReturned,
    AppendTold,
    AcquireBegins,
    Acquired,
    Polled,
    Folding,
    Folded,
    CommitBegins,
    CommitUnderWay,
    CommitBetweenPieces,
    CommitReturned,
    Published,
    StoreBegins,
    StoreUnderWay,
    StoreWritten,
    Stored,
    Idle,
    LogTableFlushed,
    LogCompacting,
    StateCompacting,
    LogOpening,
    StateOpening,
    RecoveryAcquired,
    RecoveryFolding,
    RecoveryStoreBegins,
    RecoveryStored,
    Recovered,
    LogBeingCreated,
    LogCreated,
    StateBeingCreated,
    StateCreated,
}

impl Step {
    /// Every step.
    pub const ALL: [Step; 33] = [
        Step::AppendBegins,
        Step::AppendUnderWay,
        Step::AppendReturned,
        Step::AppendTold,
        Step::AcquireBegins,
        Step::Acquired,
        Step::Polled,
        Step::Folding,
        Step::Folded,
        Step::CommitBegins,
        Step::CommitUnderWay,
        Step::CommitBetweenPieces,
        Step::CommitReturned,
        Step::Published,
        Step::StoreBegins,
        Step::StoreUnderWay,
        Step::StoreWritten,
        Step::Stored,
        Step::Idle,
        Step::LogTableFlushed,
        Step::LogCompacting,
        Step::StateCompacting,
        Step::LogOpening,
        Step::StateOpening,
        Step::RecoveryAcquired,
        Step::RecoveryFolding,
        Step::RecoveryStoreBegins,
        Step::RecoveryStored,
        Step::Recovered,
        Step::LogBeingCreated,
        Step::LogCreated,
        Step::StateBeingCreated,
        Step::StateCreated,
    ];

    /// Its name, on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Step::AppendBegins => "append_begins",
            Step::AppendUnderWay => "append_under_way",
            Step::AppendReturned => "append_returned_and_not_yet_told",
            Step::AppendTold => "append_told",
            Step::AcquireBegins => "acquire_begins",
            Step::Acquired => "acquired",
            Step::Polled => "driver_polled",
            Step::Folding => "driver_folding",
            Step::Folded => "driver_folded",
            Step::CommitBegins => "commit_begins",
            Step::CommitUnderWay => "commit_under_way",
            Step::CommitBetweenPieces => "commit_between_pieces",
            Step::CommitReturned => "commit_returned",
            Step::Published => "driver_published",
            Step::StoreBegins => "store_begins",
            Step::StoreUnderWay => "store_under_way",
            Step::StoreWritten => "store_written",
            Step::Stored => "driver_stored",
            Step::Idle => "driver_idle",
            Step::LogTableFlushed => "log_flushing_a_table",
            Step::LogCompacting => "log_compacting",
            Step::StateCompacting => "state_compacting",
            Step::LogOpening => "log_opening_writes_a_table",
            Step::StateOpening => "state_opening_writes_a_table",
            Step::RecoveryAcquired => "recovery_acquired",
            Step::RecoveryFolding => "recovery_folding",
            Step::RecoveryStoreBegins => "recovery_store_begins",
            Step::RecoveryStored => "recovery_stored",
            Step::Recovered => "recovered",
            Step::LogBeingCreated => "log_being_created",
            Step::LogCreated => "log_created",
            Step::StateBeingCreated => "state_being_created",
            Step::StateCreated => "state_created",
        }
    }

    /// The step with a name.
    pub fn named(name: &str) -> Option<Step> {
        Step::ALL.into_iter().find(|step| step.name() == name)
    }

    /// Where it is reached.
    pub fn ground(self) -> Ground {
        match self {
            Step::RecoveryAcquired
            | Step::RecoveryFolding
            | Step::RecoveryStoreBegins
            | Step::RecoveryStored
            | Step::Recovered => Ground::Recovery,
            Step::LogBeingCreated | Step::LogCreated | Step::StateBeingCreated | Step::StateCreated => Ground::Creation,
            _ => Ground::Work,
        }
    }

    /// A process dies when it has reached the step so many times at most. Steps that come once in a life have 1.
    pub fn count_max(self) -> u64 {
        match self {
            Step::AcquireBegins
            | Step::Acquired
            | Step::LogOpening
            | Step::StateOpening
            | Step::RecoveryAcquired
            | Step::Recovered
            | Step::StateCompacting
            | Step::LogCreated
            | Step::StateCreated => 1,
            Step::LogCompacting | Step::RecoveryStoreBegins | Step::RecoveryStored => 3,
            Step::LogTableFlushed => 5,
            Step::LogBeingCreated | Step::StateBeingCreated => 7,
            Step::CommitBetweenPieces => 5,
            Step::AppendBegins | Step::AppendReturned | Step::AppendTold => 120,
            Step::AppendUnderWay => 60,
            Step::Folding | Step::RecoveryFolding => 1_500,
            // The driver is seldom idle under load, and a write to the state seldom lasts long enough to be seen.
            Step::Idle => 6,
            Step::StoreUnderWay => 1,
            _ => 15,
        }
    }

    /// Whether it is in the writing of a table.
    pub fn is_of_a_table(self) -> bool {
        self.leaves_a_torn_table()
            || matches!(self, Step::LogTableFlushed | Step::LogCompacting | Step::StateCompacting)
    }

    /// Whether it must leave a table behind that is not finished. RocksDB's own threads write tables in a moment; there it is
    /// enough that they are at work.
    pub fn leaves_a_torn_table(self) -> bool {
        matches!(self, Step::LogOpening | Step::StateOpening)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The moment at which a process dies: when it has reached a step for the `count`th time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The step.
    pub step: Step,
    /// From 1 on.
    pub count: u64,
}

impl Moment {
    /// As it stands on the command line: `step:count`.
    pub fn parse(text: &str) -> Option<Moment> {
        let (step, count) = text.split_once(':')?;
        Some(Moment { step: Step::named(step)?, count: count.parse().ok()? })
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.step, self.count)
    }
}
