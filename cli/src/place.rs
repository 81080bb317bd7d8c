//! Where the data is: from flags, environment and a configuration file, in falling order.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Result;
use recant_eventlog::{
    ReadLog,
    clock::SystemClock,
    embedded::Follower,
    kafka::{KafkaLog, Settings},
};
use recant_processor::{
    door::Door,
    memory::Memory,
    signer::Signer,
    standalone::{NewLog, Standalone, log_directory},
    viewer::Viewer,
};
use recant_projections::{
    fold::{Forms, space::Space},
    query::Moment,
    store::{StoreError, rocks::RocksStore},
};
use recant_proto::{
    position::{Incarnation, Position},
    time,
    v1::KeyEnrolled,
};
use serde::Deserialize;

use crate::{
    arguments::Common,
    commands::{key, writer::Writer},
    failure::{Problem, Sort},
    log::ReadableLog,
    remote::Remote,
};

/// The configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    data: Option<PathBuf>,
    space: Option<String>,
    url: Option<String>,
}

/// What to give for a moment that is no time.
pub const WHEN: &str = "or give a position (partition:offset)";

/// A data directory and a space.
#[derive(Debug, Clone)]
pub struct Place {
    pub data: PathBuf,
    pub space: String,
    /// Whether the space was named by the user, for commands that otherwise take all.
    pub is_space_named: bool,
    pub memory_budget_bytes: usize,
    /// The brokers, where the log is on Kafka.
    pub kafka: Option<Settings>,
    /// A running server, which then has log and state.
    pub url: Option<String>,
    /// What is appended is signed with, where it needs that.
    pub signer: Option<Arc<Signer>>,
}

impl Place {
    /// By what the user typed and configured.
    pub fn of(common: &Common) -> Result<Place> {
        let config = Config::read(common)?;
        let data = common.data.clone().or(config.data).unwrap_or_else(|| PathBuf::from("recant-data"));
        let named_space = common.space.clone().or(config.space);
        let is_space_named = named_space.is_some();
        let space = named_space.unwrap_or_else(|| "default".to_owned());
        // More often a variable that is not set than the wish to write here and now.
        if data.as_os_str().is_empty() || space.is_empty() {
            let which = if space.is_empty() { "space" } else { "data" };
            return Err(Problem::wrong(format!("--{which} is empty; give it a value, or leave it out")).into());
        }
        Ok(Place {
            data,
            space,
            is_space_named,
            memory_budget_bytes: common.memory_budget,
            kafka: common.kafka.settings()?,
            url: common.url.clone().or(config.url).filter(|url| !url.is_empty()),
            signer: common.key.as_deref().map(key::read).transpose()?.map(Arc::new),
        })
    }

    /// The server, if one was named.
    pub fn remote(&self) -> Result<Option<Remote>> {
        self.url.as_deref().map(|url| Remote::at(url, &self.space)).transpose()
    }

    /// Refuses what a server is not asked for.
    pub fn needs_no_server(&self) -> Result<()> {
        if self.url.is_none() {
            return Ok(());
        }
        Err(Problem::wrong("this command works on a data directory or on brokers; leave out --url (RECANT_URL)").into())
    }

    /// Refuses what only a log in a data directory can do.
    pub fn needs_embedded(&self) -> Result<()> {
        self.needs_no_server()?;
        if self.kafka.is_none() {
            return Ok(());
        }
        Err(Problem::wrong("this command works on a log in a data directory; leave out --log kafka").into())
    }

    /// Opens the log to write, in its directory or on brokers; creates it if it is not there, but on brokers, where `recant serve`
    /// does.
    pub fn writer(&self, partitions: u32) -> Result<Writer> {
        if let Some(remote) = self.remote()? {
            return Ok(Writer::Remote(remote));
        }
        match &self.kafka {
            None => Ok(Writer::Embedded(self.open_or_create(partitions)?)),
            Some(settings) => Ok(Writer::Kafka(self.door(settings)?)),
        }
    }

    /// Opens it to write; creates it if it is not there.
    pub fn open_or_create(&self, partitions: u32) -> Result<Standalone> {
        let (new, clock) = (self.new_log(partitions, false), Arc::new(SystemClock));
        let memory = Memory::within(self.memory_budget_bytes);
        Ok(Standalone::open_or_create_within(&self.data, &new, clock, &memory)?.signing(self.signer.clone()))
    }

    /// Creates it; its writers sign, if there is a first operator's key.
    pub fn create(&self, new: &NewLog, operator_key: Option<&KeyEnrolled>) -> Result<Standalone> {
        let (clock, memory) = (Arc::new(SystemClock), Memory::within(self.memory_budget_bytes));
        Ok(match operator_key {
            None => Standalone::create_within(&self.data, new, clock, &memory)?,
            Some(key) => Standalone::create_signed_within(&self.data, new, key, clock, &memory)?,
        })
    }

    /// A door to the log on some brokers.
    pub fn door(&self, settings: &Settings) -> Result<Door> {
        Ok(Door::new(KafkaLog::open(settings.clone())?, FATE_PATIENCE).signing(self.signer.clone()))
    }

    /// Opens the log to write, in its directory or on brokers; it must be there.
    pub fn writer_of_existing(&self) -> Result<Writer> {
        if let Some(remote) = self.remote()? {
            return Ok(Writer::Remote(remote));
        }
        match &self.kafka {
            None => Ok(Writer::Embedded(self.open()?)),
            Some(settings) => Ok(Writer::Kafka(self.door(settings)?)),
        }
    }

    /// Creates it, to be filled from historical data.
    pub fn create_historical(&self, partitions: u32) -> Result<Standalone> {
        self.needs_embedded()?;
        if log_directory(&self.data).exists() {
            let detail = format!("{} holds a log already; --log-time occurred fills a new one", self.data.display());
            return Err(Problem::wrong(detail).into());
        }
        let (new, clock) = (self.new_log(partitions, true), Arc::new(SystemClock));
        Ok(Standalone::create_within(&self.data, &new, clock, &Memory::within(self.memory_budget_bytes))?)
    }

    fn new_log(&self, partitions: u32, log_time_occurred: bool) -> NewLog {
        NewLog { incarnation: Incarnation(*uuid::Uuid::new_v4().as_bytes()), partitions, log_time_occurred }
    }

    /// Opens it to write; it must be there.
    pub fn open(&self) -> Result<Standalone> {
        self.needs_embedded()?;
        let memory = Memory::within(self.memory_budget_bytes);
        let standalone = Standalone::open_within(&self.data, Arc::new(SystemClock), &memory)?;
        Ok(standalone.signing(self.signer.clone()))
    }

    /// Opens the log alone, to read.
    pub fn log(&self) -> Result<ReadableLog> {
        match &self.kafka {
            None => Ok(ReadableLog::Embedded(Follower::open(&log_directory(&self.data))?)),
            Some(settings) => Ok(ReadableLog::Kafka(KafkaLog::open(settings.clone())?)),
        }
    }

    /// Opens it to read, whoever else writes.
    pub fn view(&self) -> Result<View> {
        let viewer = Viewer::over(&self.data, self.log()?);
        let partition = viewer.partition_of(&self.space);
        let store = viewer.state(partition)?;
        let moment = Moment::now(&store)?.ok_or_else(|| StoreError::Absent(self.data.display().to_string()))?;
        Ok(View { space: self.space.clone(), viewer, store, moment })
    }
}

/// So long a command waits until what it appended is processed.
const FATE_PATIENCE: Duration = Duration::from_secs(30);

impl Config {
    fn read(common: &Common) -> Result<Config> {
        let (path, must_exist) = match &common.config {
            Some(path) => (path.clone(), true),
            None => match config_directory() {
                Some(directory) => (directory.join("recant").join("config.toml"), false),
                None => return Ok(Config::default()),
            },
        };
        match std::fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text)
                .map_err(|error| Problem::wrong(format!("{}: {}", path.display(), error.message())).into()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => Ok(Config::default()),
            Err(error) => Err(Problem { sort: Sort::Wrong, ..Problem::file(&path, &error) }.into()),
        }
    }
}

fn config_directory() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))
}

/// A moment before the log began.
pub fn nothing_then(when: &str) -> Problem {
    Problem::new(Sort::No, "not_found", "The log had nothing then", format!("the log begins after {when}"))
}

/// A space that is read, at a moment.
pub struct View {
    pub space: String,
    pub viewer: Viewer<ReadableLog>,
    pub store: RocksStore,
    pub moment: Moment,
}

impl View {
    /// The same space as of a time on the log's clock, or a position.
    pub fn at(mut self, when: Option<&str>) -> Result<View> {
        if let Some(when) = when {
            self.moment = self.moment_of("--as-of", when)?;
        }
        Ok(self)
    }

    /// The same, showing only what its writer dates to a time or before.
    pub fn valid_at(mut self, time: Option<&str>) -> Result<View> {
        if let Some(time) = time {
            let instant = time::parse("--valid-at", time).map_err(|violation| Problem::wrong(violation.to_string()))?;
            self.moment = self.moment.valid_at(Some(instant));
        }
        Ok(self)
    }

    /// The moment of a time on the log's clock, or of a position; `flag` is where it was given.
    pub fn moment_of(&self, flag: &str, when: &str) -> Result<Moment> {
        let moment = self.moment.clone();
        if let Ok(position) = when.parse::<Position>() {
            if position.partition != moment.position.partition {
                let of_space = moment.position.partition;
                return Err(Problem::wrong(format!(
                    "{when} is not a position of partition {of_space}, where the space lies"
                ))
                .into());
            }
            return Ok(moment.at_offset(position.offset));
        }
        let instant = time::parse(flag, when).map_err(|violation| Problem::wrong(format!("{violation}; {WHEN}")))?;
        Ok(moment.at_time(&self.store, instant.to_log_ms())?.ok_or_else(|| nothing_then(when))?)
    }

    /// The space, opened; none if nothing was ever applied to it.
    pub fn open_space(&self) -> Result<Option<Space>> {
        Ok(Space::open(&self.store, &self.space, Forms::default().resident_max)?)
    }

    /// How many partitions the log has.
    pub fn partitions(&self) -> u32 {
        self.viewer.log().partitions()
    }
}
