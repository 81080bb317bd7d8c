//! The state digest, version 1: DESIGN 7. A sum modulo 2^128 over nodes, justifications, sources and standing
//! retractions of a keyed commitment to each times a weight for its status.

use prost::Message;

use super::{Justification, Node, Space, Standing};

impl Space {
    pub(super) fn digest(&self, key: &[u8; 32]) -> u128 {
        let covered = self.covered_justifications();
        let mut sum: u128 = 0;
        let mut add = |weight: u128, tag: &str, parts: &[&[u8]]| {
            let mut bytes: Vec<u8> = Vec::new();
            for part in [tag.as_bytes()].iter().chain(parts) {
                bytes.extend((part.len() as u32).to_le_bytes());
                bytes.extend(*part);
            }
            let hash = blake3::keyed_hash(key, &bytes);
            let low =
                hash.as_bytes().iter().take(16).rev().fold(0, |number: u128, byte| number << 8 | u128::from(*byte));
            sum = sum.wrapping_add(low.wrapping_mul(weight));
        };
        for (id, Node { identity, .. }) in &self.nodes {
            let weight = if self.standings.get(id) == Some(&Standing::In) { 1 } else { 2 };
            let [kind, amount, currency] = &identity.action;
            let texts =
                [id, &identity.kind, &identity.subject, &identity.source, &identity.observed_at].map(String::as_bytes);
            let action = [kind, amount, currency].map(String::as_bytes);
            add(weight, "node", &[texts.as_slice(), &[&identity.content], &action].concat());
        }
        for (id, Justification { head, premises, written }) in &self.justifications {
            let weight = if covered.contains(id.as_str()) { 2 } else { 1 };
            let texts = [id, head, &written.agent, &written.run].into_iter().chain(premises);
            add(weight, "justification", &texts.map(String::as_bytes).collect::<Vec<_>>());
        }
        for (id, source) in &self.sources {
            add(1, "source", &[id.as_bytes(), &source.encode_to_vec()]);
        }
        for (id, targets) in self.standing_retractions() {
            let targets = targets.iter().map(|target| target.encoded.as_slice());
            add(1, "retraction", &[id.as_bytes()].into_iter().chain(targets).collect::<Vec<_>>());
        }
        sum
    }
}
