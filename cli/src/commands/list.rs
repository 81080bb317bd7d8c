//! `recant list`: nodes, sources, retractions, spaces.

use anyhow::Result;
use recant_processor::viewer::ViewError;
use recant_projections::{
    query::{self, Moment, NodeView, Page, PageRequest, RetractionView, SourceView, SpaceView},
    store::StoreError,
};
use recant_proto::v1::{Target, target::What};
use serde::{Deserialize, Serialize};

use super::tree::node_line;
use crate::{
    arguments, escape,
    failure::{Exit, Problem},
    output::{BOLD, DIM, OUT, Output, counted, styled},
    place::{Place, View},
    remote::{Remote, read},
};

const TEXT_COLUMNS_MAX: usize = 60;
/// So many items are in one page of a server.
const PAGE_ITEMS_MAX: usize = 1_000;

/// Runs the command.
pub fn run(place: &Place, arguments: &arguments::List, output: &mut Output) -> Result<Exit> {
    if let Some(remote) = place.remote()? {
        return ask(&remote, arguments, output);
    }
    let view = place.view()?.at(arguments.as_of.as_deref())?.valid_at(arguments.valid_at.as_deref())?;
    if arguments.spaces {
        return spaces(&view, output);
    }
    let request = PageRequest { after: arguments.cursor.clone(), items_max: arguments.limit.max(1) };
    if arguments.sources {
        let page = query::sources_page(&view.store, &view.space, view.moment.clone(), &request)?;
        return show(&page, output, show_source, "source");
    }
    if arguments.retractions {
        let page = query::retractions_page(&view.store, &view.space, view.moment.clone(), &request)?;
        return show(&page, output, show_retraction, "retraction");
    }
    let filter = arguments.filter.of_nodes();
    let page = query::list(&view.store, &view.space, view.moment.clone(), &filter, &request)?;
    show(&page, output, show_node, "node")
}

/// Asks a server.
fn ask(remote: &Remote, arguments: &arguments::List, output: &mut Output) -> Result<Exit> {
    if arguments.spaces {
        return Err(Problem::wrong("a server is asked about one space at a time; leave out --spaces, or --url").into());
    }
    let mut query: Vec<(&str, String)> = Vec::new();
    query.extend(arguments.as_of.clone().map(|when| ("as_of", when)));
    query.extend(arguments.valid_at.clone().map(|time| ("valid_at", time)));
    if arguments.sources {
        return show(&pages::<SourceView>(remote, "sources", arguments, query)?, output, show_source, "source");
    }
    if arguments.retractions {
        let page = pages::<RetractionView>(remote, "retractions", arguments, query)?;
        return show(&page, output, show_retraction, "retraction");
    }
    query.extend(arguments.filter.query());
    show(&pages::<NodeView>(remote, "nodes", arguments, query)?, output, show_node, "node")
}

/// As much of a list as was asked for: a server's page is smaller than that may be.
fn pages<T: Deserialize<'static>>(
    remote: &Remote,
    list: &str,
    arguments: &arguments::List,
    query: Vec<(&str, String)>,
) -> Result<Page<T>> {
    let limit = arguments.limit.max(1);
    let ask = |cursor: Option<String>, items_max: usize| -> Result<Page<T>> {
        let mut query = query.clone();
        query.push(("limit", items_max.min(PAGE_ITEMS_MAX).to_string()));
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        read(remote.get(&[list], &query)?)
    };
    let mut page = ask(arguments.cursor.clone(), limit)?;
    while page.items.len() < limit
        && let Some(next) = page.next.take()
    {
        let more = ask(Some(next), limit - page.items.len())?;
        page.items.extend(more.items);
        page.next = more.next;
    }
    Ok(page)
}

fn show<T: Serialize>(
    page: &Page<T>,
    output: &mut Output,
    show_item: impl Fn(&T, &mut Output) -> Result<()>,
    what: &str,
) -> Result<Exit> {
    if output.is_json() {
        output.document(page)?;
        return Ok(Exit::Done);
    }
    for item in &page.items {
        show_item(item, output)?;
    }
    let more = page.next.as_ref().map(|next| format!("; there are more: --cursor {next}")).unwrap_or_default();
    let count = counted(page.items.len() as u64, what);
    output.line(styled(DIM, format!("{count} as of {}{more}", page.position)))?;
    Ok(Exit::Done)
}

fn show_node(node: &query::NodeView, output: &mut Output) -> Result<()> {
    let text = node.text.as_deref().map(|text| styled(DIM, format!("  “{}”", escape::clipped(text, TEXT_COLUMNS_MAX))));
    Ok(output.line(format!("{}{}", node_line(node), text.unwrap_or_default()))?)
}

fn show_source(source: &SourceView, output: &mut Output) -> Result<()> {
    let kind = if source.kind.is_empty() { "undeclared" } else { &source.kind };
    let ground = if source.ground { ", ground" } else { "" };
    let retracted = if source.retracted_by.is_empty() {
        String::new()
    } else {
        styled(OUT, format!("  retracted by {}", escape::line(&source.retracted_by.join(", "))))
    };
    let observations = counted(u64::from(source.observations), "observation");
    Ok(output.line(format!(
        "{}  {}{ground}  {observations}{retracted}",
        styled(BOLD, escape::line(&source.id)),
        escape::line(kind)
    ))?)
}

fn show_retraction(retraction: &RetractionView, output: &mut Output) -> Result<()> {
    let by = if retraction.by.is_empty() { String::new() } else { format!("  by {}", escape::line(&retraction.by)) };
    let reason =
        if retraction.reason.is_empty() { String::new() } else { format!(": {}", escape::line(&retraction.reason)) };
    let targets: Vec<String> = retraction.targets.iter().map(target_line).collect();
    Ok(output.line(format!(
        "{}  {}  {}{by}{reason}",
        styled(BOLD, escape::line(&retraction.id)),
        retraction.state.replace('_', " "),
        targets.join(", ")
    ))?)
}

fn target_line(target: &Target) -> String {
    let named = match &target.what {
        Some(What::Source(id)) => format!("source {id}"),
        Some(What::Node(id)) => format!("node {id}"),
        Some(What::Justification(id)) => format!("justification {id}"),
        Some(What::Agent(agent)) if agent.run.is_empty() => format!("agent {}", agent.agent),
        Some(What::Agent(agent)) => format!("agent {} in run {}", agent.agent, agent.run),
        None => String::new(),
    };
    let window = target.window.as_ref().map(|window| match (window.from.as_str(), window.to.as_str()) {
        ("", to) => format!(" before {to}"),
        (from, "") => format!(" from {from}"),
        (from, to) => format!(" from {from} to {to}"),
    });
    escape::line(&(named + &window.unwrap_or_default()))
}

/// Spaces of all partitions; each has the position of its own.
fn spaces(view: &View, output: &mut Output) -> Result<Exit> {
    let mut items: Vec<SpaceView> = Vec::new();
    for partition in 0..view.partitions() {
        let store = match view.viewer.state(partition) {
            // On Kafka a process has the states of what it serves.
            Err(ViewError::Store(StoreError::Absent(_))) => continue,
            found => found?,
        };
        if let Some(moment) = Moment::now(&store)? {
            items.extend(query::spaces(&store, &moment)?);
        }
    }
    items.sort_by(|one, other| one.space.cmp(&other.space));
    let page = Page { items, next: None, position: view.moment.position.to_string(), cursor: view.moment.cursor() };
    let show_space = |space: &SpaceView, output: &mut Output| {
        Ok(output.line(format!(
            "{}  {}, {} IN  digest {} at {}",
            styled(BOLD, escape::line(&space.space)),
            counted(u64::from(space.nodes), "node"),
            space.nodes_in,
            space.digest,
            space.position
        ))?)
    };
    show(&page, output, show_space, "space")
}
