//! A directory or an object store, called from plain threads.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    path::Path,
    sync::Arc,
};

use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::{
    ObjectMeta, ObjectStore, ObjectStoreExt as _, PutPayload, WriteMultipart, local::LocalFileSystem, parse_url_opts,
    path::Path as ObjectPath, prefix::PrefixStore,
};
use tokio::runtime::{Builder, Runtime};

use super::{SnapshotError, io};

/// Larger files go in parts of this size, so that no file is ever whole in memory.
const PART_BYTES: usize = 8 << 20;
/// So many parts are under way at once.
const PARTS_MAX: usize = 3;

/// A place for snapshots.
pub struct Remote {
    store: Arc<dyn ObjectStore>,
    runtime: Runtime,
    /// As it was named, for messages.
    url: String,
}

/// Something that lies there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// When it was written, in ms since 1970.
    pub written_at_ms: i64,
}

impl Remote {
    /// A directory, which is created if it does not exist, or a URL. What an object store needs to know beyond that, such as
    /// regions and secrets, is taken from those variables of its own (`AWS_REGION`, `GOOGLE_SERVICE_ACCOUNT`, …).
    pub fn open(url: &str, variables: impl IntoIterator<Item = (String, String)>) -> Result<Remote, SnapshotError> {
        let refused = |detail: String| SnapshotError::Place { url: url.to_owned(), detail };
        let store: Arc<dyn ObjectStore> = if url.contains("://") {
            // reqwest has no cryptography of its own. The first in the process stays: an error says that there is one.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let parsed = url::Url::parse(url).map_err(|error| refused(error.to_string()))?;
            let variables = variables.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
            let (store, path) = parse_url_opts(&parsed, variables).map_err(|error| refused(error.to_string()))?;
            Arc::new(PrefixStore::new(store, path))
        } else {
            let directory = Path::new(url);
            fs::create_dir_all(directory).map_err(io(directory))?;
            // What has its name is on disk.
            let local = LocalFileSystem::new_with_prefix(directory).map_err(|error| refused(error.to_string()))?;
            Arc::new(local.with_fsync(true))
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(io(Path::new(url)))?;
        Ok(Remote { store, runtime, url: url.to_owned() })
    }

    /// What lies below a path.
    pub(super) fn list(&self, below: &str) -> Result<Vec<Found>, SnapshotError> {
        let below = ObjectPath::from(below);
        let found: Vec<ObjectMeta> = self.runtime.block_on(self.store.list(Some(&below)).try_collect())?;
        let found = found.into_iter().map(|meta| Found {
            path: meta.location.to_string(),
            bytes: meta.size,
            written_at_ms: meta.last_modified.timestamp_millis(),
        });
        Ok(found.collect())
    }

    /// Writes something small.
    pub(super) fn put(&self, path: &str, content: Vec<u8>) -> Result<(), SnapshotError> {
        self.runtime.block_on(self.store.put(&ObjectPath::from(path), PutPayload::from(content)))?;
        Ok(())
    }

    /// Reads something small.
    pub(super) fn get(&self, path: &str) -> Result<Vec<u8>, SnapshotError> {
        let read = async { self.store.get(&ObjectPath::from(path)).await?.bytes().await };
        Ok(self.runtime.block_on(read)?.to_vec())
    }

    /// Copies a file there.
    pub(super) fn upload(&self, from: &Path, path: &str) -> Result<(), SnapshotError> {
        let mut file = File::open(from).map_err(io(from))?;
        self.runtime.block_on(async {
            let mut part = Vec::new();
            read_part(&mut file, &mut part).map_err(io(from))?;
            if part.len() < PART_BYTES {
                self.store.put(&ObjectPath::from(path), PutPayload::from(part)).await?;
                return Ok(());
            }
            let upload = self.store.put_multipart(&ObjectPath::from(path)).await?;
            let mut writing = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
            while !part.is_empty() {
                writing.wait_for_capacity(PARTS_MAX).await?;
                writing.write(&part);
                read_part(&mut file, &mut part).map_err(io(from))?;
            }
            writing.finish().await?;
            Ok(())
        })
    }

    /// Copies something from there into a file that does not exist, and gives the hash of what came.
    pub(super) fn download(&self, path: &str, to: &Path) -> Result<String, SnapshotError> {
        let mut file = File::create_new(to).map_err(io(to))?;
        let mut hasher = blake3::Hasher::new();
        self.runtime.block_on(async {
            let mut pieces = self.store.get(&ObjectPath::from(path)).await?.into_stream();
            while let Some(piece) = pieces.next().await {
                let piece = piece?;
                hasher.update(&piece);
                file.write_all(&piece).map_err(io(to))?;
            }
            Ok::<(), SnapshotError>(())
        })?;
        file.sync_all().map_err(io(to))?;
        Ok(hasher.finalize().to_hex().to_string())
    }

    /// Removes something; nothing if it is not there.
    pub(super) fn remove(&self, path: &str) -> Result<(), SnapshotError> {
        match self.runtime.block_on(self.store.delete(&ObjectPath::from(path))) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Reads the next part of a file, less than a whole one at its end alone.
fn read_part(file: &mut File, part: &mut Vec<u8>) -> std::io::Result<()> {
    part.clear();
    file.take(PART_BYTES as u64).read_to_end(part).map(drop)
}
