//! The rule of belief where it decides between justifications, and how tests bend it.

/// A change to the rule, planted to show that the tests find it. Ships as [`Faithful`] alone.
pub trait Rule {
    /// Whether a valid justification can take over, by the rank of its highest premise and the node's.
    fn may_take_over(highest_premise: u64, rank: u64) -> bool {
        highest_premise < rank
    }

    /// How many covers one more makes.
    fn cover(covers: u32) -> u32 {
        covers + 1
    }

    /// How many covers one less leaves.
    fn uncover(covers: u32) -> u32 {
        covers.saturating_sub(1)
    }

    /// Whether what is uncovered is restored before what is covered is withdrawn.
    const RESTORE_FIRST: bool = false;
}

/// The rule of belief as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faithful;

impl Rule for Faithful {}
