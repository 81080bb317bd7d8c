//! The conversion over real transcripts: 194 runs of AgentDojo, where they are at hand (`RECANT_SHARED_DATA`, else
//! `/work/shared/data`), with the four maps that the project ships.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::PathBuf,
};

use recant_proto::{
    v1::{Event, Justification, event::Body},
    validate, wire,
};

use super::{map::Map, *};

const MAPS: [(&str, &str); 4] = [
    ("banking", include_str!("../../../examples/maps/agentdojo-banking.toml")),
    ("slack", include_str!("../../../examples/maps/agentdojo-slack.toml")),
    ("travel", include_str!("../../../examples/maps/agentdojo-travel.toml")),
    ("workspace", include_str!("../../../examples/maps/agentdojo-workspace.toml")),
];

fn lines() -> Option<Vec<String>> {
    let folder =
        std::env::var_os("RECANT_SHARED_DATA").map_or_else(|| PathBuf::from("/work/shared/data"), PathBuf::from);
    let file = folder.join("agentdojo-gpt-4-0125-preview.jsonl");
    match fs::read_to_string(&file) {
        Ok(text) => Some(text.lines().map(str::to_owned).collect()),
        Err(error) => {
            eprintln!("skipped: {}: {error}", file.display());
            None
        }
    }
}

fn options(reasons: Reasons) -> ImportOptions {
    let mut map = Map::default();
    for (file, text) in MAPS {
        map.merge(file, Map::parse(file, text).unwrap()).unwrap();
    }
    ImportOptions { space: "agentdojo".into(), reasons, map, run_prefix: None }
}

fn runs(lines: &[String], reasons: Reasons) -> Vec<Imported> {
    let options = options(reasons);
    let mut runs = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        match events_of_line(index as u64 + 1, line.as_bytes(), &options).unwrap() {
            Line::Run(run) => runs.push(run),
            Line::Skipped(reason) => assert_eq!((index, reason), (0, Skipped::NoMessages)),
        }
    }
    runs
}

/// The naive rule of belief over one run: what is IN when these nodes are covered.
fn believed(events: &[Event], covered: &BTreeSet<String>) -> BTreeSet<String> {
    let mut reasons: Vec<(&str, &Justification)> = Vec::new();
    let mut believed = BTreeSet::new();
    for event in events {
        match event.body.as_ref().unwrap() {
            Body::Observed(observed) if !covered.contains(&observed.node) => {
                believed.insert(observed.node.clone());
            }
            Body::Derived(derived) => reasons.push((&derived.node, derived.justification.as_ref().unwrap())),
            Body::Justified(justified) => reasons.push((&justified.node, justified.justification.as_ref().unwrap())),
            Body::ActionProposed(action) => reasons.push((&action.action, action.justification.as_ref().unwrap())),
            _ => {}
        }
    }
    loop {
        let before = believed.len();
        for (node, justification) in &reasons {
            if justification.premises.iter().all(|premise| believed.contains(premise)) {
                believed.insert((*node).to_owned());
            }
        }
        if believed.len() == before {
            return believed;
        }
    }
}

/// The actions of a run: id, type and text, in order.
fn actions(events: &[Event]) -> Vec<(String, String, String)> {
    let action = |event: &Event| match event.body.as_ref() {
        Some(Body::ActionProposed(action)) => {
            let text = match action.content.as_ref().and_then(|content| content.form.as_ref()) {
                Some(recant_proto::v1::content::Form::Text(text)) => text.clone(),
                _ => String::new(),
            };
            Some((action.action.clone(), action.r#type.clone(), text))
        }
        _ => None,
    };
    events.iter().filter_map(action).collect()
}

/// The observations whose text carries the injection.
fn injected(events: &[Event]) -> BTreeSet<String> {
    let carries = |event: &Event| match event.body.as_ref() {
        Some(Body::Observed(observed)) => match observed.content.as_ref().and_then(|content| content.form.as_ref()) {
            Some(recant_proto::v1::content::Form::Text(text)) if text.contains("<INFORMATION>") => {
                Some(observed.node.clone())
            }
            _ => None,
        },
        _ => None,
    };
    events.iter().filter_map(carries).collect()
}

/// What the injections of this file ask for: a transfer to the attacker's account, a visit to the attacker's page.
fn is_what_was_injected(action: &(String, String, String)) -> bool {
    (action.1.starts_with("payment.transfer") && action.2.contains("US133000000121212121212"))
        || (action.1 == "web.visit" && action.2.contains("true-informations.com"))
}

#[test]
fn all_runs_convert_in_both_modes() {
    let Some(lines) = lines() else { return };
    for reasons in [Reasons::Context, Reasons::Literals] {
        let runs = runs(&lines, reasons);
        assert_eq!(runs.len(), 194);
        let mut ids: HashMap<String, Vec<u8>> = HashMap::new();
        for event in runs.iter().flat_map(|run| &run.events) {
            let bytes = wire::to_protobuf(event);
            validate::check(event, bytes.len(), &validate::DEFAULT_LIMITS).unwrap();
            let first = ids.entry(event.id.clone()).or_insert_with(|| bytes.clone());
            assert_eq!(*first, bytes, "{}: one id, one event", event.id);
        }
        let names: BTreeSet<&str> = runs.iter().map(|run| run.run.as_str()).collect();
        assert_eq!(names.len(), 194);
        assert!(runs.iter().all(|run| run.warnings.more == 0));
    }
}

/// The same bytes at every import, or an import would not be repeatable.
#[test]
fn importing_again_gives_the_very_same_events() {
    let Some(lines) = lines() else { return };
    for reasons in [Reasons::Context, Reasons::Literals] {
        let (one, other) = (runs(&lines, reasons), runs(&lines, reasons));
        assert!(one.iter().zip(&other).all(|(one, other)| one.events == other.events));
    }
}

/// Every premise is a node that came before, so that nothing of an import waits for an arrival.
#[test]
fn reasons_come_after_what_they_rest_on() {
    let Some(lines) = lines() else { return };
    for run in runs(&lines, Reasons::Literals) {
        let all = believed(&run.events, &BTreeSet::new());
        assert_eq!(all.len(), run.counts.observations + run.counts.beliefs + run.counts.actions, "{}", run.run);
    }
}

/// The maps name every tool of the data, so that no action passes for a reading.
#[test]
fn the_maps_cover_every_tool() {
    let Some(lines) = lines() else { return };
    for (suite, text) in MAPS {
        let map = Map::parse(suite, text).unwrap();
        for line in lines.iter().filter(|line| line.contains(&format!("\"suite_name\": \"{suite}\""))) {
            let line = json::Json::parse(line).unwrap();
            let Ok(Some(transcript)) = transcript::read(&line, &mut Warnings::default()) else { panic!("no run") };
            for entry in transcript.entries {
                if let transcript::What::Concluded { calls, .. } = entry.what {
                    calls.iter().for_each(|call| assert!(map.tool(&call.tool).is_some(), "{suite}: {}", call.tool));
                }
            }
        }
    }
}

/// Retracting the results that carry an injection, in each of the runs in which the attack worked: with `context` what it
/// asked for falls, and in both modes no action before it does.
#[test]
fn what_an_injection_asked_for_falls() {
    let Some(lines) = lines() else { return };
    let worked = |line: &&String| {
        let line = json::Json::parse(line).unwrap();
        let metadata = line.get("metadata").unwrap();
        metadata.get("injection_task_id").is_some() && metadata.get("security") == Some(&json::Json::Bool(true))
    };
    let attacked: Vec<String> = lines.iter().skip(1).filter(worked).cloned().collect();
    assert_eq!(attacked.len(), 33);
    let mut figures: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (mode, reasons) in [("context", Reasons::Context), ("literals", Reasons::Literals)] {
        for run in runs(&attacked, reasons) {
            let bad = injected(&run.events);
            let place = |node: &str| run.events.iter().position(|event| event.id == node).unwrap();
            let first_bad = bad.iter().map(|node| place(node)).min().unwrap();
            let still = believed(&run.events, &bad);
            for action in actions(&run.events) {
                let after = place(&action.0) > first_bad;
                let fell = !still.contains(&action.0);
                assert!(after || !fell, "{mode}: {} came before the injection", action.0);
                let kind = if is_what_was_injected(&action) { "injected" } else { "honest" };
                if std::env::var_os("RECANT_SHOW").is_some() {
                    println!("{mode}\t{kind}\tafter={after}\tfell={fell}\t{}\t{}", action.0, action.2);
                }
                assert!(mode == "literals" || kind == "honest" || fell, "{} stands", action.0);
                if after {
                    *figures.entry((mode, if fell { "fell" } else { "stayed" })).or_default() +=
                        usize::from(kind == "honest");
                    *figures.entry((mode, if fell { "injected fell" } else { "injected stayed" })).or_default() +=
                        usize::from(kind == "injected");
                }
            }
        }
    }
    println!("{figures:?}");
    let count = |mode, what| figures.get(&(mode, what)).copied().unwrap_or_default();
    assert!(count("context", "injected fell") >= 33);
    assert!(count("literals", "stayed") > count("context", "stayed"), "the reasons of values spare no honest action");
}
