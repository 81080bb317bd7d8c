//! The story over HTTP: previewed, committed, explained, lifted; of the past; and on Kafka by two who stand by for each other.

use std::time::Duration;

use recant_tests::{
    binary::{Desk, items, story, text, texts},
    kafka::{broker::Broker, instance, member::command},
    served::{Answer, Server, client},
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{portal, telling};

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
