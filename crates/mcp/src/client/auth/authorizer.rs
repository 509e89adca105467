//! The tokens of one server: used, refreshed ahead of time and once, asked for again when the server refuses.
//!
//! One refresh at a time in this process, and one among all processes that share a store: whoever waited finds the new
//! tokens there. A refused refresh ends the login. No request of the server is made here.

use std::sync::Arc;

use reqwest::Url;
use tokio::sync::Mutex;

use super::challenge::Challenge;
use super::login::{AuthorizationResponse, PendingLogin};
use super::metadata::{self, Discovered};
use super::registration::{self, ClientRegistration};
use super::store::{Login, StoreError, TokenStore};
use super::token::{TokenRequest, Tokens, now};
use super::transport::{AddressRule, AuthTransport};
use super::{AuthError, SecretText};

/// How a login comes about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Grant {
    /// A person logs in with a browser.
    #[default]
    AuthorizationCode,
    /// The registered client logs in by itself.
    ClientCredentials,
}

/// What the configuration says about logins at one server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthSettings {
    /// The name under which the login is kept: that of the backend.
    pub name: String,
    /// How a login comes about.
    pub grant: Grant,
    /// Which client this is.
    pub client: ClientRegistration,
    /// Scopes to ask for besides those that the server names.
    pub scopes: Vec<String>,
}

/// Whether there is a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginStatus {
    /// There is none.
    LoggedOut,
    /// There is one.
    LoggedIn {
        /// Who issued it.
        issuer: String,
        /// When its access token expires, in seconds since 1970, if that is known.
        until: Option<u64>,
        /// Whether it is refreshed by itself then.
        refreshable: bool,
        /// What it may be used for.
        scopes: Vec<String>,
    },
}

/// What to do after a server refused a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retry {
    /// Send it once more, with this token.
    With(SecretText),
    /// A person has to log in, for these scopes.
    AfterLogin {
        /// The scopes to ask for.
        scopes: Vec<String>,
    },
}

/// Gets, keeps and refreshes the tokens of one server.
#[derive(Debug)]
pub struct Authorizer {
    server: Url,
    transport: AuthTransport,
    settings: AuthSettings,
    store: Arc<dyn DebugStore>,
    /// Held while tokens are read and refreshed.
    turn: Mutex<Known>,
}

/// A store whose contents are not shown.
trait DebugStore: TokenStore + std::fmt::Debug {}
impl<S: TokenStore + std::fmt::Debug> DebugStore for S {}

/// What is known without asking again.
#[derive(Debug, Default)]
struct Known {
    login: Option<Login>,
    discovered: Option<Discovered>,
    /// The scopes that the server asked for last.
    challenged: Vec<String>,
}

impl Authorizer {
    /// For the server at this URL.
    pub fn new<S>(server: &str, settings: AuthSettings, store: Arc<S>) -> Result<Self, AuthError>
    where
        S: TokenStore + std::fmt::Debug,
    {
        let invalid = |error: url::ParseError| AuthError::Url { what: "the server", reason: error.to_string() };
        let server = Url::parse(server).map_err(invalid)?;
        let transport = AuthTransport::new(AddressRule::of(&server))?;
        Ok(Self { server, transport, settings, store, turn: Mutex::default() })
    }

    /// The token for the next request, refreshed if it is due; none if there is no login, which a server may not need.
    pub async fn access_token(&self) -> Result<Option<SecretText>, AuthError> {
        let mut known = self.turn.lock().await;
        let Some(tokens) = self.tokens(&mut known).await? else { return Ok(None) };
        if !tokens.is_due(now()) {
            return Ok(Some(tokens.access));
        }
        match self.renew(&mut known, &tokens.access).await {
            Ok(token) => Ok(token),
            // It may still be good for a moment, or the server's clock is another.
            Err(AuthError::Unreachable { .. }) => Ok(Some(tokens.access)),
            Err(error) => Err(error),
        }
    }

    /// What to do after the server refused a request that had this token, or none.
    pub async fn after_refusal(&self, sent: Option<&SecretText>, challenge: &Challenge) -> Result<Retry, AuthError> {
        let mut known = self.turn.lock().await;
        known.challenged.clone_from(&challenge.scopes);
        if let Some(metadata) = &challenge.resource_metadata
            && known.discovered.is_none()
        {
            let challenge = Challenge { resource_metadata: Some(metadata.clone()), ..Challenge::default() };
            known.discovered = Some(metadata::discover(&self.transport, &self.server, &challenge).await?);
        }
        let tokens = self.tokens(&mut known).await?;
        if challenge.is_insufficient_scope() {
            return self.step_up(&mut known, tokens).await;
        }
        let renewed = match (tokens, sent) {
            // Another request has got a new token meanwhile.
            (Some(tokens), sent) if sent != Some(&tokens.access) => Some(tokens.access),
            (Some(tokens), _) => self.renew(&mut known, &tokens.access).await?,
            (None, _) => None,
        };
        match renewed {
            Some(token) => Ok(Retry::With(token)),
            None if self.settings.grant == Grant::ClientCredentials => self.log_in_as_client(&mut known).await,
            None => Ok(Retry::AfterLogin { scopes: self.scopes(&known) }),
        }
    }

    async fn step_up(&self, known: &mut Known, tokens: Option<Tokens>) -> Result<Retry, AuthError> {
        let granted = tokens.map(|tokens| tokens.scopes).unwrap_or_default();
        let is_new = known.challenged.iter().any(|scope| !granted.contains(scope));
        match self.settings.grant {
            Grant::ClientCredentials if is_new => self.log_in_as_client(known).await,
            _ => Ok(Retry::AfterLogin { scopes: self.scopes(known) }),
        }
    }

    /// Begins a login; the redirect goes to `redirect_uri`, which must be on this machine or registered.
    pub async fn begin_login(&self, redirect_uri: &str) -> Result<PendingLogin, AuthError> {
        let mut known = self.turn.lock().await;
        let discovered = self.discovered(&mut known).await?;
        let login = self.login(&mut known).await?;
        let former = login.filter(|login| login.issuer == discovered.issuer.issuer).map(|login| login.client);
        let settings = &self.settings.client;
        let client =
            registration::client_at(&self.transport, &discovered.issuer, settings, former, redirect_uri).await?;
        let scopes = self.scopes(&known);
        PendingLogin::new(discovered, client, redirect_uri, scopes)
    }

    /// Ends a login with its redirect, and keeps the tokens.
    pub async fn finish_login(
        &self,
        pending: PendingLogin,
        response: &AuthorizationResponse,
    ) -> Result<LoginStatus, AuthError> {
        let code = pending.accept(response)?;
        let PendingLogin { verifier, redirect_uri, scopes, client, discovered, .. } = pending;
        let request = TokenRequest {
            transport: &self.transport,
            server: &discovered.issuer,
            client: &client,
            resource: &discovered.resource,
        };
        let tokens = request.for_code(&code, &verifier, &redirect_uri, &scopes).await?;
        let mut known = self.turn.lock().await;
        let (issuer, resource) = (discovered.issuer.issuer.clone(), discovered.resource.clone());
        self.keep(&mut known, Login { issuer, resource, client, tokens: Some(tokens) }).await?;
        Ok(status_of(known.login.as_ref()))
    }

    /// Forgets the login.
    pub async fn log_out(&self) -> Result<(), AuthError> {
        let mut known = self.turn.lock().await;
        known.login = None;
        self.with_store(|store, name| store.remove(name)).await
    }

    /// Whether there is a login.
    pub async fn status(&self) -> Result<LoginStatus, AuthError> {
        let mut known = self.turn.lock().await;
        known.login = None;
        Ok(status_of(self.login(&mut known).await?.as_ref()))
    }

    /// The scopes to ask for: those of the configuration, of the last challenge or else of the metadata, those of a login
    /// that is to be widened, and leave to refresh where the issuer knows that.
    fn scopes(&self, known: &Known) -> Vec<String> {
        let granted = known.login.as_ref().and_then(|login| login.tokens.as_ref()).map(|tokens| &tokens.scopes);
        let listed = known.discovered.as_ref().map(|discovered| &discovered.scopes);
        let named = if known.challenged.is_empty() { listed } else { Some(&known.challenged) };
        let offline = known.discovered.as_ref().filter(|discovered| {
            let issuer = &discovered.issuer;
            issuer.scopes.iter().any(|scope| scope == "offline_access")
        });
        let offline = offline.map(|_| "offline_access".to_owned());
        let mut scopes: Vec<String> = Vec::new();
        for scope in [Some(&self.settings.scopes), granted, named].into_iter().flatten().flatten().chain(&offline) {
            if !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        scopes
    }

    async fn log_in_as_client(&self, known: &mut Known) -> Result<Retry, AuthError> {
        let discovered = self.discovered(known).await?;
        let issuer = &discovered.issuer.issuer;
        let no_client = || AuthError::NoClient { issuer: issuer.clone(), redirect_uri: "(none needed)".to_owned() };
        let client = self.settings.client.preregistered.clone().ok_or_else(no_client)?;
        let request = TokenRequest {
            transport: &self.transport,
            server: &discovered.issuer,
            client: &client,
            resource: &discovered.resource,
        };
        let tokens = request.for_client(&self.scopes(known)).await?;
        let access = tokens.access.clone();
        let (issuer, resource) = (issuer.clone(), discovered.resource.clone());
        self.keep(known, Login { issuer, resource, client, tokens: Some(tokens) }).await?;
        Ok(Retry::With(access))
    }

    /// A new token in place of `stale`; none if the login ended.
    async fn renew(&self, known: &mut Known, stale: &SecretText) -> Result<Option<SecretText>, AuthError> {
        let lock = self.with_store(|store, name| store.lock(name)).await?;
        // Another process may have refreshed it while this one waited.
        known.login = None;
        let Some(mut login) = self.login(known).await? else { return Ok(None) };
        let Some(tokens) = login.tokens.take() else { return Ok(None) };
        if tokens.access != *stale {
            return Ok(Some(tokens.access));
        }
        let Some(refresh) = tokens.refresh.clone() else { return Ok(None) };
        let discovered = self.discovered(known).await?;
        if discovered.issuer.issuer != login.issuer {
            // The server has another issuer now, which must not see a token of the former one.
            self.forget_tokens(known, login).await?;
            return Ok(None);
        }
        let request = TokenRequest {
            transport: &self.transport,
            server: &discovered.issuer,
            client: &login.client,
            resource: &login.resource,
        };
        match request.refresh(&tokens, &refresh).await {
            Ok(renewed) => {
                let access = renewed.access.clone();
                self.keep(known, Login { tokens: Some(renewed), ..login }).await?;
                drop(lock);
                Ok(Some(access))
            }
            Err(AuthError::Refused { code, .. }) if code == "invalid_grant" || code == "invalid_client" => {
                self.forget_tokens(known, login).await?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn forget_tokens(&self, known: &mut Known, login: Login) -> Result<(), AuthError> {
        self.keep(known, Login { tokens: None, ..login }).await
    }

    async fn tokens(&self, known: &mut Known) -> Result<Option<Tokens>, AuthError> {
        Ok(self.login(known).await?.and_then(|login| login.tokens))
    }

    async fn login(&self, known: &mut Known) -> Result<Option<Login>, AuthError> {
        if known.login.is_none() {
            known.login = match self.with_store(|store, name| store.load(name)).await {
                Err(AuthError::Store(StoreError::Damaged { .. })) => None,
                loaded => loaded?,
            };
        }
        Ok(known.login.clone())
    }

    async fn keep(&self, known: &mut Known, login: Login) -> Result<(), AuthError> {
        known.login = Some(login.clone());
        self.with_store(move |store, name| store.save(name, &login)).await
    }

    async fn discovered(&self, known: &mut Known) -> Result<Discovered, AuthError> {
        if let Some(discovered) = &known.discovered {
            return Ok(discovered.clone());
        }
        let found = metadata::discover(&self.transport, &self.server, &Challenge::default()).await?;
        Ok(known.discovered.insert(found).clone())
    }

    /// Uses the store on a thread that may block.
    async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn DebugStore, &str) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, AuthError> {
        let (store, name) = (Arc::clone(&self.store), self.settings.name.clone());
        let done = tokio::task::spawn_blocking(move || work(&*store, &name)).await;
        let lost = |_| StoreError::Files { folder: "the logins".into(), reason: "interrupted".to_owned() };
        Ok(done.map_err(lost)??)
    }
}

fn status_of(login: Option<&Login>) -> LoginStatus {
    let Some(login) = login else { return LoginStatus::LoggedOut };
    let Some(tokens) = &login.tokens else { return LoginStatus::LoggedOut };
    LoginStatus::LoggedIn {
        issuer: login.issuer.clone(),
        until: tokens.expires_at,
        refreshable: tokens.refresh.is_some(),
        scopes: tokens.scopes.clone(),
    }
}
