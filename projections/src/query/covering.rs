//! Which retractions stood over an item at a moment: found from the rows, one predicate for each kind of target.

use recant_proto::v1::target::What;

use super::{Moment, RetractionView};
use crate::{
    fold::space::scan_space,
    justification::covers::{ItemTimes, Window},
    store::{Store, StoreError},
    tables::{SpaceNumber, Table, retractions},
};

/// What a target can name an item by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Described<'a> {
    /// The id of a node, or empty.
    pub node: &'a str,
    /// The id of a justification, or empty.
    pub justification: &'a str,
    /// The source of an observation, or empty.
    pub source: &'a str,
    /// Who wrote an observation or justification, or empty.
    pub agent: &'a str,
    /// In which run.
    pub run: &'a str,
    /// When.
    pub times: ItemTimes,
}

/// The retractions of a space that stood at a moment.
pub(super) struct Standing {
    rows: Vec<retractions::Row>,
}

impl Standing {
    /// Reads them.
    pub fn at(store: &impl Store, space: SpaceNumber, moment: &Moment) -> Result<Standing, StoreError> {
        let mut rows = Vec::new();
        scan_space(store, Table::Retractions, space, |_, value| {
            rows.extend(retractions::if_stood_at(value, moment.position.offset)?);
            Ok(())
        })?;
        Ok(Standing { rows })
    }

    /// Whether none stood: nothing is covered then.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The ids of those that cover an item.
    pub fn covering(&self, item: &Described<'_>) -> Vec<String> {
        self.rows
            .iter()
            .filter(|row| row.targets.iter().any(|target| covers(target, item)))
            .map(|row| row.id.clone())
            .collect()
    }

    /// The ids of those that name a source, whole or within a window.
    pub fn naming_source(&self, source: &str) -> Vec<String> {
        let names = |target: &recant_proto::v1::Target| matches!(&target.what, Some(What::Source(id)) if id == source);
        self.rows.iter().filter(|row| row.targets.iter().any(names)).map(|row| row.id.clone()).collect()
    }

    /// Those with some of these ids.
    pub fn views(&self, ids: &std::collections::BTreeSet<String>, moment: &Moment) -> Vec<RetractionView> {
        self.rows.iter().filter(|row| ids.contains(&row.id)).map(|row| RetractionView::of(row, moment)).collect()
    }
}

fn covers(target: &recant_proto::v1::Target, item: &Described<'_>) -> bool {
    let same = |id: &str, of_item: &str| !of_item.is_empty() && id == of_item;
    let named = match &target.what {
        Some(What::Source(id)) => same(id, item.source),
        Some(What::Node(id)) => same(id, item.node),
        Some(What::Justification(id)) => same(id, item.justification),
        Some(What::Agent(agent)) => same(&agent.agent, item.agent) && (agent.run.is_empty() || agent.run == item.run),
        None => false,
    };
    // A window that was accepted can be read.
    named && Window::of(target).is_ok_and(|window| window.contains(item.times))
}
