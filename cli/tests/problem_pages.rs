//! Every code that the command line and the gateway can say has a page in `docs/problems`, and no page is without a code.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The first string literal after each of the calls that make a problem.
fn codes_in(text: &str) -> Vec<String> {
    let calls = ["Problem::new(", "could_not("];
    let after = calls.iter().flat_map(|call| text.match_indices(call).map(|(at, call)| &text[at + call.len()..]));
    let arguments = after.filter_map(|rest| {
        let arguments = rest.get(..rest.find(';').unwrap_or(rest.len()))?;
        arguments.split('"').nth(1)
    });
    let is_code = |code: &&str| !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    arguments.filter(is_code).map(str::to_owned).collect()
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    sources(&root.join("../gateway/src"), &mut files);
    let codes: BTreeSet<String> = files.iter().flat_map(|file| codes_in(&fs::read_to_string(file).unwrap())).collect();
    assert!(codes.len() > 15, "{codes:?}");

    let pages = root.join("../docs/problems");
    let index = fs::read_to_string(pages.join("README.md")).unwrap();
    let mut written = BTreeSet::new();
    for entry in fs::read_dir(&pages).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(code) = name.strip_suffix(".md").filter(|code| *code != "README") {
            let page = fs::read_to_string(pages.join(&name)).unwrap();
            assert_eq!(page.lines().next(), Some(format!("# {code}").as_str()));
            assert!(page.contains("## What to do"), "{name}");
            assert!(index.contains(&format!("({name})")), "{name} is not in the index");
            written.insert(code.to_owned());
        }
    }
    assert_eq!(codes, written);
}
