//! Who may do what.
//!
//! Every handler has a [`Caller`], and asks it one question before it touches a space.

/// What a caller may do in a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Ask, and follow.
    Read,
    /// Append what is no retraction.
    Write,
    /// Retract and reinstate.
    Retract,
    /// Say what only an operator can.
    Operate,
}

/// Whether an address may be listened on: one that other machines do not reach.
pub fn may_listen(address: std::net::SocketAddr) -> bool {
    address.ip().is_loopback()
}

/// Who asks.
#[derive(Debug, Clone, Default)]
pub struct Caller {}

impl Caller {
    /// Whoever reaches a loopback address of a machine that has no tokens.
    pub fn of_this_machine() -> Caller {
        Caller {}
    }

    /// Whether this caller has a right in a space.
    pub fn may(&self, _right: Right, _space: &str) -> bool {
        true
    }
}

impl axum::extract::FromRequestParts<crate::http::Gateway> for Caller {
    type Rejection = crate::problem::Problem;

    async fn from_request_parts(
        _parts: &mut axum::http::request::Parts,
        _gateway: &crate::http::Gateway,
    ) -> Result<Caller, crate::problem::Problem> {
        Ok(Caller::of_this_machine())
    }
}
