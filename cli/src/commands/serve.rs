//! `recant serve`: a log in the data directory over HTTP (`gateway.rs`); or the partitions of a log on Kafka that the group gives to this
//! process.

use std::sync::{Arc, atomic::AtomicBool};

use anyhow::Result;
use recant_eventlog::{
    ReadLog,
    kafka::{KafkaLog, NewLog},
};
use recant_processor::{
    memory::Memory,
    serve::{ServeError, Server, ServerOptions, SnapshotOptions, Told, phases::Ended},
    snapshots::{Keep, SnapshotError},
    standalone::log_created,
};
use recant_proto::position::Incarnation;
use serde_json::{Value, json};

use super::gateway::{self, Beside, Front};
use crate::{
    arguments, escape,
    failure::{Exit, Problem},
    output::{Output, bytes, counted},
    place::Place,
};

/// Of topics that are created.
const PARTITIONS: u32 = 16;

/// Runs the command.
pub fn run(place: &Place, arguments: &arguments::Serve, output: &mut Output) -> Result<Exit> {
    let Some(settings) = place.kafka.clone() else {
        return gateway::run(place, arguments, output);
    };
    // Before anything is measured.
    let front = match arguments.listen {
        Some(address) => Some(Front::open(address, arguments.access.as_deref(), &place.data)?),
        None => None,
    };
    if front.is_none() {
        crate::start_tracing();
    }
    let stop = stop_on_signals()?;
    let brokers = settings.brokers.clone();
    let new = NewLog {
        incarnation: Incarnation(*uuid::Uuid::new_v4().as_bytes()),
        partitions: arguments.partitions.unwrap_or(PARTITIONS),
        first_event: &|incarnation, partitions, partition| log_created(incarnation, partitions, partition, false),
    };
    let log = KafkaLog::open_or_create(settings.clone(), &new)?;
    let begun = json!({ "told": "joining", "brokers": brokers, "group": log.settings().names.group(),
        "incarnation": log.incarnation().to_string(), "partitions": log.partitions() });
    tell(
        output,
        &begun,
        &format!(
            "joining {} at {brokers}, {}",
            log.settings().names.group(),
            counted(u64::from(log.partitions()), "partition")
        ),
    )?;
    let mut server = Server::join(
        log,
        ServerOptions {
            data: place.data.clone(),
            static_member: arguments.static_member.clone(),
            keeps_standbys: arguments.standby.is_some(),
            memory: Memory::within(place.memory_budget_bytes),
            snapshots: snapshots_wanted(&arguments.snapshots),
        },
    )
    .map_err(cannot_serve)?;
    let http = match front {
        Some(front) => {
            server = server.answering_at(arguments.advertise.clone().unwrap_or_else(|| front.url()));
            Some(Beside::begin(front, place, &settings, &server, output)?)
        }
        None => None,
    };
    let mut written = Ok(());
    let mut halted = false;
    let served = server.run(&stop, &mut |told| {
        halted |= matches!(told, Told::Halted { .. });
        let (json, line) = (told_json(told), told_line(told));
        if written.is_ok() {
            written = tell(output, &json, &line);
        }
    });
    http.map_or(Ok(()), Beside::end)?;
    served?;
    written?;
    tell(output, &json!({ "told": "stopped" }), "stopped")?;
    Ok(if halted { Exit::CouldNot } else { Exit::Done })
}

/// Turns true at the first signal to end. A second one ends the process at once, as a crash does: nothing is lost by that.
pub(super) fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

fn snapshots_wanted(arguments: &arguments::snapshots::Snapshots) -> Option<SnapshotOptions> {
    let age_ms = i64::try_from(arguments.keep_for.as_millis()).unwrap_or(i64::MAX / 2);
    let keep = Keep { count: arguments.keep.into(), age_ms };
    Some(SnapshotOptions { url: arguments.url.clone()?, interval: arguments.every, keep })
}

fn cannot_serve(error: ServeError) -> anyhow::Error {
    match error {
        ServeError::Log(error) => error.into(),
        ServeError::Snapshots(error @ SnapshotError::Place { .. }) => Problem::wrong(error.to_string()).into(),
        other => other.into(),
    }
}

pub(super) fn tell(output: &mut Output, json: &Value, line: &str) -> Result<()> {
    if output.is_json() {
        output.json_line(json)?;
    } else {
        output.line(line)?;
    }
    Ok(output.flush()?)
}

fn told_json(told: &Told) -> Value {
    match told {
        Told::Assigned(partitions) => json!({ "told": "assigned", "partitions": partitions }),
        Told::Serving { partition, next_offset } => {
            json!({ "told": "serving", "partition": partition, "position": format!("{partition}:{next_offset}") })
        }
        Told::Interrupted { partition, error } => {
            json!({ "told": "interrupted", "partition": partition, "detail": error })
        }
        Told::Halted { partition, error } => {
            let problem = Problem::of_driver(error);
            json!({ "told": "halted", "partition": partition, "problem": problem })
        }
        Told::SnapshotMade { partition, next_offset, bytes, uploaded_bytes } => {
            json!({ "told": "snapshot", "partition": partition, "position": format!("{partition}:{next_offset}"),
                "bytes": bytes, "uploaded_bytes": uploaded_bytes })
        }
        Told::SnapshotFailed { partition, error } => {
            json!({ "told": "snapshot_failed", "partition": partition, "detail": error })
        }
        Told::SnapshotSkipped { partition, snapshot, detail } => {
            json!({ "told": "snapshot_skipped", "partition": partition, "snapshot": snapshot, "detail": detail })
        }
        Told::Restored { partition, next_offset, bytes } => {
            json!({ "told": "restored", "partition": partition, "position": format!("{partition}:{next_offset}"),
                "bytes": bytes })
        }
        Told::RetentionAlarm { partition, earliest, oldest_snapshot, retention_ms } => {
            let mut told = json!({ "told": "retention_alarm", "partition": partition,
                "earliest": format!("{partition}:{earliest}"),
                "oldest_snapshot": format!("{partition}:{oldest_snapshot}") });
            if let Some(retention_ms) = retention_ms {
                told["retention_ms"] = json!(retention_ms);
            }
            told
        }
        Told::StatePutAside { partition, error, kept } => {
            json!({ "told": "state_put_aside", "partition": partition, "detail": error, "kept": kept })
        }
        Told::Ended { partition, ended } => json!({ "told": how(*ended), "partition": partition }),
    }
}

fn told_line(told: &Told) -> String {
    match told {
        Told::Assigned(partitions) => {
            let list: Vec<String> = partitions.iter().map(u32::to_string).collect();
            format!("assigned: {}", if list.is_empty() { "nothing new".to_owned() } else { list.join(", ") })
        }
        Told::Serving { partition, next_offset } => format!("partition {partition}: serving from {next_offset} on"),
        Told::Interrupted { partition, error } => {
            format!("partition {partition}: interrupted, and tried again: {}", escape::line(error))
        }
        Told::Halted { partition, error } => {
            format!("partition {partition}: halted: {}", escape::block(&error.to_string()))
        }
        Told::SnapshotMade { partition, next_offset, bytes: held, uploaded_bytes } => {
            let (held, new) = (bytes(*held), bytes(*uploaded_bytes));
            format!("partition {partition}: a snapshot up to {next_offset}, {held}, of which {new} are new")
        }
        Told::SnapshotFailed { partition, error } => {
            format!("partition {partition}: no snapshot was made: {}", escape::line(error))
        }
        Told::SnapshotSkipped { partition, snapshot, detail } => {
            let (snapshot, detail) = (escape::line(snapshot), escape::line(detail));
            format!("partition {partition}: the snapshot {snapshot} is skipped: {detail}")
        }
        Told::Restored { partition, next_offset, bytes: downloaded } => {
            format!("partition {partition}: restored a snapshot up to {next_offset}, {}", bytes(*downloaded))
        }
        Told::RetentionAlarm { partition, earliest, oldest_snapshot, retention_ms } => {
            let kept = retention_ms.map(|kept_ms| format!(", and events are kept for {kept_ms} ms alone"));
            format!(
                "partition {partition}: recant.events begins at {earliest}, the oldest snapshot ends at {oldest_snapshot}{}: set its retention.ms to -1",
                kept.unwrap_or_default()
            )
        }
        Told::StatePutAside { partition, error, kept } => format!(
            "partition {partition}: its state is made anew, and the old one kept in {}: {}",
            escape::line(&kept.display().to_string()),
            escape::block(error)
        ),
        Told::Ended { partition, ended } => format!("partition {partition}: {}", how(*ended).replace('_', " ")),
    }
}

fn how(ended: Ended) -> &'static str {
    match ended {
        Ended::GivenUp => "given_up",
        Ended::Lost => "lost",
    }
}
