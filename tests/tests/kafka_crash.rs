//! Exactly once on Kafka: whatever step a process is killed at, a stock client sees each change once, whole and in order, nothing
//! that was acknowledged is lost, and the state that is left is that of an undisturbed fold.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::{process::Command, time::Duration};

use recant_tests::{
    binary::{Desk, Random},
    kafka::{broker::Broker, check, instance, load::Load, log, member::Member, victim::STEPS},
};

const PARTITIONS: u32 = 3;

/// One life after another on the same directory, each killed at another step under load.
#[test]
fn killed_at_every_step_each_change_is_published_once() {
    let (desk, instance) = (Desk::new(), instance("crash"));
    let address = Broker::shared().address();
    let log = log(&address, &instance, PARTITIONS);
    let data = desk.path("state");
    let mut load = Load::new(5, 4);
    let mut random = Random(7);
    for step in STEPS {
        // Some steps come once in the life of a partition, others with each batch.
        let count = match step {
            "acquiring" | "fenced" | "acquired" | "recovering" | "recovered" => 1 + random.below(u64::from(PARTITIONS)),
            _ => 1 + random.below(9),
        };
        let mut command = Command::new(victim());
        command
            .arg("kafka")
            .args([format!("brokers={address}"), format!("instance={instance}"), format!("data={}", data.display())])
            .arg(format!("die={step}:{count}"));
        let mut victim = Member::of(command, data.clone());
        while victim.count("dying") == 0 {
            load.append(&log, 20);
            // It is to be idle at times.
            std::thread::sleep(Duration::from_millis(30));
            victim.listen();
        }
        victim.wait_until_dead();
    }
    load.append(&log, 100);
    let mut last = Member::start(&desk, &address, &instance, "state", &["--static-member", "victim"]);
    last.wait_until_serving(PARTITIONS as usize);
    check::wait_until_processed(&log);
    last.stop();
    check::stock_client_sees_each_output_once(&log);
    check::nothing_acknowledged_is_lost(&log, &load);
    check::states_are_the_folds(&log, &[&data]);
}

/// The process that dies, built beside the tests.
fn victim() -> std::path::PathBuf {
    recant_tests::crash::process::program("victim")
}

/// A disk that is lost costs a replay, and nothing is published again; so does a state that another process has left behind.
#[test]
fn a_state_that_is_gone_is_made_anew_silently() {
    let (desk, instance) = (Desk::new(), instance("disk"));
    let address = Broker::shared().address();
    let log = log(&address, &instance, PARTITIONS);
    let mut load = Load::new(6, 4);
    load.append(&log, 300);
    let mut first = Member::start(&desk, &address, &instance, "first", &["--static-member", "only"]);
    first.wait_until_serving(PARTITIONS as usize);
    check::wait_until_processed(&log);
    first.kill();
    load.append(&log, 300);
    std::fs::remove_dir_all(desk.path("first")).unwrap();
    for name in ["first", "second"] {
        let mut member = Member::start(&desk, &address, &instance, name, &["--static-member", "only"]);
        member.wait_until_serving(PARTITIONS as usize);
        check::wait_until_processed(&log);
        member.stop();
        check::stock_client_sees_each_output_once(&log);
        check::states_are_the_folds(&log, &[&desk.path(name)]);
    }
    check::nothing_acknowledged_is_lost(&log, &load);
}
