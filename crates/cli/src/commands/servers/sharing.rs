//! One gateway for several windows: `toolgate daemon`, which `serve` attaches to, and `toolgate restart`.
//!
//! Every gateway of a configuration listens at a Unix socket in a folder that only its user can enter. A conversation begins
//! with one line of JSON in each direction; after `attach` the socket carries what standard input and output would. The
//! daemon has the socket of the configuration and holds a lock beside it; a `serve` of its own has one by its process id,
//! for `restart`, and for approvals that are remembered in its memory. `window` is the side of a `serve` that attaches.

mod window;

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolgate_backends::{Backend, BackendState};
use toolgate_bridge::approvals::RememberedRule;
use toolgate_config::Checked;
use toolgate_gateway::agent::Agent;
use toolgate_gateway::runtime::{Gateway, engine_builder};
use toolgate_mcp::server::{RequestScope, ToolMode, serve_stdio};
use toolgate_service::doors::RunUpkeep;
use toolgate_wire::CallerScope;
pub(super) use window::attached;

use super::super::Exit;
use super::serve::{AHEAD, FORCED_END_DELAY, end_after, reload, reload_on_hangup};
use super::{Opened, configuration, gate, is_configured, no_server, sentences};
use crate::args::servers::{DaemonArgs, RestartArgs, Servers};
use crate::log::Log;
use crate::print::{escape, note};
use crate::runner::cancel_on_signal;

/// Longest first line of a conversation, in bytes.
const MAX_HELLO: u64 = 4096;
/// Longest list of approvals, in bytes.
const MAX_APPROVALS: u64 = 4 << 20;
/// How long the other side may take for its first line.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a daemon that ends by itself waits for the next window.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a daemon that ends waits for the last answers to its windows; the MCP server bounds each of them too.
const SESSIONS_TIMEOUT: Duration = Duration::from_secs(15);
/// Delay after a failed `accept`, so that a process without free descriptors does not spin.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// What is asked for in the first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "lowercase")]
enum Hello {
    /// Serve MCP from here on.
    Attach { version: String, mode: String },
    /// Start a server again.
    Restart { server: String },
    /// Read the configuration again: a window got SIGHUP.
    Reload,
    /// Tell the approvals of runs and sessions in a second line, as a list in JSON.
    Approvals,
    /// Forget one of them.
    Forget { approval: String },
}

/// The answer to it.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    ok: bool,
    message: String,
}

/// Where the gateways of one configuration listen.
#[derive(Debug, Clone)]
struct Place {
    folder: PathBuf,
    key: String,
}

impl Place {
    /// The place of a configuration; the folder is made if it does not exist.
    fn of(config: &Checked) -> io::Result<Self> {
        let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
        let state = state.or_else(home).ok_or_else(|| io::Error::other("there is no home folder"))?;
        let folder = state.join("toolgate/run");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        // It may have been there with other rights.
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700))?;
        let file = std::fs::canonicalize(&config.file).unwrap_or_else(|_| config.file.clone());
        let hash = digest(&SHA256, file.to_string_lossy().as_bytes());
        let key = hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Ok(Place { folder, key })
    }

    fn daemon(&self) -> PathBuf {
        self.folder.join(format!("{}.sock", self.key))
    }

    /// The socket of a gateway that serves its own client.
    fn own(&self) -> PathBuf {
        self.folder.join(format!("{}-{}.sock", self.key, std::process::id()))
    }

    /// Removes the sockets of processes that were killed.
    fn remove_stale(&self) {
        let process = |path: &Path| path.file_stem()?.to_str()?.rsplit_once('-')?.1.parse::<u32>().ok();
        let is_gone = |id: u32| Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{id}")).exists();
        for socket in self.all().into_iter().filter(|socket| process(socket).is_some_and(is_gone)) {
            let _ = std::fs::remove_file(socket);
        }
    }

    /// The sockets of all gateways of this configuration.
    fn all(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let is_ours = |name: &str| {
            let rest = name.strip_prefix(&self.key).and_then(|rest| rest.strip_suffix(".sock"));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let named = entries.map(|entry| entry.path());
        named.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_ours)).collect()
    }
}

/// A bound socket, removed at its end.
struct Bound {
    listener: UnixListener,
    path: PathBuf,
}

impl Bound {
    fn at(path: PathBuf) -> io::Result<Self> {
        // A process that was killed leaves its socket behind.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Bound { listener, path })
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The windows that are attached.
#[derive(Default)]
struct Windows {
    state: watch::Sender<WindowCount>,
}

#[derive(Default)]
struct WindowCount {
    attached: usize,
    /// Whether the gateway ends: no window may attach any more.
    is_closed: bool,
}

/// One attached window, until this is dropped.
struct AttachedWindow<'a>(&'a Windows);

impl Windows {
    /// Counts a window, unless the gateway ends.
    fn enter(&self) -> Option<AttachedWindow<'_>> {
        let is_open = self.state.send_if_modified(|state| {
            state.attached += usize::from(!state.is_closed);
            !state.is_closed
        });
        is_open.then_some(AttachedWindow(self))
    }

    /// Lets no window in from here on.
    fn close(&self) {
        self.state.send_modify(|state| state.is_closed = true);
    }

    /// Closes if no window is attached; returns whether it closed. Check and close are one atomic step, so that a window that was
    /// admitted is never dropped.
    fn close_if_empty(&self) -> bool {
        self.state.send_if_modified(|state| {
            state.is_closed |= state.attached == 0;
            state.is_closed
        })
    }

    /// Waits until the last one has left.
    async fn all_left(&self) {
        let _ = self.state.subscribe().wait_for(|state| state.attached == 0).await;
    }
}

impl Drop for AttachedWindow<'_> {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| state.attached = state.attached.saturating_sub(1));
    }
}

/// A gateway that others reach by its socket.
struct Host {
    gateway: Arc<Gateway>,
    agent: Agent,
    /// The arguments of a daemon, which windows may attach to; `None` serves a client of its own and can only be told things.
    daemon: Option<Servers>,
    windows: Windows,
    shutdown: CancellationToken,
}

impl Host {
    async fn listen(self: Arc<Self>, bound: Bound) {
        loop {
            let accepted = tokio::select! {
                () = self.shutdown.cancelled() => return,
                accepted = bound.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let host = Arc::clone(&self);
                    tokio::spawn(async move {
                        if let Err(error) = host.serve(stream).await {
                            tracing::debug!(%error, "a conversation at the shared socket failed");
                        }
                    });
                }
                // Out of descriptors, mostly: others are closed in the meantime.
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection at the shared socket failed");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
    }

    async fn serve(&self, stream: UnixStream) -> io::Result<()> {
        let (reader, mut writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        let hello: Hello = tokio::time::timeout(HELLO_TIMEOUT, first_line(&mut reader)).await??;
        match hello {
            Hello::Attach { version, mode } => {
                let mode = mode.parse::<ToolMode>().ok().filter(|_| self.daemon.is_some() && version == VERSION);
                // Counted before it is told: a daemon without windows may end at any time.
                let (Some(mode), Some(_window)) = (mode, self.windows.enter()) else {
                    return say(&mut writer, false, "this gateway takes no such window").await;
                };
                say(&mut writer, true, "attached").await?;
                let scope = RequestScope { mode, ..RequestScope::default() };
                let service = Arc::new(self.agent.clone());
                serve_stdio(service, scope, reader, writer, self.shutdown.clone()).await
            }
            Hello::Reload => {
                let is_used = match &self.daemon {
                    Some(servers) => reload(&self.gateway, servers).await,
                    None => false,
                };
                say(&mut writer, is_used, if is_used { "reloaded" } else { "not reloaded" }).await
            }
            Hello::Restart { server } => {
                let (ok, message) = self.restart(&server).await;
                say(&mut writer, ok, &message).await
            }
            Hello::Approvals => {
                let list = serde_json::to_string(&self.approvals()).map_err(io::Error::other)?;
                say(&mut writer, true, "approvals").await?;
                writer.write_all(format!("{list}\n").as_bytes()).await
            }
            Hello::Forget { approval } => {
                // The socket is for the user of this machine, who may forget what holds for any caller.
                let gone = self.gateway.runner().forget_approval(&CallerScope::default(), &approval).await;
                let message = gone.as_ref().err().map_or_else(|| "forgotten".to_owned(), ToString::to_string);
                say(&mut writer, gone.is_ok(), &message).await
            }
        }
    }

    /// Approvals that are in the memory of this gateway; those that stand for good are in a file.
    fn approvals(&self) -> Vec<RememberedRule> {
        let all = self.gateway.bridge().remembered().list().unwrap_or_default();
        all.into_iter().filter(|rule| !rule.for_good).collect()
    }

    /// Starts a server again and says what came of it.
    async fn restart(&self, name: &str) -> (bool, String) {
        let config = self.gateway.config();
        let Some(backend) = self.gateway.backend(name) else {
            let reason = config.incomplete.get(name).map(|server| server.reason());
            return (false, reason.unwrap_or_else(|| "there is no such server".to_owned()));
        };
        let before = backend.state();
        backend.restart();
        let within = config.settings.limits.start_timeout;
        let _ = tokio::time::timeout(within, settled_again(&backend, &before)).await;
        let state = backend.state();
        (state.is_ready(), state.to_string())
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Waits for another state than the one before that says whether the server is up.
async fn settled_again(backend: &Backend, before: &BackendState) {
    let is_new = |state: &BackendState| match (state, before) {
        (BackendState::Ready(now), BackendState::Ready(then)) => !Arc::ptr_eq(now, then),
        (
            BackendState::Ready(_)
            | BackendState::Failed { .. }
            | BackendState::NeedsLogin { .. }
            | BackendState::Stopped,
            _,
        ) => true,
        (BackendState::Idle | BackendState::Starting | BackendState::Restarting { .. }, _) => false,
    };
    let _ = backend.watch().wait_for(is_new).await;
}

async fn first_line<T: for<'de> Deserialize<'de>>(reader: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<T> {
    let mut line = String::new();
    reader.take(MAX_HELLO).read_line(&mut line).await?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

async fn say(writer: &mut (impl AsyncWriteExt + Unpin), ok: bool, message: &str) -> io::Result<()> {
    let answer = Answer { ok, message: message.to_owned() };
    let line = serde_json::to_string(&answer).map_err(io::Error::other)?;
    writer.write_all(format!("{line}\n").as_bytes()).await
}

/// A conversation that has begun.
struct Begun {
    reader: BufReader<tokio::net::unix::OwnedReadHalf>,
    writer: tokio::net::unix::OwnedWriteHalf,
    answer: Answer,
}

async fn begin(socket: &Path, hello: &Hello, within: Duration) -> io::Result<Begun> {
    let (reader, mut writer) = UnixStream::connect(socket).await?.into_split();
    let line = serde_json::to_string(hello).map_err(io::Error::other)?;
    writer.write_all(format!("{line}\n").as_bytes()).await?;
    let mut reader = BufReader::new(reader);
    let answer = tokio::time::timeout(within, first_line(&mut reader)).await??;
    Ok(Begun { reader, writer, answer })
}

/// Opens the socket by which `toolgate restart` and `toolgate policy` reach a gateway that serves its own client. Does nothing without a folder
/// for sockets.
pub(super) fn listen_for_restarts(gateway: &Arc<Gateway>, shutdown: &CancellationToken) {
    let bound = Place::of(&gateway.config()).and_then(|place| {
        place.remove_stale();
        Bound::at(place.own())
    });
    match bound {
        Ok(bound) => drop(tokio::spawn(host(gateway, shutdown, None).listen(bound))),
        Err(error) => tracing::debug!(%error, "`toolgate restart` and `toolgate policy` will not reach this gateway"),
    }
}

fn host(gateway: &Arc<Gateway>, shutdown: &CancellationToken, daemon: Option<Servers>) -> Arc<Host> {
    let agent = Agent::new(Arc::clone(gateway));
    let (gateway, shutdown) = (Arc::clone(gateway), shutdown.clone());
    Arc::new(Host { gateway, agent, daemon, windows: Windows::default(), shutdown })
}

/// `toolgate daemon`: the gateway that all windows share.
pub(crate) fn daemon(args: &DaemonArgs) -> anyhow::Result<Exit> {
    let config = configuration(&args.servers)?;
    let log = Log::start(args.log.as_deref(), "warn", args.log_format)?;
    if !config.warnings.is_empty() {
        log.say(sentences(&config.warnings));
    }
    let place = Place::of(&config).context("there is no place for a socket")?;
    let lock = File::create(place.folder.join(format!("{}.lock", place.key)))?;
    if lock.try_lock().is_err() {
        let message = format!("a daemon of {} runs already", config.file.display());
        // Two windows were opened at the same time, and the other one's daemon serves both.
        return if args.until_idle { Ok(Exit::Done) } else { Err(anyhow!(message)) };
    }
    let (gate, watched) = (gate(&args.servers), Arc::new(config.clone()));
    let engine = engine_builder(&config.settings);
    Opened::of(config, engine, AHEAD)?.within(async |gateway| {
        gateway.follow_file(super::serve::watched(watched, gate, gateway.read_again()));
        gateway.prepare_types();
        let shutdown = CancellationToken::new();
        cancel_on_signal(shutdown.clone());
        reload_on_hangup(Arc::clone(gateway), args.servers.clone());
        let grace = gateway.config().settings.limits.shutdown_grace;
        let _ended_by_now = end_after(shutdown.clone(), grace + FORCED_END_DELAY)?;
        serve_windows(gateway, args, &place, shutdown).await?;
        Ok(Exit::Done)
    })
}

/// Serves the windows until `shutdown` is cancelled and each has its last answers.
async fn serve_windows(
    gateway: &Arc<Gateway>,
    args: &DaemonArgs,
    place: &Place,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let bound = Bound::at(place.daemon())?;
    let _upkeep = RunUpkeep::of_streams(gateway, shutdown.clone());
    note(format_args!("windows attach at {}", escape::line(&bound.path.display().to_string())));
    let host = host(gateway, &shutdown, Some(args.servers.clone()));
    tokio::spawn(Arc::clone(&host).listen(bound));
    if args.until_idle {
        tokio::spawn(end_when_idle(Arc::clone(&host)));
    }
    shutdown.cancelled().await;
    host.windows.close();
    if tokio::time::timeout(SESSIONS_TIMEOUT, host.windows.all_left()).await.is_err() {
        tracing::warn!("windows were closed before they had their last answers");
    }
    Ok(())
}

/// Ends a daemon that no window uses any more.
async fn end_when_idle(host: Arc<Host>) {
    let mut state = host.windows.state.subscribe();
    loop {
        // A window may attach in the meantime, and leave again: each time counts anew.
        let is_quiet = tokio::time::timeout(IDLE_TIMEOUT, state.changed()).await.is_err();
        if is_quiet && host.windows.close_if_empty() {
            return host.shutdown.cancel();
        }
    }
}

/// Approvals of runs and sessions in the gateways of this configuration that run.
pub(crate) fn running_approvals(config: &Checked) -> anyhow::Result<Vec<RememberedRule>> {
    let Ok(place) = Place::of(config) else { return Ok(Vec::new()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(async {
        let mut all = Vec::new();
        for socket in place.all() {
            // One that is gone, or of an earlier version, has none to tell.
            all.extend(approvals_at(&socket).await.unwrap_or_default());
        }
        all
    }))
}

async fn approvals_at(socket: &Path) -> io::Result<Vec<RememberedRule>> {
    let Begun { reader, answer, .. } = begin(socket, &Hello::Approvals, HELLO_TIMEOUT).await?;
    if !answer.ok {
        return Ok(Vec::new());
    }
    let mut line = String::new();
    tokio::time::timeout(HELLO_TIMEOUT, reader.take(MAX_APPROVALS).read_line(&mut line)).await??;
    serde_json::from_str(&line).map_err(io::Error::other)
}

/// Forgets an approval in the gateway of this configuration that has it; whether one did.
pub(crate) fn forget_running_approval(config: &Checked, id: &str) -> anyhow::Result<bool> {
    let Ok(place) = Place::of(config) else { return Ok(false) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(async {
        let mut is_forgotten = false;
        for socket in place.all() {
            let hello = Hello::Forget { approval: id.to_owned() };
            is_forgotten |= begin(&socket, &hello, HELLO_TIMEOUT).await.is_ok_and(|begun| begun.answer.ok);
        }
        is_forgotten
    }))
}

/// `toolgate restart NAME`: starts a server again in every gateway of the configuration that runs.
pub(crate) fn restart(args: &RestartArgs) -> anyhow::Result<Exit> {
    let config = configuration(&args.servers)?;
    if !is_configured(&config, &args.name) {
        return Err(no_server(&config, &args.name).into());
    }
    let place = Place::of(&config).context("there is no place for a socket")?;
    let within = config.settings.limits.start_timeout + HELLO_TIMEOUT;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answers = runtime.block_on(async {
        let spinner = super::spinner(format!("restarting {}", escape::line(&args.name)));
        let mut answers = Vec::new();
        for socket in place.all() {
            let hello = Hello::Restart { server: args.name.clone() };
            match begin(&socket, &hello, within).await {
                Ok(begun) => answers.push(begun.answer),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    let _ = std::fs::remove_file(&socket);
                }
                Err(error) => answers.push(Answer { ok: false, message: error.to_string() }),
            }
        }
        spinner.finish_and_clear();
        answers
    });
    if answers.is_empty() {
        note("no Toolgate runs with this configuration: servers start when a client connects");
        return Ok(Exit::Failed);
    }
    for answer in &answers {
        note(format_args!("{}: {}", escape::line(&args.name), escape::line(&answer.message)));
    }
    Ok(if answers.iter().all(|answer| answer.ok) { Exit::Done } else { Exit::Failed })
}
