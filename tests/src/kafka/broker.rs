//! A broker of a test's own: `scripts/start-kafka` with a directory and ports that stay the same over restarts.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU16, Ordering},
    },
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::checkout;

/// A broker; it goes with its directory when this is dropped, and when the process ends in any other way.
pub struct Broker {
    directory: TempDir,
    port: u16,
    controller_port: u16,
    settings: Vec<String>,
    script: Option<Child>,
}

impl Broker {
    /// The broker that the tests of a binary share; each has an instance of its own on it. It ends with the process.
    pub fn shared() -> &'static Broker {
        static SHARED: OnceLock<Broker> = OnceLock::new();
        SHARED.get_or_init(Broker::start)
    }

    /// Starts one.
    pub fn start() -> Broker {
        Broker::start_with(&[])
    }

    /// Starts one with settings of its own, `KEY=VALUE`.
    pub fn start_with(settings: &[&str]) -> Broker {
        let mut broker = Broker {
            directory: TempDir::with_prefix("recant-broker-").expect("a temporary directory"),
            port: free_port(),
            controller_port: free_port(),
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            script: None,
        };
        broker.start_again();
        broker
    }

    /// Its address.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts it again where it was stopped, and waits until it answers.
    pub fn start_again(&mut self) {
        let mut script = Command::new(checkout().join("scripts/start-kafka"))
            .arg("--directory")
            .arg(self.directory.path())
            .args(["--port", &self.port.to_string()])
            .args(["--controller-port", &self.controller_port.to_string()])
            .args(["--with-process", &std::process::id().to_string()])
            .args(self.settings.iter().flat_map(|setting| ["--set", setting]))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("scripts/start-kafka starts");
        let mut told = String::new();
        let output = script.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut told).expect("it tells its address");
        assert_eq!(told.trim(), self.address(), "the broker did not start; see the script's words above");
        self.script = Some(script);
    }

    /// Stops it as an operator does.
    pub fn stop(&mut self) {
        if let Some(mut script) = self.script.take() {
            self.signal(Signal::TERM);
            script.wait().expect("it ends");
        }
    }

    /// Kills it with kill -9.
    pub fn kill(&mut self) {
        if let Some(mut script) = self.script.take() {
            self.signal(Signal::KILL);
            script.wait().expect("it ends");
        }
    }

    /// Lets it stand still, as a machine that is overloaded does.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = std::fs::read_to_string(self.directory.path().join("pid")).expect("the script writes it");
        let pid = Pid::from_raw(pid.trim().parse().expect("a number")).expect("not zero");
        // It may have ended already.
        let _ = kill_process(pid, signal);
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that is free, and that the system gives to no client of its own accord, as it does those from 32768 on.
pub(super) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let from = 20_000 + (std::process::id() % 600) as u16 * 20;
    loop {
        let port = from + NEXT.fetch_add(1, Ordering::Relaxed) % 12_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
