//! What a process asked of the system, as strace recorded it: every call that makes, names, writes or syncs a file, in order,
//! each with its beginning and its end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: a line that is not understood must end the run, or the model would forget something"
)]

use std::{
    collections::HashMap,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::Command,
};

/// The calls that are recorded. Those without a meaning in [`Call`] are there so that they are noticed if they come.
const RECORDED: &str = "openat,?open,?creat,close,dup,?dup2,dup3,write,pwrite64,writev,pwritev,pwritev2,fsync,fdatasync,\
    sync_file_range,sync,syncfs,?rename,renameat,renameat2,?unlink,unlinkat,?link,linkat,?symlink,symlinkat,?mkdir,mkdirat,\
    ?rmdir,ftruncate,truncate,fallocate,copy_file_range,sendfile";

/// A call, with what matters of its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Opens a file, and makes it if it is not there and `creates` says so.
    Open { path: PathBuf, creates: bool, truncates: bool, appends: bool },
    /// Lets go of a file.
    Close { fd: i64 },
    /// Writes where the last write ended, or at an offset.
    Write { fd: i64, bytes: Vec<u8>, offset: Option<u64> },
    /// Returns once what was written before is on disk.
    Sync { fd: i64 },
    /// Sets the length.
    Truncate { fd: i64, length: u64 },
    /// Gives a file another name.
    Rename { from: PathBuf, to: PathBuf },
    /// Takes a name away.
    Remove { path: PathBuf },
    /// Makes a directory.
    MakeDirectory { path: PathBuf },
    /// Changes nothing that is kept.
    Nothing,
}

/// One moment of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The call with this number begins.
    Begins(usize),
    /// It has ended, with this result.
    Ends(usize, i64),
}

/// A whole trace.
#[derive(Debug, Default)]
pub struct Trace {
    /// The calls by their numbers.
    pub calls: Vec<Call>,
    /// What happened, in order.
    pub events: Vec<Event>,
}

/// A command that runs another and records what it asks of the system. `more` is for what strace is to do beside that.
pub fn recorded(command: &Command, trace: &Path, more: &[&str]) -> Command {
    let mut strace = Command::new("strace");
    strace.args(["-f", "--seccomp-bpf", "-qq", "-xx", "-s", "16777216", "-e", "signal=none"]);
    strace.arg("-e").arg(format!("trace={}", RECORDED.replace([' ', '\n'], ""))).args(more);
    strace.arg("-o").arg(trace).arg(command.get_program()).args(command.get_args());
    strace
}

impl Trace {
    /// Reads a trace.
    pub fn read(path: &Path) -> Trace {
        let mut trace = Trace::default();
        // Of each thread that is in a call, which one.
        let mut within: HashMap<u64, usize> = HashMap::new();
        let file = std::fs::File::open(path).expect("strace has written its file");
        for line in BufReader::new(file).lines() {
            let line = line.expect("strace writes text");
            let (thread, rest) = line.split_once(' ').expect("each line names its thread");
            let (thread, rest) = (thread.parse().expect("a number"), rest.trim_start());
            if rest.starts_with("+++") || rest.starts_with("---") {
                continue;
            }
            if rest.starts_with("<... ") {
                let call = within.remove(&thread).expect("it had begun");
                trace.events.push(Event::Ends(call, result(rest)));
                continue;
            }
            let call = trace.calls.len();
            trace.calls.push(parse(rest));
            trace.events.push(Event::Begins(call));
            if rest.ends_with("<unfinished ...>") {
                within.insert(thread, call);
            } else {
                trace.events.push(Event::Ends(call, result(rest)));
            }
        }
        trace
    }
}

fn result(line: &str) -> i64 {
    let (_, result) = line.rsplit_once(" = ").unwrap_or_else(|| panic!("no result in {line:.200}"));
    // `?` is of a call in which the process died.
    result.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(-1)
}

fn parse(line: &str) -> Call {
    let (name, rest) = line.split_once('(').unwrap_or_else(|| panic!("no call in {line:.200}"));
    // Short calls are padded before their results: `close(3)                = 0`.
    let end = rest.rfind(" <unfinished ...>").or_else(|| rest.rfind(") ").filter(|_| !rest.contains("(INJECTED)")));
    let end = end.or_else(|| rest.find(')')).unwrap_or(rest.len());
    let arguments: Vec<&str> = rest[..end].split(", ").collect();
    let fd = || arguments[0].parse().unwrap_or_else(|_| panic!("no descriptor in {line:.200}"));
    let path = |at: usize| PathBuf::from(String::from_utf8(unescape(arguments[at])).expect("paths here are text"));
    match name {
        "openat" => open(path(1), arguments[2]),
        "open" => open(path(0), arguments[1]),
        "close" => Call::Close { fd: fd() },
        "write" => Call::Write { fd: fd(), bytes: unescape(arguments[1]), offset: None },
        "pwrite64" => {
            let offset = Some(arguments[3].parse().expect("an offset"));
            Call::Write { fd: fd(), bytes: unescape(arguments[1]), offset }
        }
        "fsync" | "fdatasync" => Call::Sync { fd: fd() },
        "ftruncate" => Call::Truncate { fd: fd(), length: arguments[1].parse().expect("a length") },
        "rename" => Call::Rename { from: path(0), to: path(1) },
        "renameat" | "renameat2" => Call::Rename { from: path(1), to: path(3) },
        "unlink" | "rmdir" => Call::Remove { path: path(0) },
        "unlinkat" => Call::Remove { path: path(1) },
        "mkdir" => Call::MakeDirectory { path: path(0) },
        "mkdirat" => Call::MakeDirectory { path: path(1) },
        // It begins writing back, and promises nothing.
        "sync_file_range" => Call::Nothing,
        "fallocate" if arguments[1].contains("FALLOC_FL_KEEP_SIZE") => Call::Nothing,
        _ => panic!("the model does not know what {name} does: {line:.300}"),
    }
}

fn open(path: PathBuf, flags: &str) -> Call {
    let has = |flag: &str| flags.split('|').any(|one| one == flag);
    Call::Open { path, creates: has("O_CREAT"), truncates: has("O_TRUNC"), appends: has("O_APPEND") }
}

/// `"\x2f\x74"` as bytes.
fn unescape(text: &str) -> Vec<u8> {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let inner = inner.unwrap_or_else(|| panic!("no whole text: {text:.100}"));
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
    let (bytes, rest) = inner.as_bytes().as_chunks::<4>();
    assert!(rest.is_empty(), "each byte is written as \\x and two digits");
    bytes.iter().map(|[_, _, high, low]| digit(*high) << 4 | digit(*low)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_threads_that_interleave_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        let text = "7 write(5, \"\\x61\\x62\", 2 <unfinished ...>\n\
                    8  fdatasync(5)            = -1 EIO (Input/output error) (INJECTED)\n\
                    7 <... write resumed>) = 2\n\
                    7 rename(\"\\x2f\\x61\", \"\\x2f\\x62\") = 0\n\
                    7 +++ exited with 0 +++\n";
        std::fs::write(&path, text).unwrap();
        let trace = Trace::read(&path);
        let calls = [
            Call::Write { fd: 5, bytes: b"ab".to_vec(), offset: None },
            Call::Sync { fd: 5 },
            Call::Rename { from: "/a".into(), to: "/b".into() },
        ];
        assert_eq!(trace.calls, calls);
        let events = [
            Event::Begins(0),
            Event::Begins(1),
            Event::Ends(1, -1),
            Event::Ends(0, 2),
            Event::Begins(2),
            Event::Ends(2, 0),
        ];
        assert_eq!(trace.events, events);
    }
}
