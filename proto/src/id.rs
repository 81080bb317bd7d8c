//! Ids and the statuses that are written in events, changes and answers.

/// An id has 1 to this many bytes of UTF-8.
pub const ID_BYTES_MAX: usize = 256;

/// The space of the log's own events. Written once into each partition.
pub const CONTROL_SPACE: &str = "recant.control";

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// What a source said.
    Observation = 1,
    /// What an agent concluded.
    Belief = 2,
    /// What an agent means to do.
    Plan = 3,
    /// What an agent did or asks to do.
    Action = 4,
}

impl Kind {
    /// Every kind, in the order in which they are counted and listed.
    pub const ALL: [Kind; 4] = [Kind::Observation, Kind::Belief, Kind::Plan, Kind::Action];

    /// As written in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Observation => "observation",
            Kind::Belief => "belief",
            Kind::Plan => "plan",
            Kind::Action => "action",
        }
    }

    /// The body of the event with which a node of this kind arrives.
    pub fn born_by(self) -> &'static str {
        match self {
            Kind::Observation => "observed",
            Kind::Belief | Kind::Plan => "derived",
            Kind::Action => "action_proposed",
        }
    }

    /// The kind that is written so.
    pub fn parse(text: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// The kind with this number on disk.
    pub fn from_u8(number: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// A node's status with its `why`: believed, or the reason for which it is not. A function of the present state alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Standing {
    /// Believed.
    In = 0,
    /// OUT: covered by a retraction that stands.
    Retracted = 1,
    /// OUT: no justification holds.
    Unsupported = 2,
    /// OUT: every uncovered justification waits for a premise that has not arrived.
    Pending = 3,
}

impl Standing {
    /// Every standing.
    pub const ALL: [Standing; 4] = [Standing::In, Standing::Retracted, Standing::Unsupported, Standing::Pending];

    /// Whether it is believed.
    #[inline]
    pub fn is_in(self) -> bool {
        self == Standing::In
    }

    /// `IN` or `OUT`.
    pub fn status(self) -> &'static str {
        if self.is_in() { "IN" } else { "OUT" }
    }

    /// Why it is OUT.
    pub fn why(self) -> Option<&'static str> {
        match self {
            Standing::In => None,
            Standing::Retracted => Some("retracted"),
            Standing::Unsupported => Some("unsupported"),
            Standing::Pending => Some("pending"),
        }
    }

    /// The standing with this number on disk.
    pub fn from_u8(number: u8) -> Option<Standing> {
        Standing::ALL.into_iter().find(|standing| *standing as u8 == number)
    }
}

/// Whether a source of this kind is ground: what the agent was told by those it works for.
pub fn is_ground(source_kind: &str) -> bool {
    matches!(source_kind, "system" | "user" | "operator")
}
