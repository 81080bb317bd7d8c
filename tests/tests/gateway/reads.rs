//! Reads: pages of one position, never older than what was written, and problems with codes.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use recant_tests::{
    binary::{Desk, items, story, text},
    served::{Answer, Caller, Server},
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{portal, telling};

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

/// Sources and retractions come in pages as nodes do: each once, as they were at the position of the first page.
#[tokio::test]
async fn sources_and_retractions_are_paged_at_one_position() {
    let desk = Desk::new();
    let server = Server::start(&desk);
    let observed = |n: usize| story::observed(&format!("o-{n}"), &format!("web:{n}"), "text");
    let retracted = |n: usize| story::retracted(&format!("r-{n}"), &format!("web:{n}"));
    let events: Vec<Value> = (0..25).map(observed).chain((0..7).map(retracted)).collect();
    server.publish("default", &events).await;
    let [sources, retractions] =
        [server.get("sources?limit=1000").await.ok(), server.get("retractions?limit=1000").await.ok()];
    assert_eq!((items(&sources).len(), items(&retractions).len()), (25, 7));
    let first = [server.get("sources?limit=10").await.ok(), server.get("retractions?limit=3").await.ok()];
    // Of what happens between two pages neither shows anything: a source more, more of one, one that falls, one that comes back.
    server.publish("default", &[observed(25), story::observed("o-more", "web:20", "text"), retracted(24)]).await;
    server.publish("default", &[story::reinstated("e-back", "r-6")]).await;
    for (list, first, expected, pages_expected) in
        [("sources", &first[0], &sources, [10, 10, 5]), ("retractions", &first[1], &retractions, [3, 3, 1])]
    {
        let limit = pages_expected[0];
        let mut pages = vec![first.clone()];
        while let Some(next) = pages.last().unwrap()["next"].as_str() {
            let page = server.get(&format!("{list}?limit={limit}&cursor={next}")).await.ok();
            pages.push(page);
        }
        assert_eq!(pages.iter().map(|page| items(page).len()).collect::<Vec<_>>(), pages_expected, "{list}");
        assert!(pages.iter().all(|page| page["position"] == expected["position"]), "{list}");
        let paged: Vec<&Value> = pages.iter().flat_map(items).collect();
        assert_eq!(paged, items(expected).iter().collect::<Vec<_>>(), "{list}");
        server.get(&format!("{list}?limit=0")).await.problem(400, "wrong_request");
        server.get(&format!("{list}?cursor=nonsense")).await.problem(422, "bad_cursor");
    }
    assert_eq!(server.end(), 0);
    // The command line turns the same pages.
    let listed = desk.json(["list", "--sources", "--limit", "10"]);
    assert_eq!((items(&listed).len(), listed["next"].is_string()), (10, true));
    let rest = desk.json(["list", "--sources", "--cursor", text(&listed["next"])]);
    assert_eq!(items(&rest).len(), 16);
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
