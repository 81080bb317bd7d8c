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
    serve::{Server, ServerOptions, Told, phases::Ended},
    standalone::log_created,
};
use recant_proto::position::Incarnation;
use serde_json::{Value, json};

use super::gateway::{self, Beside, Front};
use crate::{
    arguments, escape,
    failure::{Exit, Problem},
    output::{Output, counted},
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
    let server = Server::join(
        log,
        ServerOptions {
            data: place.data.clone(),
            static_member: arguments.static_member.clone(),
            keeps_standbys: arguments.standby.is_some(),
            memory: Memory::within(place.memory_budget_bytes),
        },
    )?;
    let http = match front {
        Some(front) => Some(Beside::begin(front, &settings, server.held(), output)?),
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
        Told::Ended { partition, ended } => format!("partition {partition}: {}", how(*ended).replace('_', " ")),
    }
}

fn how(ended: Ended) -> &'static str {
    match ended {
        Ended::GivenUp => "given_up",
        Ended::Lost => "lost",
    }
}
