//! The real `recant serve`, several of them, and what each tells.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    binary::{Desk, PATIENCE, Process, number, text},
    crash::process::program,
};

/// A process that serves.
pub struct Member {
    process: Process,
    /// Where its states are.
    pub data: PathBuf,
    /// The partitions that it serves, by what it told.
    pub serves: BTreeSet<u32>,
    /// Everything that it told.
    pub told: Vec<Value>,
}

/// A command on a log on Kafka.
pub fn command(desk: &Desk, brokers: &str, instance: &str, arguments: &[&str]) -> Command {
    let mut command = desk.command(arguments);
    command.env("RECANT_LOG", "kafka").env("RECANT_BROKERS", brokers).env("RECANT_INSTANCE", instance);
    command
}

impl Member {
    /// Starts `recant serve` with a directory of its own on the desk.
    pub fn start(desk: &Desk, brokers: &str, instance: &str, name: &str, arguments: &[&str]) -> Member {
        let data = desk.path(name);
        let mut command = command(desk, brokers, instance, &["serve", "--json"]);
        command.args(arguments).env("RECANT_DATA", &data);
        Member::of(command, data)
    }

    /// The same of any command that tells what it does as `recant serve --json` does.
    pub fn of(command: Command, data: PathBuf) -> Member {
        Member { process: Process::start(command), data, serves: BTreeSet::new(), told: Vec::new() }
    }

    /// The process of `victim.rs`, with what is to happen to it, such as `die=idle:1`.
    pub fn victim(brokers: &str, instance: &str, data: &Path, fate: &str) -> Member {
        let mut command = Command::new(program("victim"));
        command
            .arg("kafka")
            .args([format!("brokers={brokers}"), format!("instance={instance}"), format!("data={}", data.display())])
            .arg(fate);
        Member::of(command, data.to_owned())
    }

    fn take(&mut self, line: &str) {
        let told: Value = serde_json::from_str(line).expect("a line of JSON");
        let partition = || number(&told["partition"]) as u32;
        match text(&told["told"]) {
            "serving" => {
                self.serves.insert(partition());
            }
            "given_up" | "lost" | "interrupted" | "halted" => {
                self.serves.remove(&partition());
            }
            _ => {}
        }
        self.told.push(told);
    }

    /// Takes in what it has told by now.
    pub fn listen(&mut self) {
        while let Some(line) = self.process.line_now() {
            self.take(&line);
        }
    }

    /// Waits until what it tells fulfils a condition.
    #[track_caller]
    pub fn wait_until(&mut self, what: &str, is_so: impl Fn(&Member) -> bool) {
        let begun = Instant::now();
        loop {
            self.listen();
            if is_so(self) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}; it told {:?}", self.told);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until it serves so many partitions.
    #[track_caller]
    pub fn wait_until_serving(&mut self, partitions: usize) {
        self.wait_until(&format!("{partitions} partitions are served"), |member| member.serves.len() == partitions);
    }

    /// How often it told something.
    pub fn count(&self, what: &str) -> usize {
        self.told.iter().filter(|told| told["told"] == what).count()
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id() as i32).expect("not zero");
        kill_process(pid, signal).expect("it can be sent a signal");
    }

    /// Kills it with kill -9.
    pub fn kill(self) {
        self.process.kill();
    }

    /// Whether it has not ended by itself.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Stops it, which may just have been started.
    #[track_caller]
    pub fn leave(mut self) {
        self.wait_until("it joins", |member| member.count("joining") == 1);
        self.stop();
    }

    /// Stops it as an operator does; it must end with 0 and have told so.
    #[track_caller]
    pub fn stop(mut self) -> Vec<Value> {
        self.signal(Signal::TERM);
        self.wait_until("it tells that it has stopped", |member| member.count("stopped") == 1);
        let (status, _) = self.process.finish();
        assert_eq!(status, 0, "{:?}", self.told);
        self.told
    }
}
