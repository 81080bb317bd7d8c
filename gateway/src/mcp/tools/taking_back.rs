//! Preview a retraction, retract, reinstate, list retractions.

use std::collections::BTreeMap;

use recant_proto::v1::{AgentTarget, Reinstated, Retracted, Target, Window, event::Body, target::What};
use rmcp::{
    RoleServer, handler::server::tool::schema_for_output, handler::server::wrapper::Parameters,
    service::RequestContext, tool, tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    access::Right,
    mcp::{
        MemoryServer,
        answer::{Answer, Told},
        call::Call,
        quoting::quoted,
        shapes::{Decision, Object, object},
    },
    outcome::Outcome,
};

/// So many changes are told unless said otherwise.
const TOLD: usize = 50;

/// What is no longer trusted. At least one target; several are one cascade.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct Targets {
    /// Sources, by their handles.
    #[serde(default)]
    sources: Vec<String>,
    /// Nodes, by id.
    #[serde(default)]
    nodes: Vec<String>,
    /// Justifications, by id.
    #[serde(default)]
    justifications: Vec<String>,
    /// Agents: all that they wrote.
    #[serde(default)]
    agents: Vec<String>,
    /// Of the agents, only what they wrote in this run.
    run: Option<String>,
    /// Only from this time on: RFC 3339 with an offset.
    from: Option<String>,
    /// Only before this time.
    to: Option<String>,
}

/// A retraction to preview.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Preview {
    #[serde(flatten)]
    targets: Targets,
    /// Tell at most so many changes; 50 unless said.
    limit: Option<usize>,
    /// The space; the server's default if absent.
    space: Option<String>,
}

/// A retraction.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Retract {
    #[serde(flatten)]
    targets: Targets,
    /// Why.
    reason: String,
    /// Who asked for it, where that is not whoever holds the token.
    by: Option<String>,
    /// `position` of the preview: the retraction then equals the preview, or is refused.
    only_if_position: Option<String>,
    /// A retraction that this one lifts at the same moment, such as a wider one.
    replaces: Option<String>,
    /// Tell at most so many changes; 50 unless said.
    limit: Option<usize>,
    /// The space; the server's default if absent.
    space: Option<String>,
}

/// A retraction to lift.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Reinstate {
    /// The retraction.
    retraction: String,
    /// Why.
    reason: String,
    /// Who asked for it, where that is not whoever holds the token.
    by: Option<String>,
    /// Change nothing, and say what would change.
    #[serde(default)]
    preview: bool,
    /// `position` of the preview: what is done then equals the preview, or is refused.
    only_if_position: Option<String>,
    /// Tell at most so many changes; 50 unless said.
    limit: Option<usize>,
    /// The space; the server's default if absent.
    space: Option<String>,
}

/// Which retractions to list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct ListRetractions {
    /// Also those that were lifted.
    #[serde(default)]
    also_lifted: bool,
    /// The space; the server's default if absent.
    space: Option<String>,
}

/// Retractions.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Retractions {
    /// Each with `id`, `state` (`standing`, `lifted`), `targets`, `reason`, `by` and when.
    items: Vec<Object>,
    /// The position that the answer reflects.
    position: String,
}

#[tool_router(router = taking_back, vis = "pub(in crate::mcp)")]
impl MemoryServer {
    /// What a retraction would do, without doing it: what would fall, which deeds rest on it, what has another reason and stays.
    #[tool(
        output_schema = schema_for_output::<Decision>(),
        annotations(title = "Preview a retraction", read_only_hint = true, open_world_hint = false)
    )]
    async fn preview_retraction(
        &self,
        Parameters(asked): Parameters<Preview>,
        context: RequestContext<RoleServer>,
    ) -> Told<Decision> {
        let call = self.call(&context, asked.space, Right::Read)?;
        let retracted = Retracted { targets: targets(asked.targets), ..Retracted::default() };
        let event = call.event(Body::Retracted(retracted));
        Ok(decision(&call, call.preview(event, asked.limit.unwrap_or(TOLD)).await?))
    }

    /// Take something back: what rests on it alone falls, what has another reason stays, and everyone who follows is told. Preview it
    /// first. Nothing is deleted, and it can be lifted by `reinstate`.
    #[tool(
        output_schema = schema_for_output::<Decision>(),
        annotations(title = "Retract", destructive_hint = true, idempotent_hint = false, open_world_hint = false)
    )]
    async fn retract(
        &self,
        Parameters(asked): Parameters<Retract>,
        context: RequestContext<RoleServer>,
    ) -> Told<Decision> {
        let call = self.call(&context, asked.space, Right::Retract)?;
        let mut event = call.event(Body::Retracted(Retracted {
            targets: targets(asked.targets),
            reason: asked.reason,
            by: asked.by.unwrap_or_default(),
            only_if_position: asked.only_if_position.unwrap_or_default(),
            replaces: asked.replaces.into_iter().collect(),
            ..Retracted::default()
        }));
        let outcome = call.decide(&mut event, asked.limit.unwrap_or(TOLD)).await?;
        Ok(decision(&call, outcome))
    }

    /// Lift a retraction: everything is as if it had not been. With `preview` nothing is changed.
    #[tool(
        output_schema = schema_for_output::<Decision>(),
        annotations(title = "Reinstate", destructive_hint = true, idempotent_hint = false, open_world_hint = false)
    )]
    async fn reinstate(
        &self,
        Parameters(asked): Parameters<Reinstate>,
        context: RequestContext<RoleServer>,
    ) -> Told<Decision> {
        let right = if asked.preview { Right::Read } else { Right::Retract };
        let call = self.call(&context, asked.space, right)?;
        let mut event = call.event(Body::Reinstated(Reinstated {
            retraction: asked.retraction,
            reason: asked.reason,
            by: asked.by.unwrap_or_default(),
            only_if_position: asked.only_if_position.unwrap_or_default(),
        }));
        let limit = asked.limit.unwrap_or(TOLD);
        let outcome =
            if asked.preview { call.preview(event, limit).await? } else { call.decide(&mut event, limit).await? };
        Ok(decision(&call, outcome))
    }

    /// The retractions that stand: what is no longer trusted, why, and who said so.
    #[tool(
        output_schema = schema_for_output::<Retractions>(),
        annotations(title = "List retractions", read_only_hint = true, open_world_hint = false)
    )]
    async fn list_retractions(
        &self,
        Parameters(asked): Parameters<ListRetractions>,
        context: RequestContext<RoleServer>,
    ) -> Told<Retractions> {
        let call = self.call(&context, asked.space, Right::Read)?;
        let page = call.read(|reading| Ok(reading.retractions()?)).await?;
        let shown = page.items.into_iter().filter(|item| asked.also_lifted || item.state == "standing");
        let (mut items, mut lines) = (Vec::new(), Vec::new());
        for retraction in shown {
            lines.push(format!(
                "{} {}, by {}: {}",
                retraction.state,
                quoted(&retraction.id),
                quoted(&retraction.by),
                quoted(&retraction.reason)
            ));
            items.push(object(&retraction));
        }
        let text = if lines.is_empty() { "No retraction stands.".to_owned() } else { lines.join("\n") };
        Ok(Answer { structured: Retractions { items, position: page.position }, text })
    }
}

fn targets(asked: Targets) -> Vec<Target> {
    let window = (asked.from.is_some() || asked.to.is_some()).then(|| Window {
        from: asked.from.unwrap_or_default(),
        to: asked.to.unwrap_or_default(),
        ..Window::default()
    });
    let run = asked.run.unwrap_or_default();
    let agent = |agent| What::Agent(AgentTarget { agent, run: run.clone() });
    let named = asked.sources.into_iter().map(What::Source);
    let named = named.chain(asked.nodes.into_iter().map(What::Node));
    let named = named.chain(asked.justifications.into_iter().map(What::Justification));
    let named = named.chain(asked.agents.into_iter().map(agent));
    named.map(|what| Target { what: Some(what), window: window.clone() }).collect()
}

/// What a retraction or reinstatement came to. Whoever may not read is told how much changed, and not what.
pub fn decision(call: &Call<'_>, outcome: Outcome) -> Answer<Decision> {
    let may_read = call.caller.may(Right::Read, &call.space);
    let outcome = if may_read { outcome } else { outcome.counts_only() };
    let kinds = &outcome.by_kind;
    let by_kind =
        [("observation", kinds.observation), ("belief", kinds.belief), ("plan", kinds.plan), ("action", kinds.action)];
    let counted: Vec<String> = by_kind.iter().map(|(kind, count)| format!("{count} {kind}s")).collect();
    let would = if outcome.preview { "would change" } else { "changed" };
    let mut lines = vec![format!("{} {} nodes: {}", would, outcome.changed, counted.join(", "))];
    for action in &outcome.actions {
        let amount = format!("{} {}", action.amount, action.currency);
        lines.push(format!(
            "action {} ({}), {}: {}",
            quoted(&action.id),
            quoted(&action.action_type),
            quoted(amount.trim()),
            action.to
        ));
    }
    if outcome.preview {
        lines.push(format!("Nothing was changed. To commit exactly this: only_if_position {}", outcome.position));
    } else {
        lines.push(format!("retraction {} at {}", quoted(&outcome.retraction), outcome.position));
    }
    let decision = Decision {
        retraction: outcome.retraction,
        position: outcome.position,
        preview: outcome.preview,
        changed: outcome.changed,
        by_kind: by_kind.map(|(kind, count)| (kind.to_owned(), count)).into_iter().collect::<BTreeMap<_, _>>(),
        actions: outcome.actions.iter().map(object).collect(),
        changes: outcome.changes.iter().map(object).collect(),
        truncated: outcome.truncated,
    };
    Answer { structured: decision, text: lines.join("\n") }
}
