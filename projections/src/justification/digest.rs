//! The state digest of a space: a sum modulo 2^128 of commitments times weights, so that a change of status costs one
//! multiplication and one addition. The specification is in `docs/contract.md`.
//!
//! It guards against accident and bugs, not against an attacker: whoever knows the key can make two states collide.

use prost::Message;
use recant_proto::v1::{Content, SourceDeclared, Target};

/// The key of a log that names none.
const PUBLISHED_KEY_CONTEXT: &str = "recant 2026 state digest v1";

/// Makes commitments: keyed hashes of identity and content.
#[derive(Debug, Clone)]
pub struct Committer {
    key: [u8; 32],
}

/// What a node commits to.
#[derive(Debug, Clone, Copy)]
pub struct NodeIdentity<'a> {
    /// The node's id.
    pub id: &'a str,
    /// `observation`, `belief`, `plan`, `action`.
    pub kind: &'a str,
    /// The subject, or empty.
    pub subject: &'a str,
    /// The source of an observation, else empty.
    pub source: &'a str,
    /// `observed_at` of an observation, else empty.
    pub observed_at: &'a str,
    /// The content.
    pub content: Option<&'a Content>,
    /// Type, amount and currency of an action, else empty.
    pub action: [&'a str; 3],
}

impl Committer {
    /// With the key of `LogCreated`, or the published one.
    pub fn new(key: &[u8]) -> Committer {
        let key = key.try_into().unwrap_or_else(|_| blake3::derive_key(PUBLISHED_KEY_CONTEXT, b""));
        Committer { key }
    }

    /// The commitment of a node.
    pub fn node(&self, identity: NodeIdentity<'_>) -> u128 {
        let content = identity.content.map(Message::encode_to_vec).unwrap_or_default();
        let [action_type, amount, currency] = identity.action;
        self.commit(
            "node",
            [
                identity.id.as_bytes(),
                identity.kind.as_bytes(),
                identity.subject.as_bytes(),
                identity.source.as_bytes(),
                identity.observed_at.as_bytes(),
                &content,
                action_type.as_bytes(),
                amount.as_bytes(),
                currency.as_bytes(),
            ],
        )
    }

    /// The commitment of a justification: id, head, agent and run, then the premises, distinct and in byte order.
    pub fn justification<'a>(&self, own: [&'a str; 4], premises: impl Iterator<Item = &'a str>) -> u128 {
        self.commit("justification", own.into_iter().chain(premises).map(str::as_bytes))
    }

    /// The commitment of a source as it is known now.
    pub fn source(&self, source: &SourceDeclared) -> u128 {
        self.commit("source", [source.source.as_bytes(), &source.encode_to_vec()])
    }

    /// The commitment of a retraction that stands.
    pub fn retraction(&self, id: &str, targets: &[Target]) -> u128 {
        let targets: Vec<Vec<u8>> = targets.iter().map(Message::encode_to_vec).collect();
        self.commit("retraction", [id.as_bytes()].into_iter().chain(targets.iter().map(Vec::as_slice)))
    }

    fn commit<'a>(&self, tag: &'a str, parts: impl IntoIterator<Item = &'a [u8]>) -> u128 {
        // Hashed at once: for a few hundred bytes a hasher that is fed costs more than what it does.
        let mut bytes = Vec::with_capacity(512);
        for part in [tag.as_bytes()].into_iter().chain(parts) {
            // Parts are parts of an event, which is far below 4 GiB.
            bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        u128::from_le_bytes(first_half(&blake3::keyed_hash(&self.key, &bytes)))
    }
}

/// The first 16 bytes of a hash.
pub(crate) fn first_half(hash: &blake3::Hash) -> [u8; 16] {
    std::array::from_fn(|index| hash.as_bytes()[index])
}

/// The weight of a node that has arrived.
#[inline]
pub fn node_weight(is_in: bool) -> u128 {
    if is_in { 1 } else { 2 }
}

/// The weight of a justification.
#[inline]
pub fn justification_weight(is_covered: bool) -> u128 {
    if is_covered { 2 } else { 1 }
}

/// A digest as it is written.
pub fn to_hex(digest: u128) -> String {
    format!("{digest:032x}")
}

/// Bytes, such as those of a hash, as they are written.
pub fn to_hex_bytes(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
