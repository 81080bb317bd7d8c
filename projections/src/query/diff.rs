//! What turned between two moments, and because of which event.

use recant_proto::{
    id::{Kind, Standing},
    position::Position,
    time,
    v1::{ActionState, Cause, Change},
};

use super::{Filter, Moment, list::lets_through};
use crate::{
    history::{self, Turned},
    justification::graph::Node,
    store::{Store, StoreError},
    tables::{SpaceNumber, actions, moves, nodes, sources, spaces},
};

/// The difference between two moments of a space.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// The earlier moment.
    pub from: Position,
    /// The later one.
    pub to: Position,
    /// What turned, in the order of the events that brought it to what it is at the later moment. Each is a change from the
    /// one moment to the other, without an id or a cascade; `from` is empty for what had not arrived.
    pub items: Vec<Change>,
    /// How many there are, whether shown or not.
    pub total: usize,
    /// How many turned, and were at the later moment again what they had been.
    pub turned_back: usize,
}

/// What turned in a space from one moment to a later one: at most so many items of those that a filter lets through, with its
/// status that of the later moment.
pub fn diff(
    store: &impl Store,
    space_name: &str,
    from: &Moment,
    to: &Moment,
    filter: &Filter,
    items_max: usize,
) -> Result<Diff, StoreError> {
    let mut diff = Diff { from: from.position, to: to.position, items: Vec::new(), total: 0, turned_back: 0 };
    let Some(space) = spaces::get(store, space_name)? else { return Ok(diff) };
    let turned = history::between(store, &space, from.position.offset, to.position.offset)?;
    let mut turned: Vec<(Node, Turned)> = turned.into_iter().collect();
    turned.sort_by_key(|(node, turned)| (turned.offset, *node));
    let maker = Maker { store, space_name, space: space.space(), to, filter };
    for (node, turned) in turned {
        let is_back = turned.before.is_some_and(|before| before.is_in() == turned.after.is_in());
        let show = diff.total < items_max && !is_back;
        let Some(change) = maker.change(node, &turned, show)? else { continue };
        if is_back {
            diff.turned_back += 1;
            continue;
        }
        diff.total += 1;
        diff.items.extend(Some(change).filter(|_| show));
    }
    Ok(diff)
}

struct Maker<'a, S> {
    store: &'a S,
    space_name: &'a str,
    space: SpaceNumber,
    to: &'a Moment,
    filter: &'a Filter,
}

impl<S: Store> Maker<'_, S> {
    /// The change, if the filter lets it through; empty if it is only to be counted.
    fn change(&self, node: Node, turned: &Turned, show: bool) -> Result<Option<Change>, StoreError> {
        let value = nodes::value(self.store, self.space, node)?;
        let row = nodes::Row::decode(&value)?;
        let Some(head) = row.head.filter(|head| lets_through(self.filter, head, turned.after)) else {
            return Ok(None);
        };
        let names_something = self.filter.source.is_some() || self.filter.subject.is_some();
        if !show && !names_something {
            return Ok(Some(Change::default()));
        }
        let names = row.names()?;
        let source = head.source.map(|number| sources::get(self.store, self.space, number)).transpose()?;
        let source = source.map(|source| source.id().to_owned()).unwrap_or_default();
        let other = |wanted: &Option<String>, is: &str| wanted.as_ref().is_some_and(|wanted| wanted != is);
        if other(&self.filter.source, &source) || other(&self.filter.subject, &names.subject) {
            return Ok(None);
        }
        let status = |standing: Standing| standing.status().to_owned();
        Ok(Some(Change {
            space: self.space_name.to_owned(),
            node: names.id,
            kind: head.kind.as_str().to_owned(),
            subject: names.subject,
            agent: head.agent.to_owned(),
            run: head.run.to_owned(),
            source,
            from: turned.before.map(status).unwrap_or_default(),
            to: status(turned.after),
            why: turned.after.why().unwrap_or_default().to_owned(),
            cause: Some(self.cause(&row, head.kind, head.offset, turned)?),
            position: Position { offset: turned.offset, ..self.to.position }.to_string(),
            time: time::format_log_ms(turned.log_time_ms),
            action: self.action(node, head.kind)?,
            ..Change::default()
        }))
    }

    /// The event that brought a node to what it is.
    fn cause(&self, row: &nodes::Row<'_>, kind: Kind, born: u64, turned: &Turned) -> Result<Cause, StoreError> {
        if turned.offset == born {
            return Ok(Cause { event: row.texts()?.event, r#type: kind.born_by().to_owned(), ..Cause::default() });
        }
        let cause = moves::cause(self.store, self.space, turned.offset)?.unwrap_or_default();
        Ok(Cause { event: cause.event, r#type: cause.body, retraction: cause.retraction })
    }

    /// An action as it was at the later moment.
    fn action(&self, node: Node, kind: Kind) -> Result<Option<ActionState>, StoreError> {
        if kind != Kind::Action {
            return Ok(None);
        }
        let row = actions::get(self.store, self.space, node)?;
        Ok(row.map(|row| ActionState { state: row.state_at(self.to.position.offset).to_owned(), ..row.to_state() }))
    }
}
