//! What there is in a space that a retraction can name.

use std::ops::ControlFlow;

use recant_proto::time::Instant;

use super::{Form, Space};
use crate::{
    justification::{
        covers::{Catalogue, Clock, ItemTimes, Window},
        graph::{Item, Justification, Node},
        listed::{self, ItemCode},
    },
    store::{Rows, StoreError},
    tables::{Table, damaged, justifications, nodes, said, written},
};

/// A space, read through its rows where it is not in memory.
#[derive(Debug)]
pub struct There<'a, R> {
    pub(super) rows: &'a R,
    pub(super) space: &'a Space,
}

impl<R: Rows> There<'_, R> {
    /// All observations of a source, with their times on the writers' clock, from the segments and the tail.
    fn said(&self, source: u32, mut visit: impl FnMut(Instant, Node)) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        let prefix = said::of_source(self.space.number(), source);
        self.rows.scan_under(Table::Said, &prefix, &mut |_, value| {
            outcome = said::observations(value, &mut visit);
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        outcome?;
        self.space.tail.said(source).iter().for_each(|(observed, node)| visit(*observed, *node));
        Ok(())
    }

    /// All that an agent wrote, from the segments and the tail.
    fn written(&self, agent: &str, run: Option<&str>) -> Result<Vec<ItemCode>, StoreError> {
        let (mut found, mut outcome) = (Vec::new(), Ok(()));
        let prefix = written::of_agent(self.space.number(), agent, run);
        self.rows.scan_under(Table::Written, &prefix, &mut |_, value| {
            outcome = written::items(value, &mut found);
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        outcome?;
        self.space.tail.written(agent, run, &mut found);
        Ok(found)
    }
}

impl<R: Rows> Catalogue for There<'_, R> {
    type Error = StoreError;

    fn times(&self, item: Item) -> Result<ItemTimes, StoreError> {
        let (observed, log_time_ms) = match item {
            Item::Node(node) => {
                let value = nodes::value(self.rows, self.space.number(), node)?;
                let head = nodes::Row::decode(&value)?.head;
                let head = head.ok_or_else(|| damaged(Table::Nodes, "an item has not arrived"))?;
                (head.observed, head.log_time_ms)
            }
            Item::Justification(justification) => {
                let value = justifications::bytes(self.rows, self.space.number(), justification)?;
                let head = justifications::Row::decode(&value)?.head;
                (head.observed, head.log_time_ms)
            }
        };
        Ok(ItemTimes { observed, log: Instant::from_log_ms(log_time_ms) })
    }

    fn justification(&self, id: &str) -> Result<Option<Justification>, StoreError> {
        let found = justifications::find(self.rows, self.space.number(), id)?;
        match found.filter(|found| found.number() >= self.space.row.justifications) {
            None => Ok(found),
            Some(beyond) => Err(damaged(Table::Ids, format!("there is no justification {}", beyond.number()))),
        }
    }

    fn has_arrived(&self, node: Node) -> Result<bool, StoreError> {
        self.space.has_arrived(self.rows, node)
    }

    fn of_source(&self, source: u32, window: &Window, found: &mut Vec<Item>) -> Result<(), StoreError> {
        let mut within = Vec::new();
        match &self.space.form {
            Form::Resident { listed, .. } => within.extend(listed.observations(source, window)),
            Form::Paged(_) => self.said(source, |observed, node| {
                if window.clock == Clock::Log || window.contains_instant(observed) {
                    within.push(node);
                }
            })?,
        }
        for node in within {
            if window.clock == Clock::Observed || window.is_whole() || window.contains(self.times(Item::Node(node))?) {
                found.push(Item::Node(node));
            }
        }
        Ok(())
    }

    fn of_agent(
        &self,
        agent: &str,
        run: Option<&str>,
        window: &Window,
        found: &mut Vec<Item>,
    ) -> Result<(), StoreError> {
        if let Form::Resident { listed, .. } = &self.space.form {
            return listed
                .written(agent, run)
                .into_iter()
                .try_for_each(|written| listed::within(written, window, self, found));
        }
        // Pages have no order to halve by: what arrived late stands last, and runs one after another.
        for code in self.written(agent, run)? {
            let item = Item::from(code);
            if window.is_whole() || window.contains(self.times(item)?) {
                found.push(item);
            }
        }
        Ok(())
    }
}
