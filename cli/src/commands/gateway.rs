//! `recant serve` on a log in the data directory: the processor, and HTTP, in one process.

use std::time::Duration;

use anyhow::Result;
use recant_gateway::{
    access,
    host::{Host, HostError, Running},
    http::{Bound, Gateway, Limits, serve},
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
    if !access::may_listen(arguments.listen) {
        let detail = format!(
            "{} can be reached from other machines, and nobody would be asked who they are; listen on 127.0.0.1",
            arguments.listen
        );
        return Err(Problem::wrong(detail).into());
    }
    stop_on_signals()?;
    let bound = Bound::to(arguments.listen)?;
    let (host, running) = host(place, arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let applied = host.applied();
    runtime.block_on(serve_until_told(host, bound, output))?;
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

async fn serve_until_told(host: Host, bound: Bound, output: &mut Output) -> Result<()> {
    let (mut terminated, mut interrupted) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let end = async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    };
    let url = format!("http://{}", bound.address());
    let (incarnation, partitions) = (host.log().incarnation().to_string(), host.log().partitions());
    let read_only = host.is_read_only();
    let streams = Streams::start(host.clone()).await.map_err(|error: HostError| Problem::from(error))?;
    let gateway = Gateway::new(host, streams, Limits::default());
    let begun = json!({ "told": "listening", "url": url, "incarnation": incarnation, "partitions": partitions,
        "read_only": read_only });
    let how = if read_only { ", to read" } else { "" };
    tell(output, &begun, &format!("listening on {url}{how}; whoever reaches this address may do everything"))?;
    Ok(serve(gateway, bound, end).await?)
}
