//! Retractions begin and end, and the same as a preview: one plan, settled over the graph or over an overlay.

use prost::Message;
use recant_proto::{
    position::{ChangeId, Position},
    reject::{Code, Violation},
    v1::{self, Change, Event, Reinstated, Retracted, event::Body, target::What},
};

use super::{
    Context, Output, Refusal, publish,
    space::{Space, known_targets},
};
use crate::{
    justification::{
        covers::Plan,
        settle::{Edit, Work},
    },
    store::{Read, Rows, Store, StoreError},
    tables::{
        SpaceNumber, Table,
        ids::{self, Namespace},
        partition,
        retractions::{self, Moment},
    },
};

/// What beginning or lifting comes to, once everything that can be refused was.
struct Intent {
    /// Targets of the retraction that begins; none if it arrives lifted.
    begin: Vec<v1::Target>,
    /// Standing retractions to be lifted, with their numbers.
    lift: Vec<(u32, retractions::Row)>,
    /// Ids that count as lifted before they arrive.
    lift_in_advance: Vec<String>,
    /// Whether the retraction arrives after having been lifted.
    arrives_lifted: bool,
}

impl Intent {
    fn lifted_targets(&self) -> Vec<v1::Target> {
        self.lift.iter().flat_map(|(_, row)| row.targets.clone()).collect()
    }

    /// The targets that a summary counts: of what begins, or else of what ends.
    fn counted_targets(&self) -> Vec<v1::Target> {
        if self.begin.is_empty() { self.lifted_targets() } else { self.begin.clone() }
    }
}

fn intend_retraction(
    store: &impl Read,
    space: &Space,
    partition_number: u32,
    event_id: &str,
    retracted: &Retracted,
) -> Result<Intent, Refusal> {
    let id = retraction_id(event_id, retracted);
    if retracted.replaces.iter().any(|replaced| replaced == id) {
        return Err(Violation::at(Code::BadValue, "retracted.replaces", "a retraction cannot replace itself").into());
    }
    let known = find(store, space.number(), id)?;
    let arrives_lifted = match known {
        None => false,
        Some((_, row)) if row.began.is_none() => true,
        Some((_, row)) => {
            let spent = if row.stands() { "stands already" } else { "was lifted, and its id is spent" };
            return Err(
                Violation::at(Code::RetractionIdTaken, "retraction", format!("{id:?} {spent}; use a new id")).into()
            );
        }
    };
    check_position(space, partition_number, &retracted.only_if_position)?;
    let begin = if arrives_lifted { Vec::new() } else { retracted.targets.clone() };
    let mut intent = Intent { begin, lift: Vec::new(), lift_in_advance: Vec::new(), arrives_lifted };
    for replaced in &retracted.replaces {
        if replaced == id {
            return Err(
                Violation::at(Code::BadValue, "retracted.replaces", "a retraction cannot replace itself").into()
            );
        }
        intend_lift(store, space.number(), replaced, &mut intent)?;
    }
    Ok(intent)
}

fn intend_lift(store: &impl Read, space: SpaceNumber, id: &str, intent: &mut Intent) -> Result<(), StoreError> {
    match find(store, space, id)? {
        None if !intent.lift_in_advance.iter().any(|other| other == id) => intent.lift_in_advance.push(id.to_owned()),
        Some((number, row)) if row.stands() && intent.lift.iter().all(|(other, _)| *other != number) => {
            intent.lift.push((number, row));
        }
        _ => {}
    }
    Ok(())
}

fn retraction_id<'a>(event_id: &'a str, retracted: &'a Retracted) -> &'a str {
    if retracted.retraction.is_empty() { event_id } else { &retracted.retraction }
}

fn find(store: &impl Read, space: SpaceNumber, id: &str) -> Result<Option<(u32, retractions::Row)>, StoreError> {
    let number = ids::get(store, space, Namespace::Retraction, id)?;
    number.map(|number| Ok((number, retractions::get(store, space, number)?))).transpose()
}

/// Refuses what was decided on a state that is no longer the present one.
fn check_position(space: &Space, partition_number: u32, only_if: &str) -> Result<(), Violation> {
    if only_if.is_empty() {
        return Ok(());
    }
    let only_if: Position =
        only_if.parse().map_err(|error| Violation::at(Code::BadValue, "only_if_position", format!("{error}")))?;
    let passed = space.row.last_offset > only_if.offset.saturating_add(1);
    if only_if.partition == partition_number && !passed {
        return Ok(());
    }
    let last = Position { partition: partition_number, offset: space.row.last_offset.saturating_sub(1) };
    let detail = format!("it was to be applied at {only_if}, and the space has come to {last}; preview it again");
    Err(Violation::at(Code::PositionPassed, "only_if_position", detail))
}

/// Plans an intent: what is covered and uncovered by it. Everything that a target names has been named.
fn plan(store: &impl Rows, space: &Space, intent: &Intent) -> Result<Plan, StoreError> {
    let begin = known_targets(store, space.number(), &intent.begin)?;
    let lift = known_targets(store, space.number(), &intent.lifted_targets())?;
    space.standing.plan(&begin, &lift, &space.there(store))
}

/// A retraction begins.
pub(super) fn begin<S: Store>(
    context: &mut Context<'_, S>,
    retracted: &Retracted,
) -> Result<(Vec<Output>, Work), Refusal> {
    let partition_number = context.position.partition;
    let intent = intend_retraction(&context.staged, context.space, partition_number, &context.event.id, retracted)?;
    for target in &intent.begin {
        match &target.what {
            Some(What::Source(id)) => {
                context.name_source(id)?;
            }
            Some(What::Node(id)) => {
                context.name_node(id)?;
            }
            _ => {}
        }
    }
    let id = retraction_id(&context.event.id, retracted);
    let (number, before) = name(context, id)?;
    let row = retractions::Row {
        began: Some(moment(context)),
        targets: retracted.targets.clone(),
        reason: retracted.reason.clone(),
        by: retracted.by.clone(),
        replaces: retracted.replaces.clone(),
        ..before
    };
    let plan = plan(&context.staged, context.space, &intent)?;
    put(context, number, &row);
    if !intent.arrives_lifted {
        let targets = known_targets(&context.staged, context.space.number(), &row.targets)?;
        context.space.standing.begin(number, &targets);
        let commitment = context.committer.retraction(id, &row.targets);
        context.space.row.add_to_digest(commitment);
    }
    let (by, reason) = (retracted.by.clone(), retracted.reason.clone());
    carry_out(context, intent, plan, &by, &reason)
}

/// A retraction ends.
pub(super) fn lift<S: Store>(
    context: &mut Context<'_, S>,
    reinstated: &Reinstated,
) -> Result<(Vec<Output>, Work), Refusal> {
    let intent = intend_reinstatement(&context.staged, context.space, context.position.partition, reinstated)?;
    let plan = plan(&context.staged, context.space, &intent)?;
    carry_out(context, intent, plan, &reinstated.by, &reinstated.reason)
}

fn intend_reinstatement(
    store: &impl Read,
    space: &Space,
    partition_number: u32,
    reinstated: &Reinstated,
) -> Result<Intent, Refusal> {
    check_position(space, partition_number, &reinstated.only_if_position)?;
    let mut intent = Intent { begin: Vec::new(), lift: Vec::new(), lift_in_advance: Vec::new(), arrives_lifted: false };
    intend_lift(store, space.number(), &reinstated.retraction, &mut intent)?;
    Ok(intent)
}

/// Lifts what is to be lifted, and settles.
fn carry_out<S: Store>(
    context: &mut Context<'_, S>,
    intent: Intent,
    plan: Plan,
    by: &str,
    reason: &str,
) -> Result<(Vec<Output>, Work), Refusal> {
    let counted = intent.counted_targets();
    let lifted = Some(moment(context));
    for (number, row) in intent.lift {
        let targets = known_targets(&context.staged, context.space.number(), &row.targets)?;
        context.space.standing.lift(number, &targets);
        let commitment = context.committer.retraction(&row.id, &row.targets);
        context.space.row.add_to_digest(commitment.wrapping_neg());
        let row = retractions::Row {
            lifted: lifted.clone(),
            lifted_by: by.to_owned(),
            lifted_reason: reason.to_owned(),
            ..row
        };
        put(context, number, &row);
    }
    for id in intent.lift_in_advance {
        let (number, row) = name(context, &id)?;
        let row = retractions::Row {
            lifted: lifted.clone(),
            lifted_by: by.to_owned(),
            lifted_reason: reason.to_owned(),
            ..row
        };
        put(context, number, &row);
    }
    let edit = Edit { cover: plan.cover, uncover: plan.uncover, ..Edit::default() };
    Ok(context.settle(&edit, None, &counted)?)
}

fn moment<S>(context: &Context<'_, S>) -> Moment {
    Moment { event: context.event.id.clone(), offset: context.position.offset, log_time_ms: context.log_time_ms }
}

/// The retraction of an id with its row, named now if it was not.
fn name<S: Store>(context: &mut Context<'_, S>, id: &str) -> Result<(u32, retractions::Row), StoreError> {
    let space = context.space.number();
    if let Some(found) = find(&context.staged, space, id)? {
        return Ok(found);
    }
    let number = context.space.row.retractions;
    context.space.row.retractions += 1;
    context.staged.put(Table::Ids, ids::key(space, Namespace::Retraction, id), number.to_be_bytes());
    Ok((number, retractions::Row { id: id.to_owned(), ..retractions::Row::default() }))
}

fn put<S: Store>(context: &mut Context<'_, S>, number: u32, row: &retractions::Row) {
    context.staged.put(Table::Retractions, retractions::key(context.space.number(), number), row.encode_to_vec());
}

/// What an event would do, without doing it.
#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    /// The position of the state on which it was made: give it as `only_if_position`, and the commit equals it or is refused.
    pub position: Position,
    /// The records of the cascade, its summary first; none if nothing would change. Positions and ids are those of the
    /// next event.
    pub records: Vec<Change>,
    /// How many sources the targets name.
    pub sources: u32,
}

/// Why there is no preview.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// The event would be rejected.
    #[error(transparent)]
    Refused(#[from] Violation),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Refusal> for PreviewError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Rejected(violation) => PreviewError::Refused(violation),
            Refusal::Failed(super::FoldError::Store(error)) => PreviewError::Store(error),
            // Planning a retraction reads the store and nothing else.
            Refusal::Failed(other) => PreviewError::Store(StoreError::Io(other.to_string())),
        }
    }
}

/// What the event of a retraction or reinstatement would do.
pub fn preview(store: &impl Rows, row: &partition::Row, space: &Space, event: &Event) -> Result<Preview, PreviewError> {
    let intent = match &event.body {
        Some(Body::Retracted(retracted)) => intend_retraction(store, space, row.partition, &event.id, retracted)?,
        Some(Body::Reinstated(reinstated)) => intend_reinstatement(store, space, row.partition, reinstated)?,
        _ => {
            let detail = "only retractions and reinstatements have a preview";
            return Err(PreviewError::Refused(Violation::new(Code::NotInThisVersion, detail)));
        }
    };
    preview_intent(store, row, space, event, &intent)
}

fn preview_intent(
    store: &impl Rows,
    row: &partition::Row,
    space: &Space,
    event: &Event,
    intent: &Intent,
) -> Result<Preview, PreviewError> {
    let plan = plan(store, space, intent)?;
    let edit = Edit { cover: plan.cover, uncover: plan.uncover, ..Edit::default() };
    let changes = space.preview(store, &edit)?;
    let next = Position { partition: row.partition, offset: row.next_offset };
    let frame = publish::Frame {
        space: &space.name,
        number: space.number(),
        first: ChangeId { incarnation: super::incarnation_of(row), position: next, index: 0 },
        log_time_ms: row.log_time_ms,
        cause: publish::cause_of(event),
    };
    let counted = intent.counted_targets();
    let records = publish::records(store, &frame, &changes, &counted)?;
    let position = Position { offset: row.next_offset.saturating_sub(1), ..next };
    Ok(Preview { position, records, sources: publish::count_sources(&counted) })
}
