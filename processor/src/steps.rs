//! Tells of each named step, for those who end processes between steps (`docs/how-to/crashes.md`).

pub(crate) fn passed(step: &str) {
    tracing::trace!(target: "recant::step", step);
}
