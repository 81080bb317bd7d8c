//! The spaces that are open, and which of them are resident.

use hashbrown::HashMap;
use prost::Message as _;

use super::space::Space;
use crate::{
    store::{Batch, Store, StoreError},
    tables::{SpaceNumber, Table},
};

/// When a space is resident, and how much memory spaces may take.
#[derive(Debug, Clone, Copy)]
pub struct Forms {
    /// A space with at most so many nodes and justifications is loaded whole when it is opened: that costs less than pages.
    pub resident_max: u32,
    /// So many bytes of spaces are kept; more only while a batch is open.
    pub memory_budget_bytes: usize,
    /// So many rows are read at once for a space that turns resident while it is used.
    pub load_rows_max: usize,
    /// So many items make a segment, or more in a large space.
    pub segment_items_min: usize,
    /// A space that has not been used for so many events of its partition is closed, whatever there is of memory.
    pub idle_events_max: u64,
}

impl Default for Forms {
    fn default() -> Self {
        Forms {
            resident_max: 8_192,
            memory_budget_bytes: 1 << 30,
            load_rows_max: 4_096,
            segment_items_min: 4_096,
            idle_events_max: 1 << 17,
        }
    }
}

/// How often spaces changed their form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Turns {
    /// Turned resident while they were used.
    pub resident: u64,
    /// Closed: for memory, or because they were not used.
    pub closed: u64,
}

/// The spaces that are open.
#[derive(Debug, Default)]
pub(super) struct OpenSpaces {
    spaces: HashMap<String, Open>,
    /// The sum of what the spaces take, as of when each was last counted.
    pub(super) resident_bytes: usize,
    /// Those that were used since it was counted.
    uncounted: Vec<String>,
    /// Those whose rows differ from the stored ones.
    changed: Vec<String>,
    /// One of them turns resident, beside the others.
    loading: Option<String>,
    /// The offset at which the idle ones were closed last.
    swept: u64,
    /// Since they were asked for last.
    pub(super) turns: Turns,
}

#[derive(Debug)]
struct Open {
    space: Space,
    /// The offset of the event for which it was last used.
    used: u64,
    counted_bytes: usize,
    is_counted: bool,
    is_changed: bool,
    /// Whether something was ever applied to it. Until then its number is not its own.
    is_begun: bool,
}

impl OpenSpaces {
    /// The number of a space, if it is open and has one.
    pub(super) fn number_of(&self, name: &str) -> Option<SpaceNumber> {
        self.spaces.get(name).filter(|open| open.is_begun).map(|open| open.space.number())
    }

    /// A space, opened if it was not; none if nothing was ever applied to it.
    pub(super) fn get_or_open(
        &mut self,
        store: &impl Store,
        name: &str,
        forms: &Forms,
        now: u64,
    ) -> Result<Option<&mut Space>, StoreError> {
        if !self.spaces.contains_key(name) {
            let Some(space) = Space::open(store, name, forms.resident_max)? else { return Ok(None) };
            self.insert(space, true);
        }
        // The number of one that has not begun may be that of another by now.
        if self.spaces.get(name).is_some_and(|open| !open.is_begun) {
            return Ok(None);
        }
        Ok(self.use_space(name, now))
    }

    /// A space, opened if it was not. One to which nothing was ever applied gets the number that is next: which one a space has
    /// is so a function of the log, whatever was rejected meanwhile.
    pub(super) fn get_or_begin(
        &mut self,
        store: &impl Store,
        name: &str,
        forms: &Forms,
        now: u64,
        number: u32,
    ) -> Result<&mut Space, StoreError> {
        if self.get_or_open(store, name, forms, now)?.is_none() {
            match self.spaces.get_mut(name) {
                Some(open) => open.space.row.number = number,
                None => self.insert(Space::empty(name, number), false),
            }
        }
        self.use_space(name, now).ok_or_else(|| StoreError::Absent(name.to_owned()))
    }

    fn insert(&mut self, space: Space, is_begun: bool) {
        let name = space.name.clone();
        let open = Open { space, used: 0, counted_bytes: 0, is_counted: true, is_changed: false, is_begun };
        self.spaces.insert(name, open);
    }

    fn use_space(&mut self, name: &str, now: u64) -> Option<&mut Space> {
        let open = self.spaces.get_mut(name)?;
        open.used = now;
        if std::mem::take(&mut open.is_counted) {
            self.uncounted.push(name.to_owned());
        }
        Some(&mut open.space)
    }

    /// Notes that something was applied to a space, and its row differs from the stored one.
    pub(super) fn note_changed(&mut self, name: &str) {
        let Some(open) = self.spaces.get_mut(name) else { return };
        open.is_begun = true;
        if !std::mem::replace(&mut open.is_changed, true) {
            self.changed.push(name.to_owned());
        }
    }

    /// Stages the rows of the spaces that were changed.
    pub(super) fn stage_changed(&mut self, batch: &mut Batch) {
        for name in self.changed.drain(..) {
            if let Some(open) = self.spaces.get_mut(&name) {
                open.is_changed = false;
                batch.put(Table::Spaces, name.into_bytes(), open.space.row.encode_to_vec());
            }
        }
    }

    /// Counts what was used, and closes the least recently used spaces while there is more than the budget.
    pub(super) fn keep_within(&mut self, budget_bytes: usize, forms: &Forms) {
        for name in std::mem::take(&mut self.uncounted) {
            let Some(open) = self.spaces.get_mut(&name) else { continue };
            let bytes = open.space.resident_bytes();
            self.resident_bytes = (self.resident_bytes + bytes).saturating_sub(open.counted_bytes);
            (open.counted_bytes, open.is_counted) = (bytes, true);
            if self.loading.is_none()
                && open.space.is_busy()
                && open.space.bytes_if_resident() < forms.memory_budget_bytes
            {
                self.loading = Some(name);
            }
        }
        if self.resident_bytes <= budget_bytes {
            return;
        }
        // Somewhat below it, so that not every batch sorts them all.
        let enough = budget_bytes - budget_bytes / 8;
        let mut by_use: Vec<(u64, String)> = self.spaces.iter().map(|(name, open)| (open.used, name.clone())).collect();
        by_use.sort_unstable();
        for (_, name) in by_use {
            if self.resident_bytes <= enough {
                break;
            }
            self.close(&name);
        }
    }

    /// Closes the spaces that have not been used for long. Looks through them now and then only.
    pub(super) fn close_idle(&mut self, now: u64, forms: &Forms) {
        if now.saturating_sub(self.swept) < forms.idle_events_max / 8 {
            return;
        }
        self.swept = now;
        let is_idle = |open: &&Open| now.saturating_sub(open.used) > forms.idle_events_max;
        let idle: Vec<String> = self.spaces.values().filter(is_idle).map(|open| open.space.name.clone()).collect();
        idle.iter().for_each(|name| self.close(name));
    }

    fn close(&mut self, name: &str) {
        if let Some(open) = self.spaces.remove(name) {
            self.resident_bytes = self.resident_bytes.saturating_sub(open.counted_bytes);
            self.turns.closed += 1;
        }
        if self.loading.as_deref() == Some(name) {
            self.loading = None;
        }
    }

    /// Reads some rows for the space that turns resident, and says whether there are more.
    pub(super) fn load_busy(&mut self, store: &impl Store, forms: &Forms) -> Result<bool, StoreError> {
        let Some(name) = self.loading.clone() else { return Ok(false) };
        let Some(open) = self.spaces.get_mut(&name) else {
            self.loading = None;
            return Ok(false);
        };
        let done = open.space.load_more(store, forms.load_rows_max)?;
        if std::mem::take(&mut open.is_counted) {
            self.uncounted.push(name);
        }
        if done {
            self.loading = None;
            self.turns.resident += 1;
        }
        Ok(!done)
    }
}
