//! Several processes share a log on a real broker, and none has all states: whoever is asked answers, with the caller's rights, and never
//! with less than was asked for, while processes die, come, and stand still. `RECANT_ROUTING_OPERATIONS` makes the longest one longer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it did"
)]

use std::{collections::BTreeSet, time::Duration};

use recant_proto::{names, position::Position};
use recant_tests::{
    binary::{Desk, PATIENCE, items, story, text, texts, wait_until},
    kafka::{broker::Broker, instance, log, member::Member, questions::Asking},
    served::{Answer, Caller, client},
};
use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A process that serves, and its address.
struct Gateway {
    member: Member,
    caller: Caller,
}

impl Gateway {
    fn start(desk: &Desk, instance: &str, name: &str, arguments: &[&str]) -> Gateway {
        let address = Broker::shared().address();
        let all = [&["--listen", "127.0.0.1:0"], arguments].concat();
        let mut member = Member::start(desk, &address, instance, name, &all);
        member.wait_until("it listens", |member| member.count("listening") == 1);
        let listening = member.told.iter().find(|told| told["told"] == "listening").unwrap();
        let caller = Caller::of(text(&listening["url"]));
        Gateway { member, caller }
    }
}

/// Waits until each serves its share.
fn wait_until_shared(gateways: &mut [Gateway], partitions: usize) {
    let share = partitions / gateways.len();
    for gateway in gateways {
        gateway.member.wait_until("it serves its share", |member| member.serves.len() == share);
    }
}

/// A space for each partition.
fn spaces(partitions: u32) -> Vec<String> {
    let name = |partition| {
        let mut names = (0..).map(|number| format!("space-{number}"));
        names.find(|name| names::partition_of(name.as_bytes(), partitions) == partition).unwrap()
    };
    (0..partitions).map(name).collect()
}

async fn ask(gateway: &Gateway, space: &str, path: &str) -> Answer {
    Answer::of(gateway.caller.request(Method::GET, space, path).send().await.unwrap()).await
}

async fn say(gateway: &Gateway, space: &str, path: &str, body: &Value) -> Answer {
    Answer::of(gateway.caller.request(Method::POST, space, path).json(body).send().await.unwrap()).await
}

fn portal(id: &str) -> Value {
    json!({"id": id, "targets": [{"source": "web:portal"}], "by": "kim"})
}

/// Of every space each process says the same, and does the same, whoever has its state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_process_answers_for_any_space() {
    const PARTITIONS: u32 = 4;
    let (desk, instance) = (Desk::new(), instance("routing"));
    log(&Broker::shared().address(), &instance, PARTITIONS);
    let mut gateways = ["one", "other"].map(|name| Gateway::start(&desk, &instance, name, &[]));
    wait_until_shared(&mut gateways, PARTITIONS as usize);
    for (number, space) in spaces(PARTITIONS).iter().enumerate() {
        let [here, there] = [&gateways[number % 2], &gateways[(number + 1) % 2]];
        let mut last = Value::Null;
        for event in story::events() {
            last = say(here, space, "events", &event).await.ok();
        }
        let written = format!("at_least={}", text(&last["position"]));
        let preview = say(there, space, &format!("retractions?preview=true&{written}"), &portal("r-1")).await.ok();
        // The same retraction through the other door: a process without the state carries it out, too.
        let committed = say(here, space, "retractions", &portal("r-1")).await.ok();
        assert_eq!(texts(committed["changes"].as_array().unwrap(), "node"), story::FALLEN);
        for member in ["changed", "sources", "by_kind", "actions"] {
            assert_eq!(committed[member], preview[member], "{member} is as the preview said");
        }
        for path in [
            "nodes?limit=3",
            "nodes/a-pay",
            "nodes?id=a-pay",
            "nodes/a-pay/explain",
            "explain?id=a-pay",
            "nodes?status=out&text=account",
            "actions",
            "sources",
            "retractions",
            "rejected",
            "digest",
            "events/e-portal",
            "nodes/never",
        ] {
            let sign = if path.contains('?') { '&' } else { '?' };
            let path = format!("{path}{sign}at_least={}", text(&committed["position"]));
            let [one, other] = [ask(&gateways[0], space, &path).await, ask(&gateways[1], space, &path).await];
            assert_eq!(one.body, other.body, "{path}");
            assert_eq!((one.status, &one.position), (other.status, &other.position), "{path}");
        }
        let lifted = say(there, space, "retractions/r-1/reinstatement", &json!({"by": "kim"})).await.ok();
        assert_eq!(lifted["changed"], committed["changed"]);
        let polled =
            there.caller.request(Method::GET, space, "changes?from=earliest").header("accept", "application/json");
        assert_eq!(
            items(&Answer::of(polled.send().await.unwrap()).await.ok()).len(),
            12,
            "two cascades of five changes"
        );
        // What cannot be read is told by whoever would answer.
        for gateway in &gateways {
            ask(gateway, space, "nodes?limit=0").await.problem(400, "wrong_request");
            ask(gateway, space, &format!("nodes?at_least={}:7", PARTITIONS)).await.problem(422, "bad_moment");
        }
    }
    // What was passed on once is not passed on again: of two processes one does not have it.
    let space = &spaces(PARTITIONS)[0];
    let mut told = BTreeSet::new();
    for gateway in &gateways {
        let asked = gateway.caller.request(Method::GET, space, "digest?wait_ms=100").header("recant-forwarded", "1");
        let response = asked.send().await.unwrap();
        let comes_back = response.headers().contains_key("retry-after");
        let answer = Answer::of(response).await;
        if answer.status == StatusCode::SERVICE_UNAVAILABLE {
            assert!(comes_back, "it says when to come back");
            answer.problem(503, "elsewhere");
            told.insert("elsewhere");
        } else {
            answer.ok();
            told.insert("here");
        }
    }
    assert_eq!(told, BTreeSet::from(["elsewhere", "here"]));
    gateways.into_iter().for_each(|gateway| drop(gateway.member.stop()));
}

/// A token counts at whichever door it comes in, and opens no more there: what it does not open looks as if it were not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_opens_the_same_at_every_door() {
    const PARTITIONS: u32 = 4;
    let (desk, instance) = (Desk::new(), instance("routing-tokens"));
    log(&Broker::shared().address(), &instance, PARTITIONS);
    let spaces = spaces(PARTITIONS);
    let [planner, operator] = [vec!["planner".to_owned(), "--space".to_owned(), format!("{}=read", spaces[0])], {
        ["operator", "--space", "*=read,write,retract"].map(str::to_owned).to_vec()
    }]
    .map(|arguments| {
        let made = desk.json([&["token".to_owned(), "--json".to_owned()], &*arguments].concat());
        (text(&made["token"]).to_owned(), made["settings"].clone())
    });
    let settings = json!({"token": [planner.1, operator.1]});
    let file = desk.file("access.toml", toml::to_string(&settings).unwrap());
    let mut gateways = ["one", "other"].map(|name| Gateway::start(&desk, &instance, name, &["--access", &file]));
    wait_until_shared(&mut gateways, PARTITIONS as usize);
    let asked =
        async |gateway: &Gateway, method: Method, space: &str, path: &str, token: Option<&str>, body: Option<Value>| {
            let mut request = gateway.caller.request(method, space, path);
            request = token.iter().fold(request, |request, token| request.bearer_auth(token));
            request = body.iter().fold(request, |request, body| request.json(body));
            Answer::of(request.send().await.unwrap()).await
        };
    for space in &spaces {
        let events = Value::Array(story::events());
        asked(&gateways[0], Method::POST, space, "events", Some(&operator.0), Some(events)).await.ok();
    }
    for (number, space) in spaces.iter().enumerate() {
        for gateway in &gateways {
            let of =
                async |token: Option<&str>, path: &str| asked(gateway, Method::GET, space, path, token, None).await;
            assert_eq!(of(Some(&operator.0), "nodes/a-pay?fresh=true").await.ok()["status"], "IN");
            of(None, "nodes/a-pay").await.problem(401, "unauthenticated");
            of(Some("recant_no"), "nodes/a-pay").await.problem(401, "unauthenticated");
            let planner_reads = of(Some(&planner.0), "nodes/a-pay?fresh=true").await;
            if number == 0 {
                planner_reads.ok();
            } else {
                planner_reads.problem(404, "not_found");
                let never = asked(gateway, Method::GET, "no such space", "nodes", Some(&planner.0), None).await;
                let hidden = of(Some(&planner.0), "nodes").await;
                assert_eq!((hidden.body, hidden.position), (never.body, never.position), "as if it were not there");
            }
            let body = Some(portal("r-1"));
            let refused = asked(gateway, Method::POST, space, "retractions", Some(&planner.0), body).await;
            if number == 0 {
                refused.problem(403, "forbidden")
            } else {
                refused.problem(404, "not_found")
            };
        }
    }
    gateways.into_iter().for_each(|gateway| drop(gateway.member.stop()));
}

/// Three processes under load; one is killed, one is added. Whoever is asked answers for every space, and no answer is older than it may
/// be, nor other than the oracle's of its position.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_is_stale_while_processes_die_and_come() {
    const PARTITIONS: u32 = 6;
    let operations: usize =
        std::env::var("RECANT_ROUTING_OPERATIONS").ok().and_then(|number| number.parse().ok()).unwrap_or(600);
    let (desk, instance) = (Desk::new(), instance("routing-moves"));
    let log = log(&Broker::shared().address(), &instance, PARTITIONS);
    let mut gateways: Vec<Gateway> =
        ["one", "two", "three"].map(|name| Gateway::start(&desk, &instance, name, &[])).into();
    wait_until_shared(&mut gateways, PARTITIONS as usize);
    let callers = |gateways: &[Gateway]| gateways.iter().map(|gateway| gateway.caller.clone()).collect();
    let asking = Asking::of(callers(&gateways));
    let writers = (0..6).map(|number| tokio::spawn(asking.clone().write(number, operations)));
    let readers = (6..9).map(|number| tokio::spawn(asking.clone().read_all(number, operations)));
    let at_work: Vec<_> = writers.chain(readers).collect();
    let until = async |share: usize| {
        while asking.done() < operations * share / 3 && !at_work.iter().any(|task| task.is_finished()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    until(1).await;
    // Those who ask find out by themselves.
    gateways.remove(0).member.kill();
    asking.ask(callers(&gateways));
    until(2).await;
    gateways.push(Gateway::start(&desk, &instance, "four", &[]));
    asking.ask(callers(&gateways));
    for task in at_work {
        task.await.unwrap();
    }
    wait_until_shared(&mut gateways, PARTITIONS as usize);
    // Each of the three that are left answers for every space.
    for gateway in &gateways {
        for space in asking.spaces() {
            let page = ask(gateway, &space, "nodes?limit=1000&fresh=true").await.ok();
            assert!(!items(&page).is_empty());
        }
    }
    let (figures, told) = asking.check(&log);
    println!(
        "RESULT routing writes={} reads={} fresh={} at_least={} asked_again={} stale={} wrong={} longest_ms={}",
        figures.writes,
        figures.reads,
        figures.fresh,
        figures.at_least,
        figures.asked_again,
        figures.stale,
        figures.wrong,
        figures.longest_ms
    );
    assert_eq!((figures.stale, figures.wrong), (0, 0), "{:#?}", &told[..told.len().min(3)]);
    assert!(figures.fresh > 30 && figures.at_least > 30, "{figures:?}");
    gateways.into_iter().for_each(|gateway| drop(gateway.member.stop()));
}

/// A process that stood still until others had its partitions answers no question with less than was written before it was asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_deposed_owner_answers_no_fenced_read() {
    const QUESTIONS: usize = 20;
    let (desk, instance) = (Desk::new(), instance("routing-zombie"));
    log(&Broker::shared().address(), &instance, 1);
    let mut zombie = Gateway::start(&desk, &instance, "zombie", &[]);
    zombie.member.wait_until_serving(1);
    say(&zombie, "s", "events", &story::observed("o-before", "web:a", "text")).await.ok();
    zombie.member.signal(Signal::STOP);
    let mut heir = Gateway::start(&desk, &instance, "heir", &[]);
    heir.member.wait_until_serving(1);
    let after = say(&heir, "s", "events", &story::observed("o-after", "web:a", "text")).await.ok();
    let after: Position = text(&after["position"]).parse().unwrap();
    // They reach the process while it stands still: whatever it does first when it goes on, it knows of no heir.
    let questions: Vec<_> = (0..QUESTIONS)
        .map(|number| {
            let demand = if number % 2 == 0 { "fresh=true".to_owned() } else { format!("at_least={after}") };
            let caller = Caller::of(&zombie.caller.url);
            tokio::spawn(async move { caller.request(Method::GET, "s", &format!("nodes?{demand}")).send().await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    zombie.member.signal(Signal::CONT);
    let mut answered = 0;
    for question in questions {
        let answer = Answer::of(question.await.unwrap().unwrap()).await;
        if answer.status == StatusCode::SERVICE_UNAVAILABLE {
            assert!(["elsewhere", "not_reached"].contains(&text(&answer.body["type"])), "{}", answer.body);
            continue;
        }
        let position: Position = answer.position.clone().unwrap().parse().unwrap();
        assert!(position >= after, "{position} was answered, and {after} was written before: {}", answer.body);
        assert_eq!(texts(items(&answer.ok()), "id"), ["o-before", "o-after"]);
        answered += 1;
    }
    println!("{answered} of {QUESTIONS} answered, none with less than {after}");
    // Once it knows, it asks the heir.
    wait_until("the deposed owner asks the heir", || {
        zombie.member.listen();
        (zombie.member.count("lost") + zombie.member.count("interrupted") > 0).then_some(())
    });
    let begun = std::time::Instant::now();
    loop {
        let answer = ask(&zombie, "s", "nodes?fresh=true").await;
        if answer.status != StatusCode::SERVICE_UNAVAILABLE {
            assert_eq!(texts(items(&answer.ok()), "id"), ["o-before", "o-after"]);
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "nobody answers");
    }
    zombie.member.stop();
    heir.member.stop();
}

/// A session of an assistant with one process.
struct Assistant {
    url: String,
    client: reqwest::Client,
    session: Option<String>,
}

impl Assistant {
    async fn begin(gateway: &Gateway) -> Assistant {
        let url = format!("{}/mcp", gateway.caller.url);
        let mut assistant = Assistant { url, client: client(), session: None };
        let client_info = json!({"name": "coder", "version": "1"});
        let begin = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client_info});
        let begun = assistant.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begin})).await;
        assistant.session = Some(begun.headers()["mcp-session-id"].to_str().unwrap().to_owned());
        assistant.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        assistant
    }

    async fn send(&self, message: &Value) -> reqwest::Response {
        let mut request = self.client.post(&self.url).header("accept", "application/json, text/event-stream");
        request = self.session.iter().fold(request, |request, session| request.header("mcp-session-id", session));
        let response = request.timeout(PATIENCE).json(message).send().await.unwrap();
        assert!(response.status().is_success(), "{response:?}");
        response
    }

    /// What a request is answered with.
    async fn ask(&self, method: &str, params: Value) -> Value {
        let response = self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).await;
        let told = response.text().await.unwrap();
        let data = told.lines().filter_map(|line| line.strip_prefix("data:")).chain([told.as_str()]);
        let mut messages = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        messages.find(|message| message["id"] == 1).unwrap()["result"].clone()
    }

    /// What a tool answers, which must be no refusal.
    async fn call(&self, tool: &str, arguments: Value) -> Value {
        let result = self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].clone()
    }
}

/// One session, every space: calls are carried out where the state is, and what was shown there is a premise all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assistant_is_answered_of_any_space_and_keeps_its_premises() {
    const PARTITIONS: u32 = 4;
    let (desk, instance) = (Desk::new(), instance("routing-mcp"));
    log(&Broker::shared().address(), &instance, PARTITIONS);
    let mut gateways = ["one", "other"].map(|name| Gateway::start(&desk, &instance, name, &[]));
    wait_until_shared(&mut gateways, PARTITIONS as usize);
    let assistant = Assistant::begin(&gateways[0]).await;
    for space in &spaces(PARTITIONS) {
        let said = json!({"space": space, "node": "o-1", "source": "web:portal", "text": "Our account is DE02."});
        assert_eq!(assistant.call("remember", said).await["status"], "IN");
        let first = json!({"space": space, "node": "b-1", "text": "Pay to DE02."});
        let first = assistant.call("derive", first).await;
        assert_eq!(first["premises"], json!([{"id": "o-1", "because": "shown"}]));
        let other = story::observed("o-2", "file:contract", "The contract names account DE01.");
        say(&gateways[1], space, "events", &other).await.ok();
        let found = assistant.call("recall", json!({"space": space, "text": "contract"})).await;
        assert_eq!(texts(found["items"].as_array().unwrap(), "id"), ["o-2"]);
        let second = json!({"space": space, "node": "b-2", "text": "Ask which account."});
        let second = assistant.call("derive", second).await;
        let shown = second["premises"].as_array().unwrap();
        assert_eq!(texts(shown, "id"), ["o-1", "o-2"], "in this space, and none of another's");
        let taken_back = json!({"space": space, "sources": ["web:portal"], "reason": "taken over", "by": "kim"});
        let preview = json!({"space": space, "sources": ["web:portal"]});
        let [preview, decided] =
            [assistant.call("preview_retraction", preview).await, assistant.call("retract", taken_back).await];
        assert_eq!((&preview["changed"], &decided["changed"]), (&json!(3), &json!(3)));
        let why = assistant.call("explain", json!({"space": space, "id": "b-2"})).await;
        assert_eq!(why["nodes"][0]["status"], "OUT", "{why}");
        let resource = assistant.ask("resources/read", json!({"uri": format!("recant://{space}/nodes/b-1")})).await;
        assert!(text(&resource["contents"][0]["text"]).contains("\"OUT\""), "{resource}");
        // Written by this assistant, in this session's run, whoever carried it out.
        let nodes = ask(&gateways[1], space, "nodes?agent=coder&fresh=true").await.ok();
        let runs: BTreeSet<&str> = texts(items(&nodes), "run").into_iter().collect();
        assert_eq!((items(&nodes).len(), runs.len()), (3, 1), "{nodes}");
    }
    gateways.into_iter().for_each(|gateway| drop(gateway.member.stop()));
}
