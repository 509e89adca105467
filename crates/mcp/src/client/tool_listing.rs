//! The tools that a server lists: those that are kept, and those that are left out with the reason.
//!
//! A tool is left out for itself (its name, its size, its depth, its headers), or because the list is full. The first ones
//! that are left out are named, so that a person can tell a defect of one tool from a list that is too long.

use std::collections::HashSet;
use std::fmt;

use serde_json::Value;
use toolgate_json::{self as json, Shape};
use toolgate_wire::foreign_text::one_line;

use crate::headers;
use crate::json_text::{TreeError, tree_bytes};

/// The most tools of a server; further ones are left out.
const MAX_TOOLS: usize = 20_000;
/// The most memory that the tools of a server take; further ones are left out.
const MAX_TOOLS_BYTES: usize = 256 << 20;
/// The most memory that one tool or other entry of a list takes; larger ones are left out.
pub(super) const MAX_ENTRY_BYTES: usize = 4 << 20;
/// The longest tool name; tools with longer ones are left out.
const MAX_NAME_BYTES: usize = 1024;
/// Characters of a tool's name in notices and in the log.
const MAX_SHOWN_NAME: usize = 100;
/// The most tools that are named among those that are left out.
const MAX_NAMED: usize = 20;

/// The tools of a server.
#[derive(Debug, Default, PartialEq)]
pub struct ToolListing {
    /// The tools, as sent.
    pub tools: Vec<Value>,
    /// Those that are not among them.
    pub left_out: LeftOutTools,
}

/// Tools that a server lists and that are not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOutTools {
    /// The first ones that are left out for what they are.
    pub named: Vec<LeftOutTool>,
    /// How many more are.
    pub unnamed: usize,
    /// Whether the list is longer than what is kept of it.
    pub is_cut: bool,
}

/// A tool that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOutTool {
    /// The beginning of its name on one line; empty where it has none.
    pub name: String,
    /// Why.
    pub reason: LeftOutReason,
}

/// Why a tool is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOutReason {
    /// It has no name, or one that is no string.
    NoName,
    /// Its name is longer than a name may be.
    LongName,
    /// It takes more memory than one tool may.
    TooLarge,
    /// It cannot be read as values: it is nested too deeply, or has a number that is too large.
    Unreadable,
    /// Arguments are to be repeated in HTTP headers that cannot be.
    Headers(&'static str),
}

impl fmt::Display for LeftOutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoName => f.write_str("it has no name"),
            Self::LongName => write!(f, "its name is longer than {MAX_NAME_BYTES} bytes"),
            Self::TooLarge => {
                write!(f, "its description and schemas take more than {} MB of memory", MAX_ENTRY_BYTES >> 20)
            }
            Self::Unreadable => {
                f.write_str("its schemas are nested deeper than 127 levels or have a number out of range")
            }
            Self::Headers(defect) => f.write_str(defect),
        }
    }
}

impl LeftOutTools {
    /// Whether any is left out.
    pub fn has_any(&self) -> bool {
        self.is_cut || !self.named.is_empty()
    }

    fn add(&mut self, name: &str, reason: LeftOutReason) {
        if self.named.len() < MAX_NAMED {
            self.named.push(LeftOutTool { name: one_line(name, MAX_SHOWN_NAME), reason });
        } else {
            self.unnamed += 1;
        }
    }
}

/// Whether a list takes further entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddMore {
    Yes,
    No,
}

/// Collects tools page by page.
#[derive(Debug, Default)]
pub(super) struct ToolCollector {
    /// Whether arguments are repeated in HTTP headers.
    has_headers: bool,
    listing: ToolListing,
    names: HashSet<String>,
    bytes: usize,
}

impl ToolCollector {
    /// For a server to which calls repeat arguments in HTTP headers, or not.
    pub(super) fn new(has_headers: bool) -> Self {
        Self { has_headers, ..Self::default() }
    }

    pub(super) fn finish(self) -> ToolListing {
        self.listing
    }

    /// Adds a tool; of several with one name, the first is kept.
    pub(super) fn add(&mut self, tool: json::Value<'_>) -> AddMore {
        let name = tool.member("name").filter(|name| name.shape() == Shape::String);
        // An escape of six bytes is one character.
        let is_long = |name: &json::Value<'_>| name.len() > MAX_NAME_BYTES * 6 + 2;
        if let Some(name) = name.filter(is_long) {
            return self.leave_out(&json::unquote(head_of(name)), LeftOutReason::LongName);
        }
        let name = name.map(|name| json::unquote(name.text())).unwrap_or_default();
        if name.is_empty() {
            return self.leave_out("", LeftOutReason::NoName);
        }
        if name.len() > MAX_NAME_BYTES {
            return self.leave_out(&name, LeftOutReason::LongName);
        }
        if self.names.contains(&*name) {
            return AddMore::Yes;
        }
        let bytes = match tree_bytes(tool.text(), MAX_ENTRY_BYTES) {
            Ok(bytes) => bytes,
            Err(TreeError::TooManyValues { .. } | TreeError::OverBudget(_)) => {
                return self.leave_out(&name, LeftOutReason::TooLarge);
            }
            Err(TreeError::NotJson(_)) => return self.leave_out(&name, LeftOutReason::Unreadable),
        };
        if self.listing.tools.len() >= MAX_TOOLS || self.bytes + bytes > MAX_TOOLS_BYTES {
            self.listing.left_out.is_cut = true;
            return AddMore::No;
        }
        let Ok(tree) = serde_json::from_str::<Value>(tool.text()) else {
            return self.leave_out(&name, LeftOutReason::Unreadable);
        };
        if let Some(defect) = tree.get("inputSchema").filter(|_| self.has_headers).and_then(headers::defect) {
            return self.leave_out(&name, LeftOutReason::Headers(defect));
        }
        self.names.insert(name.into_owned());
        self.bytes += bytes;
        self.listing.tools.push(tree);
        AddMore::Yes
    }

    fn leave_out(&mut self, name: &str, reason: LeftOutReason) -> AddMore {
        self.listing.left_out.add(name, reason);
        AddMore::Yes
    }
}

/// The beginning of a long name, with its opening quote.
fn head_of(name: json::Value<'_>) -> &str {
    let end = json::escape_boundary(name.text(), MAX_NAME_BYTES);
    name.text().get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn listed(tools: impl IntoIterator<Item = Value>) -> ToolListing {
        let mut collector = ToolCollector::new(true);
        for tool in tools {
            if collector.add(json::Value::of(&tool.to_string())) == AddMore::No {
                break;
            }
        }
        collector.finish()
    }

    fn named(found: &ToolListing) -> Vec<(&str, LeftOutReason)> {
        found.left_out.named.iter().map(|tool| (tool.name.as_str(), tool.reason)).collect()
    }

    #[test]
    fn of_several_tools_with_one_name_the_first_is_kept() {
        let tools = [json!({ "name": "a", "x": 1 }), json!({ "name": "a", "x": 2 }), json!({ "name": "b" })];
        let found = listed(tools.clone());
        let expected = ToolListing { tools: vec![tools[0].clone(), tools[2].clone()], ..ToolListing::default() };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_tool_without_a_usable_name_is_left_out() {
        let (long, longer) = ("x".repeat(MAX_NAME_BYTES + 1), "é\n".repeat(100_000));
        let tools = [json!({ "name": "" }), json!({ "name": 5 }), json!({}), json!([]), json!({ "name": long })];
        let found = listed(tools.into_iter().chain([json!({ "name": longer })]));
        assert_eq!(found.tools, Vec::<Value>::new());
        let shown = format!("{}…", "x".repeat(MAX_SHOWN_NAME));
        let shorter = format!("{}…", "é ".repeat(MAX_SHOWN_NAME / 2));
        let nameless = [("", LeftOutReason::NoName); 4];
        let expected = [&nameless[..], &[(&shown, LeftOutReason::LongName), (&shorter, LeftOutReason::LongName)]];
        assert_eq!(named(&found), expected.concat());
        assert!(!found.left_out.is_cut);
    }

    #[test]
    fn tools_are_bounded_in_number() {
        let found = listed((0..MAX_TOOLS + 5).map(|n| json!({ "name": format!("t{n}") })));
        assert_eq!((found.tools.len(), found.left_out.is_cut), (MAX_TOOLS, true));
        assert_eq!(found.left_out.named, []);
    }

    #[test]
    fn a_tool_that_cannot_be_kept_is_named_with_its_reason_and_the_next_is_kept() {
        let large = json!({ "name": "large", "inputSchema": vec![1; MAX_ENTRY_BYTES / 16] });
        let deep = (0..200).fold(json!({}), |inner, _| json!({ "items": inner }));
        let deep = json!({ "name": "deep", "inputSchema": deep });
        let marks = json!({ "type": "object", "properties": { "a": { "type": "array", "x-mcp-header": "A" } } });
        let marked = json!({ "name": "marked", "inputSchema": marks });
        let found = listed([large, deep, marked, json!({ "name": "small" })]);
        assert_eq!(found.tools, [json!({ "name": "small" })]);
        let defect = "an x-mcp-header is on what is no string, integer or boolean";
        let expected = [
            ("large", LeftOutReason::TooLarge),
            ("deep", LeftOutReason::Unreadable),
            ("marked", LeftOutReason::Headers(defect)),
        ];
        assert_eq!(named(&found), expected);
        assert!(!found.left_out.is_cut, "the list is not too long");
    }

    #[test]
    fn the_named_ones_are_few_and_the_others_are_counted() {
        let found = listed((0..MAX_NAMED + 7).map(|_| json!({ "name": 1 })));
        assert_eq!((found.left_out.named.len(), found.left_out.unnamed), (MAX_NAMED, 7));
    }
}
