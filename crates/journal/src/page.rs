//! A record as one page for people: a time line of its calls, console, program with the place of its failure, report.
//!
//! Self-contained, without scripts; everything that a program or a server said is escaped. Secrets are the caller's to
//! replace before (see [`crate::redact`]).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use toolgate_wire::UtcTime;
use toolgate_wire::foreign_text::head;

use crate::entry::{Call, CallTarget, Event, Reply, ReplyBody};
use crate::recording::Record;
use crate::text::Text;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1b1f24;\
background:#fff}h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}pre{background:#f6f8fa;padding:.6rem;overflow:auto;\
white-space:pre-wrap;overflow-wrap:anywhere}table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;\
padding:.3rem .6rem;border-bottom:1px solid #d8dee4}ol.code{background:#f6f8fa;font:13px/1.45 monospace;padding-left:3.5rem}\
ol.code li{white-space:pre-wrap}.err{color:#b42318}.time{color:#59636e;white-space:nowrap;min-width:9rem}\
.bar{height:.35rem;min-width:2px;background:#57606a}";
/// Characters of one text on the page.
const MAX_TEXT: usize = 100_000;

/// The page of a record.
pub fn page(record: &Record) -> String {
    let run = record.header().map(|header| header.run.clone()).unwrap_or_default();
    let mut out = String::new();
    let _ = write!(
        out,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\"><title>Run {run}</title><style>{STYLE}</style></head>\
         <body><h1>Run {run}</h1>",
        run = escaped(&run)
    );
    facts(record, &mut out);
    calls(record, &mut out);
    console(record, &mut out);
    program(record, &mut out);
    if let Some(report) = record.report() {
        let _ = write!(out, "<h2>Report</h2><pre>{}</pre>", escaped(&pretty(report)));
    }
    out.push_str("</body></html>\n");
    out
}

fn facts(record: &Record, out: &mut String) {
    let Some(header) = record.header() else { return };
    let caller = if header.caller.is_empty() { "the local user" } else { &header.caller };
    let began = UtcTime::of_unix(i64::try_from(header.began / 1000).unwrap_or(i64::MAX));
    let rows = [
        ("caller", caller.to_owned()),
        ("began", format!("{} {} UTC", began.date(), began.time_of_day())),
        ("profile", header.profile.name().to_owned()),
        ("engine", header.engine.clone()),
        ("program", header.code_hash.to_string()),
    ];
    out.push_str("<table>");
    for (name, value) in rows {
        let _ = write!(out, "<tr><th>{name}</th><td>{}</td></tr>", escaped(&value));
    }
    out.push_str("</table>");
}

/// A call with what became of it.
struct Row<'a> {
    at: f64,
    call: &'a Call,
    sent: bool,
    asked: bool,
    answer: Option<(f64, &'a Reply)>,
}

fn calls(record: &Record, out: &mut String) {
    let mut rows: BTreeMap<u32, Row<'_>> = BTreeMap::new();
    for entry in &record.entries {
        let (id, change): (u32, fn(&mut Row<'_>)) = match &entry.event {
            Event::Call(call) => {
                rows.insert(call.id, Row { at: entry.at, call, sent: call.read_only, asked: false, answer: None });
                continue;
            }
            Event::Answered(reply) | Event::Reply(reply) => {
                if let Some(row) = rows.get_mut(&reply.id) {
                    row.answer = row.answer.or(Some((entry.at, reply)));
                }
                continue;
            }
            Event::Intent { id, .. } => (*id, |row| row.sent = true),
            // Its server has had the call; one that a rule asks about was not sent.
            Event::Asked { id, by_server: true } => (*id, |row| row.asked = true),
            Event::Asked { id, by_server: false } => (*id, |row| (row.asked, row.sent) = (true, false)),
            _ => continue,
        };
        if let Some(row) = rows.get_mut(&id) {
            change(row);
        }
    }
    out.push_str("<h2>Calls</h2><table><tr><th>ms</th><th>call</th><th>arguments and answer</th></tr>");
    let whole = record.entries.last().map_or(0.0, |entry| entry.at);
    for row in rows.values() {
        write_row(row, record, whole, out);
    }
    out.push_str("</table>");
}

/// A call as a row of the time line, which is `whole` milliseconds long.
fn write_row(row: &Row<'_>, record: &Record, whole: f64, out: &mut String) {
    let name = match &row.call.target {
        CallTarget::Tool { backend, tool } => format!("{backend}.{tool}"),
        CallTarget::Function { function } => function.clone(),
    };
    let (at, end) = (row.at, row.answer.map(|(end, _)| end - row.at));
    let took = end.map(|took| format!(" + {took:.1}")).unwrap_or_default();
    let asked = if row.asked { "<br>a person was asked" } else { "" };
    let _ = write!(
        out,
        "<tr><td class=\"time\">{at:.1}{took}{}</td><td>{} {}{asked}</td><td><pre>{}</pre>",
        bar(at, row.answer.map_or(whole, |(end, _)| end), whole),
        row.call.id,
        escaped(&name),
        escaped(&pretty(text(record, &row.call.args)))
    );
    match row.answer {
        Some((_, reply)) => {
            let class = if matches!(reply.body, ReplyBody::Error(_)) { " class=\"err\"" } else { "" };
            let _ = write!(out, "<pre{class}>{}</pre>", escaped(&pretty(text(record, reply.body.text()))));
        }
        None if row.sent => out.push_str("<p class=\"err\">sent, no answer</p>"),
        None => out.push_str("<p>not sent</p>"),
    }
    out.push_str("</td></tr>");
}

/// From when to when a call was open, as a part of the whole.
fn bar(from: f64, to: f64, whole: f64) -> String {
    let percent = |at: f64| if whole > 0.0 { (at / whole * 100.0).clamp(0.0, 100.0) } else { 0.0 };
    let (left, right) = (percent(from), percent(to.max(from)));
    format!("<div class=\"bar\" style=\"margin-left:{left:.1}%;width:{:.1}%\"></div>", right - left)
}

fn console(record: &Record, out: &mut String) {
    let lines = record.entries.iter().filter_map(|entry| match &entry.event {
        Event::Line { stderr, text: line, .. } => Some((entry.at, *stderr, text(record, line))),
        _ => None,
    });
    out.push_str("<h2>Console</h2><table>");
    for (at, is_error, line) in lines {
        let class = if is_error { " class=\"err\"" } else { "" };
        let line = escaped(line);
        let _ = write!(out, "<tr><td class=\"time\">{at:.1}</td><td><pre{class}>{line}</pre></td></tr>");
    }
    out.push_str("</table>");
}

fn program(record: &Record, out: &mut String) {
    let Some(header) = record.header() else { return };
    out.push_str("<h2>Program</h2><ol class=\"code\">");
    let failed = record.report().and_then(Failed::of);
    for (number, line) in text(record, &header.code).lines().enumerate() {
        match failed.as_ref().filter(|failed| failed.line == number as u64 + 1) {
            Some(Failed { column, error, .. }) => {
                let (line, error) = (escaped(line), escaped(error));
                let _ = write!(out, "<li class=\"err\">{line}<p>column {column}: {error}</p></li>");
            }
            None => {
                let _ = write!(out, "<li>{}</li>", escaped(line));
            }
        }
    }
    out.push_str("</ol>");
}

/// Where the program failed, as its report says.
struct Failed {
    line: u64,
    column: u64,
    error: String,
}

impl Failed {
    fn of(report: &str) -> Option<Self> {
        let report: serde_json::Value = serde_json::from_str(report).ok()?;
        let (line, column) = (report["line"].as_u64()?, report["column"].as_u64()?);
        Some(Failed { line, column, error: report["error"].as_str().unwrap_or_default().to_owned() })
    }
}

fn text<'a>(record: &'a Record, text: &'a Text) -> &'a str {
    let text = record.blobs.text(text).unwrap_or("(missing from the record)");
    head(text, MAX_TEXT)
}

/// JSON with line breaks; any other text as it is.
fn pretty(text: &str) -> String {
    serde_json::from_str::<serde_json::Value>(text)
        .and_then(|value| serde_json::to_string_pretty(&value))
        .unwrap_or_else(|_| text.to_owned())
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Recording, RunFacts};
    use toolgate_wire::{CallId, CallState, FromWorker, Profile, Target};

    #[test]
    fn a_page_marks_the_place_of_the_failure_and_what_was_not_sent() {
        let facts = RunFacts {
            run: "run".into(),
            profile: Profile::Chain,
            code: "const a = 1;\nreturn a.b.c".into(),
            caller: String::new(),
            request: None,
        };
        let recording = Recording::new(facts);
        let target = Target::Tool { backend: "bank".into(), tool: "pay".into() };
        recording.said(&FromWorker::Call { id: CallId(1), target, args: b"{}".to_vec() }, false);
        recording.intends(CallId(1));
        recording.asks(CallId(1), false);
        recording.finish(r#"{"ok":false,"code":"RUNTIME","error":"b is <undefined>","line":2,"column":10}"#);
        let page = page(&recording.take());
        assert!(
            page.contains(r#"<li class="err">return a.b.c<p>column 10: b is &lt;undefined&gt;</p></li>"#),
            "{page}"
        );
        assert!(page.contains("<li>const a = 1;</li>") && page.contains("class=\"bar\""), "{page}");
        assert!(page.contains("not sent") && !page.contains("sent, no answer"), "{page}");
        assert!(page.contains(" UTC</td>"), "{page}");
    }

    #[test]
    fn a_page_shows_calls_and_lets_nothing_through() {
        let hostile = "<script>alert(1)</script>\" onload='x'";
        let facts = RunFacts {
            run: hostile.into(),
            profile: Profile::Chain,
            code: format!("// {hostile}\nreturn 1"),
            caller: hostile.into(),
            request: None,
        };
        let recording = Recording::new(facts);
        let call = |id: u32| FromWorker::Call {
            id: CallId(id),
            target: Target::Tool { backend: "bank".into(), tool: hostile.into() },
            args: serde_json::to_vec(&hostile).unwrap(),
        };
        recording.said(&call(1), false);
        recording.intends(CallId(1));
        recording.answered(CallId(1), CallState::Failed, Err(hostile.as_bytes()));
        recording.said(&call(2), false);
        recording.intends(CallId(2));
        recording.said(&call(3), false);
        recording.said(&FromWorker::Log { stream: toolgate_wire::frame::Stream::Stderr, text: hostile.into() }, false);
        recording.finish(&serde_json::to_string(hostile).unwrap());
        let page = page(&recording.take());
        assert!(!page.contains("<script") && !page.contains("onload='"), "{page}");
        assert!(page.contains("sent, no answer") && page.contains("not sent") && page.contains("1 bank."), "{page}");
    }
}
