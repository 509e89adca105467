//! How a returned value is written: indented, without white space, or with lists of records as tables.
//!
//! All three are exact. A table is JSON too: a list of objects with the same keys in the same order becomes
//! `{"#columns":[keys],"#rows":[[values], …]}`, at any depth, and one line above the text says so. A value that itself has
//! such a key is not written as a table, so that a reader can turn every table back.

use std::borrow::Cow;

use super::body::{Body, BodyForm};
use super::footer::MIN_SAVING;
use toolgate_json::scan::skip_string;
use toolgate_json::{Shape, Value, minified, unquote};

/// The form of a returned value that is not a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// Tables where they save much, otherwise without white space.
    Auto,
    /// Indented by two spaces a level.
    Pretty,
    /// Without white space.
    Compact,
    /// Tables for all lists of records, otherwise without white space.
    Table,
}

/// The line above a text with tables.
pub const TABLE_NOTE: &str =
    "[Lists of records are tables: \"#columns\" has the keys, each of \"#rows\" the values in that order]\n\n";

const COLUMNS: &str = "#columns";
const ROWS: &str = "#rows";
/// Minimum number of records of a table.
const MIN_RECORDS: usize = 3;
/// Maximum number of keys of a record.
const MAX_KEYS: usize = 64;
/// Maximum depth at which lists become tables. Each level reads its text once more.
const MAX_DEPTH: usize = 8;

impl OutputFormat {
    /// The body of a returned value, given as valid JSON.
    pub(crate) fn body(self, json: Cow<'_, str>) -> Body<'_> {
        match self {
            Self::Pretty => Body::new(json, BodyForm::Pretty),
            Self::Auto | Self::Compact | Self::Table => Body::new(compact(json), BodyForm::Compact),
        }
    }

    /// The body with tables, to be printed below [`TABLE_NOTE`]; `None` if the format wants none or there are none.
    pub(crate) fn table(self, body: &Body<'_>) -> Option<Body<'static>> {
        let saving = match self {
            Self::Auto => MIN_SAVING,
            Self::Table => 0,
            Self::Pretty | Self::Compact => return None,
        };
        let json = body.json().filter(|_| body.form() == BodyForm::Compact)?;
        let mut tables = Tables { out: String::new(), count: 0 };
        tables.write(json, 0)?;
        let fits = saving == 0 || tables.out.len() + TABLE_NOTE.len() + saving < body.extent().bytes;
        (tables.count > 0 && fits).then(|| Body::new(tables.out.into(), BodyForm::Text))
    }
}

/// JSON without white space between its tokens. A program's value comes without, and is not copied.
fn compact(json: Cow<'_, str>) -> Cow<'_, str> {
    if has_space(&json)
        && let Some(without) = minified(Value::of(&json), usize::MAX)
    {
        return Cow::Owned(without);
    }
    json
}

/// Whether there is white space outside of strings.
fn has_space(json: &str) -> bool {
    let (bytes, mut at) = (json.as_bytes(), 0);
    while let Some(byte) = bytes.get(at) {
        at = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => return true,
            b'"' => match skip_string(bytes, at) {
                Ok((end, _)) => end,
                Err(_) => return false,
            },
            _ => at + 1,
        };
    }
    false
}

struct Tables {
    out: String,
    count: usize,
}

impl Tables {
    /// Appends a value with its tables; `None` if the value has a key that only tables may have.
    fn write(&mut self, value: Value<'_>, depth: usize) -> Option<()> {
        if depth == MAX_DEPTH || !value.is_container() {
            return self.write_unchanged(value);
        }
        if let Some(keys) = records(value) {
            return self.write_table(value, &keys, depth);
        }
        let (open, close) = if value.shape() == Shape::Object { ('{', '}') } else { ('[', ']') };
        self.out.push(open);
        for (n, entry) in value.entries().enumerate() {
            self.out.push_str(if n == 0 { "" } else { "," });
            if let Some(key) = entry.key {
                if is_reserved(key) {
                    return None;
                }
                self.out.push_str(key);
                self.out.push(':');
            }
            self.write(entry.value, depth + 1)?;
        }
        self.out.push(close);
        Some(())
    }

    fn write_unchanged(&mut self, value: Value<'_>) -> Option<()> {
        let text = value.text();
        (!has_reserved_key(text)).then(|| self.out.push_str(text))
    }

    fn write_table(&mut self, list: Value<'_>, keys: &[&str], depth: usize) -> Option<()> {
        if keys.iter().any(|key| is_reserved(key)) {
            return None;
        }
        self.count += 1;
        self.out.push_str(&format!("{{\"{COLUMNS}\":[{}],\"{ROWS}\":[", keys.join(",")));
        for (n, record) in list.entries().enumerate() {
            self.out.push_str(if n == 0 { "\n[" } else { ",\n[" });
            for (n, entry) in record.value.entries().enumerate() {
                self.out.push_str(if n == 0 { "" } else { "," });
                self.write(entry.value, depth + 2)?;
            }
            self.out.push(']');
        }
        self.out.push_str("\n]}");
        Some(())
    }
}

/// Whether an object at any depth has a key of a table. Reads the text once, however deep it is.
fn has_reserved_key(json: &str) -> bool {
    let (bytes, mut at) = (json.as_bytes(), 0);
    while let Some(quote) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'"')) {
        let start = at + quote;
        // The text has been read as JSON before: every string ends.
        let Ok((end, _)) = skip_string(bytes, start) else { return false };
        // The text has no white space: what a colon follows is a key.
        if bytes.get(end) == Some(&b':') && json.get(start..end).is_some_and(is_reserved) {
            return true;
        }
        at = end;
    }
    false
}

/// Whether a key as written is one of a table.
fn is_reserved(key: &str) -> bool {
    matches!(unquote(key).as_ref(), COLUMNS | ROWS)
}

/// The keys of a list of objects that all have the same keys in the same order, as written.
fn records(list: Value<'_>) -> Option<Vec<&str>> {
    // Test the first bytes before reading an item: in deeply nested JSON, each level is nearly the whole text.
    list.text().strip_prefix("[{")?;
    let first = list.element(0)?;
    let keys: Vec<&str> = first.entries().filter_map(|entry| entry.key).take(MAX_KEYS + 1).collect();
    let distinct = keys.iter().enumerate().all(|(n, key)| !keys.iter().take(n).any(|before| before == key));
    if keys.is_empty() || keys.len() > MAX_KEYS || !distinct {
        return None;
    }
    let mut count = 0;
    for item in list.entries() {
        let own = item.value.entries().map(|entry| entry.key);
        if item.value.shape() != Shape::Object || !own.eq(keys.iter().copied().map(Some)) {
            return None;
        }
        count += 1;
    }
    (count >= MIN_RECORDS).then_some(keys)
}

#[cfg(test)]
mod tests;
