//! Consent to files that come from a folder: asked for on a terminal, given by `toolgate trust`, needed elsewhere.
//!
//! Nothing that such a file names is executed before. The rules are in [`toolgate_config::trust`].

use std::io::{IsTerminal, Write};
use std::path::Path;

use serde_json::Value;
use toolgate_config::text::Source;
use toolgate_config::trust::TrustStore;
use toolgate_config::vars::command_lines;

use crate::commands::Usage;
use crate::print::{Style, escape, note};
use toolgate_wire::foreign_text;

/// Characters of a command line that are shown.
const MAX_SHOWN: usize = 160;

/// Uses the file if its content is trusted, or becomes so by the user's answer.
pub(crate) fn require(source: &Source, store: &TrustStore) -> anyhow::Result<()> {
    if store.trusts(source) {
        return Ok(());
    }
    let file = escape::line(&source.file().to_string_lossy()).into_owned();
    if is_interactive() {
        note(format_args!("{file} comes from this folder, and you have not trusted its content yet."));
        note(summary(source));
        if ask("Trust it and go on?") {
            store.trust(source)?;
            return Ok(());
        }
    }
    let message = format!(
        "{file} comes from this folder and its content is not trusted, so nothing of it was started.\n{}\n\
         Look at it, then run `toolgate trust`; or name the file with --config to use it without trusting it",
        summary(source)
    );
    Err(Usage(message).into())
}

/// Whether a person can be asked.
pub(crate) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks a question; anything but yes is no.
pub(crate) fn ask(question: &str) -> bool {
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "{question} [y/N] ");
    let _ = stderr.flush();
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// What a file would start or connect to, one line each.
pub(crate) fn summary(source: &Source) -> String {
    let Ok(tree) = source.tree() else { return "  (the file cannot be read as a configuration)".to_owned() };
    let tree = tree.to_json();
    let style = Style::stderr();
    let mut lines = Vec::new();
    for section in ["mcpServers", "servers", "mcp_servers"] {
        for (name, server) in tree.get(section).and_then(Value::as_object).into_iter().flatten() {
            lines.push(format!("  {}  {}", style.strong(clipped(name)), clipped(&reach(server))));
        }
    }
    if let Some(tsc) = tree.pointer("/toolgate/engines/typescript").and_then(Value::as_str) {
        lines.push(format!("  {}  {}", style.strong("engines.typescript"), clipped(tsc)));
    }
    if let Some(deno) = tree.pointer("/toolgate/engines/v8/deno").and_then(Value::as_str) {
        lines.push(format!("  {}  {}", style.strong("engines.v8.deno"), clipped(deno)));
    }
    for text in texts(&tree) {
        lines.extend(command_lines(text).map(|line| format!("  {}  {}", style.strong("${cmd:…}"), clipped(line))));
    }
    if lines.is_empty() { "  (it names no server)".to_owned() } else { lines.join("\n") }
}

/// All texts of a value. As values and not as they are written: an escape hides no command.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(members) => members.values().flat_map(texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

fn reach(server: &Value) -> String {
    let text = |key: &str| server.get(key).and_then(Value::as_str).map(str::to_owned);
    let args = server.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    match text("command") {
        Some(command) => std::iter::once(command.as_str()).chain(args).collect::<Vec<_>>().join(" "),
        None => text("url").or_else(|| text("spec")).unwrap_or_else(|| "(neither a command nor a url)".to_owned()),
    }
}

fn clipped(text: &str) -> String {
    escape::line(&foreign_text::clipped(text, MAX_SHOWN)).into_owned()
}

/// Does an edit that the user asked for. A file that was trusted, or is made by the edit, is trusted afterwards.
pub(crate) fn keep_trust<T, E>(file: &Path, edit: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let store = TrustStore::of(&toolgate_config::Env::of_process());
    let trusted = !file.exists() || Source::open(file).is_ok_and(|source| store.trusts(&source));
    let done = edit()?;
    if let (true, Ok(source)) = (trusted, Source::open(file)) {
        // If it cannot be remembered, the next command asks.
        let _ = store.trust(&source);
    }
    Ok(done)
}
