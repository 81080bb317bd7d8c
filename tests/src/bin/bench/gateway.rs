//! HTTP: events published and nodes read a second, beside a bare axum handler that returns the same bytes to the same client in the same
//! run. Server, bare server and client share the machine.

use std::{
    net::{Ipv4Addr, SocketAddr},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Router, body::Bytes, http::header, routing::get};
use recant_tests::{
    binary::{Desk, story, text},
    served::{Server, client},
};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};

/// The callers that ask at the same time.
const CALLERS: usize = 16;
/// So long each thing is measured.
const MEASURED: Duration = Duration::from_secs(5);
/// Events of a batch.
const BATCH: u64 = 1_000;
/// The nodes that are read.
const NODES: u64 = 10_000;

/// What can go wrong.
type Failure = Box<dyn std::error::Error>;

/// How often a second, and how long one took, in ms.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// A second.
    pub per_s: f64,
    /// Half took at most so long.
    pub p50_ms: f64,
    /// And of a hundred ninety-nine.
    pub p99_ms: f64,
}

/// The figures.
pub fn measure() -> Result<Vec<(&'static str, Value)>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let desk = Desk::new();
    let server = Server::start(&desk);
    runtime.block_on(async {
        let events = format!("{}/v1/spaces/default/events", server.url);
        let single = rate(|client, number| client.post(&events).json(&observed("single", number))).await?;
        let batched = rate(|client, number| {
            let events_of_batch: Vec<Value> =
                (0..BATCH).map(|index| observed("batched", number * BATCH + index)).collect();
            client.post(&events).json(&events_of_batch)
        })
        .await?;
        fill(&server).await;
        let mut figures = vec![
            ("publish_single_events_per_s", json!(single.per_s.round())),
            ("publish_single_p50_ms", json!(single.p50_ms)),
            ("publish_single_p99_ms", json!(single.p99_ms)),
            ("publish_batched_events_per_s", json!((batched.per_s * BATCH as f64).round())),
        ];
        for (what, path) in [("node", ""), ("explain", "/explain")] {
            let url = |number: u64| format!("{}/v1/spaces/read/nodes/b-{}{path}", server.url, number % NODES);
            let ours = rate(|client, number| client.get(url(number))).await?;
            let bytes = client().get(url(0)).send().await?.bytes().await?;
            let bare = Bare::start(&desk, &bytes)?;
            let theirs = rate(|client, _| client.get(&bare.url)).await?;
            figures.extend([
                (if what == "node" { "node_reads_per_s" } else { "explain_reads_per_s" }, json!(ours.per_s.round())),
                (if what == "node" { "node_p50_ms" } else { "explain_p50_ms" }, json!(ours.p50_ms)),
                (if what == "node" { "node_bare_per_s" } else { "explain_bare_per_s" }, json!(theirs.per_s.round())),
                (if what == "node" { "node_share" } else { "explain_share" }, json!(ours.per_s / theirs.per_s)),
            ]);
        }
        Ok(figures)
    })
}

fn observed(prefix: &str, number: u64) -> Value {
    story::observed(&format!("{prefix}-{number}"), &format!("s-{}", number % 100), "what the source said")
}

/// Beliefs, each on two observations.
async fn fill(server: &Server) {
    for first in (0..NODES).step_by(500) {
        let mut events = Vec::new();
        for number in first..first + 500 {
            let premises = [format!("o-{number}-1"), format!("o-{number}-2")];
            events.extend(premises.iter().map(|premise| story::observed(premise, "web:a", "what the source said")));
            events.push(story::derived(&format!("b-{number}"), "belief", &[&premises[0], &premises[1]]));
        }
        server.publish("read", &events).await;
    }
}

/// Asks by all callers at once, each the next when the last is answered.
async fn rate(ask: impl Fn(&Client, u64) -> RequestBuilder) -> Result<Rate, Failure> {
    let next = Arc::new(AtomicU64::new(0));
    let deadline = Instant::now() + MEASURED;
    let callers = (0..CALLERS).map(|_| {
        let (client, next, ask) = (client(), next.clone(), &ask);
        async move {
            let mut took = Vec::new();
            while Instant::now() < deadline {
                let request = ask(&client, next.fetch_add(1, Ordering::Relaxed));
                let begun = Instant::now();
                request.send().await?.error_for_status()?.bytes().await?;
                took.push(begun.elapsed());
            }
            Ok::<_, reqwest::Error>(took)
        }
    });
    let begun = Instant::now();
    let mut took = Vec::new();
    for of_caller in futures_util::future::join_all(callers).await {
        took.extend(of_caller?);
    }
    let elapsed = begun.elapsed();
    took.sort_unstable();
    let at = |share: f64| took.get((took.len() as f64 * share) as usize).copied().unwrap_or_default();
    let ms = |duration: Duration| (duration.as_secs_f64() * 1e6).round() / 1e3;
    Ok(Rate { per_s: took.len() as f64 / elapsed.as_secs_f64(), p50_ms: ms(at(0.5)), p99_ms: ms(at(0.99)) })
}

/// The bare handler, in a process of its own.
struct Bare {
    process: Child,
    url: String,
}

impl Bare {
    fn start(desk: &Desk, bytes: &[u8]) -> Result<Bare, Failure> {
        let file = desk.file("answer.json", bytes);
        let program = std::env::current_exe()?;
        let mut process = Command::new(program).args(["bare_axum", &file]).stdout(Stdio::piped()).spawn()?;
        let output = process.stdout.take().ok_or("it is piped")?;
        let mut url = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut url)?;
        Ok(Bare { process, url: text(&json!(url.trim())).to_owned() })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves the bytes of a file, and nothing else, until it is killed.
pub fn serve_bare(file: &str) -> Result<(), Failure> {
    let bytes = Bytes::from(std::fs::read(file)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let answer = move || async move { ([(header::CONTENT_TYPE, "application/json")], bytes) };
        std::io::Write::write_all(&mut std::io::stdout(), format!("http://{}/\n", listener.local_addr()?).as_bytes())?;
        axum::serve(listener, Router::new().route("/", get(answer))).await?;
        Ok(())
    })
}
