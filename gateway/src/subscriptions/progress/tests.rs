//! What must hold of how far a subscription has come.

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
    assert_eq!(
        offsets(&progress.hand_out(0, 10, "")),
        [(1, 1)],
        "what is retried is not settled by what came after it"
    );
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
                Step::Fill => {
                    // What the stream has behind that place.
                    let from = progress.looked_to().map_or(1, |place| place.offset + u64::from(place.index > 0));
                    fill(&mut progress, from);
                }
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
