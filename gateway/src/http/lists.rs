//! Actions, sources, rejected events, the digest.

use axum::{extract::State, http::StatusCode};
use recant_projections::{
    justification::digest,
    query::{Filter, NodeView, Page, SourceView},
    tables::partition::LOGIC_VERSION,
};
use recant_proto::{id::Kind, wire};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::{
    Gateway,
    answer::At,
    ask::{self, Demand, Paging, Path, Query, When},
    nodes::{Status, page_of},
};
use crate::{access::Caller, problem::Problem, rejected};

/// Which actions.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WantedActions {
    /// `in`, on reasons that are believed, or `out`.
    #[param(inline)]
    status: Option<Status>,
    /// By this agent.
    agent: Option<String>,
    /// In this run.
    run: Option<String>,
}

/// List actions.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/actions", tag = "read", operation_id = "list_actions",
    params(("space" = String, Path, description = "The space"), WantedActions, Paging, When, Demand),
    responses(
        (status = 200, description = "A page", body = Page<NodeView>),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn actions(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path(space): Path<String>,
    Query(wanted): Query<WantedActions>,
    Query(paging): Query<Paging>,
    Query(when): Query<When>,
    Query(demand): Query<Demand>,
) -> Result<At<Page<NodeView>>, Problem> {
    let filter = Filter {
        kind: Some(Kind::Action),
        is_in: wanted.status.map(|status| status == Status::In),
        agent: wanted.agent,
        run: wanted.run,
        ..Filter::default()
    };
    page_of(&gateway, gateway.seen(&caller, &space), filter, paging, when, demand).await
}

/// List sources, in the order in which they were first named.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/sources", tag = "read", operation_id = "list_sources",
    params(("space" = String, Path, description = "The space"), Paging, When, Demand),
    responses(
        (status = 200, description = "A page", body = Page<SourceView>),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn sources(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path(space): Path<String>,
    Query(paging): Query<Paging>,
    Query(when): Query<When>,
    Query(demand): Query<Demand>,
) -> Result<At<Page<SourceView>>, Problem> {
    let (space, request) = (gateway.seen(&caller, &space), paging.request()?);
    let page = gateway.host.read(space, demand.freshness()?, demand.within(&gateway), move |reading| {
        Ok::<_, Problem>(reading.at(when.as_of.as_deref(), when.valid_at.as_deref())?.sources_page(&request)?)
    });
    let page = page.await??;
    Ok(At { status: StatusCode::OK, position: page.position.clone(), body: page })
}

/// How many rejected events.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Newest {
    /// At most so many, the newest; 1 to 1000, 100 if it is not said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Rejected events.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RejectedAnswer {
    /// Each with its bytes, its position and the code of its rejection.
    #[schema(value_type = Vec<Object>)]
    items: Vec<Value>,
    /// The position that the answer reflects.
    position: String,
    /// Where to follow from.
    cursor: String,
}

/// List events that could not be applied, the newest last.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/rejected", tag = "read", operation_id = "list_rejected",
    params(("space" = String, Path, description = "The space"), Newest, Demand),
    responses(
        (status = 200, description = "The newest", body = RejectedAnswer),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn rejected(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path(space): Path<String>,
    Query(newest): Query<Newest>,
    Query(demand): Query<Demand>,
) -> Result<At<RejectedAnswer>, Problem> {
    let space = gateway.seen(&caller, &space).to_owned();
    let (log, limit, asked) = (gateway.host.log(), ask::limit(newest.limit)?, space.clone());
    let answer = gateway.host.read(&space, demand.freshness()?, demand.within(&gateway), move |reading| {
        let (position, cursor) = (reading.position().to_string(), reading.moment().cursor());
        let items = rejected::newest(&*log, &asked, limit)?.iter().map(wire::to_json).collect();
        Ok::<_, Problem>(RejectedAnswer { items, position, cursor })
    });
    let answer = answer.await??;
    Ok(At { status: StatusCode::OK, position: answer.position.clone(), body: answer })
}

/// What the state of a space adds up to.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DigestAnswer {
    /// After the event at this position.
    position: String,
    /// In hexadecimal.
    digest: String,
    /// The version of the logic that made it.
    logic_version: u32,
}

/// The state digest of a space: two processes that have applied the same position have the same.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/digest", tag = "read", operation_id = "get_digest",
    params(("space" = String, Path, description = "The space"), Demand),
    responses(
        (status = 200, description = "The digest", body = DigestAnswer),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn digest(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path(space): Path<String>,
    Query(demand): Query<Demand>,
) -> Result<At<DigestAnswer>, Problem> {
    let space = gateway.seen(&caller, &space);
    let found = gateway.host.read(space, demand.freshness()?, demand.within(&gateway), |reading| {
        Ok::<_, Problem>((reading.position(), reading.digest()?))
    });
    let (position, added_up) = found.await??;
    let digest = digest::to_hex(added_up);
    Ok(At::of(position, DigestAnswer { position: position.to_string(), digest, logic_version: LOGIC_VERSION }))
}
