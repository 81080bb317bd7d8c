//! The state of a space at one moment, and the questions that every door asks of it.

use std::cell::OnceCell;

use recant_projections::{
    fold::{self, space::Space},
    query::{self, Explanation, Filter, Moment, NodeView, Page, PageRequest, RetractionView, SourceView},
    store::{
        Store, StoreError,
        rocks::{AtMoment, Reader},
    },
    tables::{self, Table, events, partition},
};
use recant_proto::{position::Position, time, v1::Event};

use super::{
    error::HostError,
    opened::{Lent, Opened},
};
use crate::{
    outcome::{self, Decided},
    problem::{Problem, Sort},
};

/// A space at a moment. Everything that is asked of one reading is of the same position.
pub struct Reading<'a> {
    store: AtMoment<'a>,
    space: &'a str,
    opened: &'a Opened,
    /// The space, once a question needs it.
    lent: OnceCell<Lent<'a>>,
    row: partition::Row,
    moment: Moment,
}

impl<'a> Reading<'a> {
    /// Of a space, now.
    pub(super) fn of(reader: &'a Reader, opened: &'a Opened, space: &'a str) -> Result<Reading<'a>, HostError> {
        let store = reader.moment();
        let absent = || StoreError::Absent("the partition".to_owned());
        let row = partition::get(&store)?.ok_or_else(absent)?;
        let moment = Moment::now(&store)?.ok_or_else(absent)?;
        Ok(Reading { store, space, opened, lent: OnceCell::new(), row, moment })
    }

    /// The moment.
    pub fn moment(&self) -> &Moment {
        &self.moment
    }

    /// The position that answers reflect.
    pub fn position(&self) -> Position {
        self.moment.position
    }

    /// Whether an event of the partition is applied.
    pub(super) fn has(&self, event: Position) -> bool {
        self.row.next_offset > event.offset
    }

    /// The same space as of a time on the log's clock or a position, and only what its writers date to a time or before.
    pub fn at(self, as_of: Option<&str>, valid_at: Option<&str>) -> Result<Reading<'a>, Problem> {
        let mut moment = self.moment.clone();
        if let Some(when) = as_of {
            moment = self.moment_of(when)?;
        }
        if let Some(time) = valid_at {
            let instant =
                time::parse("valid_at", time).map_err(|violation| Problem::refused(Sort::Wrong, &violation))?;
            moment = moment.valid_at(Some(instant));
        }
        Ok(Reading { moment, ..self })
    }

    fn moment_of(&self, when: &str) -> Result<Moment, Problem> {
        let moment = self.moment.clone();
        if let Ok(position) = when.parse::<Position>() {
            if position.partition != moment.position.partition {
                let partition = moment.position.partition;
                return Err(HostError::OtherPartition { wanted: position, partition }.into());
            }
            return Ok(moment.at_offset(position.offset));
        }
        let instant = time::parse("as_of", when).map_err(|violation| {
            Problem::bad_moment(format!(
                "{violation}; give a time on the log's clock, or a position (partition:offset)"
            ))
        })?;
        let found = moment.at_time(&self.store, instant.to_log_ms()).map_err(HostError::from)?;
        found.ok_or_else(|| {
            Problem::new(Sort::No, "not_found", "The log had nothing then", format!("the log begins after {when}"))
        })
    }

    /// The space, read row by row; none if nothing was ever applied to it.
    fn open(&self) -> Result<Option<&Space>, HostError> {
        if let Some(lent) = self.lent.get() {
            return Ok(lent.space());
        }
        let lent = self.opened.lend(&self.store, self.space)?;
        Ok(self.lent.get_or_init(|| lent).space())
    }

    /// A node; none if there is none of this id.
    pub fn node(&self, id: &str) -> Result<Option<NodeView>, HostError> {
        let Some(space) = self.open()? else { return Ok(None) };
        Ok(query::node(&self.store, space, &self.moment, id)?)
    }

    /// Why a node is believed or not, with at most so many nodes below it; none if there is none of this id.
    pub fn explain(&self, id: &str, nodes_max: usize) -> Result<Option<Explanation>, HostError> {
        let Some(space) = self.open()? else { return Ok(None) };
        Ok(query::explain(&self.store, space, &self.moment, id, nodes_max)?)
    }

    /// A page of nodes.
    pub fn list(&self, filter: &Filter, request: &PageRequest) -> Result<Page<NodeView>, HostError> {
        Ok(query::list(&self.store, self.space, self.moment.clone(), filter, request)?)
    }

    /// All sources.
    pub fn sources(&self) -> Result<Page<SourceView>, HostError> {
        Ok(query::sources(&self.store, self.space, &self.moment)?)
    }

    /// A page of the sources.
    pub fn sources_page(&self, request: &PageRequest) -> Result<Page<SourceView>, HostError> {
        Ok(query::sources_page(&self.store, self.space, self.moment.clone(), request)?)
    }

    /// A page of the retractions, those that were lifted too.
    pub fn retractions_page(&self, request: &PageRequest) -> Result<Page<RetractionView>, HostError> {
        Ok(query::retractions_page(&self.store, self.space, self.moment.clone(), request)?)
    }

    /// All retractions, those that were lifted too.
    pub fn retractions(&self) -> Result<Page<RetractionView>, HostError> {
        Ok(query::retractions(&self.store, self.space, &self.moment)?)
    }

    /// The state digest; 0 if nothing was ever applied to the space.
    pub fn digest(&self) -> Result<u128, HostError> {
        Ok(fold::digest_of(&self.store, self.space)?)
    }

    /// Where an event was applied, and whether it was skipped; none if it was not, or was rejected.
    pub fn event(&self, id: &str) -> Result<Option<(Position, bool)>, HostError> {
        let Some(space) = query::space(&self.store, self.space)? else { return Ok(None) };
        let Some(value) = self.store.get(Table::Events, &events::key(space.space(), id))? else { return Ok(None) };
        let row: events::Row = tables::decode(Table::Events, &value)?;
        Ok(Some((Position { offset: row.offset, ..self.moment.position }, row.skipped)))
    }

    /// How many sources an event names that begins or ends a retraction.
    pub fn counted_sources(&self, event: &Event) -> Result<u32, HostError> {
        Ok(outcome::counted_sources(&self.store, event)?)
    }

    /// What the event of a retraction or reinstatement would do.
    pub fn preview(&self, event: &Event) -> Result<Decided, HostError> {
        let empty;
        let space = match self.open()? {
            Some(space) => space,
            None => {
                empty = Space::empty(self.space, u32::MAX);
                &empty
            }
        };
        let preview = fold::preview(&self.store, &self.row, space, event)?;
        let position = preview.position.to_string();
        Ok(Decided { position, records: preview.records, sources: preview.sources, duplicate_of: None })
    }
}
