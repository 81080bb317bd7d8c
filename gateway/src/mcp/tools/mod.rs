//! The tools. Each has an input and an output schema, says in its annotations whether it changes anything, and answers with structured
//! content and a few lines of text.

pub(super) mod asking;
mod looking_back;
mod taking_back;
mod writing;
