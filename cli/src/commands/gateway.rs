//! `recant serve` on a log in the data directory: the processor, and HTTP, in one process.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use recant_gateway::{
    access::Access,
    host::{Host, HostError, Running},
    http::{Bound, Gateway, Limits, serve},
    observe::Observing,
    stream::Streams,
};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::serve::{stop_on_signals, tell};
use crate::{
    arguments,
    failure::{Exit, Problem},
    output::Output,
    place::Place,
};

/// Of a log that is created.
const PARTITIONS: u32 = 1;
/// What still runs after requests had their time is left behind after this.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(5);

/// Runs the command.
pub(super) fn run(place: &Place, arguments: &arguments::Serve, output: &mut Output) -> Result<Exit> {
    stop_on_signals()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let access = runtime.block_on(Access::open(arguments.access.as_deref(), arguments.listen));
    let access = Arc::new(access.map_err(|error| Problem::wrong(error.to_string()))?);
    let bound = Bound::to(arguments.listen)?;
    let observing = runtime.block_on(async { Observing::start(&place.data) });
    let observing = observing.map_err(|error| Problem::wrong(error.to_string()))?;
    let (host, running) = host(place, arguments)?;
    let applied = host.applied();
    runtime.block_on(serve_until_told(host, bound, access, &observing, output))?;
    observing.end();
    runtime.shutdown_timeout(LEFT_BEHIND_AFTER);
    running.join();
    let halted = applied.borrow().halted.clone();
    if let Some(error) = halted {
        return Err(Problem::of_driver(&error).into());
    }
    tell(output, &json!({ "told": "stopped" }), "stopped")?;
    Ok(Exit::Done)
}

fn host(place: &Place, arguments: &arguments::Serve) -> Result<(Host, Running)> {
    if arguments.read_only {
        return Ok(Host::past(&place.data).map_err(Problem::from)?);
    }
    let standalone = place.open_or_create(arguments.partitions.unwrap_or(PARTITIONS))?;
    Ok(Host::embedded(standalone).map_err(Problem::from)?)
}

async fn serve_until_told(
    host: Host,
    bound: Bound,
    access: Arc<Access>,
    observing: &Observing,
    output: &mut Output,
) -> Result<()> {
    let (mut terminated, mut interrupted) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let end = async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    };
    let scheme = if access.tls().await.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", bound.address());
    let warnings = access.told();
    let (incarnation, partitions) = (host.log().incarnation().to_string(), host.log().partitions());
    let read_only = host.is_read_only();
    let streams = Streams::start(host.clone()).await.map_err(|error: HostError| Problem::from(error))?;
    let gateway =
        Gateway::new(host, streams, Limits::default()).with_access(access).with_measures(observing.registry());
    let begun = json!({ "told": "listening", "url": url, "incarnation": incarnation, "partitions": partitions,
        "read_only": read_only, "warnings": warnings });
    let how = if read_only { ", to read" } else { "" };
    let warned: String = warnings.iter().map(|warning| format!("; {warning}")).collect();
    tell(output, &begun, &format!("listening on {url}{how}{warned}"))?;
    Ok(serve(gateway, bound, end).await?)
}
