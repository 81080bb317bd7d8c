//! What the commands that move a log take.

use clap::{Args, ValueEnum};

/// Where events go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportTo {
    /// To standard output, one event a line, as `recant append` takes them
    Jsonl,
    /// To new topics on the brokers that --brokers names, where `recant serve` goes on with them
    Kafka,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  recant export > events.jsonl\n  recant export --space shop | recant append - --data ./other\n  recant export --to kafka --brokers localhost:9092 --data ./recant-data\n\nThe how-to is docs/how-to/kafka.md."
)]
pub struct Export {
    /// Where to
    #[arg(long, value_name = "WHERE", value_enum, default_value_t = ExportTo::Jsonl)]
    pub to: ExportTo,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  recant repartition --partitions 64 --to-instance wide --brokers localhost:9092\n  recant serve --log kafka --brokers localhost:9092 --instance wide\n\nNobody may write to the old log meanwhile. The how-to is docs/how-to/kafka.md."
)]
pub struct Repartition {
    /// Partitions of the new topics; fixed for ever
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub partitions: u32,
    /// What the new log is called: none of its topics may exist
    #[arg(long, value_name = "NAME")]
    pub to_instance: String,
}
