//! End to end: the oracle, the generator of event sequences that the engine and the oracle are both fed with, and what
//! drives real binaries.

pub mod agree;
pub mod binary;
pub mod damage;
pub mod generate;
pub mod oracle;
