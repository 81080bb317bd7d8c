//! What a tool answers: structured content as its output schema has it, and a few lines of text that say the same to a model.

use rmcp::{
    ErrorData,
    handler::server::tool::IntoCallToolResult,
    model::{CallToolResponse, CallToolResult, ContentBlock},
};
use serde::Serialize;

use crate::{access::Denied, host::HostError, problem::Problem};

/// What a tool answers.
pub type Told<T> = Result<Answer<T>, Refusal>;

/// An answer.
pub struct Answer<T> {
    /// Structured.
    pub structured: T,
    /// For a model to read.
    pub text: String,
}

/// The answer is no, and why: a tool's error, which the model sees, and not one of the protocol.
#[derive(Debug)]
pub struct Refusal(Box<Problem>);

impl<T: Serialize> IntoCallToolResult for Answer<T> {
    fn into_call_tool_result(self) -> Result<CallToolResponse, ErrorData> {
        let structured = serde_json::to_value(self.structured)
            .map_err(|error| ErrorData::internal_error(format!("an answer cannot be written: {error}"), None))?;
        let mut result = CallToolResult::structured(structured);
        result.content = vec![ContentBlock::text(self.text)];
        Ok(result.into())
    }
}

impl IntoCallToolResult for Refusal {
    fn into_call_tool_result(self) -> Result<CallToolResponse, ErrorData> {
        let problem = self.problem();
        let text = format!("{}: {} [{}]", problem.title, problem.detail, problem.code);
        Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into())
    }
}

impl Refusal {
    /// Why.
    pub fn problem(&self) -> &Problem {
        &self.0
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Refusal {
        Refusal(Box::new(problem))
    }
}

impl From<HostError> for Refusal {
    fn from(error: HostError) -> Refusal {
        Problem::from(error).into()
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Refusal {
        Problem::from(denied).into()
    }
}
