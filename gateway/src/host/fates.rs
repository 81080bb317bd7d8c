//! Who waits for what became of which events. Told of them in any order: an event may be processed before the thread that appended
//! it has said so.

use std::collections::HashMap;

use recant_projections::fold::Fate;
use recant_proto::position::Position;

use super::gather::Appended;

/// The fates that are awaited, and those that nobody has asked for yet. All events of the log pass through one process, which says of
/// each that it was appended: so what is kept here is what is under way.
#[derive(Default)]
pub(super) struct Fates {
    known: HashMap<Position, Fate>,
    awaited: Vec<Appended>,
}

impl Fates {
    /// Events were appended.
    pub(super) fn expect(&mut self, appended: Appended) {
        self.awaited.push(appended);
    }

    /// An event was processed. It may be told again, if what it was processed with was not published.
    pub(super) fn note(&mut self, position: Position, fate: &Fate) {
        self.known.insert(position, fate.clone());
    }

    /// Tells those whose events are all processed.
    pub(super) fn tell(&mut self) {
        let known = &mut self.known;
        let (settled, awaited) = std::mem::take(&mut self.awaited)
            .into_iter()
            .partition(|appended: &Appended| appended.positions.iter().all(|position| known.contains_key(position)));
        self.awaited = awaited;
        for Appended { positions, tell } in settled {
            let fates = positions.iter().filter_map(|position| known.remove(position)).collect();
            // Whoever asked may have stopped waiting.
            let _ = tell.send(fates);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    /// Protects writers from fates that are another's, or that come before all of theirs are known.
    #[test]
    fn each_is_told_once_all_of_its_own_are_known() {
        let at = |offset| Position { partition: 0, offset };
        let mut fates = Fates::default();
        let (tell, mut first) = oneshot::channel();
        // Processed before it is known who appended it.
        fates.note(at(1), &Fate::Accepted);
        fates.expect(Appended { positions: vec![at(1), at(2)], tell });
        let (tell, mut second) = oneshot::channel();
        fates.expect(Appended { positions: vec![at(3)], tell });
        fates.tell();
        assert!(first.try_recv().is_err() && second.try_recv().is_err());
        fates.note(at(3), &Fate::Duplicate(1));
        fates.tell();
        assert!(first.try_recv().is_err());
        assert_eq!(second.try_recv().unwrap(), [Fate::Duplicate(1)]);
        fates.note(at(2), &Fate::Skipped("new".to_owned()));
        fates.tell();
        assert_eq!(first.try_recv().unwrap(), [Fate::Accepted, Fate::Skipped("new".to_owned())]);
        assert!(fates.known.is_empty() && fates.awaited.is_empty());
    }
}
