//! Whatever the bytes are, nothing that reads them panics, loses a position or writes what it cannot read again. Each target
//! is fed with damaged examples for a minute; `RECANT_FUZZ_SECONDS` is another time, `make fuzz` an hour with libFuzzer.
//!
//! Time says only how much is tried. What fails is shrunk, and printed as the bytes of a literal, for a test of its kind.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test fails by panicking")]

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use recant_tests::fuzz::{TARGETS, Target, mutate, target};

/// Between two looks at the clock.
const CASES: u32 = 64;

fn seconds() -> u64 {
    std::env::var("RECANT_FUZZ_SECONDS").map_or(60, |text| text.parse().unwrap())
}

fn feed(name: &str) {
    let Target { run, examples, .. } = target(name);
    let examples = examples();
    for example in &examples {
        run(example);
    }
    let inputs = mutate::inputs(examples);
    let config = Config { cases: CASES, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let end = Instant::now() + Duration::from_secs(seconds());
    let executions = Cell::new(0_u64);
    loop {
        // A runner that has run its cases runs no more.
        let outcome = TestRunner::new(config.clone()).run(&inputs, |bytes| {
            executions.set(executions.get() + 1);
            catch_unwind(AssertUnwindSafe(|| run(&bytes))).map_err(|panic| TestCaseError::fail(said(&*panic)))
        });
        match outcome {
            Ok(()) if Instant::now() < end => {}
            Ok(()) => break,
            Err(TestError::Fail(why, bytes)) => panic!("{why}\nb\"{}\"", bytes.escape_ascii()),
            Err(error) => panic!("{error}"),
        }
    }
    eprintln!("RESULT fuzz target={name} executions={} seconds={}", executions.get(), seconds());
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

macro_rules! feed_each {
    ($($name:ident)+) => {
        $(#[test] fn $name() { feed(stringify!($name)) })+

        #[test]
        fn every_target_is_fed() {
            assert_eq!(TARGETS.map(|target| target.name), [$(stringify!($name)),+]);
        }
    };
}

feed_each! { events changes places records rows import maps fold }
