//! How much work a check may be, told before it begins.
//!
//! A schema of a few lines can ask for exponential work: references that each lead to two more, or a recursive type that
//! tries the same value in several ways at every level. And a program can send millions of values to a schema that tries
//! each in hundreds of ways. The validator can't be interrupted, so a check that could take long is not begun.

use serde_json::Value;

use super::super::types::reference;

/// Nodes of a schema with all references followed; far above any honest tool.
const MAX_NODES: usize = 50_000;
/// Deepest nesting, references followed.
const MAX_DEPTH: usize = 100;
/// Ways through a recursive schema that one check may take.
const MAX_WAYS: u64 = 1 << 20;
/// Nodes of a schema times nodes of the arguments in one check: some tens of milliseconds.
const MAX_WORK: usize = 2_000_000;
/// What a regular expression costs, in nodes: it may backtrack on every string.
const PATTERN_NODES: usize = 500;

/// What a check of some arguments may cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// References that lead back to a schema they are part of, by way of an alternative.
    loops: u64,
    /// Nodes of the schema, references followed; regular expressions count as many.
    nodes: usize,
}

impl Cost {
    /// Walks `schema`; `Err` says why it can't be used at all.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let mut walk = Walk { root: schema, nodes: 0, patterns: 0, open: Vec::new(), loops: 0 };
        walk.visit(schema, 0, false)?;
        Ok(Self { loops: walk.loops, nodes: walk.nodes + walk.patterns * PATTERN_NODES })
    }

    /// Whether `arguments` are few enough for the schema's size, and shallow enough for its loops.
    pub(super) fn allows(self, arguments: &Value) -> bool {
        if count_nodes(arguments, MAX_WORK / self.nodes.max(1)).is_none() {
            return false;
        }
        let depth = u32::try_from(depth(arguments, MAX_DEPTH)).unwrap_or(u32::MAX);
        self.loops < 2 || self.loops.checked_pow(depth).is_some_and(|ways| ways <= MAX_WAYS)
    }
}

struct Walk<'a> {
    root: &'a Value,
    nodes: usize,
    patterns: usize,
    open: Vec<String>,
    loops: u64,
}

impl<'a> Walk<'a> {
    /// `alternative`: whether some keyword above applies several schemas to the same value.
    fn visit(&mut self, schema: &'a Value, depth: usize, alternative: bool) -> Result<(), String> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err("its input schema is too large".to_owned());
        }
        if depth > MAX_DEPTH {
            return Err("its input schema is nested too deeply".to_owned());
        }
        match schema {
            Value::Array(items) => items.iter().try_for_each(|item| self.visit(item, depth + 1, alternative)),
            Value::Object(keywords) => {
                if let Some((pointer, target)) = reference::target(self.root, schema) {
                    self.follow(pointer, target, depth, alternative)?;
                }
                keywords.iter().filter(|(name, _)| !is_container(name)).try_for_each(|(name, value)| {
                    let applies_in_place =
                        matches!(name.as_str(), "anyOf" | "oneOf" | "allOf" | "not" | "if" | "then" | "else");
                    self.patterns += usize::from(matches!(name.as_str(), "pattern" | "patternProperties"));
                    self.visit(value, depth + 1, alternative || applies_in_place)
                })
            }
            _ => Ok(()),
        }
    }

    fn follow(&mut self, pointer: String, target: &'a Value, depth: usize, alternative: bool) -> Result<(), String> {
        if self.open.contains(&pointer) {
            self.loops += u64::from(alternative);
            return Ok(());
        }
        self.open.push(pointer);
        self.visit(target, depth + 1, alternative)?;
        self.open.pop();
        Ok(())
    }
}

/// Definitions cost where they are used, data never.
fn is_container(keyword: &str) -> bool {
    matches!(keyword, "$defs" | "definitions" | "default" | "examples" | "enum" | "const")
}

/// The values inside `value`, itself included; `None` if there are more than `most`.
pub(super) fn count_nodes(value: &Value, most: usize) -> Option<usize> {
    let mut left = most;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        left = left.checked_sub(1)?;
        match value {
            Value::Array(items) if items.len() > left => return None,
            Value::Object(entries) if entries.len() > left => return None,
            Value::Array(items) => open.extend(items),
            Value::Object(entries) => open.extend(entries.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    Some(most - left)
}

/// The nesting of `value`, no further than `most`.
fn depth(value: &Value, most: usize) -> usize {
    if most == 0 {
        return 0;
    }
    let deepest = match value {
        Value::Array(items) => items.iter().map(|item| depth(item, most - 1)).max(),
        Value::Object(entries) => entries.values().map(|item| depth(item, most - 1)).max(),
        _ => return 0,
    };
    1 + deepest.unwrap_or(0)
}
