//! What really was retracted, in the order in which it was: 470 notices about papers on COVID-19, and a retracted paper with
//! the 2,737 works that cite it or cite those that do. Asked with the real binary what was believed at the end of each day with a
//! notice, and what turned in that day; and compared with what the oracle says of the same events.
//!
//! - **covid**: each paper is an observation, and a source of its own. A retraction retracts that source, a reinstatement lifts that. An
//!   expression of concern and a correction are observations about the paper, and change no status.
//! - **matsuyama**: the paper is an observation; each other work is a belief with one reason for each work that it
//!   cites. So it is IN while anything that it cites is. The data gives years: a work is dated to the first day of its year,
//!   and the 29 that have none come last. When the paper was retracted the data does not say: a day is taken.
//!
//! The data is not ours and not in the repository: where its folder is absent there is nothing to measure.

use std::{
    collections::BTreeMap,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use recant_proto::{
    time,
    v1::{
        self, Content, Derived, Event, Observed, Reinstated, Retracted, Target, content::Form, event::Body,
        target::What,
    },
    wire,
};
use recant_tests::{crash::process::program, oracle::Oracle, spreadsheet::rows};
use serde_json::Value;

use crate::heart::{Spread, spread};

type Failure = Box<dyn std::error::Error>;

const COVID: &str = "covid";
const MATSUYAMA: &str = "matsuyama";

/// The retracted paper, and the day on which its retraction is taken to have come.
const PAPER: &str = "A000";
const PAPER_RETRACTED: &str = "2008-10-01";

/// A moment after every year in the data.
const YEAR_UNKNOWN: &str = "2025";

/// What was measured.
#[derive(Debug)]
pub struct Figures {
    /// Events, in both spaces.
    pub events: usize,
    /// Days with a notice, that of the paper included.
    pub days: usize,
    /// Nodes that were OUT at the end of a day, over all days.
    pub out: usize,
    /// Nodes that turned or came in a day with a notice, over all such days.
    pub turned: usize,
    /// Works that fell with the paper; those that came later, and were born OUT.
    pub fell: usize,
    /// As above.
    pub born_out: usize,
    /// How long the commands took, from start to end.
    pub list: Spread,
    /// As above.
    pub diff: Spread,
}

/// Measures, if the data is there.
pub fn measure(data: &Path) -> Result<Option<Figures>, Failure> {
    let [notices, works, citations] =
        ["covid-retractions.csv", "matsuyama-works.csv", "matsuyama-citations.csv"].map(|file| data.join(file));
    if !notices.exists() || !works.exists() || !citations.exists() {
        return Ok(None);
    }
    let mut dated = papers(&rows(&std::fs::read_to_string(notices)?)?)?;
    dated.extend(cited(&rows(&std::fs::read_to_string(works)?)?, &rows(&std::fs::read_to_string(citations)?)?)?);
    // Of one day, what came out before what is said of it.
    dated.sort_by(|one, other| (&one.day, one.order).cmp(&(&other.day, other.order)));
    let directory = tempfile::tempdir()?;
    let told = Told::of(&dated, directory.path())?;
    let mut days: Vec<(&str, &str)> = dated
        .iter()
        .filter(|event| event.order == Order::Notice)
        .map(|event| (event.space(), event.day.as_str()))
        .collect();
    days.sort_unstable();
    days.dedup();
    told.ask_about(&days, dated.len()).map(Some)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Work,
    Notice,
}

/// An event of a day.
struct Dated {
    day: String,
    order: Order,
    event: Event,
}

impl Dated {
    fn new(space: &str, day: &str, order: Order, id: String, body: Body) -> Dated {
        let occurred_at = format!("{day}T00:00:00Z");
        let event = Event { id, space: space.to_owned(), occurred_at, body: Some(body), ..Event::default() };
        Dated { day: day.to_owned(), order, event }
    }

    fn space(&self) -> &str {
        if self.event.space == COVID { COVID } else { MATSUYAMA }
    }
}

fn field<'r>(row: &'r BTreeMap<String, String>, name: &str) -> Result<&'r str, Failure> {
    row.get(name).map(String::as_str).ok_or_else(|| format!("the data has no column {name}").into())
}

fn text(text: &str) -> Option<Content> {
    Some(Content { form: Some(Form::Text(text.to_owned())), ..Content::default() })
}

/// The papers, each once, and what was said of them.
fn papers(notices: &[BTreeMap<String, String>]) -> Result<Vec<Dated>, Failure> {
    // Some have no identifier of their own, or share one: they are told apart by their titles too.
    let mut known: BTreeMap<[&str; 2], String> = BTreeMap::new();
    let mut events = Vec::new();
    for notice in notices {
        let (number, doi, title) =
            (field(notice, "record_id")?, field(notice, "original_doi")?, field(notice, "title")?);
        let is_new = !known.contains_key(&[doi, title]);
        let paper = known.entry([doi, title]).or_insert_with(|| format!("paper:{number}"));
        if is_new {
            let observed = Observed {
                node: paper.clone(),
                source: paper.clone(),
                source_kind: "paper".to_owned(),
                subject: doi.to_owned(),
                content: text(title),
                ..Observed::default()
            };
            let (day, id) = (field(notice, "original_date")?, format!("published {paper}"));
            events.push(Dated::new(COVID, day, Order::Work, id, Body::Observed(observed)));
        }
        let id = format!("notice:{number}");
        let body = said_of(paper, &id, notice)?;
        events.push(Dated::new(COVID, field(notice, "retraction_date")?, Order::Notice, id, body));
    }
    Ok(events)
}

/// What a notice does.
fn said_of(paper: &str, id: &str, notice: &BTreeMap<String, String>) -> Result<Body, Failure> {
    let retraction = format!("retraction of {paper}");
    let reasons = field(notice, "reasons")?;
    Ok(match field(notice, "nature")? {
        "Retraction" => Body::Retracted(Retracted {
            retraction,
            targets: vec![Target { what: Some(What::Source(paper.to_owned())), window: None }],
            reason: reasons.to_owned(),
            ..Retracted::default()
        }),
        "Reinstatement" => {
            Body::Reinstated(Reinstated { retraction, reason: reasons.to_owned(), ..Reinstated::default() })
        }
        other => Body::Observed(Observed {
            node: id.to_owned(),
            source: id.to_owned(),
            source_kind: "notice".to_owned(),
            subject: paper.to_owned(),
            content: text(&format!("{other}: {reasons}")),
            ..Observed::default()
        }),
    })
}

/// The works of the citation graph, and the retraction of the paper.
fn cited(works: &[BTreeMap<String, String>], citations: &[BTreeMap<String, String>]) -> Result<Vec<Dated>, Failure> {
    let mut cites: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for citation in citations {
        cites.entry(field(citation, "citing")?).or_default().push(field(citation, "cited")?);
    }
    let mut events = Vec::new();
    for work in works {
        let (id, title, year) = (field(work, "id")?, field(work, "title")?, field(work, "year")?);
        let day = format!("{}-01-01", if year.is_empty() { YEAR_UNKNOWN } else { year });
        let new = |event: String, body| Dated::new(MATSUYAMA, &day, Order::Work, event, body);
        let Some((first, others)) = cites.get(id).and_then(|cited| cited.split_first()) else {
            let observed =
                Observed { node: id.to_owned(), source: id.to_owned(), content: text(title), ..Observed::default() };
            events.push(new(format!("published {id}"), Body::Observed(observed)));
            continue;
        };
        let reason =
            |cited: &str| Some(v1::Justification { premises: vec![cited.to_owned()], ..v1::Justification::default() });
        let derived = Derived {
            node: id.to_owned(),
            kind: "belief".to_owned(),
            content: text(title),
            justification: reason(first),
            ..Derived::default()
        };
        events.push(new(format!("published {id}"), Body::Derived(derived)));
        for cited in others {
            let justified = v1::Justified { node: id.to_owned(), justification: reason(cited) };
            events.push(new(format!("{id} cites {cited}"), Body::Justified(justified)));
        }
    }
    let retracted = Retracted {
        retraction: format!("retraction of {PAPER}"),
        targets: vec![Target { what: Some(What::Source(PAPER.to_owned())), window: None }],
        ..Retracted::default()
    };
    let id = format!("notice:{PAPER}");
    events.push(Dated::new(MATSUYAMA, PAPER_RETRACTED, Order::Notice, id, Body::Retracted(retracted)));
    Ok(events)
}

/// The same events in a data directory and in the oracle.
struct Told<'a> {
    data: &'a Path,
    oracle: Oracle,
}

impl<'a> Told<'a> {
    fn of(dated: &[Dated], directory: &'a Path) -> Result<Told<'a>, Failure> {
        let mut oracle = Oracle::new(0);
        let mut lines = String::new();
        // The log's own first record has the first offset.
        for (offset, Dated { event, .. }) in (1..).zip(dated) {
            let occurred = time::parse("occurred_at", &event.occurred_at).map_err(|violation| violation.to_string())?;
            oracle.step(offset, occurred.to_log_ms(), event, &[]);
            lines += &wire::to_json(event).to_string();
            lines.push('\n');
        }
        let told = Told { data: directory, oracle };
        let file = directory.join("events.jsonl");
        std::fs::write(&file, lines)?;
        let file = file.display().to_string();
        let (summary, _) = told.asked(&["append", "--log-time", "occurred", &file])?;
        if summary["accepted"] != dated.len() {
            return Err(format!("not everything was accepted: {summary}").into());
        }
        Ok(told)
    }

    /// What a command answers, and how long it takes.
    fn asked(&self, arguments: &[&str]) -> Result<(Value, Duration), Failure> {
        let started = Instant::now();
        let output = Command::new(program("recant"))
            .arg("--json")
            .args(arguments)
            .arg("--data")
            .arg(self.data.join("data"))
            .output()?;
        let took = started.elapsed();
        if !output.status.success() {
            return Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok((serde_json::from_slice(&output.stdout)?, took))
    }

    fn ask_about(&self, days: &[(&str, &str)], events: usize) -> Result<Figures, Failure> {
        let (mut of_list, mut of_diff) = (Vec::new(), Vec::new());
        let (mut out, mut turned, mut fell) = (0, 0, 0);
        for (space, day) in days {
            let [before, end] = ends_of(day)?;
            let (listed, took) =
                self.asked(&["list", "--space", space, "--status", "out", "--limit", "100000", "--as-of", &end])?;
            of_list.push(took);
            let found = ids(&listed, "id")?;
            same("what is OUT at the end of", day, &self.out_at(space, &end)?, &found)?;
            out += found.len();
            // Before its first event a log believed nothing.
            let (diff, took) = self.asked(&["diff", &before, &end, "--space", space, "--limit", "100000"])?;
            of_diff.push(took);
            let found = ids(&diff, "node")?;
            same("what turned in", day, &self.turned_between(space, &before, &end)?, &found)?;
            turned += found.len();
            if *space == MATSUYAMA {
                fell += found.len();
            }
        }
        let works_out = self.out_at(MATSUYAMA, "2030-01-01T00:00:00Z")?.len();
        Ok(Figures {
            events,
            days: days.len(),
            out,
            turned,
            fell,
            born_out: works_out - fell,
            list: spread(of_list),
            diff: spread(of_diff),
        })
    }

    fn offset(&self, time: &str) -> Result<u64, Failure> {
        let instant = time::parse("time", time).map_err(|violation| violation.to_string())?;
        self.oracle.offset_as_of(instant.to_log_ms()).ok_or_else(|| format!("the log begins after {time}").into())
    }

    /// By the oracle, the nodes of a space that were OUT at a time.
    fn out_at(&self, space: &str, time: &str) -> Result<Vec<String>, Failure> {
        let offset = self.offset(time)?;
        let is_out = |node: &&String| self.status(space, node, offset) == Some("OUT");
        Ok(self.nodes(space).filter(is_out).cloned().collect())
    }

    /// By the oracle, the nodes of a space that were IN at the one time and not at the other, or the other way round, or came.
    fn turned_between(&self, space: &str, before: &str, end: &str) -> Result<Vec<String>, Failure> {
        let (before, end) = (self.offset(before)?, self.offset(end)?);
        let has_turned = |node: &&String| self.status(space, node, before) != self.status(space, node, end);
        Ok(self.nodes(space).filter(has_turned).cloned().collect())
    }

    fn nodes(&self, space: &str) -> impl Iterator<Item = &String> {
        self.oracle.space(space).into_iter().flat_map(|space| space.nodes.keys())
    }

    fn status(&self, space: &str, node: &str, offset: u64) -> Option<&'static str> {
        self.oracle.standing_as_of(space, node, offset).map(|standing| standing.status())
    }
}

/// The end of the day before, and of the day.
fn ends_of(day: &str) -> Result<[String; 2], Failure> {
    let begin = time::parse("day", &format!("{day}T00:00:00Z")).map_err(|violation| violation.to_string())?.to_log_ms();
    Ok([begin - 1, begin + 24 * 60 * 60 * 1000 - 1].map(time::format_log_ms))
}

fn ids(answer: &Value, member: &str) -> Result<Vec<String>, Failure> {
    let items = answer["items"].as_array().ok_or("an answer has no items")?;
    let mut ids: Vec<String> = items.iter().filter_map(|item| item[member].as_str()).map(str::to_owned).collect();
    ids.sort_unstable();
    Ok(ids)
}

fn same(what: &str, day: &str, expected: &[String], found: &[String]) -> Result<(), Failure> {
    if expected == found {
        return Ok(());
    }
    let missing = expected.iter().find(|id| !found.contains(id));
    let unexpected = found.iter().find(|id| !expected.contains(id));
    Err(format!("{what} {day}: missing {missing:?}, unexpected {unexpected:?}").into())
}
