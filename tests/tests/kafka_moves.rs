//! Protects what leaves a machine and comes back: snapshots of states, where a disk is lost, and snapshots that are damaged or of
//! others; and logs that move, from a directory to Kafka and to another number of partitions, with everything that they say.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier},
    client::DefaultClientContext,
};
use recant_eventlog::{AppendLog as _, NewRecord, ReadLog as _};
use recant_proto::{
    v1::{Content, Event, Observed, content::Form, event::Body},
    wire,
};
use recant_tests::{
    binary::{Desk, Random, Run, files, items, json_lines, run, text, texts},
    kafka::{
        broker::Broker,
        check, instance,
        load::{Load, record},
        log,
        member::{Member, command},
        s3::S3,
    },
};
use serde_json::{Value, json};

const PARTITIONS: usize = 2;

/// A member that makes snapshots in a directory of the desk as often as it can.
fn with_snapshots(desk: &Desk, instance: &str, name: &str) -> Member {
    let snapshots = desk.path("snapshots").display().to_string();
    let arguments = ["--snapshots", &snapshots, "--snapshot-every", "1ms"];
    Member::start(desk, &Broker::shared().address(), instance, name, &arguments)
}

/// Where a partition's newest snapshot is, by what a member told.
fn newest_snapshot(member: &Member, partition: usize) -> Option<u64> {
    let of_partition = |told: &&Value| told["told"] == "snapshot" && told["partition"] == partition;
    let position = text(&member.told.iter().rfind(of_partition)?["position"]);
    position.split_once(':').unwrap().1.parse().ok()
}

fn wait_for_snapshots(member: &mut Member, log: &recant_eventlog::kafka::KafkaLog) {
    check::wait_until_processed(log);
    let committed: Vec<u64> = (0..PARTITIONS as u32).map(|number| log.committed(number).unwrap().next_offset).collect();
    member.wait_until("snapshots hold everything", |member| {
        (0..PARTITIONS).all(|partition| newest_snapshot(member, partition) == Some(committed[partition]))
    });
}

/// The manifests of a partition's snapshots, the oldest first.
fn manifests(desk: &Desk, partition: usize) -> Vec<PathBuf> {
    let of_log = fs::read_dir(desk.path("snapshots")).unwrap().next().unwrap().unwrap().path();
    let directory = of_log.join(partition.to_string()).join("snapshots");
    let mut found: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn hashes(manifest: &Path) -> Vec<String> {
    let manifest: Value = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
    manifest["files"].as_array().unwrap().iter().map(|file| text(&file["blake3"]).to_owned()).collect()
}

fn detail_of_skipped(member: &Member) -> Vec<&str> {
    member.told.iter().filter(|told| told["told"] == "snapshot_skipped").map(|told| text(&told["detail"])).collect()
}

/// A disk that is lost costs a download and the end of the log; and what a snapshot has is not uploaded again.
#[test]
fn a_lost_disk_is_restored_from_the_newest_snapshot() {
    let (desk, instance) = (Desk::new(), instance("snapshots"));
    restored_from_the_newest(&desk, &instance, &[], &|| with_snapshots(&desk, &instance, "data"));
}

/// The same by S3, as a server of other people's speaks it, with a state whose files go up in several parts.
#[test]
fn a_lost_disk_is_restored_from_an_object_store() {
    const LARGE_EVENTS: u64 = 60;
    let (desk, instance, s3) = (Desk::new(), instance("object-store"), S3::start());
    let start = || {
        let arguments = ["serve", "--json", "--snapshots", &s3.url(), "--snapshot-every", "1s"];
        let mut serve = command(&desk, &Broker::shared().address(), &instance, &arguments);
        serve.envs(s3.variables());
        Member::of(serve, desk.path("data"))
    };
    let mut random = Random(3);
    // Of letters that cannot be compressed to much less.
    let mut text = || (0..200_000).map(|_| (b'0' + random.below(64) as u8) as char).collect::<String>();
    let large = (0..LARGE_EVENTS).map(|number| {
        let content = Some(Content { form: Some(Form::Text(text())), ..Content::default() });
        let (node, source) = (format!("large-{number}"), "large".to_owned());
        let body = Some(Body::Observed(Observed { node: node.clone(), source, content, ..Observed::default() }));
        record(&Event { id: node, space: "large".to_owned(), body, ..Event::default() }, PARTITIONS as u32)
    });
    restored_from_the_newest(&desk, &instance, &large.collect::<Vec<_>>(), &start);
}

fn restored_from_the_newest(desk: &Desk, instance: &str, first: &[NewRecord], start: &dyn Fn() -> Member) {
    let log = log(&Broker::shared().address(), instance, PARTITIONS as u32);
    for record in first {
        log.append(vec![record.clone()]).unwrap();
    }
    let mut load = Load::new(5, 4);
    let mut member = start();
    member.wait_until_serving(PARTITIONS);
    for _ in 0..2 {
        load.append(&log, 300);
        wait_for_snapshots(&mut member, &log);
    }
    let snapshots: Vec<u64> = (0..PARTITIONS).map(|number| newest_snapshot(&member, number).unwrap()).collect();
    let uploaded: Vec<&Value> = member.told.iter().filter(|told| told["told"] == "snapshot").collect();
    let is_incremental = |told: &&&Value| told["uploaded_bytes"].as_u64() < told["bytes"].as_u64();
    assert!(uploaded.iter().any(|told| is_incremental(&told)), "each snapshot was uploaded whole: {uploaded:?}");
    member.kill();
    load.append(&log, 200);
    fs::remove_dir_all(desk.path("data")).unwrap();

    let mut member = start();
    member.wait_until_serving(PARTITIONS);
    for (partition, next_offset) in snapshots.iter().enumerate() {
        let restored = member.told.iter().find(|told| told["told"] == "restored" && told["partition"] == partition);
        let restored = restored.unwrap_or_else(|| panic!("not restored: {:?}", member.told));
        assert_eq!(restored["position"], format!("{partition}:{next_offset}"));
    }
    check::wait_until_processed(&log);
    member.stop();
    check::holds(&check::all(&log, &load, &[&desk.path("data")]));
}

/// What is damaged, of another log, of a newer version, or no snapshot at all is skipped, and told by its name.
#[test]
fn a_snapshot_that_is_not_good_is_skipped() {
    let (desk, instance) = (Desk::new(), instance("skipped"));
    let log = log(&Broker::shared().address(), &instance, PARTITIONS as u32);
    let mut load = Load::new(6, 4);
    let mut member = with_snapshots(&desk, &instance, "data");
    member.wait_until_serving(PARTITIONS);
    for _ in 0..2 {
        load.append(&log, 300);
        wait_for_snapshots(&mut member, &log);
    }
    member.stop();
    fs::remove_dir_all(desk.path("data")).unwrap();

    let newest = manifests(&desk, 0).pop().unwrap();
    let directory = newest.parent().unwrap();
    let sound: Value = serde_json::from_slice(&fs::read(&newest).unwrap()).unwrap();
    let plant = |name: &str, members: Value| {
        let mut manifest = sound.clone();
        manifest.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        fs::write(directory.join(name), manifest.to_string()).unwrap();
    };
    // Each is named as if it were newer than the one before.
    plant("00000000000000900001-1.json", json!({ "incarnation": "another" }));
    plant("00000000000000900002-1.json", json!({ "format_version": 99 }));
    plant("00000000000000900003-1.json", json!({ "files": [{ "path": "../out", "bytes": 1, "blake3": "00" }] }));
    plant("00000000000000900004-1.json", json!({ "files": [{ "path": "CURRENT", "bytes": 1, "blake3": "00" }] }));
    fs::copy(&manifests(&desk, 0)[0], directory.join("00000000000000900005-1.json")).unwrap();
    fs::write(directory.join("00000000000000900006-1.json"), "{").unwrap();
    // The newest of ours has a file that an older one has not: it is changed.
    let files = directory.parent().unwrap().join("files");
    let older: Vec<String> =
        manifests(&desk, 0).iter().take_while(|path| **path != newest).flat_map(|path| hashes(path)).collect();
    let own = hashes(&newest).into_iter().find(|hash| !older.contains(hash)).expect("a file of its own");
    let mut content = fs::read(files.join(&own)).unwrap();
    content[0] ^= 1;
    fs::write(files.join(&own), content).unwrap();

    let mut member = with_snapshots(&desk, &instance, "data");
    member.wait_until_serving(PARTITIONS);
    let details = detail_of_skipped(&member).join("\n");
    for part in ["another", "format 99", "../out", "is missing", "position", "cannot be read", "has changed"] {
        assert!(details.contains(part), "{part} is not among\n{details}");
    }
    assert_eq!(detail_of_skipped(&member).len(), 7, "{details}");
    assert_eq!(member.count("restored"), PARTITIONS, "an older one is good, and so is the other partition's");
    check::wait_until_processed(&log);
    member.stop();
    check::holds(&check::all(&log, &load, &[&desk.path("data")]));
}

/// A log that is about to lose events, or has lost those behind a snapshot, is told of while the newest one is still good.
#[test]
fn a_log_that_loses_events_is_an_alarm() {
    let (desk, instance) = (Desk::new(), instance("retention"));
    let address = Broker::shared().address();
    let log = log(&address, &instance, 1);
    let mut load = Load::new(9, 2);
    let mut member = with_snapshots(&desk, &instance, "data");
    member.wait_until_serving(1);
    load.append(&log, 100);
    check::wait_until_processed(&log);
    let end = log.committed(0).unwrap().next_offset;
    member.wait_until("a snapshot holds everything", |member| newest_snapshot(member, 0) == Some(end));
    assert_eq!(member.count("retention_alarm"), 0);
    let events = format!("{instance}.recant.events");
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", &address).create().unwrap();
    let mut up_to = TopicPartitionList::new();
    up_to.add_partition_offset(&events, 0, Offset::Offset(end as i64)).unwrap();
    pollster::block_on(admin.delete_records(&up_to, &AdminOptions::new())).unwrap();
    load.append(&log, 50);
    member.wait_until("the alarm", |member| member.count("retention_alarm") > 0);
    let alarm = member.told.iter().find(|told| told["told"] == "retention_alarm").unwrap().clone();
    assert_eq!(alarm["earliest"], format!("0:{end}"));
    assert!(alarm.get("retention_ms").is_none());

    let change = AlterConfig::new(ResourceSpecifier::Topic(&events)).set("retention.ms", "3600000");
    let changed = pollster::block_on(admin.alter_configs([&change], &AdminOptions::new())).unwrap();
    assert!(changed.iter().all(Result::is_ok), "{changed:?}");
    load.append(&log, 50);
    member.wait_until("it is told how long events are kept", |member| {
        member.told.iter().any(|told| told["retention_ms"] == 3_600_000)
    });
    member.stop();
}

/// The events of some writers, as JSON lines, with some that are refused and some that are there twice.
fn events_of_writers(desk: &Desk, name: &str) -> String {
    let mut load = Load::new(8, 5);
    let mut lines = Vec::new();
    while lines.len() < 600 {
        lines.extend(load.next_call(1).into_iter().map(|(event, _)| wire::to_json(&event)));
    }
    desk.file(name, json_lines(&lines))
}

fn digests(desk: &Desk, data: &str) -> BTreeMap<String, String> {
    digests_of(desk.command(LIST_SPACES), &desk.path(data))
}

const LIST_SPACES: [&str; 5] = ["--json", "list", "--spaces", "--limit", "1000"];

fn digests_on_kafka(desk: &Desk, instance: &str, data: &str) -> BTreeMap<String, String> {
    digests_of(command(desk, &Broker::shared().address(), instance, &LIST_SPACES), &desk.path(data))
}

fn digests_of(mut listing: Command, data: &Path) -> BTreeMap<String, String> {
    listing.env("RECANT_DATA", data);
    let page = run(listing).exited(0).document();
    let of_space = |item: &Value| (text(&item["space"]).to_owned(), text(&item["digest"]).to_owned());
    items(&page).iter().map(of_space).collect()
}

fn told_digests(document: &Value) -> BTreeMap<String, String> {
    let digests = document["digests"].as_object().unwrap();
    digests.iter().map(|(space, digest)| (space.clone(), text(digest).to_owned())).collect()
}

fn on_kafka(desk: &Desk, instance: &str, arguments: &[&str]) -> Run {
    let mut command = command(desk, &Broker::shared().address(), instance, &["--json"]);
    command.args(arguments);
    run(command)
}

/// Lines that were exported make the same memory anew.
#[test]
fn exported_lines_can_be_appended_again() {
    let desk = Desk::new();
    let file = events_of_writers(&desk, "events.jsonl");
    desk.run(["append", &file, "--partitions", "3"]);
    let exported = desk.done(["export"]);
    let copy = desk.file("exported.jsonl", exported);
    let mut again = desk.command(["append", &copy]);
    again.env("RECANT_DATA", desk.path("again"));
    run(again);
    assert!(digests(&desk, "data").len() >= 10);
    assert_eq!(digests(&desk, "again"), digests(&desk, "data"));
    let space = digests(&desk, "data").into_keys().next().unwrap();
    let of_space = desk.done(["export", "--space", &space]);
    assert!(of_space.lines().count() > 10);
    for line in of_space.lines() {
        assert_eq!(serde_json::from_str::<Value>(line).unwrap()["space"], space);
    }
}

/// A log that moves to Kafka says there what it said in its directory: positions, times, digests, and the ids of its changes. One
/// that moves on to more partitions keeps its digests. Neither goes where something is.
#[test]
fn a_log_moves_to_kafka_and_to_more_partitions() {
    let (desk, moved, wide) = (Desk::new(), instance("moved"), instance("wide"));
    let file = events_of_writers(&desk, "events.jsonl");
    desk.run(["append", &file, "--partitions", "3"]);
    // A retraction that holds at one position only, and does.
    let space = digests(&desk, "data").into_keys().next().unwrap();
    let source = ["--space", &space, "--source", "s-0"];
    let preview = desk.json([&["retract", "--preview"], &source[..]].concat());
    let position = text(&preview["position"]);
    desk.json([&["retract", "--id", "held", "--only-if-position", position], &source[..]].concat());
    let before = digests(&desk, "data");
    let address = Broker::shared().address();

    let mut export = desk.command(["--json", "export", "--to", "kafka", "--brokers", &address, "--instance", &moved]);
    let exported = run_again(&mut export).exited(0).document();
    assert_eq!(told_digests(&exported), before);
    assert_eq!(exported["left_out"], 0);
    assert_eq!(run_again(&mut export).exited(3).text(), "", "its topics are there now");

    let mut member = Member::start(&desk, &address, &moved, "served", &[]);
    member.wait_until_serving(3);
    let log_of_moved = log(&address, &moved, 3);
    assert_eq!(text(&exported["incarnation"]), log_of_moved.incarnation().to_string());
    check::wait_until_processed(&log_of_moved);
    let watch = ["watch", "--from", "earliest", "--until-caught-up", "--space", &space];
    let on_moved: Vec<Value> = on_kafka(&desk, &moved, &watch)
        .exited(0)
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let in_directory = desk.changes(&space);
    assert!(in_directory.len() > 20);
    assert_eq!(texts(&on_moved, "id"), texts(&in_directory, "id"));
    assert_eq!(texts(&on_moved, "time"), texts(&in_directory, "time"), "the log's clock says the same");
    member.stop();
    assert_eq!(digests_on_kafka(&desk, &moved, "served"), before);

    let arguments = ["repartition", "--partitions", "7", "--to-instance", &wide];
    let repartitioned = on_kafka(&desk, &moved, &arguments).exited(0).document();
    assert_eq!(told_digests(&repartitioned), before);
    assert!(repartitioned["left_out"].as_u64() >= Some(3), "{repartitioned}");
    on_kafka(&desk, &moved, &arguments).exited(3);
    let mut member = Member::start(&desk, &address, &wide, "wide", &[]);
    member.wait_until_serving(7);
    let log_of_wide = log(&address, &wide, 7);
    check::wait_until_processed(&log_of_wide);
    member.stop();
    assert_eq!(digests_on_kafka(&desk, &wide, "wide"), before);
    check::holds(&check::what_a_stock_client_sees(&log_of_wide));
    check::holds(&check::states(&log_of_wide, &[&desk.path("wide")]));
    assert!(files(&desk.path("tmp")).is_empty());
}

fn run_again(command: &mut Command) -> Run {
    let mut again = Command::new(command.get_program());
    again.args(command.get_args()).env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            again.env(name, value);
        }
    }
    if let Some(directory) = command.get_current_dir() {
        again.current_dir(directory);
    }
    again.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    run(again)
}
