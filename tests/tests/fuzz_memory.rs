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

/// Inputs that are worth much memory for their size: many things of no bytes each.
fn swollen() -> Vec<Vec<u8>> {
    const BYTES: usize = 100_000;
    let of = |piece: &[u8]| piece.repeat(BYTES / piece.len());
    let mut inputs = Vec::new();
    // In protobuf: in each body, so many empty fields of each number. Field numbers from 16 on take two bytes.
    for body in (20_u32..=30).chain(40..=43) {
        for field in 1_u32..=24 {
            let field = field << 3 | 2;
            let tag = if field < 128 { vec![field as u8] } else { vec![field as u8 | 128, (field >> 7) as u8] };
            let inside = of(&[&tag[..], &[0]].concat());
            let body = body << 3 | 2;
            let mut event = vec![body as u8 | 128, (body >> 7) as u8];
            let mut length = inside.len();
            while length > 127 {
                event.push(length as u8 | 128);
                length >>= 7;
            }
            event.push(length as u8);
            event.extend(inside);
            inputs.push(event);
        }
    }
    // In JSON and TOML: objects, lists, texts, tables.
    for piece in ["{\"a\":0},", "[],", "\"\",", "0,", "{},", "{\"role\":\"user\",\"content\":\"1 2 3\"},"] {
        let items = String::from_utf8(of(piece.as_bytes())).unwrap();
        let items = items.trim_end_matches(',');
        inputs.push(format!("{{\"messages\":[{items}]}}").into_bytes());
        inputs.push(format!("{{\"id\":\"e\",\"space\":\"s\",\"unheard_of\":[{items}]}}").into_bytes());
        inputs.push(format!("{{\"derived\":{{\"literals\":[{items}]}}}}").into_bytes());
    }
    inputs.push(of(b"[tools.a]\n"));
    inputs.push([&b"a = ["[..], &of(b"[],"), b"]"].concat());
    inputs.push((0..BYTES / 16).flat_map(|number| format!("[tools.t{number}]\n").into_bytes()).collect());
    inputs
}

#[test]
fn memory_is_bounded_by_the_input() {
    let swollen = swollen();
    for Target { name, run, examples, bytes_a_byte } in TARGETS {
        // What is made once is made now.
        let examples = examples();
        examples.iter().for_each(|example| run(example));
        let inputs = mutate::inputs(examples);
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let mut most = (0, 0);
        let damaged = (0..CASES).map(|_| inputs.new_tree(&mut runner).unwrap().current());
        for input in damaged.chain(swollen.iter().cloned()) {
            let before = ALLOCATED.current_usage();
            ALLOCATED.reset_peak_usage();
            run(&input);
            let used = ALLOCATED.peak_usage().saturating_sub(before);
            let start = input[..input.len().min(200)].escape_ascii();
            assert!(
                used <= BYTES_ANYWAY + bytes_a_byte * input.len(),
                "{name}: {used} bytes for {}, which begin with b\"{start}\"",
                input.len()
            );
            most = most.max((used, input.len()));
        }
        eprintln!("RESULT fuzz_memory target={name} most_bytes={} input_bytes={}", most.0, most.1);
    }
}
