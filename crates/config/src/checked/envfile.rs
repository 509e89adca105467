//! Reads the `envFile` of a server: lines `NAME=value`, as VS Code and Cursor read them.
//!
//! Supports comments, `export`, and single or double quotes around the whole value; no variables inside values and no
//! multi-line values.

use std::collections::BTreeMap;

use super::checker::Checker;
use crate::raw::{Located, RawText};
use crate::text::Source;
use crate::values::Secret;

/// Reads the file that a setting names; problems are reported at the setting.
pub(super) fn read(checker: &mut Checker<'_>, setting: &Located<RawText<String>>) -> BTreeMap<String, Secret> {
    let path = checker.text(setting).and_then(|text| checker.path(&text, &setting.place));
    let Some(path) = path else { return BTreeMap::new() };
    checker.files.insert(path.clone());
    let source = match Source::open(&path) {
        Ok(source) => source,
        Err(problem) => {
            checker.wrong(&setting.place, format!("{}: {}", path.display(), problem.message), "");
            return BTreeMap::new();
        }
    };
    let mut variables = BTreeMap::new();
    for (number, line) in source.text().lines().enumerate() {
        match variable(line) {
            Line::Blank => {}
            Line::Variable(name, value) => {
                checker.secrets.add_named(name, value);
                variables.insert(name.to_owned(), Secret::new(value));
            }
            Line::Invalid => {
                let message = format!("{}:{}: expected NAME=value", path.display(), number + 1);
                checker.wrong(&setting.place, message, "");
            }
        }
    }
    variables
}

enum Line<'a> {
    Blank,
    Variable(&'a str, &'a str),
    Invalid,
}

fn variable(line: &str) -> Line<'_> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Line::Blank;
    }
    let line = line.strip_prefix("export ").unwrap_or(line);
    match line.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() && !line.contains('\0') => {
            Line::Variable(name.trim(), unquote(value.trim()))
        }
        _ => Line::Invalid,
    }
}

fn unquote(value: &str) -> &str {
    let quoted = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
    quoted.unwrap_or_else(|| value.split_once(" #").map_or(value, |(value, _)| value.trim_end()))
}
