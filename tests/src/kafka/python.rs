//! Stock clients in Python: `confluent-kafka` and `cloudevents`, in an environment that `scripts/install-kafka-clients` makes.

use std::{
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
    let output = Command::new(interpreter())
        .arg(checkout().join("tests/clients").join(format!("{name}.py")))
        .args(arguments)
        .output()
        .expect("Python runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}.py {arguments:?} failed:\n{errors}");
    let printed = String::from_utf8(output.stdout).expect("text");
    printed.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}
