//! Whether an API whose configuration has an OAuth login lacks that login.
//!
//! A server is asked and answers that it wants a login; an API is not asked before a call, so its state is ready without one.
//! Operations that need no login can be called meanwhile, which is why this is no state of its own.

use toolgate_mcp::client::auth::{Grant, SecretError, TokenStore};
use toolgate_mcp::off_runtime;

use super::backend::Backend;
use super::login::LoginSpec;
use super::spec::BackendKind;

impl Backend {
    /// The command for the login that a person has to make at this API; none for every other backend, and with a login.
    pub fn missing_login(&self) -> Option<String> {
        let BackendKind::OpenApi(api) = &self.spec().kind else { return None };
        let (_, login) = api.login.as_ref()?;
        let is_made_by_person = login.settings.grant == Grant::AuthorizationCode;
        (is_made_by_person && !self.has_login(login)).then(|| login.command.clone())
    }

    /// Whether there is a login, read again if the store changed. A store that cannot be read is told by calls.
    fn has_login(&self, login: &LoginSpec) -> bool {
        let version = login.version();
        let known = *self.shared.known_login.lock();
        if let Some((_, has_login)) = known.filter(|(before, _)| *before == version) {
            return has_login;
        }
        // A keyring may ask its user for a password first: no other request waits for it, and no lock is held.
        let has_login = match off_runtime(usize::MAX, || login.store.load(&login.settings.name)) {
            Ok(login) => login.is_some_and(|login| login.tokens.is_some()),
            // Calls take a damaged one for none.
            Err(SecretError::Damaged { .. }) => false,
            Err(_) => true,
        };
        *self.shared.known_login.lock() = Some((version, has_login));
        has_login
    }
}
