//! `toolgate audit verify`: whether the audit log is as it was written. `toolgate audit show`: the calls in it.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolgate_audit::{BrokenLog, LogFiles, LogLine, Verified};
use toolgate_config::{Env, lookup};
use toolgate_wire::foreign_text::head;

use super::servers::table;
use super::{Exit, Usage};
use crate::args::log::{AuditShowArgs, AuditVerifyArgs};
use crate::print::{Style, counted, escape, note, out};

/// Hexadecimal digits of the id of a run in a list.
const SHOWN_ID: usize = 8;

pub(crate) fn verify(args: &AuditVerifyArgs) -> anyhow::Result<Exit> {
    let file = file(args.file.as_deref(), args.servers.config.as_deref())?;
    let verified = toolgate_audit::verify(&file, args.expect.as_deref());
    if args.json {
        out(escape::json(&to_json(&verified).to_string()))?;
    } else {
        match &verified {
            Ok(verified) => describe(verified)?,
            Err(BrokenLog::Unreadable { file, source }) if source.kind() == ErrorKind::NotFound => note(absent(file)),
            Err(broken) => note(escape::line(&broken.to_string())),
        }
    }
    Ok(if verified.is_ok_and(|verified| verified.has_expected) { Exit::Done } else { Exit::Failed })
}

/// The calls of the log and its archives, the last ones first.
pub(crate) fn show(args: &AuditShowArgs) -> anyhow::Result<Exit> {
    let file = file(args.file.as_deref(), args.servers.config.as_deref())?;
    let files = LogFiles::find(&file).map_err(|error| cannot_read(&file, &error))?;
    if files.count() == 0 {
        return Err(Usage(absent(&file)).into());
    }
    let shown = last_calls(args, files)?;
    if args.json {
        shown.iter().try_for_each(|(line, _)| out(escape::json(line)))?;
    } else if shown.is_empty() {
        note(format_args!("no such call in {} and its archives", escape::line(&file.to_string_lossy())));
    } else {
        let rows: Vec<Vec<String>> = shown.iter().map(|(_, record)| row(record)).collect();
        let heads = ["time", "who", "client", "run", "call", "outcome", "policy", "by"];
        out(table(&heads, &rows, Style::stdout()))?;
    }
    Ok(Exit::Done)
}

/// As many calls as are asked for, the last ones first. Files that are older than these are not read.
fn last_calls(args: &AuditShowArgs, files: LogFiles) -> anyhow::Result<Vec<(String, Value)>> {
    let wanted = args.lines.max(1);
    let mut shown = Vec::new();
    for (path, opened) in files.newest_first() {
        let unreadable = |error: std::io::Error| cannot_read(&path, &error);
        let room = wanted - shown.len();
        let mut last: VecDeque<(String, Value)> = VecDeque::new();
        for line in toolgate_audit::lines(opened.map_err(unreadable)?) {
            // A line that a killed process did not finish is no record, and neither is one that no writer makes.
            let LogLine::Whole(line) = line.map_err(unreadable)? else { continue };
            let line = String::from_utf8(line).unwrap_or_default();
            let Ok(record) = serde_json::from_str::<Value>(&line) else { continue };
            if is_asked_for(args, &record) {
                if last.len() == room {
                    last.pop_front();
                }
                last.push_back((line, record));
            }
        }
        shown.extend(last.into_iter().rev());
        if shown.len() == wanted {
            break;
        }
    }
    Ok(shown)
}

fn cannot_read(file: &Path, error: &std::io::Error) -> Usage {
    Usage(format!("cannot read {}: {error}", escape::line(&file.to_string_lossy())))
}

fn is_asked_for(args: &AuditShowArgs, record: &Value) -> bool {
    let has = |field: &str, fits: &dyn Fn(&str) -> bool| record[field].as_str().is_some_and(fits);
    has("event", &|event| event == "call")
        && args.run.as_ref().is_none_or(|run| has("run", &|id| id.starts_with(run.as_str())))
        && args.tool.as_ref().is_none_or(|tool| has("target", &|target| target.contains(tool.as_str())))
}

fn row(record: &Value) -> Vec<String> {
    let text = |field: &str| record[field].as_str().unwrap_or_default().to_owned();
    let policy = [text("decision"), text("rule"), text("verdict")];
    let policy: Vec<String> = policy.into_iter().filter(|part| !part.is_empty()).collect();
    let run = head(&text("run"), SHOWN_ID).to_owned();
    vec![
        text("time"),
        text("who"),
        text("client"),
        run,
        text("target"),
        text("outcome"),
        policy.join(" "),
        text("reviewer"),
    ]
}

/// There is no log: how there will be one.
fn absent(file: &Path) -> String {
    let file = escape::line(&file.to_string_lossy()).into_owned();
    format!(
        "there is no audit log at {file}: `\"audit\": {{\"enabled\": true}}` under toolgate in the configuration writes one from then on"
    )
}

/// The file that is meant. A configuration is read and not acted on: no server is started, so it needs no trust.
fn file(named: Option<&Path>, config: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(file) = named {
        return Ok(file.to_owned());
    }
    let env = Env::of_process();
    let found = lookup::find(config, &env).map_err(|error| Usage(error.to_string()))?;
    let configured = found
        .and_then(|found| toolgate_config::load(&found.path, &env).ok())
        .and_then(|config| config.settings.audit.map(|audit| audit.file));
    let usual = || env.state_folder().map(|state| state.join("audit.jsonl"));
    configured.or_else(usual).ok_or_else(|| Usage("there is no home directory: name the file".to_owned()).into())
}

fn describe(verified: &Verified) -> anyhow::Result<()> {
    let Verified { lines, first, head, files, lost, torn, has_expected } = verified;
    out(format_args!("{} in {}: the chain holds", counted(*lines, "line"), counted(*files, "file")))?;
    out(format_args!("head: {head}"))?;
    if *first > 1 {
        note(format_args!("it begins with line {first}: older archives were removed"));
    }
    if *lost > 0 {
        note(format_args!("lost before they could be written: {}", counted(*lost, "record")));
    }
    if *torn > 0 {
        note(format_args!("not finished by a process that was killed: {}", counted(*torn, "line")));
    }
    if !has_expected {
        note("the expected hash is not in the chain: lines were cut off at the end, or all of them were written anew");
    }
    Ok(())
}

fn to_json(verified: &Result<Verified, BrokenLog>) -> serde_json::Value {
    match verified {
        Ok(it) => json!({
            "ok": it.has_expected, "lines": it.lines, "first": it.first, "head": it.head, "files": it.files,
            "lost": it.lost, "torn": it.torn, "has_expected": it.has_expected,
        }),
        Err(BrokenLog::Line { file, line, reason }) => {
            json!({ "ok": false, "file": file.to_string_lossy(), "line": line, "error": reason })
        }
        Err(error) => json!({ "ok": false, "error": error.to_string() }),
    }
}
