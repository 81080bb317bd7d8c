//! A data directory that is only read: nobody writes it, so that what it holds is opened once.

use std::{path::Path, sync::Arc};

use recant_eventlog::{ReadLog, embedded::Follower};
use recant_processor::viewer::Viewer;
use recant_projections::{store::rocks::Reader, tables::partition};
use tokio::sync::watch;

use super::{Applied, error::HostError};

/// Log and state.
pub(super) struct Past {
    log: Arc<Follower>,
    readers: Vec<Reader>,
    /// Never sent to.
    applied: watch::Sender<Applied>,
}

impl Past {
    /// Opens a data directory.
    pub(super) fn open(data: &Path) -> Result<Past, HostError> {
        let viewer = Viewer::open(data)?;
        let (mut readers, mut next_offsets) = (Vec::new(), Vec::new());
        for number in 0..viewer.log().partitions() {
            let store = viewer.state(number)?;
            next_offsets.push(partition::get(&store)?.map_or(0, |row| row.next_offset));
            readers.push(Reader::from(store));
        }
        let log = Arc::new(viewer.into_log());
        Ok(Past { log, readers, applied: watch::Sender::new(Applied::at(next_offsets)) })
    }

    pub(super) fn log(&self) -> Arc<Follower> {
        self.log.clone()
    }

    pub(super) fn reader(&self, partition: u32) -> Option<Reader> {
        self.readers.get(partition as usize).cloned()
    }

    pub(super) fn applied(&self) -> watch::Receiver<Applied> {
        self.applied.subscribe()
    }
}
