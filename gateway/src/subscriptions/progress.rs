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
        let below: Vec<Place> =
            self.open.range(..=place).map(|(place, _)| *place).filter(|place| !self.parked.contains_key(place)).collect();
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
mod tests {
    use proptest::prelude::*;
    use recant_proto::v1::Change;

    use super::*;

    const BOUNDS: Bounds = Bounds { outstanding_max: 3, attempts_max: 2, ack_deadline_ms: 100 };

    fn change(offset: u64) -> (Place, Arc<Streamed>) {
        let place = Place { offset, index: 1 };
        (place, Arc::new(Streamed::new(offset, Change { node: offset.to_string(), ..Change::default() }, 10)))
    }

    fn fresh() -> Progress {
        Progress::of(BOUNDS, Kept { floor: Some(Place { offset: 0, index: 0 }), ..Kept::default() }, BTreeMap::new())
    }

    fn offsets(deliveries: &[Delivery]) -> Vec<(u64, u32)> {
        deliveries.iter().map(|delivery| (delivery.place.offset, delivery.attempt)).collect()
    }

    fn fill(progress: &mut Progress, from: u64) {
        for offset in from.. {
            if !progress.has_room() {
                return;
            }
            let (place, change) = change(offset);
            progress.admit(place, change);
        }
    }

    fn place(offset: u64) -> Place {
        Place { offset, index: 1 }
    }

    /// Protects consumers from losing a change by settling a later one, and from hearing for ever of one that they settled.
    #[test]
    fn what_is_not_settled_is_told_again_and_what_is_settled_is_not() {
        let mut progress = fresh();
        fill(&mut progress, 1);
        assert_eq!(offsets(&progress.hand_out(0, 10, "")), [(1, 1), (2, 1), (3, 1)]);
        assert!(progress.hand_out(99, 10, "").is_empty(), "all are out");
        assert!(progress.settle(place(2)) && !progress.settle(place(2)));
        assert!(progress.floor() < Some(place(1)), "the first is not settled");
        assert_eq!(offsets(&progress.hand_out(100, 10, "")), [(1, 2), (3, 2)], "after the deadline");
        let kept = progress.kept();
        assert_eq!((kept.settled.as_slice(), kept.attempts.len()), ([place(2)].as_slice(), 2));
        let mut again = Progress::of(BOUNDS, kept, BTreeMap::new());
        (1..=4).for_each(|offset| {
            let (place, change) = change(offset);
            again.admit(place, change);
        });
        assert_eq!(offsets(&again.hand_out(0, 10, "")), [(4, 1)], "what was handed out twice is parked, as the bound says");
        assert_eq!(again.parked().map(|parked| parked.change.change.node.as_str()).collect::<Vec<_>>(), ["1", "3"]);
        again.settle(place(4));
        assert_eq!(again.floor(), Some(place(4)));
    }

    /// Protects what is parked: it stays until it is settled, also over a cumulative acknowledgement and a restart.
    #[test]
    fn what_is_parked_is_kept_aside_until_it_is_settled() {
        let mut progress = fresh();
        fill(&mut progress, 1);
        progress.hand_out(0, 10, "");
        assert!(progress.park(place(1), "no such account", "now"));
        assert!(!progress.park(place(1), "twice", "now"));
        assert_eq!(progress.take_touched().len(), 1);
        assert!(progress.retry(place(1)) && !progress.retry(place(1)));
        assert_eq!(progress.settle_up_to(place(3)), 2);
        assert_eq!(offsets(&progress.hand_out(0, 10, "")), [(1, 1)], "what is retried is not settled by what came after it");
        let rows = progress.take_touched().into_iter().filter_map(|(place, parked)| Some((place, parked?))).collect();
        let mut again = Progress::of(BOUNDS, progress.kept(), rows);
        assert_eq!(again.outstanding(), 1, "and is retried after a restart, too");
        again.hand_out(0, 10, "");
        assert!(again.park(place(1), "still not", "later"));
        assert_eq!(again.parked().next().unwrap().reason, "still not");
        assert!(again.settle(place(1)));
        assert_eq!((again.parked().count(), again.outstanding()), (0, 0));
    }

    /// Protects memory.
    #[test]
    fn what_is_open_and_what_is_parked_is_bounded() {
        let mut progress = fresh();
        fill(&mut progress, 1);
        assert_eq!(progress.outstanding(), BOUNDS.outstanding_max);
        for offset in 1..=PARKED_MAX as u64 + 3 {
            let (place, change) = change(offset);
            progress.admit(place, change);
            progress.park(place, "", "");
        }
        assert!(progress.is_parked_full());
        assert_eq!(progress.parked().count(), PARKED_MAX);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Fill,
        HandOut(usize),
        Settle(u64),
        SettleUpTo(u64),
        Park(u64),
        Retry(u64),
        Restart,
        Later,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Fill),
            (1..4_usize).prop_map(Step::HandOut),
            (1..30_u64).prop_map(Step::Settle),
            (1..30_u64).prop_map(Step::SettleUpTo),
            (1..30_u64).prop_map(Step::Park),
            (1..30_u64).prop_map(Step::Retry),
            Just(Step::Restart),
            Just(Step::Later),
        ]
    }

    proptest! {
        /// Protects at least once: whatever happens in whatever order, restarts included, each change is settled, parked, or still to
        /// come. The model is a set of those that were settled.
        #[test]
        fn no_change_is_lost(steps in prop::collection::vec(step(), 1..60)) {
            let mut progress = fresh();
            let mut rows: BTreeMap<Place, Parked> = BTreeMap::new();
            let mut settled: BTreeSet<u64> = BTreeSet::new();
            let mut now_ms = 0;
            for step in steps {
                match step {
                    Step::Fill => fill(&mut progress, progress.looked_to().map_or(1, |place| place.offset + 1)),
                    Step::HandOut(count) => drop(progress.hand_out(now_ms, count, "")),
                    Step::Settle(offset) => if progress.settle(place(offset)) { settled.insert(offset); },
                    Step::SettleUpTo(offset) => {
                        let aside: Vec<u64> = progress.parked.keys().map(|place| place.offset).collect();
                        progress.settle_up_to(place(offset));
                        settled.extend((1..=offset).filter(|offset| !aside.contains(offset)));
                    }
                    Step::Park(offset) => { progress.park(place(offset), "", ""); }
                    Step::Retry(offset) => { progress.retry(place(offset)); }
                    Step::Later => now_ms += 1_000,
                    Step::Restart => progress = Progress::of(BOUNDS, progress.kept(), rows.clone()),
                }
                for (place, parked) in progress.take_touched() {
                    match parked {
                        Some(parked) => { rows.insert(place, parked); }
                        None => { rows.remove(&place); }
                    }
                }
                let floor = progress.floor().map_or(0, |place| place.offset);
                for offset in (1..=floor).chain(progress.settled.iter().map(|place| place.offset)) {
                    let place = place(offset);
                    let is_gone = Some(place) <= progress.floor() || progress.settled.contains(&place);
                    prop_assert!(!is_gone || settled.contains(&offset) || rows.contains_key(&place), "{offset} is lost");
                }
            }
        }
    }
}
