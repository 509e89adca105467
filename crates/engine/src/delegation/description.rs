//! Tool descriptions, with the contract of computation delegation for tools that take code.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate_wire::{Limits, Profile};

/// A tool in the form in which an MCP server lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDescription {
    name: String,
    description: String,
    input_schema: Value,
}

/// What a model must know about the sandbox in which a tool runs the model's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Name of the argument that holds the function.
    pub argument: String,
    /// How long the function may run.
    pub timeout: Duration,
    /// Bytes of JSON that the function may return.
    pub max_output: u64,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        let limits = Limits::of(Profile::Compute);
        SandboxConfig { argument: "code".to_owned(), timeout: limits.wall, max_output: limits.result }
    }
}

impl ToolDescription {
    /// A tool with this schema of its argument object.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: Value) -> Self {
        ToolDescription { name: name.into(), description: description.into(), input_schema }
    }

    /// The same tool, which runs the model's function over its data: adds the contract to the description and the argument
    /// to the schema.
    pub fn sandboxed(mut self, config: SandboxConfig) -> Self {
        self.description = format!("{}\n\n{}", self.description.trim_end(), instruction(&config));
        self.require_code(&config.argument);
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The description with the contract.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The tool object of an MCP `tools/list` result.
    pub fn to_mcp(&self) -> Value {
        json!({ "name": self.name, "description": self.description, "inputSchema": self.input_schema })
    }

    fn require_code(&mut self, argument: &str) {
        if !self.input_schema.is_object() {
            self.input_schema = json!({ "type": "object" });
        }
        let schema = &mut self.input_schema;
        schema["type"] = "object".into();
        if !schema["properties"].is_object() {
            schema["properties"] = json!({});
        }
        schema["properties"][argument] = json!({
            "type": "string",
            "description": "One arrow function, such as (data) => data.filter(d => d.open).length",
        });
        if !schema["required"].is_array() {
            schema["required"] = json!([]);
        }
        if let Some(required) = schema["required"].as_array_mut()
            && !required.iter().any(|name| name == argument)
        {
            required.push(argument.into());
        }
    }
}

fn instruction(config: &SandboxConfig) -> String {
    let SandboxConfig { argument, timeout, max_output } = config;
    format!(
        "Computation Delegation (zero-trust compute): the data stays on the server and only your result leaves it. \
         An arrow function MUST be sent in `{argument}`, for example `(data) => data.filter(d => d.risk > 90).map(d => d.name)`. \
         Filter, map and count on the server instead of asking for everything. \
         Send plain code without markdown fences. The function must be synchronous, and its result must be \
         JSON-serialisable and at most {max_output} bytes; it has {} ms, and no network, files or imports.",
        timeout.as_millis(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandboxed_tool_describes_the_contract() {
        let tool = ToolDescription::new("query", "Customers.", json!({ "type": "object" }));
        let text = tool.sandboxed(SandboxConfig::default()).description().to_owned();
        for phrase in [
            "Customers.",
            "Computation Delegation",
            "zero-trust compute",
            "arrow function MUST be sent",
            "without markdown fences",
            "JSON-serialisable",
            "1048576 bytes",
        ] {
            assert!(text.contains(phrase), "{phrase} is missing in {text}");
        }
    }

    #[test]
    fn the_argument_is_added_to_the_schema() {
        let schema = json!({ "properties": { "region": { "type": "string" } }, "required": ["region"] });
        let config = SandboxConfig { argument: "fn".into(), ..SandboxConfig::default() };
        let tool = ToolDescription::new("query", "Customers", schema).sandboxed(config).to_mcp();
        assert_eq!(tool["inputSchema"]["required"], json!(["region", "fn"]));
        assert_eq!(tool["inputSchema"]["properties"]["fn"]["type"], "string");
        assert_eq!(tool["inputSchema"]["properties"]["region"]["type"], "string");
    }

    #[test]
    fn a_schema_that_is_not_an_object_is_replaced() {
        let tool = ToolDescription::new("query", "", Value::Null).sandboxed(SandboxConfig::default());
        assert_eq!(tool.to_mcp()["inputSchema"]["required"], json!(["code"]));
    }
}
