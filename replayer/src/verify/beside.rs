//! What was published, followed beside a replay: each record held against the one that folding gives.

use prost::Message as _;
use recant_eventlog::{Bounds, ReadLog, Record, Topic};
use recant_projections::{
    fold::{Folded, Message, Output, Partition},
    justification::digest::to_hex,
    store::WriteStore,
};
use recant_proto::{
    position::{ChangeId, Position},
    v1::Change,
};

use super::{Difference, Subject, What};
use crate::{
    published::{Published, Said, Stream},
    replay::{Observer, ReplayError},
};

/// So far a record that is not where it should be is looked for.
const LOOK_AHEAD_RECORDS: usize = 4_096;

/// What was published, followed beside the replay.
pub(super) struct Beside<'a, L> {
    number: u32,
    changes: Option<Stream<'a, L>>,
    rejected: Option<Stream<'a, L>>,
    /// Where the kept part of the changes begins, if their beginning is gone.
    changes_from: Option<ChangeId>,
    rejected_from: Option<Position>,
    /// Whether another logic version is in force where the replay is: what was published there cannot be compared.
    is_of_older_logic: bool,
    /// The offset of the first event whose outputs are compared, if there are earlier ones.
    pub compared_from: Option<u64>,
    pub events: u64,
    pub changes_compared: u64,
    pub digests_compared: u64,
    pub rejected_compared: u64,
    pub differences: Vec<Difference>,
}

impl<'a, L: ReadLog + Sync> Beside<'a, L> {
    pub fn begin(subject: &Subject<'a, L>) -> Result<Self, ReplayError> {
        let key = subject.only_space.map(str::as_bytes);
        let stream = |topic, bounds: Bounds| Stream::up_to(subject.log, topic, subject.number, bounds.end, key);
        let mut changes = stream(Topic::Changes, subject.changes)?;
        let mut rejected = stream(Topic::Rejected, subject.rejected)?;
        let changes_from = match (subject.changes.earliest, changes.peek()?) {
            (1.., Some(Published { said: Said::Change(id, _), .. })) => Some(*id),
            _ => None,
        };
        let rejected_from = match (subject.rejected.earliest, rejected.peek()?) {
            (1.., Some(first)) => Some(first.position),
            _ => None,
        };
        Ok(Beside {
            number: subject.number,
            changes: Some(changes),
            rejected: Some(rejected),
            changes_from,
            rejected_from,
            is_of_older_logic: false,
            compared_from: None,
            events: 0,
            changes_compared: 0,
            digests_compared: 0,
            rejected_compared: 0,
            differences: Vec::new(),
        })
    }

    /// The digests of positions below an offset, of a state that is there.
    fn digests<S: WriteStore>(&mut self, below: u64, partition: &mut Partition<S>) -> Result<(), ReplayError> {
        let Some(stream) = &mut self.changes else { return Ok(()) };
        while let Some(next) = stream.peek()? {
            if !next.is_digest() || next.position.offset >= below {
                return Ok(());
            }
            let Some(published) = stream.take()? else { return Ok(()) };
            let Some(change) = published.change() else { continue };
            let said = change.digest.clone().unwrap_or_default();
            let digest = partition.space(&change.space)?.map_or(0, |space| space.row.digest());
            self.digests_compared += 1;
            let ours = partition.row().logic_version;
            let (what, detail) = if said.logic_version != ours {
                let detail = format!("a digest of logic version {}; this program has {ours}", said.logic_version);
                (What::LogicVersion, detail)
            } else if said.digest != to_hex(digest) {
                (
                    What::Digest,
                    format!("the digest {} was published, and the log makes {}", said.digest, to_hex(digest)),
                )
            } else {
                continue;
            };
            self.differences.push(Difference {
                what,
                position: published.position.to_string(),
                space: Some(change.space.clone()),
                node: None,
                detail,
            });
        }
        Ok(())
    }

    fn output(&mut self, position: Position, output: &Output) -> Result<(), ReplayError> {
        match &output.message {
            Message::Change(change) => self.change(position, change, output),
            Message::Rejection(_) => self.rejection(position, output),
        }
    }

    fn change(&mut self, position: Position, change: &Change, output: &Output) -> Result<(), ReplayError> {
        let Some(stream) = &mut self.changes else { return Ok(()) };
        let id: Option<ChangeId> = change.id.parse().ok();
        let place = |id: ChangeId| (id.position, id.index);
        if let (Some(from), Some(id)) = (self.changes_from, id)
            && place(id) < place(from)
        {
            return Ok(());
        }
        self.changes_compared += 1;
        let difference = |what, detail| Difference {
            what,
            position: position.to_string(),
            space: Some(change.space.clone()),
            node: (!change.node.is_empty()).then(|| change.node.clone()),
            detail,
        };
        let found = match stream.peek()? {
            Some(found) if found.record.value == output.value && found.record.key == output.key => {
                stream.take()?;
                return Ok(());
            }
            Some(found) => found.clone(),
            None => {
                self.differences.push(difference(What::Missing, format!("the change {} was not published", change.id)));
                self.changes = None;
                return Ok(());
            }
        };
        let later = stream.look_ahead(LOOK_AHEAD_RECORDS)?.any(|later| later.record.value == output.value);
        self.differences.push(match &found.said {
            // Its place has passed.
            Said::Change(found_id, found) if id.is_some_and(|id| place(*found_id) < place(id)) => Difference {
                position: found_id.position.to_string(),
                space: Some(found.space.clone()),
                node: (!found.node.is_empty()).then(|| found.node.clone()),
                ..difference(What::Unexpected, format!("the log makes no record {} here", found.id))
            },
            Said::Change(_, found) if later => {
                let detail = format!("{} was published where {} should have been", found.id, change.id);
                difference(What::OutOfOrder, detail)
            }
            Said::Change(found_id, found) if Some(*found_id) == id => {
                difference(What::Altered, format!("the change {} was published as {}", change.id, told(found)))
            }
            _ => difference(What::Missing, format!("the change {} was not published", change.id)),
        });
        // What follows no longer stands beside its like.
        self.changes = None;
        Ok(())
    }

    fn rejection(&mut self, position: Position, output: &Output) -> Result<(), ReplayError> {
        let Some(stream) = &mut self.rejected else { return Ok(()) };
        if self.rejected_from.is_some_and(|from| position < from) {
            return Ok(());
        }
        self.rejected_compared += 1;
        let found = stream.take()?;
        let (what, at) = match &found {
            Some(found) if found.record.value == output.value => return Ok(()),
            Some(found) if found.position == position => (What::Altered, position),
            Some(found) if found.position < position => (What::Unexpected, found.position),
            _ => (What::Missing, position),
        };
        self.differences.push(Difference {
            what,
            position: at.to_string(),
            space: None,
            node: None,
            detail: "the rejection of this event is not the one that the log makes".to_owned(),
        });
        self.rejected = None;
        Ok(())
    }

    /// Passes over what was published by older logic versions, the changes with which this one took over among it: no fold
    /// gives them.
    fn pass_over_older_logic<S>(&mut self, below: u64, partition: &Partition<S>) -> Result<(), ReplayError>
    where
        S: WriteStore,
    {
        let was_of_older_logic = std::mem::replace(&mut self.is_of_older_logic, partition.check_in_force().is_err());
        if !was_of_older_logic || self.is_of_older_logic {
            return Ok(());
        }
        self.compared_from = Some(below);
        for stream in [&mut self.changes, &mut self.rejected].into_iter().flatten() {
            while stream.peek()?.is_some_and(|next| next.position.offset < below) {
                stream.take()?;
            }
        }
        Ok(())
    }

    /// What is left when everything was folded.
    pub fn finish<S: WriteStore>(&mut self, partition: &mut Partition<S>) -> Result<(), ReplayError> {
        self.pass_over_older_logic(partition.next_offset(), partition)?;
        if self.is_of_older_logic {
            return Ok(());
        }
        self.digests(u64::MAX, partition)?;
        for stream in [&mut self.changes, &mut self.rejected] {
            let Some(left) = stream.as_mut().map(Stream::take).transpose()?.flatten() else { continue };
            let change = left.change();
            self.differences.push(Difference {
                what: What::Unexpected,
                position: left.position.to_string(),
                space: change.map(|change| change.space.clone()),
                node: change.map(|change| change.node.clone()).filter(|node| !node.is_empty()),
                detail: format!(
                    "record {} of partition {} is one that the log does not make",
                    left.record.position.offset, self.number
                ),
            });
        }
        Ok(())
    }
}

impl<L: ReadLog + Sync, S: WriteStore> Observer<S> for Beside<'_, L> {
    fn before(&mut self, record: &Record, partition: &mut Partition<S>) -> Result<(), ReplayError> {
        self.pass_over_older_logic(record.position.offset, partition)?;
        if self.is_of_older_logic { Ok(()) } else { self.digests(record.position.offset, partition) }
    }

    fn after(&mut self, record: &Record, folded: &Folded) -> Result<(), ReplayError> {
        self.events += 1;
        if self.is_of_older_logic {
            return Ok(());
        }
        folded.outputs.iter().try_for_each(|output| self.output(record.position, output))
    }
}

/// A change, as it was published in the place of another.
fn told(change: &Change) -> String {
    let status = |status: &str| if status.is_empty() { "nothing".to_owned() } else { status.to_owned() };
    if change.node.is_empty() {
        return format!("{} bytes", change.encoded_len());
    }
    format!("{} from {} to {}", change.node, status(&change.from), status(&change.to))
}
