//! What a session was shown: the premises of whatever it writes next.
//!
//! A model that a page has misled would not name that page as its reason. So nobody is asked: a node whose content was shown is a
//! premise from then on, and naming premises can only add to them. Bounded by what one justification can hold; a session that was shown
//! more cannot write until a new one is begun, since a reason that left something out would be wrong without anybody noticing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use recant_proto::{
    reject::{Code, Violation},
    validate::DEFAULT_LIMITS,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::{Problem, Sort};

/// So many spaces one session can be shown something of.
const SPACES_MAX: usize = 8;

/// Why a premise was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TakenBecause {
    /// The call named it.
    Named,
    /// The session was shown it.
    Shown,
}

/// A premise that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Premise {
    /// The node.
    pub id: String,
    /// Why it was taken.
    pub because: TakenBecause,
}

/// What a session was shown, by space: ids are unique within one.
#[derive(Debug, Default)]
pub struct ReadSet(Mutex<BTreeMap<String, Shown>>);

/// What was shown of one space.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    nodes: BTreeSet<String>,
    is_more_than_fits: bool,
}

impl ReadSet {
    /// The content of these nodes is shown.
    pub fn show(&self, space: &str, ids: impl IntoIterator<Item = String>) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ids = ids.into_iter().peekable();
        if ids.peek().is_none() {
            return;
        }
        if shown.len() >= SPACES_MAX && !shown.contains_key(space) {
            // Nothing can be written in a space that is not noted.
            return;
        }
        let of_space = shown.entry(space.to_owned()).or_default();
        for id in ids {
            if of_space.nodes.len() < premises_max() {
                of_space.nodes.insert(id);
            } else if !of_space.nodes.contains(&id) {
                of_space.is_more_than_fits = true;
            }
        }
    }

    /// What was shown of a space, to be taken along to where the space is.
    pub fn of_space(&self, space: &str) -> Shown {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match shown.get(space) {
            Some(of_space) => of_space.clone(),
            // Nothing can be written in a space that is not noted.
            None => Shown { is_more_than_fits: shown.len() >= SPACES_MAX, ..Shown::default() },
        }
    }

    /// What was shown of a space there.
    pub fn take(&self, space: &str, there: Shown) {
        self.show(space, there.nodes);
        if there.is_more_than_fits {
            let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // One space too many stops writing there by itself.
            if shown.len() < SPACES_MAX || shown.contains_key(space) {
                shown.entry(space.to_owned()).or_default().is_more_than_fits = true;
            }
        }
    }

    /// The premises of what is written about a node, the named ones first. A node is no reason for itself.
    pub fn premises(&self, space: &str, head: &str, named: &[String]) -> Result<Vec<Premise>, Problem> {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_space = shown.get(space);
        let noted_elsewhere_only = of_space.is_none() && shown.len() >= SPACES_MAX;
        if noted_elsewhere_only || of_space.is_some_and(|shown| shown.is_more_than_fits) {
            return Err(too_much());
        }
        let mut taken = Vec::new();
        let mut seen = BTreeSet::from([head]);
        let shown_ids = of_space.into_iter().flat_map(|shown| &shown.nodes);
        let named = named.iter().map(|id| (id, TakenBecause::Named));
        for (id, because) in named.chain(shown_ids.map(|id| (id, TakenBecause::Shown))) {
            if seen.insert(id.as_str()) {
                taken.push(Premise { id: id.clone(), because });
            }
        }
        match taken.len() {
            0 => Err(nothing_shown()),
            number if number > premises_max() => Err(too_much()),
            _ => Ok(taken),
        }
    }
}

fn premises_max() -> usize {
    DEFAULT_LIMITS.max_premises as usize
}

fn nothing_shown() -> Problem {
    let detail = "this session was shown nothing that could be the reason: remember what a source said, or recall it, and derive from that";
    Problem::refused(Sort::No, &Violation::new(Code::NoPremises, detail))
}

fn too_much() -> Problem {
    let detail = format!(
        "this session was shown more than the {} nodes that one reason can hold; begin a new session, and recall in it only what is needed",
        premises_max()
    );
    Problem::refused(Sort::No, &Violation::new(Code::TooManyPremises, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(premises: &[Premise]) -> Vec<(&str, TakenBecause)> {
        premises.iter().map(|premise| (premise.id.as_str(), premise.because)).collect()
    }

    fn named(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn naming_premises_adds_and_never_hides() {
        let read_set = ReadSet::default();
        read_set.show("acme", named(&["page", "invoice"]));
        let taken = read_set.premises("acme", "b", &named(&["invoice", "call"])).unwrap();
        let expected = [("invoice", TakenBecause::Named), ("call", TakenBecause::Named), ("page", TakenBecause::Shown)];
        assert_eq!(ids(&taken), expected);
    }

    #[test]
    fn a_node_is_no_reason_for_itself_and_spaces_are_apart() {
        let read_set = ReadSet::default();
        read_set.show("acme", named(&["b", "page"]));
        assert_eq!(ids(&read_set.premises("acme", "b", &[]).unwrap()), [("page", TakenBecause::Shown)]);
        assert_eq!(read_set.premises("other", "b", &[]).unwrap_err().code, "no_premises");
    }

    #[test]
    fn what_was_shown_and_does_not_fit_stops_writing_instead_of_being_left_out() {
        let read_set = ReadSet::default();
        let many: Vec<String> = (0..premises_max()).map(|number| format!("n{number}")).collect();
        read_set.show("acme", many.clone());
        assert_eq!(read_set.premises("acme", "b", &[]).unwrap().len(), premises_max());
        assert_eq!(read_set.premises("acme", "b", &named(&["more"])).unwrap_err().code, "too_many_premises");
        read_set.show("acme", named(&["one more"]));
        assert_eq!(read_set.premises("acme", "b", &[]).unwrap_err().code, "too_many_premises");
    }

    #[test]
    fn what_was_shown_elsewhere_counts_here_and_the_other_way_round() {
        let (here, there) = (ReadSet::default(), ReadSet::default());
        here.show("acme", named(&["page"]));
        there.take("acme", here.of_space("acme"));
        there.show("acme", named(&["invoice"]));
        here.take("acme", there.of_space("acme"));
        assert_eq!(here.of_space("acme"), there.of_space("acme"));
        assert_eq!(here.premises("acme", "b", &[]).unwrap().len(), 2);
        // What stops writing here stops it there.
        let many = (0..=premises_max()).map(|number| format!("n{number}"));
        here.show("acme", many);
        there.take("acme", here.of_space("acme"));
        assert_eq!(there.premises("acme", "b", &[]).unwrap_err().code, "too_many_premises");
        (1..SPACES_MAX).for_each(|number| here.show(&format!("s{number}"), named(&["page"])));
        let last = ReadSet::default();
        last.take("one more", here.of_space("one more"));
        assert_eq!(last.premises("one more", "b", &named(&["call"])).unwrap_err().code, "too_many_premises");
    }

    #[test]
    fn a_space_too_many_stops_writing_there() {
        let read_set = ReadSet::default();
        for number in 0..=SPACES_MAX {
            read_set.show(&format!("s{number}"), named(&["page"]));
        }
        let last = format!("s{SPACES_MAX}");
        assert_eq!(read_set.premises(&last, "b", &named(&["call"])).unwrap_err().code, "too_many_premises");
    }
}
