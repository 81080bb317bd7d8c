//! How brokers are named on the command line.

use anyhow::Result;
use clap::{Args, ValueEnum};
use recant_eventlog::kafka::{Names, Passthrough, Settings};

use crate::failure::Problem;

/// Which log there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogArgument {
    /// In the data directory
    Embedded,
    /// On the brokers that --brokers names
    Kafka,
}

/// A log on Kafka.
#[derive(Debug, Args)]
pub struct KafkaArguments {
    /// Where the log is
    #[arg(long, global = true, env = "RECANT_LOG", value_name = "LOG", value_enum, default_value_t = LogArgument::Embedded)]
    pub log: LogArgument,
    /// The brokers to begin with, for --log kafka
    #[arg(long, global = true, env = "RECANT_BROKERS", value_name = "HOST:PORT,…")]
    pub brokers: Option<String>,
    /// Put before the names of topics, group and transactions, for several logs on the same brokers
    #[arg(long, global = true, env = "RECANT_INSTANCE", value_name = "NAME")]
    pub instance: Option<String>,
    /// A setting of librdkafka, such as security.protocol=ssl; a secret as KEY=@FILE, or in RECANT_KAFKA_… (RECANT_KAFKA_SASL_PASSWORD)
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub kafka: Vec<String>,
}

impl KafkaArguments {
    /// What was named; nothing if the log is in the data directory.
    pub fn settings(&self) -> Result<Option<Settings>> {
        if self.log == LogArgument::Embedded { Ok(None) } else { self.of_brokers("--log kafka").map(Some) }
    }

    /// What was named of brokers; `needed_by` is what needs them.
    pub fn of_brokers(&self, needed_by: &str) -> Result<Settings> {
        let Some(brokers) = self.brokers.clone().filter(|brokers| !brokers.is_empty()) else {
            return Err(Problem::wrong(format!("{needed_by} needs --brokers HOST:PORT, or RECANT_BROKERS")).into());
        };
        let mut passthrough = Passthrough::default();
        passthrough.set_from(
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        )?;
        for setting in &self.kafka {
            passthrough.set_typed(setting)?;
        }
        Ok(Settings { brokers, names: Names::of(self.instance.as_deref())?, passthrough })
    }
}
