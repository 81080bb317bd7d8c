//! What makes an event valid by itself, whatever the state: the rules of `docs/contract.md` that need no memory.
//!
//! The field that a check is about is written out only when it fails.

use std::fmt::Display;

use crate::{
    id::{self, CONTROL_SPACE, ID_BYTES_MAX},
    position::{Incarnation, Position},
    reject::{Code, Violation},
    signing::PUBLIC_KEY_BYTES,
    time,
    v1::{
        ActionProposed, ActionReviewed, ActionSettled, Content, Derived, Embedding, Event, Justification, Justified,
        KeyEnrolled, Limits, LogCreated, Observed, Reinstated, Retracted, SourceDeclared, Target, Window,
        content::Form, event::Body, target::What,
    },
};

/// The limits of a log that names none.
pub const DEFAULT_LIMITS: Limits = Limits { max_event_bytes: 1 << 20, max_text_bytes: 256 << 10, max_premises: 1024 };

type Checked = Result<(), Violation>;

/// Checks an event that was decoded from `value_bytes` bytes. An event of an unknown body has its envelope checked only.
pub fn check(event: &Event, value_bytes: usize, limits: &Limits) -> Checked {
    if value_bytes > limits.max_event_bytes as usize {
        let detail = format!(
            "{value_bytes} bytes; the limit is {}. Split it, or give content as a hash",
            limits.max_event_bytes
        );
        return Err(Violation::new(Code::EventTooLarge, detail));
    }
    check_id("id", &event.id)?;
    check_id("space", &event.space)?;
    optional_id("agent", &event.agent)?;
    optional_id("run", &event.run)?;
    optional_id("step", &event.step)?;
    optional_time("occurred_at", &event.occurred_at)?;
    let Some(body) = &event.body else { return Ok(()) };
    check_space(&event.space, body)?;
    Checker { limits }.body(body)
}

/// Whether a body is the log's own, and belongs in the control space.
pub fn is_of_control_space(body: &Body) -> bool {
    matches!(
        body,
        Body::LogCreated(_)
            | Body::PolicySet(_)
            | Body::LogicActivated(_)
            | Body::Tick(_)
            | Body::KeyEnrolled(_)
            | Body::KeyRevoked(_)
    )
}

fn check_space(space: &str, body: &Body) -> Checked {
    let is_control_body = is_of_control_space(body);
    if is_control_body == (space == CONTROL_SPACE) {
        return Ok(());
    }
    let detail = if is_control_body {
        format!("this body belongs in the space {CONTROL_SPACE}")
    } else {
        format!("the space {CONTROL_SPACE} is the log's own; choose another")
    };
    Err(Violation::at(Code::WrongSpace, "space", detail))
}

/// Checks an id that must be there.
pub fn check_id(field: impl Display, text: &str) -> Checked {
    if text.is_empty() {
        return Err(Violation::at(Code::MissingField, field.to_string(), "must be there, 1 to 256 bytes"));
    }
    optional_id(field, text)
}

fn optional_id(field: impl Display, text: &str) -> Checked {
    if text.len() > ID_BYTES_MAX {
        return Err(Violation::at(
            Code::IdTooLong,
            field.to_string(),
            format!("{} bytes; an id has at most {ID_BYTES_MAX}", text.len()),
        ));
    }
    Ok(())
}

fn optional_time(field: &str, text: &str) -> Checked {
    if text.is_empty() { Ok(()) } else { time::parse(field, text).map(|_| ()) }
}

fn one_of(field: &str, text: &str, allowed: &[&str]) -> Checked {
    if allowed.contains(&text) {
        return Ok(());
    }
    Err(Violation::at(Code::BadValue, field, format!("{text:?} is none of {}", allowed.join(", "))))
}

fn optional_one_of(field: &str, text: &str, allowed: &[&str]) -> Checked {
    if text.is_empty() { Ok(()) } else { one_of(field, text, allowed) }
}

struct Checker<'a> {
    limits: &'a Limits,
}

impl Checker<'_> {
    fn body(&self, body: &Body) -> Checked {
        match body {
            Body::SourceDeclared(declared) => self.source_declared(declared),
            Body::Observed(observed) => self.observed(observed),
            Body::Derived(derived) => self.derived(derived),
            Body::Justified(justified) => self.justified(justified),
            Body::Retracted(retracted) => self.retracted(retracted),
            Body::Reinstated(reinstated) => self.reinstated(reinstated),
            Body::ActionProposed(proposed) => self.action_proposed(proposed),
            Body::ActionSettled(settled) => self.action_settled(settled),
            Body::ActionReviewed(reviewed) => self.action_reviewed(reviewed),
            Body::Read(read) => self.ids("read.nodes", &read.nodes).and_then(|()| self.text("read.query", &read.query)),
            Body::Handoff(handoff) => {
                check_id("handoff.to_agent", &handoff.to_agent)?;
                optional_id("handoff.to_run", &handoff.to_run)?;
                self.ids("handoff.nodes", &handoff.nodes)
            }
            Body::LogCreated(created) => log_created(created),
            Body::KeyEnrolled(enrolled) => key_enrolled("key_enrolled", enrolled),
            Body::KeyRevoked(revoked) => {
                check_id("key_revoked.key_id", &revoked.key_id)?;
                self.text("key_revoked.reason", &revoked.reason)
            }
            Body::PolicySet(_) | Body::LogicActivated(_) | Body::Tick(_) => Ok(()),
        }
    }

    fn source_declared(&self, declared: &SourceDeclared) -> Checked {
        check_id("source_declared.source", &declared.source)?;
        optional_id("source_declared.kind", &declared.kind)?;
        optional_id("source_declared.group", &declared.group)?;
        optional_id("source_declared.operator", &declared.operator)?;
        self.text("source_declared.name", &declared.name)?;
        self.attributes("source_declared.attributes", &declared.attributes)?;
        for (field, value) in
            [("trust_millionths", declared.trust_millionths), ("cost_millionths", declared.cost_millionths)]
        {
            if value.is_some_and(|value| value < 0) {
                return Err(Violation::at(Code::BadValue, format!("source_declared.{field}"), "must not be negative"));
            }
        }
        if declared.trust_millionths.is_some_and(|trust| trust > 1_000_000) {
            return Err(Violation::at(Code::BadValue, "source_declared.trust_millionths", "must be at most 1000000"));
        }
        let vouched =
            declared.trust_millionths.is_some() || declared.cost_millionths.is_some() || !declared.group.is_empty();
        if vouched && declared.operator.is_empty() {
            let detail = "trust, group and cost count only with the operator who vouches for them";
            return Err(Violation::at(Code::OperatorNeeded, "source_declared.operator", detail));
        }
        Ok(())
    }

    fn observed(&self, observed: &Observed) -> Checked {
        check_id("observed.node", &observed.node)?;
        check_id("observed.source", &observed.source)?;
        optional_id("observed.source_kind", &observed.source_kind)?;
        optional_id("observed.subject", &observed.subject)?;
        optional_time("observed.observed_at", &observed.observed_at)?;
        optional_one_of("observed.polarity", &observed.polarity, &["affirms", "denies"])?;
        self.content("observed.content", observed.content.as_ref())?;
        check_embedding("observed.embedding", observed.embedding.as_ref())?;
        self.literals("observed.literals", &observed.literals)?;
        self.attributes("observed.attributes", &observed.attributes)
    }

    fn derived(&self, derived: &Derived) -> Checked {
        check_id("derived.node", &derived.node)?;
        one_of("derived.kind", &derived.kind, &[id::Kind::Belief.as_str(), id::Kind::Plan.as_str()])?;
        optional_id("derived.subject", &derived.subject)?;
        optional_one_of("derived.polarity", &derived.polarity, &["affirms", "denies"])?;
        self.content("derived.content", derived.content.as_ref())?;
        check_embedding("derived.embedding", derived.embedding.as_ref())?;
        self.literals("derived.literals", &derived.literals)?;
        self.attributes("derived.attributes", &derived.attributes)?;
        self.justification("derived.justification", derived.justification.as_ref())
    }

    fn justified(&self, justified: &Justified) -> Checked {
        check_id("justified.node", &justified.node)?;
        self.justification("justified.justification", justified.justification.as_ref())
    }

    fn justification(&self, field: &str, justification: Option<&Justification>) -> Checked {
        let Some(justification) = justification else {
            return Err(Violation::at(Code::MissingField, field, "a reason must be there"));
        };
        optional_id(format_args!("{field}.id"), &justification.id)?;
        let premises = justification.premises.len();
        if premises == 0 {
            let detail = "a reason needs a premise; what rests on nothing is an observation from its source";
            return Err(Violation::at(Code::NoPremises, format!("{field}.premises"), detail));
        }
        if premises > self.limits.max_premises as usize {
            let detail = format!(
                "{premises} premises; the limit is {}. Derive a belief from each part first",
                self.limits.max_premises
            );
            return Err(Violation::at(Code::TooManyPremises, format!("{field}.premises"), detail));
        }
        if let Some(rule) = &justification.rule {
            for (name, text) in [
                ("name", &rule.name),
                ("model", &rule.model),
                ("prompt_version", &rule.prompt_version),
                ("input_hash", &rule.input_hash),
            ] {
                optional_id(format_args!("{field}.rule.{name}"), text)?;
            }
        }
        self.ids(format_args!("{field}.premises"), &justification.premises)
    }

    fn retracted(&self, retracted: &Retracted) -> Checked {
        optional_id("retracted.retraction", &retracted.retraction)?;
        optional_id("retracted.by", &retracted.by)?;
        self.text("retracted.reason", &retracted.reason)?;
        self.ids("retracted.replaces", &retracted.replaces)?;
        optional_position("retracted.only_if_position", &retracted.only_if_position)?;
        if retracted.targets.is_empty() {
            return Err(Violation::at(
                Code::NoTargets,
                "retracted.targets",
                "name a source, node, justification or agent",
            ));
        }
        retracted
            .targets
            .iter()
            .enumerate()
            .try_for_each(|(index, target)| check_target(&format!("retracted.targets[{index}]"), target))
    }

    fn reinstated(&self, reinstated: &Reinstated) -> Checked {
        check_id("reinstated.retraction", &reinstated.retraction)?;
        optional_id("reinstated.by", &reinstated.by)?;
        self.text("reinstated.reason", &reinstated.reason)?;
        optional_position("reinstated.only_if_position", &reinstated.only_if_position)
    }

    fn action_proposed(&self, proposed: &ActionProposed) -> Checked {
        check_id("action_proposed.action", &proposed.action)?;
        check_id("action_proposed.type", &proposed.r#type)?;
        check_amount("action_proposed.amount", &proposed.amount, &proposed.currency)?;
        optional_id("action_proposed.subject", &proposed.subject)?;
        optional_one_of("action_proposed.mode", &proposed.mode, &["record", "ask"])?;
        self.content("action_proposed.content", proposed.content.as_ref())?;
        self.attributes("action_proposed.attributes", &proposed.attributes)?;
        self.justification("action_proposed.justification", proposed.justification.as_ref())
    }

    fn action_settled(&self, settled: &ActionSettled) -> Checked {
        check_id("action_settled.action", &settled.action)?;
        one_of("action_settled.outcome", &settled.outcome, &["done", "failed", "abandoned", "undone"])?;
        self.text("action_settled.detail", &settled.detail)?;
        optional_time("action_settled.settled_at", &settled.settled_at)
    }

    fn action_reviewed(&self, reviewed: &ActionReviewed) -> Checked {
        check_id("action_reviewed.action", &reviewed.action)?;
        check_id("action_reviewed.by", &reviewed.by)?;
        one_of("action_reviewed.verdict", &reviewed.verdict, &["allow", "refuse"])?;
        self.text("action_reviewed.reason", &reviewed.reason)
    }

    fn content(&self, field: &str, content: Option<&Content>) -> Checked {
        let Some(content) = content else { return Ok(()) };
        optional_id(format_args!("{field}.media_type"), &content.media_type)?;
        match &content.form {
            None => Ok(()),
            Some(Form::Text(text)) => self.text(format_args!("{field}.text"), text),
            Some(Form::Hash(hash)) => {
                one_of(&format!("{field}.hash.algorithm"), &hash.algorithm, &["sha256", "blake3"])?;
                if hash.digest.len() != 32 {
                    return Err(Violation::at(Code::BadValue, format!("{field}.hash.digest"), "must be 32 bytes"));
                }
                Ok(())
            }
            Some(Form::Encrypted(encrypted)) => {
                check_id(format_args!("{field}.encrypted.key_id"), &encrypted.key_id)?;
                if encrypted.ciphertext.len() > self.limits.max_text_bytes as usize {
                    return Err(
                        self.too_large(format_args!("{field}.encrypted.ciphertext"), encrypted.ciphertext.len())
                    );
                }
                Ok(())
            }
        }
    }

    fn text(&self, field: impl Display, text: &str) -> Checked {
        if text.len() > self.limits.max_text_bytes as usize { Err(self.too_large(field, text.len())) } else { Ok(()) }
    }

    fn too_large(&self, field: impl Display, bytes: usize) -> Violation {
        let detail =
            format!("{bytes} bytes; the limit is {}. Give content as a hash, or in parts", self.limits.max_text_bytes);
        Violation::at(Code::TextTooLarge, field.to_string(), detail)
    }

    fn literals(&self, field: &str, literals: &[crate::v1::Literal]) -> Checked {
        literals.iter().enumerate().try_for_each(|(index, literal)| {
            optional_id(format_args!("{field}[{index}].kind"), &literal.kind)?;
            self.text(format_args!("{field}[{index}].value"), &literal.value)
        })
    }

    fn attributes(&self, field: &str, attributes: &std::collections::BTreeMap<String, String>) -> Checked {
        attributes.iter().try_for_each(|(name, value)| {
            check_id(field, name)?;
            self.text(format_args!("{field}.{name}"), value)
        })
    }

    fn ids(&self, field: impl Display, ids: &[String]) -> Checked {
        ids.iter().enumerate().try_for_each(|(index, id)| check_id(format_args!("{field}[{index}]"), id))
    }
}

/// Numbers that are not finite have no place in a distance, and JSON has no way to write them.
fn check_embedding(field: &str, embedding: Option<&Embedding>) -> Checked {
    let Some(embedding) = embedding else { return Ok(()) };
    check_id(format_args!("{field}.model"), &embedding.model)?;
    if embedding.values.is_empty() {
        return Err(Violation::at(
            Code::MissingField,
            format!("{field}.values"),
            "an embedding has at least one value",
        ));
    }
    match embedding.values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => {
            Err(Violation::at(Code::BadValue, format!("{field}.values[{index}]"), "must be a finite number"))
        }
    }
}

fn check_target(field: &str, target: &Target) -> Checked {
    match &target.what {
        None => return Err(Violation::at(Code::MissingField, field, "name a source, node, justification or agent")),
        Some(What::Source(id)) => check_id(format_args!("{field}.source"), id)?,
        Some(What::Node(id)) => check_id(format_args!("{field}.node"), id)?,
        Some(What::Justification(id)) => check_id(format_args!("{field}.justification"), id)?,
        Some(What::Agent(agent)) => {
            check_id(format_args!("{field}.agent.agent"), &agent.agent)?;
            optional_id(format_args!("{field}.agent.run"), &agent.run)?;
        }
    }
    target.window.as_ref().map_or(Ok(()), |window| check_window(&format!("{field}.window"), window))
}

fn check_window(field: &str, window: &Window) -> Checked {
    optional_one_of(&format!("{field}.clock"), &window.clock, &["observed", "log"])?;
    let end = |name: &str, text: &str| {
        if text.is_empty() { Ok(None) } else { time::parse(&format!("{field}.{name}"), text).map(Some) }
    };
    match (end("from", &window.from)?, end("to", &window.to)?) {
        (Some(from), Some(to)) if to < from => {
            Err(Violation::at(Code::InvertedWindow, field, format!("{} comes after {}", window.from, window.to)))
        }
        _ => Ok(()),
    }
}

fn optional_position(field: &str, text: &str) -> Checked {
    if text.is_empty() {
        return Ok(());
    }
    text.parse::<Position>().map(|_| ()).map_err(|error| Violation::at(Code::BadValue, field, error.to_string()))
}

fn check_amount(field: &str, amount: &str, currency: &str) -> Checked {
    if amount.is_empty() && currency.is_empty() {
        return Ok(());
    }
    if !is_decimal(amount) {
        return Err(Violation::at(Code::BadAmount, field, format!("{amount:?} is not a decimal such as \"34500.00\"")));
    }
    if iso_currency::Currency::from_code(currency).is_none() {
        return Err(Violation::at(
            Code::BadAmount,
            field,
            format!("{currency:?} is not an ISO 4217 currency such as \"EUR\""),
        ));
    }
    Ok(())
}

/// An optional minus, digits, and optionally a point with digits: no exponent, no separators, 40 characters at most.
fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= 40 && digits(whole) && digits(fraction)
}

fn key_enrolled(field: &str, enrolled: &KeyEnrolled) -> Checked {
    check_id(format!("{field}.key_id"), &enrolled.key_id)?;
    optional_id(format!("{field}.holder"), &enrolled.holder)?;
    if enrolled.public_key.len() != PUBLIC_KEY_BYTES {
        let detail = format!("must be an Ed25519 public key, {PUBLIC_KEY_BYTES} bytes");
        return Err(Violation::at(Code::BadValue, format!("{field}.public_key"), detail));
    }
    Ok(())
}

fn log_created(created: &LogCreated) -> Checked {
    created
        .incarnation
        .parse::<Incarnation>()
        .map_err(|error| Violation::at(Code::BadValue, "log_created.incarnation", error.to_string()))?;
    optional_one_of("log_created.log_time", &created.log_time, &["append", "occurred"])?;
    one_of("log_created.writers", &created.writers, &["open", "signed"])?;
    match (created.writers == "signed", &created.operator_key) {
        (true, Some(key)) => key_enrolled("log_created.operator_key", key)?,
        (false, None) => {}
        (true, None) => {
            let detail = "must be there in a log whose writers sign: nobody could enrol a key";
            return Err(Violation::at(Code::MissingField, "log_created.operator_key", detail));
        }
        (false, Some(_)) => {
            let detail = "has no place in a log whose writers do not sign";
            return Err(Violation::at(Code::BadValue, "log_created.operator_key", detail));
        }
    }
    if !matches!(created.commitment_key.len(), 0 | 32) {
        return Err(Violation::at(Code::BadValue, "log_created.commitment_key", "must be 32 bytes or absent"));
    }
    if created.partitions == 0 {
        return Err(Violation::at(Code::BadValue, "log_created.partitions", "must be at least 1"));
    }
    Ok(())
}
