//! What all clients of the brokers have in common: how they are made, what they log, and what their errors mean.

use std::fmt;

use rdkafka::{
    ClientConfig, ClientContext,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    consumer::{BaseConsumer, ConsumerContext},
    error::{KafkaError, RDKafkaErrorCode},
    producer::{DeliveryResult, ProducerContext, ThreadedProducer},
};

use super::settings::Settings;
use crate::LogError;

/// A client that logs by `tracing`, without secrets. What librdkafka tells while it connects again is of no use to an
/// operator at a higher level: every call says whether it succeeded.
pub(super) struct Quiet {
    settings: Settings,
}

impl Quiet {
    pub(super) fn new(settings: &Settings) -> Quiet {
        Quiet { settings: settings.clone() }
    }
}

impl ClientContext for Quiet {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        let message = self.settings.passthrough.without_secrets(message);
        match level {
            RDKafkaLogLevel::Debug => tracing::trace!(target: "librdkafka", facility, "{message}"),
            _ => tracing::debug!(target: "librdkafka", facility, "{message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let reason = self.settings.passthrough.without_secrets(reason);
        tracing::debug!(target: "librdkafka", %error, "{reason}");
    }
}

impl ConsumerContext for Quiet {}

impl ProducerContext for Quiet {
    type DeliveryOpaque = ();

    /// A transaction knows by itself whether all of it was delivered.
    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

impl fmt::Debug for Quiet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quiet").finish_non_exhaustive()
    }
}

/// A consumer that is given its partitions by hand.
pub(super) fn create_consumer(config: &ClientConfig, settings: &Settings) -> Result<BaseConsumer<Quiet>, LogError> {
    BaseConsumer::from_config_and_context(config, Quiet::new(settings)).map_err(|error| refused(&error, settings))
}

/// A producer whose deliveries are awaited by its transactions.
pub(super) fn create_transactional(
    config: &ClientConfig,
    settings: &Settings,
) -> Result<ThreadedProducer<Quiet>, LogError> {
    ThreadedProducer::from_config_and_context(config, Quiet::new(settings)).map_err(|error| refused(&error, settings))
}

/// A client that could not be made: a setting is wrong.
pub(super) fn refused(error: &KafkaError, settings: &Settings) -> LogError {
    let detail = match error {
        KafkaError::ClientConfig(_, description, key, _) => format!("{key}: {description}"),
        other => other.to_string(),
    };
    LogError::Setting(settings.passthrough.without_secrets(&detail))
}

/// Whether no broker answered, which passes.
pub(super) fn is_unanswered(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::AllBrokersDown
            | Code::BrokerTransportFailure
            | Code::Resolve
            | Code::OperationTimedOut
            | Code::RequestTimedOut
    )
}

/// A topic that was just made, or a broker that has just gone: in a moment it is known who leads the partition.
pub(super) fn lacks_leader(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(code, Code::NotLeaderForPartition | Code::LeaderNotAvailable | Code::UnknownPartition)
}

/// A request that failed.
pub(super) fn failed(what: &str, error: &KafkaError) -> LogError {
    use RDKafkaErrorCode as Code;
    match error.rdkafka_error_code() {
        Some(code) if is_unanswered(code) => LogError::Unreachable(format!("{what}: {error}")),
        Some(code) if lacks_leader(code) => LogError::Unreachable(format!("{what}: {error}")),
        Some(
            Code::MessageTimedOut
            | Code::TimedOutQueue
            | Code::CoordinatorNotAvailable
            | Code::NotCoordinator
            | Code::CoordinatorLoadInProgress
            | Code::WaitingForCoordinator,
        ) => LogError::Unreachable(format!("{what}: {error}")),
        _ => LogError::Io(format!("{what}: {error}")),
    }
}
