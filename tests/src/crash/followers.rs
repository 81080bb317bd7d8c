//! Who is attached while the victim dies again and again: `recant watch`, once for as long as all rounds take, once killed
//! and started again with its cursor; and a reader of log and state, which also audits what it reads.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: what fails here fails a run"
)]

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use prost::Message as _;
use recant_eventlog::{ReadLimit, ReadLog, Topic};
use recant_processor::viewer::{ViewError, Viewer};
use recant_projections::{
    audit,
    store::StoreError,
    tables::{partition, spaces},
};
use recant_proto::v1::Change;

use super::{
    check::{self, Published, Verdict},
    events::SPACES,
    gun::tell,
    process::{PATIENCE, program, whole_lines},
};

/// Those who follow one data directory.
pub struct Followers {
    all: Vec<Attached>,
}

/// One of them.
struct Attached {
    name: String,
    space: Option<&'static str>,
    command: Box<dyn Fn() -> Command>,
    /// What it saw, over all its lives.
    seen: PathBuf,
    child: Child,
    /// Whether it is killed now and then.
    dies: bool,
}

impl Followers {
    /// Attaches them to a data directory, which has a log. What they see they write beside it. `audits` says whether the
    /// reader looks at the state too, which it cannot where the state is put back to an earlier one.
    pub fn attach(data: &Path, beside: &Path, audits: bool) -> Followers {
        let watch = |space: &'static str, dies: bool| {
            let cursor = beside.join(format!("watch-{space}.cursor"));
            let data = data.to_owned();
            let command = move || {
                let mut command = Command::new(program("recant"));
                command.args(["--json", "watch", "--space", space]);
                command.arg("--data").arg(&data).arg("--cursor-file").arg(&cursor);
                command
            };
            Attached::start(format!("watch-{space}"), Some(space), Box::new(command), beside, dies)
        };
        let [first, second] = SPACES;
        let (data, seen) = (data.to_owned(), beside.join("reader.seen"));
        let command = move || {
            let mut command = Command::new(program("victim"));
            command.arg("follow").arg(&data).arg(&seen).args(audits.then_some("audits"));
            command
        };
        let reader = Attached::start("reader".to_owned(), None, Box::new(command), beside, false);
        Followers { all: vec![watch(first, false), watch(second, true), reader] }
    }

    /// Kills those that die with kill -9, and starts them again; the others must still be there.
    pub fn between_rounds(&mut self) -> Verdict {
        let mut verdict = Verdict::default();
        for one in &mut self.all {
            if let Some(status) = one.child.try_wait().unwrap() {
                let told = std::fs::read_to_string(one.seen.with_extension("errors")).unwrap_or_default();
                verdict.wrong.push(format!("follower {} ended with {status}: {told}", one.name));
                one.restart();
            } else if one.dies {
                one.kill();
                one.restart();
            }
        }
        verdict
    }

    /// Waits until they have seen as much as was published, ends them, and checks what they saw. Gives how many repeats
    /// they dropped.
    pub fn finish(mut self, published: &[Published]) -> (Verdict, usize) {
        let (mut verdict, mut repeats) = (self.between_rounds(), 0);
        for mut one in self.all {
            let last = check::expected_of(published, one.space).last().map(|id| (*id).clone());
            let begun = Instant::now();
            while begun.elapsed() < PATIENCE && one.seen().last() != last.as_ref() {
                std::thread::sleep(Duration::from_millis(5));
            }
            one.kill();
            let (found, repeated) = check::follower(&one.name, &one.seen(), published, one.space);
            verdict.add(found);
            repeats += repeated;
        }
        (verdict, repeats)
    }
}

impl Attached {
    fn start(
        name: String,
        space: Option<&'static str>,
        command: Box<dyn Fn() -> Command>,
        beside: &Path,
        dies: bool,
    ) -> Attached {
        let seen = beside.join(format!("{name}.seen"));
        let child = spawn(command(), &seen);
        Attached { name, space, command, seen, child, dies }
    }

    fn restart(&mut self) {
        self.child = spawn((self.command)(), &self.seen);
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        cut_torn_line(&self.seen);
    }

    /// The ids of the changes that it saw.
    fn seen(&self) -> Vec<String> {
        let id = |line: String| match serde_json::from_str::<serde_json::Value>(&line) {
            Ok(change) => change["id"].as_str().unwrap().to_owned(),
            Err(_) => line,
        };
        whole_lines(&self.seen).into_iter().filter(|line| line != A_DIGEST).map(id).collect()
    }
}

/// Appends what it prints to a file.
fn spawn(mut command: Command, seen: &Path) -> Child {
    let append = |path: &Path| File::options().create(true).append(true).open(path).unwrap();
    command.stdin(Stdio::null()).stdout(append(seen)).stderr(append(&seen.with_extension("errors"))).spawn().unwrap()
}

/// A line that was not written to its end was not seen; what goes on writing begins a new one.
fn cut_torn_line(path: &Path) {
    let told = std::fs::read(path).unwrap_or_default();
    let whole = told.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if whole < told.len() {
        File::options().write(true).open(path).unwrap().set_len(whole as u64).unwrap();
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the reader prints for a digest, which is no change.
const A_DIGEST: &str = "digest";

const AUDIT_EVERY: Duration = Duration::from_millis(400);

/// The reader: prints the id of each change as it sees it, going on after the last one in `seen`; and audits the state now
/// and then, which must be of one moment and never ahead of the log. Ends only when something is wrong.
pub fn read(data: &Path, seen: &Path, audits: bool) -> ExitCode {
    let wrong = match try_read(data, seen, audits) {
        Ok(never) => match never {},
        Err(wrong) => wrong,
    };
    let _ = writeln!(std::io::stderr(), "{wrong}");
    ExitCode::FAILURE
}

enum Never {}

fn try_read(data: &Path, seen: &Path, audits: bool) -> Result<Never, String> {
    let text = |error: ViewError| error.to_string();
    let viewer = Viewer::open(data).map_err(text)?;
    let log = viewer.log();
    let mut next = whole_lines(seen).len() as u64;
    let mut audited = Instant::now();
    loop {
        log.refresh().map_err(|error| error.to_string())?;
        let limit = ReadLimit { records_max: 500, bytes_max: 4 << 20 };
        let records = log.read(Topic::Changes, 0, next, limit).map_err(|error| error.to_string())?;
        for record in &records {
            let change = Change::decode(record.value.as_slice()).map_err(|error| error.to_string())?;
            // Each record is a line, so that the number of lines is the place to go on at.
            tell(if change.digest.is_some() { A_DIGEST } else { &change.id });
        }
        next += records.len() as u64;
        if audits && audited.elapsed() > AUDIT_EVERY {
            audit_state(&viewer)?;
            audited = Instant::now();
        }
        if records.is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn audit_state(viewer: &Viewer) -> Result<(), String> {
    let state = match viewer.state(0) {
        Ok(state) => state,
        // It is not there yet, or files come and go all the while: there will be another moment.
        Err(ViewError::Store(StoreError::Absent(_) | StoreError::Io(_))) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let store = |error: StoreError| error.to_string();
    let Some(row) = partition::get(&state).map_err(store)? else { return Ok(()) };
    wait_for_commit(viewer, row.next_offset)?;
    for (name, _) in spaces::all(&state).map_err(store)? {
        let found = audit::space(&state, &name).map_err(store)?;
        if !found.is_empty() {
            return Err(format!("audit of {name} at {}: {found:?}", row.next_offset));
        }
    }
    Ok(())
}

/// A refresh may take nothing while the writer changes its files, but not for ever: the log was there before the state.
fn wait_for_commit(viewer: &Viewer, next_offset: u64) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        viewer.log().refresh().map_err(|error| error.to_string())?;
        let committed = viewer.log().committed(0).map_err(|error| error.to_string())?.next_offset;
        if next_offset <= committed {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("the state is at {next_offset}, ahead of the log's {committed}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
