//! The ids of nodes that were looked up or given lately: what is justified next mostly rests on them, and a lookup in the
//! store costs more than the rest of an event.

use hashbrown::HashMap;
use recant_proto::id::ID_BYTES_MAX;

use crate::{
    justification::{digest::first_half, graph::Node},
    tables::SpaceNumber,
};

/// So many ids in each of two generations: 32 bytes each.
const GENERATION_MAX: usize = 1 << 17;

/// Ids, by the start of their BLAKE3 hash with their space.
#[derive(Debug, Default)]
pub(crate) struct KnownIds {
    young: HashMap<[u8; 16], Node>,
    old: HashMap<[u8; 16], Node>,
}

impl KnownIds {
    /// The node of an id, if it is known here.
    pub(super) fn get(&self, space: SpaceNumber, id: &str) -> Option<Node> {
        let key = key(space, id);
        self.young.get(&key).or_else(|| self.old.get(&key)).copied()
    }

    /// Takes in the node of an id.
    pub(super) fn insert(&mut self, space: SpaceNumber, id: &str, node: Node) {
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key(space, id), node);
    }
}

fn key(space: SpaceNumber, id: &str) -> [u8; 16] {
    // What is longer is no id, and hashed all the same.
    let mut bytes = [0; 4 + ID_BYTES_MAX];
    let length = 4 + id.len();
    let hash = match bytes.get_mut(..length) {
        Some(place) => {
            place[..4].copy_from_slice(&space.0.to_be_bytes());
            place[4..].copy_from_slice(id.as_bytes());
            blake3::hash(place)
        }
        None => blake3::hash(&[space.0.to_be_bytes().as_slice(), id.as_bytes()].concat()),
    };
    first_half(&hash)
}
