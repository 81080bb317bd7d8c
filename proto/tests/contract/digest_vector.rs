//! The vector of the state digest in `docs/contract.md`, computed from its text alone: the engine has its own code.

use std::fs;

use prost::Message;
use recant_proto::v1::{Content, SourceDeclared, content::Form};

/// Protects those who compute a digest from the contract, in any language.
#[test]
fn the_vector_in_the_contract_is_right() {
    let text = Content { form: Some(Form::Text("hello".to_owned())), ..Content::default() }.encode_to_vec();
    let node = commitment("node", &[b"n-1", b"observation", b"", b"s-1", b"", &text, b"", b"", b""]);
    let declared = SourceDeclared { source: "s-1".to_owned(), ..SourceDeclared::default() }.encode_to_vec();
    let source = commitment("source", &[b"s-1", &declared]);
    let contract = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/contract.md")).unwrap();
    for (name, number) in
        [("node, weight 1", node), ("source, weight 1", source), ("digest", node.wrapping_add(source))]
    {
        let row = format!("| {name} | `{number:032x}` |");
        assert!(contract.contains(&row), "contract.md lacks the row {row}");
    }
}

fn commitment(tag: &str, parts: &[&[u8]]) -> u128 {
    let mut message = Vec::new();
    for part in [&[tag.as_bytes()], parts].concat() {
        message.extend((part.len() as u32).to_le_bytes());
        message.extend(part);
    }
    let key = blake3::derive_key("recant 2026 state digest v1", b"");
    let hash = blake3::keyed_hash(&key, &message);
    u128::from_le_bytes(*hash.as_bytes().first_chunk().unwrap())
}
