//! One who asks all the while, with the real `recant`: why, which nodes, what a retraction would do. The answers must come;
//! that they are right is asked each minute of a pinned state ([`super::undisturbed`]).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: a process that cannot be started ends the run"
)]

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::load::SPACES;
use crate::{
    binary::Random,
    crash::{check::Verdict, process::program},
};

const PAUSE: Duration = Duration::from_millis(500);

/// What came of the questions since it was last taken.
#[derive(Debug, Default)]
pub struct Answers {
    /// How long each took.
    pub took: Vec<Duration>,
    /// Those that said that the files change too fast and it should be tried again.
    pub put_off: u64,
    /// What must not be.
    pub verdict: Verdict,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    /// Nodes that are known to be there: space and id.
    nodes: Mutex<Vec<(String, String)>>,
    answers: Mutex<Answers>,
}

/// The reader, on a thread of its own.
pub struct Reader {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// Begins to ask.
    pub fn start(data: &Path, seed: u64) -> Reader {
        let shared = Arc::new(Shared::default());
        let (asking, data) = (shared.clone(), data.to_owned());
        let thread = std::thread::spawn(move || ask_all_the_while(&asking, &data, Random(seed)));
        Reader { shared, thread: Some(thread) }
    }

    /// Says which nodes are there.
    pub fn know(&self, nodes: Vec<(String, String)>) {
        *self.shared.nodes.lock().unwrap() = nodes;
    }

    /// Takes what came of it.
    pub fn answers(&self) -> Answers {
        std::mem::take(&mut self.shared.answers.lock().unwrap())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // If it panicked it has said so.
            let _ = thread.join();
        }
    }
}

fn ask_all_the_while(shared: &Shared, data: &PathBuf, mut random: Random) {
    while !shared.is_over.load(Ordering::SeqCst) {
        let nodes = shared.nodes.lock().unwrap().clone();
        let space = SPACES[random.below(SPACES.len() as u64) as usize].to_owned();
        let question = if nodes.is_empty() { 0 } else { random.below(5) };
        let (space, arguments) = match question {
            0 => (space, vec!["list".to_owned(), "--limit".to_owned(), "50".to_owned()]),
            1 => (space, ["list", "--kind", "action", "--status", "out"].map(str::to_owned).to_vec()),
            2 | 3 => {
                let (space, node) = nodes[random.below(nodes.len() as u64) as usize].clone();
                (space, vec!["explain".to_owned(), node])
            }
            _ => {
                let (space, node) = nodes[random.below(nodes.len() as u64) as usize].clone();
                (space, vec!["retract".to_owned(), "--node".to_owned(), node, "--preview".to_owned()])
            }
        };
        let mut command = Command::new(program("recant"));
        command.arg("--json").args(&arguments).args(["--space", &space]).arg("--data").arg(data);
        let begun = Instant::now();
        let output = command.stdin(Stdio::null()).output().unwrap();
        let took = begun.elapsed();
        let mut answers = shared.answers.lock().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        if output.status.success() && serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok() {
            answers.took.push(took);
        } else if output.status.code() == Some(3) && errors.contains("try again") {
            answers.put_off += 1;
        } else {
            answers.verdict.wrong.push(format!("{arguments:?} in {space} ended with {}: {errors}", output.status));
        }
        drop(answers);
        std::thread::sleep(PAUSE);
    }
}
