//! Writes: one event once, in whichever form and however often it is sent, and there after a kill.

use recant_tests::{
    binary::{Desk, items, number, story, texts, wait_until},
    served::{Answer, Server, client},
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

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
