//! Remember, derive, justify, record an action.
//!
//! Ids of nodes follow from what they say, so that the same claim about the same subject is the same node, and saying it again gives it
//! another reason. What the session was shown becomes the premises.

use recant_projections::query::NodeView;
use recant_proto::v1::{
    ActionProposed, Content, Derived, Justification, Justified, Observed, Rule, content::Form, event::Body,
};
use rmcp::{
    RoleServer, handler::server::tool::schema_for_output, handler::server::wrapper::Parameters,
    service::RequestContext, tool, tool_router,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    access::Right,
    mcp::{
        MemoryServer,
        answer::{Answer, Told},
        call::Call,
        quoting::quoted,
        read_set::Premise,
        shapes::Written,
    },
};

/// What a source said.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Remember {
    /// Who said it, as a handle that is always the same: a page's address, an inbox, a tool, a person.
    source: String,
    /// What kind of source: `web`, `mail`, `tool`, `agent`, `user` and so on.
    source_kind: Option<String>,
    /// What it said.
    text: String,
    /// What it is about, as a key under which it will be looked for.
    subject: Option<String>,
    /// When the source said it: RFC 3339 with an offset.
    observed_at: Option<String>,
    /// An id for the observation, where it has one already; else it follows from what was said.
    node: Option<String>,
    /// The space; the server's default if absent.
    space: Option<String>,
}

/// Which kind of conclusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Conclusion {
    /// Something held to be so.
    #[default]
    Belief,
    /// Something meant to be done.
    Plan,
}

/// What is concluded.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Derive {
    /// The conclusion.
    text: String,
    /// What it is about.
    subject: Option<String>,
    /// `belief` (the default) or `plan`.
    #[serde(default)]
    kind: Conclusion,
    /// Further premises, by id. Everything that this session was shown is taken anyway.
    #[serde(default)]
    premises: Vec<String>,
    /// An id for the node, where it has one already; else it follows from what is concluded.
    node: Option<String>,
    /// The model that concluded it.
    model: Option<String>,
    /// The space; the server's default if absent.
    space: Option<String>,
}

/// Another reason for a node.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Justify {
    /// The node.
    node: String,
    /// Further premises, by id. Everything that this session was shown is taken anyway.
    #[serde(default)]
    premises: Vec<String>,
    /// The model that found the reason.
    model: Option<String>,
    /// The space; the server's default if absent.
    space: Option<String>,
}

/// Something that was done, or will be.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RecordAction {
    /// What kind of action, such as `payment.transfer` or `mail.send`.
    #[serde(rename = "type")]
    action_type: String,
    /// What exactly.
    text: String,
    /// What it is about.
    subject: Option<String>,
    /// An amount, as a decimal string such as `1840.00`; with `currency`.
    amount: Option<String>,
    /// The ISO 4217 code of its currency.
    currency: Option<String>,
    /// Further premises, by id. Everything that this session was shown is taken anyway.
    #[serde(default)]
    premises: Vec<String>,
    /// An id for the action, where it has one already.
    node: Option<String>,
    /// The space; the server's default if absent.
    space: Option<String>,
}

#[tool_router(router = writing, vis = "pub(in crate::mcp)")]
impl MemoryServer {
    /// Remember what a source said: a page, a mail, a tool's result, a person. It is kept as that source's statement, so that it can be
    /// taken back with the source; it also becomes a premise of what you conclude in this session.
    #[tool(
        output_schema = schema_for_output::<Written>(),
        annotations(title = "Remember", destructive_hint = false, idempotent_hint = true, open_world_hint = false)
    )]
    async fn remember(
        &self,
        Parameters(said): Parameters<Remember>,
        context: RequestContext<RoleServer>,
    ) -> Told<Written> {
        let call = self.call(&context, said.space, Right::Write)?;
        let subject = said.subject.unwrap_or_default();
        let observed_at = said.observed_at.unwrap_or_default();
        let identity = [said.source.as_str(), &subject, &said.text, &observed_at];
        let node = said.node.unwrap_or_else(|| id_of("o", &identity));
        let body = Body::Observed(Observed {
            node: node.clone(),
            source: said.source,
            source_kind: said.source_kind.unwrap_or_default(),
            content: Some(text_content(said.text)),
            subject,
            observed_at,
            ..Observed::default()
        });
        let written = write(&call, body, node, Vec::new()).await?;
        // Whoever remembers it has read it.
        call.session.read_set.show(&call.space, [written.structured.node.clone()]);
        Ok(written)
    }

    /// Keep a conclusion with its reason. Its premises are everything that this session was shown or remembered, and those that you name. The
    /// same conclusion about the same subject again is another reason for the same node. It stands while one of its reasons does.
    #[tool(
        output_schema = schema_for_output::<Written>(),
        annotations(title = "Derive", destructive_hint = false, idempotent_hint = false, open_world_hint = false)
    )]
    async fn derive(
        &self,
        Parameters(concluded): Parameters<Derive>,
        context: RequestContext<RoleServer>,
    ) -> Told<Written> {
        let call = self.call(&context, concluded.space, Right::Write)?;
        let kind = match concluded.kind {
            Conclusion::Belief => "belief",
            Conclusion::Plan => "plan",
        };
        let subject = concluded.subject.unwrap_or_default();
        let node = concluded.node.unwrap_or_else(|| id_of(&kind[..1], &[kind, &subject, &concluded.text]));
        let premises = call.session.read_set.premises(&call.space, &node, &concluded.premises)?;
        let body = Body::Derived(Derived {
            node: node.clone(),
            kind: kind.to_owned(),
            subject,
            content: Some(text_content(concluded.text)),
            justification: Some(justification(&premises, "derive", concluded.model)),
            ..Derived::default()
        });
        write(&call, body, node, premises).await
    }

    /// Give a node that exists another reason. Its premises are everything that this session was shown or remembered, and those that you name.
    #[tool(
        output_schema = schema_for_output::<Written>(),
        annotations(title = "Justify", destructive_hint = false, idempotent_hint = false, open_world_hint = false)
    )]
    async fn justify(
        &self,
        Parameters(found): Parameters<Justify>,
        context: RequestContext<RoleServer>,
    ) -> Told<Written> {
        let call = self.call(&context, found.space, Right::Write)?;
        let premises = call.session.read_set.premises(&call.space, &found.node, &found.premises)?;
        let body = Body::Justified(Justified {
            node: found.node.clone(),
            justification: Some(justification(&premises, "justify", found.model)),
        });
        write(&call, body, found.node, premises).await
    }

    /// Record something that was done in the world, or is about to be, with its reason: a payment, a mail, a deployment. If the reason falls
    /// later, it is listed by `recalls`.
    #[tool(
        output_schema = schema_for_output::<Written>(),
        annotations(title = "Record an action", destructive_hint = false, idempotent_hint = false, open_world_hint = false)
    )]
    async fn record_action(
        &self,
        Parameters(done): Parameters<RecordAction>,
        context: RequestContext<RoleServer>,
    ) -> Told<Written> {
        let call = self.call(&context, done.space, Right::Write)?;
        // Done twice is two deeds, so that its id is its own.
        let node = done.node.unwrap_or_else(|| format!("a-{}", uuid::Uuid::now_v7().simple()));
        let premises = call.session.read_set.premises(&call.space, &node, &done.premises)?;
        let body = Body::ActionProposed(ActionProposed {
            action: node.clone(),
            r#type: done.action_type,
            amount: done.amount.unwrap_or_default(),
            currency: done.currency.unwrap_or_default(),
            subject: done.subject.unwrap_or_default(),
            content: Some(text_content(done.text)),
            justification: Some(justification(&premises, "record_action", None)),
            ..ActionProposed::default()
        });
        write(&call, body, node, premises).await
    }
}

/// Writes an event about a node, and says how the node stands then, to those who may read it.
async fn write(call: &Call<'_>, body: Body, node: String, premises: Vec<Premise>) -> Told<Written> {
    let mut event = call.event(body);
    let position = call.write(&mut event).await?;
    let mut written = Written { event: event.id, position: position.to_string(), premises, node, ..Written::default() };
    let mut text = format!("{} is written at {position}", quoted(&written.node));
    if call.caller.may(Right::Read, &call.space) {
        let asked = written.node.clone();
        let found: Option<NodeView> = call.read(move |reading| Ok(reading.node(&asked)?)).await?;
        if let Some(view) = found {
            text += &format!(", and {}{}", view.status, view.why.map(|why| format!(" ({why})")).unwrap_or_default());
            written.status = Some(view.status.to_owned());
            written.why = view.why.map(str::to_owned);
        }
    }
    if !written.premises.is_empty() {
        let ids: Vec<String> = written.premises.iter().map(|premise| quoted(&premise.id)).collect();
        text += &format!(". This reason rests on {}", ids.join(", "));
    }
    Ok(Answer { structured: written, text })
}

/// An id that follows from what a node says. The lengths keep the parts apart.
fn id_of(prefix: &str, parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let hash = hasher.finalize().to_hex();
    format!("{prefix}-{}", hash.get(..32).unwrap_or(&hash))
}

fn text_content(text: String) -> Content {
    Content { form: Some(Form::Text(text)), ..Content::default() }
}

fn justification(premises: &[Premise], rule: &str, model: Option<String>) -> Justification {
    Justification {
        premises: premises.iter().map(|premise| premise.id.clone()).collect(),
        rule: Some(Rule { name: rule.to_owned(), model: model.unwrap_or_default(), ..Rule::default() }),
        ..Justification::default()
    }
}
