//! Reads what is new in a partition's stream, for all who follow.

use std::{sync::Arc, time::Duration};

use recant_eventlog::{ReadLimit, Topic};

use super::{Streams, over, ring::Streamed};
use crate::{
    changes::{self, PlaceError},
    host::SharedLog,
};

const READ: ReadLimit = ReadLimit { records_max: 1_000, bytes_max: 4 << 20 };

/// Looked at so often where nobody says that there is more.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After what failed it is tried again after this.
const PAUSE: Duration = Duration::from_secs(1);

/// Reads until the streams end, or the host does.
pub(super) async fn read(streams: Streams, partition: u32) {
    let mut applied = streams.inner.host.applied();
    let mut is_over = streams.is_over();
    loop {
        if let Err(error) = read_what_is_there(&streams, partition).await {
            tracing::warn!(partition, %error, "the end of the change stream could not be read, and is tried again");
            tokio::time::sleep(PAUSE).await;
        }
        tokio::select! {
            () = over(&mut is_over) => return,
            changed = applied.changed() => {
                // Nobody processes any more: what there is has been read.
                if changed.is_err() {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

async fn read_what_is_there(streams: &Streams, partition: u32) -> Result<(), String> {
    let Some(ring) = streams.inner.rings.get(partition as usize).cloned() else { return Ok(()) };
    let log = streams.inner.host.log();
    let read = tokio::task::spawn_blocking(move || {
        // Before the stream is read: then it has all that was published with it.
        let processed = log.committed(partition)?.next_offset;
        loop {
            let next = ring.next();
            let (records, read_to) = page(&*log, partition, next, READ, |space| ring.is_followed(space))?;
            if read_to == next {
                ring.processed(processed);
                return Ok::<_, PlaceError>(());
            }
            ring.take(records, read_to);
        }
    });
    read.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// The records of some spaces from an offset of the stream on, and up to where it was read.
pub(super) fn page(
    log: &dyn SharedLog,
    partition: u32,
    next: u64,
    limit: ReadLimit,
    is_wanted: impl Fn(&[u8]) -> bool,
) -> Result<(Vec<Arc<Streamed>>, u64), PlaceError> {
    // Where there are no records up to the end, there are the marks of transactions.
    let end = log.bounds(Topic::Changes, partition)?.end;
    let records = log.read(Topic::Changes, partition, next, limit)?;
    let read_to = records.last().map_or(end.max(next), |last| last.position.offset + 1);
    let mut wanted = Vec::new();
    for record in records.iter().filter(|record| is_wanted(&record.key)) {
        let change = changes::decode(record)?;
        wanted.push(Arc::new(Streamed::new(record.position.offset, change, record.value.len())));
    }
    Ok((wanted, read_to))
}
