//! The same command gives the same output, whether it reads a directory or asks a server.

use recant_tests::{
    binary::{Desk, number, story, texts},
    served::Server,
};
use serde_json::json;

/// The same command gives the same output, whether it reads a directory or asks a server.
#[tokio::test]
async fn commands_say_the_same_of_a_server_as_of_its_directory() {
    let desk = Desk::new();
    let server = Server::start(&desk);
    let asked = |arguments: &[&str]| {
        let mut command = desk.command(arguments);
        command.env("RECANT_URL", &server.url);
        recant_tests::binary::run(command)
    };
    let mut events = story::events();
    events.push(json!({"id": "e-portal", "observed": {"node": "o-other", "source": "web:portal", "content": {"text": "other"}}}));
    events.push(json!({"id": "e-nothing"}));
    let file = desk.lines("events.jsonl", &events);
    let summary = asked(&["append", &file, "--json"]).exited(1).document();
    assert_eq!(["accepted", "rejected"].map(|fate| number(&summary[fate])), [story::events().len() as u64, 2]);
    // What is no event is refused here, and at once; the other by the server.
    assert_eq!(texts(summary["rejections"].as_array().unwrap(), "type"), ["missing_body", "event_id_taken"]);
    assert_eq!(number(&summary["rejections"][1]["line"]), events.len() as u64 - 1);

    let preview = ["retract", "--source", "web:portal", "--by", "kim", "--id", "r-1", "--preview"];
    let [remote, local] = [asked(&preview).exited(0).text(), desk.done(preview)];
    assert_eq!(remote, local, "for people, too");
    asked(&["retract", "--source", "web:portal", "--by", "kim", "--id", "r-1"]).exited(0);
    for arguments in [
        &["list"][..],
        &["list", "--limit", "3"],
        &["list", "--status", "out", "--kind", "action"],
        &["list", "--sources"],
        &["list", "--retractions"],
        &["list", "--as-of", "0:11"],
        &["explain", "a-pay"],
        &["explain", "a-pay", "--limit", "2"],
        &["rejected", "list"],
        &["watch", "--from", "earliest", "--until-caught-up"],
        &["watch", "--from", "earliest", "--until-caught-up", "--kind", "action"],
    ] {
        for arguments in [arguments.to_vec(), [arguments, &["--json"]].concat()] {
            assert_eq!(asked(&arguments).exited(0).text(), desk.done(&arguments), "{arguments:?}");
        }
    }
    assert_eq!(asked(&["explain", "no-such-node"]).exited(1).stderr, desk.run(["explain", "no-such-node"]).stderr);
    assert!(asked(&["retract", "--node", "a-mail", "--id", "r-1"]).exited(1).stderr.contains("taken"));
    assert!(asked(&["doctor"]).exited(2).stderr.contains("--url"));
    assert_eq!(asked(&["reinstate", "r-1", "--json"]).exited(0).document()["changed"], 5);
    assert_eq!(server.end(), 0);
    assert!(asked_nobody(&desk).contains("unreachable"));
}

/// What a command says where nobody listens.
fn asked_nobody(desk: &Desk) -> String {
    let mut command = desk.command(["list", "--url", "http://127.0.0.1:1"]);
    command.env_remove("RECANT_DATA");
    recant_tests::binary::run(command).exited(3).stderr
}
