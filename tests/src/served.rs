//! `recant serve` as its callers see it: a process with a URL, and a reader of its Server-Sent Events.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: what fails here fails a test"
)]

use std::collections::VecDeque;

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;

use crate::binary::{Desk, PATIENCE, Process, check_no_null, text};

/// A client. Whoever makes several, makes several callers.
pub fn client() -> Client {
    // Another test of the same process may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().build().expect("a client")
}

/// A running server.
pub struct Server {
    /// The process.
    pub process: Process,
    /// A caller of it.
    pub caller: Caller,
}

/// Who calls a server.
#[derive(Clone)]
pub struct Caller {
    /// Where it listens.
    pub url: String,
    client: Client,
}

impl std::ops::Deref for Server {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// `Recant-Position`.
    pub position: Option<String>,
    /// Its content type.
    pub content_type: String,
    /// Its body; null if that is empty.
    pub body: Value,
}

impl Answer {
    /// Of a response, once it has come whole.
    pub async fn of(response: Response) -> Answer {
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let (position, content_type) = (header("recant-position"), header("content-type").unwrap_or_default());
        let status = response.status();
        let bytes = response.bytes().await.expect("a body");
        let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).expect("JSON") };
        Answer { status, position, content_type, body }
    }

    /// What it says, if it is a success.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.body);
        check_no_null(&self.body);
        self.body
    }

    /// Checks that it is a problem of this status and code.
    #[track_caller]
    pub fn problem(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status.as_u16(), text(&self.body["type"])), (status, code), "{}", self.body);
        assert_eq!(self.content_type, "application/problem+json");
        assert!(text(&self.body["title"]).len() > 3 && text(&self.body["detail"]).len() > 3, "{}", self.body);
        self.body
    }
}

impl Server {
    /// Starts a server on a free port, on the desk's data.
    pub fn start(desk: &Desk) -> Server {
        Server::start_with(desk, &[])
    }

    /// The same, with further arguments.
    pub fn start_with(desk: &Desk, arguments: &[&str]) -> Server {
        let mut all = vec!["--json", "serve", "--listen", "127.0.0.1:0"];
        all.extend(arguments);
        Server::of(desk.command(all))
    }

    /// Of a command that serves, with `--json`.
    pub fn of(command: std::process::Command) -> Server {
        let mut process = Process::start(command);
        let mut begun = process.json();
        while begun["told"] != "listening" {
            begun = process.json();
        }
        Server { process, caller: Caller::of(text(&begun["url"])) }
    }

    /// Tells the server to end, and waits for it; gives its exit status.
    pub fn end(self) -> i32 {
        let process = rustix::process::Pid::from_raw(self.process.id() as i32).expect("a process");
        rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("it takes signals");
        self.process.finish().0
    }
}

impl Caller {
    /// Of a server that listens there.
    pub fn of(url: &str) -> Caller {
        Caller { url: url.to_owned(), client: client() }
    }

    /// A request to a path of a space.
    pub fn request(&self, method: Method, space: &str, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}/v1/spaces/{space}/{path}", self.url)).timeout(PATIENCE)
    }

    /// Asks a path of the default space.
    pub async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, "default", path).send().await.expect("an answer")).await
    }

    /// Sends JSON to a path of the default space.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::of(self.request(Method::POST, "default", path).json(body).send().await.expect("an answer")).await
    }

    /// Publishes events, which must all be accepted.
    pub async fn publish(&self, space: &str, events: &[Value]) -> Value {
        let sent = self.request(Method::POST, space, "events").json(events).send().await;
        let fates = Answer::of(sent.expect("an answer")).await.ok();
        assert_eq!(fates["accepted"], events.len(), "{fates}");
        fates
    }

    /// Follows a space by Server-Sent Events.
    pub async fn follow(&self, space: &str, query: &str, last_seen: Option<&str>) -> Follower {
        let url = format!("{}/v1/spaces/{space}/changes?{query}", self.url);
        let mut request = self.client.get(url).header("accept", "text/event-stream");
        if let Some(cursor) = last_seen {
            request = request.header("last-event-id", cursor);
        }
        Follower::of(request.send().await.expect("an answer"))
    }
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// Its name.
    pub event: String,
    /// Its id, if it has one.
    pub id: Option<String>,
    /// Its data.
    pub data: Value,
}

/// A reader of Server-Sent Events.
pub struct Follower {
    response: Response,
    buffer: Vec<u8>,
    told: VecDeque<Told>,
}

impl Follower {
    /// Of the answer to a request for events.
    pub fn of(response: Response) -> Follower {
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Follower { response, buffer: Vec::new(), told: VecDeque::new() }
    }

    /// The next event; none at the end of the stream.
    pub async fn next(&mut self) -> Option<Told> {
        loop {
            if let Some(told) = self.told.pop_front() {
                return Some(told);
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("something is told");
            self.take(&chunk.ok()??);
        }
    }

    /// The next event of a name; others are passed over.
    pub async fn next_of(&mut self, event: &str) -> Told {
        loop {
            let told = self.next().await.expect("the stream goes on");
            if told.event == event {
                return told;
            }
        }
    }

    fn take(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
        while let Some(end) = self.buffer.windows(2).position(|bytes| bytes == b"\n\n") {
            let frame: Vec<u8> = self.buffer.drain(..end + 2).collect();
            let frame = String::from_utf8(frame).expect("text");
            let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            let data = serde_json::from_str(&field("data: ").expect("each has data")).expect("JSON");
            let event = field("event: ").expect("each has a name");
            self.told.push_back(Told { event, id: field("id: "), data });
        }
    }
}
