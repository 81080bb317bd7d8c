//! A process that serves as `recant serve` does, and at a step that was named beforehand kills itself, or stands still with all
//! its threads (SIGSTOP) until it is let go on (SIGCONT).
//!
//! The steps are those that the shipped code traces (`recant::step`): within the acquiring of a partition, within a commit, and
//! between the steps of the driver. There are no failpoints in it; whoever listens is this process's subscriber.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use recant_eventlog::kafka::KafkaLog;
use recant_processor::{
    memory::Memory,
    serve::{Server, ServerOptions, SnapshotOptions, Told},
    snapshots::Keep,
};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::json;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use super::settings;
use crate::crash::gun::{die, tell};

/// Every step at which a process can be killed, in the order in which they come.
pub const STEPS: [&str; 21] = [
    "acquiring",
    "fenced",
    "acquired",
    "recovering",
    "recovered",
    "polled",
    "folded",
    "transaction_begins",
    "transaction_begun",
    "output_sent",
    "outputs_sent",
    "position_sent",
    "transaction_committed",
    "published",
    "stored",
    "idle",
    "snapshot_checkpointed",
    "snapshot_uploaded",
    "snapshot_made",
    "snapshot_downloaded",
    "snapshot_restored",
];

/// Those that come only where the disk was lost.
pub const STEPS_OF_RESTORING: [&str; 2] = ["snapshot_downloaded", "snapshot_restored"];

/// What happens to the process when a step is reached for the `count`th time.
struct Listener {
    act: Act,
    step: String,
    count: u64,
    reached: AtomicU64,
}

#[derive(Clone, Copy)]
enum Act {
    Die,
    StandStill,
}

/// The step that an event names.
struct Named<'a> {
    wanted: &'a str,
    is_it: bool,
}

impl Visit for Named<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.is_it |= field.name() == "step" && value == self.wanted;
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "recant::step"
    }

    fn event(&self, event: &Event<'_>) {
        let mut named = Named { wanted: &self.step, is_it: false };
        event.record(&mut named);
        if named.is_it && self.reached.fetch_add(1, Ordering::SeqCst) + 1 == self.count {
            match self.act {
                Act::Die => {
                    tell(&json!({ "told": "dying", "step": self.step }).to_string());
                    die();
                }
                Act::StandStill => {
                    tell(&json!({ "told": "standing_still", "step": self.step }).to_string());
                    kill_process(getpid(), Signal::STOP).expect("one may stop oneself");
                }
            }
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Serves as ordered, `brokers=…`, `instance=…`, `data=…`, and `die=STEP:COUNT` or `stand_still=STEP:COUNT`, until it dies.
pub fn serve(arguments: &[String]) -> ExitCode {
    let given: BTreeMap<&str, &str> = arguments.iter().filter_map(|argument| argument.split_once('=')).collect();
    let (act, at) = given.get("die").map_or_else(|| (Act::StandStill, given["stand_still"]), |at| (Act::Die, *at));
    let (step, count) = at.split_once(':').expect("STEP:COUNT");
    let count = count.parse().expect("a number");
    let listener = Listener { act, step: step.to_owned(), count, reached: AtomicU64::new(0) };
    tracing::subscriber::set_global_default(listener).expect("it is the first");
    let log = KafkaLog::open(settings(given["brokers"], given["instance"])).expect("the log is there");
    let options = ServerOptions {
        data: PathBuf::from(given["data"]),
        // Back under its name it has its partitions at once, and need not wait until it is given up for dead.
        static_member: Some("victim".to_owned()),
        keeps_standbys: false,
        memory: Memory::within(64 << 20),
        snapshots: Some(SnapshotOptions {
            url: format!("{}-snapshots", given["data"]),
            interval: Duration::from_millis(200),
            keep: Keep { count: 2, age_ms: 0 },
        }),
    };
    let server = Server::join(log, options).expect("it joins the group");
    server
        .run(&AtomicBool::new(false), &mut |told| {
            let (what, partition) = match told {
                Told::Serving { partition, .. } => ("serving", partition),
                Told::Interrupted { partition, .. } => ("interrupted", partition),
                _ => return,
            };
            tell(&json!({ "told": what, "partition": partition }).to_string());
        })
        .expect("it serves");
    ExitCode::SUCCESS
}
