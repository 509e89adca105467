//! Lists and requests besides tool calls: resources, resource templates, prompts, completions.
//!
//! Builds parameters only; sending is up to the session.

use serde_json::{Map, Value, json};

/// A list of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// Resources, identified by URI.
    Resources,
    /// Resource templates, identified by URI template.
    Templates,
    /// Prompts, identified by name.
    Prompts,
}

impl ListKind {
    /// The capability that declares the list.
    pub(crate) fn capability(self) -> &'static str {
        match self {
            Self::Resources | Self::Templates => "resources",
            Self::Prompts => "prompts",
        }
    }

    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }

    /// The member of the result that contains the list.
    pub fn key(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// The member that identifies an entry.
    pub fn id(self) -> &'static str {
        match self {
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
            Self::Prompts => "name",
        }
    }
}

/// A request to a server besides tool calls and lists.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientRequest {
    /// Reads a resource.
    Read {
        /// Its URI.
        uri: String,
    },
    /// Fills in a prompt.
    Prompt {
        /// Its name.
        name: String,
        /// Its arguments.
        arguments: Map<String, Value>,
    },
    /// Completes the value of an argument.
    Complete {
        /// `ref` of the protocol: a prompt or a template.
        reference: Value,
        /// The argument's name.
        argument: String,
        /// The beginning of the value, as typed so far.
        typed: String,
    },
}

impl ClientRequest {
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Read { .. } => "resources/read",
            Self::Prompt { .. } => "prompts/get",
            Self::Complete { .. } => "completion/complete",
        }
    }

    /// The prompt or resource it names, which a header repeats.
    pub(crate) fn target(&self) -> Option<&str> {
        match self {
            Self::Read { uri } => Some(uri),
            Self::Prompt { name, .. } => Some(name),
            Self::Complete { .. } => None,
        }
    }

    pub(crate) fn into_params(self) -> Map<String, Value> {
        let params = match self {
            Self::Read { uri } => json!({ "uri": uri }),
            Self::Prompt { name, arguments } => json!({ "name": name, "arguments": arguments }),
            Self::Complete { reference, argument, typed } => {
                json!({ "ref": reference, "argument": { "name": argument, "value": typed } })
            }
        };
        if let Value::Object(params) = params { params } else { Map::new() }
    }
}
