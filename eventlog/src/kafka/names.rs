//! What an instance calls its topics, its group and its transactions on a cluster.

use recant_proto::names::{CHANGES, EVENTS, MEMBERS, REJECTED, SUBSCRIPTIONS};

use crate::{LogError, Topic};

/// The names of one instance. Several instances on one cluster do not see each other.
#[derive(Debug, Clone)]
pub struct Names {
    topics: [String; Topic::ALL.len()],
    members: String,
    subscriptions: String,
    group: String,
}

impl Names {
    /// Of the instance that has no name of its own, or of one that has.
    pub fn of(instance: Option<&str>) -> Result<Names, LogError> {
        let prefix = match instance {
            None => String::new(),
            Some(name) if is_name(name) => format!("{name}."),
            Some(name) => {
                return Err(LogError::Setting(format!(
                    "{name:?} names no instance: 1 to 100 letters, digits, dots, underscores or hyphens do"
                )));
            }
        };
        Ok(Names {
            topics: [EVENTS, CHANGES, REJECTED].map(|topic| format!("{prefix}{topic}")),
            members: format!("{prefix}{MEMBERS}"),
            subscriptions: format!("{prefix}{SUBSCRIPTIONS}"),
            group: format!("{prefix}recant"),
        })
    }

    /// A topic.
    pub fn topic(&self, topic: Topic) -> &str {
        &self.topics[topic as usize]
    }

    /// The topic in which members announce themselves.
    pub fn members(&self) -> &str {
        &self.members
    }

    /// The topic that says how far named subscriptions have come.
    pub fn subscriptions(&self) -> &str {
        &self.subscriptions
    }

    /// The consumer group of those who process, which also names the offsets that they commit.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The identities by which whoever processes a partition fences whoever did before.
    pub fn transactional_ids(&self, partition: u32) -> [String; 2] {
        ["a", "b"].map(|turn| format!("{}-{partition}-{turn}", self.topic(Topic::Events)))
    }
}

/// What Kafka takes in the name of a topic, with room for what comes behind it.
fn is_name(name: &str) -> bool {
    (1..=100).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_have_names_of_their_own() {
        let (plain, named) = (Names::of(None).unwrap(), Names::of(Some("staging")).unwrap());
        assert_eq!((plain.topic(Topic::Events), plain.group()), ("recant.events", "recant"));
        assert_eq!(plain.transactional_ids(3), ["recant.events-3-a", "recant.events-3-b"]);
        assert_eq!((named.topic(Topic::Changes), named.group()), ("staging.recant.changes", "staging.recant"));
        assert_eq!(
            (named.members(), &*named.transactional_ids(0)[0]),
            ("staging.recant.members", "staging.recant.events-0-a")
        );
        for name in ["", "a b", "ä", "a/b"] {
            assert!(Names::of(Some(name)).is_err(), "{name}");
        }
    }
}
