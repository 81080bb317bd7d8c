//! What callers are promised over HTTP: the whole story, one event once, reads of what was written, streams without gaps, and an end in
//! order. `RECANT_GATEWAY_OPERATIONS` makes the longest one longer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it did"
)]

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use recant_tests::{
    binary::{Desk, Random, items, number, story, text, texts, wait_until},
    kafka::{broker::Broker, instance, member::command},
    served::{Answer, Caller, Follower, Server, Told, client},
};
use reqwest::{Method, StatusCode};
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

#[tokio::test]
async fn the_story_is_told_over_http() {
    let desk = Desk::new();
    let server = telling(&desk).await;
    let before = server.get("digest").await.ok();

    let preview = server.post("retractions?preview=true", &portal("r-1")).await.ok();
    assert_eq!(server.get("digest").await.ok(), before, "a preview changes nothing");
    let committed = server.post("retractions", &portal("r-1")).await.ok();
    assert_eq!(texts(committed["changes"].as_array().unwrap(), "node"), story::FALLEN);
    for member in ["retraction", "changed", "sources", "by_kind", "actions", "truncated"] {
        assert_eq!(committed[member], preview[member], "{member} is as the preview said");
    }
    assert_eq!(committed["sources"], 1);

    let fallen = server.get("nodes?status=out").await.ok();
    assert_eq!(items(&fallen).len(), story::FALLEN.len());
    let explanation = server.get("nodes/a-pay/explain").await.ok();
    assert_eq!(explanation["nodes"][0]["why"], "unsupported");
    assert_eq!(texts(explanation["retractions"].as_array().unwrap(), "id"), ["r-1"]);
    let then = server.get(&format!("nodes/a-pay?as_of={}", text(&preview["position"]))).await.ok();
    assert_eq!(then["status"], "IN", "as it was before");
    assert_eq!(server.get("nodes?id=a-pay").await.ok(), explanation_of_itself(&explanation));
    assert_eq!(server.get("explain?id=a-pay").await.ok(), explanation);

    let sources = server.get("sources").await.ok();
    let named = items(&sources).iter().find(|source| source["id"] == "web:portal").unwrap();
    assert_eq!(named["retracted_by"], json!(["r-1"]));
    assert_eq!(items(&server.get("actions?status=out").await.ok()).len(), 2);
    assert_eq!(texts(items(&server.get("nodes?text=ADDRESS+street").await.ok()), "id"), ["o-contract"]);
    assert_eq!(items(&server.get("nodes?text=addres").await.ok()).len(), 0, "words, not their beginnings");

    let back = server.post("retractions/r-1/reinstatement", &json!({"by": "kim"})).await.ok();
    assert_eq!(back["changed"], committed["changed"]);
    assert_eq!(server.get("digest").await.ok()["digest"], before["digest"], "everything is as if it had not been");
    assert_eq!(items(&server.get("retractions").await.ok())[0]["state"], "lifted");

    // The command line, which reads the same directory, says the same.
    for (path, arguments) in [
        ("nodes?limit=1000", vec!["list"]),
        ("sources", vec!["list", "--sources"]),
        ("retractions", vec!["list", "--retractions"]),
        ("nodes/a-pay/explain", vec!["explain", "a-pay"]),
        ("rejected", vec!["rejected", "list"]),
    ] {
        assert_eq!(server.get(path).await.ok(), desk.json(arguments), "{path}");
    }
    assert_eq!(server.end(), 0);
}

/// The same retraction over HTTP, typed, and as an event over HTTP: the same state.
#[tokio::test]
async fn a_retraction_leaves_the_same_state_through_whichever_door_it_comes() {
    let (called, typed, published) = (Desk::new(), Desk::new(), Desk::new());
    let server = telling(&called).await;
    server.post("retractions", &json!({"id": "r-1", "targets": [{"source": "web:portal"}], "by": "kim"})).await.ok();
    let digest = text(&server.get("digest").await.ok()["digest"]).to_owned();
    typed.append(&story::events());
    typed.done(["retract", "--source", "web:portal", "--id", "r-1", "--by", "kim"]);
    assert_eq!(typed.digest(), digest);
    let server = telling(&published).await;
    server.publish("default", &[story::retracted("r-1", "web:portal")]).await;
    assert_eq!(text(&server.get("digest").await.ok()["digest"]), digest);
}

/// The node that is explained, without what an explanation adds to it.
fn explanation_of_itself(explanation: &Value) -> Value {
    let mut node = explanation["nodes"][0].clone();
    ["reasons", "covered_by"].iter().for_each(|member| drop(node.as_object_mut().unwrap().remove(*member)));
    node
}

#[tokio::test]
async fn the_same_event_is_one_however_often_and_however_it_is_sent() {
    let desk = Desk::new();
    let server = Server::start(&desk);
    let event = story::observed("o-1", "web:a", "text");
    let send = |body: Value, key: Option<&'static str>| {
        let request = server.request(Method::POST, "default", "events").json(&body);
        let request = key.iter().fold(request, |request, key| request.header("idempotency-key", *key));
        async move { Answer::of(request.send().await.unwrap()).await }
    };
    let first = send(event.clone(), None).await;
    assert_eq!(first.position.as_deref(), Some("0:1"));
    assert_eq!(first.ok(), json!({"event": "e-o-1", "position": "0:1", "fate": "accepted"}));
    let again = send(event.clone(), Some("e-o-1")).await.ok();
    assert_eq!((&again["fate"], &again["duplicate_of"]), (&json!("duplicate"), &json!("0:1")));
    let mut without_id = event.clone();
    without_id.as_object_mut().unwrap().remove("id");
    assert_eq!(send(without_id.clone(), Some("e-o-1")).await.ok()["fate"], "duplicate", "the key is the id");
    send(without_id, None).await.problem(422, "missing_field");
    send(event.clone(), Some("another")).await.problem(422, "header_mismatch");
    let mut other = event.clone();
    other["observed"]["content"]["text"] = json!("other");
    let refused = send(other, None).await;
    assert!(refused.position.is_some(), "it came into the log, and was refused there");
    refused.problem(409, "event_id_taken");
    assert_eq!(server.get("events/e-o-1").await.ok()["position"], "0:1");
    server.get("events/e-never").await.problem(404, "not_found");

    // One batch: each has a fate of its own.
    let batch = json!([event, story::observed("o-2", "web:a", "more"), {"id": "e-nothing"}, story::derived("b-1", "belief", &[])]);
    let fates = server.post("events", &batch).await.ok();
    assert_eq!(texts(items(&fates), "fate"), ["duplicate", "accepted", "rejected", "rejected"]);
    assert_eq!(fates["items"][3]["type"], "no_premises");
    assert_eq!(["accepted", "duplicates", "rejected"].map(|fate| number(&fates[fate])), [1, 1, 2]);
}

#[tokio::test]
async fn every_form_of_an_event_is_the_same_event() {
    let desk = Desk::new();
    let server = Server::start(&desk);
    let send = |space: &'static str, content_type: &'static str, body: Vec<u8>| {
        let request = server.request(Method::POST, space, "events").header("content-type", content_type).body(body);
        async move { Answer::of(request.send().await.unwrap()).await }
    };
    let events = story::events();
    let lines = events.iter().map(|event| format!("{event}\r\n\n")).collect::<String>();
    let clouds: Vec<Value> = events
        .iter()
        .map(|event| {
            let body = event.as_object().unwrap().keys().find(|name| event[*name].is_object()).unwrap();
            json!({"specversion": "1.0", "id": event["id"], "source": "urn:test", "type": format!("recant.v1.{body}"), "data": event})
        })
        .collect();
    let protobuf = |space: &str| {
        let mut body = Vec::new();
        for event in &events {
            let decoded = recant_proto::wire::decode(event.to_string().as_bytes(), Some("application/json")).unwrap();
            let event = recant_proto::v1::Event { space: space.to_owned(), ..decoded.event };
            prost::Message::encode_length_delimited(&event, &mut body).unwrap();
        }
        body
    };
    let forms = [
        ("application/json", json!(events).to_string().into_bytes()),
        ("application/x-ndjson", lines.into_bytes()),
        ("application/cloudevents-batch+json", json!(clouds).to_string().into_bytes()),
        ("application/protobuf; delimited=true", protobuf("s3")),
    ];
    let spaces = ["s0", "s1", "s2", "s3"];
    let mut nodes = Vec::new();
    for (space, (content_type, body)) in spaces.into_iter().zip(forms) {
        let fates = send(space, content_type, body).await.ok();
        assert_eq!(fates["accepted"], events.len(), "{content_type}: {fates}");
        let page = Answer::of(server.request(Method::GET, space, "nodes?limit=1000").send().await.unwrap()).await.ok();
        let bare = |node: &Value| ["id", "kind", "status", "text", "source"].map(|member| node[member].clone());
        nodes.push(items(&page).iter().map(bare).collect::<Vec<_>>());
    }
    assert!(nodes.iter().all(|page| *page == nodes[0] && page.len() == 8), "{nodes:?}");
    send("s0", "text/plain", b"hello".to_vec()).await.problem(415, "content_type");
    send("s0", "application/protobuf", b"\xff\xff".to_vec()).await.problem(422, "undecodable");
    send("s0", "application/protobuf; delimited=true", vec![200]).await.problem(422, "undecodable");
    let elsewhere =
        json!({"id": "e", "space": "s1", "observed": {"node": "o", "source": "s", "content": {"text": "t"}}});
    send("s0", "application/json", elsewhere.to_string().into_bytes()).await.problem(422, "wrong_space");
}

#[tokio::test]
async fn what_cannot_be_asked_is_a_problem_with_a_code() {
    let desk = Desk::new();
    let server = telling(&desk).await;
    server.get("no-such-path").await.problem(404, "not_found");
    server.get("nodes/no-such-node").await.problem(404, "not_found");
    server.get("nodes?limit=0").await.problem(400, "wrong_request");
    server.get("nodes?kind=opinion").await.problem(400, "wrong_request");
    server.get("nodes?cursor=nonsense").await.problem(422, "bad_cursor");
    server.get("nodes?at_least=1:7").await.problem(422, "bad_moment");
    server.get("nodes?at_least=seven").await.problem(422, "bad_moment");
    server.get("nodes?as_of=yesterday").await.problem(422, "bad_moment");
    server.get("explain").await.problem(400, "wrong_request");
    server.get("changes?from=nowhere").await.problem(422, "bad_cursor");
    server.post("nodes", &json!({})).await.problem(405, "method_not_allowed");
    server.post("retractions", &json!({"targets": []})).await.problem(422, "no_targets");
    server.post("retractions", &json!({"targets": [{}]})).await.problem(422, "bad_value");
    server.post("retractions", &json!({"target": "typo"})).await.problem(400, "wrong_request");
    let not_reached = server.get("nodes?at_least=0:4711&wait_ms=20").await;
    assert_eq!(not_reached.position.as_deref(), Some("0:11"));
    not_reached.problem(503, "not_reached");
    assert!(announced(&server, 17 << 20).contains("body_too_large"), "refused before it is sent");
    let passed = json!({"targets": [{"source": "web:portal"}], "only_if_position": "0:3"});
    server.post("retractions", &passed).await.problem(412, "position_passed");
}

/// What is answered to the head of a request whose body has so many bytes.
fn announced(server: &Caller, body_bytes: usize) -> String {
    let mut connection = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    write!(
        connection,
        "POST /v1/spaces/default/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {body_bytes}\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    answer
}

#[tokio::test]
async fn pages_are_of_one_position_whatever_happens_between_them() {
    let desk = Desk::new();
    let server = Server::start(&desk);
    let events: Vec<Value> = (0..25).map(|n| story::observed(&format!("o-{n}"), "web:portal", "text")).collect();
    server.publish("default", &events).await;
    let mut pages = vec![server.get("nodes?limit=10").await.ok()];
    server.post("retractions", &portal("r-1")).await.ok();
    server.publish("default", &[story::observed("o-late", "web:portal", "text")]).await;
    while let Some(next) = pages.last().unwrap()["next"].as_str() {
        let page = server.get(&format!("nodes?limit=10&cursor={next}")).await.ok();
        pages.push(page);
    }
    assert_eq!(pages.iter().map(|page| items(page).len()).collect::<Vec<_>>(), [10, 10, 5]);
    assert!(pages.iter().all(|page| page["position"] == pages[0]["position"] && page["cursor"] == pages[0]["cursor"]));
    assert!(pages.iter().flat_map(items).all(|node| node["status"] == "IN"), "as it was at that position");
    // List, then follow: nothing is missed, and nothing told twice.
    let from = format!("changes?from={}&limit=1000", text(&pages[0]["cursor"]));
    let request = server.request(Method::GET, "default", &from).header("accept", "application/json");
    let followed = Answer::of(request.send().await.unwrap()).await.ok();
    assert_eq!(items(&followed).len(), 1 + 25 + 2, "the cascade, and what was born OUT after it");
}

/// Issue 6, point 5: each writes, and reads at least at the position of its write. `RECANT_GATEWAY_OPERATIONS` is both, of all writers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_writers_read_what_they_wrote() {
    const WRITERS: usize = 50;
    let operations =
        std::env::var("RECANT_GATEWAY_OPERATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(5_000);
    let desk = Desk::new();
    let server = Server::start(&desk);
    let writes_each = operations / 2 / WRITERS;
    let writers = (0..WRITERS).map(|writer| {
        let server = server.caller.clone();
        tokio::spawn(async move {
            for write in 0..writes_each {
                let node = format!("o-{writer}-{write}");
                let fate = server.post("events", &story::observed(&node, &format!("s-{writer}"), "text")).await.ok();
                assert_eq!(fate["fate"], "accepted");
                let position = text(&fate["position"]).to_owned();
                let read = server.get(&format!("nodes/{node}?at_least={position}")).await;
                let offset = |position: &str| position.split_once(':').unwrap().1.parse::<u64>().unwrap();
                assert!(offset(read.position.as_deref().unwrap()) >= offset(&position), "a stale answer");
                assert_eq!(read.ok()["position"], position.as_str(), "what was written is read");
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let done = writes_each * WRITERS * 2;
    println!("RESULT read_your_writes writers={WRITERS} operations={done} stale=0");
    assert_eq!(items(&server.get("nodes?limit=1000").await.ok()).len(), 1_000.min(done / 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_is_there_after_a_kill() {
    let desk = Desk::new();
    for round in 0..3 {
        let server = Server::start(&desk);
        let acknowledged = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (http, acknowledged) = (client(), acknowledged.clone());
                let url = format!("{}/v1/spaces/default/events", server.url);
                tokio::spawn(async move {
                    for write in 0.. {
                        let node = format!("o-{round}-{writer}-{write}");
                        let sent = http.post(&url).json(&story::observed(&node, "web:a", "text")).send().await;
                        let Ok(answer) = sent else { return };
                        if answer.status() == StatusCode::OK {
                            acknowledged.lock().unwrap().push(node);
                        }
                    }
                })
            })
            .collect();
        wait_until("some are acknowledged", || (acknowledged.lock().unwrap().len() > 200).then_some(()));
        server.process.kill();
        for writer in writers {
            writer.await.unwrap();
        }
        let server = Server::start(&desk);
        let acknowledged = acknowledged.lock().unwrap().clone();
        for node in &acknowledged {
            assert_eq!(server.get(&format!("nodes/{node}")).await.ok()["status"], "IN");
        }
        assert_eq!(server.end(), 0);
    }
    desk.json(["verify"]);
}

fn changes(told: &[Told]) -> Vec<&Told> {
    told.iter().filter(|told| told.event == "change").collect()
}

#[tokio::test]
async fn a_stream_frames_cascades_and_says_where_it_is() {
    let desk = Desk::new();
    let server = telling(&desk).await;
    let mut live = server.follow("default", "heartbeat_ms=100", None).await;
    let caught_up = live.next().await.unwrap();
    assert_eq!(caught_up.event, "caught-up");
    assert_eq!(caught_up.id.as_deref(), caught_up.data["cursor"].as_str());
    server.post("retractions", &portal("r-1")).await.ok();
    let mut told = Vec::new();
    while told.last().is_none_or(|told: &Told| told.event != "end") {
        told.push(live.next().await.unwrap());
    }
    told.retain(|told| told.event != "heartbeat");
    let names: Vec<&str> = told.iter().map(|told| told.event.as_str()).collect();
    assert_eq!(names, ["begin", "change", "change", "change", "change", "change", "end"]);
    assert_eq!(told[0].data["summary"]["changed"], 5);
    assert_eq!(texts(&changes(&told).iter().map(|told| told.data.clone()).collect::<Vec<_>>(), "node"), story::FALLEN);
    assert!(changes(&told).iter().all(|told| told.id.as_deref() == told.data["cursor"].as_str()));
    let heartbeat = live.next_of("heartbeat").await;

    // From every cursor that was told, the rest, and nothing else; whoever has all changes and no end is told the end.
    for (index, seen) in told.iter().enumerate().skip(1) {
        let mut again = server.follow("default", "", seen.id.as_deref()).await;
        let mut rest = Vec::new();
        loop {
            match again.next().await.unwrap() {
                told if told.event == "caught-up" => break,
                told => rest.push(told),
            }
        }
        rest.retain(|told| told.event != "begin");
        assert_eq!(rest, told[index + 1..], "after {}", seen.event);
    }
    for place in [&caught_up, &heartbeat] {
        let mut again = server.follow("default", "", place.id.as_deref()).await;
        let first = again.next().await.unwrap().event;
        assert_eq!(first, if place == &caught_up { "begin" } else { "caught-up" });
    }

    // Filters leave out changes, and never an end of what they let begin.
    let mut actions = server.follow("default", "from=earliest&kind=action&status=out", None).await;
    let mut told = Vec::new();
    while told.last().is_none_or(|told: &Told| told.event != "caught-up") {
        told.push(actions.next().await.unwrap());
    }
    let names: Vec<&str> = told.iter().map(|told| told.event.as_str()).collect();
    assert_eq!(names, ["begin", "change", "change", "end", "caught-up"]);
    let mut none = server.follow("default", "from=earliest&cause=another&heartbeat_ms=100", None).await;
    assert_eq!(none.next().await.unwrap().event, "caught-up");

    assert_eq!(server.end(), 0);
    let closing = live.next_of("closing").await;
    assert!(number(&closing.data["retry_ms"]) >= 500);
    assert_eq!(live.next().await, None, "the stream ends, with a word");
}

#[tokio::test]
async fn a_cursor_of_another_log_is_told_as_each_can_read_it() {
    let (desk, other) = (Desk::new(), Desk::new());
    let elsewhere = telling(&other).await;
    elsewhere.post("retractions", &portal("r-1")).await.ok();
    let cursor = text(&elsewhere.get("nodes").await.ok()["cursor"]).to_owned();
    let server = telling(&desk).await;
    let mut stream = server.follow("default", "", Some(&cursor)).await;
    let told = stream.next().await.unwrap();
    assert_eq!((told.event.as_str(), &told.data["type"]), ("problem", &json!("other_log")));
    assert_eq!(told.id, None, "the cursor stays the reader's own");
    assert_eq!(stream.next().await, None);
    let polled = server.request(Method::GET, "default", &format!("changes?from={cursor}"));
    let polled = polled.header("accept", "application/json").send().await.unwrap();
    Answer::of(polled).await.problem(410, "other_log");
}

/// Cascades of one change each, one after the other.
async fn changes_one_by_one(server: &Caller, space: &str, first: usize, count: usize) {
    let mut events = Vec::new();
    for number in first..first + count {
        let node = format!("o-{number}");
        events.push(story::observed(&node, &format!("s-{number}"), "text"));
        events.push(story::retracted(&format!("r-{number}"), &format!("s-{number}")));
    }
    server.publish(space, &events).await;
}

/// Reads changes until there are so many, and breaks off at random.
async fn read_interrupted(server: &Caller, space: &str, count: usize, breaks: u64, random: &mut Random) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    let mut cursor: Option<String> = None;
    let mut broken = 0;
    let mut stream = server.follow(space, "from=earliest", None).await;
    while seen.len() < count {
        let told = stream.next().await.expect("the stream goes on");
        if told.event == "change" {
            seen.push(text(&told.data["node"]).to_owned());
        }
        cursor = told.id.or(cursor);
        if broken < breaks && random.below(count as u64) < 2 * breaks {
            broken += 1;
            stream = server.follow(space, "from=earliest", cursor.as_deref()).await;
        }
    }
    println!("{space}: {broken} interruptions over {count} changes");
    assert!(broken > 0);
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interruptions_and_the_seam_between_backlog_and_live_leave_no_gap() {
    const BACKLOG: usize = 2_000;
    const LIVE: usize = 1_000;
    let desk = Desk::new();
    let server = Server::start(&desk);
    for first in (0..BACKLOG).step_by(500) {
        changes_one_by_one(&server, "s", first, 500).await;
    }
    let writing = tokio::spawn({
        let server = server.caller.clone();
        async move {
            for first in (BACKLOG..BACKLOG + LIVE).step_by(20) {
                changes_one_by_one(&server, "s", first, 20).await;
                changes_one_by_one(&server, "other", first, 5).await;
            }
        }
    });
    let expected: Vec<String> = (0..BACKLOG + LIVE).map(|number| format!("o-{number}")).collect();
    let readers = (0..4).map(|seed| {
        let (server, expected) = (server.caller.clone(), expected.clone());
        tokio::spawn(async move {
            let seen = read_interrupted(&server, "s", BACKLOG + LIVE, 50, &mut Random(seed)).await;
            assert!(seen == expected, "each change once, in order");
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.unwrap();
    }
    writing.await.unwrap();
}

/// Memory of a process now, in KiB.
fn memory_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().split(' ').next().unwrap().parse().unwrap()
}

/// Those who do not read are told so when they do, cost little meanwhile, and hold up nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_does_not_read_costs_little_and_misses_nothing() {
    const CHANGES: usize = 30_000;
    const IDLE: usize = 50;
    let desk = Desk::new();
    let server = Server::start(&desk);
    let mut idle: Vec<Follower> = Vec::new();
    for _ in 0..IDLE {
        idle.push(server.follow("default", "from=earliest", None).await);
    }
    let mut fast = server.follow("default", "from=earliest", None).await;
    let before_kib = memory_kib(server.process.id());
    for first in (0..CHANGES).step_by(1_000) {
        let events: Vec<Value> = (first..first + 1_000)
            .map(|number| story::observed(&format!("o-{number}"), "web:portal", "text"))
            .collect();
        server.publish("default", &events).await;
    }
    let committed = server.post("retractions?limit=0", &portal("r-1")).await.ok();
    assert_eq!(committed["changed"], CHANGES);
    let mut told = 0;
    while told < CHANGES {
        fast.next_of("change").await;
        told += 1;
    }
    let grown_kib = memory_kib(server.process.id()).saturating_sub(before_kib);
    println!("RESULT idle_followers followers={IDLE} changes={CHANGES} grown_mib={}", grown_kib >> 10);
    assert!(grown_kib < 600 << 10, "{grown_kib} KiB");
    let mut late = idle.pop().unwrap();
    for number in 0..CHANGES {
        let told = late.next_of("change").await;
        assert_eq!(told.data["cascade"]["index"], number + 1, "nothing is left out");
    }
    assert_eq!(late.next().await.unwrap().event, "end");
}

#[tokio::test]
async fn the_past_is_served_to_read_alone() {
    let desk = Desk::new();
    let server = telling(&desk).await;
    server.post("retractions", &portal("r-1")).await.ok();
    let position = text(&server.get("nodes").await.ok()["position"]).to_owned();
    assert_eq!(server.end(), 0);
    let past = desk.path("past").display().to_string();
    desk.done(["replay", "--until", "0:11", "--into", &past]);
    let server = Server::start_with(&desk, &["--read-only", "--data", &past]);
    let page = server.get("nodes?status=out").await.ok();
    assert_eq!((items(&page).len(), &page["position"]), (0, &json!("0:11")), "before {position}");
    server.post("events", &story::observed("o-new", "web:a", "text")).await.problem(422, "past");
    assert_eq!(server.post("retractions?preview=true", &portal("r-2")).await.ok()["changed"], 5);
    let polled =
        server.request(Method::GET, "default", "changes?from=earliest&wait_ms=0").header("accept", "application/json");
    assert_eq!(items(&Answer::of(polled.send().await.unwrap()).await.ok()).len(), 0);
    assert_eq!(server.end(), 0);
}

/// The same command gives the same output, whether it reads a directory or asks a server.
#[tokio::test]
async fn commands_say_the_same_of_a_server_as_of_its_directory() {
    let desk = Desk::new();
    let server = Server::start(&desk);
    let asked = |arguments: &[&str]| {
        let mut command = desk.command(arguments);
        command.env("RECANT_URL", &server.url);
        recant_tests::binary::run(command)
    };
    let mut events = story::events();
    events.push(json!({"id": "e-portal", "observed": {"node": "o-other", "source": "web:portal", "content": {"text": "other"}}}));
    events.push(json!({"id": "e-nothing"}));
    let file = desk.lines("events.jsonl", &events);
    let summary = asked(&["append", &file, "--json"]).exited(1).document();
    assert_eq!(["accepted", "rejected"].map(|fate| number(&summary[fate])), [story::events().len() as u64, 2]);
    // What is no event is refused here, and at once; the other by the server.
    assert_eq!(texts(summary["rejections"].as_array().unwrap(), "type"), ["missing_body", "event_id_taken"]);
    assert_eq!(number(&summary["rejections"][1]["line"]), events.len() as u64 - 1);

    let preview = ["retract", "--source", "web:portal", "--by", "kim", "--id", "r-1", "--preview"];
    let [remote, local] = [asked(&preview).exited(0).text(), desk.done(preview)];
    assert_eq!(remote, local, "for people, too");
    asked(&["retract", "--source", "web:portal", "--by", "kim", "--id", "r-1"]).exited(0);
    for arguments in [
        &["list"][..],
        &["list", "--limit", "3"],
        &["list", "--status", "out", "--kind", "action"],
        &["list", "--sources"],
        &["list", "--retractions"],
        &["list", "--as-of", "0:11"],
        &["explain", "a-pay"],
        &["explain", "a-pay", "--limit", "2"],
        &["rejected", "list"],
        &["watch", "--from", "earliest", "--until-caught-up"],
        &["watch", "--from", "earliest", "--until-caught-up", "--kind", "action"],
    ] {
        for arguments in [arguments.to_vec(), [arguments, &["--json"]].concat()] {
            assert_eq!(asked(&arguments).exited(0).text(), desk.done(&arguments), "{arguments:?}");
        }
    }
    assert_eq!(asked(&["explain", "no-such-node"]).exited(1).stderr, desk.run(["explain", "no-such-node"]).stderr);
    assert!(asked(&["retract", "--node", "a-mail", "--id", "r-1"]).exited(1).stderr.contains("taken"));
    assert!(asked(&["doctor"]).exited(2).stderr.contains("--url"));
    assert_eq!(asked(&["reinstate", "r-1", "--json"]).exited(0).document()["changed"], 5);
    assert_eq!(server.end(), 0);
    assert!(asked_nobody(&desk).contains("unreachable"));
}

/// What a command says where nobody listens.
fn asked_nobody(desk: &Desk) -> String {
    let mut command = desk.command(["list", "--url", "http://127.0.0.1:1"]);
    command.env_remove("RECANT_DATA");
    recant_tests::binary::run(command).exited(3).stderr
}

/// Two processes share a log on Kafka, and stand by for each other: either answers for every space, and tells its stream.
#[tokio::test]
async fn a_log_on_kafka_is_served_by_all_who_hold_its_states() {
    let (desk, instance) = (Desk::new(), instance("gateway"));
    let address = Broker::shared().address();
    let serve = |data: &str| {
        let data = desk.path(data);
        let arguments = ["--json", "serve", "--listen", "127.0.0.1:0", "--partitions", "2", "--standby", "all"];
        let mut serving = command(&desk, &address, &instance, &arguments);
        serving.env("RECANT_DATA", data);
        Server::of(serving)
    };
    let one = serve("one");
    let other = serve("other");
    one.publish("default", &story::events()).await;
    let committed = one.post("retractions", &portal("r-1")).await.ok();
    assert_eq!(texts(committed["changes"].as_array().unwrap(), "node"), story::FALLEN);
    let path = format!("nodes?status=out&at_least={}", text(&committed["position"]));
    for server in [&one, &other] {
        // A partition that is moving is told as such, and asked for again.
        let page = loop {
            let answer = server.get(&path).await;
            if answer.status != StatusCode::SERVICE_UNAVAILABLE {
                break answer.ok();
            }
            assert!(["elsewhere", "not_reached"].contains(&text(&answer.body["type"])), "{}", answer.body);
        };
        assert_eq!(items(&page).len(), story::FALLEN.len());
        let mut stream = server.follow("default", "from=earliest", None).await;
        for node in story::FALLEN {
            assert_eq!(stream.next_of("change").await.data["node"], node);
        }
        assert_eq!(stream.next().await.unwrap().event, "end");
    }
    let fresh = [one.get("digest?fresh=true").await.ok(), other.get("digest?fresh=true").await.ok()];
    assert_eq!(fresh[0], fresh[1], "the same state at the same position");
    one.post("events", &story::observed("o-portal", "web:other", "other")).await.problem(409, "node_id_taken");
    assert_eq!((one.end(), other.end()), (0, 0));
}

#[tokio::test]
async fn health_says_whether_it_runs_and_whether_it_has_caught_up() {
    let desk = Desk::new();
    let server = telling(&desk).await;
    let ask = |path: &str| client().get(format!("{}/{path}", server.url)).timeout(Duration::from_secs(10)).send();
    assert_eq!(Answer::of(ask("healthz").await.unwrap()).await.ok()["status"], "ok");
    assert_eq!(Answer::of(ask("readyz").await.unwrap()).await.ok()["lag_events"], 0);
    let document = Answer::of(ask("openapi.json").await.unwrap()).await;
    assert!(document.body["paths"].as_object().unwrap().len() >= 12);
}
