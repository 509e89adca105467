//! Failures of a tool, in a form that a model can act on.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};
use toolgate_wire::Failure;

/// How severe a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The call can be repeated unchanged, or with a small change.
    Warning,
    /// The call failed.
    #[default]
    Error,
    /// The model cannot fix it.
    Critical,
}

/// A failure, with what to do next.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolError {
    code: String,
    message: String,
    suggestion: Option<String>,
    available_actions: Vec<String>,
    severity: Severity,
    details: Map<String, Value>,
    retry_after: Option<Duration>,
}

impl ToolError {
    /// A failure with a code and a message.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        ToolError {
            code: code.into(),
            message: message.into(),
            suggestion: None,
            available_actions: Vec::new(),
            severity: Severity::default(),
            details: Map::new(),
            retry_after: None,
        }
    }

    /// Adds what to do next.
    pub fn suggestion(self, suggestion: impl Into<String>) -> Self {
        ToolError { suggestion: Some(suggestion.into()), ..self }
    }

    /// Adds tools or actions that would work now.
    pub fn available_actions<S: Into<String>>(self, actions: impl IntoIterator<Item = S>) -> Self {
        ToolError { available_actions: actions.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets how severe it is.
    pub fn severity(self, severity: Severity) -> Self {
        ToolError { severity, ..self }
    }

    /// Adds a field for programs.
    pub fn detail(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.details.insert(key.into(), value.into());
        self
    }

    /// Adds when to try again.
    pub fn retry_after(self, retry_after: Duration) -> Self {
        ToolError { retry_after: Some(retry_after), ..self }
    }

    /// The result of an MCP `tools/call`, with `isError: true`.
    pub fn to_mcp(&self) -> Value {
        json!({
            "content": [{ "type": "text", "text": self.text() }],
            "structuredContent": { "error": self.fields() },
            "isError": true,
        })
    }

    fn fields(&self) -> Value {
        let mut fields = json!({ "code": self.code, "message": self.message, "severity": self.severity });
        if let Some(suggestion) = &self.suggestion {
            fields["suggestion"] = suggestion.as_str().into();
        }
        if !self.available_actions.is_empty() {
            fields["availableActions"] = json!(self.available_actions);
        }
        if !self.details.is_empty() {
            fields["details"] = Value::Object(self.details.clone());
        }
        if let Some(after) = self.retry_after {
            fields["retryAfterMs"] = json!(u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
        }
        fields
    }

    fn text(&self) -> String {
        let mut text = format!("{}: {}", self.code, self.message);
        if let Some(suggestion) = &self.suggestion {
            text.push_str(&format!("\nsuggestion: {suggestion}"));
        }
        if !self.available_actions.is_empty() {
            text.push_str(&format!("\navailable actions: {}", self.available_actions.join(", ")));
        }
        if let Some(after) = self.retry_after {
            text.push_str(&format!("\nretry after: {} ms", after.as_millis()));
        }
        text
    }
}

impl From<&Failure> for ToolError {
    fn from(failure: &Failure) -> Self {
        let error = ToolError::new(failure.code.name(), failure.message.clone());
        let error = match failure.position {
            Some(at) => error.detail("line", at.line).detail("column", at.column),
            None => error,
        };
        match &failure.hint {
            Some(hint) => error.suggestion(hint.clone()),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_wire::Code;

    #[test]
    fn the_result_is_an_error_result_with_every_field() {
        let error = ToolError::new("NOT_FOUND", "no customer 7")
            .suggestion("list customers first")
            .available_actions(["list_customers"])
            .severity(Severity::Warning)
            .detail("id", 7)
            .retry_after(Duration::from_secs(2));
        assert_eq!(
            error.to_mcp(),
            json!({
                "content": [{ "type": "text", "text":
                    "NOT_FOUND: no customer 7\nsuggestion: list customers first\navailable actions: list_customers\nretry after: 2000 ms" }],
                "structuredContent": { "error": {
                    "code": "NOT_FOUND", "message": "no customer 7", "severity": "warning",
                    "suggestion": "list customers first", "availableActions": ["list_customers"],
                    "details": { "id": 7 }, "retryAfterMs": 2000,
                } },
                "isError": true,
            })
        );
    }

    #[test]
    fn a_failed_run_keeps_its_code_and_hint() {
        let failure = Failure::new(Code::OutputTooLarge, "too long").with_hint("filter first");
        let result = ToolError::from(&failure).to_mcp();
        assert_eq!(result["structuredContent"]["error"]["code"], "OUTPUT_TOO_LARGE");
        assert_eq!(result["structuredContent"]["error"]["suggestion"], "filter first");
    }
}
