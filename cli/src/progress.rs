//! What takes more than a second says so on standard error: a bar on a terminal, a line now and then elsewhere.

use std::{io::IsTerminal, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

/// A count of what was done.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Begins to count. Nothing is shown in the first second, or where standard error is no terminal.
    pub fn new(doing: &str) -> Progress {
        let bar = if std::io::stderr().is_terminal() { ProgressBar::no_length() } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}: {human_pos} ({per_sec}, {elapsed})") {
            bar.set_style(style);
        }
        bar.set_message(doing.to_owned());
        Progress { bar }
    }

    /// Begins to count towards a total: how far, how fast, how long still.
    pub fn towards(doing: &str, total: u64) -> Progress {
        let progress = Progress::new(doing);
        progress.bar.set_length(total);
        if let Ok(style) =
            ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} ({per_sec}, {eta} left)")
        {
            progress.bar.set_style(style);
        }
        progress
    }

    /// Begins to count bytes.
    pub fn of_bytes(doing: &str) -> Progress {
        let progress = Progress::new(doing);
        if let Ok(style) =
            ProgressStyle::with_template("{spinner} {msg}: {binary_bytes} ({binary_bytes_per_sec}, {elapsed})")
        {
            progress.bar.set_style(style);
        }
        progress
    }

    /// Counts on.
    pub fn add(&self, done: u64) {
        self.bar.inc(done);
        if self.bar.elapsed() > Duration::from_secs(1) {
            self.bar.tick();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
