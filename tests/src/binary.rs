//! The real `recant` binary, run as its users run it: with arguments and an environment, in processes that can be killed.
//!
//! The binary is the one that `RECANT_BIN` names, else the `recant` beside the directory of the test's own executable
//! (`target/release/recant`). A [`Desk`] is a directory for one test: data, files and configuration of its own, and nothing
//! of the environment that the tests run in. Every run is checked for what no user may ever see: a panic or a backtrace.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: what fails here fails a test"
)]

pub mod story;

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

/// So long a test waits for what must come; nothing in a test that passes takes nearly as long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The binary.
pub fn path() -> PathBuf {
    let beside = || {
        let executable = std::env::current_exe().expect("the test's executable has a path");
        let mut directories = executable.ancestors().skip(1);
        // Tests lie in target/release/deps, programs beside the binary.
        directories.find(|directory| !directory.ends_with("deps")).expect("it lies in target/release").join("recant")
    };
    let path = std::env::var_os("RECANT_BIN").map_or_else(beside, PathBuf::from);
    assert!(path.is_file(), "{} is absent: run `make build` first", path.display());
    path
}

/// A directory for one test, removed at its end.
pub struct Desk {
    directory: TempDir,
}

impl Desk {
    /// A new one.
    #[allow(clippy::new_without_default, reason = "making a directory is an act")]
    pub fn new() -> Desk {
        let desk = Desk { directory: TempDir::with_prefix("recant-desk-").expect("a temporary directory") };
        std::fs::create_dir(desk.path("tmp")).expect("a directory can be made");
        desk
    }

    /// A path on it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Puts a file on it, and gives its path as an argument.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).expect("a file can be written");
        path.into_os_string().into_string().expect("its path is text")
    }

    /// Puts a file of JSON lines on it.
    pub fn lines(&self, name: &str, lines: &[Value]) -> String {
        self.file(name, json_lines(lines))
    }

    /// The command, in this directory, with `data` as its data directory and nothing else set.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(path());
        command.args(arguments).current_dir(self.directory.path()).env_clear();
        for name in ["PATH", "LD_LIBRARY_PATH"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .env("TMPDIR", self.path("tmp"))
            .env("HOME", self.path("home"))
            .env("RECANT_DATA", self.path("data"))
            .env("RUST_BACKTRACE", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// What processes have left behind in the directory for temporary files.
    pub fn left_behind(&self) -> usize {
        std::fs::read_dir(self.path("tmp")).expect("a directory can be read").count()
    }

    /// The command with `--json`, which stands before the others, since a `--` may be among those.
    fn json_command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut all = vec![OsStr::new("--json").to_owned()];
        all.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self.command(all)
    }

    /// Runs the command to its end.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Run {
        run(self.command(arguments))
    }

    /// Runs the command, which must exit with 0, and gives what it printed.
    pub fn done<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> String {
        self.run(arguments).exited(0).text()
    }

    /// Runs the command with `--json`; it must exit with 0 and print one document, in which nothing is null.
    pub fn json<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Value {
        run(self.json_command(arguments)).exited(0).document()
    }

    /// Runs the command with `--json`; it must fail with this status, print nothing, and say why in one object, which
    /// has this `type`.
    pub fn problem<A: AsRef<OsStr>>(&self, status: i32, code: &str, arguments: impl IntoIterator<Item = A>) -> Value {
        let run = run(self.json_command(arguments)).exited(status);
        assert_eq!(run.text(), "", "an error prints no answer");
        let problem: Value = serde_json::from_str(&run.stderr).expect("one object on standard error");
        assert_eq!(problem["type"], code, "{problem}");
        assert!(text(&problem["title"]).len() > 3 && text(&problem["detail"]).len() > 3, "{problem}");
        problem
    }

    /// Appends events, which must all be accepted.
    pub fn append(&self, events: &[Value]) -> Value {
        let file = self.lines("events-to-append.jsonl", events);
        let summary = self.json(["append", &file]);
        assert_eq!(summary["accepted"], events.len(), "{summary}");
        summary
    }

    /// What `list --spaces` says of a space.
    pub fn space(&self, space: &str) -> Value {
        let page = self.json(["list", "--spaces"]);
        let found = items(&page).iter().find(|item| item["space"] == space).cloned();
        found.unwrap_or_else(|| panic!("no space {space} in {page}"))
    }

    /// The digest of the default space.
    pub fn digest(&self) -> String {
        text(&self.space("default")["digest"]).to_owned()
    }

    /// The node with an id, from `list`.
    pub fn node(&self, id: &str) -> Value {
        let page = self.json(["list", "--limit", "1000000"]);
        let found = items(&page).iter().find(|item| item["id"] == id).cloned();
        found.unwrap_or_else(|| panic!("no node {id} in {page}"))
    }

    /// The whole change stream of a space, as it is now.
    pub fn changes(&self, space: &str) -> Vec<Value> {
        let printed = self.done(["watch", "--from", "earliest", "--until-caught-up", "--json", "--space", space]);
        printed.lines().map(|line| serde_json::from_str(line).expect("each line parses alone")).collect()
    }

    /// A process that holds the log: `append -` that waits for events.
    pub fn writer(&self, batch_events: u32) -> Process {
        let before = std::fs::read(self.path("data/log/writer")).ok();
        let batch = batch_events.to_string();
        let process = Process::start(self.command(["append", "-", "--batch-events", &batch, "--json"]));
        wait_until("the writer holds the log", || {
            let told = std::fs::read_to_string(self.path("data/log/writer")).ok()?;
            let is_ours = Some(told.as_bytes()) != before.as_deref();
            (is_ours && told.contains(&format!("\"pid\":{},", process.id()))).then_some(())
        });
        process
    }
}

/// What a run came to.
pub struct Run {
    /// Its exit status; -1 if it was killed.
    pub status: i32,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it said beside that.
    pub stderr: String,
}

/// Runs a command to its end.
pub fn run(mut command: Command) -> Run {
    let output = command.output().expect("the binary runs");
    let stderr = String::from_utf8(output.stderr).expect("standard error is text");
    let run = Run { status: output.status.code().unwrap_or(-1), stdout: output.stdout, stderr };
    run.check_no_panic(&command);
    run
}

impl Run {
    fn check_no_panic(&self, command: &Command) {
        let stdout = String::from_utf8_lossy(&self.stdout);
        for words in ["panicked at", "RUST_BACKTRACE", "stack backtrace", "Stack backtrace"] {
            let found = self.stderr.contains(words) || (self.status != 0 && stdout.contains(words));
            assert!(!found, "{command:?} shows its inside:\n{}", self.stderr);
        }
    }

    /// Checks its exit status.
    #[track_caller]
    pub fn exited(self, status: i32) -> Run {
        assert_eq!(self.status, status, "stdout:\n{}\nstderr:\n{}", String::from_utf8_lossy(&self.stdout), self.stderr);
        self
    }

    /// What it printed, as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).expect("what is printed is text")
    }

    /// What it printed, as one JSON document, in which nothing is null.
    pub fn document(&self) -> Value {
        let document = serde_json::from_slice(&self.stdout).expect("one JSON document");
        check_no_null(&document);
        document
    }
}

/// A process that goes on beside the test; killed at the latest when it is dropped.
pub struct Process {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

impl Process {
    /// Starts a command, and reads what it prints as it comes.
    pub fn start(mut command: Command) -> Process {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let lines = read_lines(child.stdout.take().expect("it is piped"));
        let errors = read_lines(child.stderr.take().expect("it is piped"));
        Process { input: child.stdin.take(), child, lines, errors }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Gives it a line on standard input.
    pub fn send(&mut self, value: &Value) {
        let input = self.input.as_mut().expect("its input is open");
        writeln!(input, "{value}").and_then(|()| input.flush()).expect("it takes its input");
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("nothing was printed in {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("it ended: {:?}", self.errors.iter().collect::<Vec<_>>()),
        }
    }

    /// A line, if it has printed one more.
    pub fn line_now(&mut self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// The next line, as JSON.
    pub fn json(&mut self) -> Value {
        serde_json::from_str(&self.line()).expect("a line of JSON")
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it can be waited for").is_none()
    }

    /// Kills it with kill -9, and gives the whole lines that it had printed and that were not read yet.
    pub fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
        self.lines.iter().collect()
    }

    /// Ends its input, waits for its end, and gives its exit status with the rest of what it printed.
    pub fn finish(mut self) -> (i32, Vec<String>) {
        drop(self.input.take());
        let status = wait_until("the process ends", || self.child.try_wait().expect("it can be waited for"));
        (status.code().unwrap_or(-1), self.lines.iter().collect())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads whole lines; what a process that is killed was in the midst of printing is left out.
fn read_lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            if line.pop() != Some('\n') || sender.send(std::mem::take(&mut line)).is_err() {
                break;
            }
        }
    });
    lines
}

/// Asks again and again, up to a bound, until there is an answer.
#[track_caller]
pub fn wait_until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Values as JSON lines.
pub fn json_lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

/// The items of a page.
#[track_caller]
pub fn items(page: &Value) -> &[Value] {
    page["items"].as_array().unwrap_or_else(|| panic!("no items in {page}"))
}

/// A member that is a text in each of some objects.
#[track_caller]
pub fn texts<'a>(values: &'a [Value], member: &str) -> Vec<&'a str> {
    values.iter().map(|value| text(&value[member])).collect()
}

/// A value that is a text.
#[track_caller]
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// A value that is a number.
#[track_caller]
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Checks that what is not known is absent, at every depth.
pub fn check_no_null(value: &Value) {
    match value {
        Value::Null => panic!("a null in an answer: absent means not known"),
        Value::Array(values) => values.iter().for_each(check_no_null),
        Value::Object(members) => members.values().for_each(check_no_null),
        _ => {}
    }
}

/// Path and content of every file below a directory.
pub fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).expect("a directory can be read") {
        let path = entry.expect("its entries too").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let content = std::fs::read(&path).expect("a file can be read");
            found.insert(path, content);
        }
    }
    found
}

/// The same without RocksDB's logs and locks, which reading changes.
pub fn lasting_files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let lasts = |path: &Path| path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with("LO"));
    files(directory).into_iter().filter(|(path, _)| lasts(path)).collect()
}

/// Copies a directory with all that is in it.
pub fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory can be made");
    for entry in std::fs::read_dir(from).expect("a directory can be read") {
        let entry = entry.expect("its entries too");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_directory(&from, &to);
        } else {
            std::fs::copy(&from, &to).expect("a file can be copied");
        }
    }
}

/// Random numbers that a seed determines (SplitMix64).
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// A number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}
