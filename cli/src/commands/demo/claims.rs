//! What the story claims, checked against what the engine did.

use std::{collections::BTreeSet, fmt};

use recant_projections::query::{Explanation, NodeView};
use recant_proto::v1::{ByKind, Change};
use serde::Serialize;
use serde_json::Value;

use super::story::{self, Extent};
use crate::{
    commands::retract::{Decided, change_json, change_line},
    output::counted,
};

/// Everything that was seen while the story was told.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// How many events of the story were accepted, and the ids of those that were not.
    pub accepted: usize,
    pub not_accepted: Vec<String>,
    /// All nodes before the retraction, after it, as of before it when asked after it, and after the reinstatement.
    pub before: Vec<NodeView>,
    pub after: Vec<NodeView>,
    pub as_of_before: Vec<NodeView>,
    pub after_reinstatement: Vec<NodeView>,
    /// The state digest at the same moments.
    pub digest_before: String,
    pub digest_retracted: String,
    pub digest_reinstated: String,
    /// Where to follow from, just before the retraction.
    pub cursor_before: String,
    pub preview: Decided,
    pub committed: Decided,
    pub reinstated: Decided,
    /// Why the address is believed while the portal is retracted.
    pub address: Option<Explanation>,
    /// What another process printed of the stream: as JSON lines, and of the actions alone for people.
    pub watched: String,
    pub watched_deeds: String,
    pub overlap: Overlap,
    /// What `recant what-if` and `recant verify` said in JSON.
    pub what_if: String,
    pub verified: String,
    /// What an audit of the closed directory found wrong, and whether `recant doctor` was content with it.
    pub faults: Vec<String>,
    pub doctor_is_content: bool,
}

/// Two retractions that overlap, and the first of them lifted.
#[derive(Debug, Clone, Default)]
pub struct Overlap {
    pub first: Decided,
    pub second: Decided,
    pub lifted: Decided,
    pub after: Vec<NodeView>,
}

/// A claim, and whether it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// What is claimed.
    pub claim: String,
    /// Whether it holds.
    pub ok: bool,
    /// What the engine says.
    pub found: String,
}

/// A sentence and what was found, as an error if that is something else.
type Found = Result<String, String>;

/// Every claim of the story.
pub fn check(seen: &Seen) -> Vec<Claim> {
    let claim = |claim: String, found: Found| {
        let ok = found.is_ok();
        let (Ok(found) | Err(found)) = found;
        Claim { claim, ok, found }
    };
    vec![
        claim("every event of the story was accepted".to_owned(), accepted(seen)),
        claim(format!("the preview: {}", story::FALLS), extent(&seen.preview)),
        claim("the commit did what the preview said, record by record".to_owned(), as_previewed(seen)),
        claim("nothing else moved".to_owned(), moved(seen)),
        claim("the address is IN, and the contract is why".to_owned(), address(seen)),
        claim("so are the deed that rests on it, and what the portal said before".to_owned(), spared(seen)),
        claim("another process was told the whole cascade, in order".to_owned(), told(seen)),
        claim("as of before the retraction, everything is as it was then".to_owned(), as_of(seen)),
        claim("the reinstatement turned exactly the same nodes IN".to_owned(), back(seen)),
        claim("the state digest is the one from before".to_owned(), digests(seen)),
        claim("reinstating one retraction does not lift the other".to_owned(), overlap(&seen.overlap)),
        claim("retracted that evening, the 6,000 USD would have had no reason to go".to_owned(), what_if(seen)),
        claim("the log folded again makes the same state and the same changes".to_owned(), verified(seen)),
        claim("recant doctor finds nothing wrong".to_owned(), sound(seen)),
    ]
}

/// `found` if it is what was expected.
fn same<T: PartialEq>(expected: T, found: T, text: String) -> Found {
    if expected == found { Ok(text) } else { Err(text) }
}

fn accepted(seen: &Seen) -> Found {
    let text = format!("{} accepted, others: [{}]", seen.accepted, seen.not_accepted.join(", "));
    same((true, true), (seen.accepted > 0, seen.not_accepted.is_empty()), text)
}

/// What the summary counts, and what is counted anew from the changes.
fn extent(decided: &Decided) -> Found {
    let summed = decided.records.first().and_then(|record| record.summary).unwrap_or_default();
    let by_kind = summed.by_kind.unwrap_or_default();
    let of_kind = |kind: &str| changes(decided).iter().filter(|change| change.kind == kind).count() as u32;
    let counted = Extent {
        sources: decided.sources,
        observations: of_kind("observation"),
        beliefs: of_kind("belief"),
        plans: of_kind("plan"),
        actions: of_kind("action"),
    };
    let summary = Extent::of(summed.sources, &by_kind);
    if summary != counted {
        return Err(format!("its summary says {summary}, and its changes are {counted}"));
    }
    same(story::FALLS, counted, counted.to_string())
}

fn as_previewed(seen: &Seen) -> Found {
    // A preview is made before the commit: the log's time alone may differ.
    let timeless = |decided: &Decided| -> Vec<Value> {
        let timeless = |change: &Change| change_json(&Change { time: String::new(), ..change.clone() });
        decided.records.iter().map(timeless).collect()
    };
    if seen.committed.records.is_empty() {
        return Err("nothing was committed".to_owned());
    }
    records(&timeless(&seen.preview), &timeless(&seen.committed))
}

/// Whether two sequences of records are the same.
fn records(expected: &[Value], found: &[Value]) -> Found {
    if let Some((expected, found)) = expected.iter().zip(found).find(|(expected, found)| expected != found) {
        return Err(format!("{found} where {expected} was expected"));
    }
    same(expected.len(), found.len(), counted(found.len() as u64, "record"))
}

/// The nodes whose status differs between two lists are those that the cascade names.
fn moved(seen: &Seen) -> Found {
    let status = |node: &NodeView| (node.id.clone(), node.status, node.why);
    let before: BTreeSet<_> = seen.before.iter().map(status).collect();
    let after: BTreeSet<_> = seen.after.iter().map(status).collect();
    let moved: BTreeSet<&str> = before.symmetric_difference(&after).map(|(id, ..)| id.as_str()).collect();
    let named: BTreeSet<&str> = changes(&seen.committed).iter().map(|change| change.node.as_str()).collect();
    let stayed = counted(before.intersection(&after).count() as u64, "node");
    same(named, moved.clone(), format!("{} moved, {stayed} did not", list(moved)))
}

fn address(seen: &Seen) -> Found {
    let explained = seen.address.as_ref().and_then(|explanation| explanation.nodes.first());
    let Some(address) = explained else { return Err(format!("{} is not there", story::ADDRESS)) };
    let alive: Vec<&str> = address
        .reasons
        .iter()
        .filter(|reason| reason.holds)
        .flat_map(|reason| &reason.premises)
        .map(String::as_str)
        .collect();
    let text = format!("{} {}, by {}", address.node.id, address.node.status, list(&alive));
    same((vec!["contract"], 2, "IN"), (alive, address.reasons.len(), address.node.status), text)
}

/// What stays IN beside the address.
fn spared(seen: &Seen) -> Found {
    let statuses = [story::SPARED_ACTION, story::OLD_OBSERVATION].map(|id| (id, status_of(&seen.after, id)));
    let text: Vec<String> = statuses.iter().map(|(id, status)| format!("{id} {status}")).collect();
    same(true, statuses.iter().all(|(_, status)| *status == "IN"), list(text))
}

fn told(seen: &Seen) -> Found {
    let read: Result<Vec<Value>, _> = seen.watched.lines().map(serde_json::from_str).collect();
    let read = read.map_err(|error| format!("a line of another process is not JSON: {error}"))?;
    let committed: Vec<Value> = seen.committed.records.iter().map(change_json).collect();
    let index_and_total = |record: &Value| {
        let cascade = record.get("cascade")?;
        Some((cascade.get("index")?.as_u64()?, cascade.get("total")?.as_u64()?))
    };
    let total = read.len().saturating_sub(1) as u64;
    let whole = (0..).zip(&read).all(|(index, record)| index_and_total(record) == Some((index, total)));
    if !whole {
        return Err(format!("{} of another process are no whole cascade", counted(read.len() as u64, "line")));
    }
    let deeds = changes(&seen.committed).iter().filter(|change| change.kind == "action").map(change_line);
    let deeds: Vec<String> = deeds.collect();
    let shown: Vec<String> = seen.watched_deeds.lines().map(|line| line.trim_start().to_owned()).collect();
    if deeds != shown {
        return Err(format!("of the actions, it was told {}", list(shown)));
    }
    records(&committed, &read)
}

fn as_of(seen: &Seen) -> Found {
    let differing = differing(&seen.before, &seen.as_of_before);
    let text = format!("{}; otherwise: {}", counted(seen.as_of_before.len() as u64, "node"), list(&differing));
    same(true, differing.is_empty() && !seen.before.is_empty(), text)
}

fn back(seen: &Seen) -> Found {
    let moved = |decided: &Decided, to: &str| -> BTreeSet<String> {
        changes(decided).iter().filter(|change| change.to == to).map(|change| change.node.clone()).collect()
    };
    let (fell, rose) = (moved(&seen.committed, "OUT"), moved(&seen.reinstated, "IN"));
    let differing = differing(&seen.before, &seen.after_reinstatement);
    if !differing.is_empty() {
        return Err(format!("other than before: {}", list(&differing)));
    }
    same(fell, rose.clone(), format!("{} turned IN", list(rose)))
}

fn digests(seen: &Seen) -> Found {
    let text = format!("{}, then {}, then {}", seen.digest_before, seen.digest_retracted, seen.digest_reinstated);
    let expected = (true, false, false);
    let found = (
        seen.digest_before == seen.digest_reinstated,
        seen.digest_before == seen.digest_retracted,
        seen.digest_before.is_empty(),
    );
    same(expected, found, text)
}

/// The second retraction finds everything OUT already. With the first lifted, only what it alone covered is IN again.
fn overlap(overlap: &Overlap) -> Found {
    let names =
        |decided: &Decided| -> Vec<String> { changes(decided).iter().map(|change| change.node.clone()).collect() };
    let rose = names(&overlap.lifted);
    let still_out: Vec<String> =
        names(&overlap.first).into_iter().filter(|node| status_of(&overlap.after, node) == "OUT").collect();
    let expected: Vec<String> = names(&overlap.first).into_iter().filter(|node| node != story::PROFILE_PAGE).collect();
    let text = format!("{} turned IN; still OUT: {}", list(&rose), list(&still_out));
    let found =
        (names(&overlap.second), rose, still_out.clone(), still_out.contains(&story::PENDING_PAYMENT.to_owned()));
    same((Vec::new(), vec![story::PROFILE_PAGE.to_owned()], expected, true), found, text)
}

/// The deposit is among what might not have happened, and is all the money that was done.
fn what_if(seen: &Seen) -> Found {
    let told: Value = serde_json::from_str(&seen.what_if).map_err(|error| error.to_string())?;
    let doubtful = told["might_not_have_happened"].as_array().into_iter().flatten();
    let deeds: Vec<&str> =
        doubtful.filter(|event| event["kind"] == "action").filter_map(|event| event["node"].as_str()).collect();
    let done = told["money"][0]["done"].as_str().unwrap_or_default();
    let text = format!("{} might not have happened; {done} had been done", list(&deeds));
    same((true, story::PAID_AMOUNT), (deeds.contains(&story::PAID), done), text)
}

fn verified(seen: &Seen) -> Found {
    let told: Value = serde_json::from_str(&seen.verified).map_err(|error| error.to_string())?;
    let compared = |what: &str| told["partitions"][0][what].as_u64().unwrap_or_default();
    let text = format!(
        "{} and {}; otherwise: {}",
        counted(compared("events"), "event"),
        counted(compared("changes"), "change record"),
        told["partitions"][0]["differences"]
    );
    same((true, true), (told["ok"] == true, compared("changes") > 0), text)
}

fn sound(seen: &Seen) -> Found {
    let text = if seen.faults.is_empty() { "nothing".to_owned() } else { seen.faults.join("; ") };
    same((true, true), (seen.faults.is_empty(), seen.doctor_is_content), text)
}

/// The records of a cascade without its summary.
fn changes(decided: &Decided) -> &[Change] {
    decided.records.get(1..).unwrap_or_default()
}

fn status_of<'a>(nodes: &'a [NodeView], id: &str) -> &'a str {
    nodes.iter().find(|node| node.id == id).map_or("is not there", |node| node.status)
}

/// The ids of nodes that are in one list and not, or not so, in the other.
fn differing(one: &[NodeView], other: &[NodeView]) -> BTreeSet<String> {
    let not_in = |nodes: &[NodeView], node: &NodeView| !nodes.contains(node);
    let missing = one.iter().filter(|node| not_in(other, node));
    let added = other.iter().filter(|node| not_in(one, node));
    missing.chain(added).map(|node| node.id.clone()).collect()
}

fn list<T: AsRef<str>>(ids: impl IntoIterator<Item = T>) -> String {
    let ids: Vec<String> = ids.into_iter().map(|id| id.as_ref().to_owned()).collect();
    if ids.is_empty() { "nothing".to_owned() } else { ids.join(", ") }
}

impl Extent {
    fn of(sources: Option<u32>, by_kind: &ByKind) -> Extent {
        Extent {
            sources: sources.unwrap_or_default(),
            observations: by_kind.observation.unwrap_or_default(),
            beliefs: by_kind.belief.unwrap_or_default(),
            plans: by_kind.plan.unwrap_or_default(),
            actions: by_kind.action.unwrap_or_default(),
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.sources, "source"),
            (self.observations, "observation"),
            (self.beliefs, "belief"),
            (self.plans, "plan"),
            (self.actions, "action"),
        ];
        let parts: Vec<String> = parts.iter().map(|(count, one)| counted(u64::from(*count), one)).collect();
        f.write_str(&parts.join(", "))
    }
}
