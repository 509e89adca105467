//! The side of a window: a `toolgate serve` that attaches to the daemon, or starts it, and copies bytes from then on.
//!
//! What goes wrong here costs the window no tools: it then serves its client by a gateway of its own.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio::io::AsyncWriteExt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use toolgate_config::Checked;
use toolgate_config::trust::Gate;
use toolgate_mcp::server::ToolMode;

use super::super::super::Exit;
use super::super::gate;
use super::{Begun, HELLO_TIMEOUT, Hello, Place, VERSION, begin};
use crate::args::servers::ServeArgs;
use crate::print::note;
use crate::runner::cancel_on_signal;

/// How long `serve` waits for the daemon that it started.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two tries to reach a daemon that is starting.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// How long a window whose client has left waits for the daemon to close the conversation, which may take the daemon ten
/// seconds where a request does not end.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(12);

/// Serves this client by a daemon that runs, or that the configuration wants; none if this process is to serve it itself.
pub(in super::super) fn attached(args: &ServeArgs, config: &Checked, mode: ToolMode) -> anyhow::Result<Option<Exit>> {
    // What is asked for here alone is served here.
    if args.http.is_some() || args.servers.demo || args.engine.is_some() {
        return Ok(None);
    }
    let Ok(place) = Place::of(config) else { return Ok(None) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let end = runtime.block_on(async {
        let hello = Hello::Attach { version: VERSION.to_owned(), mode: word(mode).to_owned() };
        let mut begun = begin(&place.daemon(), &hello, HELLO_TIMEOUT).await.ok();
        if begun.is_none() && config.settings.share {
            begun = begin_with(start_daemon(config, &gate(&args.servers))?, &place, &hello).await;
        }
        match begun.filter(|begun| begun.answer.ok) {
            Some(begun) => relay(begun, place.daemon()).await.map(Some),
            None => Ok(None),
        }
    });
    // A thread may still be blocked in a read of standard input.
    runtime.shutdown_background();
    end
}

/// Begins a conversation with a daemon that was just started; none if it does not come up.
async fn begin_with(mut daemon: Child, place: &Place, hello: &Hello) -> Option<Begun> {
    let deadline = tokio::time::Instant::now() + START_TIMEOUT;
    while tokio::time::Instant::now() < deadline {
        tokio::time::sleep(RETRY_PAUSE).await;
        if let Ok(begun) = begin(&place.daemon(), hello, HELLO_TIMEOUT).await {
            return Some(begun);
        }
        // One that ended well has left the windows to another, which is starting.
        if let Ok(Some(status)) = daemon.try_wait()
            && !status.success()
        {
            note(format_args!(
                "no daemon could be started ({status}), so this window has servers of its own; `toolgate daemon` says why"
            ));
            return None;
        }
    }
    note("the daemon does not answer, so this window has servers of its own");
    None
}

fn word(mode: ToolMode) -> &'static str {
    match mode {
        ToolMode::Code => "code",
        ToolMode::Direct => "direct",
        ToolMode::Both => "both",
    }
}

/// Carries the client's lines to the daemon and back until one of them ends.
async fn relay(begun: Begun, daemon: PathBuf) -> anyhow::Result<Exit> {
    let Begun { mut reader, mut writer, .. } = begun;
    let shutdown = CancellationToken::new();
    cancel_on_signal(shutdown.clone());
    // Before the first byte is copied: without a handler the signal ends the process.
    tokio::spawn(forward_hangups(signal(SignalKind::hangup())?, daemon));
    let has_left = AtomicBool::new(false);
    let there = async {
        let copied = tokio::io::copy(&mut tokio::io::stdin(), &mut writer).await;
        has_left.store(copied.is_ok(), Ordering::SeqCst);
        // The daemon answers what it has, and closes.
        let _ = writer.shutdown().await;
        tokio::time::sleep(LEAVE_TIMEOUT).await;
        copied.map(drop)
    };
    let back = async {
        let mut out = tokio::io::stdout();
        tokio::io::copy(&mut reader, &mut out).await?;
        out.flush().await
    };
    tokio::select! {
        () = shutdown.cancelled() => Ok(Exit::Done),
        left = there => left.map(|()| Exit::Done).context("the daemon does not listen any more"),
        ended = back => {
            ended.context("the daemon does not answer any more")?;
            if has_left.load(Ordering::SeqCst) {
                return Ok(Exit::Done);
            }
            note("the daemon has ended: start the client anew");
            Ok(Exit::Failed)
        }
    }
}

/// Has the daemon read the configuration again at SIGHUP, as a `serve` of its own does.
async fn forward_hangups(mut hangups: Signal, daemon: PathBuf) {
    while hangups.recv().await.is_some() {
        let told = begin(&daemon, &Hello::Reload, HELLO_TIMEOUT).await;
        if !told.as_ref().is_ok_and(|begun| begun.answer.ok) {
            let why = told.map_or_else(|error: io::Error| error.to_string(), |begun| begun.answer.message);
            tracing::warn!(why, "the daemon has not read the configuration again");
        }
    }
}

/// Starts the daemon of a configuration as a process that outlives this one, until its last window is closed.
fn start_daemon(config: &Checked, gate: &Gate) -> anyhow::Result<Child> {
    use std::os::unix::process::CommandExt;
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.args(["daemon", "--until-idle", "--config"]).arg(&config.file);
    if matches!(gate, Gate::Consent(_)) {
        // A file that is named needs no consent, but this one did.
        command.arg("--require-trust");
    }
    // A group of its own: what ends this window is not meant for it.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn().context("the daemon could not be started")
}
