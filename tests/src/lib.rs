//! End to end: the oracle, the generator of event sequences that the engine and the oracle are both fed with, the
//! simulation of what can go wrong, and what drives real binaries.

pub mod agree;
pub mod binary;
pub mod crash;
pub mod damage;
pub mod fuzz;
pub mod generate;
pub mod kafka;
pub mod oracle;
pub mod plant;
pub mod receiver;
pub mod served;
pub mod sim;
pub mod soak;
pub mod spreadsheet;

// The record of the log, whose encoding `fuzz` includes from the log's own crate.
use recant_eventlog::Record;
