//! How a backend logs in: its settings, where its login is kept, and the command that a person runs.

use std::sync::Arc;

use toolgate_mcp::client::auth::{AuthError, AuthSettings, Authorizer, LoginVersion, TokenStore};
use toolgate_secrets::SecretStore;

/// How a backend logs in.
#[derive(Debug, Clone, PartialEq)]
pub struct LoginSpec {
    /// What the configuration says.
    pub settings: AuthSettings,
    /// Where the login is kept.
    pub store: SecretStore,
    /// The command with which a person logs in.
    pub command: String,
}

impl LoginSpec {
    /// Gets and refreshes the tokens for a server.
    pub fn authorizer(&self, url: &str) -> Result<Arc<Authorizer>, AuthError> {
        Authorizer::new(url, self.settings.clone(), Arc::new(self.store.clone())).map(Arc::new)
    }

    /// Another value after each change of the login, by any process.
    pub(super) fn version(&self) -> LoginVersion {
        TokenStore::version(&self.store, &self.settings.name)
    }

    /// The command with which a person logs in for these scopes.
    pub(super) fn command_for(&self, scopes: &[String]) -> String {
        let scopes: String = scopes.iter().map(|scope| format!(" --scope {}", quoted(scope))).collect();
        format!("{}{scopes}", self.command)
    }
}

/// A word as a shell reads it.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@+%,=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quoted("read:user"), "read:user");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("$(x)'y"), r"'$(x)'\''y'");
        assert_eq!(quoted(""), "''");
    }
}
