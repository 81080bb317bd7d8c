//! Who serves what, and where that is asked: what members announce in `recant.members`.
//!
//! The key is the member's name, the value JSON: `{"member":"…","partitions":[0,3],"pid":4711,"url":"http://10.0.0.5:7470","version":"…"}`,
//! without `url` where a member answers nobody. One that leaves takes its announcement away; one that is killed leaves it where it is.
//! So what counts of a partition is the **last** announcement that names it: whoever took it since has announced that later.
//!
//! An announcement is of use to those who look for a partition, and no condition for serving one: it can be late, or of a process
//! that is no more. Whoever follows it asks, and may be told that the partition is not there.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::Builder,
    time::Duration,
};

use recant_eventlog::{
    LogError,
    kafka::{Announcements, KafkaLog},
};
use serde::{Deserialize, Serialize};

/// So often it is looked whether anybody still asks, and what is waited after a failure.
const TURN: Duration = Duration::from_millis(500);

/// What a member announces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// Its name.
    pub member: String,
    /// What it serves.
    pub partitions: Vec<u32>,
    /// Its process.
    pub pid: u32,
    /// Where it answers; absent if it answers nobody.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub url: Option<String>,
    /// Its version.
    pub version: String,
}

/// Where partitions are, by what was announced last.
#[derive(Debug, Default)]
struct Places {
    /// The member that announced a partition last.
    members: BTreeMap<u32, String>,
    urls: BTreeMap<String, String>,
}

impl Places {
    fn take(&mut self, member: String, announcement: Option<Announcement>) {
        self.members.retain(|_, announced_by| *announced_by != member);
        self.urls.remove(&member);
        let Some(Announcement { partitions, url, .. }) = announcement else { return };
        self.members.extend(partitions.into_iter().map(|partition| (partition, member.clone())));
        self.urls.extend(url.map(|url| (member, url)));
    }

    fn url_of(&self, partition: u32) -> Option<&String> {
        self.urls.get(self.members.get(&partition)?)
    }
}

/// The other members, for those who look for a partition. It is kept up to date for as long as somebody has it.
#[derive(Debug, Clone)]
pub struct Members {
    own_name: String,
    places: Arc<Mutex<Places>>,
}

impl Members {
    /// Begins to follow what members of a log announce, on a thread of its own; `own_name` is not another.
    pub(super) fn follow(log: Arc<KafkaLog>, own_name: &str) -> Result<Members, LogError> {
        let places = Arc::default();
        let members = Members { own_name: own_name.to_owned(), places: Arc::clone(&places) };
        let announcements = log.announcements()?;
        let follow = move || follow(&announcements, &places);
        let started = Builder::new().name("members".to_owned()).spawn(follow);
        started.map_err(|error| LogError::Io(format!("starting a thread: {error}")))?;
        Ok(members)
    }

    /// Where the member answers that announced a partition last; none if nobody has, if it answers nobody, or if it is this one.
    pub fn url_of(&self, partition: u32) -> Option<String> {
        let places = lock(&self.places);
        let is_other = places.members.get(&partition).is_some_and(|member| *member != self.own_name);
        is_other.then(|| places.url_of(partition).cloned()).flatten()
    }
}

fn follow(announcements: &Announcements, places: &Arc<Mutex<Places>>) {
    // The others are those who ask.
    while Arc::strong_count(places) > 1 {
        match announcements.next(TURN) {
            Ok(None) => {}
            Ok(Some(announced)) => {
                let member = String::from_utf8_lossy(&announced.member).into_owned();
                let read = announced.announcement.map(|bytes| serde_json::from_slice(&bytes)).transpose();
                match read {
                    Ok(announcement) => lock(places).take(member, announcement),
                    Err(error) => tracing::warn!(member, %error, "what a member announces cannot be read"),
                }
            }
            // It connects again by itself.
            Err(error) => {
                tracing::debug!(%error, "the members");
                std::thread::sleep(TURN);
            }
        }
    }
}

fn lock(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    // Nothing panics while it holds the lock.
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement(member: &str, partitions: &[u32]) -> Option<Announcement> {
        Some(Announcement {
            member: member.to_owned(),
            partitions: partitions.to_vec(),
            pid: 1,
            url: Some(format!("http://{member}:7470")),
            version: String::new(),
        })
    }

    /// One that was killed leaves its announcement where it is: the heir's counts, since it came later.
    #[test]
    fn the_last_announcement_of_a_partition_counts() {
        let mut places = Places::default();
        places.take("a".to_owned(), announcement("a", &[0, 1]));
        places.take("b".to_owned(), announcement("b", &[2]));
        assert_eq!(places.url_of(1).unwrap(), "http://a:7470");
        places.take("b".to_owned(), announcement("b", &[1, 2]));
        assert_eq!(places.url_of(0).unwrap(), "http://a:7470");
        assert_eq!(places.url_of(1).unwrap(), "http://b:7470");
        // What it gave up is nobody's until somebody announces it.
        places.take("a".to_owned(), announcement("a", &[]));
        assert_eq!(places.url_of(0), None);
        places.take("b".to_owned(), None);
        assert_eq!((places.url_of(1), places.url_of(2)), (None, None));
    }

    /// Those of older versions have no address; they are told apart from what is no announcement.
    #[test]
    fn an_announcement_without_an_address_is_one() {
        let older = br#"{"member":"a","partitions":[3],"pid":1,"version":"0.1.0"}"#;
        let mut places = Places::default();
        places.take("a".to_owned(), Some(serde_json::from_slice(older).unwrap()));
        assert_eq!((places.members.get(&3).map(String::as_str), places.url_of(3)), (Some("a"), None));
    }
}
