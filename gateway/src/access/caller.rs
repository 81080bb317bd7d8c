//! A caller, its rights in each space, and the one check.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use recant_proto::id::CONTROL_SPACE;
use serde::{Deserialize, Serialize};

/// What a caller may do in a space. None includes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Ask, and follow the change stream.
    Read,
    /// Append what agents say: sources, observations, reasons, actions.
    Write,
    /// Retract and reinstate.
    Retract,
    /// Vouch for sources, review actions, set policies, speak in another's name, handle what was rejected.
    Operate,
}

impl Right {
    /// Every right.
    pub const ALL: [Right; 4] = [Right::Read, Right::Write, Right::Retract, Right::Operate];

    /// As written in settings and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Right::Read => "read",
            Right::Write => "write",
            Right::Retract => "retract",
            Right::Operate => "operate",
        }
    }
}

/// In settings, this name grants in every space, also in those that do not exist yet; only not in the log's own.
const EVERY_SPACE: &str = "*";

/// Rights by the exact name of a space, or by `*`. A name is never a prefix or a pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Grants(BTreeMap<String, Vec<Right>>);

impl Grants {
    /// Every right in every space, the log's own included.
    pub fn all() -> Grants {
        Grants([EVERY_SPACE, CONTROL_SPACE].map(|space| (space.to_owned(), Right::ALL.to_vec())).into())
    }

    /// Adds rights in a space.
    pub fn grant(mut self, space: &str, rights: &[Right]) -> Grants {
        let granted = self.0.entry(space.to_owned()).or_default();
        granted.extend(rights.iter().filter(|right| !granted.contains(right)).copied().collect::<Vec<_>>());
        self
    }

    /// Adds all that others grant.
    pub fn and(self, others: &Grants) -> Grants {
        others.0.iter().fold(self, |grants, (space, rights)| grants.grant(space, rights))
    }

    /// Whether nothing is granted anywhere.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(Vec::is_empty)
    }

    fn of_space(&self, space: &str) -> impl Iterator<Item = Right> {
        let everywhere = if space == CONTROL_SPACE { None } else { self.0.get(EVERY_SPACE) };
        self.0.get(space).into_iter().chain(everywhere).flatten().copied()
    }

    fn everywhere(&self, right: Right) -> bool {
        self.0.get(EVERY_SPACE).is_some_and(|rights| rights.contains(&right))
    }
}

/// Why a caller may not. Neither answer depends on what a space holds, or on whether it exists.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// It has no right in the space at all.
    #[error("there is no such space")]
    Hidden,
    /// It has rights in the space, and not this one.
    #[error("this needs the right to {} in the space {space:?}", right.as_str())]
    Lacking {
        /// Where.
        space: String,
        /// What it lacks.
        right: Right,
    },
    /// It may not speak in the name of another.
    #[error("{caller:?} cannot do this in the name of {other:?}; leave the name out, or have the right to operate")]
    InAnothersName {
        /// The caller.
        caller: String,
        /// Whose name it gave.
        other: String,
    },
}

/// Who calls. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller(Arc<Known>);

#[derive(Debug, PartialEq, Eq)]
struct Known {
    /// Absent for whoever calls from this machine, where no tokens are asked for.
    name: Option<String>,
    grants: Grants,
    /// Until when its token counts, if it ever ends.
    valid_until: Option<Timestamp>,
}

impl Caller {
    /// Someone whom a token names.
    pub fn named(name: impl Into<String>, grants: Grants) -> Caller {
        Caller(Arc::new(Known { name: Some(name.into()), grants, valid_until: None }))
    }

    /// The same, until a time.
    pub fn until(self, valid_until: Option<Timestamp>) -> Caller {
        Caller(Arc::new(Known { name: self.0.name.clone(), grants: self.0.grants.clone(), valid_until }))
    }

    /// Whoever runs programs on this machine: everything is allowed, and nobody is named.
    pub fn of_this_machine() -> Caller {
        Caller(Arc::new(Known { name: None, grants: Grants::all(), valid_until: None }))
    }

    /// Until when its token counts, if it ever ends.
    pub fn valid_until(&self) -> Option<Timestamp> {
        self.0.valid_until
    }

    /// Whom the token names.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// Whether it may do something in a space.
    pub fn may(&self, right: Right, space: &str) -> bool {
        self.0.grants.of_space(space).any(|granted| granted == right)
    }

    /// Whether it may do something in every space: asked for what is of no one space, such as measures.
    pub fn may_everywhere(&self, right: Right) -> bool {
        self.0.grants.everywhere(right)
    }

    /// The one check. It is made before anything is looked up.
    pub fn check(&self, space: &str, right: Right) -> Result<(), Denied> {
        if self.may(right, space) {
            return Ok(());
        }
        match self.0.grants.of_space(space).next() {
            Some(_) => Err(Denied::Lacking { space: space.to_owned(), right }),
            None => Err(Denied::Hidden),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planner() -> Caller {
        Caller::named("planner", Grants::default().grant("acme", &[Right::Read, Right::Write]))
    }

    #[test]
    fn a_space_without_any_right_is_as_one_that_does_not_exist() {
        for right in Right::ALL {
            let other = planner().check("other", right);
            assert_eq!(other, planner().check("no such space", right));
            assert_eq!(other, Err(Denied::Hidden));
            // Not the name, nor anything else that the caller did not say itself.
            assert_eq!(Denied::Hidden.to_string(), "there is no such space");
        }
    }

    #[test]
    fn a_right_that_is_lacking_is_named_where_another_is_held() {
        assert_eq!(planner().check("acme", Right::Write), Ok(()));
        let denied = planner().check("acme", Right::Retract);
        assert_eq!(denied, Err(Denied::Lacking { space: "acme".to_owned(), right: Right::Retract }));
    }

    #[test]
    fn a_name_is_no_prefix_and_no_pattern() {
        for space in ["acm", "acme2", "ACME", "acme ", "*", "", "a*"] {
            assert_eq!(planner().check(space, Right::Read), Err(Denied::Hidden), "{space:?}");
        }
        let prefix = Caller::named("prefix", Grants::default().grant("ac*", &[Right::Read]));
        assert_eq!(prefix.check("acme", Right::Read), Err(Denied::Hidden));
    }

    #[test]
    fn every_space_is_not_the_logs_own() {
        let everywhere = Caller::named("operator", Grants::default().grant("*", &Right::ALL));
        assert_eq!(everywhere.check("anything", Right::Operate), Ok(()));
        assert_eq!(everywhere.check(CONTROL_SPACE, Right::Read), Err(Denied::Hidden));
        assert_eq!(Caller::of_this_machine().check(CONTROL_SPACE, Right::Operate), Ok(()));
    }

    #[test]
    fn no_right_includes_another() {
        for held in Right::ALL {
            let caller = Caller::named("one", Grants::default().grant("acme", &[held]));
            let may: Vec<Right> = Right::ALL.into_iter().filter(|right| caller.may(*right, "acme")).collect();
            assert_eq!(may, [held]);
        }
    }
}
