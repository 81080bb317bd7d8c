//! What is promised to those who cannot keep a cursor: a named subscription tells each change until it is settled, whatever is killed
//! meanwhile; in order; within bounds; to its owner alone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use recant_tests::{
    binary::{Desk, items, number, story, text, texts},
    kafka::{broker::Broker, instance, member::command},
    receiver::{Does, Receiver},
    served::{Answer, Caller, Follower, Server, client},
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// Sources `web:0` and so on, each with one observation `o-0` and so on.
async fn observations(caller: &Caller, count: usize) {
    let observed = |n: usize| story::observed(&format!("o-{n}"), &format!("web:{n}"), &format!("text {n}"));
    caller.publish("default", &(0..count).map(observed).collect::<Vec<_>>()).await;
}

/// Each source is retracted by an event of its own: one change each, in this order.
async fn retractions(caller: &Caller, sources: std::ops::Range<usize>) {
    let retracted: Vec<Value> = sources.map(|n| story::retracted(&format!("r-{n}"), &format!("web:{n}"))).collect();
    caller.publish("default", &retracted).await;
}

async fn make(caller: &Caller, from: &str, definition: &Value) -> Value {
    let made = caller.post(&format!("subscriptions?from={from}"), definition).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
    made.body
}

async fn pull(caller: &Caller, query: &str) -> Vec<Value> {
    items(&caller.post(&format!("subscriptions/s/pull?{query}"), &Value::Null).await.ok()).to_vec()
}

fn nodes(deliveries: &[Value]) -> Vec<&str> {
    deliveries.iter().map(|delivery| text(&delivery["change"]["node"])).collect()
}

fn ids(deliveries: &[Value]) -> Vec<&str> {
    deliveries.iter().map(|delivery| text(&delivery["change"]["id"])).collect()
}

async fn acknowledge(caller: &Caller, deliveries: &[Value]) -> Value {
    caller.post("subscriptions/s/acknowledge", &json!({"changes": ids(deliveries)})).await.ok()
}

/// Protects consumers: each change until it is acknowledged, and none after; over kill -9 at any moment; the digest knows nothing of it.
#[tokio::test]
async fn what_is_not_acknowledged_is_told_again_over_a_kill() {
    let desk = Desk::new();
    let server = Server::start(&desk);
    observations(&server, 6).await;
    make(&server, "earliest", &json!({"name": "s"})).await;
    let digest = server.get("digest").await.ok();
    let again = server.post("subscriptions?from=latest", &json!({"name": "s"})).await;
    assert_eq!(again.status, StatusCode::OK, "the same definition is the same subscription");
    server.post("subscriptions", &json!({"name": "s", "kind": "action"})).await.problem(409, "subscription_taken");
    assert!(pull(&server, "wait_ms=0").await.is_empty());
    assert_eq!(server.get("digest").await.ok(), digest);

    retractions(&server, 0..4).await;
    let first = pull(&server, "wait_ms=10000&limit=3").await;
    assert_eq!(nodes(&first), ["o-0", "o-1", "o-2"]);
    assert!(first.iter().all(|delivery| delivery["attempt"] == 1 && delivery["change"].get("text").is_none()));
    // Out of order, and one of them alone.
    assert_eq!(acknowledge(&server, &first[1..2]).await["changes"], 1);
    assert_eq!(acknowledge(&server, &first[1..2]).await["changes"], 0, "it was");

    server.process.kill();
    let server = Server::start(&desk);
    retractions(&server, 4..6).await;
    let after_kill = pull(&server, "wait_ms=10000").await;
    let mut told = nodes(&after_kill);
    if told.len() < 5 {
        let more = pull(&server, "wait_ms=10000").await;
        told.extend(nodes(&more).iter().map(|node| match *node {
            "o-4" => "o-4",
            other => {
                assert_eq!(other, "o-5");
                "o-5"
            }
        }));
    }
    assert_eq!(told, ["o-0", "o-2", "o-3", "o-4", "o-5"], "not the one that was acknowledged");

    let up_to = server.get("nodes?limit=1").await.ok();
    let settled = server.post("subscriptions/s/acknowledge", &json!({"up_to": up_to["cursor"]})).await.ok();
    assert_eq!(settled["changes"], 5);
    server.process.kill();
    let server = Server::start(&desk);
    assert!(pull(&server, "wait_ms=300").await.is_empty(), "all is acknowledged");
    let shown = server.get("subscriptions/s").await.ok();
    assert_eq!((number(&shown["outstanding"]), number(&shown["parked"])), (0, 0));
    let deleted = server.request(Method::DELETE, "default", "subscriptions/s").send().await.unwrap();
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    server.get("subscriptions/s").await.problem(404, "not_found");
    assert!(items(&server.get("subscriptions").await.ok()).is_empty());
}

/// Protects consumers from one change that they cannot handle: it is parked, by them or after so many attempts, what follows goes on, and it
/// can be retried, also after a kill.
#[tokio::test]
async fn what_cannot_be_handled_is_parked_and_retried() {
    let desk = Desk::new();
    let server = Server::start(&desk);
    observations(&server, 3).await;
    make(&server, "latest", &json!({"name": "s", "ack_deadline_ms": 100, "attempts_max": 2, "outstanding_max": 2}))
        .await;
    retractions(&server, 0..3).await;
    let first = pull(&server, "wait_ms=10000&limit=1").await;
    let parked =
        server.post("subscriptions/s/parked", &json!({"changes": ids(&first), "reason": "no such account"})).await.ok();
    assert_eq!(parked["changes"], 1);
    // The others are not acknowledged, twice, and are parked by themselves.
    for attempt in [1, 2] {
        let mut told = Vec::new();
        while told.len() < 2 {
            told.extend(pull(&server, "wait_ms=10000").await);
        }
        assert_eq!(nodes(&told), ["o-1", "o-2"]);
        assert!(told.iter().all(|delivery| delivery["attempt"] == attempt), "{told:?}");
    }
    while number(&server.get("subscriptions/s").await.ok()["parked"]) < 3 {
        // Whether they are still out, which is told, or were parked by this.
        let answer = server.post("subscriptions/s/pull?wait_ms=50", &Value::Null).await;
        assert!(answer.status != StatusCode::OK || items(&answer.body).is_empty(), "{}", answer.body);
    }
    server.process.kill();

    let server = Server::start(&desk);
    let parked = server.get("subscriptions/s/parked").await.ok();
    let reasons: Vec<&str> = texts(items(&parked), "reason");
    assert_eq!(reasons[0], "no such account");
    assert!(reasons[1].contains("handed out 2 times"), "{reasons:?}");
    assert!(pull(&server, "wait_ms=300").await.is_empty(), "what is parked is not told");
    let retried = json!({"changes": [items(&parked)[0]["change"]["id"]]});
    assert_eq!(server.post("subscriptions/s/parked/retry", &retried).await.ok()["changes"], 1);
    let told = pull(&server, "wait_ms=10000").await;
    assert_eq!((nodes(&told), &told[0]["attempt"]), (vec!["o-0"], &json!(1)));
    acknowledge(&server, &told).await;
    // The rest is discarded unread.
    let rest: Vec<Value> = items(&parked)[1..].to_vec();
    assert_eq!(acknowledge(&server, &rest).await["changes"], 2);
    assert!(items(&server.get("subscriptions/s/parked").await.ok()).is_empty());
    assert_eq!(server.post("subscriptions/s/parked/retry", &json!({})).await.ok()["changes"], 0);
}

/// Protects memory, and consumers from being passed over in silence: bounds are told.
#[tokio::test]
async fn bounds_are_told() {
    let desk = Desk::new();
    let server = Server::start(&desk);
    observations(&server, 4).await;
    make(&server, "earliest", &json!({"name": "s", "outstanding_max": 2, "content": "full"})).await;
    retractions(&server, 0..4).await;
    let told = pull(&server, "wait_ms=10000&limit=1").await;
    assert_eq!(told[0]["change"]["text"], "text 0", "content in full");
    pull(&server, "wait_ms=10000&limit=1").await;
    let refused = server.post("subscriptions/s/pull?wait_ms=200", &Value::Null).await;
    refused.problem(429, "outstanding_full");
    acknowledge(&server, &told).await;
    assert_eq!(nodes(&pull(&server, "wait_ms=10000").await), ["o-2"]);
    for wrong in [json!({"name": ""}), json!({"name": "t", "attempts_max": 0}), json!({"name": "t", "kind": "dream"})] {
        server.post("subscriptions", &wrong).await.problem(400, "wrong_request");
    }
    server.post("subscriptions/s/acknowledge", &json!({"up_to": "x"})).await.problem(422, "bad_cursor");
    let ahead = text(&told[0]["change"]["id"]).rsplitn(3, ':').nth(2).unwrap().to_owned() + ":999999:1";
    server.post("subscriptions/s/acknowledge", &json!({"changes": [ahead]})).await.problem(410, "cursor_ahead");
    for n in 0..99 {
        make(&server, "latest", &json!({"name": format!("n-{n}")})).await;
    }
    server.post("subscriptions", &json!({"name": "one more"})).await.problem(422, "too_many_subscriptions");
}

/// Protects owners: another's subscription is as one that does not exist.
#[tokio::test]
async fn a_subscription_is_its_owners() {
    let desk = Desk::new();
    let access = desk.path("access.toml");
    let mut tokens = Vec::new();
    let mut settings = String::new();
    for (name, rights) in
        [("one", "read,retract,write"), ("two", "read"), ("chief", "read,operate"), ("writer", "write")]
    {
        let made = desk.command(["token", name, "--space", &format!("default={rights}")]).output().unwrap();
        settings += &String::from_utf8(made.stdout).unwrap();
        let told = String::from_utf8(made.stderr).unwrap();
        tokens.push(told.split_whitespace().find(|word| word.starts_with("recant_")).unwrap().to_owned());
    }
    std::fs::write(&access, settings).unwrap();
    let server = Server::start_with(&desk, &["--access", access.to_str().unwrap()]);
    let ask = |token: usize, method: Method, path: &'static str, body: Value| {
        let request = server.request(method, "default", path).bearer_auth(&tokens[token]).json(&body);
        async move { Answer::of(request.send().await.unwrap()).await }
    };
    let made = ask(0, Method::POST, "subscriptions", json!({"name": "s"})).await;
    assert_eq!((made.status, &made.body["owner"]), (StatusCode::CREATED, &json!("one")));
    let theirs = ask(1, Method::GET, "subscriptions/s", Value::Null).await.problem(404, "not_found");
    let nothing = ask(1, Method::GET, "subscriptions/t", Value::Null).await.problem(404, "not_found");
    assert_eq!(theirs.to_string().replace("\\\"s\\\"", "?"), nothing.to_string().replace("\\\"t\\\"", "?"));
    ask(1, Method::POST, "subscriptions/s/pull", Value::Null).await.problem(404, "not_found");
    ask(1, Method::POST, "subscriptions/s/acknowledge", json!({"changes": []})).await.problem(404, "not_found");
    assert!(items(&ask(1, Method::GET, "subscriptions", Value::Null).await.ok()).is_empty());
    ask(3, Method::GET, "subscriptions", Value::Null).await.problem(403, "forbidden");
    assert_eq!(items(&ask(2, Method::GET, "subscriptions", Value::Null).await.ok()).len(), 1);
    ask(2, Method::GET, "subscriptions/s", Value::Null).await.ok();
}

/// Protects those on Kafka: what was acknowledged at one process counts at the one that has the partition next, and a process that has lost
/// it settles nothing more.
#[tokio::test]
async fn on_kafka_a_subscription_moves_with_its_partition() {
    let (desk, instance) = (Desk::new(), instance("subscriptions"));
    let address = Broker::shared().address();
    let serve = |name: &str| {
        let mut command = command(&desk, &address, &instance, &["--json", "serve", "--listen", "127.0.0.1:0"]);
        command.args(["--partitions", "1"]).env("RECANT_DATA", desk.path(name));
        Server::of(command)
    };
    let first = serve("one");
    until_served(&first).await;
    observations(&first, 3).await;
    make(&first, "earliest", &json!({"name": "s"})).await;
    retractions(&first, 0..3).await;
    let mut told = Vec::new();
    while told.len() < 3 {
        told.extend(pull(&first, "wait_ms=10000").await);
    }
    acknowledge(&first, &told[..2]).await;
    first.process.kill();

    let second = serve("two");
    until_served(&second).await;
    let again = pull(&second, "wait_ms=20000").await;
    assert_eq!(nodes(&again), ["o-2"], "what was not acknowledged, and nothing else");
    acknowledge(&second, &again).await;
    assert_eq!(second.end(), 0);
}

async fn until_served(server: &Server) {
    let begun = std::time::Instant::now();
    loop {
        let answer = server.get("subscriptions").await;
        if answer.status == StatusCode::OK {
            return;
        }
        assert!(begun.elapsed() < recant_tests::binary::PATIENCE, "{}", answer.body);
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

fn pushing(receiver: &Receiver, host: &str) -> Value {
    let push = json!({"url": receiver.url(host), "timeout_ms": 500, "backoff_ms": 10});
    json!({"name": "s", "attempts_max": 4, "push": push})
}

/// A server that may push to these, called without tokens.
fn pushing_to(desk: &Desk, hosts: &str, networks: &str) -> Server {
    let settings = desk.file("access.toml", format!("[webhooks]\nhosts = [{hosts}]\nnetworks = [{networks}]\n"));
    Server::start_with(desk, &["--access", &settings])
}

/// Protects receivers and what they are told: signed, in order, at least once, whatever they answer; a redirect is not followed; and what was
/// not taken when the server was killed comes again.
#[tokio::test]
async fn webhooks_come_in_order_whatever_the_receiver_does() {
    let desk = Desk::new();
    let receiver = Receiver::start().await;
    let server = pushing_to(&desk, "\"localhost\"", "\"127.0.0.0/8\", \"::1/128\"");
    observations(&server, 8).await;
    let made = make(&server, "latest", &pushing(&receiver, "localhost")).await;
    let secret = text(&made["secret"]).to_owned();
    assert!(secret.starts_with("whsec_"));
    assert!(server.get("subscriptions/s").await.ok().get("secret").is_none(), "it is shown once");
    receiver.expect_secret(&secret);
    receiver.then([Does::Fail(500), Does::Hang(std::time::Duration::from_secs(5)), Does::Redirect, Does::Take]);
    retractions(&server, 0..2).await;
    receiver.until("two are taken", |came| came.iter().filter(|came| came.done == Does::Take).count() == 2).await;
    let came = receiver.came();
    assert!(came.iter().all(|came| came.is_signed), "{came:?}");
    assert_eq!(receiver.taken(), ["o-0", "o-1"]);
    assert!(came[..4].iter().all(|attempt| attempt.id == came[0].id), "one after the other, under one id");
    assert_eq!(receiver.redirected(), 0);

    // Killed while the receiver holds one: it has not taken it.
    receiver.then([Does::Hang(std::time::Duration::from_millis(400))]);
    retractions(&server, 2..3).await;
    receiver.until("it holds one", |came| came.last().unwrap().done != Does::Take).await;
    server.process.kill();
    let server = pushing_to(&desk, "\"localhost\"", "\"127.0.0.0/8\", \"::1/128\"");
    receiver.until("it comes again", |came| came.last().unwrap().done == Does::Take && came.len() == 7).await;
    retractions(&server, 3..4).await;
    receiver.until("and what follows", |came| came.len() == 8).await;
    assert_eq!(receiver.taken(), ["o-0", "o-1", "o-2", "o-3"]);

    // Down for as long as it is tried: parked, and what follows goes on.
    receiver.then([Does::Fail(503); 4]);
    retractions(&server, 4..6).await;
    receiver.until("what follows", |came| came.last().unwrap().body["data"]["node"] == "o-5").await;
    let parked = server.get("subscriptions/s/parked").await.ok();
    assert_eq!(items(&parked)[0]["change"]["node"], "o-4");
    assert_eq!(items(&parked)[0]["reason"], "the receiver answered 503, at the last of 4 attempts");
    server.post("subscriptions/s/parked/retry", &json!({})).await.ok();
    receiver.until("it is retried", |came| came.last().unwrap().body["data"]["node"] == "o-4").await;
    assert_eq!(receiver.taken(), ["o-0", "o-1", "o-2", "o-3", "o-5", "o-4"]);
    server.post("subscriptions/s/pull", &Value::Null).await.problem(400, "wrong_request");
}

/// Protects what is behind the firewall: nothing is sent where nobody has listed it, also when a name that is listed leads there.
#[tokio::test]
async fn webhooks_go_only_where_they_may() {
    let desk = Desk::new();
    let receiver = Receiver::start().await;
    let server = pushing_to(&desk, "\"localhost\"", "");
    observations(&server, 1).await;
    for host in ["127.0.0.1", "example.com", "[::1]", "0x7f.1"] {
        server.post("subscriptions", &pushing(&receiver, host)).await.problem(422, "destination_refused");
    }
    // The name is listed, and where it leads is not.
    make(&server, "latest", &pushing(&receiver, "localhost")).await;
    retractions(&server, 0..1).await;
    let begun = std::time::Instant::now();
    let parked = loop {
        let parked = server.get("subscriptions/s/parked").await.ok();
        if !items(&parked).is_empty() {
            break parked;
        }
        assert!(begun.elapsed() < recant_tests::binary::PATIENCE);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert!(text(&items(&parked)[0]["reason"]).contains("localhost leads to"), "{parked}");
    assert!(receiver.came().is_empty(), "nobody was called");
}

/// Protects whoever takes a token away: what was opened with it ends, and says why; what was opened with another goes on.
#[tokio::test]
async fn what_lasts_ends_with_its_token() {
    let desk = Desk::new();
    let access = desk.path("access.toml");
    let token = |name: &str| {
        let made = desk.command(["token", name, "--space", "default=read,write,retract"]).output().unwrap();
        let told = String::from_utf8(made.stderr).unwrap();
        let token = told.split_whitespace().find(|word| word.starts_with("recant_")).unwrap().to_owned();
        (String::from_utf8(made.stdout).unwrap(), token)
    };
    let ((kept, staying), (lost, going)) = (token("staying"), token("going"));
    std::fs::write(&access, format!("{kept}{lost}")).unwrap();
    let server = Server::start_with(&desk, &["--access", access.to_str().unwrap()]);
    let follow = |token: &str| {
        let request = server.request(Method::GET, "default", "changes?heartbeat_ms=100").bearer_auth(token);
        let request = request.header("accept", "text/event-stream");
        async move { Follower::of(request.send().await.unwrap()) }
    };
    let (mut stays, mut goes) = (follow(&staying).await, follow(&going).await);
    goes.next_of("caught-up").await;
    let assistant = assistant(&server, &going).await;
    let waiting = server.request(Method::GET, "default", "changes?wait_ms=50000").bearer_auth(&going);
    let waiting = tokio::spawn(waiting.header("accept", "application/json").send());

    std::fs::write(&access, kept).unwrap();
    let last = goes.next_of("problem").await;
    assert_eq!(last.data["type"], "unauthenticated");
    assert!(goes.next().await.is_none(), "that was the last of it");
    Answer::of(waiting.await.unwrap().unwrap()).await.problem(401, "unauthenticated");
    let told = assistant.text().await.unwrap();
    assert!(told.contains("notifications/message") && told.contains("\"type\":\"unauthenticated\""), "{told}");
    stays.next_of("heartbeat").await;
    let again = server.request(Method::GET, "default", "changes").bearer_auth(&going).send().await.unwrap();
    Answer::of(again).await.problem(401, "unauthenticated");

    // And with its time: the same token, until a moment from now.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let (lasting, expiring) = token("expiring");
    let expires = recant_proto::time::format_log_ms((now as i64 + 8) * 1000);
    std::fs::write(&access, lasting.replacen("hash =", &format!("expires = \"{expires}\"\nhash ="), 1)).unwrap();
    let mut expires = loop {
        let request = server.request(Method::GET, "default", "changes?heartbeat_ms=100").bearer_auth(&expiring);
        let response = request.header("accept", "text/event-stream").send().await.unwrap();
        if response.status() == StatusCode::OK {
            break Follower::of(response);
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    assert_eq!(expires.next_of("problem").await.data["type"], "unauthenticated");
}

/// A session with an assistant, and the stream of what it is told.
async fn assistant(server: &Server, token: &str) -> reqwest::Response {
    let url = format!("{}/mcp", server.url);
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let ask = |request: reqwest::RequestBuilder| {
        request.bearer_auth(token).header("accept", "application/json, text/event-stream")
    };
    let begun = ask(client().post(&url).json(&initialize)).send().await.unwrap();
    let session = begun.headers()["mcp-session-id"].clone();
    begun.text().await.unwrap();
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    ask(client().post(&url).json(&initialized)).header("mcp-session-id", &session).send().await.unwrap();
    let stream = ask(client().get(&url)).header("mcp-session-id", &session).send().await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    stream
}
