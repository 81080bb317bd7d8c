//! Spaces that were asked about lately, kept open: the next question brings one up to date at the cost of what came since, and
//! need not read again what is in no segment yet.
//!
//! A question has a space to itself. Two about the same space at once have one each.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use recant_projections::{
    fold::space::Space,
    store::{StoreError, rocks::AtMoment},
};

/// So many are kept, and so many bytes of them: those that were asked last.
const KEPT_MAX: usize = 256;
const KEPT_BYTES_MAX: usize = 64 << 20;

/// Read row by row: what is asked once is not worth loading a space for.
const PAGED: u32 = 0;

/// The spaces that are kept open.
#[derive(Debug, Default)]
pub(super) struct Opened(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The one asked last at the end; with its bytes.
    spaces: VecDeque<(Space, usize)>,
    bytes: usize,
}

/// A space as it is at a moment, for one question; it is kept for the next when that is answered.
#[derive(Debug)]
pub(super) struct Lent<'a> {
    opened: &'a Opened,
    space: Option<Space>,
}

impl Opened {
    /// A space as it is at a moment. One that was kept at a later moment is opened anew.
    pub(super) fn lend(&self, store: &AtMoment<'_>, name: &str) -> Result<Lent<'_>, StoreError> {
        let space = match self.take(name) {
            Some(mut space) => {
                space.catch_up(store)?;
                Some(space)
            }
            None => Space::open(store, name, PAGED)?,
        };
        Ok(Lent { opened: self, space })
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, name: &str) -> Option<Space> {
        let mut kept = self.lock();
        let place = kept.spaces.iter().rposition(|(space, _)| space.name == name)?;
        let (space, bytes) = kept.spaces.remove(place)?;
        kept.bytes -= bytes;
        Some(space)
    }

    fn keep(&self, space: Space) {
        let bytes = space.resident_bytes();
        let mut kept = self.lock();
        kept.spaces.push_back((space, bytes));
        kept.bytes += bytes;
        while kept.spaces.len() > KEPT_MAX || kept.bytes > KEPT_BYTES_MAX {
            let Some((_, bytes)) = kept.spaces.pop_front() else { return };
            kept.bytes -= bytes;
        }
    }
}

impl Lent<'_> {
    /// The space; none if nothing was ever applied to it.
    pub(super) fn space(&self) -> Option<&Space> {
        self.space.as_ref()
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(space) = self.space.take() {
            self.opened.keep(space);
        }
    }
}
