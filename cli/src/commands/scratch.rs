//! A directory for what is needed only while a command runs.

use std::path::Path;

use anyhow::Result;
use tempfile::TempDir;

use crate::failure::Problem;

/// Makes one in a directory, or where temporary files go. It is removed when it is dropped.
pub fn directory(parent: Option<&Path>) -> Result<TempDir> {
    let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
    let made = tempfile::Builder::new().prefix("recant-replay-").tempdir_in(&parent);
    made.map_err(|error| Problem::file(&parent, &error).into())
}
