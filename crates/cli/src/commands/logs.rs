//! `toolgate logs`: the log lines of this user's `serve` and `ui` processes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};
use toolgate_config::Env;

use super::{Exit, Usage};
use crate::args::log::{LogLevel, LogsArgs};
use crate::log::{archive_of, log_file};
use crate::print::{Style, escape, note, out};

/// How often a followed file is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The longest line that is read.
const MAX_LINE: u64 = 64 * 1024;

pub(crate) fn logs(args: &LogsArgs) -> anyhow::Result<Exit> {
    let file = log_file(&Env::of_process()).ok_or_else(|| {
        Usage("no log file is written: TOOLGATE_LOG_FILE is off, or there is no home directory".to_owned())
    })?;
    let mut last = VecDeque::new();
    let mut at = 0;
    let mut is_empty = true;
    for path in [archive_of(&file), file.clone()] {
        at = read_lines(&path, 0, |line| {
            is_empty = false;
            if is_wanted(line, args.level) {
                last.push_back(line.to_owned());
                if last.len() > args.lines {
                    last.pop_front();
                }
            }
            Ok(())
        })?;
    }
    if last.is_empty() && args.lines > 0 && !args.follow {
        let name = file.to_string_lossy();
        let file = escape::line(&name);
        match is_empty {
            true => note(format_args!("there are no log lines in {file} yet")),
            false => note(format_args!("no log line in {file} is of that level or worse")),
        }
    }
    last.iter().try_for_each(|line| show(line, args.json))?;
    if !args.follow {
        return Ok(Exit::Done);
    }
    // Until Ctrl-C, or until standard output is closed.
    loop {
        std::thread::sleep(POLL_INTERVAL);
        // A file that is shorter than before is a new one.
        let length = std::fs::metadata(&file).map_or(0, |metadata| metadata.len());
        let from = if length < at { 0 } else { at };
        at = read_lines(&file, from, |line| if is_wanted(line, args.level) { show(line, args.json) } else { Ok(()) })?;
    }
}

/// Reads whole lines from a place on, and returns where they end. A file that is not there has none.
fn read_lines(path: &Path, from: u64, mut each: impl FnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<u64> {
    let Ok(mut file) = File::open(path) else { return Ok(0) };
    file.seek(SeekFrom::Start(from))?;
    let mut reader = BufReader::new(file);
    let mut at = from;
    loop {
        let mut line = Vec::new();
        let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') && (read as u64) < MAX_LINE {
            return Ok(at);
        }
        at += read as u64;
        each(String::from_utf8_lossy(&line).trim_end())?;
    }
}

fn is_wanted(line: &str, level: LogLevel) -> bool {
    let fields: Option<Map<String, Value>> = serde_json::from_str(line).ok();
    let found = match fields.as_ref().and_then(|fields| fields.get("level")).and_then(Value::as_str) {
        Some("error") => LogLevel::Error,
        Some("warn") => LogLevel::Warn,
        Some("info") => LogLevel::Info,
        _ => LogLevel::Debug,
    };
    fields.is_some() && found <= level
}

fn show(line: &str, json: bool) -> anyhow::Result<()> {
    if json {
        return out(escape::json(line));
    }
    let fields: Map<String, Value> = serde_json::from_str(line).unwrap_or_default();
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let rest =
        fields.iter().filter(|(name, _)| !["time", "level", "target", "message", "pid"].contains(&name.as_str()));
    let rest: Vec<String> = rest.map(|(name, value)| format!("{name}={value}")).collect();
    let (style, level) = (Style::stdout(), text("level").to_uppercase());
    let level = match level.as_str() {
        "ERROR" => style.bad("ERROR"),
        "WARN" => style.warn("WARN "),
        other => format!("{other:<5}"),
    };
    let tail = format!("{}: {} {}", text("target"), text("message"), rest.join(" "));
    out(format_args!("{} {level} {}", escape::line(text("time")), escape::line(tail.trim_end())))
}
