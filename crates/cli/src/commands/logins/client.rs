//! The client of a login where an authorization server registers none by itself: asked for at a terminal, and kept.
//!
//! The id and the port of the redirect go into the configuration, the secret among `toolgate secret`, so that later logins
//! ask nothing.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde_json::{Map, json};
use toolgate_config::{Env, edit, vars};
use toolgate_gateway::runtime::LoginTarget;
use toolgate_mcp::client::auth::RedirectListener;

use super::super::servers::edit::say;
use super::{literal, secret};
use crate::consent::keep_trust;
use crate::print::{escape, note};

/// Asks for the client that the person registered, writes it into the configuration, and gives the server with it. None if
/// the person has no client.
pub(super) fn ask_for_client(
    file: &Path,
    name: &str,
    issuer: &str,
    listener: &RedirectListener,
) -> anyhow::Result<Option<LoginTarget>> {
    note(format_args!("{} has no automatic registration.", escape::line(issuer)));
    note(format_args!("Register a client with the redirect URI {} there.", listener.redirect_uri()));
    let id = answer("Its client id (empty to stop): ")?;
    if id.is_empty() {
        return Ok(None);
    }
    let mut client = Map::from_iter([
        ("clientId".to_owned(), json!(vars::escape(&id))),
        ("redirectPort".to_owned(), json!(listener.port())),
    ]);
    let terminal = console::Term::stderr();
    terminal.write_str("Its client secret (empty if it has none, not shown): ")?;
    let typed = terminal.read_secure_line()?;
    if !typed.is_empty() {
        let store = secret::store(secret::configured(Some(file))?)?;
        client.insert("clientSecret".to_owned(), json!(literal::keep_as(&store, name, "clientSecret", &typed)?));
    }
    say(&keep_trust(file, || edit::set_client(file, name, &client))?);
    let config = toolgate_config::load(file, &Env::of_process().running_commands());
    let config = config.map_err(|_| anyhow::anyhow!("the configuration cannot be read again"))?;
    LoginTarget::of(&config, name).map(Some).context("the client cannot be used")
}

/// One line that a person types.
fn answer(question: &str) -> anyhow::Result<String> {
    let mut stderr = std::io::stderr().lock();
    write!(stderr, "{question}")?;
    stderr.flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(line.trim().to_owned())
}
