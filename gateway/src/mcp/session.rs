//! One session with an assistant: what it was shown, and what it wants to be told of.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use recant_eventlog::{ReadLimit, Topic};
use recant_proto::v1::Change;
use rmcp::{Peer, RoleServer, model::ResourceUpdatedNotificationParam};
use tokio::sync::watch;
use uuid::Uuid;

use super::{
    read_set::{ReadSet, Shown},
    resources::ResourceId,
};
use crate::{
    changes::{self, PlaceError},
    host::{Applied, Host, HostError},
    problem::{Problem, Sort},
};

/// So many resources one session can follow.
const FOLLOWED_MAX: usize = 1_024;
/// So often a session that ended is noticed when nothing else happens.
const LOOK_AFTER: Duration = Duration::from_secs(30);
const READ: ReadLimit = ReadLimit { records_max: 1_000, bytes_max: 4 << 20 };

/// A session.
pub struct Session {
    host: Host,
    /// The run under which its events are written, so that what one session wrote can be taken back.
    pub run: String,
    /// What it was shown.
    pub read_set: ReadSet,
    followed: Mutex<Followed>,
}

#[derive(Debug, Default)]
struct Followed {
    resources: BTreeSet<ResourceId>,
    /// In each partition of theirs, up to where changes were looked at.
    next_offsets: BTreeMap<u32, u64>,
    is_told: bool,
}

impl Session {
    /// A new one.
    pub fn begin(host: Host) -> Session {
        let run = format!("mcp-{}", Uuid::now_v7());
        Session { host, run, read_set: ReadSet::default(), followed: Mutex::default() }
    }

    fn followed<R>(&self, with: impl FnOnce(&mut Followed) -> R) -> R {
        with(&mut self.followed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another process's, for one call about a space: with its run, and what it was shown of the space.
    pub fn of_another(host: Host, run: String, space: &str, shown: Shown) -> Session {
        let session = Session { run, ..Session::begin(host) };
        session.read_set.take(space, shown);
        session
    }

    /// From now on the session is told when a resource changes.
    pub async fn follow(self: &Arc<Self>, resource: ResourceId, peer: Peer<RoleServer>) -> Result<(), Problem> {
        let partition = self.host.partition_of(&resource.space);
        let log = self.host.log();
        let end =
            self.host.on_a_thread(move || log.bounds(Topic::Changes, partition)).await?.map_err(HostError::from)?.end;
        let starts_telling = self.followed(|followed| {
            if followed.resources.len() >= FOLLOWED_MAX && !followed.resources.contains(&resource) {
                let detail = format!("a session can follow {FOLLOWED_MAX} resources; end some subscriptions");
                return Err(Problem::new(Sort::No, "too_many_requests", "There are too many subscriptions", detail));
            }
            followed.resources.insert(resource);
            followed.next_offsets.entry(partition).or_insert(end);
            Ok(!std::mem::replace(&mut followed.is_told, true))
        })?;
        if starts_telling {
            tokio::spawn(tell(Arc::downgrade(self), self.host.applied(), peer));
        }
        Ok(())
    }

    /// It is not told any more.
    pub fn unfollow(&self, resource: &ResourceId) {
        self.followed(|followed| followed.resources.remove(resource));
    }

    /// The resources that changed since they were looked at last.
    async fn changed(&self) -> Result<BTreeSet<ResourceId>, Problem> {
        let (resources, next_offsets) =
            self.followed(|followed| (followed.resources.clone(), followed.next_offsets.clone()));
        let log = self.host.log();
        let look = move || -> Result<(BTreeSet<ResourceId>, BTreeMap<u32, u64>), PlaceError> {
            let (mut changed, mut looked_at) = (BTreeSet::new(), BTreeMap::new());
            for (partition, mut next) in next_offsets {
                let bounds = log.bounds(Topic::Changes, partition)?;
                next = next.max(bounds.earliest);
                while next < bounds.end {
                    let read = log.read(Topic::Changes, partition, next, READ)?;
                    next = read.last().map_or(bounds.end, |record| record.position.offset + 1);
                    for record in &read {
                        let change = changes::decode(record)?;
                        changed.extend(resources.iter().filter(|resource| concerns(&change, resource)).cloned());
                    }
                }
                looked_at.insert(partition, next);
            }
            Ok((changed, looked_at))
        };
        let (changed, looked_at) = self.host.on_a_thread(look).await?.map_err(Problem::from)?;
        self.followed(|followed| followed.next_offsets.extend(looked_at));
        Ok(changed)
    }
}

/// Whether a change is one of a resource: of the node itself, of a node that the source said, or by the retraction.
fn concerns(change: &Change, resource: &ResourceId) -> bool {
    use super::resources::ResourceKind::{Node, Retraction, Source};
    let is_of = |named: &str| named == resource.id;
    change.space == resource.space
        && change.digest.is_none()
        && match resource.kind {
            Node => is_of(&change.node),
            Source => is_of(&change.source),
            Retraction => change.cause.as_ref().is_some_and(|cause| is_of(&cause.retraction)),
        }
}

/// Tells a session of its resources for as long as it lives; between news it holds nothing of it, nor of the log.
async fn tell(session: Weak<Session>, mut applied: watch::Receiver<Applied>, peer: Peer<RoleServer>) {
    loop {
        // Its sender goes when processing ends: then nothing changes any more, and the session ends with the server.
        let news = tokio::time::timeout(LOOK_AFTER, applied.changed()).await;
        let Some(session) = session.upgrade() else { return };
        if peer.is_transport_closed() || matches!(news, Ok(Err(_))) {
            return;
        }
        match session.changed().await {
            Ok(changed) => {
                for resource in changed {
                    let updated = ResourceUpdatedNotificationParam::new(resource.to_uri());
                    if peer.notify_resource_updated(updated).await.is_err() {
                        return;
                    }
                }
            }
            // What was not looked at is looked at next time.
            Err(problem) => tracing::warn!(%problem, "changes could not be read for a session"),
        }
    }
}
