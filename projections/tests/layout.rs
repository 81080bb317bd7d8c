//! The layout of state on disk, frozen: keys of every table, and the values that are not protobuf. A change here is a new
//! format version, since directories that users have would be read wrongly.

use recant_projections::{
    justification::graph::{Justification, Node},
    tables::{
        SpaceNumber, Table, actions, events,
        ids::{self, Namespace},
        justification_covers, justifications, moved, moves, node_states, nodes, partition, retractions, said, segments,
        source_history, sources, times, uses,
    },
};
use recant_proto::id::Standing;

const SPACE: SpaceNumber = SpaceNumber(0x0102_0304);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn tables_keep_their_names() {
    let names: Vec<&str> = Table::ALL.iter().map(|table| table.name()).collect();
    let frozen = "partition spaces events ids nodes node_states justifications justification_covers sources \
                  source_history retractions actions moves moved times uses written said segments";
    assert_eq!(names.join(" "), frozen);
    assert_eq!((partition::FORMAT_VERSION, partition::LOGIC_VERSION), (3, 1));
}

#[test]
fn keys_keep_their_layout() {
    let justification = Justification::new(7);
    for (key, frozen) in [
        (partition::KEY.to_vec(), "7374617465"),
        (nodes::key(SPACE, Node(5)), "0102030400000005"),
        (node_states::key(SPACE, Node(5)), "0102030400000005"),
        (actions::key(SPACE, Node(5)), "0102030400000005"),
        (justifications::key(SPACE, justification), "0102030400000007"),
        (justification_covers::key(SPACE, justification), "0102030400000007"),
        (sources::key(SPACE, 9), "0102030400000009"),
        (source_history::key(SPACE, 9, 258), "01020304000000090000000000000102"),
        (retractions::key(SPACE, 9), "0102030400000009"),
        (moves::key(SPACE, 258, Node(5)), "01020304000000000000010200000005"),
        (uses::key(SPACE, uses::block(Node(1025)), 3), "010203040000000100000003"),
        (moved::key(SPACE, moved::block(Node(1023)), 3), "010203040000000000000003"),
        (said::key(SPACE, 9, 3), "010203040000000900000003"),
        (said::late_key(SPACE, 9, Node(5)), "0102030400000009ffffffff00000005"),
        (segments::key(SPACE), "01020304"),
        (ids::key(SPACE, Namespace::Node, "a@b"), "010203046e614062"),
        (ids::key(SPACE, Namespace::Justification, "é"), "010203046ac3a9"),
        (ids::key(SPACE, Namespace::Source, "s"), "010203047373"),
        (ids::key(SPACE, Namespace::Retraction, "r"), "010203047272"),
        // The first 16 bytes of BLAKE3 of "e".
        (events::key(SPACE, "e"), "0102030427bb492e108bf5e9c724176d7ae75d4c"),
        (times::key(-1), "7fffffffffffffff"),
        (times::key(1), "8000000000000001"),
    ] {
        assert_eq!(hex(&key), frozen);
    }
}

#[test]
fn values_keep_their_layout() {
    let row = node_states::Row {
        standing: Standing::Unsupported,
        rank: 0x0102,
        home: 3,
        support: Some(Justification::new(4)),
        covers: 6,
        newest_justification: Some(Justification::new(7)),
    };
    assert_eq!(hex(&row.encode()), "02000000000000010200000003000000050000000600000008");
    let entry = moves::Entry { node: Node(8), moved_from: Some(Standing::In), state: row };
    let rows = moves::rows(SPACE, 258, 1, &moves::Cause { event: "e".into(), ..moves::Cause::default() }, &[entry]);
    let state = hex(&row.encode());
    assert_eq!(hex(&rows[0].1), format!("000000000000000100030a01650000000800{state}"));
    assert_eq!(hex(&times::value(258)), "0000000000000102");
    assert_eq!(justification_covers::value(2).map(|value| hex(&value)).as_deref(), Some("00000002"));
    assert_eq!(justification_covers::value(0), None);
}
