//! Damage to examples, as proptest makes and shrinks it: bytes turned over, taken out, put in and repeated; parts of one
//! example in another; lengths and numbers beyond all measure; nesting; cuts.

use proptest::{collection, prelude::*, sample::Index};

/// One change to some bytes.
#[derive(Debug, Clone)]
pub enum Mutation {
    /// Bits of one byte are turned over.
    Flip(Index, u8),
    /// Bytes are put in.
    Insert(Index, Vec<u8>),
    /// Bytes are taken out.
    Remove(Index, usize),
    /// A part is repeated.
    Repeat(Index, usize, usize),
    /// Part of another example is put in.
    Splice(Index, Index, Index, usize),
    /// The bytes end here.
    Cut(Index),
    /// A word is put in, or in the place of as many bytes.
    Word(Index, &'static [u8], bool),
    /// A word is put in very often.
    Nest(Index, &'static [u8], usize),
}

/// Lengths and numbers at and beyond their ends, and what has a meaning somewhere.
const WORDS: [&[u8]; 36] = [
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\x80\x00\x00\x00\x00\x00\x00\x00",
    b"\x00\x00\x00\x00",
    b"\x00",
    b"\xed\xa0\x80",
    b"\xc0\xaf",
    b"\xe2\x80\xae",
    b"\\ud800",
    b"\\u0000",
    b"null",
    b"true",
    b"-0",
    b"1e999",
    b"-1",
    b"0.1",
    b"18446744073709551615",
    b"18446744073709551616",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"4294967296",
    b"\"",
    b"\\",
    b",",
    b":",
    b"{}",
    b"[]",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"9999-12-31T23:59:60Z",
    b"0000-01-01T00:00:00+23:59",
    b"recant.control",
    b"\"must_understand\":true,",
];

const NESTING: [&[u8]; 10] =
    [b"[", b"{\"a\":", b"{\"messages\":[", b"\x0b", b"\xa3\x01", b"\x12\x01", b"[[a]]\n", b"a.", b"{", b"\""];

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<Index>;
    prop_oneof![
        6 => (index(), 1..=u8::MAX).prop_map(|(at, mask)| Mutation::Flip(at, mask)),
        2 => (index(), collection::vec(any::<u8>(), 1..12)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        3 => (index(), 1..40_usize).prop_map(|(at, length)| Mutation::Remove(at, length)),
        2 => (index(), 1..80_usize, 1..60_usize).prop_map(|(at, length, times)| Mutation::Repeat(at, length, times)),
        3 => (index(), index(), index(), 1..200_usize)
            .prop_map(|(at, other, from, length)| Mutation::Splice(at, other, from, length)),
        1 => index().prop_map(Mutation::Cut),
        4 => (index(), proptest::sample::select(&WORDS[..]), any::<bool>())
            .prop_map(|(at, word, over)| Mutation::Word(at, word, over)),
        1 => (index(), proptest::sample::select(&NESTING[..]), 1..4_000_usize)
            .prop_map(|(at, word, times)| Mutation::Nest(at, word, times)),
    ]
}

impl Mutation {
    fn apply(&self, bytes: &mut Vec<u8>, examples: &[Vec<u8>]) {
        let end = bytes.len();
        let mut insert = |at: &Index, new: &[u8]| {
            let at = at.index(end + 1);
            bytes.splice(at..at, new.iter().copied());
        };
        match self {
            Mutation::Flip(at, mask) => {
                if end > 0 {
                    bytes[at.index(end)] ^= mask;
                }
            }
            Mutation::Insert(at, new) => insert(at, new),
            Mutation::Remove(at, length) => {
                let at = at.index(end + 1);
                bytes.drain(at..end.min(at + length));
            }
            Mutation::Repeat(at, length, times) => {
                let from = at.index(end + 1);
                let part = bytes[from..end.min(from + length)].repeat(*times);
                bytes.splice(from..from, part);
            }
            Mutation::Splice(at, other, from, length) => {
                let other = &examples[other.index(examples.len())];
                let from = from.index(other.len() + 1);
                insert(at, &other[from..other.len().min(from + length)]);
            }
            Mutation::Cut(at) => bytes.truncate(at.index(end + 1)),
            Mutation::Word(at, word, false) => insert(at, word),
            Mutation::Word(at, word, true) => {
                let at = at.index(end + 1);
                bytes.splice(at..end.min(at + word.len()), word.iter().copied());
            }
            Mutation::Nest(at, word, times) => insert(at, &word.repeat(*times)),
        }
    }
}

/// Inputs: damaged examples, a few of them whole, and bytes that are no example at all.
pub fn inputs(examples: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let damaged = (any::<Index>(), collection::vec(mutation(), 0..6)).prop_map(move |(which, mutations)| {
        let mut bytes = examples[which.index(examples.len())].clone();
        mutations.iter().for_each(|mutation| mutation.apply(&mut bytes, &examples));
        bytes
    });
    prop_oneof![12 => damaged, 1 => collection::vec(any::<u8>(), 0..300)]
}
