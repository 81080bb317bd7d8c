//! Every rule that needs no state, with the code and the field that it reports. Each case breaks one thing in a frozen
//! event, which is accepted as it stands.

use recant_proto::reject::Code;
use serde_json::{Value, json};

use crate::{frozen, reader, reader::Fate};

/// A frozen event, the JSON pointer of what is replaced, by what (null: left out), the code, and the field reported.
type Case = (&'static str, &'static str, Value, Code, &'static str);

fn cases() -> Vec<Case> {
    use Code::*;
    vec![
        ("observed", "/id", json!(null), MissingField, "id"),
        ("observed", "/id", json!(""), MissingField, "id"),
        ("observed", "/space", json!(null), MissingField, "space"),
        ("observed", "/occurred_at", json!("2026-03-02T09:15:00"), BadTime, "occurred_at"),
        ("observed", "/space", json!("recant.control"), WrongSpace, "space"),
        ("tick", "/space", json!("acme"), WrongSpace, "space"),
        ("log_created", "/space", json!("acme"), WrongSpace, "space"),
        ("policy_set", "/space", json!("acme"), WrongSpace, "space"),
        ("logic_activated", "/space", json!("acme"), WrongSpace, "space"),
        ("source_declared", "/source_declared/source", json!(null), MissingField, "source_declared.source"),
        ("source_declared", "/source_declared/operator", json!(null), OperatorNeeded, "source_declared.operator"),
        (
            "source_declared",
            "/source_declared/trust_millionths",
            json!(-1),
            BadValue,
            "source_declared.trust_millionths",
        ),
        (
            "source_declared",
            "/source_declared/trust_millionths",
            json!(1_000_001),
            BadValue,
            "source_declared.trust_millionths",
        ),
        ("source_declared", "/source_declared/cost_millionths", json!(-1), BadValue, "source_declared.cost_millionths"),
        (
            "source_declared",
            "/source_declared/attributes",
            json!({"": "x"}),
            MissingField,
            "source_declared.attributes",
        ),
        ("observed", "/observed/node", json!(null), MissingField, "observed.node"),
        ("observed", "/observed/source", json!(null), MissingField, "observed.source"),
        ("observed", "/observed/observed_at", json!("yesterday"), BadTime, "observed.observed_at"),
        ("observed", "/observed/polarity", json!("maybe"), BadValue, "observed.polarity"),
        ("observed", "/observed/attributes", json!({"": "x"}), MissingField, "observed.attributes"),
        ("observed", "/observed/embedding/model", json!(null), MissingField, "observed.embedding.model"),
        ("observed", "/observed/embedding/values", json!([]), MissingField, "observed.embedding.values"),
        ("observed", "/observed/embedding/values", json!([0, "NaN"]), BadValue, "observed.embedding.values[1]"),
        ("observed", "/observed/embedding/values", json!(["-Infinity"]), BadValue, "observed.embedding.values[0]"),
        ("observed", "/observed/embedding/values", json!([1e39]), BadValue, "observed.embedding.values[0]"),
        (
            "observed-hash",
            "/observed/content/hash/algorithm",
            json!("md5"),
            BadValue,
            "observed.content.hash.algorithm",
        ),
        ("observed-hash", "/observed/content/hash/algorithm", json!(null), BadValue, "observed.content.hash.algorithm"),
        ("observed-hash", "/observed/content/hash/digest", json!("AAAA"), BadValue, "observed.content.hash.digest"),
        (
            "observed-encrypted",
            "/observed/content/encrypted/key_id",
            json!(null),
            MissingField,
            "observed.content.encrypted.key_id",
        ),
        ("derived", "/derived/node", json!(null), MissingField, "derived.node"),
        ("derived", "/derived/kind", json!(null), BadValue, "derived.kind"),
        ("derived", "/derived/kind", json!("observation"), BadValue, "derived.kind"),
        ("derived", "/derived/kind", json!("action"), BadValue, "derived.kind"),
        ("derived", "/derived/polarity", json!("maybe"), BadValue, "derived.polarity"),
        ("derived", "/derived/embedding/model", json!(null), MissingField, "derived.embedding.model"),
        ("derived", "/derived/attributes", json!({"": "x"}), MissingField, "derived.attributes"),
        ("derived", "/derived/justification", json!(null), MissingField, "derived.justification"),
        ("derived", "/derived/justification/premises", json!(null), NoPremises, "derived.justification.premises"),
        (
            "derived",
            "/derived/justification/premises",
            json!(["a", ""]),
            MissingField,
            "derived.justification.premises[1]",
        ),
        ("justified", "/justified/node", json!(null), MissingField, "justified.node"),
        ("justified", "/justified/justification", json!(null), MissingField, "justified.justification"),
        ("justified", "/justified/justification/premises", json!([]), NoPremises, "justified.justification.premises"),
        ("retracted", "/retracted/targets", json!(null), NoTargets, "retracted.targets"),
        ("retracted", "/retracted/targets", json!([{}]), MissingField, "retracted.targets[0]"),
        ("retracted", "/retracted/targets/0/source", json!(""), MissingField, "retracted.targets[0].source"),
        ("retracted", "/retracted/targets/1/node", json!(""), MissingField, "retracted.targets[1].node"),
        (
            "retracted",
            "/retracted/targets/2/justification",
            json!(""),
            MissingField,
            "retracted.targets[2].justification",
        ),
        (
            "retracted",
            "/retracted/targets/3/agent",
            json!({"run": "r"}),
            MissingField,
            "retracted.targets[3].agent.agent",
        ),
        ("retracted", "/retracted/targets/0/window/from", json!("2026"), BadTime, "retracted.targets[0].window.from"),
        ("retracted", "/retracted/targets/0/window/to", json!("2026"), BadTime, "retracted.targets[0].window.to"),
        (
            "retracted",
            "/retracted/targets/0/window/clock",
            json!("wall"),
            BadValue,
            "retracted.targets[0].window.clock",
        ),
        ("retracted", "/retracted/replaces", json!([""]), MissingField, "retracted.replaces[0]"),
        ("retracted", "/retracted/only_if_position", json!("41"), BadValue, "retracted.only_if_position"),
        ("retracted", "/retracted/only_if_position", json!("0:041"), BadValue, "retracted.only_if_position"),
        ("reinstated", "/reinstated/retraction", json!(null), MissingField, "reinstated.retraction"),
        ("reinstated", "/reinstated/only_if_position", json!("0:-1"), BadValue, "reinstated.only_if_position"),
        ("action_proposed", "/action_proposed/action", json!(null), MissingField, "action_proposed.action"),
        ("action_proposed", "/action_proposed/type", json!(null), MissingField, "action_proposed.type"),
        ("action_proposed", "/action_proposed/amount", json!(null), BadAmount, "action_proposed.amount"),
        ("action_proposed", "/action_proposed/currency", json!(null), BadAmount, "action_proposed.amount"),
        ("action_proposed", "/action_proposed/currency", json!("eur"), BadAmount, "action_proposed.amount"),
        ("action_proposed", "/action_proposed/currency", json!("ZZZ"), BadAmount, "action_proposed.amount"),
        ("action_proposed", "/action_proposed/mode", json!("try"), BadValue, "action_proposed.mode"),
        (
            "action_proposed",
            "/action_proposed/justification",
            json!(null),
            MissingField,
            "action_proposed.justification",
        ),
        (
            "action_proposed",
            "/action_proposed/justification/premises",
            json!([]),
            NoPremises,
            "action_proposed.justification.premises",
        ),
        (
            "action_proposed",
            "/action_proposed/attributes",
            json!({"": "x"}),
            MissingField,
            "action_proposed.attributes",
        ),
        ("action_settled", "/action_settled/action", json!(null), MissingField, "action_settled.action"),
        ("action_settled", "/action_settled/outcome", json!(null), BadValue, "action_settled.outcome"),
        ("action_settled", "/action_settled/outcome", json!("recorded"), BadValue, "action_settled.outcome"),
        ("action_settled", "/action_settled/settled_at", json!("16:00"), BadTime, "action_settled.settled_at"),
        ("action_reviewed", "/action_reviewed/action", json!(null), MissingField, "action_reviewed.action"),
        ("action_reviewed", "/action_reviewed/by", json!(null), MissingField, "action_reviewed.by"),
        ("action_reviewed", "/action_reviewed/verdict", json!("maybe"), BadValue, "action_reviewed.verdict"),
        ("read", "/read/nodes", json!(["n", ""]), MissingField, "read.nodes[1]"),
        ("handoff", "/handoff/to_agent", json!(null), MissingField, "handoff.to_agent"),
        ("handoff", "/handoff/nodes", json!([""]), MissingField, "handoff.nodes[0]"),
        ("log_created", "/log_created/incarnation", json!("0123"), BadValue, "log_created.incarnation"),
        ("log_created", "/log_created/partitions", json!(0), BadValue, "log_created.partitions"),
        ("log_created", "/log_created/log_time", json!("wall"), BadValue, "log_created.log_time"),
        ("log_created", "/log_created/commitment_key", json!("AAAA"), BadValue, "log_created.commitment_key"),
        ("log_created", "/log_created/writers", json!(null), BadValue, "log_created.writers"),
        ("log_created", "/log_created/writers", json!("closed"), BadValue, "log_created.writers"),
        ("log_created", "/log_created/writers", json!("signed"), MissingField, "log_created.operator_key"),
        ("log_created-signed", "/log_created/writers", json!("open"), BadValue, "log_created.operator_key"),
        (
            "log_created-signed",
            "/log_created/operator_key/public_key",
            json!("AAAA"),
            BadValue,
            "log_created.operator_key.public_key",
        ),
        ("key_enrolled", "/key_enrolled/key_id", json!(null), MissingField, "key_enrolled.key_id"),
        ("key_enrolled", "/key_enrolled/public_key", json!("AAAA"), BadValue, "key_enrolled.public_key"),
        ("key_revoked", "/key_revoked/key_id", json!(null), MissingField, "key_revoked.key_id"),
    ]
}

/// Protects users from a rule that is not applied, or that reports another field than the one to mend.
#[test]
fn each_rule_has_its_code_and_names_its_field() {
    for (name, pointer, value, code, field) in cases() {
        let fate = reader::fate(frozen::changed(name, pointer, value.clone()).as_bytes(), None);
        let Fate::Rejected(violation) = fate else { panic!("{name} {pointer} = {value}: {fate:?}") };
        assert_eq!(violation.code, code, "{name} {pointer} = {value}: {violation}");
        assert_eq!(violation.field.as_deref(), Some(field), "{name} {pointer} = {value}");
    }
}

/// What a stricter rule would break: all of this is allowed.
#[test]
fn what_may_be_left_out_may_be_left_out() {
    for (name, pointer, value) in [
        ("observed", "/agent", json!(null)),
        ("observed", "/run", json!("")),
        ("observed", "/occurred_at", json!(null)),
        ("observed", "/observed/content", json!(null)),
        ("observed", "/observed/content", json!({})),
        ("observed", "/observed/content", json!({"text": ""})),
        ("observed", "/observed/subject", json!(null)),
        ("observed", "/observed/embedding", json!(null)),
        ("source_declared", "/source_declared/trust_millionths", json!(0)),
        ("source_declared", "/source_declared/trust_millionths", json!("1000000")),
        ("derived", "/derived/content", json!(null)),
        ("derived", "/derived/justification/premises", json!(["a", "a"])),
        ("derived", "/derived/justification/premises", json!(["b-iban"])),
        ("retracted", "/retracted/retraction", json!(null)),
        ("retracted", "/retracted/by", json!(null)),
        ("retracted", "/retracted/targets/3/agent", json!({"agent": "a"})),
        ("retracted", "/retracted/targets/0/window", json!({})),
        ("action_proposed", "/action_proposed/mode", json!(null)),
        ("action_proposed", "/action_proposed/content", json!(null)),
        ("read", "/read/nodes", json!(null)),
        ("log_created", "/log_created/limits", json!(null)),
        ("log_created", "/log_created/limits/max_premises", json!(0)),
        ("log_created", "/log_created/log_time", json!("occurred")),
        ("log_created", "/log_created/commitment_key", json!(null)),
    ] {
        assert_eq!(
            reader::fate(frozen::changed(name, pointer, value.clone()).as_bytes(), None).word(),
            "accepted",
            "{name} {pointer} = {value}"
        );
    }
}

#[test]
fn an_amount_is_a_decimal_string() {
    for amount in ["0", "-12.50", "34500.00", "007", "0.000000000000000000000001", &"9".repeat(40)] {
        let event = frozen::changed("action_proposed", "/action_proposed/amount", json!(amount));
        assert_eq!(reader::fate(event.as_bytes(), None).word(), "accepted", "{amount}");
    }
    for amount in
        ["1e3", "1,000", "1.", ".5", "-", "+1", " 1", "1 ", "--1", "0x10", "NaN", "１", "1.2.3", &"9".repeat(41)]
    {
        let event = frozen::changed("action_proposed", "/action_proposed/amount", json!(amount));
        assert_eq!(reader::fate(event.as_bytes(), None).word(), "bad_amount", "{amount}");
    }
    let neither =
        frozen::changed("action_proposed", "/action_proposed/amount", json!(null)).replace(r#""currency":"EUR","#, "");
    assert_eq!(reader::fate(neither.as_bytes(), None).word(), "accepted");
    let number = frozen::changed("action_proposed", "/action_proposed/amount", json!(12.5));
    assert_eq!(reader::fate(number.as_bytes(), None).word(), "undecodable");
}

/// A refusal travels with the bytes of what it refuses; quoting them again would make it larger than a topic takes.
#[test]
fn a_detail_is_bounded_whatever_it_quotes() {
    let endless = "\u{202e}".repeat(100_000);
    for (name, pointer) in [
        ("observed", "/occurred_at"),
        ("observed", "/observed/polarity"),
        ("retracted", "/retracted/only_if_position"),
        ("action_proposed", "/action_proposed/amount"),
        ("log_created", "/log_created/incarnation"),
    ] {
        let fate = reader::fate(frozen::changed(name, pointer, json!(endless)).as_bytes(), None);
        let Fate::Rejected(violation) = fate else { panic!("{name} {pointer}: {fate:?}") };
        assert!(violation.detail.len() <= 1024 + '…'.len_utf8(), "{name} {pointer}: {} bytes", violation.detail.len());
    }
    let unknown = format!(r#"{{"id":"e","space":"s","{endless}":1}}"#);
    let Fate::Rejected(violation) = reader::fate(unknown.as_bytes(), None) else { panic!("accepted") };
    assert!(violation.detail.len() <= 1024 + '…'.len_utf8());
    assert_eq!(violation.code, Code::UnknownField);
}
