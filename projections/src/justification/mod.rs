//! Statuses: the rule of belief, kept true as events come.
//!
//! [`graph`] is what there is, [`settle`] the one operation and the order of its changes, [`digest`] what the state adds up to, [`invariants`] what must hold in between. [`covers`] finds what a retraction
//! names, of what is [`listed`]. `lowest` is the queue of an operation. [`resident`], [`paged`] and [`overlay`] are three forms of the graph.

mod chunked;
pub mod covers;
pub mod digest;
pub mod graph;
pub mod invariants;
pub mod listed;
mod lowest;
pub mod overlay;
pub mod paged;
pub mod resident;
pub mod settle;
