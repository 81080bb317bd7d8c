//! Faults in what the soak sees, to see that it would notice them: `soak MINUTES SEED KILL_EVERY_S FAULT`.

/// What is made wrong, once, in the second minute's questions or the first after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An event that was acknowledged is not found in the log.
    Lost,
    /// An event is read twice.
    Twice,
    /// The digest of a space is another.
    Digest,
    /// A change is not seen by a follower.
    Unseen,
}

impl Fault {
    /// The fault with a name.
    pub fn named(name: &str) -> Option<Fault> {
        match name {
            "lost" => Some(Fault::Lost),
            "twice" => Some(Fault::Twice),
            "digest" => Some(Fault::Digest),
            "unseen" => Some(Fault::Unseen),
            _ => None,
        }
    }
}

/// A fault that is to happen once.
#[derive(Debug, Default)]
pub struct Planted {
    /// The fault.
    pub fault: Option<Fault>,
}

impl Planted {
    /// Whether it is to happen now; then it does not happen again.
    pub fn takes(&mut self, fault: Fault) -> bool {
        self.fault.take_if(|planted| *planted == fault).is_some()
    }
}
