//! Which snapshots stay.

use std::collections::{BTreeMap, BTreeSet};

use super::{FILE_GRACE_MS, Keep, SnapshotError, SnapshotName, Snapshots, StateManifest};

impl Snapshots {
    /// Removes the snapshots of a partition that are not to be kept, and the files that no other has. Gives the position of the
    /// oldest that is left. While there is one that cannot be read, nothing goes: it may be damaged, or a newer version's, and which
    /// files it has is not known; nor does it count as one that is kept.
    pub fn clear_away(&self, partition: u32, keep: Keep, now_ms: i64) -> Result<Option<u64>, SnapshotError> {
        let names = self.names(partition)?;
        let mut files_of = BTreeMap::new();
        for name in &names {
            match StateManifest::read(&self.remote.get(&name.path)?, &self.incarnation.to_string(), partition) {
                Ok(manifest) => files_of.insert(name.path.clone(), manifest.files),
                Err(detail) => {
                    tracing::warn!(partition, snapshot = name.path, detail, "nothing is cleared away beside it");
                    return Ok(names.last().map(|oldest| oldest.next_offset));
                }
            };
        }
        let (kept, superfluous) = divide(names, keep, now_ms);
        for name in &superfluous {
            self.remote.remove(&name.path)?;
            files_of.remove(&name.path);
        }
        let needed: BTreeSet<String> = files_of.into_values().flatten().map(|file| file.blake3).collect();
        for found in self.remote.list(&self.directory(partition, "files"))? {
            let is_needed = found.path.rsplit('/').next().is_some_and(|name| needed.contains(name));
            if !is_needed && found.written_at_ms + FILE_GRACE_MS < now_ms {
                self.remote.remove(&found.path)?;
            }
        }
        Ok(kept.last().map(|oldest| oldest.next_offset))
    }
}

/// Those that are kept, and those that are not; the newest comes first.
fn divide(names: Vec<SnapshotName>, keep: Keep, now_ms: i64) -> (Vec<SnapshotName>, Vec<SnapshotName>) {
    let numbered = names.into_iter().enumerate();
    let (kept, others): (Vec<_>, Vec<_>) =
        numbered.partition(|(number, name)| *number < keep.count.max(1) || name.made_at_ms + keep.age_ms > now_ms);
    let names = |numbered: Vec<(usize, SnapshotName)>| numbered.into_iter().map(|(_, name)| name).collect();
    (names(kept), names(others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stay_and_the_young() {
        let name = |next_offset, made_at_ms| SnapshotName { path: String::new(), next_offset, made_at_ms };
        let names = vec![name(9, 90), name(7, 70), name(5, 50), name(3, 30)];
        let kept = |count, age_ms| divide(names.clone(), Keep { count, age_ms }, 100).0.len();
        assert_eq!([kept(0, 0), kept(1, 0), kept(3, 0), kept(9, 0)], [1, 1, 3, 4]);
        assert_eq!([kept(1, 10), kept(1, 31), kept(1, 71)], [1, 2, 4]);
    }
}
