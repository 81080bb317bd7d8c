//! The failpoints of one process. Its log and its store pass by here at each named step, and learn whether the process dies
//! there, or whether a call fails. So the code that is tested knows nothing of this.
//!
//! A process that has died gets nothing done any more: each later call fails before it has any effect, until the
//! process has been dropped and begins anew. That stands for the death of the process in the middle of a call, without
//! unwinding through the code that called.

use std::{cell::RefCell, rc::Rc};

use super::{
    names::{Coverage, Fault, Step},
    trace::Trace,
};

/// What a process does: a call of its log or its store is another step in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It drives a partition.
    Driving,
    /// It opens a partition.
    Opening,
    /// It opens a partition, and folds what was published already.
    Recovering,
    /// It keeps up the state of a partition that another drives.
    StandingBy,
}

/// The process has died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Died;

/// The text of every error that a fault or a death makes.
pub const TOLD_TO: &str = "told to fail by the simulator";

/// A handle on the failpoints of one process.
#[derive(Clone)]
pub struct Mishaps(Rc<RefCell<State>>);

struct State {
    process: usize,
    trace: Trace,
    coverage: Rc<RefCell<Coverage>>,
    phase: Phase,
    /// Where it is to die, and how often it gets away before.
    death: Option<(Step, u64)>,
    died_at: Option<Step>,
    last_passed: Step,
    armed: Vec<Fault>,
    /// Whether a fault has happened since the process was last asked to do something.
    blamed: bool,
    /// So many writes are refused yet since the disk is full.
    full_for: u64,
    /// Whether it has acquired the partition since then.
    acquired: bool,
    /// Whether a reader looks at what the process writes next, as soon as it is written.
    glimpse: bool,
    /// Planted: of so many batches about one is torn, by the number of the next.
    tears: Option<u64>,
}

impl Mishaps {
    /// Those of a process, with nothing planned.
    pub fn of(process: usize, trace: Trace, coverage: Rc<RefCell<Coverage>>) -> Mishaps {
        Mishaps(Rc::new(RefCell::new(State {
            process,
            trace,
            coverage,
            phase: Phase::Driving,
            death: None,
            died_at: None,
            last_passed: Step::DriverIdle,
            armed: Vec::new(),
            blamed: false,
            full_for: 0,
            acquired: false,
            glimpse: false,
            tears: None,
        })))
    }

    /// The process is asked to do something.
    pub fn begin(&self, phase: Phase) {
        let mut state = self.0.borrow_mut();
        state.phase = phase;
        state.blamed = false;
        state.acquired = false;
    }

    /// What it does.
    pub fn phase(&self) -> Phase {
        self.0.borrow().phase
    }

    /// It goes over to something else.
    pub fn enter(&self, phase: Phase) {
        self.0.borrow_mut().phase = phase;
    }

    /// The process is to die when it comes to a step, or, if `spared` is not 0, when it has come there so often.
    pub fn plan_death(&self, step: Step, spared: u64) {
        self.0.borrow_mut().death = Some((step, spared));
    }

    /// Whether a death is planned.
    pub fn is_death_planned(&self) -> bool {
        self.0.borrow().death.is_some()
    }

    /// The next call of the kind that the fault is about is to fail so.
    pub fn arm(&self, fault: Fault) {
        let mut state = self.0.borrow_mut();
        if !state.armed.contains(&fault) {
            state.armed.push(fault);
        }
    }

    /// Nothing is planned any more.
    pub fn disarm(&self) {
        let mut state = self.0.borrow_mut();
        state.armed.clear();
        state.death = None;
        state.full_for = 0;
        state.tears = None;
    }

    /// The process comes to a step.
    pub fn pass(&self, step: Step) -> Result<(), Died> {
        let mut state = self.0.borrow_mut();
        let state = &mut *state;
        if state.died_at.is_some() {
            return Err(Died);
        }
        state.coverage.borrow_mut().reached[step as usize] += 1;
        state.last_passed = step;
        match &mut state.death {
            Some((planned, 0)) if *planned == step => {
                state.die();
                Err(Died)
            }
            Some((planned, spared)) if *planned == step => {
                *spared -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The process dies where it is, between two steps.
    pub fn die(&self) {
        let mut state = self.0.borrow_mut();
        if state.died_at.is_none() {
            state.die();
        }
    }

    /// Where it died, if it did since it was last asked. It begins anew.
    pub fn take_death(&self) -> Option<Step> {
        self.0.borrow_mut().died_at.take()
    }

    /// The first fault of these that is armed; it is not armed any more.
    pub fn take(&self, faults: &[Fault]) -> Option<Fault> {
        let mut state = self.0.borrow_mut();
        let at = state.armed.iter().position(|fault| faults.contains(fault))?;
        Some(state.armed.remove(at))
    }

    /// A fault has happened.
    pub fn happened(&self, fault: Fault) {
        let mut state = self.0.borrow_mut();
        state.blamed = true;
        state.trace.line(format_args!("process {}: {}", state.process, fault.name()));
        state.coverage.borrow_mut().faults[fault as usize] += 1;
    }

    /// The disk is full for so many writes from now on.
    pub fn fill_disk(&self, writes: u64) {
        self.0.borrow_mut().full_for = writes;
    }

    /// Whether the disk is full now.
    pub fn is_disk_full(&self) -> bool {
        let mut state = self.0.borrow_mut();
        let is_full = state.full_for > 0;
        state.full_for = state.full_for.saturating_sub(1);
        is_full
    }

    /// Whether one of these calls is to fail now.
    pub fn fails(&self, fault: Fault) -> bool {
        let fails = self.take(&[fault]).is_some();
        if fails {
            self.happened(fault);
        }
        fails
    }

    /// Whether a fault explains that something failed.
    pub fn is_blamed(&self) -> bool {
        self.0.borrow().blamed
    }

    /// A reader is to look in the middle of what the process does next: behind the first batch that it writes.
    pub fn plan_glimpse(&self) {
        self.0.borrow_mut().glimpse = true;
    }

    /// Whether a reader looks now.
    pub fn take_glimpse(&self) -> bool {
        std::mem::take(&mut self.0.borrow_mut().glimpse)
    }

    /// The process has acquired the partition.
    pub fn acquire(&self) {
        self.0.borrow_mut().acquired = true;
    }

    /// Whether it has, since it was last asked to do something; it may have died of it.
    pub fn has_acquired(&self) -> bool {
        self.0.borrow().acquired
    }

    /// Planted: a batch from now on is torn.
    pub fn plant_tear(&self, batches: u64) {
        let mut state = self.0.borrow_mut();
        state.tears.get_or_insert(batches);
    }

    /// Planted: whether the batch in hand is torn.
    pub fn tears(&self) -> bool {
        let mut state = self.0.borrow_mut();
        match &mut state.tears {
            Some(0) => {
                state.tears = None;
                true
            }
            Some(batches) => {
                *batches -= 1;
                false
            }
            None => false,
        }
    }
}

impl State {
    fn die(&mut self) {
        let step = self.last_passed;
        self.death = None;
        self.died_at = Some(step);
        self.trace.line(format_args!("process {}: dies at {}", self.process, step.name()));
        self.coverage.borrow_mut().died[step as usize] += 1;
    }
}
