//! Lists. All pages of a list are of one position; the pages after the first read the history at it.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use recant_proto::{
    id::{Kind, Standing},
    position::ChangeId,
    v1::{Content, content::Form},
};
use serde::{Deserialize, Serialize};

use super::{Moment, NodeView, RetractionView, SourceView, SpaceView, covering};
use crate::{
    fold::space::{recent_states, scan_space},
    history,
    justification::graph::Node,
    store::{Store, StoreError},
    tables::{
        SpaceNumber, Table, damaged, decode, justifications, node_states, nodes, number_of, numbered, of_space,
        retractions as retractions_table, source_history, sources as sources_table, spaces as spaces_table,
    },
};

/// Which nodes to list. An absent field lets everything through.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// IN or OUT.
    pub is_in: Option<bool>,
    /// Of this kind.
    pub kind: Option<Kind>,
    /// From this source.
    pub source: Option<String>,
    /// Written by this agent.
    pub agent: Option<String>,
    /// In this run.
    pub run: Option<String>,
    /// About this subject.
    pub subject: Option<String>,
    /// Whose text has all of these words, whatever their case.
    pub words: Vec<String>,
}

/// Which page of a list.
#[derive(Debug, Clone, Default)]
pub struct PageRequest {
    /// `next` of the page before.
    pub after: Option<String>,
    /// At most so many items.
    pub items_max: usize,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// What it holds.
    pub items: Vec<T>,
    /// Where the next page begins; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next: Option<String>,
    /// The position that all pages reflect.
    pub position: String,
    /// Where to follow from.
    pub cursor: String,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The cursor is not one of this list.
    #[error("{0:?} is not a cursor of this list; take `next` of the page before, or start again without one")]
    Cursor(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A place in a list is written as a cursor whose index is the number of the last row seen.
fn resume(moment: Moment, after: Option<&str>) -> Result<(Moment, Option<u32>), PageError> {
    let Some(text) = after else { return Ok((moment, None)) };
    let place = ChangeId::from_cursor(text).map_err(|_| PageError::Cursor(text.to_owned()))?;
    let same_log = place.incarnation == moment.incarnation && place.position.partition == moment.position.partition;
    if !same_log || place.position.offset > moment.position.offset {
        return Err(PageError::Cursor(text.to_owned()));
    }
    Ok((moment.at_offset(place.position.offset), Some(place.index)))
}

/// Nodes of a space, in the order in which they were first named.
pub fn list(
    store: &impl Store,
    space_name: &str,
    moment: Moment,
    filter: &Filter,
    request: &PageRequest,
) -> Result<Page<NodeView>, PageError> {
    let (moment, after) = resume(moment, request.after.as_deref())?;
    let page = |items, next| Page { items, next, position: moment.position.to_string(), cursor: moment.cursor() };
    let Some(space) = spaces_table::get(store, space_name)?.map(|row| row.space()) else {
        return Ok(page(Vec::new(), None));
    };
    let past = match moment.is_now {
        true => None,
        false => Some(history::moved_since(store, space, moment.position.offset)?),
    };
    let recent = recent_states(store, space)?;
    let view = |number: u32, value: &[u8]| -> Result<Option<NodeView>, StoreError> {
        let node = Node(number);
        let Some(head) = nodes::Row::decode(value)?.head else { return Ok(None) };
        if head.offset > moment.position.offset || !moment.shows(head.observed) {
            return Ok(None);
        }
        let standing = match (past.as_ref().and_then(|past| past.get(&node)), recent.get(&node)) {
            (Some(then), _) => *then,
            (None, Some(state)) => state.standing,
            (None, None) => node_states::get(store, space, node)?.map_or(head.standing, |state| state.standing),
        };
        if !lets_through(filter, &head, standing) {
            return Ok(None);
        }
        let row = nodes::Whole::decode(value)?;
        if filter.subject.as_ref().is_some_and(|subject| *subject != row.texts.subject) {
            return Ok(None);
        }
        if !has_words(filter, row.texts.content.as_ref()) {
            return Ok(None);
        }
        let view = NodeView::read(store, (space_name, space), &moment, node, row, Some(standing))?;
        let is_from = filter.source.as_ref().is_none_or(|source| *source == view.source);
        Ok(is_from.then_some(view))
    };
    let (items, next) = fill(store, Table::Nodes, space, &moment, from(after), request.items_max, view)?;
    Ok(page(items, next))
}

/// The number of the row with which a page begins.
fn from(after: Option<u32>) -> u32 {
    after.map_or(0, |last| last.saturating_add(1))
}

/// At most so many of what the rows of a space become, from a number on, and where the next page begins; what becomes nothing is
/// passed over.
fn fill<T>(
    store: &impl Store,
    table: Table,
    space: SpaceNumber,
    moment: &Moment,
    from: u32,
    items_max: usize,
    mut view: impl FnMut(u32, &[u8]) -> Result<Option<T>, StoreError>,
) -> Result<(Vec<T>, Option<String>), StoreError> {
    let (mut items, mut next, mut last) = (Vec::new(), None, 0);
    let mut visit = |key: &[u8], value: &[u8]| -> Result<ControlFlow<()>, StoreError> {
        let number = number_of(table, key)?;
        let Some(item) = view(number, value)? else { return Ok(ControlFlow::Continue(())) };
        if items.len() == items_max {
            let place = ChangeId { incarnation: moment.incarnation, position: moment.position, index: last };
            next = Some(place.to_cursor());
            return Ok(ControlFlow::Break(()));
        }
        items.push(item);
        last = number;
        Ok(ControlFlow::Continue(()))
    };
    let mut outcome = Ok(());
    store.scan(table, &of_space(space), &numbered(space, from), &mut |key, value| {
        visit(key, value).unwrap_or_else(|error| {
            outcome = Err(error);
            ControlFlow::Break(())
        })
    })?;
    outcome?;
    Ok((items, next))
}

/// Whether a text has all the words that are looked for, each as a whole word.
fn has_words(filter: &Filter, content: Option<&Content>) -> bool {
    if filter.words.is_empty() {
        return true;
    }
    let Some(Form::Text(text)) = content.and_then(|content| content.form.as_ref()) else { return false };
    let text = text.to_lowercase();
    let words: HashSet<&str> = text.split(|letter: char| !letter.is_alphanumeric()).collect();
    filter.words.iter().all(|word| words.contains(word.to_lowercase().as_str()))
}

pub(super) fn lets_through(filter: &Filter, head: &nodes::Head<'_>, standing: Standing) -> bool {
    let same = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
    filter.is_in.is_none_or(|is_in| is_in == standing.is_in())
        && filter.kind.is_none_or(|kind| head.kind == kind)
        && same(&filter.agent, head.agent)
        && same(&filter.run, head.run)
        // An observation has a source, and nothing else has; which one is compared once its name is read.
        && (filter.source.is_none() || head.source.is_some())
}

/// All sources of a space that existed at a moment, in order of their first mention.
pub fn sources(store: &impl Store, space_name: &str, moment: &Moment) -> Result<Page<SourceView>, StoreError> {
    sources_from(store, space_name, moment, 0, usize::MAX)
}

/// A page of them.
pub fn sources_page(
    store: &impl Store,
    space_name: &str,
    moment: Moment,
    request: &PageRequest,
) -> Result<Page<SourceView>, PageError> {
    let (moment, after) = resume(moment, request.after.as_deref())?;
    Ok(sources_from(store, space_name, &moment, from(after), request.items_max)?)
}

fn sources_from(
    store: &impl Store,
    space_name: &str,
    moment: &Moment,
    from: u32,
    items_max: usize,
) -> Result<Page<SourceView>, StoreError> {
    let (mut items, mut next) = (Vec::new(), None);
    if let Some(space) = spaces_table::get(store, space_name)?.map(|row| row.space()) {
        let standing = covering::Standing::at(store, space, moment)?;
        let observations = if moment.is_now { HashMap::new() } else { observations_at(store, space, moment)? };
        (items, next) = fill(store, Table::Sources, space, moment, from, items_max, |number, value| {
            let now: sources_table::Row = decode(Table::Sources, value)?;
            let row = if moment.is_now {
                now
            } else {
                let then = source_history::as_of(store, space, number, moment.position.offset)?;
                let observations = observations.get(&number).copied().unwrap_or(0);
                sources_table::Row { observations, ..then.unwrap_or_else(|| sources_table::Row::named(now.id())) }
            };
            let retracted_by = standing.naming_source(row.id());
            let is_known = row.exists || !retracted_by.is_empty();
            Ok(is_known.then(|| SourceView::of(&row, retracted_by)))
        })?;
    }
    Ok(Page { items, next, position: moment.position.to_string(), cursor: moment.cursor() })
}

/// How many observations of each source had arrived at a moment.
fn observations_at(store: &impl Store, space: SpaceNumber, moment: &Moment) -> Result<HashMap<u32, u32>, StoreError> {
    let mut observations = HashMap::new();
    scan_space(store, Table::Nodes, space, |_, value| {
        let head = nodes::Row::decode(value)?.head.filter(|head| head.offset <= moment.position.offset);
        if let Some(source) = head.and_then(|head| head.source) {
            *observations.entry(source).or_default() += 1;
        }
        Ok(())
    })?;
    Ok(observations)
}

/// All retractions of a space that had begun or been lifted at a moment.
pub fn retractions(store: &impl Store, space_name: &str, moment: &Moment) -> Result<Page<RetractionView>, StoreError> {
    retractions_from(store, space_name, moment, 0, usize::MAX)
}

/// A page of them.
pub fn retractions_page(
    store: &impl Store,
    space_name: &str,
    moment: Moment,
    request: &PageRequest,
) -> Result<Page<RetractionView>, PageError> {
    let (moment, after) = resume(moment, request.after.as_deref())?;
    Ok(retractions_from(store, space_name, &moment, from(after), request.items_max)?)
}

fn retractions_from(
    store: &impl Store,
    space_name: &str,
    moment: &Moment,
    from: u32,
    items_max: usize,
) -> Result<Page<RetractionView>, StoreError> {
    let (mut items, mut next) = (Vec::new(), None);
    if let Some(space) = spaces_table::get(store, space_name)?.map(|row| row.space()) {
        (items, next) = fill(store, Table::Retractions, space, moment, from, items_max, |_, value| {
            let row: retractions_table::Row = decode(Table::Retractions, value)?;
            let known = [&row.began, &row.lifted].into_iter().flatten().any(|at| at.offset <= moment.position.offset);
            Ok(known.then(|| RetractionView::of(&row, moment)))
        })?;
    }
    Ok(Page { items, next, position: moment.position.to_string(), cursor: moment.cursor() })
}

/// The spaces of a partition, the control space left out.
pub fn spaces(store: &impl Store, moment: &Moment) -> Result<Vec<SpaceView>, StoreError> {
    let all = spaces_table::all(store)?.into_iter();
    let shown = all.filter(|(name, _)| name != recant_proto::id::CONTROL_SPACE);
    Ok(shown.map(|(name, row)| SpaceView::of(name, &row, moment)).collect())
}

/// One run: what it was shown, concluded and did, in the order of the log, and what has fallen since.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(utoipa::ToSchema))]
#[serde(bound(deserialize = "'de: 'static"))]
pub struct Trace {
    /// The run.
    pub run: String,
    /// The position that the answer reflects.
    pub position: String,
    /// Where to follow from.
    pub cursor: String,
    /// Its nodes, in the order of the log.
    pub items: Vec<NodeView>,
    /// Ids of other nodes to which the run gave a reason.
    pub also_justified: Vec<String>,
    /// How many of its nodes are OUT.
    pub fallen: usize,
}

/// The trace of a run; none if the space has nothing of it.
pub fn run_trace(store: &impl Store, space_name: &str, moment: &Moment, run: &str) -> Result<Option<Trace>, PageError> {
    let filter = Filter { run: Some(run.to_owned()), ..Filter::default() };
    let all = PageRequest { after: None, items_max: usize::MAX };
    let page = list(store, space_name, moment.clone(), &filter, &all)?;
    let Some(space) = spaces_table::get(store, space_name)?.map(|row| row.space()) else { return Ok(None) };
    let mut items = page.items;
    items
        .sort_by_key(|item| item.position.parse::<recant_proto::position::Position>().map_or(u64::MAX, |at| at.offset));
    let mut also_justified = Vec::new();
    scan_space(store, Table::Justifications, space, |_, value| {
        let justification = justifications::Row::decode(value)?.head;
        let is_known = justification.offset <= moment.position.offset && moment.shows(justification.observed);
        if justification.run == run && is_known {
            let head = nodes::get(store, space, justification.head)?;
            let id = head.texts.id;
            if id.is_empty() {
                return Err(damaged(Table::Nodes, "a node has no id"));
            }
            // One that had not arrived was nobody's yet.
            let had_arrived = head.kind.is_some() && head.offset <= moment.position.offset;
            let is_its_own = had_arrived && head.run == run;
            if !is_its_own && !also_justified.contains(&id) {
                also_justified.push(id);
            }
        }
        Ok(())
    })?;
    if items.is_empty() && also_justified.is_empty() {
        return Ok(None);
    }
    let fallen = items.iter().filter(|item| item.status == Standing::Unsupported.status()).count();
    Ok(Some(Trace { run: run.to_owned(), position: page.position, cursor: page.cursor, items, also_justified, fallen }))
}
