//! The tokens of one server: used, refreshed ahead of time and once, asked for again when the server refuses.
//!
//! One refresh at a time in this process, and one among all processes that share a store: those that waited find the new
//! tokens there. A login and a logout wait for a refresh as well. What another process changes in the store counts from the
//! next request on. A refused refresh ends the login; a client that was refused does not ask again. No request of the server is
//! made here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Url;
use tokio::sync::Mutex;

use super::allowed_hosts::AllowedHosts;
use super::challenge::Challenge;
use super::issuer_binding;
use super::login::{AuthorizationResponse, PendingLogin};
use super::metadata::{self, Discovered, Endpoints};
use super::registration::{self, ClientRegistration, RegisteredClient};
use super::store::{Login, LoginVersion, SecretError, StoreLock, TokenStore};
use super::token::{TokenRequest, Tokens, now};
use super::transport::{AddressRule, AuthTransport};
use super::{AuthError, MissingScopes, SecretText};

/// How long an issuer that cannot be reached is not asked again for a token in place of one that is still valid.
const RENEWAL_PAUSE: Duration = Duration::from_secs(30);

/// A token that is refused within this time after it was issued counts as never accepted: another login would give the same.
const NEW_TOKEN_TIME: Duration = Duration::from_secs(600);

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
    /// The name under which the login is kept. Two servers must not share one.
    pub name: String,
    /// How a login comes about.
    pub grant: Grant,
    /// Which client this is.
    pub client: ClientRegistration,
    /// Scopes to ask for besides those that the server names.
    pub scopes: Vec<String>,
    /// The only issuer that this client logs in at; without it, a registered client belongs to the first one. With
    /// `endpoints`, the issuer that redirects must name.
    pub issuer: Option<String>,
    /// Where tokens are issued, for a server that has no metadata.
    pub endpoints: Option<Endpoints>,
    /// Hosts and networks that the login may lead to although they are not public: names, `*.NAME`, addresses, networks.
    pub allow_hosts: Vec<String>,
    /// The command that forgets the login, for messages.
    pub logout_command: String,
    /// The setting that has the login, as the configuration spells it, for messages.
    pub setting: String,
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
        /// Whose it is, if the issuer told.
        account: Option<String>,
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
    /// A person has to log in, or to log in again for more.
    AfterLogin(AuthError),
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
    /// The version of the store that `login` was read from.
    version: LoginVersion,
    discovered: Option<Discovered>,
    /// Where the server said that its metadata is.
    resource_metadata: Option<String>,
    /// The scopes that the server asked for last.
    challenged: Vec<String>,
    /// When the issuer was last found not to answer a refresh.
    renewal_failed: Option<Instant>,
    /// The scopes that the client asked for, and why the issuer gives it no token. Each further try could lock its account.
    client_refusal: Option<(Vec<String>, AuthError)>,
}

impl Known {
    /// Whether the issuer did not answer a refresh a moment ago.
    fn has_just_failed(&self) -> bool {
        self.renewal_failed.is_some_and(|at| at.elapsed() < RENEWAL_PAUSE)
    }
}

impl Authorizer {
    /// For the server at this URL.
    pub fn new<S>(server: &str, settings: AuthSettings, store: Arc<S>) -> Result<Self, AuthError>
    where
        S: TokenStore + std::fmt::Debug,
    {
        let invalid = |error: url::ParseError| AuthError::Url { what: "the server", reason: error.to_string() };
        let server = Url::parse(server).map_err(invalid)?;
        // Endpoints of the configuration are as trusted as the server's own URL.
        let token = settings.endpoints.as_ref().and_then(|endpoints| Url::parse(&endpoints.token).ok());
        let is_inner =
            [Some(&server), token.as_ref()].into_iter().flatten().any(|url| AddressRule::of(url) == AddressRule::Any);
        let rule = if is_inner { AddressRule::Any } else { AddressRule::Public };
        let allowed = AllowedHosts::new(settings.allow_hosts.iter().map(String::as_str));
        let transport = AuthTransport::new(rule, allowed)?;
        Ok(Self { server, transport, settings, store, turn: Mutex::default() })
    }

    /// The token for the next request, refreshed if it is due; none if there is no login, which a server may not need.
    pub async fn access_token(&self) -> Result<Option<SecretText>, AuthError> {
        let mut known = self.turn.lock().await;
        let Some(tokens) = self.tokens(&mut known).await? else { return Ok(None) };
        let is_renewable = tokens.refresh.is_some() || self.settings.grant == Grant::ClientCredentials;
        if !tokens.is_due(now()) || !is_renewable {
            return Ok(Some(tokens.access));
        }
        // Each request would wait for the issuer in turn.
        if known.has_just_failed() && !tokens.is_expired(now()) {
            return Ok(Some(tokens.access));
        }
        match self.renew(&mut known, &tokens.access).await {
            Ok(token) => Ok(token),
            // It may still be good for a moment, or the server's clock is another.
            Err(AuthError::Unreachable { .. }) => {
                known.renewal_failed = Some(Instant::now());
                Ok(Some(tokens.access))
            }
            Err(_) if !tokens.is_expired(now()) => Ok(Some(tokens.access)),
            Err(error) => Err(error),
        }
    }

    /// What to do after the server refused a request that had this token, or none.
    pub async fn after_refusal(&self, sent: Option<&SecretText>, challenge: &Challenge) -> Result<Retry, AuthError> {
        let mut known = self.turn.lock().await;
        known.challenged.clone_from(&challenge.scopes);
        let tokens = self.tokens(&mut known).await?;
        if let Some(tokens) = tokens.as_ref().filter(|tokens| sent != Some(&tokens.access)) {
            // Another request, or another process, has got a new token meanwhile.
            return Ok(Retry::With(tokens.access.clone()));
        }
        if challenge.is_insufficient_scope() {
            if challenge.scopes.is_empty() && known.discovered.is_none() {
                // The metadata may name scopes that the challenge does not; without them, the configuration alone does.
                known.resource_metadata = challenge.resource_metadata.clone().or(known.resource_metadata.take());
                let _ = self.discovered(&mut known).await;
            }
            return self.step_up(&mut known, tokens).await;
        }
        // A server that refuses its own token may have moved to another issuer, which it tells only here.
        known.discovered = None;
        if challenge.resource_metadata.is_some() {
            known.resource_metadata.clone_from(&challenge.resource_metadata);
            self.discovered(&mut known).await?;
        }
        let stale = tokens.map(|tokens| tokens.access);
        let renewed = match (&stale, self.settings.grant) {
            (Some(stale), _) => self.renew(&mut known, stale).await?,
            (None, Grant::ClientCredentials) => self.log_in_as_client(&mut known, None).await?,
            (None, Grant::AuthorizationCode) => None,
        };
        if let Some(token) = renewed {
            return Ok(Retry::With(token));
        }
        let refusal = self.refusal_of_new_token(&mut known, sent, challenge).await?;
        let error = refusal.unwrap_or_else(|| AuthError::LoginRequired { scopes: self.scopes(&known) });
        Ok(Retry::AfterLogin(error))
    }

    /// What to say of a token that was refused although it was issued a moment ago; none if that is not so.
    async fn refusal_of_new_token(
        &self,
        known: &mut Known,
        sent: Option<&SecretText>,
        challenge: &Challenge,
    ) -> Result<Option<AuthError>, AuthError> {
        let Some(login) = self.login(known).await? else { return Ok(None) };
        let is_new = |tokens: &Tokens| {
            let age = now().saturating_sub(tokens.issued_at);
            Some(&tokens.access) == sent && age < NEW_TOKEN_TIME.as_secs() && !tokens.is_expired(now())
        };
        let names_resource = self.settings.endpoints.as_ref().is_none_or(|endpoints| endpoints.names_resource);
        Ok(login.tokens.as_ref().is_some_and(is_new).then(|| AuthError::TokenRefused {
            issuer: login.issuer.clone(),
            resource: names_resource.then(|| login.resource.clone()),
            description: challenge.description.clone(),
            logout: self.settings.logout_command.clone(),
        }))
    }

    async fn step_up(&self, known: &mut Known, tokens: Option<Tokens>) -> Result<Retry, AuthError> {
        let granted = tokens.as_ref().map(|tokens| tokens.scopes.as_slice()).unwrap_or_default();
        let is_new = known.challenged.iter().any(|scope| !granted.contains(scope));
        let missing = self.missing(known, granted);
        if self.settings.grant == Grant::ClientCredentials && is_new {
            let stale = tokens.map(|tokens| tokens.access);
            if let Some(token) = self.log_in_as_client(known, stale.as_ref()).await? {
                return Ok(Retry::With(token));
            }
        }
        Ok(Retry::AfterLogin(AuthError::ScopesRequired { scopes: self.scopes(known), missing }))
    }

    /// What a request lacks that was refused again, with the token that [`Self::after_refusal`] gave for it.
    pub async fn after_second_refusal(&self, sent: &SecretText, challenge: Challenge) -> AuthError {
        let mut known = self.turn.lock().await;
        if !challenge.is_insufficient_scope() {
            return match self.refusal_of_new_token(&mut known, Some(sent), &challenge).await {
                Ok(refusal) => refusal.unwrap_or_else(|| challenge.into_error()),
                Err(error) => error,
            };
        }
        if !challenge.scopes.is_empty() {
            return challenge.into_error();
        }
        known.challenged.clear();
        let granted = match self.tokens(&mut known).await {
            Ok(tokens) => tokens.map(|tokens| tokens.scopes).unwrap_or_default(),
            Err(error) => return error,
        };
        AuthError::ScopesRequired { scopes: self.scopes(&known), missing: self.missing(&known, &granted) }
    }

    /// What the last challenge says of the scopes that are missing, and whether the configuration or the metadata name one
    /// that was not granted.
    fn missing(&self, known: &Known, granted: &[String]) -> MissingScopes {
        let listed = known.discovered.iter().flat_map(|discovered| &discovered.scopes);
        let has_more_to_ask = self.settings.scopes.iter().chain(listed).any(|scope| !granted.contains(scope));
        match (known.challenged.is_empty(), has_more_to_ask) {
            (false, _) => MissingScopes::Named,
            (true, true) => MissingScopes::UnnamedWithMoreToAsk,
            (true, false) => MissingScopes::Unnamed,
        }
    }

    /// Begins a login for these scopes and those that the server names; the redirect goes to `redirect_uri`, which must be
    /// on this machine or registered.
    pub async fn begin_login(&self, redirect_uri: &str, more_scopes: &[String]) -> Result<PendingLogin, AuthError> {
        let mut known = self.turn.lock().await;
        // The documents may have changed since.
        known.discovered = None;
        let discovered = self.discovered(&mut known).await?;
        let login = self.login(&mut known).await?;
        let former = login.filter(|login| login.issuer == discovered.issuer.issuer).map(|login| login.client);
        let settings = &self.settings.client;
        let client =
            registration::client_at(&self.transport, &discovered.issuer, settings, former, redirect_uri).await?;
        let mut scopes = self.scopes(&known);
        for scope in more_scopes {
            if !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
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
        let request = self.token_request(&discovered, &client);
        let exchanged = request.for_code(&code, &verifier, &redirect_uri, &scopes).await;
        let mut known = self.turn.lock().await;
        // A refresh of the former login must not replace what is kept here.
        let _lock = self.lock_store().await?;
        if exchanged.as_ref().is_err_and(AuthError::is_unknown_client) {
            self.forget_client(&mut known, &client).await?;
        }
        let (tokens, account) = exchanged?;
        let (issuer, resource) = (discovered.issuer.issuer.clone(), discovered.resource.clone());
        let login = Login { issuer, resource, client, account, tokens: Some(tokens) };
        self.keep(&mut known, &login).await?;
        Ok(status_of(Some(&login)))
    }

    /// Logs in without a person, where the settings say so.
    pub async fn log_in_without_person(&self) -> Result<LoginStatus, AuthError> {
        let mut known = self.turn.lock().await;
        (known.discovered, known.client_refusal) = (None, None);
        let stale = self.tokens(&mut known).await?.map(|tokens| tokens.access);
        self.log_in_as_client(&mut known, stale.as_ref()).await?;
        Ok(status_of(self.login(&mut known).await?.as_ref()))
    }

    /// Forgets the login, and tells the issuer so where it wants to know.
    pub async fn log_out(&self) -> Result<(), AuthError> {
        let mut known = self.turn.lock().await;
        // A refresh that is under way would keep its tokens afterwards.
        let _lock = self.lock_store().await?;
        if let Ok(Some(login)) = self.login(&mut known).await {
            // It is forgotten here whatever the issuer says.
            let _ = self.revoke(&mut known, &login).await;
        }
        self.forget(&mut known).await
    }

    async fn revoke(&self, known: &mut Known, login: &Login) -> Result<(), AuthError> {
        let Some(tokens) = &login.tokens else { return Ok(()) };
        let discovered = self.discovered(known).await?;
        let Some(endpoint) = discovered.issuer.revocation_endpoint.clone() else { return Ok(()) };
        if discovered.issuer.issuer != login.issuer {
            return Ok(());
        }
        let request = self.token_request(&discovered, &login.client);
        request.revoke(endpoint, tokens.refresh.as_ref().unwrap_or(&tokens.access)).await
    }

    /// Whether there is a login.
    pub async fn status(&self) -> Result<LoginStatus, AuthError> {
        let mut known = self.turn.lock().await;
        Ok(status_of(self.login(&mut known).await?.as_ref()))
    }

    /// The version of the login in the store, which tells whether anything changed it. Cheap.
    pub fn version(&self) -> LoginVersion {
        self.store.version(&self.settings.name)
    }

    /// Where the client that is known already is redirected to. Another URI needs another registration.
    pub async fn registered_redirect(&self) -> Option<String> {
        let mut known = self.turn.lock().await;
        self.login(&mut known).await.ok()??.client.redirect_uri
    }

    /// How a login comes about.
    pub fn grant(&self) -> Grant {
        self.settings.grant
    }

    /// The failure of a login that was not finished within this time.
    pub fn timed_out(&self, after: Duration) -> AuthError {
        AuthError::TimedOut { after, logout: self.settings.logout_command.clone() }
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

    fn token_request<'a>(&'a self, discovered: &'a Discovered, client: &'a RegisteredClient) -> TokenRequest<'a> {
        let resource = Some(discovered.resource.as_str()).filter(|_| discovered.names_resource);
        TokenRequest { transport: &self.transport, server: &discovered.issuer, client, resource }
    }

    /// A token of the client itself in place of `stale`; the one of another process if that was faster.
    async fn log_in_as_client(
        &self,
        known: &mut Known,
        stale: Option<&SecretText>,
    ) -> Result<Option<SecretText>, AuthError> {
        let _lock = self.lock_store().await?;
        if let Some(tokens) = self.tokens(known).await?.filter(|tokens| stale != Some(&tokens.access)) {
            return Ok(Some(tokens.access));
        }
        self.request_as_client(known).await.map(Some)
    }

    /// The same while the lock is held.
    async fn request_as_client(&self, known: &mut Known) -> Result<SecretText, AuthError> {
        let discovered = self.discovered(known).await?;
        let issuer = &discovered.issuer.issuer;
        let no_client = || AuthError::NoClient { issuer: issuer.clone(), redirect_uri: "(none needed)".to_owned() };
        let client = self.settings.client.preregistered.clone().ok_or_else(no_client)?;
        let (issuer, resource) = (issuer.clone(), discovered.resource.clone());
        let login = Login { issuer, resource, client, account: None, tokens: None };
        self.bind(known, &login).await?;
        let scopes = self.scopes(known);
        let still_counts =
            |(asked, refusal): &&(Vec<String>, AuthError)| *asked == scopes || !refusal.is_about_scopes();
        if let Some((_, refusal)) = known.client_refusal.as_ref().filter(still_counts) {
            return Err(refusal.clone());
        }
        let issued = self.token_request(&discovered, &login.client).for_client(&scopes).await;
        let tokens = issued.map_err(|error| self.client_refusal(known, scopes, &login.issuer, error))?;
        let access = tokens.access.clone();
        self.keep(known, &Login { tokens: Some(tokens), ..login }).await?;
        Ok(access)
    }

    /// Keeps a refusal that lasts, with what to look at.
    fn client_refusal(&self, known: &mut Known, scopes: Vec<String>, issuer: &str, error: AuthError) -> AuthError {
        let is_lasting = error.is_lasting_refusal();
        match error {
            AuthError::Refused { code, description, .. } if is_lasting => {
                let (issuer, setting) = (issuer.to_owned(), self.settings.setting.clone());
                let refusal = AuthError::ClientRefused { issuer, code, description, setting };
                known.client_refusal.insert((scopes, refusal)).1.clone()
            }
            other => other,
        }
    }

    /// Keeps which issuer a client belongs to, before that issuer gets its secret. Called with the lock of the store.
    async fn bind(&self, known: &mut Known, login: &Login) -> Result<(), AuthError> {
        let is_bound = |former: Login| {
            former.client.id == login.client.id && issuer_binding::is_same(&former.issuer, &login.issuer)
        };
        match self.login(known).await?.is_some_and(is_bound) {
            true => Ok(()),
            false => self.keep(known, login).await,
        }
    }

    /// A new token in place of `stale`; none if the login ended.
    async fn renew(&self, known: &mut Known, stale: &SecretText) -> Result<Option<SecretText>, AuthError> {
        let _lock = self.lock_store().await?;
        // Another process may have refreshed it while this one waited.
        let Some(mut login) = self.login(known).await? else { return Ok(None) };
        let Some(tokens) = login.tokens.take() else { return Ok(None) };
        if tokens.access != *stale {
            return Ok(Some(tokens.access));
        }
        let discovered = self.discovered(known).await?;
        let moved = discovered.issuer.issuer != login.issuer;
        let refresh = match (&tokens.refresh, self.settings.grant) {
            (Some(refresh), _) if !moved => refresh.clone(),
            (_, Grant::ClientCredentials) => return self.request_as_client(known).await.map(Some),
            (None, Grant::AuthorizationCode) if !moved => return Ok(None),
            // The server has another issuer now, which must not see a token of the former one.
            (_, Grant::AuthorizationCode) => return self.forget_tokens(known, login).await.map(|()| None),
        };
        match self.token_request(&discovered, &login.client).refresh(&tokens, &refresh).await {
            Ok(renewed) => {
                let access = renewed.access.clone();
                self.keep(known, &Login { tokens: Some(renewed), ..login }).await?;
                Ok(Some(access))
            }
            Err(error) if error.is_unknown_client() && !self.is_preregistered(&login.client) => {
                self.forget(known).await.map(|()| None)
            }
            Err(error) if error.is_unknown_client() || error.is_ended_grant() => {
                self.forget_tokens(known, login).await.map(|()| None)
            }
            Err(error) => Err(error),
        }
    }

    fn is_preregistered(&self, client: &RegisteredClient) -> bool {
        self.settings.client.preregistered.as_ref().is_some_and(|own| own.id == client.id)
    }

    /// Forgets a client that its issuer does not know any more, so that the next login registers another one; not the
    /// user's own, nor one that another process registered meanwhile. Called with the lock of the store.
    async fn forget_client(&self, known: &mut Known, client: &RegisteredClient) -> Result<(), AuthError> {
        let is_kept = self.login(known).await?.is_some_and(|login| login.client.id == client.id);
        match is_kept && !self.is_preregistered(client) {
            true => self.forget(known).await,
            false => Ok(()),
        }
    }

    async fn forget(&self, known: &mut Known) -> Result<(), AuthError> {
        known.login = None;
        known.version = LoginVersion::Unknown;
        self.with_store(|store, name| store.remove(name)).await
    }

    async fn forget_tokens(&self, known: &mut Known, login: Login) -> Result<(), AuthError> {
        self.keep(known, &Login { tokens: None, ..login }).await
    }

    async fn tokens(&self, known: &mut Known) -> Result<Option<Tokens>, AuthError> {
        Ok(self.login(known).await?.and_then(|login| login.tokens))
    }

    /// The login in the store, read again if it was changed there.
    async fn login(&self, known: &mut Known) -> Result<Option<Login>, AuthError> {
        let version = self.version();
        if version != known.version {
            let loaded = match self.with_store(|store, name| store.load(name)).await {
                Err(AuthError::Store(SecretError::Damaged { .. })) => None,
                loaded => loaded?,
            };
            // A token is sent to the resource that it was issued for, whatever the name of its login says.
            known.login = loaded.filter(|login| metadata::covers(&login.resource, &self.server));
            known.version = version;
            if known.login.as_ref().is_some_and(|login| login.tokens.is_some()) {
                // The issuer has given this client a token since.
                known.client_refusal = None;
            }
        }
        Ok(known.login.clone())
    }

    async fn keep(&self, known: &mut Known, login: &Login) -> Result<(), AuthError> {
        // Read again before the next use: another process may change it right after.
        known.version = LoginVersion::Unknown;
        known.renewal_failed = None;
        let login = login.clone();
        self.with_store(move |store, name| store.save(name, &login)).await
    }

    /// Who issues tokens for the server, if the credentials of this client may be sent there.
    async fn discovered(&self, known: &mut Known) -> Result<Discovered, AuthError> {
        let found = match known.discovered.take() {
            Some(found) => found,
            None => self.discover(known.resource_metadata.as_deref()).await?,
        };
        let login = self.login(known).await?;
        issuer_binding::check(&self.settings, &found.issuer.issuer, login.as_ref())?;
        Ok(known.discovered.insert(found).clone())
    }

    async fn discover(&self, named: Option<&str>) -> Result<Discovered, AuthError> {
        match &self.settings.endpoints {
            Some(endpoints) => {
                metadata::configured(&self.transport, &self.server, endpoints, self.settings.issuer.as_deref())
            }
            None => metadata::discover(&self.transport, &self.server, named).await,
        }
    }

    /// Waits until no other process refreshes or changes the login.
    async fn lock_store(&self) -> Result<StoreLock, AuthError> {
        self.with_store(|store, name| store.lock(name)).await
    }

    /// Uses the store on a thread that may block.
    async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn DebugStore, &str) -> Result<T, SecretError> + Send + 'static,
    ) -> Result<T, AuthError> {
        let (store, name) = (Arc::clone(&self.store), self.settings.name.clone());
        let done = tokio::task::spawn_blocking(move || work(&*store, &name)).await;
        let lost = |_| SecretError::Files { folder: "the store".into(), reason: "interrupted".to_owned() };
        Ok(done.map_err(lost)??)
    }
}

fn status_of(login: Option<&Login>) -> LoginStatus {
    let Some(login) = login else { return LoginStatus::LoggedOut };
    let Some(tokens) = &login.tokens else { return LoginStatus::LoggedOut };
    LoginStatus::LoggedIn {
        issuer: login.issuer.clone(),
        account: login.account.clone(),
        until: tokens.expires_at,
        refreshable: tokens.refresh.is_some(),
        scopes: tokens.scopes.clone(),
    }
}
