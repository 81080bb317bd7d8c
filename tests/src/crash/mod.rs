//! Crashes of real processes: killed at every named step ([`matrix`]), losses of power ([`power`]), a full disk ([`full`]),
//! and an fsync that fails ([`fsync`]). `make crash` runs them all, `cargo test` a few of each.
//!
//! [`victim`] is the process that is to die, [`followers`] those that are attached meanwhile, and [`check`] says what must
//! hold afterwards.

pub mod aside;
pub mod check;
pub mod events;
pub mod followers;
pub mod fsync;
pub mod full;
pub mod gun;
pub mod matrix;
pub mod power;
pub mod process;
pub mod steps;
pub mod victim;
pub mod watched;
