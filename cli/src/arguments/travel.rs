//! Time travel: other moments, other histories, and the same one once more.

use std::path::PathBuf;

use clap::Args;

use super::{FilterArguments, Targets};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  recant diff 2026-11-23T09:00:00+01:00 2026-11-27T18:00:00+01:00 --kind action\n  recant diff 0:4711 0:5000 --status out\n\nThe how-to is docs/how-to/time-travel.md."
)]
pub struct Diff {
    /// The earlier moment: a time on the log's clock, or a position (partition:offset)
    #[arg(value_name = "A")]
    pub from: String,
    /// The later moment
    #[arg(value_name = "B")]
    pub to: String,
    /// Which nodes; a status is that of the later moment
    #[command(flatten)]
    pub filter: FilterArguments,
    /// Show at most so many
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub limit: usize,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  recant what-if --source web:portal --at 2026-11-24T16:00:00+01:00\n  recant what-if --without 0198c1f4-…\n  recant what-if --with events.jsonl --at 0:4711\n\nNothing real changes. The how-to is docs/how-to/time-travel.md."
)]
pub struct WhatIf {
    #[command(flatten)]
    pub targets: Targets,
    /// Lift this retraction with it
    #[arg(long, value_name = "ID")]
    pub replaces: Vec<String>,
    /// Behind this moment: a time on the log's clock, or a position (partition:offset)
    #[arg(long, value_name = "WHEN", required_unless_present = "without")]
    pub at: Option<String>,
    /// Without this event
    #[arg(long, value_name = "EVENT")]
    pub without: Vec<String>,
    /// With these events: JSON lines, as for append; `-` for standard input
    #[arg(long, value_name = "FILE", requires = "at")]
    pub with: Option<PathBuf>,
    /// Show at most so many nodes
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub limit: usize,
    /// Where the branch is made, and removed again [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  recant verify                    everything\n  recant verify --space acme       one space\n\nWithout --space every space is verified. The how-to is docs/how-to/time-travel.md."
)]
pub struct Verify {
    /// Where the replayed state is made, and removed again [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  recant replay --until 2026-11-24T16:00:00+01:00 --into tuesday\n  recant list --kind action --data tuesday\n\nThe how-to is docs/how-to/time-travel.md."
)]
pub struct Replay {
    /// A time on the log's clock, or a position: then everything that the log had taken by the time of that event
    #[arg(long, value_name = "WHEN")]
    pub until: String,
    /// Where to; must not exist or be empty
    #[arg(long, value_name = "DIR")]
    pub into: PathBuf,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  recant upgrade --preview\n  recant upgrade --keep-old\n  recant upgrade --log kafka --brokers localhost:9092 --data ./state\n\nStop whoever writes first. The how-to is docs/how-to/upgrade.md."
)]
pub struct Upgrade {
    /// Only show what would change
    #[arg(long)]
    pub preview: bool,
    /// Keep the old state beside the new one, as state/N.old-1
    #[arg(long, conflicts_with = "preview")]
    pub keep_old: bool,
    /// Show at most so many nodes
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub limit: usize,
    /// Where the state of a preview is made, and removed again [default: a temporary directory]
    #[arg(long, value_name = "DIR", requires = "preview")]
    pub scratch: Option<PathBuf>,
}
