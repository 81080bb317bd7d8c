//! Stock clients in Python: `confluent-kafka` and `cloudevents`, in an environment that `scripts/install-kafka-clients` makes.

use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
    sync::OnceLock,
};

use serde_json::Value;

use super::checkout;

/// The interpreter.
fn interpreter() -> &'static PathBuf {
    static INTERPRETER: OnceLock<PathBuf> = OnceLock::new();
    INTERPRETER.get_or_init(|| {
        let script = checkout().join("scripts/install-kafka-clients");
        let output = Command::new(script).stderr(Stdio::inherit()).output().expect("the script runs");
        assert!(output.status.success(), "scripts/install-kafka-clients failed");
        PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())
    })
}

/// Runs `tests/clients/NAME.py` with arguments to its end, and gives the lines of JSON that it prints.
pub fn run(name: &str, arguments: &[&str]) -> Vec<Value> {
    run_with(name, arguments, "")
}

/// The same with an input.
pub fn run_with(name: &str, arguments: &[&str], input: &str) -> Vec<Value> {
    let mut command = Command::new(interpreter());
    command.arg(checkout().join("tests/clients").join(format!("{name}.py"))).args(arguments);
    finish(command, input)
}

/// Runs a command with an input to its end, and gives the lines of JSON that it prints.
pub(super) fn finish(mut command: Command, input: &str) -> Vec<Value> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut pipe = child.stdin.take().expect("it is piped");
    let input = input.to_owned();
    // Beside the reading of what it prints, so that neither waits for the other.
    let writing = std::thread::spawn(move || pipe.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    // One that has failed may not have read all of it; its words say why.
    let _ = writing.join();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{errors}");
    let printed = String::from_utf8(output.stdout).expect("text");
    printed.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}
