//! Where logins are kept: among the secrets of this user, or in memory for tests.
//!
//! A lock per login lets one of several processes refresh a token while the others wait for the result, and a version tells
//! each of them that another one changed it.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolgate_secrets::{SecretStore, SecretVersion};

pub use toolgate_secrets::{SecretError, StoreLock};

use super::SecretText;
use super::registration::RegisteredClient;
use super::token::Tokens;

/// A login at an issuer for a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Who issued the tokens; they are useless for any other.
    pub issuer: String,
    /// The resource that they are for.
    pub resource: String,
    /// The client that they were issued to.
    pub client: RegisteredClient,
    /// The name of the account, as the issuer tells it to people.
    pub account: Option<String>,
    /// The tokens; none while only the client is registered.
    pub tokens: Option<Tokens>,
}

/// Whether a login was changed, by this process or another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoginVersion {
    /// Not looked at yet.
    #[default]
    Unknown,
    /// Counted in this process.
    Counted(u64),
    /// Of a secret.
    Kept(SecretVersion),
}

/// Keeps logins by their names. Methods may block for a moment.
pub trait TokenStore: Send + Sync + 'static {
    /// The login of that name.
    fn load(&self, name: &str) -> Result<Option<Login>, SecretError>;
    /// Keeps a login in place of an earlier one.
    fn save(&self, name: &str, login: &Login) -> Result<(), SecretError>;
    /// Forgets a login.
    fn remove(&self, name: &str) -> Result<(), SecretError>;
    /// Waits until no other process holds the lock of that login.
    fn lock(&self, name: &str) -> Result<StoreLock, SecretError>;
    /// Another value after each change. Cheap.
    fn version(&self, name: &str) -> LoginVersion;
}

/// Logins in memory.
#[derive(Debug, Default)]
pub struct MemoryTokenStore(Mutex<(HashMap<String, Login>, u64)>);

impl TokenStore for MemoryTokenStore {
    fn load(&self, name: &str) -> Result<Option<Login>, SecretError> {
        Ok(self.0.lock().0.get(name).cloned())
    }

    fn save(&self, name: &str, login: &Login) -> Result<(), SecretError> {
        let mut logins = self.0.lock();
        logins.0.insert(name.to_owned(), login.clone());
        logins.1 += 1;
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), SecretError> {
        let mut logins = self.0.lock();
        logins.0.remove(name);
        logins.1 += 1;
        Ok(())
    }

    fn lock(&self, _: &str) -> Result<StoreLock, SecretError> {
        Ok(StoreLock::unshared())
    }

    fn version(&self, _: &str) -> LoginVersion {
        LoginVersion::Counted(self.0.lock().1)
    }
}

impl TokenStore for SecretStore {
    fn load(&self, name: &str) -> Result<Option<Login>, SecretError> {
        let Some(text) = self.get(name)? else { return Ok(None) };
        let login = serde_json::from_str(&text).ok().as_ref().and_then(login_of);
        login.map(Some).ok_or_else(|| SecretError::Damaged { name: name.to_owned() })
    }

    fn save(&self, name: &str, login: &Login) -> Result<(), SecretError> {
        self.set(name, &text_of(login).to_string()).map(drop)
    }

    fn remove(&self, name: &str) -> Result<(), SecretError> {
        SecretStore::remove(self, name).map(drop)
    }

    fn lock(&self, name: &str) -> Result<StoreLock, SecretError> {
        SecretStore::lock(self, name)
    }

    fn version(&self, name: &str) -> LoginVersion {
        LoginVersion::Kept(SecretStore::version(self, name))
    }
}

fn text_of(login: &Login) -> Value {
    let tokens = login.tokens.as_ref().map(|tokens| {
        json!({
            "access": tokens.access.expose(),
            "refresh": tokens.refresh.as_ref().map(SecretText::expose),
            "issuedAt": tokens.issued_at,
            "expiresAt": tokens.expires_at,
            "scopes": tokens.scopes,
        })
    });
    let client = json!({
        "id": login.client.id,
        "secret": login.client.secret.as_ref().map(SecretText::expose),
        "redirectUri": login.client.redirect_uri,
    });
    json!({
        "issuer": login.issuer, "resource": login.resource, "client": client, "account": login.account, "tokens": tokens,
    })
}

fn login_of(value: &Value) -> Option<Login> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let client = value.get("client")?;
    let tokens = value.get("tokens").filter(|tokens| !tokens.is_null()).map(|tokens| {
        let scopes = tokens.get("scopes").and_then(Value::as_array).into_iter().flatten();
        Some(Tokens {
            access: SecretText::new(text(tokens, "access")?),
            refresh: text(tokens, "refresh").map(SecretText::new),
            issued_at: tokens.get("issuedAt").and_then(Value::as_u64)?,
            expires_at: tokens.get("expiresAt").and_then(Value::as_u64),
            scopes: scopes.filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    });
    Some(Login {
        issuer: text(value, "issuer")?,
        resource: text(value, "resource")?,
        client: RegisteredClient {
            id: text(client, "id")?,
            secret: text(client, "secret").map(SecretText::new),
            redirect_uri: text(client, "redirectUri"),
        },
        account: text(value, "account"),
        tokens: match tokens {
            Some(tokens) => Some(tokens?),
            None => None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_secrets::Preference;

    fn login() -> Login {
        Login {
            issuer: "https://as.example".to_owned(),
            resource: "https://mcp.example".to_owned(),
            client: RegisteredClient {
                id: "me".to_owned(),
                secret: Some(SecretText::new("canary-secret")),
                redirect_uri: Some("http://127.0.0.1:1/callback".to_owned()),
            },
            account: Some("ada@example.com".to_owned()),
            tokens: Some(Tokens {
                access: SecretText::new("canary-access"),
                refresh: Some(SecretText::new("canary-refresh")),
                issued_at: 1,
                expires_at: Some(2),
                scopes: vec!["a".to_owned()],
            }),
        }
    }

    #[test]
    fn a_login_is_kept_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let kept = SecretStore::new(folder.path(), "toolgate test", Preference::File);
        for store in [&kept as &dyn TokenStore, &MemoryTokenStore::default()] {
            assert_eq!(store.load("a/../b").unwrap(), None);
            let before = store.version("a/../b");
            store.save("a/../b", &login()).unwrap();
            assert_ne!(store.version("a/../b"), before);
            assert_eq!(store.load("a/../b").unwrap(), Some(login()));
            assert_eq!(store.load("b").unwrap(), None);
            let only_client = Login { tokens: None, ..login() };
            store.save("a/../b", &only_client).unwrap();
            assert_eq!(store.load("a/../b").unwrap(), Some(only_client));
            store.remove("a/../b").unwrap();
            store.remove("a/../b").unwrap();
            assert_eq!(store.load("a/../b").unwrap(), None);
        }
    }

    #[test]
    fn nothing_shows_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        let store = SecretStore::new(folder.path(), "toolgate test", Preference::File);
        store.save("a", &login()).unwrap();
        let memory = MemoryTokenStore::default();
        memory.save("a", &login()).unwrap();
        let shown = format!("{:?} {store:?} {memory:?} {:#?}", login(), login());
        assert!(!shown.contains("canary"), "{shown}");
    }
}
