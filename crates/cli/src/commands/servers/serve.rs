//! `toolgate serve`: what agents talk to. `toolgate demo`: something to put behind it.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::CancellationToken;
use toolgate_config::{Env, watch};
use toolgate_gateway::agent::Agent;
use toolgate_gateway::runtime::{Gateway, engine_builder};
use toolgate_mcp::server::ToolMode;
use toolgate_service::doors;

use super::super::Exit;
use super::{Opened, configuration, sentences};
use crate::args::servers::{ListenAddress, ServeArgs};
use crate::logging;
use crate::print::note;
use crate::runner::cancel_on_signal;

/// How often the configuration file is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Workers that wait for the next program.
const AHEAD: usize = 2;

pub(crate) fn serve(args: &ServeArgs) -> anyhow::Result<Exit> {
    let config = configuration(&args.servers)?;
    // Over HTTP, every run is a line; over standard input and output the client shows what it did itself.
    let usual = if args.http.is_some() { "warn,toolgate::run=info" } else { "warn" };
    logging::start(args.log.as_deref(), usual, args.log_format);
    if !config.warnings.is_empty() {
        note(sentences(&config.warnings));
    }
    let mode = args.mode.map_or_else(|| doors::tool_mode(config.settings.mode), ToolMode::from);
    let configured = config.settings.http.bind;
    let address = args.http.clone().map(|http| http.address(configured));
    let watched = (!args.servers.demo).then(|| Arc::new(config.clone()));
    let mut engine = engine_builder(&config.settings);
    if let Some(interpreter) = args.engine {
        engine = engine.engine(interpreter.into());
    }
    Opened::of(config, engine, AHEAD)?.within(async |gateway| {
        if let Some(config) = watched {
            gateway.follow_file(watch::watch(config, Env::of_process(), LOOK));
        }
        let shutdown = CancellationToken::new();
        tokio::spawn(cancel_on_signal(shutdown.clone()));
        match address {
            Some(address) => over_http(gateway, mode, address, shutdown).await?,
            None => over_stdio(gateway, mode, shutdown).await?,
        }
        Ok(Exit::Done)
    })
}

async fn over_stdio(gateway: &Arc<Gateway>, mode: ToolMode, shutdown: CancellationToken) -> anyhow::Result<()> {
    if std::io::stdin().is_terminal() {
        note("waiting for an MCP client on standard input; `toolgate connect CLIENT` sets one up; Ctrl-C ends it");
    }
    Ok(doors::stdio(&Agent::new(Arc::clone(gateway)), mode, shutdown).await?)
}

async fn over_http(
    gateway: &Arc<Gateway>,
    mode: ToolMode,
    address: ListenAddress,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let listener = match address {
        ListenAddress::Ip(address) => {
            let token = doors::local_token(&gateway.config().settings.http)?;
            let listener = toolgate_service::listen(address).with_context(|| format!("cannot listen at {address}"))?;
            note(format_args!("listening at http://{}, MCP at /mcp", listener.local_addr()?));
            if let Some(token) = token {
                note(format_args!("clients send the bearer token in {}", token.path().display()));
            }
            listener.into()
        }
        ListenAddress::Unix(path) => {
            let shown = path.display();
            let listener =
                toolgate_service::listen_unix(&path).with_context(|| format!("cannot listen at unix:{shown}"))?;
            note(format_args!("listening at unix:{shown}, MCP at /mcp"));
            listener
        }
    };
    Ok(doors::http(&Agent::new(Arc::clone(gateway)), mode, listener, shutdown).await?)
}

pub(crate) fn demo() -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let shutdown = CancellationToken::new();
        tokio::spawn(cancel_on_signal(shutdown.clone()));
        toolgate_demo::serve_stdio(shutdown).await
    });
    runtime.shutdown_background();
    served?;
    Ok(Exit::Done)
}
