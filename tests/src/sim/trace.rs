//! What happened in a run, line by line: hashed, so that two runs can be compared byte for byte, and the last lines kept, to
//! be read when something is wrong.

use std::{cell::RefCell, collections::VecDeque, fmt::Write as _, rc::Rc};

/// So many lines are kept.
const LINES_MAX: usize = 60;

/// The trace of a run; clones write to the same.
#[derive(Clone, Default)]
pub struct Trace(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    hasher: blake3::Hasher,
    lines: VecDeque<String>,
    count: u64,
}

impl Trace {
    /// Notes a line.
    pub fn line(&self, line: std::fmt::Arguments<'_>) {
        let mut state = self.0.borrow_mut();
        let mut text =
            if state.lines.len() < LINES_MAX { String::new() } else { state.lines.pop_front().unwrap_or_default() };
        text.clear();
        let count = state.count;
        // Writing to a string cannot fail.
        let _ = write!(text, "{count} {line}");
        state.count += 1;
        state.hasher.update(text.as_bytes());
        state.hasher.update(b"\n");
        state.lines.push_back(text);
    }

    /// Notes bytes that were published or answered, without keeping them.
    pub fn bytes(&self, bytes: &[u8]) {
        let mut state = self.0.borrow_mut();
        state.hasher.update(&(bytes.len() as u64).to_le_bytes());
        state.hasher.update(bytes);
    }

    /// The hash of everything so far.
    pub fn hash(&self) -> [u8; 32] {
        *self.0.borrow().hasher.finalize().as_bytes()
    }

    /// The last lines.
    pub fn tail(&self) -> Vec<String> {
        self.0.borrow().lines.iter().cloned().collect()
    }
}
