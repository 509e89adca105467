//! Loads documents and says for each what became of its operations, what it cost and how much is kept.
//!
//! `cargo run --release -p toolgate-openapi --example survey -- FILE...` prints one line for each file:
//! operations counted in the text, tools, skipped operations, milliseconds of processor time, sizes. With `--all` it also
//! prints the reason of every skipped operation. The exit code is 1 if an operation is neither a tool nor skipped.

#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::process::ExitCode;

use serde_json::Value;
use toolgate_openapi::{Api, ApiSettings, summary};
use url::Url;

const METHODS: [&str; 9] = ["get", "head", "options", "post", "put", "patch", "delete", "query", "trace"];

fn main() -> ExitCode {
    let (flags, files): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|arg| arg.starts_with("--"));
    let all = flags.iter().any(|flag| flag == "--all");
    let mut failed = 0;
    for file in &files {
        failed += usize::from(!survey(file, all));
    }
    println!("{} documents, {failed} with operations unaccounted for", files.len());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn survey(file: &str, all: bool) -> bool {
    let Ok(text) = std::fs::read_to_string(file) else {
        println!("{file}: cannot be read");
        return false;
    };
    let Ok(fallback) = Url::parse("https://api.example.com/base") else { return false };
    let named = summary(&text, None).ok().and_then(|summary| summary.servers.into_iter().next());
    let mut base = named.unwrap_or(fallback);
    base.set_query(None);
    let before = resident();
    let start = processor_time();
    let api = Api::load(&text, ApiSettings::new(base));
    let took = processor_time().saturating_sub(start) as f64 / 1e6;
    let kept = resident().saturating_sub(before);
    let counted = if text.trim_start().starts_with('{') { count(&text) } else { count_yaml(&text) };
    match api {
        Ok(api) => {
            let (tools, skipped) = (api.operations().len(), api.skipped().len());
            let bytes: usize = api.operations().iter().map(|it| it.tool.get().len()).sum();
            let shown = counted.map_or("?".to_owned(), |counted| counted.to_string());
            println!(
                "{file}: {shown} operations, {tools} tools, {skipped} skipped, {took:.0} ms, {} KB of tools, {kept} KB more resident, {} KB of text",
                bytes >> 10,
                text.len() >> 10
            );
            if all {
                api.skipped().iter().for_each(|it| println!("  {}: {}", it.operation, it.reason));
            }
            counted == Some(tools + skipped)
        }
        Err(error) => {
            println!("{file}: refused: {error}");
            counted == Some(0)
        }
    }
}

/// The operations of a JSON document, counted without this crate.
fn count(text: &str) -> Option<usize> {
    let document: Value = serde_json::from_str(text).ok()?;
    let items = document.get("paths")?.as_object()?;
    let of = |item: &Value| {
        let members = item.as_object().into_iter().flatten();
        members.filter(|(key, it)| METHODS.contains(&key.to_ascii_lowercase().as_str()) && it.is_object()).count()
    };
    Some(items.iter().filter(|(path, _)| !path.starts_with("x-")).map(|(_, item)| of(item)).sum())
}

/// The operations of a YAML document in block style, counted by the indentation of its lines.
fn count_yaml(text: &str) -> Option<usize> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    let items: Vec<&str> =
        lines.skip_while(|line| line.trim_end() != "paths:").skip(1).take_while(|line| depth(line) > 0).collect();
    let path = depth(items.first()?);
    let method = items.iter().map(|line| depth(line)).find(|found| *found > path)?;
    let (mut operations, mut is_path) = (0, false);
    for line in items {
        let key = line.trim().trim_end_matches(':').trim_matches(['"', '\'']);
        if depth(line) == path {
            is_path = !key.starts_with("x-");
        } else if depth(line) == method && is_path && line.trim_end().ends_with(':') && METHODS.contains(&key) {
            operations += 1;
        }
    }
    Some(operations)
}

/// Processor time of this thread in nanoseconds, which a busy machine does not change; zero where the system does not say.
fn processor_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|time| time.parse().ok()).unwrap_or(0)
}

/// Resident memory of this process in KB; zero where the system does not say.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}
