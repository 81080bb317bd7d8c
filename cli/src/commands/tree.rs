//! Draws an explanation: the tree of reasons, alive and dead at a glance.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use recant_projections::query::{ExplainedNode, Explanation, NodeView, Reason};

use super::retract::action_line;
use crate::{
    escape,
    output::{self, BOLD, DIM, IN, OUT, Output, counted, styled},
};

const TEXT_COLUMNS_MAX: usize = 70;

/// A tree is drawn so deep; what is deeper is named, and can be asked for.
const DEPTH_MAX: usize = 24;

/// Draws it, with what rests on the node, the retractions that stand over it, and its history.
pub fn show(explanation: &Explanation, output: &mut Output) -> Result<()> {
    show_reasons(explanation, output)?;
    show_dependents(explanation, output)?;
    show_retractions(explanation, output)?;
    show_history(explanation, output)?;
    output.line(styled(DIM, format!("as of {}", explanation.position)))?;
    Ok(())
}

/// Draws the tree of reasons alone.
pub fn show_reasons(explanation: &Explanation, output: &mut Output) -> Result<()> {
    let nodes: HashMap<&str, &ExplainedNode> =
        explanation.nodes.iter().map(|node| (node.node.id.as_str(), node)).collect();
    let mut drawing = Drawing { nodes, shown: HashSet::new(), output };
    drawing.node(&explanation.id, "", "", 0)?;
    if explanation.truncated {
        output.line("… there is more below; --limit shows it")?;
    }
    Ok(())
}

struct Drawing<'a> {
    nodes: HashMap<&'a str, &'a ExplainedNode>,
    shown: HashSet<&'a str>,
    output: &'a mut Output,
}

impl<'a> Drawing<'a> {
    /// A node on its line, its text below it, and below that its reasons.
    fn node(&mut self, id: &str, first: &str, rest: &str, depth: usize) -> Result<()> {
        let Some((id, node)) = self.nodes.get_key_value(id).map(|(id, node)| (*id, *node)) else {
            return Ok(self.output.line(format!("{first}{} …", escape::line(id)))?);
        };
        let again = !self.shown.insert(id);
        let note = if again && !node.reasons.is_empty() { styled(DIM, "  (shown above)") } else { String::new() };
        self.output.line(format!("{first}{}{note}", node_line(&node.node)))?;
        if again {
            return Ok(());
        }
        let text_indent = if node.reasons.is_empty() { format!("{rest}  ") } else { format!("{rest}│ ") };
        if let Some(text) = &node.node.text {
            self.output.line(format!("{text_indent}{}", styled(DIM, quoted(text))))?;
        }
        for retraction in &node.covered_by {
            self.output
                .line(format!("{text_indent}{}", styled(OUT, format!("retracted by {}", escape::line(retraction)))))?;
        }
        if depth == DEPTH_MAX && !node.reasons.is_empty() {
            let more = format!("… deeper: recant explain {}", escape::line(id));
            return Ok(self.output.line(format!("{text_indent}{}", styled(DIM, more)))?);
        }
        let last = node.reasons.len();
        for (index, reason) in (1..).zip(&node.reasons) {
            let (branch, below) = branches(index == last);
            self.output.line(format!("{rest}{branch}{}", reason_line(reason)))?;
            self.premises(reason, &format!("{rest}{below}"), depth)?;
        }
        Ok(())
    }

    fn premises(&mut self, reason: &Reason, rest: &str, depth: usize) -> Result<()> {
        let last = reason.premises.len();
        for (index, premise) in (1..).zip(&reason.premises) {
            let (branch, below) = branches(index == last);
            self.node(premise, &format!("{rest}{branch}"), &format!("{rest}{below}"), depth + 1)?;
        }
        Ok(())
    }
}

fn branches(is_last: bool) -> (&'static str, &'static str) {
    if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") }
}

/// A node on one line: status, kind, id, and what there is to say beside it.
pub fn node_line(node: &NodeView) -> String {
    let sign = if node.status == "IN" { styled(IN, "✓") } else { styled(OUT, "✗") };
    let kind = node.kind.unwrap_or("not arrived:");
    let mut line =
        format!("{sign} {} {kind} {}", output::status(node.status, node.why), styled(BOLD, escape::line(&node.id)));
    if !node.action_type.is_empty() {
        line += &format!("  {}", action_line(&node.action_type, &node.state, &node.amount, &node.currency));
    }
    if !node.source.is_empty() {
        line += &format!("  from {}", escape::line(&node.source));
    }
    if !node.subject.is_empty() {
        line += &format!("  about {}", escape::line(&node.subject));
    }
    line
}

fn quoted(text: &str) -> String {
    format!("“{}”", escape::clipped(text, TEXT_COLUMNS_MAX))
}

fn reason_line(reason: &Reason) -> String {
    let sign = if reason.holds { styled(IN, "✓ because") } else { styled(OUT, "✗ no longer because") };
    let sign = if reason.waits_for.is_empty() { sign } else { styled(OUT, "… waiting for what has not arrived") };
    let by = if reason.agent.is_empty() { String::new() } else { format!(" by {}", escape::line(&reason.agent)) };
    let rule = reason.rule.as_ref().map(|rule| escape::line(&rule.name)).filter(|name| !name.is_empty());
    let rule = rule.map(|name| format!(", rule {name}")).unwrap_or_default();
    let covered: String = reason
        .covered_by
        .iter()
        .map(|retraction| styled(OUT, format!("  retracted by {}", escape::line(retraction))))
        .collect();
    format!("{sign}{}{covered}", styled(DIM, format!("  [{}{by}{rule}]", escape::line(&reason.id))))
}

fn show_dependents(explanation: &Explanation, output: &mut Output) -> Result<()> {
    if explanation.rests_on_it.is_empty() {
        return Ok(());
    }
    let total = explanation.rests_on_it_total;
    output.line(format!("Rests on it: {}", counted(total as u64, "node")))?;
    for node in &explanation.rests_on_it {
        output.line(format!("  {}", node_line(node)))?;
    }
    if total > explanation.rests_on_it.len() {
        output.line(format!("  and {} more", total - explanation.rests_on_it.len()))?;
    }
    Ok(())
}

fn show_retractions(explanation: &Explanation, output: &mut Output) -> Result<()> {
    if !explanation.retractions.is_empty() {
        output.line("Retractions that stand over it:")?;
    }
    for retraction in &explanation.retractions {
        let by = if retraction.by.is_empty() { String::new() } else { format!(" by {}", escape::line(&retraction.by)) };
        let reason = if retraction.reason.is_empty() {
            String::new()
        } else {
            format!(": {}", escape::line(&retraction.reason))
        };
        let when = retraction.recorded_at.as_deref().unwrap_or_default();
        output.line(format!("  {} at {when}{by}{reason}", escape::line(&retraction.id)))?;
    }
    Ok(())
}

fn show_history(explanation: &Explanation, output: &mut Output) -> Result<()> {
    output.line("History:")?;
    for entry in &explanation.history {
        let cause = match (&entry.event_type, &entry.retraction, &entry.event) {
            (Some(kind), Some(retraction), _) => format!("  {kind} {}", escape::line(retraction)),
            (Some(kind), None, Some(event)) => format!("  {kind} {}", escape::line(event)),
            _ => String::new(),
        };
        output.line(format!(
            "  {} {}  {}{cause}",
            entry.time,
            entry.position,
            output::status(entry.status, entry.why)
        ))?;
    }
    Ok(())
}
