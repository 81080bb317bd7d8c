//! The topics of a log: made with the settings that it needs, or found as an operator made them, and checked at every start.

use std::time::Duration;

use rdkafka::{
    admin::{AdminClient, AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication},
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
    types::RDKafkaRespErr,
};
use recant_proto::validate::DEFAULT_LIMITS;

use super::{
    REQUEST_TIMEOUT,
    client::{Quiet, failed, refused},
    settings::Settings,
};
use crate::{LogError, Topic};

/// `max.message.bytes` of `recant.events`: twice what an event may have, so that one that is too large can be told of.
pub(super) const EVENT_RECORD_BYTES_MAX: usize = 2 * DEFAULT_LIMITS.max_event_bytes as usize;
/// Of the other topics: a rejection holds the refused record's key twice, and everything else of it.
pub(super) const RECORD_BYTES_MAX: usize = 3 * EVENT_RECORD_BYTES_MAX;

const THIRTY_DAYS_MS: u64 = 30 * 24 * 60 * 60 * 1000;
/// What a topic gets where there are brokers for it.
const REPLICATION: usize = 3;

/// Whose clock `recant.events` has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventsClock {
    /// As every log has it.
    Brokers,
    /// While it is filled with events of another log, at their times.
    Writers,
}

/// All that is set of `recant.events`.
pub(super) fn settings_of_events(clock: EventsClock, replication: usize) -> Vec<(&'static str, String)> {
    let clock = match clock {
        EventsClock::Brokers => "LogAppendTime",
        EventsClock::Writers => "CreateTime",
    };
    vec![
        ("min.insync.replicas", in_sync(replication).to_owned()),
        ("unclean.leader.election.enable", "false".to_owned()),
        ("cleanup.policy", "delete".to_owned()),
        ("retention.ms", "-1".to_owned()),
        ("retention.bytes", "-1".to_owned()),
        ("message.timestamp.type", clock.to_owned()),
        ("max.message.bytes", EVENT_RECORD_BYTES_MAX.to_string()),
    ]
}

pub(super) fn in_sync(replication: usize) -> &'static str {
    if replication == REPLICATION { "2" } else { "1" }
}

/// On how many brokers a topic is kept.
pub(super) fn replication(asker: &BaseConsumer<Quiet>, settings: &Settings) -> Result<usize, LogError> {
    Ok(find(asker, settings)?.brokers.clamp(1, REPLICATION))
}

/// Refuses to make a log where there is one, or what is left of one.
pub(super) fn refuse_existing(asker: &BaseConsumer<Quiet>, settings: &Settings) -> Result<(), LogError> {
    match find(asker, settings)?.names.into_iter().next() {
        None => Ok(()),
        Some(topic) => Err(LogError::Topic {
            topic,
            detail: "it is there already, and a copy needs topics of its own. Name another instance; or, if it is what a copy that was broken off has left, delete it, and the others of its instance, first (kafka-topics.sh --delete --topic …)".to_owned(),
        }),
    }
}

/// Makes the topics that are not there; whether that of the events was made now.
pub(super) fn create_missing(
    asker: &BaseConsumer<Quiet>,
    settings: &Settings,
    partitions: u32,
    clock: EventsClock,
) -> Result<bool, LogError> {
    let names = &settings.names;
    let found = find(asker, settings)?;
    let partitions = found.partitions_of_events.unwrap_or(partitions);
    let replication = found.brokers.clamp(1, REPLICATION);
    let bytes = RECORD_BYTES_MAX.to_string();
    let of_events = settings_of_events(clock, replication);
    let thirty_days = THIRTY_DAYS_MS.to_string();
    let plain =
        |name, partitions: u32| NewTopic::new(name, partitions as i32, TopicReplication::Fixed(replication as i32));
    let topic = |name, partitions: u32| {
        plain(name, partitions)
            .set("min.insync.replicas", in_sync(replication))
            .set("unclean.leader.election.enable", "false")
    };
    let all = [
        of_events
            .iter()
            .fold(plain(names.topic(Topic::Events), partitions), |topic, (key, value)| topic.set(key, value)),
        topic(names.topic(Topic::Changes), partitions)
            .set("cleanup.policy", "delete")
            .set("retention.ms", &thirty_days)
            .set("max.message.bytes", &bytes),
        topic(names.topic(Topic::Rejected), partitions)
            .set("cleanup.policy", "delete")
            .set("retention.ms", &thirty_days)
            .set("max.message.bytes", &bytes),
        topic(names.members(), 1).set("cleanup.policy", "compact"),
    ];
    let missing: Vec<_> = all.iter().filter(|topic| !found.names.iter().any(|name| name == topic.name)).collect();
    if missing.is_empty() {
        return Ok(false);
    }
    let admin = admin(settings)?;
    // Until the controller has made them; clients see them some moments later.
    let options =
        AdminOptions::new().request_timeout(Some(REQUEST_TIMEOUT)).operation_timeout(Some(Duration::from_secs(5)));
    let results = pollster::block_on(admin.create_topics(missing, &options))
        .map_err(|error| failed("creating topics", &error))?;
    let mut made_events = false;
    for result in results {
        match result {
            Ok(name) => made_events |= name == names.topic(Topic::Events),
            // Another process was quicker.
            Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((topic, code)) => {
                let detail = format!(
                    "it cannot be created: {code}. Create it, or let recant: docs/how-to/kafka.md has the settings"
                );
                return Err(LogError::Topic { topic, detail });
            }
        }
    }
    wait_for(asker, settings)?;
    Ok(made_events)
}

/// Waits until the brokers show all topics.
fn wait_for(asker: &BaseConsumer<Quiet>, settings: &Settings) -> Result<(), LogError> {
    for _ in 0..100 {
        if find(asker, settings)?.names.len() == Topic::ALL.len() + 1 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(LogError::Unreachable("the brokers do not show the topics that were created".to_owned()))
}

/// What there is.
struct Found {
    names: Vec<String>,
    partitions_of_events: Option<u32>,
    brokers: usize,
}

fn find(asker: &BaseConsumer<Quiet>, settings: &Settings) -> Result<Found, LogError> {
    let names = &settings.names;
    let mut found = Found { names: Vec::new(), partitions_of_events: None, brokers: 0 };
    for name in Topic::ALL.map(|topic| names.topic(topic)).into_iter().chain([names.members()]) {
        let metadata = asker.fetch_metadata(Some(name), REQUEST_TIMEOUT).map_err(|error| {
            // Whatever the cause, what is not right is the way to the brokers.
            LogError::Unreachable(format!("{}: {error}", settings.brokers))
        })?;
        found.brokers = metadata.brokers().len();
        for topic in metadata.topics() {
            match topic.error() {
                None if !topic.partitions().is_empty() => {
                    found.names.push(topic.name().to_owned());
                    if name == names.topic(Topic::Events) {
                        found.partitions_of_events = Some(topic.partitions().len() as u32);
                    }
                }
                None | Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) => {}
                Some(code) => {
                    let code = RDKafkaErrorCode::from(code);
                    return Err(LogError::Topic { topic: name.to_owned(), detail: code.to_string() });
                }
            }
        }
    }
    Ok(found)
}

/// Checks what is there, whoever made it; gives the number of partitions.
pub(super) fn check(asker: &BaseConsumer<Quiet>, settings: &Settings) -> Result<u32, LogError> {
    let partitions = count_partitions(asker, settings)?;
    check_settings(settings)?;
    Ok(partitions)
}

/// How many partitions the topics have, which must be as many in each.
pub(super) fn count_partitions(asker: &BaseConsumer<Quiet>, settings: &Settings) -> Result<u32, LogError> {
    let names = &settings.names;
    let mut partitions = None;
    for topic in Topic::ALL {
        let name = names.topic(topic);
        let metadata = asker
            .fetch_metadata(Some(name), REQUEST_TIMEOUT)
            .map_err(|error| LogError::Unreachable(format!("{}: {error}", settings.brokers)))?;
        let count = metadata.topics().first().map_or(0, |topic| topic.partitions().len() as u32);
        let refuse = |detail: String| Err(LogError::Topic { topic: name.to_owned(), detail });
        match partitions {
            _ if count == 0 => return refuse("it does not exist; `recant serve` creates it".to_owned()),
            None => partitions = Some(count),
            Some(of_events) if of_events != count => {
                return refuse(format!(
                    "it has {count} partitions, and {} has {of_events}; both need the same number. Delete the one that is empty, and recant creates it",
                    names.topic(Topic::Events)
                ));
            }
            Some(_) => {}
        }
    }
    Ok(partitions.unwrap_or_default())
}

fn check_settings(settings: &Settings) -> Result<(), LogError> {
    let names = &settings.names;
    let admin = admin(settings)?;
    let asked = Topic::ALL.map(|topic| ResourceSpecifier::Topic(names.topic(topic)));
    let options = AdminOptions::new().request_timeout(Some(REQUEST_TIMEOUT));
    let answers = pollster::block_on(admin.describe_configs(asked.iter(), &options))
        .map_err(|error| failed("asking for the settings of topics", &error))?;
    for (topic, answer) in Topic::ALL.into_iter().zip(answers) {
        let name = names.topic(topic);
        let refuse = |detail: String| LogError::Topic { topic: name.to_owned(), detail };
        let config = answer.map_err(|code| refuse(format!("its settings cannot be read: {code}")))?;
        let wanted = wanted(topic);
        for (key, is_right, advice) in wanted {
            let value =
                setting(&config, key).ok_or_else(|| refuse(format!("the brokers do not tell its setting {key}")))?;
            if !is_right(value) {
                return Err(refuse(format!(
                    "{key} is {value}, {advice} (kafka-configs.sh --alter --topic {name} --add-config …)"
                )));
            }
        }
    }
    Ok(())
}

/// How long the brokers keep events, in ms, if not for ever: somebody has changed it since the log was opened.
pub(super) fn retention_of_events_ms(settings: &Settings) -> Result<Option<u64>, LogError> {
    let name = settings.names.topic(Topic::Events);
    let options = AdminOptions::new().request_timeout(Some(REQUEST_TIMEOUT));
    let asked = [ResourceSpecifier::Topic(name)];
    let answers = pollster::block_on(admin(settings)?.describe_configs(asked.iter(), &options))
        .map_err(|error| failed("asking for the settings of topics", &error))?;
    let config = answers.into_iter().next().and_then(Result::ok);
    // -1 is no number of this kind.
    Ok(config.as_ref().and_then(|config| setting(config, "retention.ms")).and_then(|value| value.parse().ok()))
}

pub(super) fn setting<'a>(config: &'a ConfigResource, key: &str) -> Option<&'a str> {
    config.get(key)?.value.as_deref()
}

/// A setting, whether a value of it will do, and what must be.
type Wanted = (&'static str, fn(&str) -> bool, &'static str);

fn wanted(topic: Topic) -> &'static [Wanted] {
    const DELETE: Wanted =
        ("cleanup.policy", |value| value == "delete", "and must be delete: compaction would take records away");
    const SIZE: Wanted = (
        "max.message.bytes",
        |value| value.parse().is_ok_and(|bytes: usize| bytes >= RECORD_BYTES_MAX),
        "and must be at least 6291456, so that every refused event can be told of",
    );
    match topic {
        Topic::Events => &[
            DELETE,
            ("retention.ms", |value| value == "-1", "and must be -1: the log is the truth, and is kept for ever"),
            ("retention.bytes", |value| value == "-1", "and must be -1: the log is the truth, and is kept for ever"),
            (
                "message.timestamp.type",
                |value| value == "LogAppendTime",
                "and must be LogAppendTime: the log's clock is not its writers'",
            ),
            (
                "max.message.bytes",
                |value| value.parse() == Ok(EVENT_RECORD_BYTES_MAX),
                "and must be 2097152: an event of the largest size fits, and every refused one into recant.rejected",
            ),
        ],
        Topic::Changes | Topic::Rejected => &[DELETE, SIZE],
    }
}

pub(super) fn admin(settings: &Settings) -> Result<AdminClient<Quiet>, LogError> {
    AdminClient::from_config_and_context(&settings.reader(), Quiet::new(settings))
        .map_err(|error: KafkaError| refused(&error, settings))
}
