//! Benchmarks: `make bench NAME=heart`, or all of them without a name.
//!
//! Each ends with lines `RESULT name key=value …`, and writes the same figures to `results/NAME.json`. Units are in the
//! keys. Everything random comes from a seed that is printed.

mod as_of;
mod durable;
mod gateway;
mod heart;
mod ingest;
mod kafka;
mod kafka_cascade;
mod kafka_limit;
mod kafka_recovery;
mod kafka_report;
mod opening;
mod recompute;
mod retractions;
mod settings;
mod spaces;
mod streams;
mod subscribers;
mod travel;
mod workload;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use heart::{Figures, Rounds};
use serde_json::{Value, json};
use workload::{W1, W2, W2_TENFOLD, W3, W4, W5, Workload};

/// What the recant binary uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SEED: u64 = 2026;
const RESULTS: &str = "results";
/// Fewer can be asked for, by a second argument: for profilers, which are slow.
const INGEST_EVENTS: u32 = 200_000;
const KAFKA_EVENTS: u64 = 1_000_000;
const CASCADE_CHANGES: u64 = 5_000_000;

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(
        "no benchmark is called {0}; there are: heart, w1 to w5, w2_tenfold, ingest, opening, spaces, reading, settings, replay, what_if, as_of, retractions, verify, kafka, cascade, gateway, subscribers (memory is a program of its own)"
    )]
    UnknownName(String),
    #[error(transparent)]
    Durable(#[from] durable::DurableError),
    #[error(transparent)]
    Kafka(#[from] kafka::KafkaError),
    #[error(transparent)]
    Disagreement(#[from] heart::Disagreement),
    #[error("gateway: {0}")]
    Gateway(Box<dyn std::error::Error>),
    #[error("time travel: {0}")]
    Travel(#[from] Box<dyn std::error::Error>),
    #[error("cannot write to {RESULTS}/ or to the output: {0}")]
    Write(#[from] io::Error),
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().filter(|name| !name.is_empty());
    let events = arguments.next().and_then(|number| number.parse().ok());
    let ran = match (name.as_deref(), std::env::args().nth(2)) {
        (Some("bare_axum"), Some(file)) => gateway::serve_bare(&file).map_err(Failure::Gateway),
        _ => run(name.as_deref(), events),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nothing can be said if standard error is closed.
            let _ = writeln!(io::stderr(), "bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(name: Option<&str>, given_events: Option<u32>) -> Result<(), Failure> {
    let ingest_events = given_events.unwrap_or(INGEST_EVENTS);
    match name {
        None | Some("all") => {
            run_heart(&HEART)?;
            run_ingest(ingest_events)?;
            run_opening()?;
            run_spaces()?;
            run_reading()?;
            run_settings()?;
            run_replay()?;
            run_what_if()?;
            run_as_of()?;
            run_retractions()?;
            run_verify()?;
            run_kafka(KAFKA_EVENTS)?;
            run_cascade(CASCADE_CHANGES)?;
            run_gateway()?;
            run_subscribers()
        }
        Some("heart") => run_heart(&HEART),
        Some("ingest") => run_ingest(ingest_events),
        Some("opening") => run_opening(),
        Some("spaces") => run_spaces(),
        Some("reading") => run_reading(),
        Some("settings") => run_settings(),
        Some("kafka") => run_kafka(given_events.map_or(KAFKA_EVENTS, u64::from)),
        Some("cascade") => run_cascade(given_events.map_or(CASCADE_CHANGES, u64::from)),
        Some("gateway") => run_gateway(),
        Some("subscribers") => run_subscribers(),
        Some("replay") => run_replay(),
        Some("what_if") => run_what_if(),
        Some("as_of") => run_as_of(),
        Some("retractions") => run_retractions(),
        Some("verify") => run_verify(),
        Some(name) => match HEART.iter().find(|run| run.workload.name == name) {
            Some(run) => run_heart(std::slice::from_ref(run)),
            None => Err(Failure::UnknownName(name.to_owned())),
        },
    }
}

fn run_gateway() -> Result<(), Failure> {
    let mut out = io::stdout();
    writeln!(out, "gateway: HTTP beside a bare axum handler of the same bytes, 16 callers, all on this machine")?;
    let figures = gateway::measure().map_err(Failure::Gateway)?;
    let written: Vec<String> = figures.iter().map(|(key, value)| format!("{key}={value}")).collect();
    writeln!(out, "  RESULT gateway {}", written.join(" "))?;
    let object = figures.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    std::fs::create_dir_all(RESULTS)?;
    Ok(std::fs::write(format!("{RESULTS}/gateway.json"), format!("{:#}\n", Value::Object(object)))?)
}

fn run_subscribers() -> Result<(), Failure> {
    writeln!(
        io::stdout(),
        "subscribers: from the sending of an event to the receipt of its changes; all on this machine"
    )?;
    say("subscribers", subscribers::measure().map_err(Failure::Gateway)?)
}

/// A workload of the heart, and how often what is done.
struct HeartRun {
    workload: Workload,
    rounds: Rounds,
    /// Rounds against the disk; none for what is only measured in memory.
    durable: u32,
}

const HEART: [HeartRun; 6] = [
    HeartRun { workload: W1, rounds: Rounds { measured: 20_000, compared: 250 }, durable: 5_000 },
    HeartRun { workload: W2, rounds: Rounds { measured: 20_000, compared: 10 }, durable: 5_000 },
    HeartRun { workload: W3, rounds: Rounds { measured: 200, compared: 50 }, durable: 10 },
    HeartRun { workload: W4, rounds: Rounds { measured: 200, compared: 50 }, durable: 10 },
    HeartRun { workload: W5, rounds: Rounds { measured: 20_000, compared: 50 }, durable: 5_000 },
    HeartRun { workload: W2_TENFOLD, rounds: Rounds { measured: 20_000, compared: 1 }, durable: 0 },
];

fn run_heart(runs: &[HeartRun]) -> Result<(), Failure> {
    let mut out = io::stdout();
    writeln!(out, "heart: retract one whole source, then reinstate it; seed {SEED}")?;
    writeln!(out, "  both sides give statuses, changes in order with distance, and the digest; one thread")?;
    writeln!(out, "  ratio_flat_copy: against a recompute by counting, over a flat copy of the graph made for it")?;
    writeln!(out, "  ratio_in_memory: against the same recompute over the arrays that the engine itself uses")?;
    writeln!(
        out,
        "  durable: the same as events, from their bytes to the records of the change stream and to RocksDB"
    )?;
    let mut results = serde_json::Map::new();
    let mut lines = Vec::new();
    for HeartRun { workload, rounds, durable } in runs {
        writeln!(out, "  {}: {:?}", workload.name, workload.shape)?;
        let mut fields = fields(&heart::measure(workload, *rounds, SEED)?);
        if *durable > 0 {
            fields.extend(durable_fields(&durable::measure(workload, *durable, SEED)?));
        }
        let written: Vec<String> = fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let line = format!("RESULT {} {}", workload.name, written.join(" "));
        writeln!(out, "  {line}")?;
        lines.push(line);
        let object = fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        results.insert(workload.name.to_owned(), Value::Object(object));
    }
    results.insert("seed".to_owned(), json!(SEED));
    std::fs::create_dir_all(RESULTS)?;
    std::fs::write(format!("{RESULTS}/heart.json"), format!("{:#}\n", Value::Object(results)))?;
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn run_ingest(events: u32) -> Result<(), Failure> {
    let mut out = io::stdout();
    writeln!(out, "ingest: events of 300 bytes with three premises, one partition; seed {SEED}")?;
    let figures = ingest::measure(events, SEED)?;
    let tables: Vec<String> = figures.tables.iter().map(|(table, rows)| format!("{table} {rows:.3}")).collect();
    writeln!(out, "  writes an event, by table: {}; all: {:.3}", tables.join(", "), figures.rows_per_event)?;
    let micros = |duration: std::time::Duration| duration.as_secs_f64() * 1e6 / f64::from(events);
    let mut fields = vec![
        ("events_per_s", json!(figures.events_per_s.round())),
        ("of_limit_percent", json!((100.0 * figures.events_per_s / figures.limit_events_per_s).round())),
        ("limit_events_per_s", json!(figures.limit_events_per_s.round())),
        ("writes_per_event", json!((figures.rows_per_event * 1e3).round() / 1e3)),
        ("row_bytes_per_event", json!(figures.row_bytes_per_event.round())),
        ("fold_us", json!((micros(figures.fold) * 1e2).round() / 1e2)),
        ("write_us", json!((micros(figures.write) * 1e2).round() / 1e2)),
    ];
    let names = ["one_writer_fsync_events_per_s", "writers_32_fsync_events_per_s", "appends_of_1000_events_per_s"];
    fields.extend(
        names.into_iter().zip(&figures.through_the_log).map(|(name, (_, _, rate))| (name, json!(rate.round()))),
    );
    say("ingest", fields)
}

fn run_kafka(events: u64) -> Result<(), Failure> {
    let broker = recant_tests::kafka::broker::Broker::start();
    say("kafka_ingest", kafka_report::ingest(&broker, events, SEED)?)?;
    say("kafka_latency", kafka_report::latency(&broker)?)?;
    say("kafka_recovery", kafka_report::recovery(&broker, events, SEED)?)
}

fn run_cascade(changes: u64) -> Result<(), Failure> {
    let broker = recant_tests::kafka::broker::Broker::start();
    say("kafka_cascade", kafka_report::cascade(&broker, changes)?)
}

fn run_opening() -> Result<(), Failure> {
    let mut out = io::stdout();
    writeln!(out, "opening: a space of {} nodes; seed {SEED}", opening::MILLION.nodes())?;
    let directory = tempfile::tempdir()?;
    opening::prepare(directory.path(), SEED)?;
    let opened = opening::opening(directory.path(), 5)?;
    let ms = |duration: std::time::Duration| json!((duration.as_secs_f64() * 1e4).round() / 10.0);
    let ratio =
        |duration: std::time::Duration| json!((duration.as_secs_f64() / opened.scan.as_secs_f64() * 1e3).round() / 1e3);
    say(
        "opening",
        vec![
            ("paged_ratio", ratio(opened.paged)),
            ("resident_ratio", ratio(opened.resident)),
            ("scan_ms", ms(opened.scan)),
            ("paged_ms", ms(opened.paged)),
            ("resident_ms", ms(opened.resident)),
            ("bytes", json!(opened.bytes)),
        ],
    )?;
    let worked = opening::budget(directory.path(), 2_000, SEED)?;
    let rounded = |value: f64| json!((value * 1e1).round() / 1e1);
    say(
        "budget",
        vec![
            ("times_slower", rounded(worked.paged.median_us / worked.resident.median_us)),
            ("paged_us", rounded(worked.paged.median_us)),
            ("paged_p99_us", rounded(worked.paged.p99_us)),
            ("resident_us", rounded(worked.resident.median_us)),
            ("resident_bytes", json!(worked.resident_bytes)),
            ("budget_bytes", json!(worked.budget_bytes)),
            ("paged_bytes_max", json!(worked.paged_bytes_max)),
        ],
    )
}

fn run_spaces() -> Result<(), Failure> {
    let mut out = io::stdout();
    let rounded = |value: f64| json!((value * 1e1).round() / 1e1);
    writeln!(out, "spaces: 10,000 touched in turn; a load of a million nodes beside others; seed {SEED}")?;
    let turns = spaces::in_turn(10_000, 5, SEED)?;
    say(
        "spaces_in_turn",
        vec![
            ("events_per_s", json!(turns.events_per_s.round())),
            ("short_of_memory_events_per_s", json!(turns.short_of_memory_events_per_s.round())),
            ("one_space_events_per_s", json!(turns.one_space_events_per_s.round())),
        ],
    )?;
    let directory = tempfile::tempdir()?;
    opening::prepare(directory.path(), SEED)?;
    let beside = spaces::beside_a_load(directory.path(), SEED)?;
    say(
        "load_beside",
        vec![
            ("during_p50_us", rounded(beside.during.median_us)),
            ("during_p99_us", rounded(beside.during.p99_us)),
            ("during_max_us", rounded(beside.during_max_us)),
            ("before_p50_us", rounded(beside.before.median_us)),
            ("before_p99_us", rounded(beside.before.p99_us)),
            ("events", json!(beside.events)),
        ],
    )
}

fn run_reading() -> Result<(), Failure> {
    writeln!(
        io::stdout(),
        "reading: `explain` of nodes at random, at rest and while as much is written as can be; seed {SEED}"
    )?;
    let rounded = |value: f64| json!((value * 1e1).round() / 1e1);
    let reading = spaces::reading(200_000, 5_000, SEED)?;
    say(
        "reading",
        vec![
            ("p99_ratio", rounded(reading.during_ingest.p99_us / reading.at_rest.p99_us)),
            ("p50_us", rounded(reading.during_ingest.median_us)),
            ("p99_us", rounded(reading.during_ingest.p99_us)),
            ("events_per_s", json!(reading.events_per_s.round())),
            ("at_rest_p50_us", rounded(reading.at_rest.median_us)),
            ("at_rest_p99_us", rounded(reading.at_rest.p99_us)),
        ],
    )
}

fn run_replay() -> Result<(), Failure> {
    const EVENTS: u32 = 200_000;
    let cores = std::thread::available_parallelism()?.get() as u32;
    writeln!(io::stdout(), "replay: {EVENTS} events of 300 bytes, in one partition and in {cores}; seed {SEED}")?;
    let one = travel::replay(1, EVENTS, SEED)?;
    let all = travel::replay(cores, EVENTS, SEED)?;
    let ratio = |one: f64, other: f64| json!((one / other * 1e2).round() / 1e2);
    let percent =
        |replayed: &travel::Replayed| json!((100.0 * replayed.events_per_s / replayed.limit_events_per_s).round());
    say(
        "replay",
        vec![
            ("of_limit_percent", percent(&one)),
            ("ratio_to_live", ratio(one.events_per_s, one.live_events_per_s)),
            ("events_per_s", json!(one.events_per_s.round())),
            ("live_events_per_s", json!(one.live_events_per_s.round())),
            ("limit_events_per_s", json!(one.limit_events_per_s.round())),
            ("partitions", json!(all.partitions)),
            ("parallel_events_per_s", json!(all.events_per_s.round())),
            ("parallel_ratio", ratio(all.events_per_s, one.events_per_s)),
            ("parallel_of_limit_percent", percent(&all)),
        ],
    )
}

fn run_settings() -> Result<(), Failure> {
    let mut out = io::stdout();
    writeln!(out, "settings: what else RocksDB could be told; the rows of 200,000 events; seed {SEED}")?;
    for tried in settings::try_all(INGEST_EVENTS, SEED)? {
        let rounded = |value: f64| json!((value * 1e2).round() / 1e2);
        say(
            &format!("settings_{}", tried.name),
            vec![
                ("write_us_per_event", rounded(tried.write_us_per_event)),
                ("compact_us_per_event", rounded(tried.compact_us_per_event)),
                ("disk_bytes_per_event", json!(tried.disk_bytes_per_event.round())),
                ("cold_read_us", rounded(tried.cold_read_us)),
                ("absent_read_us", rounded(tried.absent_read_us)),
            ],
        )?;
    }
    Ok(())
}

fn run_what_if() -> Result<(), Failure> {
    const EVENTS: u32 = 1_000_000;
    writeln!(io::stdout(), "what_if: a tenth before the end of {EVENTS} events; seed {SEED}")?;
    let (taken, full) = travel::what_if(EVENTS, SEED)?;
    let ms = |duration: std::time::Duration| json!((duration.as_secs_f64() * 1e3).round());
    let ratio = json!((taken.as_secs_f64() / full.as_secs_f64() * 1e3).round() / 1e3);
    say("what_if", vec![("ratio_to_full", ratio), ("what_if_ms", ms(taken)), ("full_ms", ms(full))])
}

fn run_as_of() -> Result<(), Failure> {
    const ENTRIES: u64 = 10_000_000;
    let figures = as_of::measure(ENTRIES, 1_000, SEED)?;
    let rounded = |value: f64| json!((value * 1e1).round() / 1e1);
    let ratio = |past: f64, now: f64| json!((past / now * 1e2).round() / 1e2);
    say(
        "as_of",
        vec![
            ("p99_ratio", ratio(figures.past.p99_us, figures.now.p99_us)),
            ("p50_ratio", ratio(figures.past.median_us, figures.now.median_us)),
            ("p99_us", rounded(figures.past.p99_us)),
            ("now_p99_us", rounded(figures.now.p99_us)),
            ("p50_us", rounded(figures.past.median_us)),
            ("now_p50_us", rounded(figures.now.median_us)),
            ("nodes", json!(figures.nodes)),
            ("history_entries", json!(figures.entries)),
        ],
    )
}

fn run_retractions() -> Result<(), Failure> {
    let data = std::env::var_os("RECANT_SHARED_DATA").map_or_else(|| "../shared/data".into(), std::path::PathBuf::from);
    let Some(figures) = retractions::measure(&data)? else {
        writeln!(
            io::stdout(),
            "retractions: {} has no such data; RECANT_SHARED_DATA names another folder",
            data.display()
        )?;
        return Ok(());
    };
    let ms = |us: f64| json!((us / 1e2).round() / 10.0);
    say(
        "retractions",
        vec![
            ("events", json!(figures.events)),
            ("days", json!(figures.days)),
            ("out", json!(figures.out)),
            ("turned", json!(figures.turned)),
            ("fell", json!(figures.fell)),
            ("born_out", json!(figures.born_out)),
            ("list_p50_ms", ms(figures.list.median_us)),
            ("list_p99_ms", ms(figures.list.p99_us)),
            ("diff_p50_ms", ms(figures.diff.median_us)),
            ("diff_p99_ms", ms(figures.diff.p99_us)),
        ],
    )
}

fn run_verify() -> Result<(), Failure> {
    let (planted, found) = travel::verify()?;
    say("verify", vec![("planted", json!(planted)), ("found", json!(found))])
}

/// Writes figures as a RESULT line and a file.
fn say(name: &str, fields: Vec<(&'static str, Value)>) -> Result<(), Failure> {
    let written: Vec<String> = fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let mut object: serde_json::Map<String, Value> =
        fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    object.insert("seed".to_owned(), json!(SEED));
    std::fs::create_dir_all(RESULTS)?;
    std::fs::write(format!("{RESULTS}/{name}.json"), format!("{:#}\n", Value::Object(object)))?;
    writeln!(io::stdout(), "RESULT {name} {}", written.join(" "))?;
    Ok(())
}

fn durable_fields(figures: &durable::Figures) -> Vec<(&'static str, Value)> {
    let rounded = |value: f64| json!((value * 1e1).round() / 1e1);
    vec![
        ("durable_us", rounded(figures.whole.median_us)),
        ("durable_p99_us", rounded(figures.whole.p99_us)),
        ("fold_us", rounded(figures.fold.median_us)),
        ("write_us", rounded(figures.write.median_us)),
        ("rows_median", json!(figures.rows_median)),
    ]
}

/// The figures by their keys, rounded to what they are worth.
fn fields(figures: &Figures) -> Vec<(&'static str, Value)> {
    let rounded = |value: f64| json!((value * 1e3).round() / 1e3);
    // A ratio below ten is worth its decimals: below one, the recompute is quicker.
    let ratio = |value: f64| if value < 10.0 { rounded(value) } else { json!(value.round()) };
    vec![
        ("ratio_in_memory", ratio(figures.ratio_in_memory)),
        ("median_us", rounded(figures.retract.median_us)),
        ("p99_us", rounded(figures.retract.p99_us)),
        ("recompute_median_us", rounded(figures.recompute_same_arrays.median_us)),
        ("suspects_per_change", rounded(figures.suspects_per_change)),
        ("changes_median", json!(figures.changes_median)),
        ("reinstate_median_us", rounded(figures.reinstate.median_us)),
        ("reinstate_p99_us", rounded(figures.reinstate.p99_us)),
        ("ratio_flat_copy", ratio(figures.ratio_flat_copy)),
        ("recompute_flat_copy_median_us", rounded(figures.recompute.median_us)),
        ("bytes_per_memory", json!(figures.bytes_per_memory)),
    ]
}
