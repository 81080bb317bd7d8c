//! `subscriptions`: named ones, which keep their cursor here.

mod shapes;

use std::time::Duration;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use recant_proto::position::ChangeId;
use serde_json::value::RawValue;

use self::shapes::{
    Acknowledgement, Beginning, Counted, DeliveryView, ParkedView, ParkedViews, Parking, Pulled, Pulling, Retrying,
    SubscriptionView, SubscriptionsView,
};
use super::{
    Gateway,
    ask::{Body, Path, Query, limit},
};
use crate::{
    access::{Caller, Right},
    changes::From,
    host::HostError,
    outcome::change_json,
    problem::{Problem, Sort},
    subscriptions::{Definition, Delivery, Place, Subscription, Subscriptions},
};

/// So long a pull waits at most for something to hand out.
const PULL_WAIT_MAX: Duration = Duration::from_secs(60);
/// So many changes one request can name.
const NAMED_MAX: usize = 1_000;
const REASON_BYTES_MAX: usize = 1_024;

impl Gateway {
    /// The subscriptions, for a caller who may read the space.
    fn subscriptions(&self, caller: &Caller, space: &str) -> Result<&Subscriptions, Problem> {
        caller.check(space, Right::Read)?;
        Ok(self.subscriptions.as_ref().ok_or(HostError::ReadOnly)?)
    }
}

/// Does it to its end, also if its caller goes away.
async fn to_its_end<R: Send + 'static>(
    work: impl Future<Output = Result<R, Problem>> + Send + 'static,
) -> Result<R, Problem> {
    tokio::spawn(work).await.unwrap_or_else(|_| Err(HostError::Closing.into()))
}

async fn places_of(subscription: &Subscription, ids: &[String]) -> Result<Vec<Place>, Problem> {
    if ids.len() > NAMED_MAX {
        return Err(Problem::wrong_request(format!("{} changes are named; at most {NAMED_MAX} can be", ids.len())));
    }
    let mut places = Vec::with_capacity(ids.len());
    let mut newest: Option<ChangeId> = None;
    for id in ids {
        let id: ChangeId =
            id.parse().map_err(|error| Problem::wrong_request(format!("{id:?} is no change's id: {error}")))?;
        newest = newest.filter(|newest| Place::of(newest) > Place::of(&id)).or(Some(id));
        places.push(id);
    }
    // The others lie before it, if they are of the same log.
    let Some(newest) = newest else { return Ok(Vec::new()) };
    subscription.place(newest).await?;
    let is_of_it =
        |id: &ChangeId| id.incarnation == newest.incarnation && id.position.partition == newest.position.partition;
    if !places.iter().all(is_of_it) {
        let detail = "the changes are of several logs or partitions";
        return Err(Problem::new(Sort::No, "other_log", "The cursor is of another log", detail));
    }
    Ok(places.iter().map(Place::of).collect())
}

/// List subscriptions.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/subscriptions", tag = "follow", operation_id = "list_subscriptions",
    params(("space" = String, Path, description = "The space")),
    responses(
        (status = 200, description = "The caller's; all, for whoever may operate", body = SubscriptionsView),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path(space): Path<String>,
) -> Result<Json<SubscriptionsView>, Problem> {
    let mut items = Vec::new();
    for subscription in gateway.subscriptions(&caller, &space)?.list(&caller, &space).await? {
        items.push(SubscriptionView::of(&subscription).await);
    }
    Ok(Json(SubscriptionsView { items }))
}

/// Make a subscription.
///
/// The same definition again is the same subscription, so that it can be sent again.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/subscriptions", tag = "follow", operation_id = "make_subscription",
    params(("space" = String, Path, description = "The space"), Beginning),
    request_body = Definition,
    responses(
        (status = 200, description = "It was there", body = SubscriptionView),
        (status = 201, description = "It was made", body = SubscriptionView),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn make(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path(space): Path<String>,
    Query(beginning): Query<Beginning>,
    headers: HeaderMap,
    body: axum::body::Body,
) -> Result<Response, Problem> {
    let definition: Definition = Body::read(&gateway, &headers, body).await?.json(&headers)?;
    let subscriptions = gateway.subscriptions(&caller, &space)?.clone();
    let from = beginning.from.as_deref().map_or(Ok(From::Latest), str::parse)?;
    to_its_end(async move {
        let (made, is_new) = subscriptions.make(&caller, &space, definition, from).await?;
        let mut view = SubscriptionView::of(&made).await;
        if is_new {
            view.secret.clone_from(&made.row().secret);
        }
        let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
        Ok((status, Json(view)).into_response())
    })
    .await
}

/// Show a subscription.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/subscriptions/{name}", tag = "follow", operation_id = "get_subscription",
    params(("space" = String, Path, description = "The space"), ("name" = String, Path, description = "Its name")),
    responses(
        (status = 200, description = "It", body = SubscriptionView),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn show(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path((space, name)): Path<(String, String)>,
) -> Result<Json<SubscriptionView>, Problem> {
    let subscription = gateway.subscriptions(&caller, &space)?.get(&caller, &space, &name).await?;
    Ok(Json(SubscriptionView::of(&subscription).await))
}

/// Delete a subscription, with all that is parked of it.
#[utoipa::path(
    delete, path = "/v1/spaces/{space}/subscriptions/{name}", tag = "follow", operation_id = "delete_subscription",
    params(("space" = String, Path, description = "The space"), ("name" = String, Path, description = "Its name")),
    responses(
        (status = 204, description = "It is gone"),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn delete(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path((space, name)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let subscriptions = gateway.subscriptions(&caller, &space)?.clone();
    let subscription = subscriptions.get(&caller, &space, &name).await?;
    to_its_end(async move { subscriptions.delete(&subscription).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Take changes: they are handed out again unless they are acknowledged, or parked, in time.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/subscriptions/{name}/pull", tag = "follow", operation_id = "pull_changes",
    params(("space" = String, Path, description = "The space"), ("name" = String, Path, description = "Its name"), Pulling),
    responses(
        (status = 200, description = "Changes; none, if there were none in time", body = Pulled),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn pull(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path((space, name)): Path<(String, String)>,
    Query(pulling): Query<Pulling>,
) -> Result<Json<Pulled>, Problem> {
    let subscription = gateway.subscriptions(&caller, &space)?.get(&caller, &space, &name).await?;
    if subscription.row().definition.push.is_some() {
        return Err(Problem::wrong_request("the changes of this subscription are pushed, and cannot be pulled"));
    }
    let _permit = gateway.access.quotas().open_stream(&space, std::time::Instant::now())?;
    let content = subscription.row().definition.content;
    let deliveries_max = content.at_once(limit(pulling.limit)?);
    let wait = pulling.wait_ms.map_or(Duration::ZERO, Duration::from).min(PULL_WAIT_MAX);
    let deliveries: Vec<Delivery> = to_its_end(async move { subscription.pull(deliveries_max, wait).await }).await?;
    let changes: Vec<_> = deliveries.iter().map(|delivery| delivery.change.clone()).collect();
    let told = content.of(&gateway.host, &space, &changes).await?;
    let view = |(delivery, told): (&Delivery, std::borrow::Cow<'_, str>)| {
        Some(DeliveryView { attempt: delivery.attempt, change: RawValue::from_string(told.into_owned()).ok()? })
    };
    Ok(Json(Pulled { items: deliveries.iter().zip(told).filter_map(view).collect() }))
}

/// Acknowledge changes: those that are named, or all up to a cursor.
///
/// A change that is parked is discarded by it.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/subscriptions/{name}/acknowledge", tag = "follow", operation_id = "acknowledge_changes",
    params(("space" = String, Path, description = "The space"), ("name" = String, Path, description = "Its name")),
    request_body = Acknowledgement,
    responses(
        (status = 200, description = "They are settled, for ever", body = Counted),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn acknowledge(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path((space, name)): Path<(String, String)>,
    headers: HeaderMap,
    body: axum::body::Body,
) -> Result<Json<Counted>, Problem> {
    let asked: Acknowledgement = Body::read(&gateway, &headers, body).await?.json(&headers)?;
    let subscription = gateway.subscriptions(&caller, &space)?.get(&caller, &space, &name).await?;
    to_its_end(async move {
        let changes = match &asked.up_to {
            Some(_) if !asked.changes.is_empty() => {
                return Err(Problem::wrong_request("give up_to or changes, and not both"));
            }
            Some(cursor) => {
                let seen = ChangeId::from_cursor(cursor).map_err(|error| {
                    Problem::new(Sort::Wrong, "bad_cursor", "The cursor cannot be read", error.to_string())
                })?;
                subscription.settle_up_to(subscription.place(seen).await?).await?
            }
            None => subscription.settle(places_of(&subscription, &asked.changes).await?).await?,
        };
        Ok(Json(Counted { changes, cursor: subscription.status().await.cursor }))
    })
    .await
}

/// Park changes that cannot be handled, with a reason.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/subscriptions/{name}/parked", tag = "follow", operation_id = "park_changes",
    params(("space" = String, Path, description = "The space"), ("name" = String, Path, description = "Its name")),
    request_body = Parking,
    responses(
        (status = 200, description = "They are kept aside, and what follows goes on", body = Counted),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn park(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path((space, name)): Path<(String, String)>,
    headers: HeaderMap,
    body: axum::body::Body,
) -> Result<Json<Counted>, Problem> {
    let asked: Parking = Body::read(&gateway, &headers, body).await?.json(&headers)?;
    if asked.reason.len() > REASON_BYTES_MAX {
        return Err(Problem::wrong_request(format!("a reason has at most {REASON_BYTES_MAX} bytes")));
    }
    let subscription = gateway.subscriptions(&caller, &space)?.get(&caller, &space, &name).await?;
    to_its_end(async move {
        let places = places_of(&subscription, &asked.changes).await?;
        let changes = subscription.park(places, asked.reason).await?;
        Ok(Json(Counted { changes, cursor: subscription.status().await.cursor }))
    })
    .await
}

/// List the changes that are parked.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/subscriptions/{name}/parked", tag = "follow", operation_id = "list_parked_changes",
    params(("space" = String, Path, description = "The space"), ("name" = String, Path, description = "Its name")),
    responses(
        (status = 200, description = "All of them, a thousand at most", body = ParkedViews),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn parked(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path((space, name)): Path<(String, String)>,
) -> Result<Json<ParkedViews>, Problem> {
    let subscription = gateway.subscriptions(&caller, &space)?.get(&caller, &space, &name).await?;
    let parked = subscription.parked().await;
    let view = |parked: crate::subscriptions::Parked| ParkedView {
        change: change_json(&parked.change.change),
        reason: parked.reason,
        parked_at: parked.parked_at,
        attempts: parked.attempts,
    };
    Ok(Json(ParkedViews { items: parked.into_iter().map(view).collect() }))
}

/// Hand out parked changes again.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/subscriptions/{name}/parked/retry", tag = "follow", operation_id = "retry_parked_changes",
    params(("space" = String, Path, description = "The space"), ("name" = String, Path, description = "Its name")),
    request_body = Retrying,
    responses(
        (status = 200, description = "They are handed out again, before what follows", body = Counted),
        (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Could not", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn retry(
    State(gateway): State<Gateway>,
    caller: Caller,
    Path((space, name)): Path<(String, String)>,
    headers: HeaderMap,
    body: axum::body::Body,
) -> Result<Json<Counted>, Problem> {
    let asked: Retrying = Body::read(&gateway, &headers, body).await?.json(&headers)?;
    let subscription = gateway.subscriptions(&caller, &space)?.get(&caller, &space, &name).await?;
    to_its_end(async move {
        let places = match &asked.changes {
            Some(ids) => Some(places_of(&subscription, ids).await?),
            None => None,
        };
        let changes = subscription.retry(places).await?;
        Ok(Json(Counted { changes, cursor: subscription.status().await.cursor }))
    })
    .await
}
