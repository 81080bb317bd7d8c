//! `recant serve` over HTTP: on a log in the data directory, with its processor in the same process; or beside the process that serves
//! partitions of a log on Kafka.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::Result;
use recant_eventlog::{
    ReadLog,
    compacted::CompactedTopic,
    embedded::EmbeddedCompactedTopic,
    kafka::{KafkaCompactedTopic, KafkaLog, Settings},
};
use recant_gateway::{
    access::Access,
    host::{Host, Running},
    http::{Bound, Gateway, Limits, serve},
    observe::Observing,
    stream::Streams,
    subscriptions::Subscriptions,
};
use recant_processor::serve::Server;
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
    place::Place,
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
    let front = Front::open(arguments.listen.unwrap_or(LISTEN), arguments.access.as_deref(), &place.data)?;
    let (host, running) = host(place, arguments)?;
    let applied = host.applied();
    let (mut terminated, mut interrupted) = {
        let _context = front.runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    let end = async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    };
    front.tell_of(&host, output)?;
    let Front { runtime, bound, access, observing } = front;
    let topic = match host.is_read_only() {
        true => None,
        false => Some(subscriptions_topic(place, &host)?),
    };
    runtime.block_on(serve_until(host, topic, bound, access, observing, end))?;
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
    pub(super) fn begin(
        front: Front,
        place: &Place,
        settings: &Settings,
        server: &Server,
        output: &mut Output,
    ) -> Result<Beside> {
        let log = Arc::new(KafkaLog::open(settings.clone())?);
        let name = settings.names.subscriptions().to_owned();
        let topic: Arc<dyn CompactedTopic> =
            Arc::new(KafkaCompactedTopic::open(settings.clone(), name, log.partitions())?);
        let (host, running) =
            Host::kafka(log, place.door(settings)?, server.held(), server.members()?).map_err(Problem::from)?;
        let (end, ended) = oneshot::channel();
        front.tell_of(&host, output)?;
        let Front { runtime, bound, access, observing } = front;
        // It ends, too, if nobody is left who could say so.
        let serving = runtime.spawn(serve_until(host, Some(topic), bound, access, observing, async {
            drop(ended.await);
        }));
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

/// What every server over HTTP has before it has anything to serve: an address, who may call, and what observes it.
pub(super) struct Front {
    runtime: Runtime,
    bound: Bound,
    access: Arc<Access>,
    observing: Observing,
}

impl Front {
    /// Listens, if nobody can do what he may not; and begins to measure and to log.
    pub(super) fn open(address: SocketAddr, settings: Option<&Path>, data: &Path) -> Result<Front> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let access = runtime.block_on(Access::open(settings, address));
        let access = Arc::new(access.map_err(|error| Problem::wrong(error.to_string()))?);
        let bound = Bound::to(address)?;
        let observing = runtime.block_on(async { Observing::start(data) });
        let observing = observing.map_err(|error| Problem::wrong(error.to_string()))?;
        Ok(Front { runtime, bound, access, observing })
    }

    /// Where it answers, as far as it knows itself: behind an address that stands for all it is called by the machine's name.
    pub(super) fn url(&self) -> String {
        let address = self.bound.address();
        let scheme = if self.access.is_encrypted() { "https" } else { "http" };
        if !address.ip().is_unspecified() {
            return format!("{scheme}://{address}");
        }
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        format!("{scheme}://{}:{}", host.trim(), address.port())
    }

    fn tell_of(&self, host: &Host, output: &mut Output) -> Result<()> {
        let scheme = if self.access.is_encrypted() { "https" } else { "http" };
        let (url, warnings) = (format!("{scheme}://{}", self.bound.address()), self.access.told());
        let (log, read_only) = (host.log(), host.is_read_only());
        let begun = json!({ "told": "listening", "url": url, "incarnation": log.incarnation().to_string(),
            "partitions": log.partitions(), "read_only": read_only, "warnings": warnings });
        let how = if read_only { ", to read" } else { "" };
        let warned: String = warnings.iter().map(|warning| format!("; {warning}")).collect();
        tell(output, &begun, &format!("listening on {url}{how}{warned}"))
    }
}

fn host(place: &Place, arguments: &arguments::Serve) -> Result<(Host, Running)> {
    if arguments.read_only {
        return Ok(Host::past(&place.data).map_err(Problem::from)?);
    }
    let standalone = place.open_or_create(arguments.partitions.unwrap_or(PARTITIONS))?;
    Ok(Host::embedded(standalone).map_err(Problem::from)?)
}

/// Beside the log, in the data directory.
fn subscriptions_topic(place: &Place, host: &Host) -> Result<Arc<dyn CompactedTopic>> {
    let directory = place.data.join("subscriptions");
    Ok(Arc::new(EmbeddedCompactedTopic::open(&directory, host.log().partitions())?))
}

async fn serve_until(
    host: Host,
    topic: Option<Arc<dyn CompactedTopic>>,
    bound: Bound,
    access: Arc<Access>,
    observing: Observing,
    end: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let streams = Streams::start(host.clone()).await.map_err(Problem::from)?;
    let subscriptions = match topic {
        Some(topic) => Some(Subscriptions::start(host.clone(), streams.clone(), topic, access.clone()).await?),
        None => None,
    };
    let mut gateway =
        Gateway::new(host, streams, Limits::default()).with_access(access).with_measures(observing.registry());
    gateway.subscriptions = subscriptions;
    let served = serve(gateway, bound, end).await;
    // What sends the last measures waits for this runtime, and so must not hold up one of its threads.
    tokio::task::spawn_blocking(|| observing.end()).await?;
    Ok(served?)
}
