//! Who may do what.
//!
//! A [`Caller`] is known before anything is looked up, and [`Caller::check`] decides from the name of a space and a right alone, never
//! from what the space holds. That is why what a caller may not see is exactly as if it did not exist: the answer is the same, byte for
//! byte and in the time that it takes. [`admit`] is the same for events: which right a body needs, and in whose name it is.

mod admit;
mod caller;

pub use admit::{admit, right_for};
pub use caller::{Caller, Denied, Grants, Right};
