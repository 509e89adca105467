//! `toolgate login` and `logout`; also what `add` and `list` say about logins.
//!
//! The browser comes back to a port of this machine. A browser of another machine cannot, so the address that it ends at
//! can be pasted here as well; the login takes whichever comes first.

use std::io::BufRead;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use toolgate_config::Checked;
use toolgate_gateway::runtime::{LoginNeed, LoginTarget, LoginTargetError};
use toolgate_mcp::client::auth::{
    AuthError, AuthorizationResponse, Grant, LoginStatus, PendingLogin, RedirectListener,
};

use super::super::servers::edit::own_file;
use super::super::servers::{configuration, no_server};
use super::super::{Exit, Usage};
use super::client::ask_for_client;
use crate::args::logins::{LoginArgs, LogoutArgs};
use crate::browser;
use crate::consent::{ask, is_interactive};
use crate::print::{escape, note, out};
use crate::units::utc;

/// How long a server may take to say whether it wants a login.
const ASK_TIMEOUT: Duration = Duration::from_secs(30);
/// The same where it is only an offer.
const OFFER_TIMEOUT: Duration = Duration::from_secs(8);
/// How long an offered login may take.
const OFFERED_LOGIN_TIMEOUT: Duration = Duration::from_secs(300);

/// How to log in.
struct Manner<'a> {
    scopes: &'a [String],
    opens_browser: bool,
    port: Option<u16>,
    timeout: Duration,
    /// The configuration's file, for a client that a person has to register.
    file: &'a Path,
}

pub(crate) fn login(args: &LoginArgs) -> anyhow::Result<Exit> {
    let target = target(&configuration(&args.servers)?, &args.name)?;
    let manner = Manner {
        scopes: &args.scope,
        opens_browser: !args.no_browser,
        port: args.port,
        timeout: args.timeout,
        file: &own_file(args.servers.config.as_deref())?,
    };
    within(async { log_in(&target, &args.name, &manner).await })?;
    Ok(Exit::Done)
}

pub(crate) fn logout(args: &LogoutArgs) -> anyhow::Result<Exit> {
    let target = target(&configuration(&args.servers)?, &args.name)?;
    let name = escape::line(&args.name);
    match within(async { forget(&target).await })? {
        true => note(format_args!("logged out of {name}")),
        false => note(format_args!("there is no login at {name}")),
    }
    Ok(Exit::Done)
}

/// Forgets the login of a server that is removed.
pub(crate) fn forget_removed(config: &Checked, name: &str) {
    let Ok(target) = LoginTarget::of(config, name) else { return };
    if within(async { forget(&target).await }).unwrap_or(false) {
        note(format_args!("logged out of {}", escape::line(name)));
    }
}

/// Whether there was a login.
async fn forget(target: &LoginTarget) -> anyhow::Result<bool> {
    let is_known = target.authorizer.status().await? != LoginStatus::LoggedOut;
    target.authorizer.log_out().await?;
    Ok(is_known)
}

/// Finds out whether a server that was added asks for a login, and offers it.
pub(crate) fn offer(config: &Checked, file: &Path, name: &str) {
    let Ok(target) = LoginTarget::of(config, name) else { return };
    let shown = escape::line(name);
    let offered = within(async {
        if !matches!(target.need(OFFER_TIMEOUT).await, LoginNeed::Login | LoginNeed::AnotherLogin(_)) {
            return Ok(());
        }
        if !is_interactive() || !ask(&format!("{shown} asks for a login. Log in now?")) {
            note(format_args!("{shown} asks for a login: run `{}`", escape::line(&target.command)));
            return Ok(());
        }
        let timeout = OFFERED_LOGIN_TIMEOUT;
        let manner = Manner { scopes: &[], opens_browser: true, port: None, timeout, file };
        log_in(&target, name, &manner).await
    });
    if let Err(error) = offered {
        // The server is added; the login can be repeated.
        note(format_args!("no login: {}", escape::line(&format!("{error:#}"))));
    }
}

fn target(config: &Checked, name: &str) -> anyhow::Result<LoginTarget> {
    if let Some(server) = config.incomplete.get(name) {
        return Err(Usage(server.reason()).into());
    }
    LoginTarget::of(config, name).map_err(|error| match error {
        LoginTargetError::Auth(error) => error.into(),
        LoginTargetError::Unknown if config.disabled.iter().any(|disabled| disabled.as_str() == name) => {
            Usage(format!("{} is disabled in the configuration", escape::line(name))).into()
        }
        LoginTargetError::Unknown => no_server(config, name).into(),
        other => Usage(format!("{}: {other}", escape::line(name))).into(),
    })
}

fn within<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime: Runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(work);
    // A thread may still wait for standard input.
    runtime.shutdown_background();
    done
}

async fn log_in(target: &LoginTarget, name: &str, manner: &Manner<'_>) -> anyhow::Result<()> {
    let shown = escape::line(name);
    match target.need(ASK_TIMEOUT).await {
        LoginNeed::None if manner.scopes.is_empty() || target.authorizer.grant() == Grant::ClientCredentials => {
            match target.authorizer.status().await? {
                LoginStatus::LoggedOut => note(format_args!("{shown} asks for no login")),
                status => note(format_args!("logged in to {shown}{}", about(&status))),
            }
            return Ok(());
        }
        LoginNeed::Unknown(Some(error)) => anyhow::bail!("{shown}: {}", escape::line(&error.to_string())),
        LoginNeed::None | LoginNeed::Login | LoginNeed::AnotherLogin(_) | LoginNeed::Unknown(None) => {}
    }
    let status = match target.authorizer.grant() {
        Grant::ClientCredentials => target.authorizer.log_in_without_person().await?,
        Grant::AuthorizationCode => with_browser(target, name, manner).await?,
    };
    note(format_args!("logged in to {shown}{}", about(&status)));
    // A token that its issuer gives and the server refuses is of no use: without this, another login would seem to help.
    match target.need(ASK_TIMEOUT).await {
        LoginNeed::AnotherLogin(refused) => anyhow::bail!("{shown}: {}", escape::line(&refused.to_string())),
        LoginNeed::None | LoginNeed::Login | LoginNeed::Unknown(_) => Ok(()),
    }
}

async fn with_browser(target: &LoginTarget, name: &str, manner: &Manner<'_>) -> anyhow::Result<LoginStatus> {
    let listener = target.listen(manner.port).await.context("there is no port for the browser to come back to")?;
    match target.authorizer.begin_login(&listener.redirect_uri(), manner.scopes).await {
        Err(AuthError::NoClient { issuer, redirect_uri }) if is_interactive() => {
            let Some(target) = ask_for_client(manner.file, name, &issuer, &listener)? else {
                return Err(AuthError::NoClient { issuer, redirect_uri }.into());
            };
            // The scopes that the server asks for come with its challenge.
            target.need(ASK_TIMEOUT).await;
            let pending = target.authorizer.begin_login(&listener.redirect_uri(), manner.scopes).await?;
            wait_for_browser(&target, pending, &listener, manner).await
        }
        begun => wait_for_browser(target, begun?, &listener, manner).await,
    }
}

async fn wait_for_browser(
    target: &LoginTarget,
    pending: PendingLogin,
    listener: &RedirectListener,
    manner: &Manner<'_>,
) -> anyhow::Result<LoginStatus> {
    note(format_args!("to log in at {}, open this page:", escape::line(pending.issuer())));
    out(pending.url.as_str())?;
    if manner.opens_browser && browser::open(pending.url.as_str()).is_ok() {
        note("a browser was started with it");
    }
    note("if the browser is on another machine, paste the address of the page that it ends at:");
    let response = tokio::select! {
        response = listener.response_to(&pending) => response.context("the browser can't be received")?,
        response = pasted(&pending) => response,
        () = tokio::time::sleep(manner.timeout) => {
            return Err(target.authorizer.timed_out(manner.timeout).into());
        }
    };
    Ok(target.authorizer.finish_login(pending, &response).await?)
}

/// The address that a person pastes, once one belongs to this login.
async fn pasted(pending: &PendingLogin) -> AuthorizationResponse {
    let (sender, mut lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = lines.recv().await {
        match AuthorizationResponse::from_url(&line) {
            Ok(response) if pending.is_answered_by(&response) => return response,
            _ if line.trim().is_empty() => {}
            _ => note("that is not the address of this login; it has the parameters code and state"),
        }
    }
    // Standard input has ended: the browser may still come.
    std::future::pending().await
}

/// A login in words that follow `logged in to NAME`.
pub(crate) fn about(status: &LoginStatus) -> String {
    let LoginStatus::LoggedIn { issuer, account, until, refreshable, .. } = status else { return String::new() };
    let account = account.as_ref().map(|account| format!(" as {}", escape::line(account))).unwrap_or_default();
    let until = match (until, refreshable) {
        (_, true) => ", renewed by itself".to_owned(),
        (Some(until), false) => format!(", until {}", utc(*until)),
        (None, false) => String::new(),
    };
    format!("{account} at {}{until}", escape::line(issuer))
}

/// A login as JSON, or null without a login.
pub(crate) fn about_json(status: &LoginStatus) -> Value {
    let LoginStatus::LoggedIn { issuer, account, until, refreshable, scopes } = status else { return Value::Null };
    json!({
        "issuer": issuer, "account": account, "until": until.map(utc), "renewed": refreshable, "scopes": scopes,
    })
}
