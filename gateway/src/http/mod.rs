//! HTTP: what `docs/how-to/serve.md` shows, and `/openapi.json` describes, made from these very handlers.
//!
//! A handler reads what it was asked ([`ask`]), has the caller's right looked at ([`Gateway::seen`], [`Gateway::admit`]), asks the host,
//! and answers in the shapes of [`recant_projections::query`] ([`answer`]). What goes wrong is a [`Problem`]. Where several processes share
//! a log, whoever gets a question has it answered where the state is ([`route`]).

mod answer;
mod ask;
mod events;
mod health;
mod lists;
mod measured;
mod nodes;
mod retractions;
mod route;
mod serve;
mod stalled;
mod streamed;
mod subscriptions;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use prometheus::Registry;
use prost::Message;
use recant_proto::v1::Event;
use tokio::sync::Semaphore;
use utoipa::{
    OpenApi,
    openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use self::ask::Milliseconds;
pub use self::serve::{Bound, ServeError, serve};
use crate::{
    access::{Access, Caller, Right, admit},
    host::{Host, HostError},
    problem::{Problem, Sort},
    stream::Streams,
    subscriptions::Subscriptions,
};

/// What the gateway allows at once, and how long it waits.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of one body.
    pub body_bytes_max: usize,
    /// Bytes of all bodies that are being read or written to the log.
    pub bodies_bytes_max: usize,
    /// Requests that are answered at once; streams have a bound of their own.
    pub requests_max: usize,
    /// Connections that are open at once.
    pub connections_max: usize,
    /// A body must have come whole after this.
    pub body_wait_max: Duration,
    /// So long a write waits until it is applied, and a read until a position is reached, if nothing shorter is asked for.
    pub wait_max: Duration,
    /// A connection that takes nothing of what is sent to it for so long is closed.
    pub stalled_max: Duration,
    /// So long open requests may go on once the server is told to end.
    pub shutdown_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes_max: 16 << 20,
            bodies_bytes_max: 128 << 20,
            requests_max: 1_024,
            connections_max: 8_192,
            body_wait_max: Duration::from_secs(30),
            wait_max: Duration::from_secs(10),
            stalled_max: Duration::from_secs(30),
            shutdown_max: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// So long it is waited, where a caller has asked for so many milliseconds, or for nothing.
    fn within(&self, asked: Option<Milliseconds>) -> Duration {
        asked.map_or(self.wait_max, |asked| Duration::from(asked).min(self.wait_max))
    }
}

/// What every handler has.
#[derive(Clone)]
pub struct Gateway {
    /// Log and state.
    pub host: Host,
    /// Those who follow.
    pub streams: Streams,
    /// Bounds.
    pub limits: Arc<Limits>,
    /// Who may do what.
    pub access: Arc<Access>,
    /// What is measured, if anything is.
    pub measures: Option<Registry>,
    /// Named subscriptions, where anything is written.
    pub subscriptions: Option<Subscriptions>,
    bodies: Arc<Semaphore>,
    requests: Arc<Semaphore>,
}

/// A space that a caller sees nothing of has this name, which no space can have: it is as if it did not exist.
const UNSEEN: &str = "";

impl Gateway {
    /// Over a host.
    pub fn new(host: Host, streams: Streams, limits: Limits) -> Gateway {
        let bodies = Arc::new(Semaphore::new(limits.bodies_bytes_max / BODY_PERMIT_BYTES));
        let requests = Arc::new(Semaphore::new(limits.requests_max));
        let access = Arc::new(Access::of_this_machine());
        Gateway {
            host,
            streams,
            limits: Arc::new(limits),
            access,
            measures: None,
            subscriptions: None,
            bodies,
            requests,
        }
    }

    /// The same, for callers who are asked who they are.
    pub fn with_access(self, access: Arc<Access>) -> Gateway {
        Gateway { access, ..self }
    }

    /// The same, showing what is measured.
    pub fn with_measures(self, measures: Registry) -> Gateway {
        Gateway { measures: Some(measures), ..self }
    }

    /// The same, with named subscriptions.
    pub fn with_subscriptions(self, subscriptions: Subscriptions) -> Gateway {
        Gateway { subscriptions: Some(subscriptions), ..self }
    }

    /// The space, if the caller may read it; else one that does not exist.
    fn seen<'a>(&self, caller: &Caller, space: &'a str) -> &'a str {
        if caller.may(Right::Read, space) { space } else { UNSEEN }
    }

    /// Lets events in, in the caller's name, if it has the right to say all of them and the space's quota is not used up.
    fn admit<'e>(
        &self,
        caller: &Caller,
        space: &str,
        events: impl Iterator<Item = &'e mut Event>,
    ) -> Result<(), Problem> {
        let (mut events_total, mut bytes_total) = (0, 0);
        for event in events {
            admit(caller, event)?;
            events_total += 1;
            bytes_total += event.encoded_len();
        }
        Ok(self.access.quotas().take(space, events_total, bytes_total, Instant::now())?)
    }
}

/// Bodies are counted in pieces of this size.
const BODY_PERMIT_BYTES: usize = 1 << 10;

/// What the document calls the token of a caller.
const TOKEN_SCHEME: &str = "token";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "recant",
        description = "Memory that can take things back: publish events, ask what is believed and why, retract, and follow what changes.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    tags(
        (name = "write", description = "Events, retractions, reinstatements"),
        (name = "read", description = "What is believed, and why"),
        (name = "follow", description = "The change stream"),
        (name = "health", description = "Whether it runs"),
    )
)]
struct Described;

/// All paths.
pub fn router(gateway: Gateway) -> Router {
    let mut of_the_state = OpenApiRouter::with_openapi(Described::openapi())
        .routes(routes!(events::event))
        .routes(routes!(nodes::list))
        .routes(routes!(nodes::node))
        .routes(routes!(nodes::explain))
        .routes(routes!(nodes::explain_id))
        .routes(routes!(lists::actions))
        .routes(routes!(lists::sources))
        .routes(routes!(lists::rejected))
        .routes(routes!(lists::digest))
        .routes(routes!(retractions::list, retractions::retract))
        .routes(routes!(retractions::reinstate))
        .routes(routes!(subscriptions::list, subscriptions::make))
        .routes(routes!(subscriptions::show, subscriptions::delete))
        .routes(routes!(subscriptions::acknowledge))
        .routes(routes!(subscriptions::parked, subscriptions::park))
        .routes(routes!(subscriptions::retry));
    let mut pulled = OpenApiRouter::new().routes(routes!(subscriptions::pull));
    if gateway.host.shares_its_log() {
        let answer = middleware::from_fn_with_state(gateway.clone(), route::answer_where_the_state_is);
        of_the_state = of_the_state.layer(answer.clone());
        pulled = pulled.layer(answer);
    }
    let bounded = of_the_state
        .routes(routes!(events::publish))
        .layer(middleware::from_fn_with_state(gateway.clone(), one_of_so_many));
    let unbounded = OpenApiRouter::new()
        .merge(pulled)
        .routes(routes!(streamed::changes))
        .routes(routes!(measured::metrics))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz));
    let (router, mut document) = bounded.merge(unbounded).split_for_parts();
    if gateway.access.asks_who_calls() {
        describe_tokens(&mut document);
    }
    let document: Arc<str> = document.to_json().unwrap_or_default().into();
    router
        .route("/openapi.json", get(move || answer::document(document.clone())))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .with_state(gateway)
}

/// Every path wants a token, but for those that say otherwise.
fn describe_tokens(document: &mut utoipa::openapi::OpenApi) {
    let bearer = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    document.components.get_or_insert_default().add_security_scheme(TOKEN_SCHEME, bearer);
    document.security = Some(vec![SecurityRequirement::new(TOKEN_SCHEME, Vec::<String>::new())]);
}

/// Answers only so many requests at once.
async fn one_of_so_many(State(gateway): State<Gateway>, request: Request, next: Next) -> Response {
    match gateway.requests.clone().try_acquire_owned() {
        Ok(_turn) => next.run(request).await,
        Err(_) => Problem::from(HostError::Busy("too many requests are under way")).into_response(),
    }
}

async fn no_such_path(request: Request) -> Problem {
    let detail = format!("{:?} is no path of this server; /openapi.json has them all", request.uri().path());
    Problem::new(Sort::No, "not_found", "There is no such path", detail)
}

async fn no_such_method(request: Request) -> Problem {
    let detail =
        format!("{:?} does not take {}; /openapi.json says what it takes", request.uri().path(), request.method());
    Problem::new(Sort::Wrong, "method_not_allowed", "The path does not take this method", detail)
}
