//! What is known of each backend beyond its connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolgate_catalog::Tool;
use toolgate_config::checked::BackendPolicy;

/// By the backends' own names.
pub(super) type BackendRecords = BTreeMap<String, BackendRecord>;

/// Who wanted a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The configuration file.
    Configured,
    /// An agent, while the gateway runs.
    Registered,
}

/// The name of a secret that a backend was configured with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyName {
    /// An environment variable of its process.
    Variable(String),
    /// A header of every request to it.
    Header(String),
    /// A security scheme of its document.
    Scheme(String),
}

/// One backend.
#[derive(Debug)]
pub(super) struct BackendRecord {
    pub(super) origin: Origin,
    pub(super) policy: BackendPolicy,
    pub(super) fingerprint: String,
    pub(super) keys: Vec<KeyName>,
    /// The list that the catalog shows a choice of; none before the backend first came up.
    pub(super) shown: Option<Arc<[Tool]>>,
}

impl BackendRecord {
    /// The tools that the policy lets through.
    pub(super) fn permitted_tools(&self, tools: &[Tool]) -> Vec<Tool> {
        tools.iter().filter(|tool| self.policy.permits(&tool.name)).cloned().collect()
    }
}
