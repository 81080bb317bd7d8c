//! How answers are written.

use std::sync::Arc;

use axum::{
    Json,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use recant_proto::position::Position;
use serde::Serialize;

use super::route::IsElsewhere;
use crate::problem::{ELSEWHERE, Problem};

/// The position that an answer reflects.
pub(super) const RECANT_POSITION: HeaderName = HeaderName::from_static("recant-position");

/// After which a request that failed for what passes may be made again.
const RETRY_AFTER_S: u64 = 1;

/// An answer that is of a position.
pub(super) struct At<T> {
    pub(super) status: StatusCode,
    pub(super) position: String,
    pub(super) body: T,
}

impl<T> At<T> {
    pub(super) fn of(position: Position, body: T) -> At<T> {
        At { status: StatusCode::OK, position: position.to_string(), body }
    }

    pub(super) fn map<U>(self, make: impl FnOnce(T) -> U) -> At<U> {
        At { status: self.status, position: self.position, body: make(self.body) }
    }
}

impl<T: Serialize> IntoResponse for At<T> {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body)).into_response();
        if let Ok(position) = HeaderValue::from_str(&self.position) {
            response.headers_mut().insert(RECANT_POSITION, position);
        }
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status.is_server_error() {
            tracing::warn!(code = %self.code, detail = %self.detail, "a request failed");
        }
        let mut response = (status, Json(&self)).into_response();
        if self.code == ELSEWHERE {
            response.extensions_mut().insert(IsElsewhere);
        }
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            headers.insert(header::RETRY_AFTER, self.retry_after_s.unwrap_or(RETRY_AFTER_S).into());
        }
        if let Some(position) = self.position.as_deref().and_then(|position| HeaderValue::from_str(position).ok()) {
            headers.insert(RECANT_POSITION, position);
        }
        response
    }
}

/// The document that describes the paths.
pub(super) async fn document(document: Arc<str>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], document.to_string())
}
