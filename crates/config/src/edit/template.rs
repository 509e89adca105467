//! The template of a new configuration file.

use crate::text::Format;

/// A commented configuration without servers.
pub fn template(format: Format) -> &'static str {
    match format {
        Format::Json => JSON,
        Format::Yaml => YAML,
        Format::Toml => TOML,
    }
}

const JSON: &str = r#"{
  // The MCP servers behind Toolgate, in the form that Claude, Cursor and others use:
  //   "files": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"] },
  //   "docs": { "url": "https://example.com/mcp", "headers": { "Authorization": "Bearer ${DOCS_TOKEN}" } }
  "mcpServers": {},

  // Toolgate's own settings. `toolgate config schema` lists them all.
  "toolgate": {
    // "backends": { "files": { "timeout": "30s", "deny": ["write_*"] } }
  }
}
"#;

const YAML: &str = r#"# The MCP servers behind Toolgate, in the form that Claude, Cursor and others use:
#   files:
#     command: npx
#     args: ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]
#   docs:
#     url: https://example.com/mcp
#     headers: { Authorization: "Bearer ${DOCS_TOKEN}" }
mcpServers: {}

# Toolgate's own settings. `toolgate config schema` lists them all.
toolgate: {}
"#;

const TOML: &str = r#"# The MCP servers behind Toolgate, in the form that Claude, Cursor and others use:
#   [mcpServers.files]
#   command = "npx"
#   args = ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]
#
#   [mcpServers.docs]
#   url = "https://example.com/mcp"
#   headers = { Authorization = "Bearer ${DOCS_TOKEN}" }

# Toolgate's own settings. `toolgate config schema` lists them all.
[toolgate]
"#;
