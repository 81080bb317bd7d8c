//! Other people's clients: they put a space where we look for it, what they write as CloudEvents is read as what we write is, and
//! whatever else they write is rejected or refused, and the partition goes on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use base64::{Engine, engine::general_purpose::STANDARD};
use recant_proto::{names, wire};
use recant_tests::{
    binary::{Desk, items, json_lines, number, run, text},
    kafka::{
        broker::Broker,
        check, instance, java, log,
        member::{Member, command},
        python,
    },
};
use serde_json::{Value, json};

const PARTITIONS: u32 = 5;

fn spaces() -> Vec<String> {
    let odd = ["", "a", "default", "acme", "tenant-42", "记忆", "é", "🦀", " ", "\u{1}"];
    odd.iter().map(|space| (*space).to_owned()).chain((0..200).map(|number| format!("space/{number}"))).collect()
}

/// Python with `partitioner=murmur2_random` and Java as it comes agree with us on every key.
#[test]
fn stock_clients_put_a_space_where_we_look_for_it() {
    let instance = instance("partitioner");
    let address = Broker::shared().address();
    log(&address, &instance, PARTITIONS);
    let topic = format!("{instance}.recant.changes");
    let records: Vec<Value> = spaces().iter().map(|space| json!({ "key": space, "value": "x" })).collect();
    for told in [
        python::run_with("produce", &[&address, &topic], &json_lines(&records)),
        java::run_with("Produce", &[&address, &topic], &spaces().join("\n")),
    ] {
        assert_eq!(told.len(), records.len());
        for told in told {
            let space = &spaces()[number(&told["line"]) as usize];
            // librdkafka's random partitioner, and Java's sticky one, take an empty key for none only where it is null.
            let expected = u64::from(names::partition_of(space.as_bytes(), PARTITIONS));
            assert_eq!(number(&told["partition"]), expected, "{space:?}: {told}");
        }
    }
}

/// Binary and structured, JSON and protobuf: all are events, and the same event in another form counts once.
#[test]
fn cloud_events_are_read_in_every_mode() {
    let (desk, instance) = (Desk::new(), instance("cloudevents"));
    let address = Broker::shared().address();
    let log = log(&address, &instance, PARTITIONS);
    let mut member = Member::start(&desk, &address, &instance, "data", &[]);
    member.wait_until_serving(PARTITIONS as usize);
    let mut given = Vec::new();
    for (number, (mode, form)) in
        [("binary", "event"), ("binary", "protobuf"), ("structured", "event"), ("structured", "protobuf")]
            .iter()
            .enumerate()
    {
        let id = format!("e{number}");
        let event = json!({ "id": id, "space": "acme", "observed": { "node": format!("n{number}"), "source": "s" } });
        let bytes = wire::to_protobuf(&wire::decode(event.to_string().as_bytes(), None).unwrap().event);
        let data = if *form == "event" { event } else { json!(STANDARD.encode(bytes)) };
        given.push(json!({ "mode": mode, *form: data, "id": id, "type": "recant.v1.observed", "space": "acme" }));
    }
    // The same event in structured mode, after it came in binary mode.
    let mut again = given[0].clone();
    again["mode"] = json!("structured");
    given.push(again);
    python::run_with("cloudevents_to_kafka", &[&address, &format!("{instance}.recant.events")], &json_lines(&given));
    check::wait_until_processed(&log);
    let mut list = command(&desk, &address, &instance, &["list", "--json", "--space", "acme"]);
    list.env("RECANT_DATA", &member.data);
    let page = run(list).exited(0).document();
    let nodes: Vec<&str> = items(&page).iter().map(|node| text(&node["id"])).collect();
    assert_eq!(nodes, ["n0", "n1", "n2", "n3"]);
    member.stop();
    check::holds(&check::what_a_stock_client_sees(&log));
    let rejected = python::run("consume", &[&address, &format!("{instance}.recant.rejected")]);
    assert_eq!(rejected, Vec::<Value>::new());
}

/// What is no event of ours, in every way: it stands in `recant.rejected` with its code, or the broker refuses it.
#[test]
fn what_is_no_event_is_rejected_and_the_partition_goes_on() {
    let (desk, instance) = (Desk::new(), instance("foreign"));
    let address = Broker::shared().address();
    let log = log(&address, &instance, PARTITIONS);
    let mut member = Member::start(&desk, &address, &instance, "data", &[]);
    member.wait_until_serving(PARTITIONS as usize);
    let partition = names::partition_of(b"acme", PARTITIONS);
    let event = |id: &str| json!({ "id": id, "space": "acme", "observed": { "node": id, "source": "s" } }).to_string();
    let padded = |bytes: usize| {
        let event = event("padded");
        format!("{event}{}", " ".repeat(bytes - event.len()))
    };
    let other_partition = (partition + 1) % PARTITIONS;
    let records = [
        (json!({ "value": event("keyless"), "partition": partition }), "header_mismatch"),
        (json!({ "key": "acme", "partition": partition }), "missing_body"),
        (json!({ "key": "acme", "value": event("text"), "headers": { "content-type": "text/plain" } }), "content_type"),
        (
            json!({ "key": "acme", "value": event("torn"), "headers": { "content-type": "application/protobuf" } }),
            "undecodable",
        ),
        (json!({ "key": "acme", "value": "\u{1}\u{2}\u{3}" }), "undecodable"),
        (json!({ "key": "acme", "value": event("x"), "headers": { "ce_id": "y" } }), "header_mismatch"),
        (
            json!({ "key": "acme", "value": event("x"), "headers": { "ce_type": "recant.v1.derived" } }),
            "header_mismatch",
        ),
        (json!({ "key": "acme", "value": event("astray"), "partition": other_partition }), "wrong_partition"),
        (json!({ "key": "other", "value": event("other"), "partition": partition }), "header_mismatch"),
        (json!({ "key": "acme", "value": padded((1 << 20) + 1) }), "event_too_large"),
        (json!({ "key": "acme", "value": padded(2_000_000) }), "event_too_large"),
        (json!({ "key": "acme", "value": event("right"), "headers": { "odd": "header", "": "nameless" } }), ""),
        (json!({ "key": "acme", "value_bytes": 2 << 20 }), "MSG_SIZE_TOO_LARGE"),
        (json!({ "key": "acme", "value": event("last") }), ""),
    ];
    let lines: Vec<Value> = records.iter().map(|(record, _)| record.clone()).collect();
    let topic = format!("{instance}.recant.events");
    let told = python::run_with("produce", &[&address, &topic], &json_lines(&lines));
    assert_eq!(told.len(), records.len());
    check::wait_until_processed(&log);
    member.listen();
    assert_eq!(member.count("halted") + member.count("interrupted"), 0, "{:?}", member.told);

    let rejected = python::run("consume", &[&address, &format!("{instance}.recant.rejected")]);
    for told in &told {
        let (record, expected) = &records[number(&told["line"]) as usize];
        if let Some(error) = told["error"].as_str() {
            assert_eq!(error, *expected, "{record}");
            continue;
        }
        let position = format!("{}:{}", told["partition"], told["offset"]);
        let found = rejected.iter().find(|rejection| rejection["headers"]["ce_id"] == *position);
        let code = found.map(|rejection| {
            let value = STANDARD.decode(text(&rejection["value"])).unwrap();
            <recant_proto::v1::Rejection as prost::Message>::decode(value.as_slice()).unwrap().code
        });
        assert_eq!(
            code.as_deref().unwrap_or_default(),
            *expected,
            "{}",
            &record.to_string()[..100.min(record.to_string().len())]
        );
    }
    let mut list = command(&desk, &address, &instance, &["list", "--json", "--space", "acme"]);
    list.env("RECANT_DATA", &member.data);
    let page = run(list).exited(0).document();
    let nodes: Vec<&str> = items(&page).iter().map(|node| text(&node["id"])).collect();
    assert_eq!(nodes, ["right", "last"]);
    member.stop();
    check::holds(&check::what_a_stock_client_sees(&log));
}
