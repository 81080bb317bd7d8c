//! The binary heads of rows that are many and read often: numbers big endian, texts behind their length.

use recant_proto::time::Instant;

/// Writes a head.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn number<const N: usize>(&mut self, bytes: [u8; N]) {
        self.0.extend(bytes);
    }

    /// One more than a number, or 0 for none.
    pub(super) fn optional(&mut self, number: Option<u32>) {
        self.number(number.map_or(0, |number| number + 1).to_be_bytes());
    }

    pub(super) fn instant(&mut self, instant: Instant) {
        let (seconds, nanos) = instant.to_seconds();
        self.number(seconds.to_be_bytes());
        self.number(nanos.to_be_bytes());
    }

    /// A text of an id's length, which is at most 256 bytes.
    pub(super) fn text(&mut self, text: &str) {
        self.number((text.len() as u16).to_be_bytes());
        self.0.extend(text.as_bytes());
    }
}

/// Reads a head; what follows it is left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.bytes().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_be_bytes)
    }

    pub(super) fn optional(&mut self) -> Option<Option<u32>> {
        self.u32().map(|number| number.checked_sub(1))
    }

    pub(super) fn instant(&mut self) -> Option<Instant> {
        let seconds = self.bytes().map(i64::from_be_bytes)?;
        Some(Instant::from_seconds(seconds, self.u32()?))
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        let length = self.bytes().map(u16::from_be_bytes)?;
        let (text, rest) = self.0.split_at_checked(usize::from(length))?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }
}
