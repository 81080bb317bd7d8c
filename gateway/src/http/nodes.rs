//! Nodes: what is believed, and why.

use axum::extract::State;
use recant_projections::query::{Explanation, Filter, NodeView, Page};
use recant_proto::id::Kind;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Gateway,
    answer::At,
    ask::{self, Demand, Paging, Path, Query, When},
};
use crate::{access::Caller, problem::Problem};

/// Which nodes.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// The one of this id alone, for ids that cannot stand in a path; the answer is the node itself.
    id: Option<String>,
    /// `in`, believed, or `out`.
    #[param(inline)]
    status: Option<Status>,
    /// Of this kind.
    #[param(inline)]
    kind: Option<KindOfNode>,
    /// Observed from this source.
    source: Option<String>,
    /// Written by this agent.
    agent: Option<String>,
    /// Written in this run.
    run: Option<String>,
    /// About this subject.
    subject: Option<String>,
    /// Whose text has all of these words.
    text: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    #[serde(alias = "IN")]
    In,
    #[serde(alias = "OUT")]
    Out,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KindOfNode {
    Observation,
    Belief,
    Plan,
    Action,
}

impl From<KindOfNode> for Kind {
    fn from(kind: KindOfNode) -> Kind {
        match kind {
            KindOfNode::Observation => Kind::Observation,
            KindOfNode::Belief => Kind::Belief,
            KindOfNode::Plan => Kind::Plan,
            KindOfNode::Action => Kind::Action,
        }
    }
}

impl Wanted {
    pub(super) fn filter(&self) -> Filter {
        Filter {
            is_in: self.status.map(|status| status == Status::In),
            kind: self.kind.map(Kind::from),
            source: self.source.clone(),
            agent: self.agent.clone(),
            run: self.run.clone(),
            subject: self.subject.clone(),
            words: self.text.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect(),
        }
    }
}

/// A node, or a page of nodes.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
// There is one of it for each answer.
#[allow(clippy::large_enum_variant)]
pub(super) enum NodesAnswer {
    One(NodeView),
    Page(Page<NodeView>),
}

/// List nodes, in the order in which they were first named.
///
/// All pages are of one position, and say the cursor of the change stream at it: list, then follow.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/nodes", tag = "read", operation_id = "list_nodes",
    params(("space" = String, Path, description = "The space"), Wanted, Paging, When, Demand),
    responses(
        (status = 200, description = "A page, or with `id` the node", body = NodesAnswer),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path(space): Path<String>,
    Query(wanted): Query<Wanted>,
    Query(paging): Query<Paging>,
    Query(when): Query<When>,
    Query(demand): Query<Demand>,
) -> Result<At<NodesAnswer>, Problem> {
    let space = gateway.seen(&caller, &space);
    if let Some(id) = wanted.id {
        return Ok(one(&gateway, space, id, when, demand).await?.map(NodesAnswer::One));
    }
    let page = page_of(&gateway, space, wanted.filter(), paging, when, demand).await?;
    Ok(page.map(NodesAnswer::Page))
}

/// A page of those nodes that a filter lets through.
pub(super) async fn page_of(
    gateway: &Gateway,
    space: &str,
    filter: Filter,
    paging: Paging,
    when: When,
    demand: Demand,
) -> Result<At<Page<NodeView>>, Problem> {
    let request = paging.request()?;
    let page = gateway.host.read(space, demand.freshness()?, demand.within(gateway), move |reading| {
        Ok::<_, Problem>(reading.at(when.as_of.as_deref(), when.valid_at.as_deref())?.list(&filter, &request)?)
    });
    let page = page.await??;
    Ok(At { status: axum::http::StatusCode::OK, position: page.position.clone(), body: page })
}

/// One node.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/nodes/{id}", tag = "read", operation_id = "get_node",
    params(("space" = String, Path, description = "The space"), ("id" = String, Path, description = "The node's id"), When, Demand),
    responses(
        (status = 200, description = "The node", body = NodeView),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn node(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path((space, id)): Path<(String, String)>,
    Query(when): Query<When>,
    Query(demand): Query<Demand>,
) -> Result<At<NodeView>, Problem> {
    one(&gateway, gateway.seen(&caller, &space), id, when, demand).await
}

async fn one(gateway: &Gateway, space: &str, id: String, when: When, demand: Demand) -> Result<At<NodeView>, Problem> {
    let asked = id.clone();
    let found = gateway.host.read(space, demand.freshness()?, demand.within(gateway), move |reading| {
        let reading = reading.at(when.as_of.as_deref(), when.valid_at.as_deref())?;
        Ok::<_, Problem>((reading.position(), reading.node(&asked)?))
    });
    let (position, node) = found.await??;
    Ok(At::of(position, node.ok_or_else(|| Problem::not_found("node", &id))?))
}

/// How much is explained.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Depth {
    /// At most so many nodes, 1 to 1000; 100 if it is not said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Why a node is believed or not: all its reasons, down to the sources.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/nodes/{id}/explain", tag = "read", operation_id = "explain_node",
    params(("space" = String, Path, description = "The space"), ("id" = String, Path, description = "The node's id"), Depth, When, Demand),
    responses(
        (status = 200, description = "Why", body = Explanation),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn explain(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path((space, id)): Path<(String, String)>,
    Query(depth): Query<Depth>,
    Query(when): Query<When>,
    Query(demand): Query<Demand>,
) -> Result<At<Explanation>, Problem> {
    why(&gateway, gateway.seen(&caller, &space), id, depth, when, demand).await
}

/// The node that is explained.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Named {
    /// Its id.
    id: String,
}

/// Why a node is believed or not, for ids that cannot stand in a path.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/explain", tag = "read", operation_id = "explain",
    params(("space" = String, Path, description = "The space"), Named, Depth, When, Demand),
    responses(
        (status = 200, description = "Why", body = Explanation),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn explain_id(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path(space): Path<String>,
    Query(named): Query<Named>,
    Query(depth): Query<Depth>,
    Query(when): Query<When>,
    Query(demand): Query<Demand>,
) -> Result<At<Explanation>, Problem> {
    why(&gateway, gateway.seen(&caller, &space), named.id, depth, when, demand).await
}

async fn why(
    gateway: &Gateway,
    space: &str,
    id: String,
    depth: Depth,
    when: When,
    demand: Demand,
) -> Result<At<Explanation>, Problem> {
    let (asked, nodes_max) = (id.clone(), ask::limit(depth.limit)?);
    let found = gateway.host.read(space, demand.freshness()?, demand.within(gateway), move |reading| {
        let reading = reading.at(when.as_of.as_deref(), when.valid_at.as_deref())?;
        Ok::<_, Problem>((reading.position(), reading.explain(&asked, nodes_max)?))
    });
    let (position, explanation) = found.await??;
    Ok(At::of(position, explanation.ok_or_else(|| Problem::not_found("node", &id))?))
}
