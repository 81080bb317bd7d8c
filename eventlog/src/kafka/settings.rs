//! What librdkafka is set to: what recant needs, and what a user passes through.
//!
//! A user's settings are librdkafka's own names (`security.protocol`, `ssl.ca.location`, …). Those on which exactly once or
//! the order of events rests are refused, each with its reason. A setting that holds a secret comes from a file or the
//! environment, never from the command line, where every process of the machine could read it; its value is in no error, no
//! log line and no `Debug`.

use std::{collections::BTreeMap, fmt, path::Path};

use rdkafka::ClientConfig;

use super::names::Names;
use crate::LogError;

/// Settings that are recant's own, and why.
const OWN: [(&str, &str); 17] = [
    ("bootstrap.servers", "name the brokers with --brokers"),
    ("metadata.broker.list", "name the brokers with --brokers"),
    ("group.id", "--instance names the group, the topics and the transactions together"),
    ("transactional.id", "each partition has one of its own, by which its former owner is fenced"),
    ("enable.idempotence", "without it a record that is sent again is there twice"),
    ("acks", "with fewer than all, what was acknowledged could be lost"),
    ("request.required.acks", "with fewer than all, what was acknowledged could be lost"),
    ("isolation.level", "what is not committed, and may never be, would be believed"),
    ("auto.offset.reset", "where history is missing recant says so, and does not skip or repeat"),
    ("enable.auto.commit", "the position is committed together with what was published, or not at all"),
    ("enable.auto.offset.store", "the position is committed together with what was published, or not at all"),
    ("enable.partition.eof", "recant has to know where a partition ends"),
    ("check.crcs", "what was damaged on its way would be believed"),
    ("partitioner", "the partition of a space is murmur2 of its name, for every client"),
    (
        "group.protocol",
        "the newer one refuses commits that name no member, and its session time-out is the broker's, 45 s",
    ),
    ("partition.assignment.strategy", "a partition that stays where it is must not be disturbed"),
    ("allow.auto.create.topics", "recant creates its topics with the settings that they need"),
];

/// Parts of the names of settings that hold secrets.
const SECRET: [&str; 5] = ["password", "secret", "key.pem", "oauthbearer.config", "passphrase"];

/// Settings that a user passes through.
#[derive(Clone, Default)]
pub struct Passthrough(BTreeMap<String, String>);

impl Passthrough {
    /// Takes `KEY=VALUE`, or `KEY=@FILE` for a value that stands in a file, as they are typed.
    pub fn set_typed(&mut self, text: &str) -> Result<(), LogError> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| LogError::Setting(format!("{text:?} is not KEY=VALUE, such as security.protocol=ssl")))?;
        if let Some(file) = value.strip_prefix('@') {
            let value = std::fs::read_to_string(Path::new(file))
                .map_err(|error| LogError::Setting(format!("{key}: {file}: {error}")))?;
            return self.set(key, value.trim_end_matches(['\r', '\n']));
        }
        if is_secret(key) {
            return Err(LogError::Setting(format!(
                "{key} holds a secret, and every process can read a command line: put it into a file, and give {key}=@FILE, or set {}",
                variable(key)
            )));
        }
        self.set(key, value)
    }

    /// Takes those of some environment variables that are settings: `RECANT_KAFKA_SASL_PASSWORD` is `sasl.password`.
    pub fn set_from(&mut self, variables: impl IntoIterator<Item = (String, String)>) -> Result<(), LogError> {
        for (name, value) in variables {
            if let Some(rest) = name.strip_prefix(VARIABLE) {
                self.set(&rest.to_ascii_lowercase().replace('_', "."), &value)?;
            }
        }
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), LogError> {
        if let Some((_, reason)) = OWN.iter().find(|(own, _)| *own == key) {
            return Err(LogError::Setting(format!("{key} is recant's own: {reason}")));
        }
        self.0.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    #[cfg(test)]
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// A text in which no secret of these is left.
    pub(super) fn without_secrets(&self, text: &str) -> String {
        let secrets = self.0.iter().filter(|(key, value)| is_secret(key) && !value.is_empty());
        secrets.fold(text.to_owned(), |text, (key, value)| text.replace(value, &format!("({key})")))
    }
}

impl fmt::Debug for Passthrough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.0.iter().map(|(key, value)| (key, if is_secret(key) { "(secret)" } else { value })))
            .finish()
    }
}

const VARIABLE: &str = "RECANT_KAFKA_";

fn variable(key: &str) -> String {
    format!("{VARIABLE}{}", key.to_ascii_uppercase().replace('.', "_"))
}

fn is_secret(key: &str) -> bool {
    SECRET.iter().any(|part| key.contains(part))
}

/// Which brokers, which topics, and how they are talked to.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `HOST:PORT`, several with commas between.
    pub brokers: String,
    /// What the topics, the group and the transactions are called.
    pub names: Names,
    /// What the user passes through.
    pub passthrough: Passthrough,
}

/// Of one reader; a partition that is processed has one.
const READER_QUEUE_KIB: usize = 16 << 10;
/// So long a broker holds a request at the end of a partition.
const FETCH_WAIT_MS: u32 = 50;
/// Of one producer; a partition that is processed has two.
const PRODUCER_QUEUE_KIB: usize = 32 << 10;
/// So long an append waits for brokers that do not answer.
const DELIVERY_TIMEOUT_MS: u32 = 30_000;
/// A member may be silent so long before its partitions go to others; brokers allow no less as they come.
const SESSION_TIMEOUT_MS: u32 = 6_000;
const HEARTBEAT_INTERVAL_MS: u32 = 500;

impl Settings {
    fn common(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.brokers)
            .set("client.id", "recant")
            .set("allow.auto.create.topics", "false")
            .set("socket.nagle.disable", "true")
            // An outage ends when the broker is back, not ten seconds later.
            .set("reconnect.backoff.ms", "50")
            .set("reconnect.backoff.max.ms", "200")
            // Where the system keeps the certificates that it trusts.
            .set("ssl.ca.location", "probe");
        config
    }

    fn with_passthrough(&self, mut config: ClientConfig) -> ClientConfig {
        for (key, value) in &self.passthrough.0 {
            config.set(key, value);
        }
        config
    }

    fn consumer(&self) -> ClientConfig {
        let mut config = self.common();
        config
            .set("group.id", self.names.group())
            .set("isolation.level", "read_committed")
            .set("auto.offset.reset", "error")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            .set("check.crcs", "true");
        config
    }

    /// For reading partitions that are assigned by hand, and for questions.
    pub(super) fn reader(&self) -> ClientConfig {
        let mut config = self.consumer();
        config
            .set("queued.max.messages.kbytes", READER_QUEUE_KIB.to_string())
            // The default, a second, stalls a fetcher whose reader is quicker than that.
            .set("fetch.queue.backoff.ms", "5")
            // Whoever goes to another place waits for the request that is under way.
            .set("fetch.wait.max.ms", FETCH_WAIT_MS.to_string());
        self.with_passthrough(config)
    }

    /// For asking where a partition ends, with all that is not committed.
    pub(super) fn witness(&self) -> ClientConfig {
        let mut config = self.reader();
        config.set("isolation.level", "read_uncommitted");
        config
    }

    /// For membership in the group. It never reads.
    pub(super) fn member(&self, static_member: Option<&str>) -> ClientConfig {
        let mut config = self.consumer();
        config
            .set("queued.max.messages.kbytes", "1024")
            .set("group.protocol", "classic")
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("session.timeout.ms", SESSION_TIMEOUT_MS.to_string())
            .set("heartbeat.interval.ms", HEARTBEAT_INTERVAL_MS.to_string());
        if let Some(name) = static_member {
            config.set("group.instance.id", name);
        }
        self.with_passthrough(config)
    }

    fn producer(&self) -> ClientConfig {
        let mut config = self.common();
        config
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("linger.ms", "0")
            .set("message.max.bytes", super::topics::RECORD_BYTES_MAX.to_string())
            .set("queue.buffering.max.kbytes", PRODUCER_QUEUE_KIB.to_string());
        config
    }

    /// For appending events.
    pub(super) fn appender(&self) -> ClientConfig {
        let mut config = self.producer();
        config.set("message.timeout.ms", DELIVERY_TIMEOUT_MS.to_string());
        self.with_passthrough(config)
    }

    /// For publishing what a partition's events cause, in transactions that may take so long (`limits.rs`).
    pub(super) fn publisher(&self, transactional_id: &str, timeout_ms: u32) -> ClientConfig {
        let mut config = self.producer();
        config
            .set("transactional.id", transactional_id)
            .set("transaction.timeout.ms", timeout_ms.to_string())
            // With the default, 100, each transaction waits so long for the one before it.
            .set("retry.backoff.ms", "1");
        self.with_passthrough(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break exactly once is refused with its reason, however it comes.
    #[test]
    fn own_settings_are_refused() {
        let mut settings = Passthrough::default();
        for (key, reason) in OWN {
            let refused = settings.set_typed(&format!("{key}=x")).unwrap_err().to_string();
            assert!(refused.contains(key) && refused.contains(reason), "{refused}");
            let refused = settings.set_from([(variable(key), "x".to_owned())]).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
        assert!(settings.set_typed("security.protocol").is_err());
        settings.set_typed("security.protocol=ssl").unwrap();
        assert_eq!(settings.get("security.protocol"), Some("ssl"));
    }

    #[test]
    fn secrets_come_from_files_and_the_environment_and_are_shown_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
        std::fs::write(&file, "hunter2\n").unwrap();
        let mut settings = Passthrough::default();
        let typed = settings.set_typed("sasl.password=hunter2").unwrap_err().to_string();
        assert!(typed.contains("RECANT_KAFKA_SASL_PASSWORD") && !typed.contains("hunter2"), "{typed}");
        settings.set_typed(&format!("sasl.password=@{}", file.display())).unwrap();
        assert_eq!(settings.get("sasl.password"), Some("hunter2"));
        settings
            .set_from([
                ("RECANT_KAFKA_SSL_KEY_PASSWORD".to_owned(), "swordfish".to_owned()),
                ("PATH".to_owned(), "/".to_owned()),
            ])
            .unwrap();
        assert_eq!(settings.get("ssl.key.password"), Some("swordfish"));
        let shown = format!("{settings:?} {}", settings.without_secrets("no: hunter2, swordfish"));
        assert!(
            !shown.contains("hunter2") && !shown.contains("swordfish") && shown.contains("(sasl.password)"),
            "{shown}"
        );
    }
}
