//! A record of `recant.events` as it is folded: what the log lends and the state takes, neither of which knows the other.

/// A record of `recant.events`.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// Its offset in its partition.
    pub offset: u64,
    /// When the log took it, in ms.
    pub append_time_ms: i64,
    /// Its key.
    pub key: &'a [u8],
    /// Its headers.
    pub headers: &'a [(String, Vec<u8>)],
    /// Its value.
    pub value: &'a [u8],
}
