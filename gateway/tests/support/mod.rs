//! A server in this process, over a data directory of its own, and an assistant that speaks the protocol byte by byte.

// Each test binary uses some of it.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use recant_eventlog::clock::SystemClock;
use recant_gateway::{
    access::Access,
    all_of_it,
    host::{Host, Running},
    http::{Gateway, Limits},
    stream::Streams,
};
use recant_processor::standalone::{NewLog, Standalone};
use recant_proto::position::Incarnation;
use serde_json::{Value, json};

/// A server that ends with the test.
pub struct Served {
    pub address: SocketAddr,
    pub host: Host,
}

/// Runs a test against a server, and ends the server in order: nothing of RocksDB's may run when the process ends.
pub fn serving(settings: Option<&Path>, test: impl AsyncFnOnce(Served)) {
    let data = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let running = runtime.block_on(async {
        let (served, running) = Served::start(data.path(), settings).await;
        test(served).await;
        running
    });
    drop(runtime);
    running.join();
}

impl Served {
    async fn start(data: &Path, settings: Option<&Path>) -> (Served, Running) {
        let new = NewLog { incarnation: Incarnation([7; 16]), partitions: 2, log_time_occurred: false };
        let standalone = Standalone::open_or_create(data, &new, Arc::new(SystemClock)).unwrap();
        let (host, running) = Host::embedded(standalone).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let access = Access::open(settings, address).await.unwrap();
        let streams = Streams::start(host.clone()).await.unwrap();
        let gateway = Gateway::new(host.clone(), streams, Limits::default()).with_access(Arc::new(access));
        let (router, _) = all_of_it(gateway).unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        (Served { address, host }, running)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// An assistant: one session.
pub struct Assistant {
    client: reqwest::Client,
    url: String,
    token: Option<String>,
    pub session: Option<String>,
    next_id: u64,
}

/// What a server sent: a status, and the messages of its body.
#[derive(Debug)]
pub struct Sent {
    pub status: u16,
    pub session: Option<String>,
    pub messages: Vec<Value>,
    pub body: String,
}

impl Assistant {
    /// One that has not said anything yet.
    pub fn new(served: &Served, token: Option<&str>) -> Assistant {
        recant_gateway::access::install_provider();
        let client = reqwest::Client::builder().timeout(Duration::from_secs(60)).build().unwrap();
        Assistant { client, url: served.url("/mcp"), token: token.map(str::to_owned), session: None, next_id: 1 }
    }

    /// One whose session has begun.
    pub async fn begin(served: &Served, token: Option<&str>) -> Assistant {
        let mut assistant = Assistant::new(served, token);
        let sent = assistant.initialize().await;
        assert_eq!(sent.status, 200, "{sent:?}");
        assistant
    }

    pub async fn initialize(&mut self) -> Sent {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test-assistant", "version": "1" }
        });
        let sent = self.request("initialize", params).await;
        self.session.clone_from(&sent.session);
        if sent.status == 200 {
            self.notify("notifications/initialized").await;
        }
        sent
    }

    pub async fn request(&mut self, method: &str, params: Value) -> Sent {
        let id = self.next_id;
        self.next_id += 1;
        self.post(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await
    }

    pub async fn notify(&mut self, method: &str) {
        let sent = self.post(&json!({ "jsonrpc": "2.0", "method": method })).await;
        assert_eq!(sent.status, 202, "{sent:?}");
    }

    async fn post(&self, message: &Value) -> Sent {
        let request = self.client.post(&self.url).header("accept", "application/json, text/event-stream");
        let response = self.with_session(request).json(message).send().await.unwrap();
        let status = response.status().as_u16();
        let session = response.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
        let body = response.text().await.unwrap();
        Sent { status, session, messages: messages(&body), body }
    }

    fn with_session(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let request = self.token.iter().fold(request, |request, token| request.bearer_auth(token));
        self.session.iter().fold(request, |request, session| {
            request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25")
        })
    }

    /// What the server says by itself.
    pub async fn listen(&self) -> reqwest::Response {
        let request = self.client.get(&self.url).header("accept", "text/event-stream");
        self.with_session(request).send().await.unwrap()
    }

    /// A result of the protocol.
    pub async fn result(&mut self, method: &str, params: Value) -> Value {
        let sent = self.request(method, params).await;
        let result = sent.messages.iter().find_map(|message| message.get("result"));
        result.unwrap_or_else(|| panic!("{method}: {sent:?}")).clone()
    }

    /// What a tool answers: structured, and its text. It must not refuse.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> (Value, String) {
        let result = self.result("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        assert_ne!(result["isError"], json!(true), "{tool}: {result}");
        (result["structuredContent"].clone(), result["content"][0]["text"].as_str().unwrap().to_owned())
    }

    /// Why a tool refuses.
    pub async fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.result("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        assert_eq!(result["isError"], json!(true), "{tool}: {result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

/// The messages in a body, which is one, or a stream of events.
pub fn messages(body: &str) -> Vec<Value> {
    if let Ok(message) = serde_json::from_str(body) {
        return vec![message];
    }
    body.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?.trim()).ok()).collect()
}
