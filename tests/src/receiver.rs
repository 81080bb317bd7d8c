//! A receiver of webhooks: it does what it is told to for each, and keeps what came.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: what fails here fails a test"
)]

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::any,
};
use serde_json::Value;
use standardwebhooks::Webhook;
use tokio::net::TcpListener;

use crate::binary::PATIENCE;

/// What it does with a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// Takes it.
    Take,
    /// Answers with this status.
    Fail(u16),
    /// Answers after so long.
    Hang(Duration),
    /// Sends it to another path of its own.
    Redirect,
}

/// A webhook that came.
#[derive(Debug, Clone)]
pub struct Came {
    /// `webhook-id`.
    pub id: String,
    /// Its body.
    pub body: Value,
    /// What was done with it.
    pub done: Does,
    /// Whether its signature is that of the secret.
    pub is_signed: bool,
}

#[derive(Default)]
struct Inner {
    /// What is done with the next ones; then all are taken.
    does: VecDeque<Does>,
    came: Vec<Came>,
    secret: String,
    /// How often it was come to where redirects lead.
    redirected: usize,
}

/// The receiver.
#[derive(Clone)]
pub struct Receiver {
    inner: Arc<Mutex<Inner>>,
    /// Its port on loopback.
    pub port: u16,
}

impl Receiver {
    /// Listens on a free port.
    pub async fn start() -> Receiver {
        let inner: Arc<Mutex<Inner>> = Arc::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = Router::new()
            .route("/hook", any(receive))
            .route(
                "/elsewhere",
                any(|State(inner): State<Arc<Mutex<Inner>>>| async move {
                    inner.lock().unwrap().redirected += 1;
                }),
            )
            .with_state(inner.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Receiver { inner, port }
    }

    /// Where to push to, by a name or an address.
    pub fn url(&self, host: &str) -> String {
        format!("http://{host}:{}/hook", self.port)
    }

    /// From now on signatures must be of this secret.
    pub fn expect_secret(&self, secret: &str) {
        self.inner.lock().unwrap().secret = secret.to_owned();
    }

    /// What is done with the next ones.
    pub fn then(&self, does: impl IntoIterator<Item = Does>) {
        self.inner.lock().unwrap().does.extend(does);
    }

    /// What came.
    pub fn came(&self) -> Vec<Came> {
        self.inner.lock().unwrap().came.clone()
    }

    /// The nodes of those that were taken, in the order in which they were.
    pub fn taken(&self) -> Vec<String> {
        let taken = self.came().into_iter().filter(|came| came.done == Does::Take);
        taken.map(|came| came.body["data"]["node"].as_str().unwrap().to_owned()).collect()
    }

    /// How often it was come to where redirects lead.
    pub fn redirected(&self) -> usize {
        self.inner.lock().unwrap().redirected
    }

    /// Waits until what came is as it must be.
    pub async fn until(&self, what: &str, is_so: impl Fn(&[Came]) -> bool) {
        let begun = Instant::now();
        while !is_so(&self.came()) {
            assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", self.came());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn receive(State(inner): State<Arc<Mutex<Inner>>>, headers: HeaderMap, body: Bytes) -> Response {
    let done = {
        let mut inner = inner.lock().unwrap();
        let done = inner.does.pop_front().unwrap_or(Does::Take);
        let is_signed = Webhook::new(&inner.secret).is_ok_and(|webhook| webhook.verify(&body, &headers).is_ok());
        let id = headers["webhook-id"].to_str().unwrap().to_owned();
        inner.came.push(Came { id, body: serde_json::from_slice(&body).unwrap(), done, is_signed });
        done
    };
    match done {
        Does::Take => StatusCode::NO_CONTENT.into_response(),
        Does::Fail(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Does::Hang(long) => {
            tokio::time::sleep(long).await;
            StatusCode::OK.into_response()
        }
        Does::Redirect => (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, "/elsewhere")]).into_response(),
    }
}
