//! Topics, headers, and the partition of a space: the names that every Kafka client can rely on.

/// What agents wrote, and retractions: the truth.
pub const EVENTS: &str = "recant.events";
/// Cascades, decisions, digests.
pub const CHANGES: &str = "recant.changes";
/// Events that could not be applied.
pub const REJECTED: &str = "recant.rejected";
/// Which process serves which partition.
pub const MEMBERS: &str = "recant.members";
/// How far named subscriptions have come.
pub const SUBSCRIPTIONS: &str = "recant.subscriptions";

/// The CloudEvents header that holds the event's id.
pub const CE_ID: &str = "ce_id";
/// The CloudEvents header that holds the type, `recant.v1.` and the body's name.
pub const CE_TYPE: &str = "ce_type";
/// The CloudEvents header that holds the version of CloudEvents.
pub const CE_SPECVERSION: &str = "ce_specversion";
/// The CloudEvents header that holds who wrote it: for what recant publishes, `urn:recant:` and the log's incarnation.
pub const CE_SOURCE: &str = "ce_source";
/// The version of CloudEvents that recant writes.
pub const CE_VERSION: &str = "1.0";
/// The type of a record of `recant.changes`.
pub const CE_TYPE_CHANGE: &str = "recant.v1.change";
/// The type of a record of `recant.rejected`.
pub const CE_TYPE_REJECTION: &str = "recant.v1.rejection";
/// The media type of the value.
pub const CONTENT_TYPE: &str = "content-type";
/// W3C trace context, carried through to what the event causes.
pub const TRACEPARENT: &str = "traceparent";

/// The media type of a protobuf value.
pub const PROTOBUF: &str = "application/protobuf";
/// The media type of a JSON value.
pub const JSON: &str = "application/json";

/// The partition of a key among `partitions`, as the Java client's default partitioner has it.
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % partitions.max(1)
}

/// MurmurHash2 with Kafka's seed (`org.apache.kafka.common.utils.Utils.murmur2`).
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c_u32 ^ data.len() as u32;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::murmur2;

    /// The vectors of Kafka's own `UtilsTest.testMurmur2`.
    #[test]
    fn murmur2_is_kafkas() {
        for (text, hash) in [
            ("21", -973932308_i32),
            ("foobar", -790332482),
            ("a-little-bit-long-string", -985981536),
            ("a-little-bit-longer-string", -1486304829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
            ("abc", 479470107),
        ] {
            assert_eq!(murmur2(text.as_bytes()) as i32, hash, "{text}");
        }
    }
}
