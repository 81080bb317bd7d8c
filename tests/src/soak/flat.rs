//! What "flat apart from data" is. Memory and open files are sampled each second under load, and the medians of the second
//! and of the last quarter are compared: by then caches are full. Disk is compared by the event, as it was at the end of
//! the first quarter and at the end: what it takes more must be data.

use std::{path::Path, time::Duration};

/// What the process that writes has, and what lies on disk, at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Since the begin.
    pub at: Duration,
    /// Its resident memory.
    pub rss_bytes: u64,
    /// How many files it has open.
    pub files: u64,
    /// What the log takes.
    pub log_bytes: u64,
    /// What the state takes.
    pub state_bytes: u64,
    /// How many events were acknowledged.
    pub events: u64,
}

impl Sample {
    /// Takes one; none if the process is not there any more.
    pub fn take(process: u32, data: &Path, at: Duration, events: u64) -> Option<Sample> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"))?;
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).ok()?.count() as u64;
        let (log_bytes, state_bytes) = (bytes_of(&data.join("log")), bytes_of(&data.join("state")));
        Some(Sample { at, rss_bytes: rss.parse::<u64>().ok()? << 10, files, log_bytes, state_bytes, events })
    }

    /// Bytes on disk an event.
    pub fn bytes_per_event(&self) -> u64 {
        (self.log_bytes + self.state_bytes) / self.events.max(1)
    }
}

/// What all files below a directory take; they come and go meanwhile.
pub fn bytes_of(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_of(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

/// The figures that are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Growth {
    /// Median over the second quarter, and over the last.
    pub rss_bytes: [u64; 2],
    /// The same.
    pub files: [u64; 2],
    /// At the end of the first quarter, and at the end.
    pub disk_bytes_per_event: [u64; 2],
}

impl Growth {
    /// The figures of a run of this length; none if there are no samples in one of its quarters.
    pub fn of(samples: &[Sample], length: Duration) -> Option<Growth> {
        let quarter = |number: u32| {
            let of_it =
                move |sample: &&Sample| sample.at >= length * number / 4 && sample.at <= length * (number + 1) / 4;
            samples.iter().filter(of_it)
        };
        let both =
            |figure: fn(&Sample) -> u64| Some([median(quarter(1).map(figure))?, median(quarter(3).map(figure))?]);
        Some(Growth {
            rss_bytes: both(|sample| sample.rss_bytes)?,
            files: both(|sample| sample.files)?,
            disk_bytes_per_event: [quarter(0).next_back()?.bytes_per_event(), samples.last()?.bytes_per_event()],
        })
    }

    /// What is not flat.
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut check = |what: &str, [begin, end]: [u64; 2], most: u64| {
            if end > most {
                wrong.push(format!("{what} grew from {begin} to {end}, and may grow to {most}"));
            }
        };
        let [rss, files, disk] = [self.rss_bytes[0], self.files[0], self.disk_bytes_per_event[0]];
        check("memory", self.rss_bytes, rss + rss / 5 + (32 << 20));
        // Mostly tables. Each opening writes some, and each of some twenty families has up to four before they are compacted
        // into one: after a few kills their number goes up and down by that, and no further.
        check("the number of open files", self.files, files + files / 5 + 64);
        check("disk an event", self.disk_bytes_per_event, disk + disk / 2);
        wrong
    }
}

fn median(figures: impl Iterator<Item = u64>) -> Option<u64> {
    let mut figures: Vec<u64> = figures.collect();
    figures.sort_unstable();
    figures.get(figures.len() / 2).copied()
}
