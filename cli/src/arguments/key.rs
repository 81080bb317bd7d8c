//! Arguments of `recant init` and `recant key`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  recant init --partitions 4\n  recant key new ops --out ops.key\n  recant init --writers signed --key ops.key\n\nThe how-to is docs/how-to/signed-writers.md."
)]
pub struct Init {
    /// Whether what takes back, gives back or vouches counts only with a signature; --key is then the first operator's
    #[arg(long, value_enum, default_value = "open")]
    pub writers: Writers,
    /// How many partitions, for ever
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub partitions: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Writers {
    /// Whoever may write to the log may say anything
    Open,
    /// Retractions, reinstatements, what is said of sources, policies and reviews need the signature of an enrolled key
    Signed,
}

#[derive(Debug, Subcommand)]
pub enum Key {
    /// Make a key: the file is for its holder alone, the public key for whoever enrols it
    #[command(after_help = "Example:\n  recant key new gateway --out gateway.key")]
    New {
        /// Its id, unlike any other in the logs where it will be enrolled
        #[arg(value_name = "ID")]
        id: String,
        /// Where to; must not exist
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Let a key count from here on, signed by an operator's (--key)
    #[command(after_help = "Example:\n  recant key enrol gateway --public-key 9kPl…= --holder gateway --key ops.key")]
    Enrol {
        /// Its id
        #[arg(value_name = "ID")]
        id: String,
        /// As `recant key new` prints it
        #[arg(long, value_name = "BASE64")]
        public_key: String,
        /// It may enrol and revoke others
        #[arg(long)]
        operator: bool,
        /// Whose it is
        #[arg(long, value_name = "WHO")]
        holder: Option<String>,
    },
    /// Let a key count no more, signed by an operator's (--key)
    #[command(after_help = "Example:\n  recant key revoke gateway --reason 'the host was taken over' --key ops.key")]
    Revoke {
        /// Its id, which is then spent
        #[arg(value_name = "ID")]
        id: String,
        /// Why
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Show the keys of the log
    #[command(after_help = "Example:\n  recant key list")]
    List,
}
