//! A long run of everything at once: writers, retractions and reinstatements, readers, followers, kill -9 and restarts; and
//! each minute the question whether all still holds, and whether memory, disk and files grow with the data alone.
//!
//! [`writer`] is the process that writes, and that is killed; [`load`] is what it writes, the same in the first minute as in
//! the last. [`followers`] and [`readers`] are the real `recant`, attached meanwhile. [`undisturbed`] is a second fold of the
//! same log, which nobody kills, and says what should be there; [`flat`] says what "flat apart from data" is, in figures.
//! [`run`] is the hour itself.

pub mod flat;
pub mod followers;
pub mod load;
pub mod planted;
pub mod readers;
pub mod run;
pub mod running;
pub mod undisturbed;
pub mod writer;
