//! `toolgate policy draft` and `policy import`: policies to begin with, printed for review.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use toolgate_catalog::Catalog;
use toolgate_config::Env;
use toolgate_config::text::{Format, Source};
use toolgate_policy::import::{Imported, claude_code, codex};
use toolgate_policy::{Action, DraftedTool, Traits, draft as drafted};

use super::super::servers::{Opened, all_known, sentences, unknown_servers};
use super::super::{Exit, Usage};
use super::{print_written, written};
use crate::args::policy::{DraftArgs, ImportArgs};
use crate::print::{escape, note, out};

pub(super) fn draft(args: &DraftArgs) -> anyhow::Result<Exit> {
    Opened::new(&args.servers)?.within(async |gateway| {
        all_known(gateway, Duration::MAX).await;
        let catalog = gateway.catalog();
        let missing = unknown_servers(&catalog);
        if !missing.is_empty() {
            note(format_args!("not in the draft, because their tools are not known:\n  {}", missing.join("\n  ")));
        }
        let tools = tools(&catalog);
        let (rules, default) = drafted(&tools);
        if args.json {
            let mut shown = written(&rules, Some(default))?;
            shown["tools"] = serde_json::to_value(&tools)?;
            out(escape::json(&shown.to_string()))?;
        } else {
            print_written(&rules, Some(default))?;
            note("review it, then put it into the configuration; `toolgate policy explain CALL` says what it does");
        }
        Ok(if missing.is_empty() { Exit::Done } else { Exit::Failed })
    })
}

fn tools(catalog: &Catalog) -> Vec<DraftedTool> {
    let tool = |found: toolgate_catalog::ToolRef<'_>| {
        let (backend, tool) = (found.backend.name().to_owned(), found.tool().name.clone());
        let traits = Traits::of(&backend, &tool, found.tool().annotations());
        DraftedTool { backend, tool, traits }
    };
    catalog.tools().map(tool).collect()
}

pub(super) fn import(args: &ImportArgs) -> anyhow::Result<Exit> {
    let files = if args.files.is_empty() { usual_files() } else { args.files.clone() };
    if files.is_empty() {
        return Err(Usage("no settings of Claude Code or Codex found: name a file".to_owned()).into());
    }
    let (mut rules, mut skipped, mut default) = (Vec::new(), Vec::new(), None::<Action>);
    for file in &files {
        let imported = read(file)?;
        for rule in imported.rules {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        // The strictest of several files.
        default = default.max(imported.default);
        skipped.extend(imported.skipped);
    }
    if args.json {
        let mut shown = written(&rules, default)?;
        shown["skipped"] = json!(skipped);
        shown["files"] = json!(files);
        out(escape::json(&shown.to_string()))?;
        return Ok(Exit::Done);
    }
    print_written(&rules, default)?;
    for entry in &skipped {
        note(format_args!("left out, since it is not about an MCP tool: {}", escape::line(entry)));
    }
    Ok(Exit::Done)
}

fn read(file: &Path) -> anyhow::Result<Imported> {
    let wrong = |problems: Vec<toolgate_config::Problem>| Usage(sentences(&problems));
    let source = Source::open(file).map_err(|problem| wrong(vec![*problem]))?;
    let tree: Value = source.tree().map_err(wrong)?.to_json();
    Ok(match source.format() {
        Format::Toml => codex(&tree),
        _ => claude_code(&tree),
    })
}

/// The settings that there are, of this user and of this folder.
fn usual_files() -> Vec<PathBuf> {
    let env = Env::of_process();
    let home = env.home().map(Path::to_owned);
    let of_home = home.iter().flat_map(|home| [home.join(".claude/settings.json"), home.join(".codex/config.toml")]);
    let here = [".claude/settings.json", ".claude/settings.local.json"].map(|file| env.cwd().join(file));
    of_home.chain(here).filter(|file| file.is_file()).collect()
}

/// A file that is missing is told as such.
pub(super) fn text_of(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", escape::line(&file.to_string_lossy())))
}
