//! How far a subscription has come: what is settled, what is handed out, what is parked. No clock and no I/O: the time comes in from
//! outside, and what is to be kept is given to whoever keeps it.
//!
//! A change is known by its place in the stream. Everything up to the floor is settled, and above it what was settled out of order. A
//! change that is neither is told again: that is what at least once means here. A parked change is settled, and kept aside with its
//! reason; retried, it is open again, whatever its place.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use recant_proto::position::{ChangeId, Incarnation, Position};

use crate::stream::Streamed;

/// So many changes of one subscription can be parked. Then nothing more is handed out, until some are retried or discarded.
pub const PARKED_MAX: usize = 1_000;
/// No further change is taken from the stream while those that are open have so many bytes.
const OPEN_BYTES_MAX: usize = 256 << 10;

/// A place in a partition's stream of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(from = "(u64, u32)", into = "(u64, u32)")]
pub struct Place {
    /// Of the event, in the log.
    pub offset: u64,
    /// In its cascade.
    pub index: u32,
}

impl From<(u64, u32)> for Place {
    fn from((offset, index): (u64, u32)) -> Place {
        Place { offset, index }
    }
}

impl From<Place> for (u64, u32) {
    fn from(Place { offset, index }: Place) -> (u64, u32) {
        (offset, index)
    }
}

impl Place {
    /// Of a change's id, or a cursor.
    pub fn of(id: &ChangeId) -> Place {
        Place { offset: id.position.offset, index: id.index }
    }

    /// As an id of a log and a partition.
    pub fn id(self, incarnation: Incarnation, partition: u32) -> ChangeId {
        ChangeId { incarnation, position: Position { partition, offset: self.offset }, index: self.index }
    }

    /// The last place before it, whether there is a change there or not.
    fn before(self) -> Place {
        match (self.offset, self.index) {
            (offset, index @ 1..) => Place { offset, index: index - 1 },
            (offset, 0) => Place { offset: offset.saturating_sub(1), index: u32::MAX },
        }
    }
}

/// A change that is not settled.
#[derive(Debug, Clone)]
struct Open {
    change: Arc<Streamed>,
    /// How often it was handed out.
    attempts: u32,
    /// It may be handed out from then on, in the clock of whoever asks.
    due_ms: u64,
}

/// A change that nobody could handle.
#[derive(Debug, Clone)]
pub struct Parked {
    /// It.
    pub change: Arc<Streamed>,
    /// Why.
    pub reason: String,
    /// When, RFC 3339.
    pub parked_at: String,
    /// How often it had been handed out.
    pub attempts: u32,
    /// Whether it is handed out again.
    pub is_retried: bool,
}

/// A change that is handed out.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Where it is in the stream.
    pub place: Place,
    /// It.
    pub change: Arc<Streamed>,
    /// How often it has been handed out, this time included.
    pub attempt: u32,
}

/// What holds the subscriber to.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// So many changes can be open at once.
    pub outstanding_max: usize,
    /// A change that was handed out so often without being settled is parked.
    pub attempts_max: u32,
    /// After so long without being settled it is handed out again.
    pub ack_deadline_ms: u64,
}

/// What is kept of it: all but what is open, which the stream has.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Kept {
    /// Everything up to here is settled; absent: nothing that is kept of the stream is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub floor: Option<Place>,
    /// And these above it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub settled: Vec<Place>,
    /// How often open changes had been handed out.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub attempts: Vec<(Place, u32)>,
}

/// How far it has come.
#[derive(Debug)]
pub struct Progress {
    bounds: Bounds,
    floor: Option<Place>,
    looked_to: Option<Place>,
    settled: BTreeSet<Place>,
    open: BTreeMap<Place, Open>,
    open_bytes: usize,
    /// Of changes that the stream has not brought again.
    attempts_before: BTreeMap<Place, u32>,
    parked: BTreeMap<Place, Parked>,
    /// Parked or taken back since it was asked last.
    touched: BTreeSet<Place>,
}

impl Progress {
    /// From what was kept.
    pub fn of(bounds: Bounds, kept: Kept, parked: BTreeMap<Place, Parked>) -> Progress {
        let mut progress = Progress {
            bounds,
            floor: kept.floor,
            looked_to: kept.floor,
            settled: kept.settled.into_iter().collect(),
            open: BTreeMap::new(),
            open_bytes: 0,
            attempts_before: kept.attempts.into_iter().collect(),
            parked,
            touched: BTreeSet::new(),
        };
        let retried = progress.parked.iter().filter(|(_, parked)| parked.is_retried);
        let retried: Vec<_> = retried.map(|(place, parked)| (*place, parked.change.clone())).collect();
        retried.into_iter().for_each(|(place, change)| progress.open(place, change));
        progress
    }

    /// What is to be kept of it.
    pub fn kept(&self) -> Kept {
        let tried = self.open.iter().filter(|(_, open)| open.attempts > 0);
        let attempts = tried.map(|(place, open)| (*place, open.attempts));
        Kept {
            floor: self.floor,
            settled: self.settled.iter().copied().collect(),
            attempts: attempts.chain(self.attempts_before.iter().map(|(place, count)| (*place, *count))).collect(),
        }
    }

    /// The parked changes that are others than when it was asked last; nothing where one is no longer parked.
    pub fn take_touched(&mut self) -> Vec<(Place, Option<Parked>)> {
        let touched = std::mem::take(&mut self.touched);
        touched.into_iter().map(|place| (place, self.parked.get(&place).cloned())).collect()
    }

    /// Everything up to here is settled.
    pub fn floor(&self) -> Option<Place> {
        self.floor
    }

    #[cfg(test)]
    fn looked_to(&self) -> Option<Place> {
        self.looked_to
    }

    /// How many are open.
    pub fn outstanding(&self) -> usize {
        self.open.len()
    }

    /// Those that are parked, in the order of the stream.
    pub fn parked(&self) -> impl Iterator<Item = &Parked> {
        self.parked.values().filter(|parked| !parked.is_retried)
    }

    /// Whether nothing is handed out, because too many are parked.
    pub fn is_parked_full(&self) -> bool {
        self.parked.len() >= PARKED_MAX
    }

    /// Whether another change of the stream can be taken.
    pub fn has_room(&self) -> bool {
        self.open.len() < self.bounds.outstanding_max && self.open_bytes < OPEN_BYTES_MAX
    }

    /// When the next change is due to be handed out that is open now.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.open.values().map(|open| open.due_ms).min()
    }

    /// The stream brought a change that the subscriber wants to hear of.
    pub fn admit(&mut self, place: Place, change: Arc<Streamed>) {
        let is_settled = Some(place) <= self.floor || self.settled.contains(&place) || self.parked.contains_key(&place);
        if !is_settled && !self.open.contains_key(&place) {
            self.open(place, change);
        }
        self.looked_at(place);
    }

    /// The stream was looked at up to a place, and has nothing more for the subscriber up to there.
    pub fn looked_at(&mut self, place: Place) {
        self.looked_to = self.looked_to.max(Some(place));
        self.advance();
    }

    fn open(&mut self, place: Place, change: Arc<Streamed>) {
        let attempts = self.attempts_before.remove(&place).unwrap_or(0);
        self.open_bytes += change.bytes();
        self.open.insert(place, Open { change, attempts, due_ms: 0 });
    }

    fn close(&mut self, place: Place) -> Option<Open> {
        let open = self.open.remove(&place)?;
        self.open_bytes -= open.change.bytes();
        Some(open)
    }

    /// Hands out what is due, in the order of the stream. What was handed out too often is parked instead.
    pub fn hand_out(&mut self, now_ms: u64, deliveries_max: usize, parked_at: &str) -> Vec<Delivery> {
        let (mut deliveries, mut worn_out) = (Vec::new(), Vec::new());
        for (place, open) in self.open.iter_mut().filter(|(_, open)| open.due_ms <= now_ms) {
            if deliveries.len() >= deliveries_max {
                break;
            }
            if open.attempts >= self.bounds.attempts_max {
                worn_out.push(*place);
                continue;
            }
            open.attempts += 1;
            open.due_ms = now_ms + self.bounds.ack_deadline_ms;
            deliveries.push(Delivery { place: *place, change: open.change.clone(), attempt: open.attempts });
        }
        let times = self.bounds.attempts_max;
        let reason = format!("it was handed out {times} times and not acknowledged");
        for place in worn_out {
            self.park(place, &reason, parked_at);
        }
        deliveries
    }

    /// It was not handled: it is due again then.
    pub fn postpone(&mut self, place: Place, due_ms: u64) {
        if let Some(open) = self.open.get_mut(&place) {
            open.due_ms = due_ms;
        }
    }

    /// How often an open change was handed out.
    pub fn attempts(&self, place: Place) -> u32 {
        self.open.get(&place).map_or(0, |open| open.attempts)
    }

    /// A change is handled, or discarded where it was parked; whether that was not known before. One that was handed out before a restart
    /// may not have come again yet.
    pub fn settle(&mut self, place: Place) -> bool {
        if self.parked.remove(&place).is_some() {
            self.touched.insert(place);
            self.close(place);
            return true;
        }
        let was_open = self.close(place).is_some();
        let comes_again = Some(place) > self.looked_to
            && !self.settled.contains(&place)
            && self.settled.len() < self.bounds.outstanding_max;
        if was_open || comes_again {
            self.attempts_before.remove(&place);
            self.settled.insert(place);
            self.advance();
        }
        was_open || comes_again
    }

    /// All changes up to a place are handled, those that are retried excepted; gives how many were open.
    pub fn settle_up_to(&mut self, place: Place) -> usize {
        let below: Vec<Place> = self
            .open
            .range(..=place)
            .map(|(place, _)| *place)
            .filter(|place| !self.parked.contains_key(place))
            .collect();
        below.iter().for_each(|place| drop(self.close(*place)));
        self.floor = self.floor.max(Some(place));
        self.looked_to = self.looked_to.max(Some(place));
        self.advance();
        below.len()
    }

    /// Puts an open change aside, with a reason; whether there was one, and room for it.
    pub fn park(&mut self, place: Place, reason: &str, parked_at: &str) -> bool {
        let is_retried = self.parked.contains_key(&place);
        if self.is_parked_full() && !is_retried {
            return false;
        }
        let Some(open) = self.close(place) else { return false };
        let parked = Parked {
            change: open.change,
            reason: reason.to_owned(),
            parked_at: parked_at.to_owned(),
            attempts: open.attempts,
            is_retried: false,
        };
        self.parked.insert(place, parked);
        self.touched.insert(place);
        if !is_retried {
            self.settled.insert(place);
        }
        self.advance();
        true
    }

    /// Hands out a parked change again; whether it was one.
    pub fn retry(&mut self, place: Place) -> bool {
        let Some(parked) = self.parked.get_mut(&place).filter(|parked| !parked.is_retried) else { return false };
        parked.is_retried = true;
        let change = parked.change.clone();
        self.touched.insert(place);
        self.open(place, change);
        true
    }

    /// The places of all that is kept aside, what is retried included.
    pub fn kept_aside(&self) -> impl Iterator<Item = Place> {
        self.parked.keys().copied()
    }

    /// The places of those that are parked.
    pub fn parked_places(&self) -> Vec<Place> {
        self.parked.iter().filter(|(_, parked)| !parked.is_retried).map(|(place, _)| *place).collect()
    }

    /// The floor rises to the first change that is open, or to where the stream was looked at.
    fn advance(&mut self) {
        let first_open = self.open.keys().find(|place| !self.parked.contains_key(place)).copied();
        let settled_to = first_open.map(Place::before).or(self.looked_to);
        self.floor = self.floor.max(settled_to.min(self.looked_to));
        let floor = self.floor;
        self.settled.retain(|place| Some(*place) > floor);
        self.attempts_before.retain(|place, _| Some(*place) > floor);
    }
}

#[cfg(test)]
mod tests;
