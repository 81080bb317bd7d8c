//! Retractions: what they would do, what they do, and which there are.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use recant_processor::standalone::NewEvent;
use recant_projections::{
    fold::Fate,
    query::{Page, RetractionView},
};
use recant_proto::{
    position::Position,
    reject::{Code, Violation},
    v1::{AgentTarget, Event, Reinstated, Retracted, Target, Window, event::Body as Says, target::What},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Gateway,
    answer::At,
    ask::{self, Body, Demand, Paging, Path, Query, When, idempotency_key},
    events::Waiting,
};
use crate::{
    access::{Caller, Right},
    changes,
    host::{Freshness, Published},
    outcome::{Decided, Outcome},
    problem::{Problem, Sort},
    read,
};

/// What is retracted: one of `source`, `node`, `justification` and `agent`.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewTarget {
    /// A source.
    source: Option<String>,
    /// A node.
    node: Option<String>,
    /// One justification.
    justification: Option<String>,
    /// The observations and justifications that an agent wrote.
    agent: Option<NewAgentTarget>,
    /// Only what lies in this window.
    window: Option<NewWindow>,
}

#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewAgentTarget {
    /// The agent.
    agent: String,
    /// In this run alone.
    #[serde(default)]
    run: String,
}

/// Half open; either end may be absent.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewWindow {
    /// At this time or later.
    #[serde(default)]
    from: String,
    /// Before this time.
    #[serde(default)]
    to: String,
    /// `observed` or `log`; for agents `log` if it is not said, else `observed`.
    #[serde(default)]
    clock: String,
}

/// A retraction that is asked for.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewRetraction {
    /// Its id; a new one if it is not said. The same one twice is one retraction.
    #[serde(default)]
    id: String,
    /// What it covers, all in one cascade.
    #[serde(default)]
    targets: Vec<NewTarget>,
    /// Why.
    #[serde(default)]
    reason: String,
    /// Who asks for it.
    #[serde(default)]
    by: String,
    /// Retractions that it lifts at the same position.
    #[serde(default)]
    replaces: Vec<String>,
    /// Refuse it if anything was applied to the space after this position, which a preview gives.
    #[serde(default)]
    only_if_position: String,
}

/// A reinstatement that is asked for.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewReinstatement {
    /// The id of its event; a new one if it is not said.
    #[serde(default)]
    id: String,
    /// Why.
    #[serde(default)]
    reason: String,
    /// Who asks for it.
    #[serde(default)]
    by: String,
    /// Refuse it if anything was applied to the space after this position, which a preview gives.
    #[serde(default)]
    only_if_position: String,
}

impl NewTarget {
    fn target(self) -> Result<Target, Problem> {
        let agent = |target: NewAgentTarget| What::Agent(AgentTarget { agent: target.agent, run: target.run });
        let named = [
            self.source.map(What::Source),
            self.node.map(What::Node),
            self.justification.map(What::Justification),
            self.agent.map(agent),
        ];
        let mut named = named.into_iter().flatten();
        let (Some(what), None) = (named.next(), named.next()) else {
            let detail = "a target names one thing: source, node, justification or agent";
            return Err(Problem::refused(Sort::Wrong, &Violation::at(Code::BadValue, "targets", detail)));
        };
        let window = self.window.map(|window| Window { from: window.from, to: window.to, clock: window.clock });
        Ok(Target { what: Some(what), window })
    }
}

/// Whether anything is changed, and how much is told of it.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Deciding {
    /// Say what would happen, and change nothing.
    #[serde(default)]
    preview: bool,
    /// Tell at most so many changes, up to 10000; 1000 if it is not said.
    #[param(maximum = 10000)]
    limit: Option<u32>,
    /// A preview: with everything up to this position (`partition:offset`), which a write gave.
    at_least: Option<String>,
    /// A preview: with everything that was in the log when the question came.
    #[serde(default)]
    fresh: bool,
}

const CHANGES_TOLD_DEFAULT: u32 = 1_000;
const CHANGES_TOLD_MAX: u32 = 10_000;

impl Deciding {
    fn changes_max(&self) -> Result<usize, Problem> {
        match self.limit.unwrap_or(CHANGES_TOLD_DEFAULT) {
            limit @ ..=CHANGES_TOLD_MAX => Ok(limit as usize),
            limit => Err(Problem::wrong_request(format!("limit is {limit}; it is at most {CHANGES_TOLD_MAX}"))),
        }
    }
}

/// A retraction that is in the log, and not known yet to be applied.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NotYet {
    /// The event's id: ask for it by that.
    event: String,
    /// Where it lies.
    position: String,
    /// `unknown`.
    fate: &'static str,
}

/// Retract: what rests on it falls, what has another reason stays.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/retractions", tag = "write", operation_id = "retract",
    params(("space" = String, Path, description = "The space"), Deciding, Waiting,
        ("Idempotency-Key" = Option<String>, Header, description = "The id of the retraction, if it does not say it itself")),
    request_body = NewRetraction,
    responses(
        (status = 200, description = "What it did, or would do", body = Outcome),
        (status = 202, description = "In the log, and not known yet to be applied", body = NotYet),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn retract(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path(space): Path<String>,
    Query(deciding): Query<Deciding>,
    Query(waiting): Query<Waiting>,
    headers: HeaderMap,
    body: axum::body::Body,
) -> Result<Response, Problem> {
    let asked: NewRetraction = Body::read(&gateway, &headers, body).await?.json(&headers)?;
    let id = id_of(&headers, asked.id)?;
    let targets = asked.targets.into_iter().map(NewTarget::target).collect::<Result<_, _>>()?;
    let retracted = Retracted {
        retraction: id.clone(),
        targets,
        reason: asked.reason,
        by: asked.by,
        replaces: asked.replaces,
        only_if_position: asked.only_if_position,
    };
    let event = Event { id, space, body: Some(Says::Retracted(retracted)), ..Event::default() };
    decide(&gateway, &caller, event, &deciding, &waiting).await
}

/// Reinstate: what only this retraction covered is as if it had not been.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/retractions/{id}/reinstatement", tag = "write", operation_id = "reinstate",
    params(("space" = String, Path, description = "The space"), ("id" = String, Path, description = "The retraction's id"),
        Deciding, Waiting,
        ("Idempotency-Key" = Option<String>, Header, description = "The id of the event, if it does not say it itself")),
    request_body = NewReinstatement,
    responses(
        (status = 200, description = "What it did, or would do", body = Outcome),
        (status = 202, description = "In the log, and not known yet to be applied", body = NotYet),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn reinstate(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path((space, retraction)): Path<(String, String)>,
    Query(deciding): Query<Deciding>,
    Query(waiting): Query<Waiting>,
    headers: HeaderMap,
    body: axum::body::Body,
) -> Result<Response, Problem> {
    let body = Body::read(&gateway, &headers, body).await?;
    // Nothing need be said.
    let asked = if body.bytes.is_empty() { NewReinstatement::default() } else { body.json(&headers)? };
    let reinstated =
        Reinstated { retraction, reason: asked.reason, by: asked.by, only_if_position: asked.only_if_position };
    let id = id_of(&headers, asked.id)?;
    let event = Event { id, space, body: Some(Says::Reinstated(reinstated)), ..Event::default() };
    decide(&gateway, &caller, event, &deciding, &waiting).await
}

/// The id that was given, in the header or in the body; else a new one.
fn id_of(headers: &HeaderMap, said: String) -> Result<String, Problem> {
    match idempotency_key(headers) {
        None if said.is_empty() => Ok(uuid::Uuid::now_v7().to_string()),
        None => Ok(said),
        Some(key) if said.is_empty() || said == key => Ok(key),
        Some(key) => {
            let detail = format!("the header Idempotency-Key says {key:?} and the body {said:?}: both are the id");
            Err(Problem::refused(Sort::Wrong, &Violation::at(Code::HeaderMismatch, "Idempotency-Key", detail)))
        }
    }
}

async fn decide(
    gateway: &Gateway,
    caller: &Caller,
    event: Event,
    deciding: &Deciding,
    waiting: &Waiting,
) -> Result<Response, Problem> {
    let mut event = read::check(event).map_err(|refused| Problem::refused(Sort::Wrong, &refused.violation))?;
    let changes_max = deciding.changes_max()?;
    if deciding.preview {
        let space = gateway.seen(caller, &event.space).to_owned();
        let freshness = ask::freshness(deciding.at_least.as_deref(), deciding.fresh)?;
        let asked = event.clone();
        let preview = gateway.host.read(&space, freshness, waiting.within(gateway), move |reading| {
            Ok::<_, Problem>(Outcome::of(&asked, &reading.preview(&asked)?, true, changes_max))
        });
        let outcome = preview.await??;
        return Ok(At { status: StatusCode::OK, position: outcome.position.clone(), body: outcome }.into_response());
    }
    let space = event.space.clone();
    gateway.admit(caller, &space, std::iter::once(&mut event))?;
    let may_read = caller.may(Right::Read, &space);
    // Counted before it is committed.
    let asked = event.clone();
    let counted = gateway
        .host
        .read(&event.space, Freshness::Now, waiting.within(gateway), move |reading| reading.counted_sources(&asked));
    let sources = counted.await??;
    let published = gateway.host.publish(vec![NewEvent::of(&event)], waiting.of(gateway)).await?;
    let Some(Published { position, fate }) = published.into_iter().next() else {
        return Err(Problem::fate_unknown("it was not told; ask for it by its id"));
    };
    let duplicate_of = match fate {
        None => return Ok(not_yet(event.id, position).into_response()),
        Some(Fate::Rejected(violation)) => {
            let position = Some(position.to_string());
            return Err(Problem { position, ..Problem::refused(Sort::No, &violation) });
        }
        Some(Fate::Duplicate(offset)) => Some(Position { offset, ..position }.to_string()),
        Some(Fate::Accepted | Fate::Skipped(_)) => None,
    };
    let log = gateway.host.log();
    let told = gateway.host.on_a_thread(move || {
        let records = if duplicate_of.is_some() { Vec::new() } else { changes::cascade(&*log, position)? };
        let decided = Decided { position: position.to_string(), records, sources, duplicate_of };
        let outcome = Outcome::of(&event, &decided, false, changes_max);
        Ok::<_, Problem>(if may_read { outcome } else { outcome.counts_only() })
    });
    Ok(At::of(position, told.await??).into_response())
}

fn not_yet(event: String, position: Position) -> At<NotYet> {
    let body = NotYet { event, position: position.to_string(), fate: "unknown" };
    At { status: StatusCode::ACCEPTED, position: position.to_string(), body }
}

/// List retractions, those that were lifted too, in the order in which they were first named.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/retractions", tag = "read", operation_id = "list_retractions",
    params(("space" = String, Path, description = "The space"), Paging, When, Demand),
    responses(
        (status = 200, description = "A page", body = Page<RetractionView>),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path(space): Path<String>,
    Query(paging): Query<Paging>,
    Query(when): Query<When>,
    Query(demand): Query<Demand>,
) -> Result<At<Page<RetractionView>>, Problem> {
    let (space, request) = (gateway.seen(&caller, &space), paging.request()?);
    let page = gateway.host.read(space, demand.freshness()?, demand.within(&gateway), move |reading| {
        Ok::<_, Problem>(reading.at(when.as_of.as_deref(), when.valid_at.as_deref())?.retractions_page(&request)?)
    });
    let page = page.await??;
    Ok(At { status: StatusCode::OK, position: page.position.clone(), body: page })
}
