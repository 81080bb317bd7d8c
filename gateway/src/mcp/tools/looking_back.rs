//! Recent changes since a cursor, and the deeds done on reasons that are gone.

use recant_eventlog::{ReadLimit, Topic};
use recant_projections::query::{Filter, PageRequest};
use recant_proto::id::Kind;
use rmcp::{
    RoleServer, handler::server::tool::schema_for_output, handler::server::wrapper::Parameters,
    service::RequestContext, tool, tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    access::Right,
    changes::{self, From as Begin, PlaceError},
    host::SharedLog,
    mcp::{
        MemoryServer,
        answer::{Answer, Told},
        quoting::quoted,
        shapes::{Node, Nodes, Object, Show, object},
        tools::asking::nodes_told,
    },
    outcome::change_json,
    problem::Problem,
};

/// So many changes are told unless said otherwise.
const TOLD: usize = 50;
const TOLD_MAX: usize = 1_000;
/// So many records are looked at for one call: the partition's other spaces are among them.
const LOOKED_AT_MAX: u64 = 200_000;
const READ: ReadLimit = ReadLimit { records_max: 1_000, bytes_max: 4 << 20 };

/// From where on.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct RecentChanges {
    /// A cursor that an answer gave, `earliest`, `latest`, or a time (RFC 3339 with an offset); `earliest` if absent.
    since: Option<String>,
    /// At most so many; 50 unless said.
    limit: Option<usize>,
    /// The space; the server's default if absent.
    space: Option<String>,
}

/// Changes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Changes {
    /// Each one node's move from one status to another, with its cause; a cascade begins with its summary, whose index is 0.
    items: Vec<Object>,
    /// Give it as `since` to go on from here.
    cursor: String,
    /// Whether there are no more for now.
    caught_up: bool,
}

/// Which deeds.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct Recalls {
    /// At most so many; 50 unless said.
    limit: Option<usize>,
    /// `next` of the page before.
    cursor: Option<String>,
    /// The space; the server's default if absent.
    space: Option<String>,
}

#[tool_router(router = looking_back, vis = "pub(in crate::mcp)")]
impl MemoryServer {
    /// What has fallen or come back since a cursor: what was believed and no longer is, and why.
    #[tool(
        output_schema = schema_for_output::<Changes>(),
        annotations(title = "Recent changes", read_only_hint = true, open_world_hint = false)
    )]
    async fn recent_changes(
        &self,
        Parameters(asked): Parameters<RecentChanges>,
        context: RequestContext<RoleServer>,
    ) -> Told<Changes> {
        let call = self.call(&context, asked.space, Right::Read)?;
        let begin: Begin = asked.since.as_deref().unwrap_or("earliest").parse()?;
        let limit = asked.limit.unwrap_or(TOLD).clamp(1, TOLD_MAX);
        let host = &call.served.host;
        let (log, partition, space) = (host.log(), host.partition_of(&call.space), call.space.clone());
        let found = host.on_a_thread(move || changes_since(&*log, partition, &space, &begin, limit)).await?;
        let changes = found.map_err(Problem::from)?;
        let mut lines: Vec<String> = changes.items.iter().filter_map(change_line).collect();
        if lines.is_empty() {
            lines.push("Nothing has changed.".to_owned());
        }
        lines.push(format!("{}cursor {}", if changes.caught_up { "" } else { "There are more. " }, changes.cursor));
        Ok(Answer { structured: changes, text: lines.join("\n") })
    }

    /// The deeds that were done on reasons that are gone: what may have to be undone, and is nobody's to undo silently.
    #[tool(
        output_schema = schema_for_output::<Nodes>(),
        annotations(title = "Recalls", read_only_hint = true, open_world_hint = false)
    )]
    async fn recalls(
        &self,
        Parameters(asked): Parameters<Recalls>,
        context: RequestContext<RoleServer>,
    ) -> Told<Nodes> {
        let call = self.call(&context, asked.space, Right::Read)?;
        let request = PageRequest { after: asked.cursor, items_max: asked.limit.unwrap_or(TOLD).clamp(1, TOLD_MAX) };
        let fallen = Filter { is_in: Some(false), kind: Some(Kind::Action), ..Filter::default() };
        let page = call.read(move |reading| Ok(reading.list(&fallen, &request)?)).await?;
        let items = page.items.into_iter().map(|view| Node::of(view, Show::Nothing)).collect();
        Ok(nodes_told(&call, Nodes { items, next: page.next, position: page.position, cursor: page.cursor }))
    }
}

fn changes_since(
    log: &dyn SharedLog,
    partition: u32,
    space: &str,
    begin: &Begin,
    limit: usize,
) -> Result<Changes, PlaceError> {
    // Asked for first: whatever is published behind it was published later.
    let processed = log.committed(partition)?.next_offset;
    let mut next = changes::start(log, partition, begin)?;
    let end = log.bounds(Topic::Changes, partition)?.end;
    let looked_at_end = end.min(next.saturating_add(LOOKED_AT_MAX));
    let mut items = Vec::new();
    let mut last = None;
    'reading: while next < looked_at_end {
        let read = log.read(Topic::Changes, partition, next, READ)?;
        let end_of_read = read.last().map_or(looked_at_end, |record| record.position.offset + 1);
        for record in read.iter().filter(|record| record.position.offset < looked_at_end) {
            let change = changes::decode(record)?;
            last = change.id.parse::<recant_proto::position::ChangeId>().ok();
            if change.space == space && change.digest.is_none() {
                items.push(object(&change_json(&change)));
                if items.len() == limit {
                    next = record.position.offset + 1;
                    break 'reading;
                }
            }
        }
        next = end_of_read;
    }
    let caught_up = next >= end;
    let behind_all = || changes::cursor_behind(log.incarnation(), partition, processed);
    let cursor = match (last, begin) {
        (Some(last), _) => last.to_cursor(),
        (None, Begin::After(seen)) => seen.to_cursor(),
        (None, _) => behind_all(),
    };
    Ok(Changes { items, cursor, caught_up })
}

/// A change on a line; none for the summary of a cascade.
fn change_line(change: &Object) -> Option<String> {
    let text = |name: &str| change.get(name).and_then(|value| value.as_str()).unwrap_or_default();
    if text("node").is_empty() {
        return None;
    }
    let retraction = change.get("cause").and_then(|cause| cause.get("retraction")).and_then(|id| id.as_str());
    let because = retraction.map(|id| format!(", because of retraction {}", quoted(id))).unwrap_or_default();
    Some(format!("{} {} {} {}{because}", text("time"), text("to"), text("kind"), quoted(text("node"))))
}
