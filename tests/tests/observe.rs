//! What a server sends over OTLP, where the standard variables name a place: its measures, and the span of a request in its caller's trace. And
//! what Prometheus finds at `/metrics`.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::mpsc,
};

use recant_tests::{
    binary::{Desk, PATIENCE, Process, text},
    served::{Server, client},
};
use reqwest::Method;

const TRACE_ID: [u8; 16] =
    [0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c];
const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A collector: path and body of each request that it is sent.
fn collector() -> (String, mpsc::Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let tell = tell.clone();
            std::thread::spawn(move || {
                while let Some(request) = request(&connection) {
                    tell.send(request).unwrap()
                }
            });
        }
    });
    (url, told)
}

fn request(mut connection: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::with_capacity(1, connection);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
    Some((first.split(' ').nth(1)?.to_owned(), body))
}

fn holds(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

#[test]
fn measures_and_the_callers_trace_are_sent_where_the_variables_say() {
    let (collector, told) = collector();
    let desk = Desk::new();
    let mut command = desk.command(["--json", "serve", "--listen", "127.0.0.1:0"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector);
    let mut process = Process::start(command);
    let url = text(&process.json()["url"]).to_owned();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let observed = serde_json::json!({ "id": "e", "observed": { "node": "n", "source": "s" } });
        let request = client().post(format!("{url}/v1/spaces/acme/events")).header("traceparent", TRACEPARENT);
        assert_eq!(request.json(&observed).send().await.unwrap().status(), 200);
    });
    // What was measured last is sent when the server ends.
    let pid = rustix::process::Pid::from_raw(process.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(process.finish().0, 0);
    let (mut spans, mut measures) = (false, false);
    while !(spans && measures) {
        let (path, body) = told.recv_timeout(PATIENCE).expect("spans and measures are sent");
        spans |= path == "/v1/traces" && holds(&body, &TRACE_ID) && holds(&body, b"/v1/spaces/{space}/events");
        measures |= path == "/v1/metrics" && holds(&body, b"recant.events");
    }
}

#[test]
fn a_real_prometheus_loads_the_alerts_and_finds_what_they_name() {
    let desk = Desk::new();
    let server = Server::start(&desk);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let observed = serde_json::json!({ "id": "e", "observed": { "node": "n", "source": "s" } });
        server.request(Method::POST, "acme", "events").json(&observed).send().await.unwrap();
        let retracted = serde_json::json!({ "targets": [{ "source": "s" }], "reason": "r" });
        server.request(Method::POST, "acme", "retractions").json(&retracted).send().await.unwrap();
    });
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/check-alerts");
    let checked = Command::new(script).arg(server.url.strip_prefix("http://").unwrap()).output().unwrap();
    let (said, complained) = (String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr));
    assert!(checked.status.success(), "{said}{complained}");
    // What has not happened here yet.
    let absent: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("not measured yet: ")).collect();
    let expected = [
        "recant_commits_aborted_total",
        "recant_engine_suspects_total",
        "recant_refused_total",
        "recant_rejected_total",
        "recant_spaces_turned_total",
        "recant_stream_behind_total",
        "recant_webhooks_total",
    ];
    assert_eq!(absent, expected, "{said}");
    assert_eq!(server.end(), 0);
}
