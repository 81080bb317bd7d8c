//! A thousand who follow a hundred spaces at two thousand changes a second in all, of whom fifty read slowly and ten do not read at all:
//! whether the others notice, what memory it takes, and whether the slow ones are told. Beside it the same with one subscriber. Server, writer
//! and subscribers share the machine.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use recant_tests::{
    binary::Desk,
    served::{Caller, Server},
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
};

const SPACES: usize = 100;
const SUBSCRIBERS: usize = 1_000;
const SLOW: usize = 50;
const STALLED: usize = 10;
/// Changes that one retraction, or its end, makes.
const SOURCES: usize = 10;
/// Each space gets one of them so often: 2,000 changes a second over all spaces.
const EVERY: Duration = Duration::from_millis(500);
/// So many writes are under way at once, at most.
const WRITING_MAX: usize = 200;
/// So long is measured, after the first of them.
const MEASURED: Duration = Duration::from_secs(90);
const MEASURED_ALONE: Duration = Duration::from_secs(20);
/// A slow one takes so many bytes, so often; and lets the system hold this for it.
const SLOW_BYTES: usize = 512;
const SLOW_EVERY: Duration = Duration::from_millis(500);
const RECEIVE_BUFFER_BYTES: u32 = 8 << 10;
/// What subscribers may take of the server's memory: the rings, 64 MiB, and of each a page of the log, what is sent and what is read.
const MEMORY_MAX_MIB: u64 = 64 + (SUBSCRIBERS as u64) / 4;

/// What can go wrong.
type Failure = Box<dyn std::error::Error>;

/// When events were sent, by their ids; and how long after that their changes came, in microseconds.
#[derive(Default)]
struct Clockwork {
    sent: Mutex<HashMap<String, Instant>>,
    received_us: Mutex<Vec<u64>>,
    deliveries: AtomicU64,
    disordered: AtomicU64,
    is_over: AtomicBool,
    /// From now on slow ones read as quickly as they can.
    hurry: AtomicBool,
    told_behind: AtomicU64,
    closed: AtomicU64,
}

/// The figures.
pub fn measure() -> Result<Vec<(&'static str, Value)>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let alone = run(1, 0, 0, MEASURED_ALONE).await?;
        let all = run(SUBSCRIBERS, SLOW, STALLED, MEASURED).await?;
        Ok(vec![
            ("subscribers", json!(SUBSCRIBERS)),
            ("changes_per_s", json!(all.changes_per_s.round())),
            ("deliveries_per_s", json!(all.deliveries_per_s.round())),
            ("p50_ms", json!(all.p50_ms)),
            ("p99_ms", json!(all.p99_ms)),
            ("alone_p50_ms", json!(alone.p50_ms)),
            ("alone_p99_ms", json!(alone.p99_ms)),
            ("disordered", json!(all.disordered)),
            ("slow", json!(SLOW)),
            ("slow_told", json!(all.told_behind)),
            ("stalled", json!(STALLED)),
            ("stalled_closed", json!(all.closed)),
            ("memory_before_mib", json!(all.memory_before_mib)),
            ("memory_max_mib", json!(all.memory_max_mib)),
            ("memory_bound_mib", json!(all.memory_before_mib + MEMORY_MAX_MIB)),
        ])
    })
}

struct Ran {
    changes_per_s: f64,
    deliveries_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    disordered: u64,
    told_behind: u64,
    closed: u64,
    memory_before_mib: u64,
    memory_max_mib: u64,
}

async fn run(subscribers: usize, slow: usize, stalled: usize, measured: Duration) -> Result<Ran, Failure> {
    let desk = Desk::new();
    let server = Server::start(&desk);
    for space in 0..SPACES {
        let events: Vec<Value> = (0..SOURCES).map(|n| json!({"id": format!("e-{n}"), "observed": {"node": format!("o-{n}"), "source": format!("web:{n}")}})).collect();
        server.publish(&format!("space-{space}"), &events).await;
    }
    // What the state takes is no subscriber's.
    let clockwork = Arc::new(Clockwork::default());
    write(&server, &clockwork, Duration::from_secs(3)).await?;
    let memory_before_mib = resident_mib(server.process.id())?;
    let mut following = JoinSet::new();
    for subscriber in 0..subscribers {
        let stream = follow(&server.url, subscriber % SPACES, subscriber < slow + stalled).await?;
        let clockwork = clockwork.clone();
        match subscriber {
            n if n < slow => following.spawn(read_slowly(stream, clockwork)),
            n if n < slow + stalled => following.spawn(do_not_read(stream, clockwork)),
            _ => following.spawn(read(stream, clockwork)),
        };
    }
    let watched = {
        let (clockwork, process) = (clockwork.clone(), server.process.id());
        tokio::spawn(async move {
            let mut memory_max_mib = 0;
            while !clockwork.is_over.load(Ordering::Relaxed) {
                memory_max_mib = memory_max_mib.max(resident_mib(process).unwrap_or_default());
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            memory_max_mib
        })
    };
    let begun = Instant::now();
    let changes = write(&server, &clockwork, measured).await?;
    let took_s = begun.elapsed().as_secs_f64();
    let deliveries = clockwork.deliveries.load(Ordering::Relaxed);
    clockwork.hurry.store(true, Ordering::Relaxed);
    // So that the slow ones come to where they are told, and the last changes come to the others.
    tokio::time::sleep(Duration::from_secs(if slow > 0 { 15 } else { 1 })).await;
    clockwork.is_over.store(true, Ordering::Relaxed);
    let memory_max_mib = watched.await?;
    following.shutdown().await;
    let mut times = std::mem::take(&mut *clockwork.received_us.lock().unwrap_or_else(PoisonError::into_inner));
    times.sort_unstable();
    let at = |part: f64| {
        let index = ((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1));
        times.get(index).map_or(0.0, |us| (*us as f64 / 100.0).round() / 10.0)
    };
    Ok(Ran {
        changes_per_s: changes as f64 / took_s,
        deliveries_per_s: deliveries as f64 / took_s,
        p50_ms: at(0.5),
        p99_ms: at(0.99),
        disordered: clockwork.disordered.load(Ordering::Relaxed),
        told_behind: clockwork.told_behind.load(Ordering::Relaxed),
        closed: clockwork.closed.load(Ordering::Relaxed),
        memory_before_mib,
        memory_max_mib,
    })
}

/// Retracts and reinstates in all spaces by turns, for so long; gives how many changes that made.
async fn write(caller: &Caller, clockwork: &Arc<Clockwork>, long: Duration) -> Result<u64, Failure> {
    let begun = Instant::now();
    let pause = EVERY / SPACES as u32;
    let mut tick = tokio::time::interval(pause);
    let (mut writing, mut changes) = (JoinSet::new(), 0);
    let targets: Vec<Value> = (0..SOURCES).map(|n| json!({"source": format!("web:{n}")})).collect();
    let mut last = vec![None::<String>; SPACES];
    let mut number = 0_u64;
    while begun.elapsed() < long || last.iter().any(Option::is_some) {
        tick.tick().await;
        let space = number as usize % SPACES;
        let id = format!("w-{}-{number}", begun.elapsed().as_nanos());
        number += 1;
        let event = match last[space].take() {
            Some(retraction) => json!({"id": id, "reinstated": {"retraction": retraction}}),
            None if begun.elapsed() >= long => continue,
            None => {
                last[space] = Some(id.clone());
                json!({"id": id, "retracted": {"retraction": id, "targets": targets, "by": "bench"}})
            }
        };
        changes += SOURCES as u64;
        let request = caller.request(Method::POST, &format!("space-{space}"), "events").json(&event);
        let clockwork = clockwork.clone();
        writing.spawn(async move {
            clockwork.sent.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Instant::now());
            request.send().await?.error_for_status().map(drop)
        });
        while let Some(written) = writing.try_join_next() {
            written??;
        }
        // On a machine that is too slow less is written, which the figures say.
        while writing.len() >= WRITING_MAX
            && let Some(written) = writing.join_next().await
        {
            written??;
        }
    }
    while let Some(written) = writing.join_next().await {
        written??;
    }
    Ok(changes)
}

/// Opens a stream of a space; one that is to be slow lets the system hold little for it.
async fn follow(url: &str, space: usize, is_slow: bool) -> Result<TcpStream, Failure> {
    let address = url.trim_start_matches("http://");
    let socket = TcpSocket::new_v4()?;
    if is_slow {
        socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    }
    let mut stream = socket.connect(address.parse()?).await?;
    let request = format!(
        "GET /v1/spaces/space-{space}/changes?from=latest HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}

/// What came of a stream, line by line; chunks of HTTP end where lines do, and their heads are no lines of ours.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
    last: (u64, u64),
}

impl Lines {
    fn take(&mut self, bytes: &[u8], clockwork: &Clockwork, is_measured: bool) {
        self.rest.extend_from_slice(bytes);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        let mut event = "";
        let text = String::from_utf8_lossy(&whole);
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("event: ") {
                event = name;
                if event == "behind" {
                    clockwork.told_behind.fetch_add(1, Ordering::Relaxed);
                }
            } else if let Some(data) =
                line.strip_prefix("data: ").filter(|data| data.contains("\"distance\"") || event == "change")
            {
                self.change(data, clockwork, is_measured);
            }
        }
    }

    fn change(&mut self, data: &str, clockwork: &Clockwork, is_measured: bool) {
        let Ok(change) = serde_json::from_str::<Value>(data) else { return };
        let mut parts = change["id"].as_str().unwrap_or_default().rsplit(':');
        let (index, offset) = (parts.next(), parts.next());
        let number = |part: Option<&str>| part.and_then(|part| part.parse().ok()).unwrap_or(0);
        let place: (u64, u64) = (number(offset), number(index));
        if place <= self.last {
            clockwork.disordered.fetch_add(1, Ordering::Relaxed);
        }
        self.last = place;
        if is_measured {
            clockwork.deliveries.fetch_add(1, Ordering::Relaxed);
            let sent = clockwork.sent.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(sent) = change["cause"]["event"].as_str().and_then(|event| sent.get(event)) {
                let us = sent.elapsed().as_micros() as u64;
                clockwork.received_us.lock().unwrap_or_else(PoisonError::into_inner).push(us);
            }
        }
    }
}

async fn read(mut stream: TcpStream, clockwork: Arc<Clockwork>) {
    let (mut lines, mut bytes) = (Lines::default(), vec![0; 64 << 10]);
    while let Ok(read @ 1..) = stream.read(&mut bytes).await {
        lines.take(&bytes[..read], &clockwork, true);
    }
}

async fn read_slowly(mut stream: TcpStream, clockwork: Arc<Clockwork>) {
    let (mut lines, mut bytes) = (Lines::default(), vec![0; 64 << 10]);
    loop {
        let hurry = clockwork.hurry.load(Ordering::Relaxed);
        let room = if hurry { bytes.len() } else { SLOW_BYTES };
        let Ok(read @ 1..) = stream.read(&mut bytes[..room]).await else { return };
        lines.take(&bytes[..read], &clockwork, false);
        if !hurry {
            tokio::time::sleep(SLOW_EVERY).await;
        }
    }
}

/// Does not read; at the end it looks whether it was closed meanwhile.
async fn do_not_read(mut stream: TcpStream, clockwork: Arc<Clockwork>) {
    while !clockwork.hurry.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut bytes = vec![0; 64 << 10];
    loop {
        match tokio::time::timeout(Duration::from_secs(5), stream.read(&mut bytes)).await {
            Ok(Ok(1..)) => {}
            Ok(Ok(0) | Err(_)) => {
                clockwork.closed.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Err(_) => return,
        }
    }
}

fn resident_mib(process: u32) -> Result<u64, Failure> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? / 1024)
}
