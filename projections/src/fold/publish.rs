//! The records of a cascade: a summary, then its changes in order.

use std::collections::HashMap;

use prost::Message as _;
use recant_proto::{
    id::Kind,
    position::ChangeId,
    time,
    v1::{self, ByKind, Cascade, Cause, Change, Summary, target::What},
    wire,
};

use super::{Context, Message, Output};
use crate::{
    justification::settle,
    store::{Read, Store, StoreError},
    tables::{SpaceNumber, Table, actions, events, nodes, sources},
};

/// What all records of a cascade share.
pub struct Frame<'a> {
    /// The space.
    pub space: &'a str,
    /// The space's number in the tables.
    pub number: SpaceNumber,
    /// The id that the cascade's records get, at index 0.
    pub first: ChangeId,
    /// The causing event's log time.
    pub log_time_ms: i64,
    /// What caused it.
    pub cause: Cause,
}

/// An event as a cause.
pub fn cause_of(event: &v1::Event) -> Cause {
    let (body, retraction) =
        event.body.as_ref().map_or(("", ""), |body| (wire::body_name(body), events::retraction_of(&event.id, body)));
    Cause { event: event.id.clone(), r#type: body.to_owned(), retraction: retraction.to_owned() }
}

/// The records of the cascade of the event in hand.
pub(super) fn cascade<S: Store>(
    context: &Context<'_, S>,
    changes: &[settle::Change],
    targets: &[v1::Target],
) -> Result<Vec<Output>, StoreError> {
    let frame = Frame {
        space: &context.space.name,
        number: context.space.number(),
        first: ChangeId { incarnation: context.incarnation, position: context.position, index: 0 },
        log_time_ms: context.log_time_ms,
        cause: cause_of(context.event),
    };
    let records = records(&context.staged, &frame, changes, targets)?;
    let output = |change: Change| Output {
        key: context.space.name.clone().into_bytes(),
        value: change.encode_to_vec(),
        message: Message::Change(change),
    };
    Ok(records.into_iter().map(output).collect())
}

/// The records of a cascade, its summary first; none if nothing changed.
pub fn records(
    store: &impl Read,
    frame: &Frame<'_>,
    changes: &[settle::Change],
    targets: &[v1::Target],
) -> Result<Vec<Change>, StoreError> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    // A cascade has no more changes than its space has nodes, and those are numbered by a u32.
    let total = changes.len() as u32;
    let mut records = Vec::with_capacity(changes.len() + 1);
    let mut kinds = [0; 4];
    let mut maker = Maker { store, frame, shared: shared(frame, total), source_ids: HashMap::new() };
    records.push(maker.at(0));
    for (index, change) in (1..).zip(changes) {
        let (record, kind) = maker.record(change, index)?;
        kinds[kind as usize - 1] += 1;
        records.push(record);
    }
    records[0].summary = Some(summary(total, kinds, targets));
    Ok(records)
}

fn summary(total: u32, kinds: [u32; 4], targets: &[v1::Target]) -> Summary {
    let [observation, belief, plan, action] = kinds.map(Some);
    Summary {
        changed: Some(total),
        sources: Some(count_sources(targets)),
        by_kind: Some(ByKind { observation, belief, plan, action }),
    }
}

/// How many sources some targets name.
pub fn count_sources(targets: &[v1::Target]) -> u32 {
    let named = targets.iter().filter_map(|target| match &target.what {
        Some(What::Source(source)) => Some(source),
        _ => None,
    });
    named.collect::<std::collections::HashSet<_>>().len() as u32
}

/// What all records of a cascade say.
fn shared(frame: &Frame<'_>, total: u32) -> Change {
    let position = frame.first.position.to_string();
    Change {
        space: frame.space.to_owned(),
        cause: Some(frame.cause.clone()),
        cascade: Some(Cascade { id: position.clone(), index: None, total }),
        position,
        time: time::format_log_ms(frame.log_time_ms),
        ..Change::default()
    }
}

/// Makes the records of a cascade.
struct Maker<'a, R> {
    store: &'a R,
    frame: &'a Frame<'a>,
    shared: Change,
    /// The ids of sources that were read: a cascade has few of them.
    source_ids: HashMap<u32, String>,
}

impl<R: Read> Maker<'_, R> {
    /// The record at a place, without what it says of a node.
    fn at(&self, index: u32) -> Change {
        let mut record = self.shared.clone();
        record.id = ChangeId { index, ..self.frame.first }.to_string();
        if let Some(cascade) = &mut record.cascade {
            cascade.index = Some(index);
        }
        record
    }

    fn record(&mut self, change: &settle::Change, index: u32) -> Result<(Change, Kind), StoreError> {
        let node = change.moved.node;
        let value = nodes::value(self.store, self.frame.number, node)?;
        let row = nodes::Row::decode(&value)?;
        let head = row.head.ok_or_else(|| crate::tables::damaged(Table::Nodes, "a node that changed has no kind"))?;
        let names = row.names()?;
        let action = match head.kind {
            Kind::Action => actions::get(self.store, self.frame.number, node)?,
            _ => None,
        };
        let source = head.source.map(|number| self.source_id(number)).transpose()?;
        let record = Change {
            node: names.id,
            kind: head.kind.as_str().to_owned(),
            subject: names.subject,
            agent: head.agent.to_owned(),
            run: head.run.to_owned(),
            source: source.unwrap_or_default(),
            from: change.moved.before.map(|before| before.status().to_owned()).unwrap_or_default(),
            to: change.moved.after.status().to_owned(),
            why: change.moved.after.why().unwrap_or_default().to_owned(),
            distance: Some(change.distance),
            action: action.map(|action| action.to_state()),
            ..self.at(index)
        };
        Ok((record, head.kind))
    }

    fn source_id(&mut self, number: u32) -> Result<String, StoreError> {
        if let Some(id) = self.source_ids.get(&number) {
            return Ok(id.clone());
        }
        let id = sources::get(self.store, self.frame.number, number)?.id().to_owned();
        self.source_ids.insert(number, id.clone());
        Ok(id)
    }
}
