//! A small story for tests: a supplier's portal and a signed contract; an address that stands on both, an account that
//! stands on the portal alone; a plan, and three deeds.
//!
//! Retracting `web:portal` takes `o-portal`, `b-account`, `p-pay`, `a-pay` and `a-paid`. `b-address` and `a-mail` stay.

use serde_json::{Value, json};

/// What falls when the portal is retracted, in the order of the cascade.
pub const FALLEN: [&str; 5] = ["o-portal", "b-account", "p-pay", "a-pay", "a-paid"];

/// The events.
pub fn events() -> Vec<Value> {
    let accounts = json!({"agent": "accounts", "run": "run-7"});
    let messenger = json!({"agent": "messenger", "run": "run-8"});
    vec![
        json!({"id": "e-source", "source_declared": {
            "source": "web:portal", "kind": "web", "name": "Supplier's portal", "attributes": {"country": "DE"}}}),
        json!({"id": "e-portal", "agent": "accounts", "run": "run-7", "step": "1", "occurred_at": "2026-03-02T09:14:31.250+01:00",
            "observed": {"node": "o-portal", "source": "web:portal", "subject": "supplier", "observed_at": "2026-03-02T09:14:30+01:00",
                "content": {"text": "Our new account is DE02."}, "attributes": {"page": "/bank"}}}),
        observed("o-contract", "file:contract", "The address is 1 Main Street."),
        by(&accounts, derived("b-address", "belief", &["o-portal"])),
        json!({"id": "e-address-contract", "agent": "accounts", "run": "run-7",
            "justified": {"node": "b-address", "justification": {"id": "j-address-contract", "premises": ["o-contract"]}}}),
        by(&accounts, derived("b-account", "belief", &["o-portal"])),
        by(&accounts, derived("p-pay", "plan", &["b-account", "b-address"])),
        by(&accounts, action("a-pay", Some("34500.00"), &["p-pay"])),
        by(&accounts, action("a-paid", Some("6000.00"), &["p-pay"])),
        json!({"id": "e-settled", "action_settled": {"action": "a-paid", "outcome": "done"}}),
        by(&messenger, action("a-mail", None, &["b-address"])),
    ]
}

/// An observation; its event is `e-` and its id.
pub fn observed(node: &str, source: &str, text: &str) -> Value {
    json!({"id": format!("e-{node}"), "observed": {"node": node, "source": source, "content": {"text": text}}})
}

/// A belief or plan, with one reason; its event and its justification are `e-` and its id.
pub fn derived(node: &str, kind: &str, premises: &[&str]) -> Value {
    json!({"id": format!("e-{node}"), "derived": {"node": node, "kind": kind, "content": {"text": format!("{node} holds")},
        "justification": {"premises": premises}}})
}

/// An action, with one reason; its event is `e-` and its id.
pub fn action(node: &str, amount: Option<&str>, premises: &[&str]) -> Value {
    let mut action = json!({"action": node, "type": "message.send", "justification": {"premises": premises}});
    if let Some(amount) = amount {
        action["type"] = json!("payment.transfer");
        action["amount"] = json!(amount);
        action["currency"] = json!("EUR");
    }
    json!({"id": format!("e-{node}"), "action_proposed": action})
}

/// A retraction of a source.
pub fn retracted(retraction: &str, source: &str) -> Value {
    json!({"id": retraction, "retracted": {"retraction": retraction, "targets": [{"source": source}], "by": "kim"}})
}

/// A retraction ends.
pub fn reinstated(event: &str, retraction: &str) -> Value {
    json!({"id": event, "reinstated": {"retraction": retraction}})
}

/// The event, by an agent in a run.
pub fn by(writer: &Value, mut event: Value) -> Value {
    for member in ["agent", "run"] {
        event[member] = writer[member].clone();
    }
    event
}
