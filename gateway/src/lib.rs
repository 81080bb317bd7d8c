//! What people and agents call: HTTP and its change stream, MCP, and who may do what.
//!
//! [`host`] is the seam to what holds log and state, and the only way to them; [`http`] and [`stream`] speak to callers, [`access`] says
//! what each may do, [`mcp`] speaks to assistants, `peer` to other processes of the log. [`outcome`] and [`problem`] are shapes that the command line shares.

pub mod access;
pub mod changes;
pub mod host;
pub mod http;
pub mod mcp;
pub mod observe;
pub mod outcome;
mod peer;
pub mod problem;
pub mod read;
pub mod rejected;
pub mod stream;
pub mod subscriptions;

use std::sync::Arc;

use axum::{Router, middleware::from_fn};

/// The space of those who name none.
pub const DEFAULT_SPACE: &str = "default";

/// Everything that is served, behind the gate; and what ends the sessions of assistants.
pub fn all_of_it(gateway: http::Gateway) -> Result<(Router, mcp::Sessions), mcp::McpError> {
    let access = gateway.access.clone();
    let served = mcp::Served {
        host: gateway.host.clone(),
        access: access.clone(),
        default_space: DEFAULT_SPACE.to_owned(),
        caller_on_stdio: None,
    };
    let (assistants, sessions) = mcp::router(Arc::new(served))?;
    let router = access::gate::guard(http::router(gateway).merge(assistants), &access);
    Ok((router.layer(from_fn(observe::requests::observe)), sessions))
}
