//! Every step at which a process can die, and everything else that can go wrong: by name, and counted.

macro_rules! named {
    ($(#[$about:meta])+ $name:ident, $count:ident { $($(#[doc = $doc:literal])+ $variant:ident = $text:literal,)+ }) => {
        $(#[$about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[doc = $doc])+ $variant,)+ }

        impl $name {
            /// Every one, in the order in which they are printed.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }
        }

        /// How many there are.
        pub const $count: usize = $name::ALL.len();
    };
}

named! {
    /// A step of the driver, the log or the store, at which a process can die.
    Step, STEPS {
        /// A partition was taken, and its state brought to where the log is.
        DriverOpened = "driver.opened",
        /// Events were taken from the log.
        DriverPolled = "driver.polled",
        /// There were none.
        DriverIdle = "driver.idle",
        /// They were applied to the open batch.
        DriverFolded = "driver.folded",
        /// Outputs and position are in the log.
        DriverPublished = "driver.published",
        /// Nothing was published, and the open batch is forgotten.
        DriverAborted = "driver.aborted",
        /// State and position are written.
        DriverStored = "driver.stored",
        /// The log is about to be read.
        LogReadBefore = "log.read.before",
        /// It was read.
        LogReadAfter = "log.read.after",
        /// A transaction begins.
        TransactionBegin = "transaction.begin",
        /// An output is about to be sent.
        TransactionSendBefore = "transaction.send.before",
        /// It is sent.
        TransactionSendAfter = "transaction.send.after",
        /// The position is about to be sent.
        TransactionPositionBefore = "transaction.position.before",
        /// It is sent.
        TransactionPositionAfter = "transaction.position.after",
        /// A commit is about to be sent.
        TransactionCommitBefore = "transaction.commit.before",
        /// A commit is decided, and its markers are not written; they are without its sender.
        TransactionCommitInFlight = "transaction.commit.in_flight",
        /// A commit is in the log, and its sender has not heard so.
        TransactionCommitAfter = "transaction.commit.after",
        /// An abort is about to be sent.
        TransactionAbortBefore = "transaction.abort.before",
        /// The transaction is aborted.
        TransactionAbortAfter = "transaction.abort.after",
        /// The state is read: in the middle of a fold.
        StoreRead = "store.read",
        /// A batch is about to be written.
        StoreWriteBefore = "store.write.before",
        /// It is written.
        StoreWriteAfter = "store.write.after",
        /// What another process published is about to be read.
        StandbyRead = "standby.read",
        /// The state is read: in the middle of folding it.
        StandbyFold = "standby.fold",
        /// What it came to is about to be written.
        StandbyWriteBefore = "standby.write.before",
        /// It is written.
        StandbyWriteAfter = "standby.write.after",
        /// A partition is about to be acquired.
        OpenAcquireBefore = "open.acquire.before",
        /// One of its identities is about to be taken.
        OpenInitialiseBefore = "open.initialise.before",
        /// It is taken.
        OpenInitialiseAfter = "open.initialise.after",
        /// One is taken, and the other is not.
        OpenAcquireBetween = "open.acquire.between",
        /// It is acquired, and the position is known.
        OpenAcquireAfter = "open.acquire.after",
        /// The state is read: where it stands.
        OpenStoreRead = "open.store.read",
        /// The record that the state applied last is compared with the log's.
        OpenCheck = "open.check",
        /// The last changes are read, for their digests.
        OpenDigests = "open.digests",
        /// Events that were published are about to be read again.
        RecoverReadBefore = "recover.read.before",
        /// They are read.
        RecoverReadAfter = "recover.read.after",
        /// The state is read: in the middle of folding them.
        RecoverFold = "recover.fold",
        /// What they came to is about to be written.
        RecoverWriteBefore = "recover.write.before",
        /// It is written.
        RecoverWriteAfter = "recover.write.after",
    }
}

impl Step {
    /// Whether it is reached only while a partition is opened.
    pub fn is_of_opening(self) -> bool {
        self >= Step::OpenAcquireBefore
    }

    /// Whether it is reached only where the state is behind what was published.
    pub fn is_of_recovery(self) -> bool {
        self >= Step::RecoverReadBefore
    }
}

named! {
    /// Something that goes wrong, other than that a process dies at a step.
    Fault, FAULTS {
        /// A call in a transaction is refused, and the transaction is aborted.
        CommitAborted = "transaction.aborted",
        /// A commit is in the log, and is answered only when it is asked for again.
        CommitAskedAgain = "transaction.commit.asked_again",
        /// A commit is in the log, and never answered.
        CommitUnknownApplied = "transaction.commit.unknown_applied",
        /// A commit is lost, and never answered: the transaction stays open.
        CommitUnknownLost = "transaction.commit.unknown_lost",
        /// A commit is decided and never answered, and its markers are written much later.
        CommitUnknownDelayed = "transaction.commit.unknown_delayed",
        /// Markers that are late are written before anyone acquires the partition.
        CommitLandsByItself = "transaction.commit.lands_by_itself",
        /// A commit is answered before its markers are written.
        MarkersLate = "transaction.markers.late",
        /// The next transaction of an identity has to wait for markers.
        MarkersAwaited = "transaction.markers.awaited",
        /// The brokers end a transaction while it is under way, and fence its producer.
        CommitFenced = "transaction.fenced",
        /// A transaction that somebody left open is ended when it has been open for too long.
        TimedOut = "transaction.timed_out",
        /// A reader finds that what is written is held back by a transaction that is not ended.
        HeldBack = "log.read.held_back",
        /// Who asks for the committed position hears that it is not decided.
        PositionUndecided = "log.position.undecided",
        /// The log cannot be read for once.
        ReadFailed = "log.read.failed",
        /// The partition cannot be acquired for once.
        AcquireFailed = "log.acquire.failed",
        /// Taking an identity is answered only when it is asked for again.
        AcquireAskedAgain = "log.acquire.asked_again",
        /// An append is lost, and its writer told so.
        AppendLost = "log.append.lost",
        /// An append is in the log, and its writer told otherwise; he repeats it.
        AppendKept = "log.append.kept",
        /// An append gets into the log behind the next one; its writer was told otherwise, and repeats it.
        AppendDelayed = "log.append.delayed",
        /// An append is in the log twice.
        AppendDoubled = "log.append.doubled",
        /// The store refuses a batch: the disk is full or broken for once.
        StoreRefused = "store.write.refused",
        /// The disk is full for a while.
        DiskFull = "store.disk_full",
        /// The store cannot be read for once.
        StoreReadFailed = "store.read.failed",
        /// The power fails: the process dies, and of its stores the last batches are forgotten, whole ones.
        PowerLoss = "store.power_loss",
        /// The process dies, and its disk with it.
        DiskLost = "store.disk_lost",
        /// A process dies again while it opens a partition after it died.
        DiedOpening = "process.died_opening",
        /// Nothing is heard of a process for a while: its disk is slow, or it is suspended.
        Stalled = "process.stalled",
        /// Nothing is heard of a process for longer than its session: its partitions go to others.
        SessionExpired = "group.session_expired",
        /// A process leaves the group in good order: every partition is drained.
        MemberLeft = "group.member_left",
        /// A static member is back within its session, and has its partitions again.
        MemberCameBack = "group.member_came_back",
        /// A partition is given up in good order, and goes to another member.
        Rebalanced = "group.rebalanced",
        /// A process learns that others have its partitions.
        LearnedLoss = "group.learned_loss",
        /// Another process takes a partition whose owner goes on and does not know.
        TakenOver = "process.taken_over",
        /// The one whose partition was taken tries to publish, and is told.
        ZombieFenced = "process.zombie_fenced",
        /// The log's clock jumps ahead.
        ClockForward = "clock.forward",
        /// The log's clock jumps back.
        ClockBackward = "clock.backward",
        /// A writer dies before it hears of its append, and forgets it.
        WriterDied = "writer.died",
        /// A consumer dies, and resumes after an earlier cursor than the last that it handled.
        ConsumerDied = "consumer.died",
        /// A consumer loses what it knows, and lists again.
        ConsumerForgot = "consumer.forgot",
    }
}

/// How often each step was reached, and was the last of a process; how often each fault happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coverage {
    /// By step.
    pub reached: [u64; STEPS],
    /// By step.
    pub died: [u64; STEPS],
    /// By fault.
    pub faults: [u64; FAULTS],
}

impl Default for Coverage {
    fn default() -> Self {
        Coverage { reached: [0; STEPS], died: [0; STEPS], faults: [0; FAULTS] }
    }
}

impl Coverage {
    /// How many processes died.
    pub fn crashes(&self) -> u64 {
        self.died.iter().sum()
    }

    /// How many faults happened.
    pub fn fault_count(&self) -> u64 {
        self.faults.iter().sum()
    }

    /// Adds that of another run.
    pub fn add(&mut self, other: &Coverage) {
        let pairs = [
            (&mut self.reached[..], &other.reached[..]),
            (&mut self.died, &other.died),
            (&mut self.faults, &other.faults),
        ];
        for (sums, more) in pairs {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }

    /// The names of the steps at which no process died, and of the faults that never happened.
    pub fn missing(&self) -> Vec<&'static str> {
        let steps = Step::ALL.iter().filter(|step| self.died[**step as usize] == 0).map(|step| step.name());
        let faults = Fault::ALL.iter().filter(|fault| self.faults[**fault as usize] == 0).map(|fault| fault.name());
        steps.chain(faults).collect()
    }

    /// A table of all counts.
    pub fn table(&self) -> String {
        let mut table = format!("{:<30}{:>12}{:>10}\n", "step", "reached", "died at");
        for step in Step::ALL {
            let at = *step as usize;
            table += &format!("{:<30}{:>12}{:>10}\n", step.name(), self.reached[at], self.died[at]);
        }
        table += &format!("\n{:<30}{:>12}\n", "fault", "happened");
        for fault in Fault::ALL {
            table += &format!("{:<30}{:>12}\n", fault.name(), self.faults[*fault as usize]);
        }
        table
    }
}
