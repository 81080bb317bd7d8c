//! Where the frozen files are, and the one place that writes them.

use std::{fs, path::PathBuf};

use serde_json::Value;

/// Whether frozen files are to be written rather than compared.
pub fn blessing() -> bool {
    std::env::var_os("RECANT_BLESS").is_some_and(|value| value == "1")
}

pub fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1").join(name)
}

pub fn read(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap_or_else(|error| panic!("{name}: {error}; see the head of tests/contract/main.rs"))
}

pub fn read_text(name: &str) -> String {
    String::from_utf8(read(name)).unwrap()
}

/// Compares with the frozen file, or writes it when blessing.
pub fn compare(name: &str, bytes: &[u8]) {
    // What is right already is left alone, so that a second blessing writes nothing under the eyes of other tests.
    if blessing() && fs::read(path(name)).ok().as_deref() != Some(bytes) {
        fs::write(path(name), bytes).unwrap();
    }
    let frozen = read(name);
    assert!(
        frozen == bytes,
        "{name} is frozen and differs.\nfrozen: {:?}\n   now: {:?}",
        String::from_utf8_lossy(&frozen),
        String::from_utf8_lossy(bytes)
    );
}

/// The names of the files in a folder of the frozen files that end so, without that ending, sorted.
pub fn stems(folder: &str, ending: &str) -> Vec<String> {
    let mut stems: Vec<String> = fs::read_dir(path(folder))
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().into_string().unwrap().strip_suffix(ending)?.to_owned()))
        .collect();
    stems.sort();
    stems
}

/// The JSON of a frozen event with one value replaced; null leaves it out.
pub fn changed(name: &str, pointer: &str, value: Value) -> String {
    let mut event: Value = serde_json::from_slice(&read(&format!("{name}.json"))).unwrap();
    *event.pointer_mut(pointer).unwrap_or_else(|| panic!("{name} has no {pointer}")) = value;
    event.to_string()
}
