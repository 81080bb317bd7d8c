//! Cascades between a begin and an end, as Server-Sent Events.
//!
//! | event | id | data |
//! |---|---|---|
//! | `begin` | | `{"cascade":{"id","total"},"cause","position","time"}`, and `summary` where the whole cascade is told |
//! | `change` | its cursor | a change, in the shape that every command and endpoint shares |
//! | `end` | the cursor behind the whole cascade | `{"cascade":{"id","total"},"cursor"}` |
//! | `digest` | its cursor | a digest |
//! | `caught-up`, `heartbeat` | the cursor up to which all is told | `{"cursor"}` |
//! | `behind` | | the follower was slow, and is told the rest from the log; nothing is left out |
//! | `problem` | | why there is no stream: a problem, such as `history_gone` with `earliest` |
//! | `closing` | | the server ends; `retry` says when to come back |
//!
//! A begin has no id: whoever breaks off right after it hears it again. An end has one of its own, so that whoever breaks off right before
//! it is told it. A cascade of which a filter leaves everything out has neither.

use std::fmt::Write as _;

use recant_proto::{
    position::{ChangeId, Position},
    v1::Change,
    wire,
};
use serde_json::{Value, json};

use super::{Selection, Streamed};
use crate::problem::Problem;

/// Writes the frames of one follower.
pub struct Framer {
    selection: Selection,
    /// The cascade that has begun, by its id.
    begun: Option<String>,
}

impl Framer {
    /// For a follower who wants to hear of these.
    pub fn new(selection: Selection) -> Framer {
        Framer { selection, begun: None }
    }

    /// Writes what is told of a record, in JSON; nothing, if that is not wanted.
    pub fn record(&mut self, record: &Streamed, json: &str, frames: &mut String) {
        let change = &record.change;
        let is_wanted = self.selection.lets_through(change);
        if change.digest.is_some() {
            if is_wanted {
                frame(frames, "digest", cursor_of(change).as_deref(), json);
            }
            return;
        }
        if is_wanted && self.begun.as_deref() != Some(cascade_of(change)) {
            frame(frames, "begin", None, &begin(change).to_string());
            self.begun = Some(cascade_of(change).to_owned());
        }
        if is_wanted && change.summary.is_none() {
            frame(frames, "change", cursor_of(change).as_deref(), json);
        }
        if is_last(change) && self.begun.take().is_some() {
            self.end(change, frames);
        }
    }

    /// Writes the end of the cascade whose last change this is.
    pub fn end(&self, last: &Change, frames: &mut String) {
        let Some(cursor) = cursor_behind(last) else { return };
        let data = json!({ "cascade": { "id": cascade_of(last), "total": total_of(last) }, "cursor": cursor });
        frame(frames, "end", Some(&cursor), &data.to_string());
    }
}

/// Writes that there is nothing more for now, and where to go on.
pub fn place(frames: &mut String, event: &str, cursor: &str) {
    frame(frames, event, Some(cursor), &json!({ "cursor": cursor }).to_string());
}

/// Writes that the follower has fallen behind.
pub fn behind(frames: &mut String) {
    let detail = "what is kept in memory has passed you; the rest comes from the log, and nothing is left out";
    frame(frames, "behind", None, &json!({ "detail": detail }).to_string());
}

/// Writes that the server ends, and when to come back.
pub fn closing(frames: &mut String, retry_ms: u64) {
    retry(frames, retry_ms);
    frame(
        frames,
        "closing",
        None,
        &json!({ "reason": "the server is shutting down", "retry_ms": retry_ms }).to_string(),
    );
}

/// Writes why there is no stream, for those who read nothing else, and when to try again at the earliest.
pub fn problem(frames: &mut String, problem: &Problem, retry_ms: u64) {
    retry(frames, retry_ms);
    frame(frames, "problem", None, &wire::to_json(problem).to_string());
}

/// Writes when to come back after a break.
pub fn retry(frames: &mut String, retry_ms: u64) {
    // Writing to a text does not fail.
    let _ = writeln!(frames, "retry: {retry_ms}");
}

fn frame(frames: &mut String, event: &str, id: Option<&str>, data: &str) {
    if let Some(id) = id {
        let _ = writeln!(frames, "id: {id}");
    }
    // JSON on one line has no line breaks.
    let _ = write!(frames, "event: {event}\ndata: {data}\n\n");
}

fn begin(change: &Change) -> Value {
    let mut data = json!({
        "cascade": { "id": cascade_of(change), "total": total_of(change) },
        "position": change.position,
        "time": change.time,
    });
    if let Some(members) = data.as_object_mut() {
        members.extend(change.cause.as_ref().map(|cause| ("cause".to_owned(), wire::to_json(cause))));
        members.extend(change.summary.as_ref().map(|summary| ("summary".to_owned(), wire::to_json(summary))));
    }
    data
}

fn cascade_of(change: &Change) -> &str {
    change.cascade.as_ref().map_or("", |cascade| &cascade.id)
}

fn total_of(change: &Change) -> u32 {
    change.cascade.as_ref().map_or(0, |cascade| cascade.total)
}

fn is_last(change: &Change) -> bool {
    change.cascade.as_ref().is_some_and(|cascade| cascade.index == Some(cascade.total))
}

/// The cursor of a record.
pub fn cursor_of(change: &Change) -> Option<String> {
    change.id.parse::<ChangeId>().ok().map(ChangeId::to_cursor)
}

/// The cursor behind a whole cascade.
fn cursor_behind(last: &Change) -> Option<String> {
    let id = change_id(last)?;
    let position: Position = id.position;
    Some(ChangeId { position, index: u32::MAX, ..id }.to_cursor())
}

fn change_id(change: &Change) -> Option<ChangeId> {
    change.id.parse().ok()
}

#[cfg(test)]
mod tests {
    use recant_proto::v1::{Cascade, Summary};

    use super::*;
    use crate::stream::Filter;

    const LOG: &str = "00000000000000000000000000000001";

    fn record(offset: u64, index: u32, total: u32, kind: &str) -> Streamed {
        let position = format!("0:{offset}");
        let change = Change {
            id: format!("{LOG}:{position}:{index}"),
            kind: kind.to_owned(),
            to: "OUT".to_owned(),
            cascade: Some(Cascade { id: position.clone(), index: Some(index), total }),
            summary: (index == 0).then(Summary::default),
            position,
            ..Change::default()
        };
        Streamed::new(offset, change, 1)
    }

    fn events(frames: &str) -> Vec<&str> {
        frames.lines().filter_map(|line| line.strip_prefix("event: ")).collect()
    }

    /// Protects those who act on whole cascades: each is between its begin and its end, whatever a filter leaves out of it.
    #[test]
    fn each_cascade_is_framed_whatever_is_left_out_of_it() {
        let stream = [
            record(7, 0, 2, ""),
            record(7, 1, 2, "belief"),
            record(7, 2, 2, "action"),
            record(8, 0, 1, ""),
            record(8, 1, 1, "action"),
        ];
        let told = |selection: Selection| {
            let mut framer = Framer::new(selection);
            let mut frames = String::new();
            stream.iter().for_each(|record| framer.record(record, record.json(), &mut frames));
            frames
        };
        let all = told(Selection::default());
        assert_eq!(events(&all), ["begin", "change", "change", "end", "begin", "change", "end"]);
        let of_kind = |kind: &str| Selection {
            filter: Filter { kind: Some(kind.to_owned()), ..Filter::default() },
            digests: false,
        };
        // Its last change is left out, and it ends all the same.
        assert_eq!(events(&told(of_kind("belief"))), ["begin", "change", "end"]);
        assert_eq!(events(&told(of_kind("plan"))), Vec::<&str>::new());
        assert!(!told(of_kind("belief")).contains("\"summary\""), "what it counts is not what is told");
    }

    /// Protects whoever breaks off between the last change and the end: the end's id is behind the change's.
    #[test]
    fn an_end_has_a_place_of_its_own() {
        let mut frames = String::new();
        let last = record(7, 2, 2, "action");
        Framer::new(Selection::default()).record(&last, last.json(), &mut frames);
        let ids: Vec<ChangeId> = frames
            .lines()
            .filter_map(|line| line.strip_prefix("id: "))
            .map(|cursor| ChangeId::from_cursor(cursor).unwrap())
            .collect();
        assert_eq!(ids.len(), 2);
        assert!((ids[0].position, ids[0].index) < (ids[1].position, ids[1].index));
    }
}
