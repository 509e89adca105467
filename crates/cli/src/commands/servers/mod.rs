//! Commands about MCP servers: one file a command, or a few that belong together.
//!
//! What they share is an opened gateway: the configuration read, its servers started, and all of it ended again.

pub(crate) mod call;
pub(crate) mod connect;
mod declarations;
pub(crate) mod edit;
pub(crate) mod find;
pub(crate) mod import;
mod learn;
pub(crate) mod list;
mod openapi;
pub(crate) mod serve;
#[cfg(unix)]
pub(crate) mod sharing;
pub(crate) mod trust;
pub(crate) mod ui;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use tokio::runtime::Runtime;
use toolgate_catalog::{Backend, BackendState, Catalog, Resolution, ToolRef, UnknownName};
use toolgate_config::lookup::FileOrigin;
use toolgate_config::problem::Problem;
use toolgate_config::text::{Format, Source};
use toolgate_config::trust::{Gate, TrustStore};
use toolgate_config::{Checked, Env, closest, lookup};
use toolgate_engine::{EngineBuilder, IsolationMode};
use toolgate_gateway::runtime::{Gateway, check_audit, engine_builder};
use toolgate_run::Readiness;
use toolgate_wire::CallerScope;

use super::Usage;
use crate::args::servers::Servers;
use crate::consent;
use crate::print::{Style, escape, note};

/// How long the one program of a command waits for the check of its types, unless the configuration says it.
pub(crate) const ONE_CHECK_BUDGET: Duration = Duration::from_secs(2);

/// A gateway that runs, and the runtime it runs on.
pub(crate) struct Opened {
    runtime: Runtime,
    pub(crate) gateway: Arc<Gateway>,
}

impl Opened {
    /// Starts the servers.
    pub(crate) fn new(servers: &Servers) -> anyhow::Result<Self> {
        Self::with_isolation(servers, None)
    }

    /// The same with another isolation than the configuration's.
    pub(crate) fn with_isolation(servers: &Servers, isolation: Option<IsolationMode>) -> anyhow::Result<Self> {
        let config = configuration(servers)?;
        for warning in &config.warnings {
            note(escape::text(&warning.to_string()));
        }
        Self::for_one_run(config, isolation)
    }

    /// With a configuration that was read already.
    pub(crate) fn for_one_run(mut config: Checked, isolation: Option<IsolationMode>) -> anyhow::Result<Self> {
        // A command makes at most one run, so a V8 process started ahead would not be used.
        config.settings.v8.pool = 0;
        // No type checker is warm yet, and there is one program to check.
        let budget = config.settings.type_check.budget.unwrap_or(ONE_CHECK_BUDGET);
        config.settings.type_check.budget = Some(budget);
        let mut engine = engine_builder(&config.settings);
        if let Some(isolation) = isolation {
            engine = engine.isolation(isolation);
        }
        Self::of(config, engine, 0)
    }

    /// Starts the servers of a configuration, with so many workers forked ahead unless it says otherwise.
    pub(crate) fn of(config: Checked, engine: EngineBuilder, ahead: usize) -> anyhow::Result<Self> {
        check_audit(&config).with_context(|| {
            let file = config.settings.audit.as_ref().map(|audit| audit.file.to_string_lossy()).unwrap_or_default();
            format!("the audit log cannot be written: {}", escape::line(&file))
        })?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let gateway = {
            let _inside = runtime.enter();
            let engine = engine.workers_ahead(config.settings.sandbox.pool.unwrap_or(ahead)).build()?;
            Gateway::start(config, engine)
        };
        Ok(Opened { runtime, gateway })
    }

    /// Does something with the gateway, then ends it: no process is left.
    pub(crate) fn within<T>(self, work: impl AsyncFnOnce(&Arc<Gateway>) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let done = self.runtime.block_on(async {
            let done = work(&self.gateway).await;
            self.gateway.shut_down().await;
            done
        });
        // A thread may still be blocked in a read of standard input.
        self.runtime.shutdown_background();
        done
    }
}

/// The configuration that was asked for, once its file is trusted where that is needed.
pub(crate) fn configuration(servers: &Servers) -> anyhow::Result<Checked> {
    let env = Env::of_process().running_commands();
    if servers.demo {
        return demo(&env);
    }
    let found = lookup::find(servers.config.as_deref(), &env).map_err(|error| Usage(error.to_string()))?;
    let Some(found) = found else {
        let message = "no configuration found: `toolgate init` writes one, `toolgate import` takes over your clients' \
                       servers, --demo tries it with the demo server";
        return Err(Usage(message.to_owned()).into());
    };
    // The text that is asked about is the one that is used: the file is read once.
    let wrong = |problems: Vec<Problem>| Usage(format!("the configuration cannot be used:\n{}", sentences(&problems)));
    let source = Source::open(&found.path).map_err(|problem| wrong(vec![*problem]))?;
    if needs_trust(servers, found.origin) {
        consent::require(&source, &TrustStore::of(&env))?;
    }
    Ok(toolgate_config::check(source, &env).map_err(wrong)?)
}

/// Whether the content of a file that was found so must be trusted.
pub(crate) fn needs_trust(servers: &Servers, origin: FileOrigin) -> bool {
    match origin {
        FileOrigin::WorkingFolder => true,
        FileOrigin::Named => servers.require_trust,
        FileOrigin::UserFolder => false,
    }
}

/// What a change of the configuration's file needs while it is served.
pub(crate) fn gate(servers: &Servers) -> Gate {
    let env = Env::of_process();
    match lookup::find(servers.config.as_deref(), &env) {
        Ok(Some(found)) if !needs_trust(servers, found.origin) => Gate::Open,
        _ => Gate::Consent(TrustStore::of(&env)),
    }
}

/// The demo server of this same program as the one server.
fn demo(env: &Env) -> anyhow::Result<Checked> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let text = json!({ "mcpServers": { "demo": { "command": program, "args": ["demo"] } } }).to_string();
    let source = Source::new(Path::new("demo.json"), Format::Json, &text);
    let checked = toolgate_config::check(source, env);
    checked.map_err(|problems| anyhow::anyhow!("{}", sentences(&problems)))
}

pub(crate) fn sentences(problems: &[Problem]) -> String {
    problems.iter().map(|problem| escape::text(&problem.to_string()).into_owned()).collect::<Vec<_>>().join("\n")
}

/// How long what shows tools waits for those of further servers once it has some: one that never answers would cost its whole start
/// timeout each time.
const FURTHER_TOOLS_WAIT: Duration = Duration::from_secs(10);

/// Waits until the tools of every server are known, or some are and those of the others take long.
pub(crate) async fn most_known(gateway: &Gateway) {
    let since = Instant::now();
    all_known(gateway, FURTHER_TOOLS_WAIT).await;
    let mut catalog = gateway.bridge().catalog_handle().subscribe();
    let within = gateway.config().settings.limits.start_timeout.saturating_sub(since.elapsed());
    // With no tools at all there is nothing to show before.
    tokio::select! {
        () = all_known(gateway, within) => {}
        _ = catalog.wait_for(|catalog| catalog.tool_count() > 0) => {}
    }
}

/// Waits until the tools of every server are known, from the server or from the cache, or it has failed; at most so long.
///
/// Servers start at the same time, so that many dead ones cost no more than one.
pub(crate) async fn all_known(gateway: &Gateway, at_most: Duration) {
    let within = gateway.config().settings.limits.start_timeout.min(at_most);
    let blank: Vec<String> = gateway
        .backends()
        .iter()
        .filter(|backend| gateway.is_unknown(backend))
        .map(|backend| backend.name().to_owned())
        .collect();
    if blank.is_empty() {
        return;
    }
    let spinner = spinner(format!("waiting for the tools of {}", escape::line(&blank.join(", "))));
    gateway.settled(within, |_| true).await;
    spinner.finish_and_clear();
}

/// Waits for the servers that a program names to be that far. One that names none and may call a tool, such as
/// `{"tool": "list_issues"}`, may mean a tool of any.
pub(crate) async fn wait_for_program(gateway: &Gateway, text: &str, caller: &CallerScope, until: Readiness) {
    let (catalog, config) = (gateway.catalog(), gateway.config());
    let is_named = |backend: &Backend| text.contains(backend.name()) || text.contains(backend.identifier());
    let names_function = config.settings.functions.keys().any(|function| text.contains(function.as_str()));
    let names_any = names_function || catalog.backends().iter().any(is_named);
    if !names_any && toolgate_plan::may_call_tools(text) == Some(true) {
        return most_known(gateway).await;
    }
    let spinner = spinner("starting the servers that the program names");
    gateway.wait_for_named(text, caller, until, config.settings.limits.start_timeout).await;
    spinner.finish_and_clear();
}

/// The catalog once it knows a tool: at once from the cache, else after its server, or any that may have it, is up. A server that
/// is not started, since it is disabled or needs configuration, is not waited for.
pub(crate) async fn catalog_with(gateway: &Gateway, name: &str) -> Catalog {
    let catalog = gateway.catalog();
    if matches!(catalog.resolve(name), Resolution::Found(_)) {
        return catalog;
    }
    let belongs = |backend: &str| catalog.backend(backend).is_some_and(|backend| is_prefix(backend, name));
    if gateway.backends().iter().any(|backend| belongs(backend.name())) {
        let spinner = spinner(format!("waiting for {}", escape::line(name.split('.').next().unwrap_or(name))));
        gateway.settled(gateway.config().settings.limits.start_timeout, belongs).await;
        spinner.finish_and_clear();
    } else if !catalog.backends().iter().any(|backend| is_prefix(backend, name)) {
        all_known(gateway, Duration::MAX).await;
    }
    gateway.catalog()
}

/// Whether the name of a tool begins with a server.
fn is_prefix(backend: &Backend, name: &str) -> bool {
    let names = [backend.name(), backend.identifier()];
    names.iter().any(|known| name.strip_prefix(known).is_some_and(|rest| rest.starts_with('.')))
}

/// The servers whose tools are not known, each with the reason.
pub(crate) fn unknown_servers(catalog: &Catalog) -> Vec<String> {
    unknown_among(catalog.backends())
}

fn unknown_among<'a>(backends: impl IntoIterator<Item = &'a Backend>) -> Vec<String> {
    let line = |backend: &Backend| match backend.state() {
        BackendState::Failed { reason } => Some(format!("{}: {}", escape::line(backend.name()), escape::line(reason))),
        BackendState::Starting => {
            Some(format!("{}: still starting; `toolgate list` waits for it", escape::line(backend.name())))
        }
        state @ BackendState::NeedsLogin { .. } => {
            Some(format!("{}: {}", escape::line(backend.name()), escape::line(&state.to_string())))
        }
        BackendState::Cached | BackendState::Ready | BackendState::Disabled => None,
    };
    backends.into_iter().filter(|backend| backend.tools().is_empty()).filter_map(line).collect()
}

/// The servers that may have a tool that is not known: the one that its name begins with, else all whose tools are not known.
fn servers_that_may_have(catalog: &Catalog, name: &str) -> Vec<String> {
    let named: Vec<&Backend> = catalog.backends().iter().filter(|backend| is_prefix(backend, name)).collect();
    let disabled = named.iter().filter(|backend| *backend.state() == BackendState::Disabled);
    let disabled = disabled.map(|backend| format!("{}: disabled in the configuration", escape::line(backend.name())));
    let disabled: Vec<String> = disabled.collect();
    match named.is_empty() {
        true => unknown_servers(catalog),
        false => unknown_among(named).into_iter().chain(disabled).collect(),
    }
}

/// Visible only to a person.
pub(crate) fn spinner(message: impl Into<std::borrow::Cow<'static, str>>) -> ProgressBar {
    let target =
        if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    // The default of a bar without length shows no message.
    let style = ProgressStyle::default_spinner();
    let spinner = ProgressBar::with_draw_target(None, target).with_style(style).with_message(message);
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}

/// The most servers that are named where none of the name that was given is configured.
const MAX_NAMED_SERVERS: usize = 10;

/// Whether the configuration has a server of this name, also one that is not started.
pub(crate) fn is_configured(config: &Checked, name: &str) -> bool {
    configured_names(config).contains(&name)
}

fn configured_names(config: &Checked) -> Vec<&str> {
    let names = config.backends.keys().chain(&config.disabled).chain(config.incomplete.keys());
    names.map(|name| name.as_str()).collect()
}

/// There is no server of this name: which may be meant.
pub(crate) fn no_server(config: &Checked, name: &str) -> Usage {
    let known = configured_names(config);
    let advice = match closest(name, &known) {
        Some(near) => format!("did you mean {near}?"),
        None if known.is_empty() => "none is configured; `toolgate add NAME -- COMMAND` adds one".to_owned(),
        None if known.len() > MAX_NAMED_SERVERS => "`toolgate list` shows all".to_owned(),
        None => format!("there are {}", known.join(", ")),
    };
    Usage(escape::line(&format!("no server named {name}: {advice}")).into_owned())
}

/// The tool that was named.
pub(crate) fn tool<'a>(catalog: &'a Catalog, name: &str) -> Result<ToolRef<'a>, Usage> {
    let shown = escape::line(name);
    match catalog.resolve(name) {
        Resolution::Found(found) => Ok(found),
        Resolution::Ambiguous(several) => {
            let names: Vec<String> = several.iter().map(ToolRef::spelling).collect();
            Err(Usage(format!("several servers have {shown}: say {}", names.join(" or "))))
        }
        Resolution::Unknown => {
            let near = catalog.suggest(UnknownName::Tool, name);
            let advice = match near.is_empty() {
                true => "`toolgate search WORDS` finds tools by what they do".to_owned(),
                false => format!("did you mean {}?", near.join(" or ")),
            };
            let missing = servers_that_may_have(catalog, name);
            let missing = if missing.is_empty() {
                String::new()
            } else {
                format!("\nthe tools of these servers are not known:\n  {}", missing.join("\n  "))
            };
            Err(Usage(format!("there is no tool {shown}: {advice}{missing}")))
        }
    }
}

/// Rows below a heading, each column as wide as its widest text.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>], style: Style) -> String {
    marked_table(heading, rows, style, |_, _, cell| cell.to_owned())
}

/// The same, with cells marked by their row, their column and their text; the marks take no room.
pub(crate) fn marked_table(
    heading: &[&str],
    rows: &[Vec<String>],
    style: Style,
    mark: impl Fn(usize, usize, &str) -> String,
) -> String {
    let shown: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| escape::line(cell).into_owned()).collect()).collect();
    let width = |column: usize| {
        let cells = shown.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(heading.get(column).map(|title| title.chars().count())).max().unwrap_or(0)
    };
    let line = |cells: &[&str], mark: &dyn Fn(usize, &str) -> String| {
        let last = cells.len().saturating_sub(1);
        let padded = cells.iter().enumerate().map(|(column, cell)| {
            let room = if column == last { 0 } else { width(column).saturating_sub(cell.chars().count()) };
            format!("{}{:room$}", mark(column, cell), "")
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let plain = |_: usize, cell: &str| cell.to_owned();
    let mut lines = vec![style.strong(line(heading, &plain))];
    lines.extend(shown.iter().enumerate().map(|(number, row)| {
        line(&row.iter().map(String::as_str).collect::<Vec<_>>(), &|column, cell| mark(number, column, cell))
    }));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_moves_the_cursor() {
        let rows = [vec!["a\x1b[2J".to_owned(), "1".to_owned()], vec!["long name".to_owned(), "22".to_owned()]];
        insta::assert_snapshot!(table(&["name", "tools"], &rows, Style::plain()), @r"
        name        tools
        a\u{1b}[2J  1
        long name   22
        ");
    }
}
