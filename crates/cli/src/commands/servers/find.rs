//! `toolgate search`, `describe` and `types`: what tools there are.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_catalog::search::{Hit, ready_call};
use toolgate_catalog::types;
use toolgate_catalog::types::learned::known_signature;
use toolgate_functions::{HostFunction, docs, find as find_functions};
use toolgate_gateway::runtime::Gateway;
use toolgate_wire::CallerScope;

use super::super::Exit;
use super::{Opened, catalog_with, declarations, most_known, tool, unknown_servers};
use crate::args::servers::{DescribeArgs, SearchArgs, TypesArgs};
use crate::print::{Style, counted, escape, note, out};
use crate::runner::cancel_on_signal;

/// Time between two looks at whether the tools have changed.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

pub(crate) fn search(args: &SearchArgs) -> anyhow::Result<Exit> {
    Opened::new(&args.servers)?.within(async |gateway| {
        most_known(gateway).await;
        let catalog = gateway.catalog();
        let task = args.words.join(" ");
        let mut hits = catalog.search(&task, usize::from(args.limit), args.tag.as_deref());
        let learned = gateway.learned_types();
        for hit in &mut hits {
            if let Some(found) = catalog.tool(&hit.backend, &hit.tool) {
                hit.signature = known_signature(found, &learned);
            }
        }
        let functions = gateway.functions(&CallerScope::default());
        let functions = if args.tag.is_none() { find_functions(&functions, &task) } else { Vec::new() };
        let missing = unknown_servers(&catalog);
        let nothing = hits.is_empty() && functions.is_empty();
        if args.json {
            let hits: Vec<Value> = hits.iter().map(hit_json).collect();
            let functions: Vec<Value> = functions.into_iter().map(function_json).collect();
            let found = json!({ "tools": hits, "functions": functions, "not_searched": missing });
            out(escape::json(&found.to_string()))?;
            return Ok(if nothing { Exit::Failed } else { Exit::Done });
        }
        if !missing.is_empty() {
            note(format_args!("not searched, because their tools are not known:\n  {}", missing.join("\n  ")));
        }
        if nothing && missing.is_empty() {
            note("nothing fits; try other words");
        } else if nothing {
            note("nothing fits among the tools of the other servers");
        } else {
            let functions = functions.into_iter().map(|it| function_text(it, Style::stdout()));
            let shown: Vec<String> = functions.chain(hits.iter().map(|hit| hit_text(hit, Style::stdout()))).collect();
            out(shown.join("\n\n"))?;
        }
        Ok(if nothing { Exit::Failed } else { Exit::Done })
    })
}

fn hit_json(hit: &Hit) -> Value {
    json!({
        "backend": hit.backend, "tool": hit.tool, "description": hit.description, "signature": hit.signature, "call": hit.call,
    })
}

fn hit_text(hit: &Hit, style: Style) -> String {
    let name = style.strong(escape::line(&format!("{}.{}", hit.backend, hit.tool)));
    let description =
        if hit.description.is_empty() { String::new() } else { format!("\n  {}", escape::line(&hit.description)) };
    format!("{name}{description}\n  {}", style.faint(escape::line(&hit.call)))
}

fn function_json(function: &HostFunction) -> Value {
    let mut about = function.interface();
    about["signature"] = json!(docs::signature(function));
    about
}

fn function_text(function: &HostFunction, style: Style) -> String {
    let name = style.strong(escape::line(function.name().as_str()));
    let description = function.description();
    let description = if description.is_empty() { String::new() } else { format!("\n  {}", escape::line(description)) };
    format!("{name}{description}\n  {}", style.faint(escape::line(&format!("await {}", docs::signature(function)))))
}

pub(crate) fn describe(args: &DescribeArgs) -> anyhow::Result<Exit> {
    Opened::new(&args.servers)?.within(async |gateway| {
        if let Some(function) = gateway.functions(&CallerScope::default()).get(&args.tool) {
            let about = function_json(function);
            let text = || function_text(function, Style::stdout());
            out(if args.json { escape::json(&about.to_string()).into_owned() } else { text() })?;
            return Ok(Exit::Done);
        }
        let catalog = catalog_with(gateway, &args.tool).await;
        let found = tool(&catalog, &args.tool)?;
        let declared = types::tool_declaration_with(found, &gateway.learned_types());
        let is_broken = gateway.breaks_its_schema(found.backend.name(), &found.tool().name);
        if args.json {
            let mut about = json!({
                "backend": found.backend.name(), "tool": found.tool().name, "description": found.tool().description(),
                "call": ready_call(found), "types": declared,
                "input_schema": found.tool().input_schema(), "output_schema": found.tool().output_schema(),
            });
            if is_broken {
                about["note"] = json!(types::BREAKS_ITS_SCHEMA);
            }
            out(escape::json(&about.to_string()))?;
        } else {
            let style = Style::stdout();
            out(style.strong(escape::line(&found.path())))?;
            if let Some(description) = found.tool().description() {
                out(escape::text(description.trim()))?;
            }
            out(format_args!("\n{}", escape::text(declared.trim_end())))?;
            out(format_args!("\n{}", style.faint(escape::line(&ready_call(found)))))?;
        }
        Ok(Exit::Done)
    })
}

pub(crate) fn types(args: &TypesArgs) -> anyhow::Result<Exit> {
    if let Some(action) = &args.action {
        return super::learn::perform(action);
    }
    Opened::new(&args.servers)?.within(async |gateway| {
        most_known(gateway).await;
        // What replicas share is read in the background of a start.
        gateway.save_learned_types();
        let catalog = gateway.catalog();
        let functions = gateway.functions(&CallerScope::default());
        let text = declarations::file(&catalog, &functions, &gateway.learned_types());
        let missing = unknown_servers(&catalog);
        let tell_missing = || {
            if !missing.is_empty() {
                note(format_args!("left out, because their tools are not known:\n  {}", missing.join("\n  ")));
            }
        };
        if let Some(folder) = &args.watch {
            tell_missing();
            return keep_fresh(gateway, folder).await;
        }
        match &args.out {
            None => out(escape::text(text.trim_end()))?,
            Some(file) => {
                // Marks that turn the direction of text would hide what an editor shows.
                std::fs::write(file, escape::text(&text).as_bytes())
                    .with_context(|| format!("cannot write {}", file.display()))?;
                note(format_args!("wrote {} ({})", file.display(), counted(catalog.tool_count(), "tool")));
            }
        }
        tell_missing();
        Ok(if missing.is_empty() { Exit::Done } else { Exit::Failed })
    })
}

/// What declarations are made of.
struct DeclarationSources {
    tools: u64,
    learned: u64,
    config: Arc<toolgate_config::Checked>,
}

impl DeclarationSources {
    fn of(gateway: &Gateway) -> Self {
        DeclarationSources { tools: gateway.edition(), learned: gateway.learned_version(), config: gateway.config() }
    }

    /// Whether the declarations are certainly the same.
    fn are_same(&self, other: &Self) -> bool {
        (self.tools, self.learned) == (other.tools, other.learned) && Arc::ptr_eq(&self.config, &other.config)
    }
}

/// Writes the declarations into a folder whenever the tools, their learned types or the host functions change, until a
/// signal ends it.
async fn keep_fresh(gateway: &Arc<Gateway>, folder: &Path) -> anyhow::Result<Exit> {
    let file = folder.join("toolgate.d.ts");
    let mut written: Option<String> = None;
    let shutdown = CancellationToken::new();
    cancel_on_signal(shutdown.clone());
    loop {
        let sources = DeclarationSources::of(gateway);
        let functions = gateway.functions(&CallerScope::default());
        let text = declarations::file(&gateway.catalog(), &functions, &gateway.learned_types());
        let text = escape::text(&text).into_owned();
        if written.as_ref() != Some(&text) {
            replace(&file, &text).with_context(|| format!("cannot write {}", file.display()))?;
            note(format_args!("wrote {} ({})", file.display(), counted(gateway.catalog().tool_count(), "tool")));
            written = Some(text);
        }
        while DeclarationSources::of(gateway).are_same(&sources) {
            tokio::select! {
                () = shutdown.cancelled() => return Ok(Exit::Done),
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
        }
    }
}

/// Replaces a file as a whole, so that an editor never reads half of it.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let beside = file.with_extension("d.ts.new");
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, file)
}
