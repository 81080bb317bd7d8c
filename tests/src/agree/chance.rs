//! Decisions that follow from the seed and a record's offset alone.

/// What is decided.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Abandon,
    Reopen,
    Store,
    Unload,
    PreviewResident,
    PreviewPaged,
    Snapshot,
    Ask,
    Time,
    Explain,
    Diff,
    Replay,
    Valid,
    Follow,
}

/// A source of decisions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chance {
    pub(super) seed: u64,
}

impl Chance {
    /// True once in so many times.
    pub(super) fn one_in(self, times: u64, purpose: Purpose, offset: u64) -> bool {
        self.pick(times, purpose, offset) == 0
    }

    /// A number below another.
    pub(super) fn pick(self, below: u64, purpose: Purpose, offset: u64) -> u64 {
        let place = self.seed ^ offset.rotate_left(40) ^ (purpose as u64).rotate_left(56);
        mixed(mixed(place)) % below.max(1)
    }
}

/// SplitMix64's output function.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
