//! Assistants.
