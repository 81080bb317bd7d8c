//! DESIGN 6, attacked by losses of power: an acknowledged event is on disk, whatever else the disk forgets. Some cuts of one
//! recorded run; `make crash` makes 20 cuts of each of 20 runs.

// Helpers of tests fail as tests do.
#![allow(clippy::panic, clippy::print_stdout)]

use recant_tests::crash::power;

#[test]
fn a_loss_of_power_takes_nothing_that_was_acknowledged() {
    let figures = power::cut(16, 100, 11);
    println!("{figures:?}");
    assert!(figures.verdict.is_clean(), "{:?}", figures.verdict.first());
    assert_eq!(figures.cuts, 16);
    assert!(figures.acknowledged > 500, "little was at stake: {figures:?}");
}
