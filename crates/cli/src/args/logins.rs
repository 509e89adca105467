//! Commands about logins and secrets.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::servers::Servers;
use crate::units::duration;

/// See `Command::Login`.
#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The server
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// A scope to ask for besides those that the server names; can be given several times
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// Only print the URL
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// The port that the browser comes back to; otherwise that of the configuration, or any
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// How long to wait for the browser
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5m")]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// See `Command::Logout`.
#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// The server
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// See `Command::Secret`.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Keep a secret, which is read from standard input
    ///
    /// At a terminal it is asked for and not shown. Otherwise all of standard input is the secret, without its last line
    /// break: pass show github | toolgate secret set GITHUB_TOKEN
    Set(SecretSetArgs),
    /// List the names of all secrets, where each is kept and since when
    List(SecretListArgs),
    /// Forget a secret
    Remove(SecretRemoveArgs),
}

/// See [`SecretCommand::Set`].
#[derive(Debug, Args)]
pub(crate) struct SecretSetArgs {
    /// Its name, for ${keyring:NAME}
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// See [`SecretCommand::List`].
#[derive(Debug, Args)]
pub(crate) struct SecretListArgs {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// See [`SecretCommand::Remove`].
#[derive(Debug, Args)]
pub(crate) struct SecretRemoveArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Where a secret is kept.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// In an encrypted file, also if there is a keyring
    #[arg(long)]
    pub(crate) file: bool,
    /// The configuration file whose `toolgate.secrets.store` counts
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub(crate) config: Option<PathBuf>,
}
