//! `toolgate serve`: what agents talk to. `toolgate demo`: something to put behind it.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolgate_config::trust::Gate;
use toolgate_config::{Checked, Env, Problem, watch};
use toolgate_gateway::agent::Agent;
use toolgate_gateway::runtime::{Gateway, engine_builder};
use toolgate_mcp::server::ToolMode;
use toolgate_service::doors;

use super::super::Exit;
use super::{Opened, configuration, gate, sentences};
use crate::args::servers::{ListenAddress, ServeArgs, Servers};
use crate::log::Log;
use crate::runner::cancel_on_signal;

/// How often the configuration file is looked at.
const CONFIG_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long after its grace time a process that was told to end is ended by force.
pub(super) const FORCED_END_DELAY: Duration = Duration::from_secs(20);
/// Workers that wait for the next program.
pub(super) const AHEAD: usize = 2;

pub(crate) fn serve(args: &ServeArgs) -> anyhow::Result<Exit> {
    let config = configuration(&args.servers)?;
    // Over HTTP, every run is a line; over standard input and output the client shows what it did itself.
    // Who started a service reads its address first; `toolgate logs` and the page have what is wrong with servers.
    let usual = if args.http.is_some() { "warn,toolgate::run=info,toolgate::backend=off" } else { "warn" };
    let log = Log::start(args.log.as_deref(), usual, args.log_format)?;
    if !config.warnings.is_empty() {
        log.say(sentences(&config.warnings));
    }
    let mode = args.mode.map_or_else(|| doors::tool_mode(config.settings.mode), ToolMode::from);
    let configured = config.settings.http.bind;
    let address = args.http.clone().map(|http| http.address(configured));
    #[cfg(unix)]
    if let Some(end) = super::sharing::attached(args, &config, mode)? {
        return Ok(end);
    }
    let gate = gate(&args.servers);
    let watched = (!args.servers.demo).then(|| Arc::new(config.clone()));
    let mut engine = engine_builder(&config.settings);
    if let Some(interpreter) = args.engine {
        engine = engine.engine(interpreter.into());
    }
    Opened::of(config, engine, AHEAD)?.within(async |gateway| {
        if let Some(config) = watched {
            gateway.follow_file(self::watched(config, gate, gateway.read_again()));
        }
        gateway.prepare_types();
        let shutdown = CancellationToken::new();
        cancel_on_signal(shutdown.clone());
        reload_on_hangup(Arc::clone(gateway), args.servers.clone());
        #[cfg(unix)]
        super::sharing::listen_for_restarts(gateway, &shutdown);
        let grace = gateway.config().settings.limits.shutdown_grace;
        let _ended_by_now = end_after(shutdown.clone(), grace + FORCED_END_DELAY)?;
        match address {
            Some(address) => over_http(gateway, mode, address, shutdown, &log).await?,
            None => over_stdio(gateway, mode, shutdown, &log).await?,
        }
        Ok(Exit::Done)
    })
}

/// The configuration's file, looked at now and then.
pub(super) fn watched(
    config: Arc<Checked>,
    gate: Gate,
    read_again: watch::ReadAgain,
) -> tokio::sync::watch::Receiver<watch::State> {
    watch::watch(config, Env::of_process().running_commands(), gate, CONFIG_CHECK_INTERVAL, read_again)
}

/// Ends the process if it is still there that long after it was told to end, whatever holds it up.
pub(super) fn end_after(shutdown: CancellationToken, timeout: Duration) -> std::io::Result<DropGuard> {
    // Standard input at its end cancels too, when the guard is dropped.
    let guard = shutdown.clone().drop_guard();
    let handle = tokio::runtime::Handle::current();
    // Not a task: the runtime itself may be what does not end.
    std::thread::Builder::new().name("last resort".into()).spawn(move || {
        handle.block_on(shutdown.cancelled());
        std::thread::sleep(timeout);
        std::process::exit(1);
    })?;
    Ok(guard)
}

/// Reads the configuration again at SIGHUP: the file, the files that it names, and what the changes need.
/// The handler is in place when this returns.
#[cfg(unix)]
pub(super) fn reload_on_hangup(gateway: Arc<Gateway>, servers: Servers) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            if !servers.demo {
                reload(&gateway, &servers).await;
            }
        }
    });
}

#[cfg(not(unix))]
pub(super) fn reload_on_hangup(_: Arc<Gateway>, _: Servers) {}

/// Reads the configuration again; one with an error changes nothing. Returns whether it was used.
#[cfg(unix)]
pub(super) async fn reload(gateway: &Arc<Gateway>, servers: &Servers) -> bool {
    let (file, gate) = (gateway.config().file.clone(), gate(servers));
    match tokio::task::spawn_blocking(move || read_again(&file, &gate)).await {
        Ok(Ok(config)) => {
            gateway.reload(config).await;
            true
        }
        Ok(Err(problems)) => {
            tracing::warn!("the configuration was not reloaded: {}", sentences(&problems));
            false
        }
        Err(_) => false,
    }
}

#[cfg(unix)]
fn read_again(file: &Path, gate: &Gate) -> Result<Checked, Vec<Problem>> {
    toolgate_config::load_through(file, &Env::of_process().running_commands(), gate)
}

async fn over_stdio(
    gateway: &Arc<Gateway>,
    mode: ToolMode,
    shutdown: CancellationToken,
    log: &Log,
) -> anyhow::Result<()> {
    if std::io::stdin().is_terminal() {
        log.say("waiting for an MCP client on standard input; `toolgate connect CLIENT` sets one up; Ctrl-C ends it");
    }
    Ok(doors::stdio(&Agent::new(Arc::clone(gateway)), mode, shutdown).await?)
}

async fn over_http(
    gateway: &Arc<Gateway>,
    mode: ToolMode,
    address: ListenAddress,
    shutdown: CancellationToken,
    log: &Log,
) -> anyhow::Result<()> {
    let listener = match address {
        ListenAddress::Ip(address) => {
            let token = doors::local_token(&gateway.config().settings.http)?;
            let listener = toolgate_service::listen(address).with_context(|| format!("cannot listen at {address}"))?;
            log.say(format_args!("listening at http://{}, MCP at /mcp, the page at /", listener.local_addr()?));
            if let Some(token) = token {
                log.say(format_args!("clients send the bearer token in {}", token.path().display()));
            }
            listener.into()
        }
        ListenAddress::Unix(path) => {
            let shown = path.display();
            let listener =
                toolgate_service::listen_unix(&path).with_context(|| format!("cannot listen at unix:{shown}"))?;
            log.say(format_args!("listening at unix:{shown}, MCP at /mcp"));
            listener
        }
    };
    Ok(doors::http(&Agent::new(Arc::clone(gateway)), mode, listener, shutdown).await?)
}

pub(crate) fn demo() -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let shutdown = CancellationToken::new();
        cancel_on_signal(shutdown.clone());
        toolgate_demo::serve_stdio(shutdown).await
    });
    runtime.shutdown_background();
    served?;
    Ok(Exit::Done)
}
