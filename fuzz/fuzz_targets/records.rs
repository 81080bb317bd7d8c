//! The target `records` of `tests/src/fuzz/`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (recant_tests::fuzz::target("records").run)(bytes));
