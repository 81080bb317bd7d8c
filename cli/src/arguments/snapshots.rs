//! What `recant serve` takes for snapshots of its states.

use std::{str::FromStr as _, time::Duration};

use clap::Args;

/// Snapshots of the states of partitions.
#[derive(Debug, Args)]
pub struct Snapshots {
    /// Keep snapshots of the states in a directory that all processes reach, or an object store: s3://BUCKET/PATH,
    /// gs://BUCKET/PATH or az://CONTAINER/PATH, with what that needs in its own variables (AWS_REGION, …)
    #[arg(id = "snapshots", long, env = "RECANT_SNAPSHOTS", value_name = "URL")]
    pub url: Option<String>,
    /// So often, of each partition, if it has moved
    #[arg(long = "snapshot-every", value_name = "TIME", default_value = "10m", value_parser = time, requires = "snapshots")]
    pub every: Duration,
    /// Keep so many of the newest
    #[arg(long = "snapshots-keep", value_name = "N", default_value_t = 3, requires = "snapshots",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub keep: u16,
    /// Keep all that are younger than this, too
    #[arg(long = "snapshots-keep-for", value_name = "TIME", default_value = "24h", value_parser = time, requires = "snapshots")]
    pub keep_for: Duration,
}

/// A length of time: `90s`, `10m`, `24h`.
fn time(text: &str) -> Result<Duration, String> {
    let parsed = jiff::SignedDuration::from_str(text).map_err(|error| error.to_string())?;
    Duration::try_from(parsed).map_err(|_| "it is negative".to_owned())
}
