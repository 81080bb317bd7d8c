//! No input makes more memory necessary than a small multiple of its own size: a length that says four gigabytes is not
//! believed. Alone in its process, since what is counted is what the whole process has allocated.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test fails by panicking")]

use peak_alloc::PeakAlloc;
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use recant_tests::fuzz::{BYTES_ANYWAY, TARGETS, Target, mutate};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Of each target, always the same ones.
const CASES: usize = 3_000;

#[test]
fn memory_is_bounded_by_the_input() {
    for Target { name, run, examples, bytes_a_byte } in TARGETS {
        // What is made once is made now.
        let examples = examples();
        examples.iter().for_each(|example| run(example));
        let inputs = mutate::inputs(examples);
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let mut most = (0, 0);
        for _ in 0..CASES {
            let input = inputs.new_tree(&mut runner).unwrap().current();
            let before = ALLOCATED.current_usage();
            ALLOCATED.reset_peak_usage();
            run(&input);
            let used = ALLOCATED.peak_usage().saturating_sub(before);
            assert!(
                used <= BYTES_ANYWAY + bytes_a_byte * input.len(),
                "{name}: {used} bytes for {}: b\"{}\"",
                input.len(),
                input.escape_ascii()
            );
            most = most.max((used, input.len()));
        }
        eprintln!("RESULT fuzz_memory target={name} most_bytes={} input_bytes={}", most.0, most.1);
    }
}
