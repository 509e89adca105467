//! `POST /v1/backends/NAME/login`: begins a login at a backend, and answers the page that a person opens for it. `GET`: how the
//! login stands.
//!
//! The browser comes back to a port of this machine, where the login is finished; the backend and the runs that wait for it
//! find the login by themselves, as after `toolgate login`. One login at a time for each backend: a new one ends the one before.

use std::collections::HashMap;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use toolgate_gateway::runtime::{LoginNeed, LoginTarget, LoginTargetError};
use toolgate_mcp::client::auth::{AuthError, Grant, LoginStatus, PendingLogin, RedirectListener};
use toolgate_wire::foreign_text::one_line;

use crate::body::Received;
use crate::messages::BoundedList;
use crate::path::Path;
use crate::refusal::{Refusal, Shown};
use crate::{Caller, HttpService};

/// How long a server may take to say whether it wants a login.
const ASK_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a login may take.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(600);
/// Scopes of one request.
const MAX_SCOPES: usize = 64;
/// Characters of a reason.
const MAX_TEXT_CHARS: usize = 300;

/// Which login to begin.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LoginRequest {
    /// Scopes to ask for besides those of the configuration and of the server, such as a call that waits names them.
    #[serde(default)]
    #[schemars(inner(length(min = 1, max = 500), regex(pattern = r"^[!#-\[\]-~]+$")))]
    scopes: BoundedList<String, MAX_SCOPES>,
}

/// A login that has begun.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoginReply {
    /// What to open in a browser on the machine of the service; absent if there is a login already.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Who issues the login.
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    /// How many seconds the login may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in_seconds: Option<u64>,
}

/// How a login stands.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoginStatusReply {
    /// Whether there is a login.
    logged_in: bool,
    /// Whether one that was begun by this API waits for its browser.
    waiting: bool,
    /// Who issued the login.
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    /// Whose it is, if the issuer told.
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<String>,
    /// When its access token expires, in milliseconds since 1970, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    /// Whether it is renewed by itself then.
    renewed: bool,
    /// What it may be used for.
    scopes: Vec<String>,
    /// Why the last login that was begun by this API failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// The logins that wait for a browser, and how the last ones failed, by the names of backends.
#[derive(Default)]
pub(crate) struct BrowserLogins(Mutex<HashMap<String, BrowserLogin>>);

#[derive(Default)]
struct BrowserLogin {
    waiting: Option<JoinHandle<()>>,
    failure: Option<String>,
}

impl BrowserLogins {
    /// Why the last login at a backend failed, if it did.
    pub(super) fn failure(&self, backend: &str) -> Option<String> {
        self.0.lock().get(backend)?.failure.clone()
    }

    /// Whether a login at a backend waits for its browser.
    fn is_waiting(&self, backend: &str) -> bool {
        let logins = self.0.lock();
        logins.get(backend).and_then(|login| login.waiting.as_ref()).is_some_and(|waiting| !waiting.is_finished())
    }

    /// Ends the login that waits, and its port.
    async fn end(&self, backend: &str) {
        let waiting = self.0.lock().remove(backend).and_then(|login| login.waiting);
        if let Some(waiting) = waiting {
            waiting.abort();
            let _ = waiting.await;
        }
    }

    fn begun(&self, backend: &str, waiting: JoinHandle<()>) {
        let login = BrowserLogin { waiting: Some(waiting), failure: None };
        // Two requests at one time: the later one counts.
        let replaced = self.0.lock().insert(backend.to_owned(), login).and_then(|login| login.waiting);
        replaced.iter().for_each(JoinHandle::abort);
    }

    fn ended(&self, backend: &str, outcome: &Result<LoginStatus, AuthError>) {
        let failure = outcome.as_ref().err().map(|error| one_line(&error.to_string(), MAX_TEXT_CHARS));
        match &failure {
            None => tracing::info!(backend, "logged in"),
            Some(reason) => tracing::warn!(backend, reason, "a login failed"),
        }
        if let Some(login) = self.0.lock().get_mut(backend) {
            login.failure = failure;
        }
    }
}

/// Begins a login. All callers of the backend act with it afterwards, so only a caller that sees every tool of all backends may.
pub(crate) async fn begin(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    received: Received<LoginRequest>,
) -> Result<Response, Refusal> {
    let scopes = checked_scopes(received.value)?;
    let target = target(&service, &caller, &name)?;
    if target.authorizer.grant() == Grant::ClientCredentials {
        return Err(Refusal::BadRequest("this backend takes no login of a person: its client logs in by itself"));
    }
    let _permit = service.waiter_permit(&caller)?;
    match target.need(ASK_TIMEOUT).await {
        LoginNeed::None if scopes.is_empty() => {
            return Ok(answer(StatusCode::OK, LoginReply { url: None, issuer: None, expires_in_seconds: None }));
        }
        LoginNeed::Unknown(Some(error)) => return Err(unavailable(&error)),
        LoginNeed::None | LoginNeed::Login | LoginNeed::AnotherLogin(_) | LoginNeed::Unknown(None) => {}
    }
    service.browser_logins().end(&name).await;
    let listener = target.listen(None).await.map_err(|error| unavailable(&error))?;
    let begun = target.authorizer.begin_login(&listener.redirect_uri(), &scopes).await;
    let pending = begun.map_err(|error| unavailable(&error))?;
    let reply = LoginReply {
        url: Some(pending.url.to_string()),
        issuer: Some(one_line(pending.issuer(), MAX_TEXT_CHARS)),
        expires_in_seconds: Some(LOGIN_TIMEOUT.as_secs()),
    };
    let waiting = tokio::spawn(wait(service.clone(), name.clone(), target, listener, pending));
    service.browser_logins().begun(&name, waiting);
    Ok(answer(StatusCode::CREATED, reply))
}

/// Says how a login stands, to those who may begin one.
pub(crate) async fn status(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Response, Refusal> {
    let target = target(&service, &caller, &name)?;
    let _permit = service.waiter_permit(&caller)?;
    let logins = service.browser_logins();
    let mut reply = LoginStatusReply {
        logged_in: false,
        waiting: logins.is_waiting(&name),
        issuer: None,
        account: None,
        expires_at: None,
        renewed: false,
        scopes: Vec::new(),
        failure: logins.failure(&name),
    };
    match target.authorizer.status().await.map_err(|error| unavailable(&error))? {
        LoginStatus::LoggedOut => {}
        LoginStatus::LoggedIn { issuer, account, until, refreshable, scopes } => {
            let shown = |text: &String| one_line(text, MAX_TEXT_CHARS);
            reply.logged_in = true;
            reply.issuer = Some(shown(&issuer));
            reply.account = account.as_ref().map(shown);
            (reply.expires_at, reply.renewed) = (until.map(|seconds| seconds.saturating_mul(1000)), refreshable);
            reply.scopes = scopes.iter().take(MAX_SCOPES).map(shown).collect();
        }
    }
    Ok(answer(StatusCode::OK, reply))
}

fn checked_scopes(request: LoginRequest) -> Result<Vec<String>, Refusal> {
    let LoginRequest { scopes } = request;
    // The characters of RFC 6749, section 3.3.
    let is_scope = |scope: &String| {
        (1..=500).contains(&scope.len())
            && scope.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte))
    };
    if !scopes.iter().all(is_scope) {
        return Err(Refusal::field("/scopes", "must be scopes without spaces and quotes"));
    }
    Ok(scopes.into_iter().collect())
}

fn target(service: &HttpService, caller: &Caller, name: &str) -> Result<LoginTarget, Refusal> {
    let scope = caller.scope();
    let no_such = || Refusal::NoSuch(format!("no such backend: {}", Shown::new(name)));
    let gateway = service.gateway().filter(|_| scope.backends.permits(name)).ok_or_else(no_such)?;
    let found = LoginTarget::of(&gateway.config(), name);
    if !scope.sees_all_tools() && !matches!(found, Err(LoginTargetError::Unknown)) {
        return Err(Refusal::NotPermitted("only a key for all backends and tools may log in to one"));
    }
    found.map_err(|error| match error {
        LoginTargetError::Unknown => no_such(),
        LoginTargetError::Program => Refusal::BadRequest("this backend takes no login: it is a program"),
        LoginTargetError::Header => {
            Refusal::BadRequest("this backend takes no login: the configuration has a header Authorization for it")
        }
        LoginTargetError::ApiWithoutLogin { .. } => Refusal::BadRequest(
            "the configuration has no OAuth login for this API: `toolgate add NAME --openapi DOCUMENT --client-id ID` writes the \
             one that its document describes",
        ),
        LoginTargetError::NoFolder => Refusal::BadRequest("this service has no folder for logins"),
        LoginTargetError::Auth(error) => unavailable(&error),
    })
}

/// Waits for the browser, and ends the login.
async fn wait(
    service: HttpService,
    name: String,
    target: LoginTarget,
    listener: RedirectListener,
    pending: PendingLogin,
) {
    let shutdown = service.shutdown().begin.clone();
    let outcome = tokio::select! {
        outcome = finish(&target, &listener, pending) => outcome,
        () = tokio::time::sleep(LOGIN_TIMEOUT) => Err(target.authorizer.timed_out(LOGIN_TIMEOUT)),
        () = shutdown.cancelled() => return,
    };
    service.browser_logins().ended(&name, &outcome);
}

async fn finish(
    target: &LoginTarget,
    listener: &RedirectListener,
    pending: PendingLogin,
) -> Result<LoginStatus, AuthError> {
    let lost = |error: std::io::Error| AuthError::Unreachable { what: "the browser", reason: error.to_string() };
    let response = listener.response_to(&pending).await.map_err(lost)?;
    let status = target.authorizer.finish_login(pending, &response).await?;
    match target.need(ASK_TIMEOUT).await {
        LoginNeed::AnotherLogin(refused) => Err(refused),
        LoginNeed::None | LoginNeed::Login | LoginNeed::Unknown(_) => Ok(status),
    }
}

fn unavailable(error: &dyn std::fmt::Display) -> Refusal {
    Refusal::unavailable(one_line(&error.to_string(), MAX_TEXT_CHARS))
}

fn answer(status: StatusCode, reply: impl Serialize) -> Response {
    let mut response = (status, Json(reply)).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
