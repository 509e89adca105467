//! `toolgate ui`: the page in the browser, on this machine, for its user.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use tokio_util::sync::CancellationToken;
use toolgate_gateway::agent::Agent;
use toolgate_gateway::runtime::engine_builder;
use toolgate_service::doors::{self, Audience};

use super::super::Exit;
use super::serve::{self, AHEAD, FORCED_END_DELAY, end_after, reload_on_hangup};
use super::{Opened, configuration, gate, sentences};
use crate::args::servers::UiArgs;
use crate::browser;
use crate::log::Log;
use crate::print::{note, out};
use crate::runner::cancel_on_signal;

pub(crate) fn ui(args: &UiArgs) -> anyhow::Result<Exit> {
    let config = configuration(&args.servers)?;
    let log = Log::start(args.log.as_deref(), "warn", args.log_format)?;
    if !config.warnings.is_empty() {
        log.say(sentences(&config.warnings));
    }
    let mode = doors::tool_mode(config.settings.mode);
    let watched = (!args.servers.demo).then(|| Arc::new(config.clone()));
    let engine = engine_builder(&config.settings);
    Opened::of(config, engine, AHEAD)?.within(async |gateway| {
        if let Some(config) = watched {
            gateway.follow_file(serve::watched(config, gate(&args.servers), gateway.read_again()));
        }
        let shutdown = CancellationToken::new();
        cancel_on_signal(shutdown.clone());
        reload_on_hangup(Arc::clone(gateway), args.servers.clone());
        let settings = gateway.config().settings.clone();
        let _ended_by_now = end_after(shutdown.clone(), settings.limits.shutdown_grace + FORCED_END_DELAY)?;
        let listener = toolgate_service::listen(([127, 0, 0, 1], args.port).into())
            .with_context(|| format!("cannot listen at port {}", args.port))?;
        let base = format!("http://{}/", listener.local_addr()?);
        let redirect = settings.http.token_file.as_deref().map(|file| file.with_file_name("open-page.html"));
        let mut opened = None;
        let begin = |service: &toolgate_service::HttpService| opened = announce(service, &base, redirect, args.no_open);
        let agent = Agent::new(Arc::clone(gateway));
        let served = doors::http_for(&agent, mode, listener.into(), shutdown, Audience::ThisMachine, begin).await;
        drop(opened);
        served?;
        Ok(Exit::Done)
    })
}

/// Prints the link, and opens it in the browser.
fn announce(
    service: &toolgate_service::HttpService,
    base: &str,
    redirect: Option<PathBuf>,
    no_open: bool,
) -> Option<Redirect> {
    let link = match service.page_link(base) {
        Ok(link) => link,
        Err(error) => {
            note(format_args!("there is no link to sign in with: {error}"));
            return None;
        }
    };
    note("the page is at this link, which signs one browser in; Ctrl-C ends it");
    // A closed standard output is no reason to end.
    let _ = out(&link);
    if no_open {
        return None;
    }
    let redirect = Redirect::write(redirect?, &link).ok()?;
    if let Err(error) = browser::open(&redirect.0.to_string_lossy()) {
        note(format_args!("no browser could be started ({error}); open the link yourself"));
    }
    Some(redirect)
}

/// A file that leads a browser to the link, for this user alone: the arguments of a program can be read by every user of
/// the machine. Removed when dropped.
struct Redirect(PathBuf);

impl Redirect {
    fn write(path: PathBuf, link: &str) -> std::io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let _ = fs::remove_file(&path);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        // The link is an address of ours and a token of hexadecimal digits.
        writeln!(file, "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={link}\"><title>Toolgate</title>")?;
        Ok(Redirect(path))
    }
}

impl Drop for Redirect {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
