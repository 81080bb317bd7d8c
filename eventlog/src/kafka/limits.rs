//! How long brokers let a transaction be open.
//!
//! A cascade is published in one transaction, however large it is, and a transaction that is open for longer than its producer said when
//! it took its identity is aborted, whole. So a producer says as much as the brokers allow (`transaction.max.timeout.ms`). It is asked
//! for whenever a partition is taken: an operator who finds a cascade too large for the limit raises it on the brokers, and the next
//! attempt has it. What a long time-out would hold up where an owner died, a successor ends when it takes the identity.

use rdkafka::{
    admin::{AdminOptions, ResourceSpecifier},
    consumer::{BaseConsumer, Consumer},
};

use super::{REQUEST_TIMEOUT, client::Quiet, settings::Settings, topics};
use crate::Topic;

/// What brokers allow as they come; also taken where they do not tell.
pub(super) const TRANSACTION_TIMEOUT_MS: u32 = 15 * 60 * 1000;
/// librdkafka's largest.
const TRANSACTION_TIMEOUT_MS_MAX: u32 = i32::MAX as u32;

/// The time-out of a transaction: the least of what the brokers allow.
pub(super) fn transaction_timeout_ms(asker: &BaseConsumer<Quiet>, settings: &Settings) -> u32 {
    let least = least_of_brokers(asker, settings);
    if least.is_none() {
        tracing::debug!(
            taken_ms = TRANSACTION_TIMEOUT_MS,
            "the brokers do not tell transaction.max.timeout.ms (it needs DescribeConfigs on the cluster)"
        );
    }
    least.unwrap_or(TRANSACTION_TIMEOUT_MS)
}

fn least_of_brokers(asker: &BaseConsumer<Quiet>, settings: &Settings) -> Option<u32> {
    let metadata = asker.fetch_metadata(Some(settings.names.topic(Topic::Events)), REQUEST_TIMEOUT).ok()?;
    let brokers: Vec<ResourceSpecifier<'_>> =
        metadata.brokers().iter().map(|broker| ResourceSpecifier::Broker(broker.id())).collect();
    let options = AdminOptions::new().request_timeout(Some(REQUEST_TIMEOUT));
    let admin = topics::admin(settings).ok()?;
    let answers = pollster::block_on(admin.describe_configs(&brokers, &options)).ok()?;
    let allowed = answers.into_iter().map(|answer| {
        let config = answer.ok()?;
        let allowed_ms: u64 = topics::setting(&config, "transaction.max.timeout.ms")?.parse().ok()?;
        Some(u32::try_from(allowed_ms).unwrap_or(u32::MAX).min(TRANSACTION_TIMEOUT_MS_MAX))
    });
    // One that does not tell may allow less.
    allowed.collect::<Option<Vec<u32>>>()?.into_iter().min()
}
