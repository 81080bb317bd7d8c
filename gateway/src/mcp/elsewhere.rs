//! A call about a space whose state another process has.
//!
//! The session stays where its client is. The call is carried out by the process that has the state, in a session that lasts for this one
//! call, and begins with what the client's session was shown of the space; what it was shown there comes back with the answer. So
//! premises are kept, wherever a space goes meanwhile.
//!
//! `POST /mcp/calls` with `{"client","run","space","shown":{"nodes":[…],"is_more_than_fits"},"method","params"}` is answered with
//! `{"result"}` or `{"error"}`, as JSON-RPC has them, and `"shown"`. It goes through the gate as everything does, with the client's token, and
//! so allows what the client may do there anyway; the bounds are those of every question that is passed on ([`crate::peer`]).
//!
//! Lists of resources are of the default space, and are told where they are asked for: `elsewhere`, if its state is.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, HeaderValue, Method, header},
    response::{IntoResponse, Response},
    routing::post,
};
use recant_proto::names;
use rmcp::{ErrorData, RoleServer, ServiceExt, model::ProtocolVersion, service::RequestContext};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    time::Instant,
};

use super::{REQUEST_BYTES_MAX, Served, call::WITHIN, read_set::Shown, server::MemoryServer, session::Session};
use crate::{
    access::Caller,
    host::HostError,
    peer::{self, Asked, FORWARDED, LOOK_EVERY, Passed},
    problem::{Problem, Sort},
};

const PATH: &str = "/mcp/calls";
/// What a call tells at most.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// What lies between this process and the session for one call.
const PIPE_BYTES: usize = 64 << 10;
/// The number of the call in that session.
const CALL: u64 = 1;
/// A call waits for positions, and then for its answer.
const CARRIED_OUT_WITHIN: Duration = Duration::from_secs(30);

/// A call that is passed on.
#[derive(Debug, Serialize, Deserialize)]
struct PassedOn {
    client: String,
    run: String,
    space: String,
    shown: Shown,
    method: String,
    params: Value,
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
struct CarriedOut {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    error: Option<ErrorData>,
    shown: Shown,
}

/// A call of a session here.
pub(super) struct Elsewhere<'a> {
    pub(super) served: &'a Served,
    pub(super) session: &'a Session,
    pub(super) context: &'a RequestContext<RoleServer>,
    /// Whether it may be asked for twice.
    pub(super) is_read: bool,
}

impl Elsewhere<'_> {
    /// Has the call carried out where the state of its space is. None if that is here, or nowhere to be found in time: then it is
    /// carried out here, and says what is to be said.
    pub(super) async fn carry_out<R: DeserializeOwned>(
        &self,
        space: &str,
        method: &str,
        params: &impl Serialize,
    ) -> Option<Result<R, ErrorData>> {
        let host = &self.served.host;
        let parts = self.context.extensions.get::<axum::http::request::Parts>()?;
        if !host.shares_its_log() || parts.headers.contains_key(FORWARDED) {
            return None;
        }
        let partition = host.partition_of(space);
        let deadline = Instant::now() + WITHIN;
        while !host.holds(partition) && Instant::now() < deadline {
            if let Some(announced) = host.url_of(partition) {
                match self.ask(&announced, &parts.headers, space, method, params).await {
                    Ok(Some(carried_out)) => return Some(self.told(space, carried_out)),
                    Ok(None) => {}
                    Err(problem) => return Some(Err(error_of(&problem))),
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        None
    }

    async fn ask(
        &self,
        announced: &str,
        headers: &HeaderMap,
        space: &str,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Option<CarriedOut>, Problem> {
        let unreadable = |error: serde_json::Error| Problem::wrong_request(error.to_string());
        let client = self.context.peer.peer_info().map(|info| info.client_info.name.clone());
        let passed_on = PassedOn {
            client: client.unwrap_or_default(),
            run: self.session.run.clone(),
            space: space.to_owned(),
            shown: self.session.read_set.of_space(space),
            method: method.to_owned(),
            params: serde_json::to_value(params).map_err(unreadable)?,
        };
        let mut passed_headers = HeaderMap::new();
        passed_headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(names::JSON));
        for name in [header::AUTHORIZATION.as_str(), names::TRACEPARENT] {
            if let (Some(value), Ok(name)) = (headers.get(name), header::HeaderName::from_bytes(name.as_bytes())) {
                passed_headers.insert(name, value.clone());
            }
        }
        let passed = Passed {
            method: Method::POST,
            path: PATH,
            query: None,
            headers: passed_headers,
            body: serde_json::to_vec(&passed_on).map_err(unreadable)?.into(),
        };
        match peer::ask(&self.served.access, announced, passed).await? {
            Asked::Answered(answer) => self.read(answer).await,
            Asked::BrokenOff if !self.is_read => Err(Problem::broken_off()),
            Asked::BrokenOff | Asked::NotThere => Ok(None),
        }
    }

    async fn read(&self, answer: Response) -> Result<Option<CarriedOut>, Problem> {
        let is_success = answer.status().is_success();
        match axum::body::to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await {
            Ok(told) if is_success => {
                let broken = |error: serde_json::Error| Problem::fate_unknown(format!("the answer is broken: {error}"));
                serde_json::from_slice(&told).map(Some).map_err(broken)
            }
            Ok(told) => Err(serde_json::from_slice(&told).unwrap_or_else(|_| Problem::broken_off())),
            Err(_) if self.is_read => Ok(None),
            Err(_) => Err(Problem::broken_off()),
        }
    }

    fn told<R: DeserializeOwned>(&self, space: &str, carried_out: CarriedOut) -> Result<R, ErrorData> {
        // First: whatever else is wrong, the client may be shown it.
        self.session.read_set.take(space, carried_out.shown);
        let Some(result) = carried_out.result else {
            return Err(carried_out.error.unwrap_or_else(|| error_of(&Problem::broken_off())));
        };
        serde_json::from_value(result).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

fn error_of(problem: &Problem) -> ErrorData {
    ErrorData::internal_error(problem.detail.clone(), serde_json::to_value(problem).ok())
}

/// Where other processes have calls carried out.
pub(super) fn router(served: Arc<Served>) -> Router {
    // What was shown comes with it.
    let limit = DefaultBodyLimit::max(2 * REQUEST_BYTES_MAX);
    Router::new().route(PATH, post(carry_out)).layer(limit).with_state(served)
}

async fn carry_out(
    State(served): State<Arc<Served>>,
    caller: Caller,
    Json(call): Json<PassedOn>,
) -> Result<Response, Problem> {
    let partition = served.host.partition_of(&call.space);
    if !served.host.holds(partition) {
        return Err(HostError::Elsewhere(partition).into());
    }
    let session = Arc::new(Session::of_another(served.host.clone(), call.run, &call.space, call.shown));
    let served = Served {
        host: served.host.clone(),
        access: served.access.clone(),
        default_space: served.default_space.clone(),
        caller_on_stdio: Some(caller),
    };
    let server = MemoryServer::in_session(Arc::new(served), session.clone());
    let answering = in_a_session_of_its_own(server, &call.client, &call.method, &call.params);
    let broken = || {
        Problem::new(
            Sort::CouldNot,
            "session_failed",
            "The session with the assistant failed",
            "the call ended without an answer",
        )
    };
    let answer = tokio::time::timeout(CARRIED_OUT_WITHIN, answering).await.ok().flatten().ok_or_else(broken)?;
    let (result, error) = (answer.get("result").cloned(), answer.get("error").cloned());
    let error = error.and_then(|error| serde_json::from_value(error).ok());
    let shown = session.read_set.of_space(&call.space);
    Ok(Json(CarriedOut { result, error, shown }).into_response())
}

/// One call, as a client on standard input and output makes it; gives the message that answers it.
async fn in_a_session_of_its_own(server: MemoryServer, client: &str, method: &str, params: &Value) -> Option<Value> {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let serving = tokio::spawn(async move {
        match server.serve(theirs).await {
            Ok(running) => drop(running.waiting().await),
            Err(error) => tracing::warn!(%error, "a call from another process could not be carried out"),
        }
    });
    let (read, mut write) = tokio::io::split(ours);
    let mut lines = BufReader::new(read).lines();
    let begin = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": ProtocolVersion::V_2025_11_25, "capabilities": {},
        "clientInfo": { "name": client, "version": "" } } });
    let begun = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let call = json!({ "jsonrpc": "2.0", "id": CALL, "method": method, "params": params });
    write.write_all(format!("{begin}\n{begun}\n{call}\n").as_bytes()).await.ok()?;
    let answer = loop {
        let message: Value = serde_json::from_str(&lines.next_line().await.ok()??).ok()?;
        if message.get("id").and_then(Value::as_u64) == Some(CALL) {
            break message;
        }
    };
    // Its client goes, and so it ends.
    drop((lines, write));
    let _ = serving.await;
    Some(answer)
}
