//! `recant retract` and `recant reinstate`, and what they would do.

use anyhow::Result;
pub use recant_gateway::outcome::{Decided, change_json};
use recant_gateway::outcome::{Outcome, change_of_json, counted_sources};
use recant_processor::{
    door::Door,
    standalone::{NewEvent, Standalone},
};
use recant_projections::fold::{self, Fate, Message, publish::count_sources};
use recant_proto::{
    position::Position,
    v1::{AgentTarget, Change, Event, Reinstated, Retracted, Target, Window, event::Body, target::What},
    validate, wire,
};

use super::writer::fate_unknown;
use crate::{
    arguments::{self, Decision},
    escape,
    failure::{Exit, Problem, Sort},
    output::{self, Output, counted},
    place::Place,
    remote::{Remote, read_owned},
};

/// `recant retract`.
pub fn retract(place: &Place, arguments: &arguments::Retract, output: &mut Output) -> Result<Exit> {
    decide(place, &retracted(&place.space, arguments)?, &arguments.decision, output)
}

/// `recant reinstate`.
pub fn reinstate(place: &Place, arguments: &arguments::Reinstate, output: &mut Output) -> Result<Exit> {
    decide(place, &reinstated(&place.space, arguments), &arguments.decision, output)
}

/// The event that retracts what the arguments name.
pub(super) fn retracted(space: &str, arguments: &arguments::Retract) -> Result<Event> {
    let targets = targets(&arguments.targets);
    if targets.is_empty() {
        return Err(Problem::wrong("name what to retract: --source, --node, --justification or --agent").into());
    }
    let id = arguments.id.clone().unwrap_or_else(new_id);
    let retracted = Retracted {
        retraction: id.clone(),
        targets,
        reason: arguments.reason.clone().unwrap_or_default(),
        by: arguments.by.clone().unwrap_or_default(),
        replaces: arguments.replaces.clone(),
        only_if_position: arguments.decision.only_if_position.clone().unwrap_or_default(),
    };
    Ok(Event { id, space: space.to_owned(), body: Some(Body::Retracted(retracted)), ..Event::default() })
}

/// The event that reinstates the retraction that the arguments name.
pub(super) fn reinstated(space: &str, arguments: &arguments::Reinstate) -> Event {
    let reinstated = Reinstated {
        retraction: arguments.retraction.clone(),
        reason: arguments.reason.clone().unwrap_or_default(),
        by: arguments.by.clone().unwrap_or_default(),
        only_if_position: arguments.decision.only_if_position.clone().unwrap_or_default(),
    };
    Event { id: new_id(), space: space.to_owned(), body: Some(Body::Reinstated(reinstated)), ..Event::default() }
}

pub(super) fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

pub(super) fn targets(arguments: &arguments::Targets) -> Vec<Target> {
    let window = (arguments.from.is_some() || arguments.to.is_some()).then(|| Window {
        from: arguments.from.clone().unwrap_or_default(),
        to: arguments.to.clone().unwrap_or_default(),
        clock: arguments.clock.clone().unwrap_or_default(),
    });
    let run = arguments.run.clone().unwrap_or_default();
    let sources = arguments.source.iter().cloned().map(What::Source);
    let nodes = arguments.node.iter().cloned().map(What::Node);
    let justifications = arguments.justification.iter().cloned().map(What::Justification);
    let agents =
        arguments.agent.iter().map(|agent| What::Agent(AgentTarget { agent: agent.clone(), run: run.clone() }));
    let all = sources.chain(nodes).chain(justifications).chain(agents);
    all.map(|what| Target { what: Some(what), window: window.clone() }).collect()
}

fn decide(place: &Place, event: &Event, decision: &Decision, output: &mut Output) -> Result<Exit> {
    validate::check(event, wire::to_protobuf(event).len(), &validate::DEFAULT_LIMITS)
        .map_err(|violation| Problem::refused(Sort::Wrong, &violation))?;
    if let Some(remote) = place.remote()? {
        let outcome = ask(&remote, event, decision)?;
        return tell_outcome(event, &outcome, decision, output);
    }
    let decided = match &place.kafka {
        _ if decision.preview => preview(place, event)?,
        None => commit(&mut place.open()?, event)?,
        Some(settings) => commit_on_brokers(&place.door(settings)?, event)?,
    };
    tell(event, &decided, decision, output)?;
    Ok(Exit::Done)
}

/// A server tells at most so many changes at once; the change stream has all.
const CHANGES_TOLD_MAX: usize = 10_000;

/// Has a server decide it.
fn ask(remote: &Remote, event: &Event, decision: &Decision) -> Result<Outcome> {
    let query =
        [("preview", decision.preview.to_string()), ("limit", decision.limit.min(CHANGES_TOLD_MAX).to_string())];
    let answer = match &event.body {
        Some(Body::Retracted(retracted)) => {
            let mut body = wire::to_json(retracted);
            if let Some(members) = body.as_object_mut() {
                members.remove("retraction");
                members.insert("id".to_owned(), event.id.clone().into());
            }
            remote.post(&["retractions"], &query, &body)?
        }
        Some(Body::Reinstated(reinstated)) => {
            let mut body = wire::to_json(reinstated);
            if let Some(members) = body.as_object_mut() {
                members.remove("retraction");
                members.insert("id".to_owned(), event.id.clone().into());
            }
            remote.post(&["retractions", &reinstated.retraction, "reinstatement"], &query, &body)?
        }
        _ => return Err(fate_unknown().into()),
    };
    read_owned(answer)
}

fn tell_outcome(event: &Event, outcome: &Outcome, decision: &Decision, output: &mut Output) -> Result<Exit> {
    if output.is_json() {
        output.document(outcome)?;
    } else {
        let changes = outcome.changes.iter().map(change_of_json).collect::<Result<Vec<_>, _>>()?;
        show(outcome, event, &changes, decision, output)?;
    }
    Ok(Exit::Done)
}

/// Tells what was decided.
pub(super) fn tell(event: &Event, decided: &Decided, decision: &Decision, output: &mut Output) -> Result<()> {
    let outcome = Outcome::of(event, decided, decision.preview, decision.limit);
    tell_outcome(event, &outcome, decision, output).map(drop)
}

/// What an event would do.
pub(super) fn preview(place: &Place, event: &Event) -> Result<Decided> {
    let view = place.view()?;
    let row = recant_projections::tables::partition::get(&view.store)?.unwrap_or_default();
    let space = view.open_space()?.unwrap_or_else(|| fold::space::Space::empty(&place.space, u32::MAX));
    let preview = fold::preview(&view.store, &row, &space, event)?;
    Ok(Decided {
        position: preview.position.to_string(),
        records: preview.records,
        sources: preview.sources,
        duplicate_of: None,
    })
}

/// Appends an event, and gives what it did.
pub(super) fn commit(standalone: &mut Standalone, event: &Event) -> Result<Decided> {
    let sources = match standalone.driver_of(&event.space) {
        Some(driver) => counted_sources(driver.state().stored(), event)?,
        None => 0,
    };
    let position = standalone.append(vec![NewEvent::of(event)])?.first().copied();
    let mut folded_event = None;
    standalone.process(&mut |at, folded| {
        if Some(at) == position {
            folded_event = Some(folded.clone());
        }
    })?;
    let (Some(position), Some(folded)) = (position, folded_event) else {
        return Err(fate_unknown().into());
    };
    if let Fate::Rejected(violation) = &folded.fate {
        return Err(Problem { position: Some(position.to_string()), ..Problem::refused(Sort::No, violation) }.into());
    }
    let duplicate_of = match folded.fate {
        Fate::Duplicate(offset) => Some(Position { offset, ..position }.to_string()),
        _ => None,
    };
    let records: Vec<Change> = folded
        .outputs
        .into_iter()
        .filter_map(|output| match output.message {
            Message::Change(change) => Some(change),
            Message::Rejection(_) => None,
        })
        .collect();
    Ok(Decided { position: position.to_string(), records, sources, duplicate_of })
}

/// The same to a log that others serve.
fn commit_on_brokers(door: &Door, event: &Event) -> Result<Decided> {
    let appended = door.append(vec![NewEvent::of(event)])?;
    let fate = door.fates(&appended)?.into_iter().next();
    let Some((position, fate)) = appended.positions.first().copied().zip(fate) else {
        return Err(fate_unknown().into());
    };
    if let Fate::Rejected(violation) = &fate {
        return Err(Problem { position: Some(position.to_string()), ..Problem::refused(Sort::No, violation) }.into());
    }
    let records = door.cascade(&appended, position)?;
    let sources = match &event.body {
        Some(Body::Retracted(retracted)) => count_sources(&retracted.targets),
        _ => records.first().and_then(|record| record.summary?.sources).unwrap_or_default(),
    };
    Ok(Decided { position: position.to_string(), records, sources, duplicate_of: None })
}

fn show(outcome: &Outcome, event: &Event, changes: &[Change], decision: &Decision, output: &mut Output) -> Result<()> {
    let begins = matches!(event.body, Some(Body::Retracted(_)));
    let did = match (begins, outcome.preview) {
        (true, true) => "Preview: retracting would change",
        (true, false) => "Retracted:",
        (false, true) => "Preview: reinstating would change",
        (false, false) => "Reinstated:",
    };
    let kinds = &outcome.by_kind;
    output.line(format!(
        "{did} {}: {}, {}, {}, {}, {}",
        output::styled(output::BOLD, counted(u64::from(outcome.changed), "node")),
        counted(u64::from(outcome.sources), "source"),
        counted(u64::from(kinds.observation), "observation"),
        counted(u64::from(kinds.belief), "belief"),
        counted(u64::from(kinds.plan), "plan"),
        counted(u64::from(kinds.action), "action"),
    ))?;
    for change in changes {
        output.line(format!("  {}", change_line(change)))?;
    }
    // Whoever asks for none has the counts.
    if outcome.truncated && decision.limit > 0 {
        output.line(format!("  and {} more; --limit shows them", outcome.changed as usize - decision.limit))?;
    }
    if let Some(first) = &outcome.duplicate_of {
        output.line(format!("Nothing is new: the same event was applied at {first}, and counts once"))?;
    } else if outcome.preview {
        output.line(format!("Nothing was changed. To commit exactly this: --only-if-position {}", outcome.position))?;
    } else if begins {
        output.line(format!("Retraction {} at {}", escape::line(&outcome.retraction), outcome.position))?;
    } else {
        output.line(format!(
            "Retraction {} no longer stands, from {} on",
            escape::line(&outcome.retraction),
            outcome.position
        ))?;
    }
    Ok(())
}

/// A change on one line, for people.
pub fn change_line(change: &Change) -> String {
    let why = (!change.why.is_empty()).then_some(change.why.as_str());
    let status = output::status(&change.to, why);
    let action = change
        .action
        .as_ref()
        .map(|action| format!("  {}", action_line(&action.r#type, &action.state, &action.amount, &action.currency)));
    let source =
        if change.source.is_empty() { String::new() } else { format!("  from {}", escape::line(&change.source)) };
    format!("{status}  {} {}{}{source}", change.kind, escape::line(&change.node), action.unwrap_or_default())
}

/// An action on one line.
pub fn action_line(action_type: &str, state: &str, amount: &str, currency: &str) -> String {
    let amount =
        if amount.is_empty() { String::new() } else { format!(" {} {}", escape::line(amount), escape::line(currency)) };
    format!("{}{amount} [{}]", escape::line(action_type), escape::line(state))
}
