//! Commands about MCP servers: one file a command, or a few that belong together.
//!
//! What they share is an opened gateway: the configuration read, its servers started, and all of it ended again.

pub(crate) mod call;
pub(crate) mod edit;
pub(crate) mod find;
pub(crate) mod import;
pub(crate) mod list;
mod openapi;
pub(crate) mod serve;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::json;
use tokio::runtime::Runtime;
use toolgate_catalog::{Catalog, Resolution, ToolRef, UnknownName};
use toolgate_config::problem::Problem;
use toolgate_config::text::{Format, Source};
use toolgate_config::{Checked, Env, lookup};
use toolgate_engine::{EngineBuilder, IsolationMode};
use toolgate_gateway::runtime::{Gateway, engine_builder};

use super::Usage;
use crate::args::servers::Servers;
use crate::print::{Style, escape, note};

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
        let mut config = configuration(servers)?;
        // One run at most comes of a command: a second V8 process would be started for nobody.
        config.settings.v8.pool = 0;
        for warning in &config.warnings {
            note(escape::text(&warning.to_string()));
        }
        let mut engine = engine_builder(&config.settings);
        if let Some(isolation) = isolation {
            engine = engine.isolation(isolation);
        }
        Self::of(config, engine, 0)
    }

    /// Starts the servers of a configuration, with so many workers forked ahead unless it says otherwise.
    pub(crate) fn of(config: Checked, engine: EngineBuilder, ahead: usize) -> anyhow::Result<Self> {
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
        // A thread may still wait for standard input, which nobody will close for us.
        self.runtime.shutdown_background();
        done
    }
}

/// The configuration that was asked for.
pub(crate) fn configuration(servers: &Servers) -> anyhow::Result<Checked> {
    let env = Env::of_process();
    if servers.demo {
        return demo(&env);
    }
    let found = lookup::find(servers.config.as_deref(), &env).map_err(|error| Usage(error.to_string()))?;
    let Some(file) = found else {
        let message = "no configuration found: `toolgate init` writes one, `toolgate import` takes over your clients' \
                       servers, --demo tries it with the demo server";
        return Err(Usage(message.to_owned()).into());
    };
    toolgate_config::load(&file, &env).map_err(|problems| Usage(sentences(&problems)).into())
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

/// Waits until all servers are up or have failed, with something to look at meanwhile.
pub(crate) async fn all_up(gateway: &Gateway) {
    let spinner = spinner("connecting");
    let within = gateway.config().settings.limits.start_timeout;
    let backends = gateway.backends();
    let waiting: Vec<_> = backends.iter().map(|backend| backend.ready(within)).collect();
    for ready in waiting {
        // Why one is not up is in its state.
        let _ = ready.await;
    }
    // The catalog follows the servers by news, which may be on their way.
    gateway.settled(within, |_| true).await;
    spinner.finish_and_clear();
}

/// Visible only to a person.
pub(crate) fn spinner(message: &'static str) -> ProgressBar {
    let target =
        if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let spinner = ProgressBar::with_draw_target(None, target).with_message(message);
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
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
            let advice = if near.is_empty() { String::new() } else { format!(": did you mean {}?", near.join(" or ")) };
            Err(Usage(format!("there is no tool {shown}{advice}")))
        }
    }
}

/// Rows below a heading, each column as wide as its widest text.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>], style: Style) -> String {
    let shown: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| escape::line(cell).into_owned()).collect()).collect();
    let width = |column: usize| {
        let cells = shown.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(heading.get(column).map(|title| title.chars().count())).max().unwrap_or(0)
    };
    let line = |cells: Vec<&str>| {
        let last = cells.len().saturating_sub(1);
        let padded = cells.iter().enumerate().map(|(column, cell)| {
            if column == last { (*cell).to_owned() } else { format!("{cell:<width$}", width = width(column)) }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![style.strong(line(heading.to_vec()))];
    lines.extend(shown.iter().map(|row| line(row.iter().map(String::as_str).collect())));
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
