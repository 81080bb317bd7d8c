//! What people and agents call: HTTP and its change stream, MCP, and who may do what.

pub mod access;
