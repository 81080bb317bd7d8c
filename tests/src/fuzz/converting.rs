//! Reading transcripts and map files.

use std::sync::LazyLock;

use recant_proto::{
    validate::{self, DEFAULT_LIMITS},
    wire,
};

use super::{
    files,
    import::{ImportOptions, Line, Reasons, events_of_line, map::Map},
};

static MAP: LazyLock<Map> = LazyLock::new(|| {
    let mut map = Map::default();
    for text in map_examples() {
        let text = String::from_utf8(text).expect("a map is text");
        map.merge("example", Map::parse("example", &text).expect("the examples are right")).expect("they do not clash");
    }
    map
});

/// Imports a line in both modes, and twice: whatever it is, it becomes valid events, always the same.
pub(super) fn import(bytes: &[u8]) {
    for reasons in [Reasons::Context, Reasons::Literals] {
        let options = ImportOptions { space: "s".to_owned(), reasons, map: MAP.clone(), run_prefix: None };
        let first = events_of_line(1, bytes, &options);
        let Ok(Line::Run(run)) = &first else {
            if let Err(error) = first {
                assert!(error.to_string().len() < 4096, "{} bytes", error.to_string().len());
                let is_own_mistake = matches!(error.problem, super::import::LineProblem::Invalid { .. });
                assert!(!is_own_mistake, "{error}");
            }
            continue;
        };
        for event in &run.events {
            let bytes = wire::to_protobuf(event);
            assert_eq!(validate::check(event, bytes.len(), &DEFAULT_LIMITS), Ok(()), "{event:?}");
        }
        let Ok(Line::Run(again)) = events_of_line(9, bytes, &options) else { panic!("imported once, and then not") };
        assert_eq!(again.events, run.events);
    }
}

pub(super) fn import_examples() -> Vec<Vec<u8>> {
    let lines = [
        r#"{"id":"r-1","model":"m","user":"kim","messages":[{"role":"system","content":"Be exact."},{"role":"user","content":"Pay the bill in bill.txt"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read_file","arguments":"{\"file_path\": \"bill.txt\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"Account DE89370400440532013000, amount 98.70 EUR"},{"role":"assistant","content":"I pay.","tool_calls":[{"id":"c2","function":{"name":"send_money","arguments":{"recipient":"DE89370400440532013000","amount":98.70,"subject":"bill","date":"2026-01-01"}}}]},{"role":"tool","tool_call_id":"c2","content":"ok"}]}"#,
        r#"{"system":"You are a help.","messages":[{"role":"user","content":[{"type":"text","text":"Look"},{"type":"image_url","image_url":{"url":"x"}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"tool_use","id":"t","name":"get_webpage","input":{"url":"www.a.example"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","is_error":true,"content":[{"type":"text","text":"1,234.50 and 1.234,50"}]}]}]}"#,
        r#"{"messages":[{"role":"assistant","function_call":{"name":"f","arguments":"{broken"}},{"role":"function","name":"f","content":"12"},{"role":"tool","content":"nobody asked"},{"role":"narrator","content":7}],"timestamp":"2026-01-01T00:00:00Z"}"#,
        r#"{"messages":[]}"#,
        r#"{"messages":{"role":"user"}}"#,
        "",
    ];
    lines.into_iter().map(|line| line.as_bytes().to_vec()).collect()
}

/// Reads a map, and joins it with another.
pub(super) fn maps(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Map::parse("a map", text) {
        Err(error) => {
            assert!(error.line >= 1 && error.column >= 1, "{error}");
            assert!(error.to_string().len() <= 4096 + 2 * text.len());
        }
        Ok(map) => {
            assert_eq!(Map::parse("a map", text), Ok(map.clone()));
            let mut joined = MAP.clone();
            if joined.merge("a map", map.clone()).is_ok() {
                let mut alone = Map::default();
                assert!(alone.merge("a map", map.clone()).is_ok());
                assert_eq!(alone, map);
            }
        }
    }
}

pub(super) fn map_examples() -> Vec<Vec<u8>> {
    files("examples/maps", ".toml")
}
