//! What is known of each backend beyond its connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolgate_catalog::Tool;
use toolgate_config::checked::{BackendPolicy, ToolTraits};

/// By the backends' own names.
pub(super) type BackendRecords = BTreeMap<String, BackendRecord>;

/// Who wanted a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BackendSource {
    /// The configuration file.
    Configured,
    /// An agent, while the gateway runs.
    Registered,
}

/// The name of a secret that a backend was configured with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyName {
    /// What it is a name of.
    pub kind: KeyKind,
    /// The name.
    pub name: String,
    /// Whether it has a value that is not empty.
    pub is_set: bool,
}

/// What a secret of a backend is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// An environment variable of its process.
    Variable,
    /// A header of every request to it.
    Header,
    /// A security scheme of its document.
    Scheme,
}

impl KeyKind {
    /// As it is shown.
    pub(crate) fn name(self) -> &'static str {
        match self {
            KeyKind::Variable => "variable",
            KeyKind::Header => "header",
            KeyKind::Scheme => "security scheme",
        }
    }
}

/// One backend.
#[derive(Debug)]
pub(super) struct BackendRecord {
    pub(super) origin: BackendSource,
    pub(super) policy: BackendPolicy,
    pub(super) fingerprint: String,
    pub(super) keys: Vec<KeyName>,
    /// The list that the catalog shows a choice of; none before the backend first came up.
    pub(super) shown: Option<Arc<[Tool]>>,
}

impl BackendRecord {
    /// The tools that the policy lets through, with what the configuration says that they do. The catalog has them like this, so
    /// that policy, ledger, recovery and clients all know the same of a tool.
    pub(super) fn permitted_tools(&self, tools: &[Tool]) -> Vec<Tool> {
        let permitted = tools.iter().filter(|tool| self.policy.permits(&tool.name));
        permitted.map(|tool| self.with_configured_traits(tool)).collect()
    }

    fn with_configured_traits(&self, tool: &Tool) -> Tool {
        let traits = self.policy.traits_of(&tool.name);
        if traits == ToolTraits::default() { tool.clone() } else { tool.with_hints(traits.hints()) }
    }
}
