//! What every request goes through, in this order: is the server called by a name that it knows and from a page that may call; may a
//! browser go on (CORS); who calls. Then the [`Caller`] is there for whoever answers, and nothing else makes one.

use std::sync::Arc;

use axum::{
    Router,
    extract::{FromRequestParts, Request, State},
    http::{HeaderName, HeaderValue, Method, header, request::Parts},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::{
    Access, AddressRefused, Admission, Caller, Denied, Exceeded, Unauthenticated,
    admission::{last_of_session, last_of_stream},
};
use crate::problem::{Problem, Sort};

/// Paths that tell nothing of what anybody wrote, and that are asked for before there is a token.
const OPEN_PATHS: [&str; 3] = ["/healthz", "/readyz", "/openapi.json"];

/// Puts the gate before a router.
pub fn guard(router: Router, access: &Arc<Access>) -> Router {
    router
        .layer(from_fn_with_state(access.clone(), authenticate))
        .layer(cors(access.clone()))
        .layer(from_fn_with_state(access.clone(), check_addresses))
}

async fn check_addresses(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    match access.current().addresses.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

async fn authenticate(State(access): State<Arc<Access>>, mut request: Request, next: Next) -> Response {
    if OPEN_PATHS.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let admission = match Admission::of(&access, request.headers()).await {
        Ok(admission) => admission,
        Err(unauthenticated) => {
            tracing::debug!(reason = unauthenticated.as_str(), "a caller was refused");
            return unauthenticated.into_response();
        }
    };
    request.extensions_mut().insert(admission.caller().clone());
    request.extensions_mut().insert(admission.clone());
    let path = request.uri().path();
    let last = if path == "/mcp" { last_of_session } else { last_of_stream };
    // What only asks can be broken off. What writes is in the log, or will be, whoever waits for the answer.
    let only_asks = request.method() == Method::GET || path.ends_with("/pull");
    let answered = if only_asks {
        tokio::select! {
            answered = next.run(request) => answered,
            ended = admission.clone().ended() => Problem::from(ended).into_response(),
        }
    } else {
        next.run(request).await
    };
    admission.lasting(answered, last)
}

/// Off unless the settings name origins: then no origin is allowed, and browsers let no page read an answer.
fn cors(access: Arc<Access>) -> CorsLayer {
    let header = HeaderName::from_static;
    let is_named = move |origin: &HeaderValue, _: &Parts| access.current().addresses.names(origin);
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(is_named))
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::DELETE])
        .allow_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            header::ACCEPT,
            header("idempotency-key"),
            header("last-event-id"),
            header("traceparent"),
            header("mcp-session-id"),
            header("mcp-protocol-version"),
        ])
        .expose_headers([header("recant-position"), header("mcp-session-id"), header::RETRY_AFTER])
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Unauthenticated;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Unauthenticated> {
        parts.extensions.get::<Caller>().cloned().ok_or(Unauthenticated::Missing)
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Problem {
        match denied {
            Denied::Hidden => {
                Problem::new(Sort::No, "not_found", "There is no such thing in this space", denied.to_string())
            }
            Denied::Lacking { .. } | Denied::InAnothersName { .. } => forbidden(denied.to_string()),
        }
    }
}

impl From<Exceeded> for Problem {
    fn from(exceeded: Exceeded) -> Problem {
        let seconds = exceeded.retry_after.as_millis().div_ceil(1000).max(1);
        Problem {
            retry_after_s: u64::try_from(seconds).ok(),
            ..Problem::new(Sort::CouldNot, "too_many_requests", "A quota is used up for now", exceeded.to_string())
        }
    }
}

fn forbidden(detail: String) -> Problem {
    Problem::new(Sort::No, "forbidden", "The caller may not do this", detail)
}

impl IntoResponse for Unauthenticated {
    fn into_response(self) -> Response {
        // Which of them it was helps only those who guess.
        let detail = self.to_string();
        let mut response = Problem::new(Sort::No, "unauthenticated", "Who calls is not known", detail).into_response();
        let asked_for = HeaderValue::from_static("Bearer realm=\"recant\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, asked_for);
        response
    }
}

impl IntoResponse for AddressRefused {
    fn into_response(self) -> Response {
        forbidden(self.to_string()).into_response()
    }
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        Problem::from(self).into_response()
    }
}

impl IntoResponse for Exceeded {
    fn into_response(self) -> Response {
        Problem::from(self).into_response()
    }
}
