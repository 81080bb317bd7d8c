//! `make crash ROUNDS=N`: kills, losses of power, full disks, failing fsyncs, and all that can happen on a real Kafka; `crash NAME ROUNDS [STEP]` does one of them.
//!
//! Each ends with a line `RESULT crash_NAME key=value …`, and writes the same figures to `results/crash_NAME.json`. It fails
//! if anything does not hold, or if a step was not reached.

use std::{
    io::{self, Write},
    process::{Command, ExitCode},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::channel,
    },
    time::Instant,
};

use recant_tests::{
    crash::{self, check::Verdict, fsync, full, power, steps::Step},
    kafka::{broker::Broker, disks, matrix, turmoil, victim},
};
use serde_json::{Value, json};

const SEED: u64 = 2026;
const RESULTS: &str = "results";
/// So many steps are tried side by side.
const AT_A_TIME: usize = 6;

const NAMES: [&str; 5] = ["kill", "power", "disk", "fsync", "kafka"];

/// Set in the copy of this program that runs in a name space of its own.
const INSIDE: &str = "RECANT_CRASH_INSIDE";

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("no crash is called {0}; there are: kill, power, disk, fsync, kafka")]
    UnknownName(String),
    #[error("{0:?} is no number of rounds")]
    Rounds(String),
    #[error("no step is called {0}")]
    UnknownStep(String),
    #[error(
        "a small disk cannot be mounted here, neither as root nor with unshare; run it where one of both is allowed"
    )]
    NoMount,
    #[error("cannot write to {RESULTS}/ or to the output, or start a program: {0}")]
    Io(#[from] io::Error),
    #[error("something does not hold")]
    DoesNotHold,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nothing can be said if standard error is closed.
            let _ = writeln!(io::stderr(), "crash: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Failure> {
    let name = arguments.first().map_or("all", String::as_str);
    let rounds = arguments.get(1).map_or(Ok(20), |text| text.parse().map_err(|_| Failure::Rounds(text.clone())))?;
    let steps = match arguments.get(2) {
        Some(name) => vec![Step::named(name).ok_or_else(|| Failure::UnknownStep(name.clone()))?],
        None => Step::ALL.to_vec(),
    };
    let names: Vec<&str> = if name == "all" { NAMES.to_vec() } else { vec![name] };
    let mut lines = Vec::new();
    let mut holds = true;
    for name in names {
        let result = match name {
            "kill" => kill(rounds, &steps)?,
            "power" => cut_power(rounds)?,
            "disk" | "kafka" if !full::is_possible() => {
                run_inside(name, rounds)?;
                continue;
            }
            "disk" => fill_disk(rounds)?,
            "fsync" => fail_fsync(rounds)?,
            "kafka" => on_kafka(rounds)?,
            other => return Err(Failure::UnknownName(other.to_owned())),
        };
        holds &= result.holds;
        lines.push(result.line);
    }
    for line in lines {
        writeln!(io::stdout(), "{line}")?;
    }
    if holds { Ok(()) } else { Err(Failure::DoesNotHold) }
}

struct Outcome {
    line: String,
    holds: bool,
}

fn kill(rounds: u32, steps: &[Step]) -> Result<Outcome, Failure> {
    let mut out = io::stdout();
    let mut verdict = Verdict::default();
    let mut each = serde_json::Map::new();
    let (mut kills, mut reached) = (0, 0);
    writeln!(out, "kill: {} steps, {rounds} rounds each, under load, followed; seed {SEED}", steps.len())?;
    let mut all = in_parallel(steps, rounds, &mut out)?;
    all.sort_by_key(|figures| figures.step);
    for figures in all {
        let step = figures.step;
        kills += figures.rounds;
        reached += u32::from(figures.rounds == rounds);
        each.insert(
            step.name().to_owned(),
            json!({
                "kills": figures.rounds, "other_lives": figures.other_lives, "acknowledged": figures.acknowledged,
                "changes": figures.changes, "repeats_dropped": figures.repeats,
            }),
        );
        verdict.add(figures.verdict);
    }
    let fields = vec![("steps", json!(reached)), ("rounds", json!(rounds)), ("kills", json!(kills))];
    let details = vec![("by_step", Value::Object(each))];
    result("embedded", fields, details, &verdict, reached as usize == steps.len())
}

/// The figures of each step. Most of the time goes to waiting for the disk, so several steps are tried at a time.
fn in_parallel(steps: &[Step], rounds: u32, out: &mut impl Write) -> Result<Vec<crash::matrix::Figures>, Failure> {
    let next = AtomicUsize::new(0);
    let (sender, done) = channel();
    let mut all = Vec::new();
    std::thread::scope(|scope| -> Result<(), Failure> {
        for _ in 0..AT_A_TIME {
            let (next, sender) = (&next, sender.clone());
            scope.spawn(move || {
                while let Some(step) = steps.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begun = Instant::now();
                    let figures = crash::matrix::rounds_of(*step, rounds, SEED);
                    // Whoever listens does so until all are done.
                    let _ = sender.send((figures, begun.elapsed()));
                }
            });
        }
        drop(sender);
        for (figures, took) in done {
            writeln!(
                out,
                "  {}: {} kills and {} other lives in {:.0} s; {} events acknowledged, {} changes published, {} repeats dropped",
                figures.step,
                figures.rounds,
                figures.other_lives,
                took.as_secs_f64(),
                figures.acknowledged,
                figures.changes,
                figures.repeats
            )?;
            tell_first(out, &figures.verdict)?;
            all.push(figures);
        }
        Ok(())
    })?;
    Ok(all)
}

fn cut_power(rounds: u32) -> Result<Outcome, Failure> {
    let mut out = io::stdout();
    writeln!(out, "power: {rounds} recordings, each cut 20 times; seed {SEED}")?;
    let mut all = power::Figures::default();
    for round in 0..rounds {
        let figures = power::cut(20, 200, SEED + u64::from(round));
        tell_first(&mut out, &figures.verdict)?;
        all.cuts += figures.cuts;
        all.acknowledged += figures.acknowledged;
        all.torn += figures.torn;
        all.torn_and_refused += figures.torn_and_refused;
        all.calls += figures.calls;
        all.verdict.add(figures.verdict);
    }
    let fields = vec![
        ("recordings", json!(rounds)),
        ("cuts", json!(all.cuts)),
        ("acknowledged", json!(all.acknowledged)),
        ("torn_pages", json!(all.torn)),
        ("torn_pages_refused", json!(all.torn_and_refused)),
        ("calls", json!(all.calls)),
    ];
    result("power", fields, Vec::new(), &all.verdict, all.cuts == rounds * 20)
}

fn fill_disk(rounds: u32) -> Result<Outcome, Failure> {
    let mut out = io::stdout();
    writeln!(out, "disk: {rounds} small disks are filled, by turns under everything, the log, the state; seed {SEED}")?;
    let figures = full::fill(rounds, SEED);
    tell_first(&mut out, &figures.verdict)?;
    let fields = vec![
        ("rounds", json!(figures.rounds)),
        ("appends_refused", json!(figures.refused)),
        ("openings_refused", json!(figures.openings_refused)),
        ("acknowledged", json!(figures.acknowledged)),
    ];
    result("disk", fields, Vec::new(), &figures.verdict, figures.rounds == rounds)
}

/// Where mounting is not allowed, it may be in a name space of one's own, in which one is root.
fn run_inside(name: &str, rounds: u32) -> Result<(), Failure> {
    if std::env::var_os(INSIDE).is_some() {
        return Err(Failure::NoMount);
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount"]).arg(std::env::current_exe()?);
    let status = unshare.args([name, &rounds.to_string()]).env(INSIDE, "1").status()?;
    if status.success() { Ok(()) } else { Err(Failure::DoesNotHold) }
}

fn fail_fsync(rounds: u32) -> Result<Outcome, Failure> {
    let mut out = io::stdout();
    writeln!(out, "fsync: {rounds} times one fsync fails, and the next would not; seed {SEED}")?;
    let figures = fsync::fail(rounds, SEED);
    tell_first(&mut out, &figures.verdict)?;
    let fields = vec![
        ("rounds", json!(figures.rounds)),
        ("appends_refused", json!(figures.refused)),
        ("acknowledged", json!(figures.acknowledged)),
    ];
    result("fsync", fields, Vec::new(), &figures.verdict, figures.rounds == rounds)
}

/// Kills at every step; processes that stand still, brokers that go, members in a storm; states that are damaged, and full disks.
fn on_kafka(rounds: u32) -> Result<Outcome, Failure> {
    let mut out = io::stdout();
    let steps = victim::STEPS.len();
    writeln!(out, "kafka: {steps} steps, {rounds} rounds each, under load, with a real broker; seed {SEED}")?;
    let mut written = Ok(());
    let mut all = matrix::kill_at_every_step(u64::from(rounds), SEED, &mut |told| {
        written = std::mem::replace(&mut written, Ok(())).and_then(|()| writeln!(out, "  {told}"));
    });
    written?;
    let mut is_complete = all.kills == steps as u64 * u64::from(rounds);
    let mut fields = vec![("steps", json!(steps)), ("rounds", json!(rounds)), ("kills", json!(all.kills))];
    let mut goes = Broker::start();
    let mut within_a_transaction = |seed| turmoil::broker_within_a_transaction(&mut goes, seed);
    let damaged = |seed| {
        let mut all = matrix::Figures::default();
        disks::Damage::ALL.iter().for_each(|damage| all.add(disks::damaged(*damage, seed)));
        all
    };
    let upsets: [Upset<'_>; 5] = [
        ("zombies", 1, &mut |seed| turmoil::zombie(seed)),
        ("brokers_gone", 1, &mut within_a_transaction),
        ("storms", 1, &mut |seed| turmoil::storm(seed)),
        ("states_damaged", disks::Damage::ALL.len() as u64, &mut |seed| damaged(seed)),
        ("disks_full", 1, &mut |seed| disks::full(seed)),
    ];
    for (name, each, upset) in upsets {
        let begun = Instant::now();
        let mut figures = matrix::Figures::default();
        (0..u64::from(rounds)).for_each(|round| figures.add(upset(SEED + round)));
        writeln!(
            out,
            "  {name}: {} in {:.0} s, {} events acknowledged",
            figures.kills,
            begun.elapsed().as_secs_f64(),
            figures.acknowledged
        )?;
        tell_first(&mut out, &figures.verdict)?;
        is_complete &= figures.kills == u64::from(rounds) * each;
        fields.push((name, json!(figures.kills)));
        all.add(figures);
    }
    fields.push(("acknowledged", json!(all.acknowledged)));
    result("kafka", fields, Vec::new(), &all.verdict, is_complete)
}

/// What befalls processes, how often in a round, and one round of it.
type Upset<'a> = (&'static str, u64, &'a mut dyn FnMut(u64) -> matrix::Figures);

fn tell_first(out: &mut impl Write, verdict: &Verdict) -> io::Result<()> {
    verdict.first().into_iter().try_for_each(|what| writeln!(out, "    {what}"))
}

/// The line and the file of a result.
fn result(
    name: &str,
    mut fields: Vec<(&'static str, Value)>,
    details: Vec<(&'static str, Value)>,
    verdict: &Verdict,
    is_complete: bool,
) -> Result<Outcome, Failure> {
    fields.extend([
        ("lost", json!(verdict.lost.len())),
        ("twice", json!(verdict.twice.len())),
        ("wrong", json!(verdict.wrong.len())),
    ]);
    let written: Vec<String> = fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let line = format!("RESULT crash_{name} {}", written.join(" "));
    let mut object: serde_json::Map<String, Value> =
        fields.into_iter().chain(details).map(|(key, value)| (key.to_owned(), value)).collect();
    object.insert("seed".to_owned(), json!(SEED));
    std::fs::create_dir_all(RESULTS)?;
    std::fs::write(format!("{RESULTS}/crash_{name}.json"), format!("{:#}\n", Value::Object(object)))?;
    Ok(Outcome { line, holds: verdict.is_clean() && is_complete })
}
