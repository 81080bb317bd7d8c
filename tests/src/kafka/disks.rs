//! What befalls the directory of a process that serves: a state is removed, cut, flipped, exchanged for another cluster's or for an
//! older one, and a disk is full. On Kafka the log is the truth, so that a process gets over all of these by itself: what is of no
//! use is put aside, and made anew from the newest good snapshot, or from the log.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use recant_eventlog::kafka::{KafkaLog, NewLog};
use recant_processor::standalone::{log_created, state_directory};
use recant_proto::position::Incarnation;

use super::{broker::Broker, check, instance, load::Load, log, matrix::Figures, member::Member, settings};
use crate::{
    binary::{Desk, Random, copy_directory},
    crash::full::Mounted,
};

const PARTITIONS: u32 = 2;
const WRITERS: u64 = 4;
/// So that the states have tables, and not a write-ahead log alone.
const EVENTS: usize = 600;

/// What is done to the states of a process that was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// They are gone.
    Removed,
    /// Every table, manifest and write-ahead log is half as long.
    Cut,
    /// A byte of each of these is another.
    Flipped,
    /// They are those of a log of another cluster.
    OfAnother,
    /// They are as they were some time ago.
    Older,
}

impl Damage {
    /// All of them.
    pub const ALL: [Damage; 5] = [Damage::Removed, Damage::Cut, Damage::Flipped, Damage::OfAnother, Damage::Older];

    /// Whether what is found is of no use, and has to be put aside.
    fn is_of_no_use(self) -> bool {
        matches!(self, Damage::Cut | Damage::Flipped | Damage::OfAnother)
    }
}

/// A process is killed, its states are damaged, and it starts again; with snapshots by every other seed.
pub fn damaged(damage: Damage, seed: u64) -> Figures {
    let (desk, instance) = (Desk::new(), instance("disks"));
    let address = Broker::shared().address();
    let log = log(&address, &instance, PARTITIONS);
    let data = desk.path("data");
    let has_snapshots = seed.is_multiple_of(2);
    let url = desk.path("snapshots").display().to_string();
    let mut arguments = vec!["--static-member", "only"];
    if has_snapshots {
        arguments.extend(["--snapshot-every", "1s", "--snapshots", url.as_str()]);
    }
    let start = || Member::start(&desk, &address, &instance, "data", &arguments);
    let mut load = Load::new(seed, WRITERS);
    load.append(&log, EVENTS);

    // A clean end leaves tables; what the next life writes is in its write-ahead log.
    let mut member = start();
    member.wait_until_serving(PARTITIONS as usize);
    check::wait_until_processed(&log);
    member.stop();
    let older = desk.path("older");
    copy_directory(&data.join("state"), &older);
    let mut member = start();
    member.wait_until_serving(PARTITIONS as usize);
    load.append(&log, EVENTS);
    check::wait_until_processed(&log);
    if has_snapshots {
        member.wait_until("snapshots are made", |member| member.count("snapshot") >= PARTITIONS as usize);
    }
    member.kill();
    load.append(&log, EVENTS);

    match damage {
        Damage::Removed => fs::remove_dir_all(&data).expect("a directory can be removed"),
        Damage::Cut => each_file(&data, |content| content.truncate(content.len() / 2)),
        Damage::Flipped => {
            let mut random = Random(seed);
            each_file(&data, |content| {
                let at = random.below(content.len() as u64) as usize;
                content[at] ^= 0x40;
            });
        }
        Damage::OfAnother => replace(&data, &state_of_another_log(&desk, &address, seed)),
        Damage::Older => replace(&data, &older),
    }
    let mut member = start();
    member.wait_until_serving(PARTITIONS as usize);
    check::wait_until_processed(&log);
    let told = |what: &str| member.count(what);
    let (put_aside, restored, halted) = (told("state_put_aside"), told("restored"), told("halted"));
    let kept = kept_aside(&data);
    let all = format!("{:?}", member.told);
    member.stop();

    let mut verdict = check::all(&log, &load, &[&data]);
    if halted > 0 || put_aside != kept || (put_aside > 0) != damage.is_of_no_use() {
        verdict
            .wrong
            .push(format!("{damage:?}: {put_aside} states were put aside, {kept} kept, {halted} halted: {all}"));
    }
    let is_made_anew = damage == Damage::Removed || put_aside == PARTITIONS as usize;
    if has_snapshots && is_made_anew && restored < PARTITIONS as usize {
        verdict.wrong.push(format!("{damage:?}: {restored} states were restored: {all}"));
    }
    Figures { kills: 1, acknowledged: load.acknowledged.len() as u64, verdict }
}

/// How many states are kept beside those that are used.
fn kept_aside(data: &Path) -> usize {
    let entries = fs::read_dir(data.join("state")).expect("a directory can be read");
    entries.flatten().filter(|entry| entry.file_name().to_string_lossy().contains(".old-")).count()
}

fn replace(data: &Path, by: &Path) {
    let states = data.join("state");
    fs::remove_dir_all(&states).expect("a directory can be removed");
    copy_directory(by, &states);
}

/// Changes every file of the states that RocksDB keeps data in.
fn each_file(data: &Path, mut change: impl FnMut(&mut Vec<u8>)) {
    for partition in 0..PARTITIONS {
        for path in data_files(&state_directory(data, partition)) {
            let mut content = fs::read(&path).expect("a file can be read");
            if !content.is_empty() {
                change(&mut content);
                fs::write(&path, content).expect("a file can be written");
            }
        }
    }
}

fn data_files(directory: &Path) -> Vec<PathBuf> {
    let holds_data = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".sst") || name.ends_with(".log") || name.starts_with("MANIFEST-")
    };
    let entries = fs::read_dir(directory).expect("a directory can be read");
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(holds_data).collect();
    files.sort();
    files
}

/// The states of a log that has another name, and other events.
fn state_of_another_log(desk: &Desk, address: &str, seed: u64) -> PathBuf {
    let instance = instance("another");
    let first_event = |incarnation, partitions, partition| log_created(incarnation, partitions, partition, false);
    let incarnation = Incarnation([0xa5; 16]);
    let new = NewLog { incarnation, partitions: PARTITIONS, first_event: &first_event };
    let log = KafkaLog::open_or_create(settings(address, &instance), &new).expect("the brokers are there");
    Load::new(seed + 1, WRITERS).append(&log, EVENTS);
    let mut member = Member::start(desk, address, &instance, "another", &[]);
    member.wait_until_serving(PARTITIONS as usize);
    check::wait_until_processed(&log);
    member.stop();
    desk.path("another").join("state")
}

/// The disk of a process that serves is nearly full; it says so, and goes on by itself once there is room.
pub fn full(seed: u64) -> Figures {
    const ROOM_BYTES_MAX: u64 = 1_500_000;
    let (desk, instance) = (Desk::new(), instance("full"));
    let address = Broker::shared().address();
    let log = log(&address, &instance, PARTITIONS);
    let data = desk.path("data");
    fs::create_dir_all(&data).expect("a directory can be made");
    let mounted = Mounted::at(&data).expect("asked before");
    let ballast = data.join("ballast");
    mounted.fill_up_to(&ballast, Random(seed).below(ROOM_BYTES_MAX));

    let mut load = Load::new(seed, WRITERS);
    let mut member = Member::start(&desk, &address, &instance, "data", &["--static-member", "only"]);
    while member.count("interrupted") == 0 {
        load.append(&log, EVENTS);
        std::thread::sleep(Duration::from_millis(100));
        member.listen();
    }
    fs::remove_file(&ballast).expect("a file can be removed");
    check::wait_until_processed(&log);
    member.wait_until_serving(PARTITIONS as usize);
    let says_so = member.told.iter().filter(|told| told["told"] == "interrupted").all(|told| {
        let detail = told["detail"].as_str().unwrap_or_default();
        detail.contains("no room") || detail.contains("No space left")
    });
    let halted = member.count("halted");
    let all = format!("{:?}", member.told);
    member.stop();
    let mut verdict = check::all(&log, &load, &[&data]);
    if halted > 0 || !says_so {
        verdict.wrong.push(format!("a full disk: {all}"));
    }
    Figures { kills: 1, acknowledged: load.acknowledged.len() as u64, verdict }
}
