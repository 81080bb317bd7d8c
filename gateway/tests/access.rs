//! Isolation: every operation of `/openapi.json`, every tool and every kind of resource, asked for by everybody who may not. Not one byte of
//! another's data comes back, a space without a right looks like one that does not exist, and ids that exist elsewhere like ids that do not.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{collections::BTreeMap, path::PathBuf};

use recant_gateway::access::NewToken;
use serde_json::{Value, json};
use support::{Assistant, Served, serving};

/// Stands in every text, subject, name and reason of the space that others must not see, and in nothing that they send.
const SECRET: &str = "Zanzibar";

/// What exists, and what does not: of the same length, so that an answer may hold what was asked, and nothing else may differ.
const SPACES: [&str; 2] = ["acme", "none"];
const IDS: [&str; 2] = ["id-1", "id-9"];

struct Tokens {
    settings: PathBuf,
    _directory: tempfile::TempDir,
    of: BTreeMap<&'static str, String>,
}

/// Tokens for everybody, in a file.
fn tokens() -> Tokens {
    let all = r#"["read", "write", "retract", "operate"]"#;
    let callers = [
        ("owner", format!("acme = {all}")),
        ("other", format!("other = {all}")),
        ("writer", r#"acme = ["write"]"#.to_owned()),
        ("retractor", r#"acme = ["retract"]"#.to_owned()),
        ("reader", r#"acme = ["read"]"#.to_owned()),
        ("expired", format!("acme = {all}")),
    ];
    let (mut text, mut of) = (String::new(), BTreeMap::new());
    for (name, spaces) in callers {
        let new = NewToken::make().unwrap();
        let expires = if name == "expired" { "expires = \"2020-01-01T00:00:00Z\"\n" } else { "" };
        text += &format!("[[token]]\nname = \"{name}\"\nhash = \"{}\"\n{expires}spaces = {{ {spaces} }}\n", new.hash);
        of.insert(name, new.token);
    }
    of.insert("forged", NewToken::make().unwrap().token);
    let directory = tempfile::tempdir().unwrap();
    let settings = directory.path().join("access.toml");
    std::fs::write(&settings, text).unwrap();
    Tokens { settings, _directory: directory, of }
}

/// What came back, as far as it may depend on anything.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    status: u16,
    position: Option<String>,
    body: String,
}

struct Caller<'a> {
    served: &'a Served,
    client: reqwest::Client,
    token: Option<&'a str>,
}

impl Caller<'_> {
    async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Seen {
        let request = self.client.request(method.parse().unwrap(), self.served.url(path));
        let request = request.header("accept", "application/json");
        let request = self.token.iter().fold(request, |request, token| request.bearer_auth(token));
        let response = body.iter().fold(request, |request, body| request.json(body)).send().await.unwrap();
        let position = response.headers().get("recant-position").map(|at| at.to_str().unwrap().to_owned());
        Seen { status: response.status().as_u16(), position, body: response.text().await.unwrap() }
    }
}

fn caller<'a>(served: &'a Served, token: Option<&'a str>) -> Caller<'a> {
    recant_gateway::access::install_provider();
    Caller { served, client: reqwest::Client::new(), token }
}

/// An operation, with a body where it takes one.
fn operations(document: &Value) -> Vec<(String, String, Option<Value>)> {
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let mut path = path.clone();
            let takes = |name: &str| {
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                parameters.clone().any(|parameter| parameter["name"] == name && parameter["in"] == "query")
            };
            let query = [("id", "id=ID"), ("wait_ms", "wait_ms=0"), ("from", "from=earliest")];
            let query: Vec<&str> = query.into_iter().filter(|(name, _)| takes(name)).map(|(_, text)| text).collect();
            if !query.is_empty() {
                path += &format!("?{}", query.join("&"));
            }
            let body = (method == "post").then(|| match operation["operationId"].as_str().unwrap() {
                "publish_events" => json!({ "id": "e-x", "observed": { "node": "n-x", "source": "s-x" } }),
                "retract" => json!({ "id": "r-x", "targets": [{ "source": "SOURCE" }], "reason": "r" }),
                "make_subscription" => json!({ "name": "s-x" }),
                "acknowledge_changes" | "retry_parked_changes" => json!({ "changes": [] }),
                "park_changes" => json!({ "changes": [], "reason": "r" }),
                _ => json!({ "id": "i-x", "reason": "r" }),
            });
            operations.push((method.to_uppercase(), path, body));
        }
    }
    operations
}

/// Asked in a space and of an id; what was asked is the same in every answer.
async fn asked(caller: &Caller<'_>, operation: &(String, String, Option<Value>), space: &str, id: &str) -> Seen {
    let (method, path, body) = operation;
    let path = path.replace("{space}", space).replace("{id}", id).replace("ID", id);
    let seen = caller.send(method, &path, body.as_ref()).await;
    Seen { body: seen.body.replace(space, "SPACE").replace(id, "ID"), ..seen }
}

/// Fills a space with what must not be seen.
async fn fill(owner: &Caller<'_>) {
    let secret = |what: &str| format!("{SECRET} {what}");
    let observed = json!({ "node": IDS[0], "source": secret("source"), "subject": secret("subject"),
        "content": { "text": secret("text") }, "attributes": { "a": secret("attribute") } });
    let events = [
        json!({ "id": IDS[0], "agent": secret("agent"), "run": secret("run"), "observed": observed }),
        json!({ "id": "e-2", "derived": { "node": secret("belief"), "kind": "belief", "content": { "text": secret("text") },
            "justification": { "premises": [IDS[0]] } } }),
        json!({ "id": "e-3", "action_proposed": { "action": secret("action"), "type": secret("type"), "justification": { "premises": [IDS[0]] } } }),
        json!({ "id": "e-4", "retracted": { "retraction": IDS[0], "targets": [{ "source": secret("source") }], "reason": secret("reason") } }),
        // Rejected, with its bytes kept.
        json!({ "id": "e-5", "observed": { "node": IDS[0], "source": secret("other") } }),
    ];
    let answered = owner.send("POST", "/v1/spaces/acme/events", Some(&Value::Array(events.into()))).await;
    let fates: Value = serde_json::from_str(&answered.body).unwrap();
    assert_eq!((&fates["accepted"], &fates["rejected"]), (&json!(4), &json!(1)), "{fates}");
}

#[test]
fn no_operation_gives_away_anything() {
    let tokens = tokens();
    serving(Some(&tokens.settings), async |served| {
        let with = |name: &str| tokens.of.get(name).map(String::as_str);
        let owner = caller(&served, with("owner"));
        fill(&owner).await;
        let document: Value =
            serde_json::from_str(&caller(&served, None).send("GET", "/openapi.json", None).await.body).unwrap();
        let operations = operations(&document);
        assert!(operations.len() >= 25, "{}", operations.len());

        // The owner does see it, so that the absence of it elsewhere says something.
        let mut shown = 0;
        for operation in operations.iter().filter(|(method, ..)| method == "GET") {
            shown += usize::from(asked(&owner, operation, SPACES[0], IDS[0]).await.body.contains(SECRET));
        }
        assert!(shown >= 8, "{shown} operations show it to its owner");
        let digest = owner.send("GET", "/v1/spaces/acme/digest", None).await;

        let mut cells = 0;
        for operation in &operations {
            let (method, path, _) = operation;
            let is_open = ["/healthz", "/readyz"].contains(&path.as_str());
            for name in ["nobody", "expired", "forged", "other", "writer", "retractor"] {
                let caller = caller(&served, with(name));
                let cell = format!("{method} {path} by {name}");
                let there = asked(&caller, operation, SPACES[0], IDS[0]).await;
                assert!(!there.body.contains(SECRET), "{cell}: {there:?}");
                cells += 1;
                match name {
                    _ if is_open => assert_eq!(there.status, 200, "{cell}: {there:?}"),
                    "nobody" | "expired" | "forged" => {
                        assert_eq!(there.status, 401, "{cell}");
                        let missing = asked(&caller, operation, SPACES[1], IDS[1]).await;
                        assert_eq!(there, missing, "{cell}");
                    }
                    "other" => {
                        // Not its space, and not one that exists: no difference. Its own space, and an id that exists elsewhere: none either.
                        let absent = asked(&caller, operation, SPACES[1], IDS[1]).await;
                        assert_eq!(there, absent, "{cell}");
                        if method == "GET" {
                            let (own, own_absent) = (
                                asked(&caller, operation, "other", IDS[0]).await,
                                asked(&caller, operation, "other", IDS[1]).await,
                            );
                            assert_eq!(own, own_absent, "{cell}, in its own space");
                        } else {
                            assert!([403, 404].contains(&there.status), "{cell}: {there:?}");
                        }
                    }
                    // They may do one thing, and read nothing.
                    _ => {}
                }
            }
        }
        assert_eq!(cells, operations.len() * 6);
        // The writer and the retractor did what they may; nobody else changed anything.
        let after = owner.send("GET", "/v1/spaces/acme/events/e-x", None).await;
        assert_eq!(after.status, 200);
        assert_ne!(owner.send("GET", "/v1/spaces/acme/digest", None).await, digest);
        let retractions = owner.send("GET", "/v1/spaces/acme/retractions", None).await.body;
        assert!(retractions.contains("\"by\":\"retractor\""), "who did it stands there: {retractions}");
        assert!(!retractions.contains("\"by\":\"other\""), "{retractions}");
    });
}

/// Arguments that a tool takes, as its schema has it.
fn arguments(tool: &Value, space: &str, id: &str) -> Value {
    let schema = &tool["inputSchema"];
    let mut arguments = json!({ "space": space });
    for name in schema["required"].as_array().into_iter().flatten() {
        arguments[name.as_str().unwrap()] = json!(if name == "when" { "2100-01-01T00:00:00Z" } else { id });
    }
    if schema["properties"].get("sources").is_some() {
        arguments["sources"] = json!([id]);
    }
    if schema["properties"].get("premises").is_some() {
        arguments["premises"] = json!([id]);
    }
    arguments
}

#[test]
fn no_tool_and_no_resource_gives_away_anything() {
    let tokens = tokens();
    serving(Some(&tokens.settings), async |served| {
        let with = |name: &str| tokens.of.get(name).map(String::as_str);
        fill(&caller(&served, with("owner"))).await;
        for name in ["nobody", "expired", "forged"] {
            let sent = Assistant::new(&served, with(name)).initialize().await;
            assert_eq!((sent.status, sent.session), (401, None), "{name}");
        }
        let mut owner = Assistant::begin(&served, with("owner")).await;
        let listed = owner.result("tools/list", json!({})).await;
        let tools = listed["tools"].as_array().unwrap();
        let mut shown = 0;
        for tool in tools.iter().filter(|tool| tool["annotations"]["readOnlyHint"] == true) {
            let name = tool["name"].as_str().unwrap();
            let call = json!({ "name": name, "arguments": arguments(tool, SPACES[0], IDS[0]) });
            shown += usize::from(owner.result("tools/call", call).await.to_string().contains(SECRET));
        }
        assert!(shown >= 4, "{shown} tools show it to its owner");

        // A preview has an id of its own, as a retraction would.
        let previews = ["preview_retraction", "rests_on_source"];
        for caller in ["other", "writer", "retractor"] {
            let mut assistant = Assistant::begin(&served, with(caller)).await;
            for tool in tools {
                let name = tool["name"].as_str().unwrap();
                let mut answers = Vec::new();
                for (space, id) in [(SPACES[0], IDS[0]), (SPACES[1], IDS[1]), ("other", IDS[0]), ("other", IDS[1])] {
                    let call = json!({ "name": name, "arguments": arguments(tool, space, id) });
                    let answer = assistant.result("tools/call", call).await;
                    assert!(!answer.to_string().contains(SECRET), "{name} by {caller}: {answer}");
                    answers.push((
                        answer["isError"].clone(),
                        answer.to_string().replace(space, "SPACE").replace(id, "ID"),
                    ));
                }
                if caller == "other" {
                    assert_eq!(
                        answers[0], answers[1],
                        "{name}: a space that is not its own, and one that does not exist"
                    );
                    assert_eq!(answers[0].0, json!(true), "{name}");
                    // What is written has ids and positions of its own.
                    if tool["annotations"]["readOnlyHint"] == true && !previews.contains(&name) {
                        assert_eq!(
                            answers[2], answers[3],
                            "{name}: an id that exists elsewhere, and one that does not"
                        );
                    }
                }
            }
            for kind in ["nodes", "sources", "retractions"] {
                for method in ["resources/read", "resources/subscribe"] {
                    let uri = |space: &str, id: &str| json!({ "uri": format!("recant://{space}/{kind}/{id}") });
                    let there = assistant.request(method, uri(SPACES[0], IDS[0])).await.messages[0]["error"].clone();
                    let absent = assistant.request(method, uri(SPACES[1], IDS[1])).await.messages[0]["error"].clone();
                    assert_eq!(there, absent, "{method} {kind} by {caller}");
                    assert_eq!(there["code"], -32002, "{there}");
                }
            }
            let listed = assistant.result("resources/list", json!({})).await;
            assert_eq!(listed["resources"], json!([]), "{caller}");
        }
    });
}

#[test]
fn a_session_is_of_no_use_to_anybody_else() {
    let tokens = tokens();
    serving(Some(&tokens.settings), async |served| {
        let with = |name: &str| tokens.of.get(name).map(String::as_str);
        let owner = Assistant::begin(&served, with("owner")).await;
        for name in ["other", "reader"] {
            let mut thief = Assistant::new(&served, with(name));
            thief.session.clone_from(&owner.session);
            assert_eq!(thief.listen().await.status(), 404, "{name}");
            assert_eq!(thief.request("tools/list", json!({})).await.status, 404, "{name}");
        }
        assert_eq!(owner.listen().await.status(), 200);
    });
}

#[test]
fn a_quota_is_a_spaces_and_says_when_to_come_again() {
    let directory = tempfile::tempdir().unwrap();
    let settings = directory.path().join("access.toml");
    std::fs::write(&settings, "[quota]\nstreams = 1\n[quota.spaces.small]\nevents_per_s = 1\n").unwrap();
    serving(Some(&settings), async |served| {
        let anyone = caller(&served, None);
        let batch: Vec<Value> =
            (0..50).map(|number| json!({ "id": format!("e{number}"), "observed": { "node": format!("n{number}"), "source": "s" } })).collect();
        let batch = Value::Array(batch);
        assert_eq!(anyone.send("POST", "/v1/spaces/small/events", Some(&batch)).await.status, 200);
        let again = anyone.client.post(served.url("/v1/spaces/small/events")).json(&batch).send().await.unwrap();
        assert_eq!(again.status(), 429);
        let retry_after: u64 = again.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((30..=50).contains(&retry_after), "{retry_after}");
        assert_eq!(anyone.send("POST", "/v1/spaces/large/events", Some(&batch)).await.status, 200);

        let follow =
            || anyone.client.get(served.url("/v1/spaces/large/changes")).header("accept", "text/event-stream").send();
        let first = follow().await.unwrap();
        assert_eq!(first.status(), 200);
        assert_eq!(follow().await.unwrap().status(), 429);
    });
}

#[test]
fn a_callers_trace_reaches_the_changes_that_it_causes() {
    use recant_eventlog::{ReadLimit, Topic};
    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    serving(None, async |served| {
        let client = caller(&served, None).client;
        let post =
            |path: &str, body: Value| client.post(served.url(path)).header("traceparent", TRACE).json(&body).send();
        let observed = json!({ "id": "e", "observed": { "node": "n", "source": "s" } });
        assert_eq!(post("/v1/spaces/acme/events", observed).await.unwrap().status(), 200);
        let retracted = json!({ "targets": [{ "source": "s" }], "reason": "r" });
        assert_eq!(post("/v1/spaces/acme/retractions", retracted).await.unwrap().status(), 200);
        let (log, partition) = (served.host.log(), served.host.partition_of("acme"));
        let limit = ReadLimit { records_max: 100, bytes_max: 1 << 20 };
        let traced = |topic, from| -> Vec<bool> {
            let records = log.read(topic, partition, from, limit).unwrap();
            let is_traced = |(name, value): &(String, Vec<u8>)| name == "traceparent" && value == TRACE.as_bytes();
            records.iter().map(|record| record.headers.iter().any(is_traced)).collect()
        };
        // The first record of the partition is the log's own.
        assert_eq!(traced(Topic::Events, 1), [true, true]);
        assert_eq!(traced(Topic::Changes, 0), [true, true], "the summary and the change");
    });
}
