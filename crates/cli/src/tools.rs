//! A scripted set of tools from a file, and the folder where long results are kept between commands.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use toolgate_bridge::Bridge;
use toolgate_bridge::scripted::ToolScript;
use toolgate_catalog::CatalogHandle;
use toolgate_output::results::{ResultLimits, ResultStore};

use crate::commands::Usage;
use crate::input::Source;
use crate::print::escape;

/// Bytes of the longest file of tools that is read.
const MAX_TOOLS: u64 = 64 << 20;

/// A bridge to the tools of a file; to none without a file.
pub(crate) fn bridge(file: Option<&Source>) -> Result<Arc<Bridge>, Usage> {
    let bridge = match file {
        None => Bridge::new(CatalogHandle::default()),
        Some(file) => {
            let tools = read(file)?;
            let bridge = Bridge::new(CatalogHandle::new(tools.catalog()));
            for (backend, provider) in tools.providers() {
                bridge.provide(backend, provider);
            }
            bridge
        }
    };
    Ok(Arc::new(bridge))
}

fn read(file: &Source) -> Result<ToolScript, Usage> {
    let wrong = |error: &dyn std::fmt::Display| {
        Usage(format!("{file} does not describe tools: {}", escape::line(&error.to_string())))
    };
    let text = file.data(MAX_TOOLS)?.map_err(|error| wrong(&error))?;
    ToolScript::parse(&text).map_err(|error| wrong(&error))
}

/// Results that outlive a command: `$XDG_CACHE_HOME/toolgate/results`, or under `~/.cache`.
pub(crate) fn results() -> anyhow::Result<ResultStore> {
    let folder = cache().context("neither XDG_CACHE_HOME nor HOME is an absolute path")?.join("toolgate/results");
    let store = ResultStore::at(&folder, ResultLimits::default());
    store.with_context(|| format!("cannot keep results in {}", escape::line(&folder.to_string_lossy())))
}

fn cache() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))
}
