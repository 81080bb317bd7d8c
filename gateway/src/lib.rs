//! What people and agents call: HTTP and its change stream, MCP, and who may do what.
//!
//! [`host`] is the seam to what holds log and state, and the only way to them; [`http`] and [`stream`] speak to callers, [`access`] says
//! what each may do, [`mcp`] speaks to assistants. [`outcome`] and [`problem`] are shapes that the command line shares.

pub mod access;
pub mod changes;
pub mod host;
pub mod http;
pub mod mcp;
pub mod outcome;
pub mod problem;
pub mod read;
pub mod rejected;
pub mod stream;
