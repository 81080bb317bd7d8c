//! Kafka: how long a partition stands still after kill -9, from the start of the process that goes on to its first `serving`: with
//! the disk kept, with the disk lost (a snapshot, and the end of the log), and where a standby takes over, from the kill on, with the
//! session time-out in it.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use recant_eventlog::{AppendLog as _, ReadLog as _};
use recant_tests::{
    binary::Random,
    crash::process::program,
    kafka::{broker::Broker, load::record, log},
};
use serde_json::Value;

use crate::kafka::{APPEND_EVENTS, KafkaError, PATIENCE, event};

/// Seconds until a partition is served again.
pub struct Recovery {
    /// With the disk kept.
    pub kept_s: f64,
    /// With the disk lost.
    pub lost_s: f64,
    /// By a standby.
    pub standby_s: f64,
}

/// What `recant serve` is started with beside its directory.
struct Serving<'a> {
    brokers: &'a str,
    instance: &'a str,
    snapshots: &'a Path,
}

/// A process that serves; killed when it is dropped.
struct Member {
    child: Child,
    told: BufReader<ChildStdout>,
}

impl Serving<'_> {
    fn start(&self, data: &Path, more: &[&str]) -> Result<Member, KafkaError> {
        let mut child = Command::new(program("recant"))
            .args(["serve", "--json", "--log", "kafka", "--brokers", self.brokers, "--instance", self.instance])
            .args(["--snapshot-every", "2s", "--snapshots"])
            .arg(self.snapshots)
            .arg("--data")
            .arg(data)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let told = BufReader::new(child.stdout.take().ok_or(KafkaError::Missing("what recant serve tells"))?);
        Ok(Member { child, told })
    }
}

impl Member {
    /// Waits until it tells something.
    fn wait_for(&mut self, what: &'static str) -> Result<Value, KafkaError> {
        let mut line = String::new();
        while self.told.read_line(&mut line)? > 0 {
            if let Ok(told) = serde_json::from_str::<Value>(&line)
                && told["told"] == what
            {
                return Ok(told);
            }
            line.clear();
        }
        Err(KafkaError::Missing(what))
    }

    fn kill(mut self) -> std::io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Kills and starts again over so many nodes in one partition.
pub fn recovery(broker: &Broker, nodes: u64, seed: u64) -> Result<Recovery, KafkaError> {
    let (address, instance) = (broker.address(), format!("recovery-{nodes}"));
    let log = log(&address, &instance, 1);
    let (data, standby, snapshots) = (tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?);
    let serving = Serving { brokers: &address, instance: &instance, snapshots: snapshots.path() };
    let mut random = Random(seed);
    let mut number = 0;
    let mut append = |count: u64| -> Result<(), KafkaError> {
        let end = number + count;
        while number < end {
            let events = number..(number + APPEND_EVENTS as u64).min(end);
            number = events.end;
            log.append(events.map(|number| record(&event(number, &mut |below| random.below(below)), 1)).collect())?;
        }
        Ok(())
    };
    append(nodes)?;
    // Under its name it is a member again at once: what is measured is the recovery, and not the group's patience.
    let named = ["--static-member", "owner"];
    let mut owner = serving.start(data.path(), &named)?;
    owner.wait_for("serving")?;
    while owner.wait_for("snapshot")?["position"] != format!("0:{}", log.committed(0)?.next_offset) {}
    // The end of the log: what came after the snapshot.
    append(nodes / 20)?;
    wait_until_processed(&log, nodes + nodes / 20)?;

    owner.kill()?;
    let mut owner = serving.start(data.path(), &named)?;
    let begun = Instant::now();
    owner.wait_for("serving")?;
    let kept_s = begun.elapsed().as_secs_f64();

    owner.kill()?;
    std::fs::remove_dir_all(data.path())?;
    let mut owner = serving.start(data.path(), &named)?;
    let begun = Instant::now();
    owner.wait_for("restored")?;
    owner.wait_for("serving")?;
    let lost_s = begun.elapsed().as_secs_f64();

    let mut heir = serving.start(standby.path(), &["--standby", "all"])?;
    heir.wait_for("joining")?;
    wait_until_kept_up(standby.path(), log.committed(0)?.next_offset)?;
    owner.kill()?;
    let begun = Instant::now();
    heir.wait_for("serving")?;
    Ok(Recovery { kept_s, lost_s, standby_s: begun.elapsed().as_secs_f64() })
}

fn wait_until_processed(log: &recant_eventlog::kafka::KafkaLog, events: u64) -> Result<(), KafkaError> {
    wait("the end of the events", || Ok(log.committed(0)?.next_offset > events))
}

fn wait_until_kept_up(data: &Path, next_offset: u64) -> Result<(), KafkaError> {
    let state = recant_processor::standalone::state_directory(data, 0);
    wait("a standby that has caught up", || {
        let row = recant_projections::store::rocks::RocksStore::row_of(&state).ok().flatten();
        Ok(row.is_some_and(|row| row.next_offset == next_offset))
    })
}

fn wait(what: &'static str, is_so: impl Fn() -> Result<bool, KafkaError>) -> Result<(), KafkaError> {
    let begun = Instant::now();
    while !is_so()? {
        if begun.elapsed() > PATIENCE {
            return Err(KafkaError::Missing(what));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
