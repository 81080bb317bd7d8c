//! `recant repartition`: a log on Kafka in topics with another number of partitions.

use anyhow::Result;
use recant_eventlog::kafka::{CopyTarget, KafkaLog, Names};
use recant_processor::moving::{self, Renamed};
use recant_proto::position::Incarnation;

use super::export::{cannot_move, tell};
use crate::{
    arguments,
    brokers::KafkaArguments,
    failure::{Exit, Problem},
    output::Output,
    place::Place,
    progress::Progress,
};

/// Runs the command.
pub fn run(
    place: &Place,
    kafka: &KafkaArguments,
    arguments: &arguments::Repartition,
    output: &mut Output,
) -> Result<Exit> {
    let settings = kafka.of_brokers("repartition")?;
    if kafka.instance.as_deref() == Some(&*arguments.to_instance) {
        return Err(Problem::wrong("--to-instance names the log itself; a copy needs topics of its own").into());
    }
    let mut new_settings = settings.clone();
    new_settings.names = Names::of(Some(&arguments.to_instance))?;
    let log = KafkaLog::open(settings)?;
    let target = CopyTarget::create(new_settings, arguments.partitions)?;
    let renamed =
        Renamed { incarnation: Incarnation(*uuid::Uuid::new_v4().as_bytes()), partitions: arguments.partitions };
    let progress = Progress::new("copying and folding events");
    std::fs::create_dir_all(&place.data).map_err(|error| Problem::file(&place.data, &error))?;
    let moved = moving::repartition(&log, &target, renamed, &place.data, &|events| progress.add(events))
        .map_err(cannot_move)?;
    drop(progress);
    target.finish()?;
    tell(&moved, &renamed.incarnation.to_string(), renamed.partitions, output)
}
