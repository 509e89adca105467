//! `toolgate types learn`, `export` and `import`: what is learned of results that tools do not declare.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use serde_json::{Map, Value};
use toolgate_bridge::{RequestContext, RunCalls};
use toolgate_catalog::types::declares_result;
use toolgate_catalog::types::learned::{LearnedTypes, learned_signature};
use toolgate_catalog::{ToolEntry, ToolRef};
use toolgate_gateway::runtime::Gateway;
use toolgate_run::Readiness;
use toolgate_wire::CallerScope;

use super::super::Exit;
use super::call::noted_call;
use super::{Opened, no_server};
use crate::args::servers::TypesAction;
use crate::print::{counted, escape, note, out};

/// Largest file that is imported, in bytes.
const MAX_IMPORT: u64 = 64 << 20;

pub(super) fn perform(action: &TypesAction) -> anyhow::Result<Exit> {
    match action {
        TypesAction::Learn { server, servers } => {
            Opened::new(servers)?.within(async |gateway| learn(gateway, server).await)
        }
        TypesAction::Export { file, servers } => {
            Opened::new(servers)?.within(async |gateway| {
                // What replicas share is read in the background of a start.
                gateway.save_learned_types();
                export(&gateway.learned_types(), file)
            })
        }
        TypesAction::Import { file, servers } => {
            let types = read(file)?;
            Opened::new(servers)?.within(async |gateway| {
                note(format_args!("imported the types of {}", counted(types.len(), "tool")));
                gateway.merge_learned_types(types);
                gateway.save_learned_types();
                Ok(Exit::Done)
            })
        }
    }
}

/// Only what says that it reads, and needs nothing, is called; everything else might have an effect.
fn may_be_called(entry: &ToolEntry) -> bool {
    let tool = entry.tool();
    let reads = tool.is_read_only();
    let required = tool.input_schema().get("required").and_then(Value::as_array);
    reads && required.is_none_or(|names| names.is_empty()) && !declares_result(tool)
}

async fn learn(gateway: &Arc<Gateway>, server: &str) -> anyhow::Result<Exit> {
    let within = gateway.config().settings.limits.start_timeout;
    gateway.wait_for_named(server, &CallerScope::default(), Readiness::Ready, within).await;
    let catalog = gateway.catalog();
    let Some(backend) = catalog.backend(server) else {
        return Err(no_server(&gateway.config(), server).into());
    };
    let mut called = 0;
    for entry in backend.tools().iter().filter(|entry| may_be_called(entry)) {
        let name = &entry.tool().name;
        let context = RequestContext { run: Some(Arc::new(RunCalls::default())), ..RequestContext::default() };
        let answer = noted_call(gateway, ToolRef { backend, entry }, Map::new(), context).await;
        match answer {
            Ok(_) => called += 1,
            Err(error) => note(escape::line(&format!("{name}: {}", error.message))),
        }
    }
    gateway.save_learned_types();
    let learned = gateway.learned_types();
    for entry in backend.tools() {
        if let Some(known) = learned.get(backend.name(), &entry.tool().name) {
            let tool = ToolRef { backend, entry };
            out(escape::line(&learned_signature(tool, known)))?;
        }
    }
    note(format_args!(
        "called {called} of {}: those that only read, need no arguments and declare no result",
        counted(backend.tools().len(), "tool")
    ));
    Ok(Exit::Done)
}

fn export(types: &LearnedTypes, file: &Path) -> anyhow::Result<Exit> {
    types.save(file).with_context(|| format!("cannot write {}", file.display()))?;
    note(format_args!("wrote {} ({})", file.display(), counted(types.len(), "tool")));
    Ok(Exit::Done)
}

fn read(file: &Path) -> anyhow::Result<LearnedTypes> {
    let shown = file.display();
    let size = std::fs::metadata(file).with_context(|| format!("cannot read {shown}"))?.len();
    anyhow::ensure!(size <= MAX_IMPORT, "{shown} is too large");
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let exported: Value = serde_json::from_str(&text).with_context(|| format!("{shown} is not JSON"))?;
    LearnedTypes::import(&exported).with_context(|| format!("{shown} holds no learned types"))
}
