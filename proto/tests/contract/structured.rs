//! CloudEvents in structured mode: the same event as in any other form, and refused where it says two things.

use recant_proto::{cloudevents, reject::Code, wire};
use serde_json::{Value, json};

fn decode(envelope: &Value) -> Result<wire::Decoded, Code> {
    let value = envelope.to_string();
    wire::decode(value.as_bytes(), Some("application/cloudevents+json; charset=UTF-8"))
        .map_err(|violation| violation.code)
}

fn event() -> Value {
    json!({ "id": "e-1", "space": "acme", "observed": { "node": "n-1", "source": "s-1" } })
}

fn envelope(data: (&str, Value)) -> Value {
    json!({ "specversion": "1.0", "id": "e-1", "source": "urn:agent", "type": "recant.v1.observed",
        "time": "2026-03-01T10:00:00Z", "partitionkey": "acme", data.0: data.1 })
}

/// However it comes, it is one event, and counts once.
#[test]
fn each_form_is_the_same_event() {
    let plain = wire::decode(event().to_string().as_bytes(), None).unwrap();
    let bytes = wire::to_protobuf(&plain.event);
    let mut nameless = event();
    nameless.as_object_mut().unwrap().remove("id");
    let mut of_protobuf = envelope(("data_base64", json!(base64(&bytes))));
    of_protobuf["datacontenttype"] = json!("application/protobuf");
    for form in [envelope(("data", event())), envelope(("data", nameless)), of_protobuf] {
        let decoded = decode(&form).unwrap();
        assert_eq!(decoded, plain, "{form}");
        assert_eq!(wire::fingerprint(&decoded, b""), wire::fingerprint(&plain, b""));
    }
}

#[test]
fn what_says_two_things_or_nothing_is_refused() {
    let right = envelope(("data", event()));
    let with = |name: &str, value: Value| {
        let mut changed = right.clone();
        changed[name] = value;
        decode(&changed).unwrap_err()
    };
    assert_eq!(with("id", json!("e-2")), Code::HeaderMismatch);
    assert_eq!(with("type", json!("recant.v1.derived")), Code::HeaderMismatch);
    assert_eq!(with("datacontenttype", json!("text/plain")), Code::ContentType);
    assert_eq!(with("data_base64", json!("AAEC")), Code::Undecodable);
    assert_eq!(with("specversion", json!("0.3")), Code::Undecodable);
    for name in ["specversion", "id", "source", "type", "data"] {
        assert_eq!(with(name, Value::Null), Code::Undecodable, "{name}");
    }
    assert_eq!(decode(&json!([])).unwrap_err(), Code::Undecodable);
    // A CloudEvent in a CloudEvent is none that ends.
    let mut nested = envelope(("data", right.clone()));
    nested["datacontenttype"] = json!(cloudevents::MEDIA_TYPE);
    assert_eq!(decode(&nested).unwrap_err(), Code::ContentType);
}

fn base64(bytes: &[u8]) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.encode(bytes)
}
