//! The peer on Kafka: a Kafka Streams 4.4.0 application under exactly_once_v2 with four stores (`tests/peers/kafka-streams`), on the same
//! broker, of the same events in a layout of its own: `eventId16 nodeId8 premises3x8 sentNanos8 kind2 textLen2 text`.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::Duration,
};

use recant_eventlog::{AppendLog as _, NewRecord, ReadLog as _, Topic};
use recant_proto::names;
use recant_tests::kafka::{broker::Broker, checkout, log};

use crate::kafka::{APPEND_EVENTS, EVENT_BYTES, KafkaError, SPACES, arrivals, at_pace, times};

/// Where the text of an event begins.
const HEADER_BYTES: usize = 60;

/// An event, as the application reads it: the same space, node, premises and length as recant's. `changes` says whether it publishes one.
pub fn event(number: u64, premises: [u64; 3], changes: bool, partitions: u32) -> NewRecord {
    let (space, within) = (number % SPACES, number / SPACES);
    let key = format!("space-{space}").into_bytes();
    let mut value = Vec::with_capacity(EVENT_BYTES);
    value.extend_from_slice(&[0; 8]);
    value.extend_from_slice(&number.to_be_bytes());
    value.extend_from_slice(&within.to_be_bytes());
    premises.iter().for_each(|premise| value.extend_from_slice(&premise.to_be_bytes()));
    value.extend_from_slice(&[0; 8]);
    value.extend_from_slice(&u16::from(changes).to_be_bytes());
    let text = EVENT_BYTES - HEADER_BYTES;
    value.extend_from_slice(&(text as u16).to_be_bytes());
    value.resize(EVENT_BYTES, b'x');
    NewRecord {
        partition: names::partition_of(&key, partitions),
        key,
        headers: Vec::new(),
        value,
        append_time_ms: None,
    }
}

/// Puts so many events into the topic of an instance. One in 100 publishes a change.
pub fn preload(broker: &Broker, instance: &str, partitions: u32, events: u64, seed: u64) -> Result<(), KafkaError> {
    let log = log(&broker.address(), instance, partitions);
    let mut random = recant_tests::binary::Random(seed);
    let mut batch = Vec::with_capacity(APPEND_EVENTS);
    for number in 0..events {
        let within = number / SPACES;
        let premises = [0; 3].map(|_| random.below(within.max(1)));
        batch.push(event(number, premises, number % 100 == 0, partitions));
        if batch.len() == APPEND_EVENTS || number + 1 == events {
            log.append(std::mem::take(&mut batch))?;
        }
    }
    Ok(())
}

/// The application, running; killed when it is dropped.
pub struct Application {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Application {
    /// Starts it over an instance's topics, with a state directory, and settings such as `commit=10`.
    pub fn start(
        broker: &Broker,
        instance: &str,
        id: &str,
        state: &std::path::Path,
        settings: &[&str],
    ) -> Result<Application, KafkaError> {
        let mut child = Command::new("java")
            .args(["-Xmx512m", "-cp", class_path()?])
            .arg("KsApp")
            .arg(format!("boot={}", broker.address()))
            .arg(format!("app={id}"))
            .arg(format!("in={instance}.recant.events"))
            .arg(format!("out={instance}.recant.changes"))
            .arg(format!("dir={}", state.display()))
            .args(settings)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or(KafkaError::Missing("the application's output"))?);
        Ok(Application { child, lines })
    }

    /// Waits for a line that begins so, and gives its fields.
    pub fn line(&mut self, begins: &str) -> Result<Fields, KafkaError> {
        let mut line = String::new();
        while self.lines.read_line(&mut line)? > 0 {
            if line.starts_with(begins) {
                return Ok(Fields(line));
            }
            line.clear();
        }
        Err(KafkaError::Missing("a line of the application"))
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `key=value` of a line.
pub struct Fields(String);

impl Fields {
    /// A number.
    pub fn number(&self, key: &str) -> Result<f64, KafkaError> {
        let found = self.0.split_whitespace().find_map(|field| field.strip_prefix(key)?.strip_prefix('='));
        found.and_then(|number| number.parse().ok()).ok_or(KafkaError::Missing("a figure of the application"))
    }
}

/// Events a second that the application processes of what lies there, with its changelogs on.
pub fn ingest(broker: &Broker, partitions: u32, events: u64, seed: u64) -> Result<f64, KafkaError> {
    let instance = format!("streams-{partitions}-{events}");
    preload(broker, &instance, partitions, events, seed)?;
    let state = tempfile::tempdir()?;
    let threads = format!("threads={}", partitions.min(2));
    let mut application = Application::start(broker, &instance, &instance, state.path(), &[&threads, "log=1"])?;
    application.line("RESULT")?.number("events_per_s")
}

/// How long it restores, in seconds, after it was killed when it had processed all but a twentieth of so many events, with its state kept.
pub fn restore(broker: &Broker, events: u64, seed: u64) -> Result<Restore, KafkaError> {
    let instance = format!("streams-restore-{events}");
    preload(broker, &instance, 1, events, seed)?;
    let state = tempfile::tempdir()?;
    let session = "conf.session.timeout.ms=6000";
    let kill_at = format!("killat={}", events - events / 20);
    let mut first =
        Application::start(broker, &instance, &instance, state.path(), &["threads=1", "log=1", session, &kill_at])?;
    first.line("SIGKILL_AT")?;
    // It is gone within moments.
    first.child.wait()?;
    let mut second = Application::start(broker, &instance, &instance, state.path(), &["threads=1", "log=1", session])?;
    let line = second.line("RESULT")?;
    Ok(Restore { restore_s: line.number("restore_ms")? / 1e3, first_record_s: line.number("first_record_ms")? / 1e3 })
}

/// What the application's recovery came to.
pub struct Restore {
    /// Reading its changelogs.
    pub restore_s: f64,
    /// From its start to its first record, which has the session time-out in it.
    pub first_record_s: f64,
}

/// The class path of the compiled application.
fn class_path() -> Result<&'static str, KafkaError> {
    static COMPILED: OnceLock<Option<String>> = OnceLock::new();
    let compile = || {
        let mut command = Command::new(checkout().join("tests/peers/kafka-streams/compile"));
        let output = command.stderr(Stdio::inherit()).output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok().map(|path| path.trim().to_owned())
    };
    COMPILED.get_or_init(compile).as_deref().ok_or(KafkaError::Missing("the compiled peer"))
}

/// Times from an append to the change that the application publishes of it, in ms, in rising order.
pub fn latency(broker: &Broker, changes: usize, pace: Duration) -> Result<Vec<f64>, KafkaError> {
    let instance = "streams-latency";
    preload(broker, instance, 1, WARM_UP_EVENTS, 0)?;
    let log = log(&broker.address(), instance, 1);
    let state = tempfile::tempdir()?;
    let settings = ["threads=1", "log=1", "commit=10", "until=never"];
    let mut application = Application::start(broker, instance, instance, state.path(), &settings)?;
    application.line("RUNNING")?;
    // One in 100 of the first ones.
    let first_changes = WARM_UP_EVENTS.div_ceil(100) as usize;
    arrivals(&log, Topic::Changes, 0, first_changes, &|_| Ok(true))?;
    let from = log.bounds(Topic::Changes, 0)?.end;
    let (sent, seen) = std::thread::scope(|scope| {
        let seen = scope.spawn(|| arrivals(&log, Topic::Changes, from, changes, &|_| Ok(true)));
        let sent = at_pace(changes, pace, |number| {
            let number = WARM_UP_EVENTS + number as u64;
            Ok(log.append(vec![event(number, [0; 3], true, 1)]).map(drop)?)
        })?;
        Ok::<_, KafkaError>((sent, seen.join().map_err(|_| KafkaError::Missing("a reader's thread"))??))
    })?;
    Ok(times(&sent, seen.iter()))
}

/// So many events warm the application up.
const WARM_UP_EVENTS: u64 = 100_000;
