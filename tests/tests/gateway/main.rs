//! What callers are promised over HTTP: the whole story (`told`), one event once (`writes`), reads of what was written (`reads`), streams
//! without gaps (`streams`), and the same by the command line (`commands`). `RECANT_GATEWAY_OPERATIONS` makes the longest one longer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it did"
)]

mod commands;
mod reads;
mod streams;
mod told;
mod writes;

use recant_tests::{
    binary::{Desk, story},
    served::Server,
};
use serde_json::{Value, json};

/// A server on the story.
async fn telling(desk: &Desk) -> Server {
    let server = Server::start(desk);
    server.publish("default", &story::events()).await;
    server
}

fn portal(id: &str) -> Value {
    json!({"id": id, "targets": [{"source": "web:portal"}], "by": "kim", "reason": "taken over"})
}
