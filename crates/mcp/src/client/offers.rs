//! What a server offers besides tools: resources, templates of resources, prompts.

use serde_json::{Map, Value, json};

/// A kind of thing that a backend lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// Resources by their URIs.
    Resources,
    /// Templates of such URIs.
    Templates,
    /// Prompts by their names.
    Prompts,
}

impl Offer {
    /// What a backend declares that has some.
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

    /// Where the list is in the answer.
    pub fn key(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// What tells one entry from another.
    pub fn id(self) -> &'static str {
        match self {
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
            Self::Prompts => "name",
        }
    }
}

/// Something that a backend is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// What a resource holds.
    Read {
        /// Its URI.
        uri: String,
    },
    /// A prompt, filled in.
    Prompt {
        /// Its name.
        name: String,
        /// Its arguments.
        arguments: Map<String, Value>,
    },
    /// Values that begin like what is typed.
    Complete {
        /// The prompt or the template, as the protocol refers to it.
        reference: Value,
        /// The argument's name.
        argument: String,
        /// What is typed so far.
        typed: String,
    },
}

impl Question {
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Read { .. } => "resources/read",
            Self::Prompt { .. } => "prompts/get",
            Self::Complete { .. } => "completion/complete",
        }
    }

    /// The one thing that it is about, where proxies are to see it.
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
