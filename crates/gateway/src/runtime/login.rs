//! A configured server as the commands and the page see it for a login: whether it wants a login, and whether there is one.
//!
//! Nothing is started for it; a server is asked once, as a client would.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::spec::{kind, login_of};
use toolgate_backends::{BackendKind, quoted};
use toolgate_config::Checked;
use toolgate_mcp::client::auth::{AuthError, Authorizer, RedirectListener};
use toolgate_mcp::client::{HttpLink, Inbox, Link, LinkError, McpSession, Transport};

/// The largest message of a server that is asked.
const MAX_MESSAGE: usize = 16 << 20;

/// A server at which one can log in.
#[derive(Debug)]
pub struct LoginTarget {
    kind: BackendKind,
    url: String,
    /// Its login.
    pub authorizer: Arc<Authorizer>,
    /// The port that the browser must come back to, if the configuration names one.
    redirect_port: Option<u16>,
    /// The command with which a person logs in.
    pub command: String,
}

/// Why there is no login at a server.
#[derive(Debug, thiserror::Error)]
pub enum LoginTargetError {
    /// There is no server of that name that could be connected to.
    #[error("no server of this name is configured and complete")]
    Unknown,
    /// It is a program.
    #[error("this server takes no login: it is a program")]
    Program,
    /// It has a header for that.
    #[error("this server takes no login: the configuration has a header Authorization for it")]
    Header,
    /// It is an API, and its entry says nothing of a login.
    #[error(
        "the configuration has no OAuth login for this API: if its document describes one, run `toolgate remove {name}`, then \
         `toolgate add {name} --openapi DOCUMENT --client-id ID`, where ID is a client that you registered at its issuer"
    )]
    ApiWithoutLogin {
        /// Its name, as a shell reads it.
        name: String,
    },
    /// There is no folder that logins are kept in.
    #[error("there is no folder for logins: set HOME or XDG_STATE_HOME")]
    NoFolder,
    /// Its URL or the store of logins is of no use.
    #[error(transparent)]
    Auth(#[from] AuthError),
}

/// Whether a server wants a login.
#[derive(Debug)]
pub enum LoginNeed {
    /// It was connected to, with the login that there is or without one.
    None,
    /// A person has to log in first.
    Login,
    /// There is a login, and the server refuses its token.
    AnotherLogin(AuthError),
    /// It cannot be told: the server can't be reached, or is an API that is not asked.
    Unknown(Option<LinkError>),
}

impl LoginTarget {
    /// The server of that name.
    pub fn of(config: &Checked, name: &str) -> Result<Self, LoginTargetError> {
        let backend = config.backends.get(name).ok_or(LoginTargetError::Unknown)?;
        let kind = kind(name, &backend.transport, &config.settings);
        let settings = login_of(&backend.transport).ok_or_else(|| without_login(name, &kind))?;
        let login = kind.login().ok_or(LoginTargetError::NoFolder)?;
        let url = match &kind {
            BackendKind::Http { url, .. } => url.clone(),
            BackendKind::OpenApi(api) => api.base.to_string(),
            BackendKind::Stdio { .. } => return Err(LoginTargetError::Program),
        };
        let (authorizer, command) = (login.authorizer(&url)?, login.command.clone());
        Ok(Self { url, authorizer, redirect_port: settings.redirect_port, command, kind })
    }

    /// Connects once. The server's challenge counts for the login that may follow.
    pub async fn need(&self, within: Duration) -> LoginNeed {
        let BackendKind::Http { headers, .. } = &self.kind else { return LoginNeed::Unknown(None) };
        let opened = tokio::time::timeout(within, self.open(headers)).await;
        match opened {
            Ok(Ok(())) => LoginNeed::None,
            Ok(Err(LinkError::Auth(AuthError::LoginRequired { .. } | AuthError::ScopesRequired { .. }))) => {
                LoginNeed::Login
            }
            Ok(Err(LinkError::Auth(error @ AuthError::TokenRefused { .. }))) => LoginNeed::AnotherLogin(error),
            Ok(Err(error)) => LoginNeed::Unknown(Some(error)),
            Err(_) => LoginNeed::Unknown(None),
        }
    }

    /// Listens where the browser comes back to: at this port or the configured one, else where the client is registered to be
    /// redirected to, else at any port of this machine.
    pub async fn listen(&self, port: Option<u16>) -> std::io::Result<RedirectListener> {
        let port = port.or(self.redirect_port);
        if port.is_none()
            && let Some(registered) = self.authorizer.registered_redirect().await
            && let Some(listener) = RedirectListener::bind_registered(&registered).await
        {
            return Ok(listener);
        }
        RedirectListener::bind(port).await
    }

    async fn open(&self, headers: &BTreeMap<String, String>) -> Result<(), LinkError> {
        let inbox = Arc::new(Inbox::new(Arc::default()));
        let authorizer = Arc::clone(&self.authorizer);
        let link = HttpLink::authorized(&self.url, headers, authorizer, Arc::clone(&inbox), MAX_MESSAGE);
        let link = Arc::new(Link::new(Transport::Http(link.map_err(LinkError::Unreachable)?), inbox));
        let session = McpSession::open(Arc::clone(&link), None).await?;
        // Some servers let everybody say hello, and ask for a login afterwards.
        let listed = session.list_tools(LIST_TIMEOUT).await.map(drop);
        link.shut_down(&session.protocol).await;
        listed
    }
}

/// Why a server whose entry has no login takes none.
fn without_login(name: &str, kind: &BackendKind) -> LoginTargetError {
    match kind {
        BackendKind::Stdio { .. } => LoginTargetError::Program,
        BackendKind::Http { .. } => LoginTargetError::Header,
        BackendKind::OpenApi(_) => LoginTargetError::ApiWithoutLogin { name: quoted(name) },
    }
}

/// How long a list of tools may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);
