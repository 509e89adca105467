//! The form of log lines: text for people, JSON for programs.
//!
//! Values are escaped and bounded, so that no text from outside begins a line of its own, drives a terminal, or fills the log.

use std::fmt;

use clap::ValueEnum;
use serde_json::{Map, Value};
use toolgate_wire::foreign_text::{clipped, one_line};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::print::escape;

/// The form of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line for people
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// The most characters of one value.
const MAX_VALUE_CHARS: usize = 1_000;

/// Writes the fields of a line for people: the message, then `name=value`.
pub(super) struct TextFields;

impl<'writer> FormatFields<'writer> for TextFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut text = TextVisitor { writer, is_first: true, result: Ok(()) };
        fields.record(&mut text);
        text.result
    }
}

struct TextVisitor<'writer> {
    writer: Writer<'writer>,
    is_first: bool,
    result: fmt::Result,
}

impl TextVisitor<'_> {
    fn put(&mut self, field: &Field, value: &str) {
        // What the bridge from the crate `log` adds: a file of the machine that built it, and the like.
        if field.name().starts_with("log.") {
            return;
        }
        let value = one_line(value, MAX_VALUE_CHARS);
        let space = if std::mem::replace(&mut self.is_first, false) { "" } else { " " };
        self.result = self.result.and_then(|()| match field.name() {
            "message" => write!(self.writer, "{space}{value}"),
            name => write!(self.writer, "{space}{name}={value}"),
        });
    }
}

impl Visit for TextVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.put(field, value),
            _ => self.put(field, &format!("{value:?}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, &format!("{value:?}"));
    }
}

/// Writes an event as one JSON object: `time`, `level`, `target`, `message` and the event's fields.
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let mut fields = Fields::begin(&metadata.level().as_str().to_ascii_lowercase(), metadata.target());
        event.record(&mut fields);
        writeln!(writer, "{}", fields.line())
    }
}

/// A line of the same form that is no event, without its line break.
pub(super) fn json_line(level: &str, target: &str, message: &str) -> String {
    let mut fields = Fields::begin(level, target);
    fields.0.insert("message".into(), message.into());
    fields.line()
}

/// The fields of an event, with their JSON types.
struct Fields(Map<String, Value>);

impl Fields {
    fn begin(level: &str, target: &str) -> Self {
        let mut time = String::new();
        // A time that cannot be told is left empty.
        let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        let fields = [("time", time.as_str()), ("level", level), ("target", target)];
        Fields(fields.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
    }

    /// The object on one line. Characters that drive a terminal are escaped as JSON has it, so that the values stay the same.
    fn line(self) -> String {
        escape::json(&Value::Object(self.0).to_string()).into_owned()
    }

    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, &*clipped(value, MAX_VALUE_CHARS));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, &*clipped(&format!("{value:?}"), MAX_VALUE_CHARS));
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::layer;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A line in both forms, with a value that comes from outside.
    fn both(value: &str) -> [String; 2] {
        [false, true].map(|is_json| {
            let written = Written::default();
            let sink = written.clone();
            let log = || {
                tracing::warn!(error = %value, name = value, number = 7, "a server failed");
            };
            let text = layer().with_ansi(false).without_time();
            if is_json {
                let json = text.with_writer(move || sink.clone()).event_format(JsonLines);
                tracing::subscriber::with_default(tracing_subscriber::registry().with(json), log);
            } else {
                let text = text.with_writer(move || sink.clone()).fmt_fields(TextFields);
                tracing::subscriber::with_default(tracing_subscriber::registry().with(text), log);
            }
            let bytes = written.0.lock().expect("not poisoned").clone();
            String::from_utf8(bytes).expect("text")
        })
    }

    #[test]
    fn a_value_from_outside_begins_no_line_and_drives_no_terminal() {
        for line in both("gone\nINFO all is well \u{1b}[2J\u{9b}2J\u{202e}") {
            assert_eq!(line.lines().count(), 1, "{line}");
            assert!(line.contains("a server failed") && line.contains("gone") && line.contains("number"), "{line}");
            assert!(!line.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{line}");
        }
    }

    #[test]
    fn a_value_is_the_same_in_json() {
        let value = "a \"quoted\" name\u{1b}\u{202e}";
        let [_, line] = both(value);
        let line: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&line["name"], &line["error"]), (&value.into(), &value.into()));
    }

    #[test]
    fn what_is_said_is_a_line_of_the_same_form() {
        let said: Value = serde_json::from_str(&json_line("info", "here", "two\nlines")).expect("JSON");
        assert_eq!(
            (&said["level"], &said["target"], &said["message"]),
            (&"info".into(), &"here".into(), &"two\nlines".into())
        );
        assert!(said["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{said}");
    }

    #[test]
    fn a_long_value_is_cut() {
        for line in both(&"x".repeat(100_000)) {
            assert!(line.len() < 3_000, "{} bytes", line.len());
        }
    }
}
