//! Recall, explain, what rests on a source, what to look at first, how the server is.

use std::collections::BTreeSet;

use recant_projections::query::{Filter, PageRequest};
use recant_proto::{
    id::Kind,
    v1::{Event, Retracted, Target, event::Body, target::What},
};
use rmcp::{
    RoleServer, handler::server::tool::schema_for_output, handler::server::wrapper::Parameters,
    service::RequestContext, tool, tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    access::Right,
    host::Reading,
    mcp::{
        MemoryServer,
        answer::{Answer, Told},
        call::Call,
        quoting::{NOBODY_VOUCHES, quoted},
        shapes::{Decision, Explained, Node, Nodes, Object, Show, object},
        tools::taking_back::decision,
    },
    problem::Problem,
};

/// So many nodes are recalled unless said otherwise.
const RECALLED: usize = 20;
/// So many at most.
const RECALLED_MAX: usize = 200;
/// A page of nodes that words are looked for in.
const SEARCHED_AT_ONCE: usize = 1_000;
/// So many nodes are told with an explanation.
const EXPLAINED: usize = 50;
const EXPLAINED_MAX: usize = 1_000;
/// So many sources are weighed by `audit_first`, the ones with most observations.
const WEIGHED_MAX: usize = 100;
/// So many changes are listed with what rests on a source.
const LISTED: usize = 50;

/// What to recall.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct Recall {
    /// Nodes with exactly this subject.
    subject: Option<String>,
    /// Nodes whose text has all of these words, in any order and case.
    text: Option<String>,
    /// Of this kind: `observation`, `belief`, `plan`, `action`.
    kind: Option<String>,
    /// From this source.
    source: Option<String>,
    /// Also those that are OUT. By default only what is believed.
    #[serde(default)]
    also_out: bool,
    /// Which content is shown: `believed` (the default), `everything`, `nothing`.
    #[serde(default)]
    show: Show,
    /// At most so many; 20 unless said, at most 200.
    limit: Option<usize>,
    /// `next` of the page before.
    cursor: Option<String>,
    /// The space; the server's default if absent.
    space: Option<String>,
}

/// What to recall, and of when.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct StateAsOf {
    /// A time on the log's clock (RFC 3339 with an offset), or a position (`partition:offset`).
    when: String,
    #[serde(flatten)]
    what: Recall,
}

/// A node to explain.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Explain {
    /// The node.
    id: String,
    /// Which content is shown: `nothing` (the default), `believed`, `everything`.
    show: Option<Show>,
    /// At most so many nodes below it; 50 unless said.
    limit: Option<usize>,
    /// The space; the server's default if absent.
    space: Option<String>,
}

/// Why a node is believed or not.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Why {
    /// The node that was asked for.
    id: String,
    /// The position that the answer reflects.
    position: String,
    /// The node, and everything that its reasons rest on, breadth first.
    nodes: Vec<Explained>,
    /// Whether there are more.
    truncated: bool,
    /// What rests on it directly.
    rests_on_it: Vec<Node>,
    /// How many rest on it directly.
    rests_on_it_total: usize,
    /// Its standings, the first first: each with `position`, `time`, `status`, `why`, and the event that brought it about.
    history: Vec<Object>,
    /// The retractions that stand over anything shown.
    retractions: Vec<Object>,
}

/// A source.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct OfSource {
    /// Its handle.
    source: String,
    /// The space; the server's default if absent.
    space: Option<String>,
}

/// What to weigh.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct AuditFirst {
    /// At most so many sources; 10 unless said.
    limit: Option<usize>,
    /// The space; the server's default if absent.
    space: Option<String>,
}

/// Sources, the ones with most hanging on them alone first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Audit {
    /// The sources.
    items: Vec<Weighed>,
    /// How many sources said anything.
    sources_total: usize,
    /// How many of the 100 with most observations have anything that hangs on them alone.
    weighed: usize,
    /// The position that the answer reflects.
    position: String,
}

/// What hangs on a source alone.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Weighed {
    /// Its handle.
    source: String,
    /// Its kind.
    kind: String,
    /// Whether it is ground: what the agent was told by those it works for.
    ground: bool,
    /// How many actions would lose their last reason if it were retracted.
    actions: u32,
    /// How many beliefs and plans would.
    conclusions: u32,
    /// How many observations would be covered.
    observations: u32,
}

/// Nothing but where.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct InSpace {
    /// The space; the server's default if absent.
    space: Option<String>,
}

/// How the server is.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Health {
    /// Whether what is written is applied.
    healthy: bool,
    /// How many events of the space's partition are not applied yet.
    lag_events: u64,
    /// Why processing stands still, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    halted: Option<String>,
    /// The position up to which the space's partition is applied.
    position: String,
    /// Whether nothing can be written here.
    read_only: bool,
    /// The server's version.
    version: String,
}

#[tool_router(router = asking, vis = "pub(in crate::mcp)")]
impl MemoryServer {
    /// Recall what is believed: by subject, by words, by source. What is shown becomes a premise of what you write in this session.
    #[tool(
        output_schema = schema_for_output::<Nodes>(),
        annotations(title = "Recall", read_only_hint = true, open_world_hint = false)
    )]
    async fn recall(&self, Parameters(what): Parameters<Recall>, context: RequestContext<RoleServer>) -> Told<Nodes> {
        let call = self.call(&context, what.space.clone(), Right::Read)?;
        recalled(&call, what, None).await
    }

    /// Recall what was believed at a moment in the past, as it stood then.
    #[tool(
        output_schema = schema_for_output::<Nodes>(),
        annotations(title = "State as of a time", read_only_hint = true, open_world_hint = false)
    )]
    async fn state_as_of(
        &self,
        Parameters(asked): Parameters<StateAsOf>,
        context: RequestContext<RoleServer>,
    ) -> Told<Nodes> {
        let call = self.call(&context, asked.what.space.clone(), Right::Read)?;
        recalled(&call, asked.what, Some(asked.when)).await
    }

    /// Why a node is believed or not: its reasons down to the sources, what rests on it, and how it stood before.
    #[tool(
        output_schema = schema_for_output::<Why>(),
        annotations(title = "Explain", read_only_hint = true, open_world_hint = false)
    )]
    async fn explain(&self, Parameters(asked): Parameters<Explain>, context: RequestContext<RoleServer>) -> Told<Why> {
        let call = self.call(&context, asked.space, Right::Read)?;
        let (id, nodes_max) = (asked.id.clone(), asked.limit.unwrap_or(EXPLAINED).min(EXPLAINED_MAX));
        let found = call.read(move |reading| Ok(reading.explain(&id, nodes_max)?)).await?;
        let explanation = found.ok_or_else(|| Problem::not_found("node", &asked.id))?;
        let show = asked.show.unwrap_or(Show::Nothing);
        let why = Why {
            id: explanation.id,
            position: explanation.position,
            nodes: explanation.nodes.into_iter().map(|node| Explained::of(node, show)).collect(),
            truncated: explanation.truncated,
            rests_on_it: explanation.rests_on_it.into_iter().map(|view| Node::of(view, show)).collect(),
            rests_on_it_total: explanation.rests_on_it_total,
            history: explanation.history.iter().map(object).collect(),
            retractions: explanation.retractions.iter().map(object).collect(),
        };
        note_shown(&call, why.nodes.iter().map(|explained| &explained.node).chain(&why.rests_on_it));
        let text = why.text();
        Ok(Answer { structured: why, text })
    }

    /// What rests on a source: what would be covered, and what would lose its last reason, if the source were retracted. Changes nothing.
    #[tool(
        output_schema = schema_for_output::<Decision>(),
        annotations(title = "What rests on a source", read_only_hint = true, open_world_hint = false)
    )]
    async fn rests_on_source(
        &self,
        Parameters(asked): Parameters<OfSource>,
        context: RequestContext<RoleServer>,
    ) -> Told<Decision> {
        let call = self.call(&context, asked.space, Right::Read)?;
        let event = call.event(retraction_of(&asked.source));
        Ok(decision(&call, call.preview(event, LISTED).await?))
    }

    /// Which source should be looked at first: sources ranked by what hangs on each alone, actions before conclusions.
    #[tool(
        output_schema = schema_for_output::<Audit>(),
        annotations(title = "What to look at first", read_only_hint = true, open_world_hint = false)
    )]
    async fn audit_first(
        &self,
        Parameters(asked): Parameters<AuditFirst>,
        context: RequestContext<RoleServer>,
    ) -> Told<Audit> {
        let call = self.call(&context, asked.space, Right::Read)?;
        let preview = call.event(retraction_of(""));
        let mut audit = call.read(move |reading| weigh(&reading, preview)).await?;
        audit.items.truncate(asked.limit.unwrap_or(10));
        let line = |(rank, item): (usize, &Weighed)| {
            let Weighed { source, actions, conclusions, observations, .. } = item;
            format!(
                "{}. {}: {actions} actions and {conclusions} conclusions rest on it alone, {observations} observations",
                rank + 1,
                quoted(source)
            )
        };
        let lines: Vec<String> = audit.items.iter().enumerate().map(line).collect();
        let text =
            if lines.is_empty() { "No source has said anything that counts.".to_owned() } else { lines.join("\n") };
        Ok(Answer { structured: audit, text })
    }

    /// Whether the memory is up to date and can be written.
    #[tool(
        output_schema = schema_for_output::<Health>(),
        annotations(title = "Health", read_only_hint = true, open_world_hint = false)
    )]
    async fn health(
        &self,
        Parameters(asked): Parameters<InSpace>,
        context: RequestContext<RoleServer>,
    ) -> Told<Health> {
        let call = self.call(&context, asked.space, Right::Read)?;
        let host = &call.served.host;
        let partition = host.partition_of(&call.space);
        let log = host.log();
        let bounds = host.on_a_thread(move || log.bounds(recant_eventlog::Topic::Events, partition)).await?;
        let end = bounds.map_err(crate::host::HostError::from)?.end;
        let (next_offset, halted) = {
            let applied = host.applied();
            let applied = applied.borrow();
            let next_offset = applied.next_offsets.get(partition as usize).copied().unwrap_or(0);
            (next_offset, applied.halted.as_ref().map(ToString::to_string))
        };
        let health = Health {
            healthy: halted.is_none(),
            lag_events: end.saturating_sub(next_offset),
            position: format!("{partition}:{}", next_offset.saturating_sub(1)),
            read_only: host.is_read_only(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            halted,
        };
        let text = match &health.halted {
            None => format!("Up to {}; {} events are not applied yet.", health.position, health.lag_events),
            Some(halted) => format!("Processing stands still at {}: {}", health.position, quoted(halted)),
        };
        Ok(Answer { structured: health, text })
    }
}

/// What is shown becomes a premise of what the session writes.
pub fn note_shown<'n>(call: &Call<'_>, nodes: impl Iterator<Item = &'n Node>) {
    let shown = nodes.filter(|node| node.unvouched_text.is_some()).map(|node| node.id.clone());
    call.session.read_set.show(&call.space, shown.collect::<Vec<_>>());
}

/// Nodes as an answer.
pub fn nodes_told(call: &Call<'_>, nodes: Nodes) -> Answer<Nodes> {
    note_shown(call, nodes.items.iter());
    let mut lines = vec![match nodes.items.len() {
        0 => "Nothing is found.".to_owned(),
        number => format!("{number} found. {NOBODY_VOUCHES}"),
    }];
    lines.extend(nodes.items.iter().map(Node::line));
    if let Some(next) = &nodes.next {
        lines.push(format!("There are more: cursor {next}"));
    }
    Answer { structured: nodes, text: lines.join("\n") }
}

async fn recalled(call: &Call<'_>, what: Recall, when: Option<String>) -> Told<Nodes> {
    let show = what.show;
    let nodes = call
        .read(move |reading| {
            let reading = if when.is_some() { reading.at(when.as_deref(), None)? } else { reading };
            search(&reading, what)
        })
        .await?;
    let items = nodes.items.into_iter().map(|view| Node::of(view, show)).collect();
    let nodes = Nodes { items, next: nodes.next, position: nodes.position, cursor: nodes.cursor };
    Ok(nodes_told(call, nodes))
}

type Found = recant_projections::query::Page<recant_projections::query::NodeView>;

/// Looks for words inside what the filter lets through, page after page, until enough are found: nothing that fits is left out.
fn search(reading: &Reading<'_>, what: Recall) -> Result<Found, Problem> {
    let kind = what.kind.as_deref().map(|text| {
        Kind::parse(text).ok_or_else(|| Problem::wrong(format!("{text:?} is not observation, belief, plan or action")))
    });
    let filter = Filter {
        is_in: (!what.also_out).then_some(true),
        kind: kind.transpose()?,
        source: what.source,
        subject: what.subject,
        ..Filter::default()
    };
    let words = words_of(what.text.as_deref().unwrap_or_default());
    let items_max = what.limit.unwrap_or(RECALLED).clamp(1, RECALLED_MAX);
    let mut request = PageRequest { after: what.cursor, items_max };
    if words.is_empty() {
        return Ok(reading.list(&filter, &request)?);
    }
    let mut found = Vec::new();
    request.items_max = SEARCHED_AT_ONCE.min(items_max);
    loop {
        let page = reading.list(&filter, &request)?;
        found.extend(page.items.into_iter().filter(|view| {
            let said = words_of(view.text.as_deref().unwrap_or_default());
            words.iter().all(|word| said.contains(word))
        }));
        // A page is no larger than what is wanted, so that what is found beyond it is at most a page, and is given too.
        if found.len() >= items_max || page.next.is_none() {
            return Ok(Found { items: found, ..page });
        }
        request.after = page.next;
    }
}

/// The words of a text, in small letters.
fn words_of(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Weighs sources by previewing the retraction of each.
fn weigh(reading: &Reading<'_>, mut preview: Event) -> Result<Audit, Problem> {
    let mut sources = reading.sources()?.items;
    sources.retain(|source| source.observations > 0);
    let sources_total = sources.len();
    sources.sort_by(|a, b| b.observations.cmp(&a.observations).then_with(|| a.id.cmp(&b.id)));
    sources.truncate(WEIGHED_MAX);
    let mut items = Vec::with_capacity(sources.len());
    for source in sources {
        preview.body = Some(retraction_of(&source.id));
        let decided = reading.preview(&preview)?;
        let by_kind = decided.records.first().and_then(|record| record.summary?.by_kind).unwrap_or_default();
        items.push(Weighed {
            source: source.id,
            kind: source.kind,
            ground: source.ground,
            actions: by_kind.action.unwrap_or_default(),
            conclusions: by_kind.belief.unwrap_or_default() + by_kind.plan.unwrap_or_default(),
            observations: by_kind.observation.unwrap_or_default(),
        });
    }
    let weight = |item: &Weighed| (item.actions, item.conclusions, item.observations);
    // Nothing hangs on what is retracted already.
    items.retain(|item| weight(item) > (0, 0, 0));
    items.sort_by(|a, b| weight(b).cmp(&weight(a)).then_with(|| a.source.cmp(&b.source)));
    Ok(Audit { weighed: items.len(), items, sources_total, position: reading.position().to_string() })
}

fn retraction_of(source: &str) -> Body {
    let targets = vec![Target { what: Some(What::Source(source.to_owned())), window: None }];
    Body::Retracted(Retracted { targets, ..Retracted::default() })
}

impl Why {
    fn text(&self) -> String {
        let mut lines = vec![NOBODY_VOUCHES.to_owned()];
        for explained in &self.nodes {
            lines.push(explained.node.line());
            for reason in &explained.reasons {
                let holds =
                    if reason.get("holds").is_some_and(|holds| *holds == true) { "holds" } else { "does not hold" };
                let premises = reason.get("premises").and_then(|premises| premises.as_array());
                let premises: Vec<String> =
                    premises.into_iter().flatten().filter_map(|id| id.as_str()).map(quoted).collect();
                lines.push(format!("  a reason that {holds}: {}", premises.join(", ")));
            }
            if !explained.covered_by.is_empty() {
                let covers: Vec<String> = explained.covered_by.iter().map(|id| quoted(id)).collect();
                lines.push(format!("  covered by {}", covers.join(", ")));
            }
        }
        if self.truncated {
            lines.push("There are more; limit shows them.".to_owned());
        }
        lines.push(format!("{} rest on it directly.", self.rests_on_it_total));
        lines.join("\n")
    }
}
