//! `recant serve` over HTTP: on a log in the data directory, with its processor in the same process; or beside the process that serves
//! partitions of a log on Kafka.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Result;
use recant_eventlog::kafka::{KafkaLog, Settings};
use recant_gateway::{
    access,
    host::{Host, Running},
    http::{Bound, Gateway, Limits, serve},
    stream::Streams,
};
use recant_processor::serve::held::Held;
use serde_json::json;
use tokio::{
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
    sync::oneshot,
    task::JoinHandle,
};

use super::serve::{stop_on_signals, tell};
use crate::{
    arguments,
    failure::{Exit, Problem},
    output::Output,
    place::{Place, door},
};

/// Where it listens, if it is not said.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7470);
/// Of a log that is created.
const PARTITIONS: u32 = 1;
/// What still runs after requests had their time is left behind after this.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(5);

/// Runs the command.
pub(super) fn run(place: &Place, arguments: &arguments::Serve, output: &mut Output) -> Result<Exit> {
    stop_on_signals()?;
    let bound = bind(arguments.listen.unwrap_or(LISTEN))?;
    let (host, running) = host(place, arguments)?;
    let applied = host.applied();
    let runtime = runtime()?;
    let (mut terminated, mut interrupted) = {
        let _context = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    let end = async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    };
    tell_of(&host, &bound, output)?;
    runtime.block_on(serve_until(host, bound, end))?;
    runtime.shutdown_timeout(LEFT_BEHIND_AFTER);
    running.join();
    let halted = applied.borrow().halted.clone();
    if let Some(error) = halted {
        return Err(Problem::of_driver(&error).into());
    }
    tell(output, &json!({ "told": "stopped" }), "stopped")?;
    Ok(Exit::Done)
}

/// HTTP beside a process that serves partitions of a log on Kafka.
pub(super) struct Beside {
    runtime: Runtime,
    running: Running,
    end: oneshot::Sender<()>,
    serving: JoinHandle<Result<()>>,
}

impl Beside {
    /// Begins to serve.
    pub(super) fn begin(address: SocketAddr, settings: &Settings, held: Held, output: &mut Output) -> Result<Beside> {
        let bound = bind(address)?;
        let log = Arc::new(KafkaLog::open(settings.clone())?);
        let (host, running) = Host::kafka(log, door(settings)?, held).map_err(Problem::from)?;
        let runtime = runtime()?;
        let (end, ended) = oneshot::channel();
        tell_of(&host, &bound, output)?;
        // It ends, too, if nobody is left who could say so.
        let serving = runtime.spawn(serve_until(host, bound, async { drop(ended.await) }));
        Ok(Beside { runtime, running, end, serving })
    }

    /// Ends in order, and gives what serving came to.
    pub(super) fn end(self) -> Result<()> {
        // It may have ended by itself.
        let _ = self.end.send(());
        let served = self.runtime.block_on(self.serving)?;
        self.runtime.shutdown_timeout(LEFT_BEHIND_AFTER);
        self.running.join();
        served
    }
}

fn bind(address: SocketAddr) -> Result<Bound> {
    if !access::may_listen(address) {
        let detail = format!(
            "{address} can be reached from other machines, and nobody would be asked who they are; listen on 127.0.0.1"
        );
        return Err(Problem::wrong(detail).into());
    }
    Ok(Bound::to(address)?)
}

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

fn host(place: &Place, arguments: &arguments::Serve) -> Result<(Host, Running)> {
    if arguments.read_only {
        return Ok(Host::past(&place.data).map_err(Problem::from)?);
    }
    let standalone = place.open_or_create(arguments.partitions.unwrap_or(PARTITIONS))?;
    Ok(Host::embedded(standalone).map_err(Problem::from)?)
}

fn tell_of(host: &Host, bound: &Bound, output: &mut Output) -> Result<()> {
    let (url, log, read_only) = (format!("http://{}", bound.address()), host.log(), host.is_read_only());
    let begun = json!({ "told": "listening", "url": url, "incarnation": log.incarnation().to_string(),
        "partitions": log.partitions(), "read_only": read_only });
    let how = if read_only { ", to read" } else { "" };
    tell(output, &begun, &format!("listening on {url}{how}; whoever reaches this address may do everything"))
}

async fn serve_until(host: Host, bound: Bound, end: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    let streams = Streams::start(host.clone()).await.map_err(Problem::from)?;
    Ok(serve(Gateway::new(host, streams, Limits::default()), bound, end).await?)
}
