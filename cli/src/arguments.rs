//! What users type. Help texts, the man page and completions are made from this and nothing else.

mod key;
mod moving;
pub mod snapshots;
mod token;
mod travel;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::brokers::KafkaArguments;
pub use key::{Init, Key, Writers};
pub use moving::{Export, ExportTo, Repartition};
pub use token::Token;
pub use travel::{Diff, Replay, Upgrade, Verify, WhatIf};

/// Memory that can take things back.
///
/// recant keeps why each thing is believed. When a source turns out to be bad, a retraction takes back what rested on it,
/// spares what has another reason, and tells everyone who follows.
#[derive(Debug, Parser)]
#[command(name = "recant", version, propagate_version = true, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  recant demo                                              the whole story in ten seconds
  recant import chat runs.jsonl --map map.toml             your agents' transcripts
  recant explain ACTION                                    why, down to the sources
  recant retract --source web:portal --preview             what would fall, and what would stay
  recant watch --from earliest                             the revocations, as another agent sees them

Exit status: 0 done; 1 the answer is no; 2 wrong usage or input; 3 could not.";

/// What every command takes.
#[derive(Debug, Args)]
pub struct Common {
    /// The directory with the log and its state
    #[arg(long, global = true, env = "RECANT_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// A running server (`recant serve`) instead of a directory; RECANT_TOKEN is sent as the bearer token
    #[arg(long, global = true, env = "RECANT_URL", value_name = "URL")]
    pub url: Option<String>,
    /// The space: one tenant's shared memory
    #[arg(long, global = true, env = "RECANT_SPACE", value_name = "NAME")]
    pub space: Option<String>,
    /// The key to sign with, in a log whose writers sign; `recant key new` makes one
    #[arg(long, global = true, env = "RECANT_KEY", value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Answer in JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Memory for open spaces and the databases beneath, such as 512MiB; spaces that go over it are read in pages, or closed
    #[arg(long, global = true, env = "RECANT_MEMORY_BUDGET", value_name = "SIZE", value_parser = bytes, default_value = "1GiB")]
    pub memory_budget: usize,
    #[command(flatten)]
    pub kafka: KafkaArguments,
    /// A configuration file with `data`, `url` and `space` [default: recant/config.toml in the configuration directory]
    #[arg(long, global = true, env = "RECANT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Tell the story from an empty directory, with the real engine, and check it
    Demo(Demo),
    /// Serve log and state over HTTP; or a log on Kafka, together with other processes that do
    Serve(Serve),
    /// Serve one assistant on standard input and output, by the Model Context Protocol
    Mcp,
    /// Make a token for a caller of a server
    Token(Token),
    /// Make an empty log, whose writers sign or do not
    Init(Init),
    /// Keys of a log whose writers sign: make, enrol, revoke, list
    #[command(subcommand)]
    Key(Key),
    /// Append events: JSON lines from a file or from standard input
    Append(Append),
    /// Make events of what you have
    #[command(subcommand)]
    Import(Import),
    /// Take something back: what rests on it falls, what has another reason stays
    Retract(Retract),
    /// Lift a retraction: everything is exactly as if it had not been
    Reinstate(Reinstate),
    /// Say why a node is believed or not, down to the sources
    Explain(Explain),
    /// List nodes, sources, retractions or spaces
    List(List),
    /// Follow the change stream
    Watch(Watch),
    /// Show one run: what it was shown, concluded and did, and what has fallen since
    Run(Run),
    /// Events that could not be applied
    #[command(subcommand)]
    Rejected(Rejected),
    /// Check everything that must be right, and show what takes how much room
    Doctor(Doctor),
    /// Make a snapshot of log and state, also while another process writes
    Snapshot(Snapshot),
    /// Make a data directory of a snapshot, once everything in it has been verified
    Restore(Restore),
    /// Make the state anew from the log, compare it with the old one, and put it in its place
    Rebuild(Rebuild),
    /// Let this program's logic version take over from an older one; `--preview` shows what would change
    Upgrade(Upgrade),
    /// Write the events out as JSON lines, or move a log from its directory to Kafka
    Export(Export),
    /// Copy a log on Kafka to topics with another number of partitions, and prove that nothing differs
    Repartition(Repartition),
    /// Say what turned between two moments, and because of which event
    Diff(Diff),
    /// Say what would have come out differently if a retraction had come earlier, or an event had not
    WhatIf(WhatIf),
    /// Fold the log again, and prove that state, changes and digests are what it makes
    Verify(Verify),
    /// Make a directory of the past: log, state and changes as they were at a moment
    Replay(Replay),
    /// Print shell completions
    #[command(after_help = "Example:\n  recant completions bash > ~/.local/share/bash-completion/completions/recant")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the man page
    #[command(after_help = "Example:\n  recant man | man -l -")]
    Man,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  recant demo\n  recant demo --rehearse      tells it twice and compares the bytes")]
pub struct Demo {
    /// Tell it twice, and check that both print the same bytes
    #[arg(long, conflicts_with = "keep")]
    pub rehearse: bool,
    /// Where to tell it; must not exist or be empty [default: a temporary directory, removed at the end]
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  recant serve\n  curl -N http://127.0.0.1:7470/v1/spaces/default/changes\n  recant serve --read-only --data ./tuesday --listen 127.0.0.1:7471\n  recant serve --log kafka --brokers localhost:9092 --data ./state\n  RECANT_KAFKA_SASL_PASSWORD=… recant serve --log kafka --brokers broker:9093 --kafka security.protocol=sasl_ssl --kafka sasl.username=recant\n\nOn Kafka the same command on several machines shares the partitions. The how-tos are docs/how-to/serve.md and docs/how-to/kafka.md."
)]
pub struct Serve {
    /// Where HTTP is served; port 0 is any that is free [default: 127.0.0.1:7470; on Kafka only if it is given]
    #[arg(long, env = "RECANT_LISTEN", value_name = "HOST:PORT")]
    pub listen: Option<std::net::SocketAddr>,
    /// On Kafka: where other processes reach this one, for the spaces that it serves [default: the address that it listens on]
    #[arg(long, env = "RECANT_ADVERTISE", value_name = "URL", requires = "listen")]
    pub advertise: Option<String>,
    /// Who may do what, TLS and quotas; without it everything is allowed, on loopback only. The how-to is docs/how-to/access.md
    #[arg(long, env = "RECANT_ACCESS", value_name = "FILE")]
    pub access: Option<PathBuf>,
    /// Only read the data directory, which nobody writes: one that `recant replay` made, or a copy
    #[arg(long)]
    pub read_only: bool,
    /// Partitions of a log that is created; fixed for ever [default: 1, on Kafka 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub partitions: Option<u32>,
    /// Keep the states of the partitions that others serve, too: taking one over needs no restore, and reads find all here
    #[arg(long, value_name = "WHICH", value_parser = ["all"])]
    pub standby: Option<String>,
    /// A name that this process keeps over restarts: back within the session time-out, it finds its partitions where they were
    #[arg(long, value_name = "NAME")]
    pub static_member: Option<String>,
    #[command(flatten)]
    pub snapshots: snapshots::Snapshots,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  recant append events.jsonl\n  agent --trace | recant append -")]
pub struct Append {
    /// JSON lines, one event a line; `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Fill a log that does not exist yet from historical data, taking each event's occurred_at for the log's clock
    #[arg(long, value_name = "CLOCK", value_parser = ["occurred"])]
    pub log_time: Option<String>,
    /// Append so many events at once
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub batch_events: u32,
    /// Write each event's fate to a file as soon as it is known, as JSON lines
    #[arg(long, value_name = "FILE")]
    pub fates: Option<PathBuf>,
    #[command(flatten)]
    pub new_log: NewLogArguments,
}

/// What a log is to be that does not exist yet.
#[derive(Debug, Args)]
pub struct NewLogArguments {
    /// Partitions of a log that is created; fixed for ever
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub partitions: u32,
}

#[derive(Debug, Subcommand)]
pub enum Import {
    /// Transcripts in the shape of OpenAI chat completions or Anthropic messages, one JSON object a line
    Chat(ImportChat),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  recant import chat runs.jsonl --map map.toml --reasons literals\n\nThe how-to is docs/how-to/import-chat.md."
)]
pub struct ImportChat {
    /// Files with one run a line; `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// What the tools read and do; several maps are merged
    #[arg(long, value_name = "MAP.toml")]
    pub map: Vec<PathBuf>,
    /// How reasons are recorded
    #[arg(long, value_enum, default_value_t = ReasonsArgument::Context)]
    pub reasons: ReasonsArgument,
    /// Put before each run's id, for files whose runs are called alike
    #[arg(long, value_name = "TEXT")]
    pub run_prefix: Option<String>,
    /// Write each event's fate to a file as soon as it is known, as JSON lines
    #[arg(long, value_name = "FILE")]
    pub fates: Option<PathBuf>,
    #[command(flatten)]
    pub new_log: NewLogArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReasonsArgument {
    /// A message rests on everything that was in its context
    Context,
    /// Beside that, an action rests on the observations in which its arguments stand
    Literals,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  recant retract --source web:portal --preview\n  recant retract --source web:portal --from 2026-03-01T00:00:00Z --reason 'taken over' --by kim\n  recant retract --agent researcher --run r-17 --by kim"
)]
pub struct Retract {
    #[command(flatten)]
    pub targets: Targets,
    /// Lift this retraction at the same position
    #[arg(long, value_name = "ID")]
    pub replaces: Vec<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Who asks for it
    #[arg(long, value_name = "WHO")]
    pub by: Option<String>,
    /// The id of the retraction [default: a new one]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    #[command(flatten)]
    pub decision: Decision,
}

/// What is retracted.
#[derive(Debug, Args)]
pub struct Targets {
    /// A source
    #[arg(long, value_name = "HANDLE")]
    pub source: Vec<String>,
    /// A node
    #[arg(long, value_name = "ID")]
    pub node: Vec<String>,
    /// One justification
    #[arg(long, value_name = "ID")]
    pub justification: Vec<String>,
    /// An agent: the observations and justifications that it wrote
    #[arg(long, value_name = "AGENT")]
    pub agent: Vec<String>,
    /// Of the agent, this run alone
    #[arg(long, value_name = "RUN", requires = "agent")]
    pub run: Option<String>,
    /// Cover only what happened at this time or later
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Cover only what happened before this time
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// The clock of the window [default: log for agents, else observed]
    #[arg(long, value_name = "CLOCK", value_parser = ["observed", "log"])]
    pub clock: Option<String>,
}

/// What retracting and reinstating have in common.
#[derive(Debug, Args)]
pub struct Decision {
    /// Show what would happen, and change nothing
    #[arg(long)]
    pub preview: bool,
    /// Refuse if anything was applied to the space after this position, which a preview gives
    #[arg(long, value_name = "POSITION")]
    pub only_if_position: Option<String>,
    /// Show at most so many changes
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub limit: usize,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  recant reinstate 0198c1f4-… --by kim --reason 'the portal was never down'")]
pub struct Reinstate {
    /// The retraction
    #[arg(value_name = "RETRACTION")]
    pub retraction: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Who asks for it
    #[arg(long, value_name = "WHO")]
    pub by: Option<String>,
    #[command(flatten)]
    pub decision: Decision,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  recant explain pay-34500\n  recant explain pay-34500 --as-of 2026-03-03T12:00:00Z"
)]
pub struct Explain {
    /// The node
    #[arg(value_name = "ID")]
    pub id: String,
    /// As of a time on the log's clock, or a position (partition:offset)
    #[arg(long, value_name = "WHEN")]
    pub as_of: Option<String>,
    /// Only what its writer dates to this time or before; no status changes
    #[arg(long, value_name = "TIME")]
    pub valid_at: Option<String>,
    /// Show at most so many nodes
    #[arg(long, default_value_t = 200, value_name = "N")]
    pub limit: usize,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  recant list --kind action --status out\n  recant list --sources\n  recant list --run r-17 --as-of 0:4711"
)]
pub struct List {
    /// Sources instead of nodes
    #[arg(long, conflicts_with_all = ["retractions", "spaces"])]
    pub sources: bool,
    /// Retractions instead of nodes
    #[arg(long, conflicts_with = "spaces")]
    pub retractions: bool,
    /// Spaces instead of nodes, as they are now
    #[arg(long, conflicts_with = "as_of")]
    pub spaces: bool,
    #[command(flatten)]
    pub filter: FilterArguments,
    /// As of a time on the log's clock, or a position (partition:offset)
    #[arg(long, value_name = "WHEN")]
    pub as_of: Option<String>,
    /// Only nodes that their writers date to this time or before; no status changes
    #[arg(long, value_name = "TIME", conflicts_with_all = ["sources", "retractions", "spaces"])]
    pub valid_at: Option<String>,
    /// Go on after a page: its `next`
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub limit: usize,
}

/// Which nodes, or changes of which nodes.
#[derive(Debug, Args)]
pub struct FilterArguments {
    /// Believed, or not
    #[arg(long, value_enum)]
    pub status: Option<StatusArgument>,
    /// Of this kind
    #[arg(long, value_name = "KIND", value_parser = ["observation", "belief", "plan", "action"])]
    pub kind: Option<String>,
    /// Observed from this source
    #[arg(long, value_name = "HANDLE")]
    pub source: Option<String>,
    /// Written by this agent
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
    /// Written in this run
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// About this subject
    #[arg(long, value_name = "SUBJECT")]
    pub subject: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatusArgument {
    /// Believed
    In,
    /// Not believed
    Out,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  recant watch --from earliest --until-caught-up\n  recant watch --cursor-file agent.cursor --kind action --json\n  recant watch --since 120s"
)]
pub struct Watch {
    /// `earliest`, `latest`, a cursor, or a time on the log's clock [default: the cursor file's, else latest]
    #[arg(long, value_name = "WHERE", conflicts_with = "since")]
    pub from: Option<String>,
    /// From so long ago: 120s, 15m, 2h, 7d
    #[arg(long, value_name = "DURATION")]
    pub since: Option<String>,
    /// Resume from the cursor in this file, and keep it up to date
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "since"])]
    pub cursor_file: Option<PathBuf>,
    /// End when there is nothing more to tell
    #[arg(long)]
    pub until_caught_up: bool,
    /// Show digests too: what the state of the space added up to, for whoever keeps one of their own
    #[arg(long)]
    pub digests: bool,
    #[command(flatten)]
    pub filter: FilterArguments,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  recant run banking/user_task_0")]
pub struct Run {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// As of a time on the log's clock, or a position (partition:offset)
    #[arg(long, value_name = "WHEN")]
    pub as_of: Option<String>,
    /// Only what its writer dates to this time or before; no status changes
    #[arg(long, value_name = "TIME")]
    pub valid_at: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Rejected {
    /// List them
    #[command(after_help = "Example:\n  recant rejected list --json")]
    List {
        /// At most so many, the newest
        #[arg(long, default_value_t = 100, value_name = "N")]
        limit: usize,
    },
    /// Append an event again, as it was
    #[command(after_help = "Example:\n  recant rejected retry 0:4711")]
    Retry {
        /// Where it lies in recant.events
        #[arg(value_name = "POSITION")]
        position: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  recant doctor --data ./recant-data")]
pub struct Doctor {}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  recant snapshot /backup/2026-11-30\n  recant snapshot /backup/2026-11-30 && recant restore /backup/2026-11-30 --verify-only\n\nThe how-to is docs/how-to/backup.md."
)]
pub struct Snapshot {
    /// Where to; must not exist or be empty
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  recant restore /backup/2026-11-30 --data ./recant-data\n  recant restore /backup/2026-11-30 --verify-only\n\nThe how-to is docs/how-to/backup.md."
)]
pub struct Restore {
    /// The snapshot
    #[arg(value_name = "SNAPSHOT")]
    pub snapshot: PathBuf,
    /// Verify it, and write nothing
    #[arg(long)]
    pub verify_only: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  recant rebuild\n  recant rebuild --partition 3 --keep-old\n\nThe how-to is docs/how-to/rebuild.md."
)]
pub struct Rebuild {
    /// This partition alone
    #[arg(long, value_name = "N")]
    pub partition: Option<u32>,
    /// Keep the old state beside the new one, as state/N.old-1
    #[arg(long)]
    pub keep_old: bool,
}

/// A size: a number of bytes, or of KiB, MiB or GiB.
fn bytes(text: &str) -> Result<usize, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("", 0)];
    let (number, shift) =
        units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift))).unwrap_or((text, 0));
    let size = number.trim().parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift));
    size.ok_or_else(|| "a size is a number of bytes, or of KiB, MiB or GiB, such as 512MiB".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::{Arguments, bytes};

    /// An option of a command whose name inside is that of an option of all commands would be taken for it, in silence.
    #[test]
    fn no_option_of_a_command_hides_one_of_all() {
        fn ids(command: &clap::Command) -> Vec<&str> {
            command.get_arguments().map(|argument| argument.get_id().as_str()).collect()
        }
        let mut command = Arguments::command();
        let of_all = Arguments::command();
        let of_all: Vec<&str> =
            of_all.get_arguments().filter(|one| one.is_global_set()).map(|one| one.get_id().as_str()).collect();
        assert!(of_all.contains(&"url"), "{of_all:?}");
        let mut waiting: Vec<&mut clap::Command> = command.get_subcommands_mut().collect();
        while let Some(command) = waiting.pop() {
            let hidden: Vec<&str> = ids(command).into_iter().filter(|id| of_all.contains(id)).collect();
            assert!(hidden.is_empty(), "recant {}: {hidden:?}", command.get_name());
            waiting.extend(command.get_subcommands_mut());
        }
    }

    #[test]
    fn sizes_are_read_in_their_units() {
        let read = ["0", "17", "2KiB", "512 MiB", "1GiB"].map(|text| bytes(text).unwrap());
        assert_eq!(read, [0, 17, 2 << 10, 512 << 20, 1 << 30]);
        for text in ["", "MiB", "1.5GiB", "-1", "1GB", "99999999999GiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
