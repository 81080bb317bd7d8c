//! The Model Context Protocol: how a coding assistant or another agent uses the memory, over streamable HTTP at `/mcp` and on standard
//! input and output.
//!
//! [`server`] is the handler of one session, [`tools`] has its tools, [`resources`] its resources. A [`session`] keeps what it was shown
//! ([`read_set`]), which becomes the premises of what it writes; [`session_id`] keeps sessions apart. [`call`] is one call: the right is
//! checked first; [`elsewhere`] has it carried out by the process that has the state. [`shapes`] is what goes in and out, [`quoting`] how text from sources is shown.
//!
//! Host and Origin are checked by the gate of [`crate::access`], for `/mcp` as for everything else.

mod answer;
mod call;
mod elsewhere;
mod quoting;
mod read_set;
mod resources;
mod server;
mod session;
mod session_id;
mod shapes;
mod tools;

use std::{sync::Arc, time::Duration};

use axum::{Router, middleware::from_fn_with_state};
use rmcp::{
    ServerHandler, ServiceExt,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};

pub use self::server::MemoryServer;
use self::session_id::Binding;
use crate::{
    access::{Access, Caller},
    host::Host,
};

/// A request holds one event, in JSON.
const REQUEST_BYTES_MAX: usize = 8 << 20;

/// A session that is idle for so long ends. Long, since what it was shown is forgotten with it.
const SESSION_IDLE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What assistants are served.
pub struct Served {
    /// Log and state.
    pub host: Host,
    /// Quotas.
    pub access: Arc<Access>,
    /// The space of calls that name none.
    pub default_space: String,
    /// Who calls, where there is only one: on standard input and output.
    pub caller_on_stdio: Option<Caller>,
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// Sessions cannot be told apart.
    #[error("the system gives no random bytes")]
    NoRandomness,
    /// Standard input or output failed, or what came there was not the protocol.
    #[error("the session with the assistant failed: {0}")]
    Session(String),
}

/// Ends the sessions, when it is told to: they hold log and state.
#[derive(Clone)]
pub struct Sessions(Arc<dyn Fn() + Send + Sync>);

impl Sessions {
    /// Ends them.
    pub fn end(&self) {
        (self.0)();
    }
}

/// The memory at `/mcp`, to be put behind the gate.
pub fn router(served: Arc<Served>) -> Result<(Router, Sessions), McpError> {
    let calls = elsewhere::router(served.clone());
    let (router, sessions) = router_of(move || Ok(MemoryServer::begin(served.clone())))?;
    Ok((router.merge(calls), sessions))
}

/// Any handler at `/mcp`, with the transport and the sessions that the memory has.
pub fn router_of<H: ServerHandler>(
    begin: impl Fn() -> Result<H, std::io::Error> + Send + Sync + 'static,
) -> Result<(Router, Sessions), McpError> {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SESSION_IDLE_MAX);
    let sessions = Arc::new(sessions);
    let config = StreamableHttpServerConfig::default()
        // The gate has checked them.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(REQUEST_BYTES_MAX);
    let cancel = config.cancellation_token.clone();
    let binding = Arc::new(Binding::new(sessions.clone()).ok_or(McpError::NoRandomness)?);
    let service = StreamableHttpService::new(begin, sessions, config);
    let router = Router::new().route_service("/mcp", service);
    let ending = Sessions(Arc::new(move || cancel.cancel()));
    Ok((router.layer(from_fn_with_state(binding, session_id::bind)), ending))
}

/// Serves one assistant on standard input and output, until it goes.
pub async fn serve_stdio(served: Arc<Served>) -> Result<(), McpError> {
    let failed = |error: &dyn std::fmt::Display| McpError::Session(error.to_string());
    let running = MemoryServer::begin(served).serve(rmcp::transport::stdio()).await.map_err(|error| failed(&error))?;
    running.waiting().await.map_err(|error| failed(&error))?;
    Ok(())
}
