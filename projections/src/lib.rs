//! Pure state: an event and a store make a new state and outputs. No clock, no randomness, no network.
//!
//! [`fold`] does it all for one event. [`justification`] holds the rule of belief, [`history`] what was believed when,
//! [`actions`] what was done. [`tables`] says what lies where on disk, [`store`] where the disk is. [`query`] reads.

pub mod actions;
pub mod audit;
pub mod fold;
pub mod history;
pub mod justification;
pub mod query;
pub mod store;
pub mod tables;
