//! What people see: nothing from a source reaches the terminal but text, colours only where they are welcome, answers to
//! mistakes that say what to do, and where the data is taken from.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    io::BufRead,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::{Command, Stdio},
};

use recant_tests::binary::{Desk, copy_directory, items, path, run, story, text, texts};
use serde_json::json;

/// What an attacker may write: escape sequences of both kinds, bidirectional controls, separators, what nobody can see.
const NASTY: &str = "a\u{1b}[2J\u{1b}]0;owned\u{7}b\u{9b}31mc\u{202e}d\u{2066}e\u{200b}f\u{2028}g\rh\u{8}i\u{0}j\u{7f}k\u{feff}l\u{e0041}m\u{ad}";

/// Whether a character can do more than be seen.
fn acts(character: char) -> bool {
    (character.is_control() && character != '\n')
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}' | '\u{61c}')
}

/// A text without the colours that recant itself puts in.
fn without_colours(text: &str) -> String {
    let mut left = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        left.push_str(&rest[..at]);
        let sequence = &rest[at + 2..];
        let end = sequence.find(|character: char| !character.is_ascii_digit() && character != ';');
        match end {
            // A colour of one of ours: one or two digits, `m`.
            Some(end) if sequence[end..].starts_with('m') && end <= 2 => rest = &sequence[end + 1..],
            _ => {
                left.push('\u{1b}');
                rest = sequence;
            }
        }
    }
    left + rest
}

/// A space in which everything that can be a text is nasty.
fn nasty() -> Desk {
    let desk = Desk::new();
    let named = |prefix: &str| format!("{prefix}{NASTY}");
    let who = |event: &mut serde_json::Value| {
        for member in ["agent", "run", "step"] {
            event[member] = json!(named(member));
        }
    };
    let mut events = vec![
        json!({"id": named("e1"), "source_declared": {"source": named("s"), "kind": NASTY, "name": NASTY}}),
        json!({"id": named("e2"), "observed": {"node": named("o"), "source": named("s"), "subject": NASTY, "content": {"text": NASTY}}}),
        json!({"id": named("e3"), "derived": {"node": named("b"), "kind": "belief", "content": {"text": NASTY},
            "justification": {"id": named("j"), "premises": [named("o")], "rule": {"name": NASTY}}}}),
        json!({"id": named("e4"), "action_proposed": {"action": named("a"), "type": NASTY, "justification": {"premises": [named("b"), named("late")]}}}),
        json!({"id": named("e5"), "retracted": {"retraction": named("r"), "targets": [{"source": named("s")}, {"agent": {"agent": NASTY, "run": NASTY}}],
            "reason": NASTY, "by": NASTY}}),
    ];
    events.iter_mut().for_each(who);
    desk.append(&events);
    // One that the log rejects, and a space with a name of that kind.
    let taken = json!({"id": named("e6"), "observed": {"node": named("b"), "source": named("s")}});
    let file = desk.lines("taken.jsonl", &[taken]);
    desk.run(["append", &file]).exited(1);
    let file = desk.lines("space.jsonl", &[story::observed(NASTY, NASTY, NASTY)]);
    desk.done(["append", &file, "--space", &NASTY.replace('\u{0}', "")]);
    desk
}

#[test]
fn nothing_from_a_source_reaches_the_terminal_but_text() {
    let desk = nasty();
    let argument = |prefix: &str| format!("{prefix}{}", NASTY.replace('\u{0}', ""));
    let taken = desk.path("taken.jsonl").into_os_string().into_string().unwrap();
    let odd =
        desk.file("odd.jsonl", format!("{{\"{}\": 1, \"id\": \"x\"}}\n", NASTY.replace('\u{0}', "").escape_default()));
    let transcript = json!({"run_id": NASTY, "messages": [{"role": "user", "content": NASTY}, {"role": "tool", "content": NASTY}, {"role": NASTY}]});
    let runs = desk.file("runs.jsonl", format!("{transcript}\n{{\"messages\": \"{NASTY}\n"));
    let (node, run_id) = (argument("nobody"), argument("run"));
    let commands: [(&[&str], i32); 19] = [
        (&["list"], 0),
        (&["list", "--sources"], 0),
        (&["list", "--retractions"], 0),
        (&["list", "--spaces"], 0),
        (&["watch", "--from", "earliest", "--until-caught-up"], 0),
        (&["rejected", "list"], 0),
        (&["doctor"], 0),
        (&["retract", "--agent", &argument("agent"), "--preview"], 0),
        (&["explain", &node], 1),
        (&["run", &run_id], 1),
        (&["append", &taken], 1),
        (&["append", &odd], 1),
        (&["import", "chat", &runs], 1),
        (&["reinstate", &node, "--preview"], 0),
        (&["list", "--as-of", &node], 2),
        (&["list", "--cursor", &node], 2),
        (&["watch", "--from", &node], 2),
        (&["list", "--data", &node], 3),
        (&["retract", "--source", "s", "--from", &node], 2),
    ];
    for (arguments, status) in commands {
        for colours in ["0", "1"] {
            let mut command = desk.command(arguments);
            command.env("CLICOLOR_FORCE", colours);
            let told = run(command).exited(status);
            let said = without_colours(&(told.text() + &told.stderr));
            let found: Vec<char> = said.chars().filter(|character| acts(*character)).collect();
            assert!(found.is_empty() && !said.is_empty(), "{arguments:?}: {found:?} in\n{}", said.escape_debug());
        }
        let mut command = desk.command(["--json"]);
        command.args(arguments);
        let told = run(command).exited(status);
        assert!(!(told.text() + &told.stderr).contains(acts), "{arguments:?} as JSON: {}", told.text().escape_debug());
    }
    // In the ids there is a NUL, which no argument can hold; they are explained as premises of what can be named.
    desk.append(&[json!({"id": "e-top", "derived": {"node": "top", "kind": "plan",
        "justification": {"premises": [format!("a{NASTY}"), format!("never-seen{NASTY}")]}}})]);
    let mut command = desk.command(["explain", "top"]);
    command.env("CLICOLOR_FORCE", "1");
    let told = run(command).exited(0).text();
    let said = without_colours(&told);
    assert!(said.chars().all(|character| !acts(character)), "{}", said.escape_debug());
    for word in ["\\u{1b}[2J", "\\u{9b}31m", "\\u{202e}", "\\u{0}"] {
        assert!(said.contains(word), "{word} is shown as an escape in\n{said}");
    }
    // JSON says them as they are.
    assert_eq!(desk.json(["explain", "top"])["nodes"][1]["id"], format!("a{NASTY}"));
}

#[test]
fn colours_are_only_where_they_are_welcome() {
    let desk = Desk::new();
    desk.append(&story::events());
    desk.done(["retract", "--source", "web:portal"]);
    for arguments in [
        &["list"][..],
        &["explain", "a-pay"],
        &["doctor"],
        &["watch", "--from", "earliest", "--until-caught-up"],
        &["--help"],
        &["explain", "nobody"],
    ] {
        let with = |variables: &[(&str, &str)]| {
            let mut command = desk.command(arguments);
            command.envs(variables.iter().copied());
            let told = run(command);
            told.text() + &told.stderr
        };
        let plain = with(&[]);
        assert!(!plain.contains('\u{1b}'), "a pipe is no terminal: {arguments:?}");
        let coloured = with(&[("CLICOLOR_FORCE", "1")]);
        assert!(coloured.contains('\u{1b}'), "{arguments:?} has colours where they are asked for");
        assert_eq!(without_colours(&coloured), plain);
        assert_eq!(with(&[("NO_COLOR", "1"), ("TERM", "xterm-256color")]), plain);
    }
    let mut json = desk.command(["list", "--json"]);
    json.env("CLICOLOR_FORCE", "1");
    assert!(!run(json).text().contains('\u{1b}'), "JSON has none anywhere");
}

/// `recant … | head -1`
#[test]
fn a_reader_that_leaves_is_no_error() {
    let desk = Desk::new();
    let nodes: Vec<_> = (0..3000).map(|node| story::observed(&format!("o-{node}"), "s", "seen")).collect();
    desk.append(&nodes);
    desk.done(["retract", "--source", "s"]);
    for arguments in [
        &["list", "--limit", "3000"][..],
        &["list", "--limit", "3000", "--json"],
        &["watch", "--from", "earliest"],
        &["watch", "--from", "earliest", "--json"],
        &["retract", "--source", "s", "--preview", "--limit", "3000"],
        &["completions", "bash"],
        &["man"],
    ] {
        let mut child = desk.command(arguments).spawn().unwrap();
        let mut first = String::new();
        // The pipe closes with its reader, long before all is written.
        std::io::BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let ended = child.wait_with_output().unwrap();
        assert_eq!(
            (ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()),
            (Some(0), ""),
            "{arguments:?}"
        );
        assert!(!first.is_empty());
    }
}

#[test]
fn completions_the_manual_and_every_help_are_there() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(desk.done(["completions", shell]).contains("until-caught-up"), "{shell}");
    }
    let manual = desk.done(["man"]);
    for word in [".TH recant 1", "Memory that can take things back", "watch", "reinstate"] {
        assert!(manual.contains(word), "{word}");
    }
    let commands = "demo|append|import chat|retract|reinstate|explain|list|watch|run|rejected list|rejected retry|doctor|completions|man";
    for command in commands.split('|') {
        let help = desk.done(command.split(' ').chain(["--help"]));
        assert!(help.contains("Example") && help.contains("recant "), "{command} has an example");
        assert!(help.contains("--json"), "{command} can answer in JSON");
    }
    assert!(desk.done(["--version"]).starts_with("recant "));
    assert!(!desk.path("data").exists(), "none of these needs a log, or makes one");
}

#[test]
fn flags_outrank_the_environment_and_that_the_configuration() {
    let desk = Desk::new();
    for (data, name) in [("by-config", "config"), ("by-environment", "environment"), ("by-flag", "flag")] {
        for space in ["config", "environment", "flag", "default"] {
            let file = desk.lines("one.jsonl", &[story::observed(&format!("{name}/{space}"), "s", "seen")]);
            desk.done(["append", &file, "--data", data, "--space", space]);
        }
    }
    std::fs::create_dir_all(desk.path("home/.config/recant")).unwrap();
    desk.file("home/.config/recant/config.toml", "data = \"by-config\"\nspace = \"config\"\n");
    let other = desk.file("other.toml", "data = \"by-flag\"\n");
    let listed = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = desk.command([&["list", "--json"], arguments].concat());
        command.env_remove("RECANT_DATA").envs(variables.iter().copied());
        texts(items(&run(command).exited(0).document()), "id").join(" ")
    };
    assert_eq!(listed(&[], &[]), "config/config");
    assert_eq!(listed(&[], &[("RECANT_DATA", "by-environment")]), "environment/config");
    assert_eq!(listed(&[], &[("RECANT_SPACE", "environment")]), "config/environment");
    let both = [("RECANT_DATA", "by-environment"), ("RECANT_SPACE", "environment")];
    assert_eq!(listed(&["--data", "by-flag"], &both), "flag/environment");
    assert_eq!(listed(&["--data", "by-flag", "--space", "flag"], &both), "flag/flag");
    assert_eq!(listed(&["--config", &other], &[]), "flag/default");
    assert_eq!(listed(&[], &[("RECANT_CONFIG", &other)]), "flag/default");
    let elsewhere = desk.path("xdg").into_os_string().into_string().unwrap();
    std::fs::create_dir_all(desk.path("xdg/recant")).unwrap();
    desk.file("xdg/recant/config.toml", "data = \"by-environment\"");
    assert_eq!(listed(&[], &[("XDG_CONFIG_HOME", &elsewhere)]), "environment/default");
    // Without any of these it is a directory here.
    let mut command = desk.command(["list"]);
    command.env_remove("RECANT_DATA").env("HOME", "/nonexistent");
    assert!(run(command).exited(3).stderr.contains("recant-data"));

    let wrong = desk.file("wrong.toml", "dta = \"x\"\n");
    assert!(text(&desk.problem(2, "wrong_usage", ["list", "--config", &wrong])["detail"]).contains("dta"));
    desk.problem(2, "io", ["list", "--config", "no-such.toml"]);
    for (name, flag) in [("RECANT_SPACE", "--space"), ("RECANT_DATA", "--data")] {
        let mut command = desk.command(["list"]);
        command.env(name, "");
        let told = run(command).exited(2);
        assert!(told.stderr.contains(flag), "an empty {name} is more likely a slip than a name: {}", told.stderr);
    }
}

#[test]
fn what_is_no_log_is_told_and_left_alone() {
    let desk = Desk::new();
    let readers: [&[&str]; 7] = [
        &["list"],
        &["explain", "a"],
        &["watch", "--until-caught-up"],
        &["run", "r"],
        &["rejected", "list"],
        &["retract", "--source", "s", "--preview"],
        &["reinstate", "r"],
    ];
    let a_file = desk.file("file", "not a directory");
    std::fs::create_dir(desk.path("empty")).unwrap();
    for reader in readers {
        for place in ["absent", "empty", &a_file, "file/below"] {
            let problem = desk.problem(3, "no_log", reader.iter().chain(&["--data", place]));
            let detail = text(&problem["detail"]);
            assert!(
                detail.contains(place) && detail.contains("recant append") && detail.contains("--data"),
                "{detail}"
            );
        }
    }
    for place in ["absent", "empty", &a_file] {
        let report = run(desk.command(["doctor", "--json", "--data", place])).exited(1).document();
        assert_eq!(report["ok"], false);
        assert!(text(&report["checks"][0]["advice"]).contains("--data"));
    }
    assert!(!desk.path("absent").exists(), "reading makes nothing");
    assert_eq!(std::fs::read_dir(desk.path("empty")).unwrap().count(), 0);
    // Nor does a writer that was given nothing to write.
    let directory = desk.path("empty").into_os_string().into_string().unwrap();
    desk.problem(2, "io", ["append", "no-such-file", "--data", "absent"]);
    desk.problem(2, "io", ["append", &directory, "--data", "absent"]);
    assert!(!desk.path("absent").exists());
    let events = desk.lines("events.jsonl", &story::events());
    for place in [&a_file, "file/below"] {
        assert!(desk.run(["append", &events, "--data", place]).exited(3).stderr.contains("file"));
    }
}

#[test]
fn a_damaged_directory_is_told_and_not_made_worse() {
    let good = Desk::new();
    good.append(&story::events());
    let events = good.lines("events.jsonl", &[story::observed("o-more", "s", "more")]);
    for part in ["log", "state/0"] {
        for (damage, content) in [("garbage", "garbage"), ("empty", ""), ("another manifest", "MANIFEST-999999\n")] {
            copy_directory(&good.path("data"), &good.path("damaged"));
            std::fs::write(good.path("damaged").join(part).join("CURRENT"), content).unwrap();
            for arguments in [&["list"][..], &["explain", "a-pay"], &["append", &events], &["retract", "--source", "s"]]
            {
                let told = good.run(arguments.iter().chain(&["--data", "damaged"])).exited(3);
                assert!(told.stderr.contains("damaged/"), "{damage} in {part}: it says where: {}", told.stderr);
                assert!(
                    !told.stderr.contains("try again\n"),
                    "{damage} in {part}: that would not help: {}",
                    told.stderr
                );
            }
            let report = good.run(["doctor", "--data", "damaged"]).exited(1).text();
            let advice = if part == "log" { "recant restore" } else { "recant rebuild" };
            assert!(report.contains(advice), "{damage} in {part}:\n{report}");
            if part == "state/0" {
                // As the doctor says.
                good.done(["rebuild", "--data", "damaged"]);
                good.done(["append", &events, "--data", "damaged"]);
                good.done(["doctor", "--data", "damaged"]);
            }
            std::fs::remove_dir_all(good.path("damaged")).unwrap();
        }
    }
}

#[test]
fn a_directory_that_may_not_be_read_is_told() {
    let desk = Desk::new();
    desk.append(&story::events());
    let binary = desk.path("recant");
    std::fs::copy(path(), &binary).unwrap();
    for (name, mode) in [("", 0o755), ("data", 0o000), ("tmp", 0o777), ("recant", 0o755)] {
        std::fs::set_permissions(desk.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    // Nothing is forbidden to root; then it is done as nobody.
    let nobody = 65_534;
    let is_root = std::fs::read_dir(desk.path("data")).is_ok();
    let events = desk.lines("events.jsonl", &story::events());
    for arguments in
        [&["list"][..], &["append", &events], &["watch", "--until-caught-up"], &["retract", "--source", "s"]]
    {
        let mut command = Command::new(&binary);
        command.args(arguments).current_dir(desk.path("")).env_clear().env("RECANT_DATA", desk.path("data"));
        command.env("TMPDIR", desk.path("tmp")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if is_root {
            command.uid(nobody).gid(nobody);
        }
        let told = run(command).exited(3);
        assert!(told.stderr.to_lowercase().contains("permission denied"), "{arguments:?}: {}", told.stderr);
    }
    std::fs::set_permissions(desk.path("data"), std::fs::Permissions::from_mode(0o755)).unwrap();
}
