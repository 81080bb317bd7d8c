//! A transactional producer of a process: each of its calls is a step at which the process can die, and can be told to fail.

use std::{cell::Cell, time::Duration};

use recant_eventlog::{
    Committed, Output,
    kafka::{After, Failure, Transactions},
};

use super::brokers::{Brokers, IdentityName, Markers, ProducerEpoch, Refusal};
use crate::sim::{
    mishaps::{Died, Mishaps, TOLD_TO},
    names::{Fault, Step},
    planted::Plant,
};

/// A call that is not answered takes so long.
const UNANSWERED: Duration = Duration::from_secs(5);

/// What can happen to a transaction.
const FAULTS: [Fault; 7] = [
    Fault::CommitAborted,
    Fault::CommitAskedAgain,
    Fault::CommitUnknownApplied,
    Fault::CommitUnknownLost,
    Fault::CommitUnknownDelayed,
    Fault::CommitFenced,
    Fault::MarkersLate,
];

/// Markers that are late are written after so many refusals.
const MARKERS_AFTER: u32 = 2;

/// A process's producer with one identity.
pub struct SimProducer {
    brokers: Brokers,
    name: IdentityName,
    mishaps: Mishaps,
    plant: Option<Plant>,
    epoch: Cell<Option<ProducerEpoch>>,
    elapsed: Cell<Duration>,
    /// What is to happen to the transaction that is open.
    fault: Cell<Option<Fault>>,
    /// It hears nothing from the brokers any more.
    is_deaf: Cell<bool>,
    sent: Cell<usize>,
}

impl SimProducer {
    /// One that has not taken its identity yet.
    pub fn new(brokers: Brokers, name: IdentityName, mishaps: Mishaps, plant: Option<Plant>) -> SimProducer {
        SimProducer {
            brokers,
            name,
            mishaps,
            plant,
            epoch: Cell::new(None),
            elapsed: Cell::new(Duration::ZERO),
            fault: Cell::new(None),
            is_deaf: Cell::new(false),
            sent: Cell::new(0),
        }
    }

    fn pass(&self, step: Step) -> Result<(), Failure> {
        self.mishaps.pass(step).map_err(|Died| Failure { after: After::Dead, text: TOLD_TO.to_owned() })?;
        if self.is_deaf.get() { Err(self.unanswered()) } else { Ok(()) }
    }

    fn unanswered(&self) -> Failure {
        self.elapsed.set(self.elapsed.get() + UNANSWERED);
        Failure { after: After::Again, text: format!("no answer: {TOLD_TO}") }
    }

    fn refused(&self, refusal: Refusal) -> Failure {
        match refusal {
            Refusal::Fenced => Failure { after: After::Fenced, text: "fenced".to_owned() },
            Refusal::Concurrent => {
                self.mishaps.happened(Fault::MarkersAwaited);
                Failure { after: After::Again, text: "the transaction before it is not ended yet".to_owned() }
            }
        }
    }

    fn epoch(&self) -> Result<ProducerEpoch, Failure> {
        self.epoch.get().ok_or_else(|| Failure { after: After::Dead, text: "the identity is not taken".to_owned() })
    }

    fn takes(&self, fault: Fault) -> bool {
        let takes = self.fault.get() == Some(fault);
        if takes {
            self.fault.set(None);
            self.mishaps.happened(fault);
        }
        takes
    }

    fn end(&self, commits: bool, markers: Markers) -> Result<(), Failure> {
        self.brokers.end(self.name, self.epoch()?, commits, markers).map_err(|refusal| self.refused(refusal))
    }

    fn go_deaf(&self) -> Failure {
        self.is_deaf.set(true);
        self.unanswered()
    }
}

impl Transactions for SimProducer {
    fn initialise(&self) -> Result<(), Failure> {
        self.pass(Step::OpenInitialiseBefore)?;
        if self.mishaps.fails(Fault::AcquireAskedAgain) {
            return Err(self.unanswered());
        }
        self.mishaps.acquire();
        self.epoch.set(Some(self.brokers.initialise(self.name)));
        self.pass(Step::OpenInitialiseAfter)
    }

    fn begin(&self) -> Result<(), Failure> {
        self.pass(Step::TransactionBegin)?;
        self.fault.set(self.mishaps.take(&FAULTS));
        self.sent.set(0);
        Ok(())
    }

    fn send(&self, output: &Output) -> Result<(), Failure> {
        self.pass(Step::TransactionSendBefore)?;
        self.sent.set(self.sent.get() + 1);
        if self.plant == Some(Plant::TornTransaction) && self.sent.get() == 2 {
            self.end(true, Markers::Now)?;
        }
        self.brokers.send(self.name, self.epoch()?, output).map_err(|refusal| self.refused(refusal))?;
        self.pass(Step::TransactionSendAfter)
    }

    fn send_position(&self, committed: &Committed) -> Result<(), Failure> {
        self.pass(Step::TransactionPositionBefore)?;
        if self.takes(Fault::CommitAborted) {
            return Err(Failure { after: After::Abort, text: TOLD_TO.to_owned() });
        }
        if self.takes(Fault::CommitFenced) {
            self.brokers.time_out(self.name);
        }
        if self.plant == Some(Plant::PositionNotInTransaction) {
            self.brokers.send_position_apart(self.name.0, committed);
        } else {
            let sent = self.brokers.send_position(self.name, self.epoch()?, committed);
            sent.map_err(|refusal| self.refused(refusal))?;
        }
        self.pass(Step::TransactionPositionAfter)
    }

    fn commit(&self) -> Result<(), Failure> {
        self.pass(Step::TransactionCommitBefore)?;
        if let Err(died) = self.pass(Step::TransactionCommitInFlight) {
            // It is on its way, and its sender is gone.
            self.end(true, Markers::After(u32::MAX))?;
            return Err(died);
        }
        if self.takes(Fault::CommitUnknownLost) {
            return Err(self.go_deaf());
        }
        if self.takes(Fault::CommitUnknownDelayed) {
            self.end(true, Markers::After(u32::MAX))?;
            return Err(self.go_deaf());
        }
        let are_late = self.takes(Fault::MarkersLate);
        self.end(true, if are_late { Markers::After(MARKERS_AFTER) } else { Markers::Now })?;
        if self.takes(Fault::CommitUnknownApplied) {
            return Err(self.go_deaf());
        }
        if self.takes(Fault::CommitAskedAgain) {
            return Err(self.unanswered());
        }
        self.pass(Step::TransactionCommitAfter)
    }

    fn abort(&self) -> Result<(), Failure> {
        self.pass(Step::TransactionAbortBefore)?;
        self.end(false, Markers::Now)?;
        self.pass(Step::TransactionAbortAfter)
    }

    fn elapsed(&self) -> Duration {
        self.elapsed.get()
    }
}
