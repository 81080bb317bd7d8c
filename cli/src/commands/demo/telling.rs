//! Tells the story: each command that is shown is the one that is carried out, by the same code.
//!
//! What reads is parsed and run as if it had been typed; it opens the directory as another process would. What decides
//! goes through the log that this process holds open, whose clock is set by hand, so that two tellings are the same.

use std::{ffi::OsString, path::Path, sync::Arc};

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use clap::Parser;
use recant_eventlog::clock::ManualClock;
use recant_processor::standalone::{NewEvent, NewLog, Standalone};
use recant_projections::{
    audit,
    fold::Fate,
    query::{self, Filter, NodeView, PageRequest},
};
use recant_proto::{position::Incarnation, time, v1::Event};

use super::{
    claims::{Overlap, Seen},
    story,
};
use crate::{
    arguments::{Arguments, Command, Decision},
    commands::{
        retract::{self, Decided},
        tree,
    },
    failure::{Exit, Problem},
    output::{BOLD, DIM, Output, counted, styled},
    place::{Place, View},
};

/// The log's name: always the same, so that ids and cursors are.
const INCARNATION: Incarnation = Incarnation(*b"recant demo log.");

/// Commands are broken at so many columns.
const COLUMNS: usize = 98;

/// The style of what one types.
const COMMAND: Style = AnsiColor::Cyan.on_default();

/// Runs `recant` with some words in another process, and gives what it printed.
pub type Elsewhere<'a> = &'a dyn Fn(&[OsString]) -> Result<String>;

/// Tells the story in an empty directory, and gives what was seen.
pub fn tell(data: &Path, events: &[Event], elsewhere: Elsewhere<'_>, output: &mut Output) -> Result<Seen> {
    let memory_budget_bytes = recant_projections::fold::Forms::default().memory_budget_bytes;
    let space = story::SPACE.to_owned();
    let place = Place {
        data: data.to_owned(),
        space,
        is_space_named: true,
        memory_budget_bytes,
        kafka: None,
        url: None,
        signer: None,
    };
    let clock = Arc::new(ManualClock::new(log_ms(story::BEGINS_AT)?));
    let log = NewLog { incarnation: INCARNATION, partitions: 1, log_time_occurred: false };
    let standalone = Standalone::create(data, &log, clock.clone())?;
    let mut teller = Teller { place: place.clone(), clock, standalone, elsewhere, output };
    let mut seen = Seen::default();
    teller.what_happened(events, &mut seen)?;
    teller.what_would_fall(&mut seen)?;
    teller.what_fell(&mut seen)?;
    teller.what_another_process_sees(&mut seen)?;
    teller.why(&mut seen)?;
    teller.taken_back(&mut seen)?;
    teller.overlapping(&mut seen)?;
    teller.time_travel(&mut seen)?;
    drop(teller);
    let view = place.view()?;
    seen.faults = audit::space(&view.store, &place.space)?;
    let doctor = parse(&place, &words("doctor"))?;
    seen.doctor_is_content =
        crate::commands::run(doctor, &mut Output::to(true, Box::new(std::io::sink())))? == Exit::Done;
    Ok(seen)
}

struct Teller<'a> {
    place: Place,
    clock: Arc<ManualClock>,
    standalone: Standalone,
    elsewhere: Elsewhere<'a>,
    output: &'a mut Output,
}

impl Teller<'_> {
    fn what_happened(&mut self, events: &[Event], seen: &mut Seen) -> Result<()> {
        self.heading("1  Three agents pay a supplier")?;
        for event in events {
            self.set_clock(&event.occurred_at)?;
            self.standalone.append(vec![NewEvent::of(event)])?;
            self.standalone.process(&mut |_, folded| match &folded.fate {
                Fate::Accepted => seen.accepted += 1,
                _ => seen.not_accepted.push(folded.event_id.clone()),
            })?;
        }
        self.say(
            "intake read two pages of a supplier's portal: the remittance address, which the signed contract has",
        )?;
        self.say("too, and a new bank account, which stands nowhere else. ledger copied intake's note of it into the")?;
        self.say("books, payments saw the two agree and called it confirmed. On that they acted:")?;
        self.read(&words("list --kind action"))?;
        seen.before = self.nodes()?;
        seen.digest_before = self.digest()?;
        Ok(())
    }

    fn what_would_fall(&mut self, seen: &mut Seen) -> Result<()> {
        self.heading("2  The portal was taken over on 5 March, security finds on Monday. What would fall?")?;
        let mut preview = words("retract --source");
        preview.extend([story::PORTAL, "--from", story::TAKEOVER, "--id", "takeover", "--preview"].map(str::to_owned));
        seen.preview = self.decide(&preview, "")?;
        Ok(())
    }

    fn what_fell(&mut self, seen: &mut Seen) -> Result<()> {
        self.heading("3  Retract it: exactly that, or nothing")?;
        self.set_clock(story::RETRACTED_AT)?;
        let position = seen.preview.position.as_str();
        let decision = ["--only-if-position", position, "--by", "security", "--reason", "taken over"];
        let retract = portal_retraction("takeover", &decision);
        seen.cursor_before = self.view()?.moment.cursor();
        seen.committed = self.decide(&retract, "")?;
        seen.after = self.nodes()?;
        seen.digest_retracted = self.digest()?;
        self.say("OUT means: rests only on what is no longer trusted. The address stays, and this is why:")?;
        let view = self.view()?;
        seen.address = explanation(&view, story::ADDRESS)?;
        if let Some(address) = &seen.address {
            tree::show_reasons(address, self.output)?;
        }
        self.say("So do the deed that rests on it, and what the portal said before the takeover:")?;
        for node in &seen.after {
            if [story::SPARED_ACTION, story::OLD_OBSERVATION].contains(&node.id.as_str()) {
                self.output.line(tree::node_line(node))?;
            }
        }
        Ok(())
    }

    fn what_another_process_sees(&mut self, seen: &mut Seen) -> Result<()> {
        self.heading("4  Another process follows what becomes of actions, while this one has the log open")?;
        let mut watch = words(&format!("watch --from {} --until-caught-up", seen.cursor_before));
        seen.watched = (self.elsewhere)(&placed(&self.place, &[&watch[..], &words("--json")].concat()))?;
        watch.extend(words("--kind action"));
        self.prompt(&watch)?;
        seen.watched_deeds = (self.elsewhere)(&placed(&self.place, &watch))?;
        for line in seen.watched_deeds.lines() {
            self.output.line(line)?;
        }
        let records = counted(seen.watched.lines().count() as u64, "record");
        self.say(&format!("A third one, unfiltered and in JSON, was told {records}: the summary, then each change."))
    }

    fn why(&mut self, seen: &mut Seen) -> Result<()> {
        self.heading("5  Should the 34,500 USD leave?")?;
        self.read(&words(&format!("explain {}", story::PENDING_PAYMENT)))?;
        self.say("As of just before the retraction, it was believed:")?;
        let before = &seen.preview.position;
        self.read(&words(&format!("list --run {} --kind action --as-of {before}", story::PENDING_RUN)))?;
        seen.as_of_before = nodes(&self.view()?.at(Some(before))?)?;
        Ok(())
    }

    fn taken_back(&mut self, seen: &mut Seen) -> Result<()> {
        self.heading("6  Security takes it back: reinstate, and everything is exactly as before")?;
        self.set_clock(story::REINSTATED_AT)?;
        seen.reinstated = self.decide(&words("reinstate takeover --by security --limit 0"), "takeover-lifted")?;
        seen.after_reinstatement = self.nodes()?;
        seen.digest_reinstated = self.digest()?;
        let digests = [("before", &seen.digest_before), ("now", &seen.digest_reinstated)];
        for (when, digest) in digests {
            self.output.line(format!("state digest {}  {digest}", styled(DIM, format!("{when:<6}"))))?;
        }
        Ok(())
    }

    fn overlapping(&mut self, seen: &mut Seen) -> Result<()> {
        self.heading("7  The portal was taken over after all, and treasury has asked the supplier's bank")?;
        let mut overlap = Overlap::default();
        self.set_clock(story::RETRACTED_AGAIN_AT)?;
        overlap.first = self.decide(&portal_retraction("takeover-2", &[]), "")?;
        self.set_clock(story::OVERLAPPED_AT)?;
        let mut page = words(&format!("retract --node {} --id bank-page --by treasury --reason", story::BANK_PAGE));
        page.push("no such account".to_owned());
        overlap.second = self.decide(&page, "")?;
        self.say("Later, security lifts its own. What rests on the page that treasury retracted stays OUT:")?;
        self.set_clock(story::LIFTED_AT)?;
        overlap.lifted = self.decide(&words("reinstate takeover-2 --by security"), "takeover-2-lifted")?;
        overlap.after = self.nodes()?;
        for node in overlap.after.iter().filter(|node| node.id == story::PENDING_PAYMENT) {
            self.output.line(tree::node_line(node))?;
        }
        seen.overlap = overlap;
        Ok(())
    }

    fn time_travel(&mut self, seen: &mut Seen) -> Result<()> {
        self.heading("8  The auditors ask: what was believed on Friday and has turned since, and what if?")?;
        self.read(&words(&format!("diff {} {} --kind action", story::FRIDAY, story::LIFTED_AT)))?;
        self.say("Had the portal been retracted on the evening of the takeover, the 6,000 USD had no reason to go:")?;
        let mut what_if = words("what-if --source");
        what_if.extend([story::PORTAL, "--from", story::TAKEOVER, "--at", story::THAT_EVENING].map(str::to_owned));
        self.read(&what_if)?;
        let json = |words: &[String]| (self.elsewhere)(&placed(&self.place, &[words, &["--json".to_owned()]].concat()));
        seen.what_if = json(&what_if)?;
        seen.verified = json(&words("verify"))?;
        self.say("And the story is proved: the log, folded again, makes the same state and the same changes.")?;
        self.read(&words("verify"))?;
        Ok(())
    }

    fn heading(&mut self, text: &str) -> Result<()> {
        self.output.line("")?;
        Ok(self.output.line(styled(BOLD, text))?)
    }

    fn say(&mut self, text: &str) -> Result<()> {
        Ok(self.output.line(text)?)
    }

    fn prompt(&mut self, words: &[String]) -> Result<()> {
        Ok(self.output.line(format!("{} {}", styled(DIM, "$"), styled(COMMAND, command_line(words))))?)
    }

    /// Carries out a command that reads.
    fn read(&mut self, words: &[String]) -> Result<()> {
        self.prompt(words)?;
        crate::commands::run(parse(&self.place, words)?, self.output)?;
        Ok(())
    }

    /// Carries out a retraction or reinstatement, or its preview. `event_id` is for events whose id the command draws.
    fn decide(&mut self, words: &[String], event_id: &str) -> Result<Decided> {
        self.prompt(words)?;
        let (mut event, decision): (Event, Decision) = match parse(&self.place, words)?.command {
            Command::Retract(arguments) => (retract::retracted(&self.place.space, &arguments)?, arguments.decision),
            Command::Reinstate(arguments) => (retract::reinstated(&self.place.space, &arguments), arguments.decision),
            _ => return Err(unexpected(words).into()),
        };
        if !event_id.is_empty() {
            event.id = event_id.to_owned();
        }
        let decided = if decision.preview {
            retract::preview(&self.place, &event)?
        } else {
            retract::commit(&mut self.standalone, &event)?
        };
        retract::tell(&event, &decided, &decision, self.output)?;
        Ok(decided)
    }

    fn set_clock(&self, at: &str) -> Result<()> {
        self.clock.set(log_ms(at)?);
        Ok(())
    }

    fn view(&self) -> Result<View> {
        self.place.view()
    }

    fn nodes(&self) -> Result<Vec<NodeView>> {
        nodes(&self.view()?)
    }

    fn digest(&self) -> Result<String> {
        let view = self.view()?;
        let spaces = query::spaces(&view.store, &view.moment)?;
        Ok(spaces.into_iter().find(|space| space.space == view.space).map(|space| space.digest).unwrap_or_default())
    }
}

/// Retracts the portal from the takeover on, and shows the counts alone.
fn portal_retraction(id: &str, more: &[&str]) -> Vec<String> {
    let target = ["retract", "--source", story::PORTAL, "--from", story::TAKEOVER, "--id", id, "--limit", "0"];
    [&target, more].concat().into_iter().map(str::to_owned).collect()
}

fn nodes(view: &View) -> Result<Vec<NodeView>> {
    let all = PageRequest { after: None, items_max: usize::MAX };
    Ok(query::list(&view.store, &view.space, view.moment.clone(), &Filter::default(), &all)?.items)
}

fn explanation(view: &View, id: &str) -> Result<Option<query::Explanation>> {
    let Some(space) = view.open_space()? else { return Ok(None) };
    Ok(query::explain(&view.store, &space, &view.moment, id, usize::MAX)?)
}

fn log_ms(at: &str) -> Result<i64> {
    Ok(time::parse("at", at)?.to_log_ms())
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Words of a command, with where its data is.
fn placed(place: &Place, words: &[String]) -> Vec<OsString> {
    let place = ["--data".into(), place.data.clone().into(), "--space".into(), OsString::from(&place.space)];
    place.into_iter().chain(words.iter().map(OsString::from)).collect()
}

fn parse(place: &Place, words: &[String]) -> Result<Arguments> {
    let words = std::iter::once(OsString::from("recant")).chain(placed(place, words));
    Ok(Arguments::try_parse_from(words).map_err(|error| Problem::wrong(error.to_string()))?)
}

/// A command of the story that is none of those which it tells; the story's own mistake.
fn unexpected(words: &[String]) -> Problem {
    Problem::wrong(format!("{}: not a command of the story", command_line(words)))
}

/// A command as one types it, broken where it would be too wide.
pub fn command_line(words: &[String]) -> String {
    let mut text = "recant".to_owned();
    let mut columns = text.len() + "$ ".len();
    for (at, word) in words.iter().enumerate() {
        let word = quoted(word);
        // An option stays with its value.
        let value = words.get(at + 1).filter(|next| word.starts_with("--") && !next.starts_with("--"));
        let width = word.len() + value.map_or(0, |value| quoted(value).len() + 1) + 1;
        if word.starts_with("--") && columns + width > COLUMNS {
            text += " \\\n   ";
            columns = 3;
        }
        text += " ";
        text += &word;
        columns += word.len() + 1;
    }
    text
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./:=@%+,".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
