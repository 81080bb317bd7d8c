//! What the process takes: memory, and room on the disk. Looked at when somebody reads it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use opentelemetry::{KeyValue, global};

/// The parts of a data directory.
const PARTS: [&str; 3] = ["log", "state", "checkpoints"];

/// Directories beneath one another, at most.
const DEPTH_MAX: u32 = 6;

/// Measures this process and its data directory from now on.
pub fn measure(data: &Path) {
    let meter = global::meter("recant");
    meter
        .u64_observable_gauge("process.memory.usage")
        .with_unit("By")
        .with_description("Memory of the process that is resident")
        .with_callback(|observer| {
            if let Some(bytes) = resident_bytes() {
                observer.observe(bytes, &[]);
            }
        })
        .build();
    let data = data.to_owned();
    meter
        .u64_observable_gauge("recant.data.size")
        .with_unit("By")
        .with_description(
            "What the data directory takes on the disk, by part; files that parts share are counted in each",
        )
        .with_callback(move |observer| {
            for part in PARTS {
                observer.observe(bytes_of(&data.join(part), DEPTH_MAX), &[KeyValue::new("part", part)]);
            }
        })
        .build();
}

/// From Linux; none elsewhere.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Files come and go while they are counted; one that has gone takes nothing.
fn bytes_of(directory: &Path, depth: u32) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let mut bytes = 0;
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let path: PathBuf = entry.path();
        bytes += if metadata.is_file() {
            metadata.len()
        } else if metadata.is_dir() && depth > 0 {
            bytes_of(&path, depth - 1)
        } else {
            0
        };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_takes_what_its_files_take() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("state/0")).unwrap();
        fs::write(directory.path().join("state/0/a"), [0; 1000]).unwrap();
        fs::write(directory.path().join("state/b"), [0; 24]).unwrap();
        assert_eq!(bytes_of(&directory.path().join("state"), DEPTH_MAX), 1024);
        assert_eq!(bytes_of(&directory.path().join("log"), DEPTH_MAX), 0);
    }
}
