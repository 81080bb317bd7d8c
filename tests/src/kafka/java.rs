//! Stock clients in Java, run from their source with the broker's own jars.

use std::process::Command;

use serde_json::Value;

use super::{checkout, python::finish};

/// Runs `tests/clients/NAME.java` with arguments and an input to its end, and gives the lines of JSON that it prints.
pub fn run_with(name: &str, arguments: &[&str], input: &str) -> Vec<Value> {
    let output = Command::new(checkout().join("scripts/install-kafka-needs")).output().expect("the script runs");
    let jars = String::from_utf8(output.stdout).expect("a path");
    let mut command = Command::new("java");
    command
        .arg("-cp")
        .arg(format!("{}/lib/*", jars.trim()))
        .arg(checkout().join("tests/clients").join(format!("{name}.java")))
        .args(arguments);
    finish(command, input)
}
