//! The pages that users read: every code has one, and every example in them does what the page says.
//!
//! A code block is marked by what it is: `json event` is accepted as it stands; `json rejected` is rejected with the code
//! that the page is about; `json change` and `json rejection` are messages that recant publishes; `json content` is accepted
//! as the content of an observation.

use std::{collections::BTreeSet, fs, path::PathBuf};

use recant_proto::{
    reject::Code,
    v1::{Change, Rejection},
    wire,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{descriptors, reader};

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn page(name: &str) -> String {
    fs::read_to_string(docs().join(name)).unwrap_or_else(|error| panic!("docs/{name}: {error}"))
}

/// An error without a page leaves its reader alone; a page without an error misleads.
#[test]
fn each_code_has_a_page_and_each_page_a_code() {
    let codes: BTreeSet<String> = Code::ALL.iter().map(|code| format!("{code}.md")).collect();
    let pages: BTreeSet<String> = fs::read_dir(docs().join("errors"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .collect();
    assert_eq!(codes, pages);
    for code in Code::ALL {
        let text = page(&format!("errors/{code}.md"));
        assert_eq!(text.lines().next(), Some(format!("# {code}").as_str()));
        assert!(text.contains("## What to do"), "{code}.md does not say what to do");
    }
}

/// The index has every code once, with the title that errors show.
#[test]
fn the_index_lists_each_code_with_its_title() {
    let index = page("errors/README.md");
    for code in Code::ALL {
        let row = format!("| [`{code}`]({code}.md) | {} |", code.title());
        assert_eq!(index.matches(&row).count(), 1, "README.md lacks the row {row}");
    }
}

#[test]
fn a_code_is_read_as_it_is_written() {
    for code in Code::ALL {
        assert_eq!(Code::parse(code.as_str()), Some(*code));
    }
    assert_eq!(Code::parse("no_such_code"), None);
}

/// An example that does not work is worse than none.
#[test]
fn each_example_in_the_pages_of_errors_does_what_the_page_says() {
    for code in Code::ALL {
        let blocks = code_blocks(&page(&format!("errors/{code}.md")));
        assert!(!blocks.is_empty(), "{code}.md has no example");
        for (mark, text) in blocks {
            match mark.as_str() {
                "json event" => {
                    assert_eq!(reader::fate(text.trim().as_bytes(), None).word(), "accepted", "{code}.md\n{text}")
                }
                "json rejected" => {
                    assert_eq!(reader::fate(text.trim().as_bytes(), None).word(), code.as_str(), "{code}.md\n{text}")
                }
                "text" => {}
                other => panic!("{code}.md: a block is marked {other:?}"),
            }
        }
    }
}

#[test]
fn each_example_in_the_contract_is_what_it_is_said_to_be() {
    let mut bodies = BTreeSet::new();
    for (mark, text) in code_blocks(&page("contract.md")) {
        match mark.as_str() {
            "json event" => {
                assert_eq!(reader::fate(text.trim().as_bytes(), None).word(), "accepted", "{text}");
                bodies.insert(wire::body_name(reader::event(&text).body.as_ref().unwrap()).to_owned());
            }
            "json content" => {
                let event =
                    format!(r#"{{"id":"e","space":"s","observed":{{"node":"n","source":"s","content":{text}}}}}"#);
                assert_eq!(reader::fate(event.as_bytes(), None).word(), "accepted", "{text}");
            }
            "json change" => comes_back::<Change>(&text),
            "json rejection" => comes_back::<Rejection>(&text),
            "json fragment" => {
                drop(serde_json::from_str::<serde_json::Value>(&text).unwrap_or_else(|error| panic!("{error}\n{text}")))
            }
            "text" => {}
            other => panic!("contract.md: a block is marked {other:?}\n{text}"),
        }
    }
    let all: BTreeSet<String> = descriptors::message(&descriptors::messages(), ".recant.v1.Event")
        .unwrap()
        .field
        .iter()
        .filter(|field| field.oneof_index.is_some())
        .map(|field| field.name().to_owned())
        .collect();
    assert_eq!(bodies, all, "contract.md shows each body by an example");
}

/// Examples of what recant publishes are written as recant writes it: nothing absent is shown, nothing is misspelt.
fn comes_back<M: DeserializeOwned + Serialize>(text: &str) {
    let json: serde_json::Value = serde_json::from_str(text).unwrap();
    let message: M = serde_json::from_value(json.clone()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(wire::to_json(&message), json);
}

/// The fields that contract.md tells of are the fields that there are.
#[test]
fn the_contract_names_each_field() {
    let text = page("contract.md");
    for message in descriptors::messages() {
        for field in &message.field {
            assert!(
                text.contains(&format!("`{}`", field.name())),
                "contract.md does not name {}.{}",
                message.name(),
                field.name()
            );
        }
    }
}

/// Vectors for those who write a partitioner.
#[test]
fn the_table_of_partitions_is_right() {
    let text = page("contract.md");
    for space in ["default", "acme", "tenant-42", "记忆"] {
        let partition = recant_proto::names::partition_of(space.as_bytes(), 16);
        assert!(text.contains(&format!("| `{space}` | {partition} |")), "contract.md: | `{space}` | {partition} |");
    }
}

/// The code blocks of a page: what follows the fence, and the text.
fn code_blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(mark), None) => open = Some((mark.to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, text))) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a code block does not end");
    blocks
}
