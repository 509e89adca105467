//! Words that mean the same to someone who describes a task.
//!
//! A small and general table: verbs that every API uses in its own way and nouns that have two common names. A tool
//! that uses one word of a group is found by the others, for less than by its own.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::words::stem;

/// One group a line; a word belongs to one group at most.
const GROUPS: &[&[&str]] = &[
    &["create", "add", "new", "make", "insert", "open", "register"],
    &["delete", "remove", "erase", "drop", "destroy", "discard", "trash"],
    &[
        "get", "read", "fetch", "show", "retrieve", "view", "display", "load", "look", "see", "give", "tell", "return",
        "print",
    ],
    &["list", "enumerate", "browse", "every"],
    &["find", "search", "query", "lookup", "locate", "seek"],
    &["update", "edit", "change", "modify", "alter", "patch", "set", "adjust", "rewrite"],
    &["send", "post", "publish", "write", "submit"],
    &["move", "rename", "relocate", "transfer"],
    &["copy", "duplicate", "clone"],
    &["run", "execute", "start", "launch", "trigger", "invoke", "begin"],
    &["stop", "cancel", "abort", "halt", "terminate", "kill", "end"],
    &["switch", "checkout", "toggle"],
    &["convert", "conversion", "translate", "transform"],
    &["join", "merge", "combine"],
    &["count", "number", "sum", "total"],
    &["compare", "diff", "difference"],
    &["compress", "gzip", "zip", "archive"],
    &["upload", "attach", "import"],
    &["download", "export", "save"],
    &["book", "schedule", "plan", "arrange"],
    &["assign", "delegate"],
    &["refund", "reimburse"],
    &["restart", "reboot"],
    &["summary", "summarize", "overview", "digest"],
    &["status", "state", "health"],
    &["info", "information", "detail", "metadata", "property"],
    &["time", "clock", "date", "hour", "now"],
    &["calendar", "appointment", "meeting", "event"],
    &["folder", "directory", "dir"],
    &["file", "document", "doc"],
    &["ticket", "issue", "bug"],
    &["mail", "email", "inbox", "gmail"],
    &["message", "chat", "dm", "comment", "reply"],
    &["repository", "repo", "codebase"],
    &["commit", "revision", "changeset"],
    &["log", "history", "journal"],
    &["picture", "image", "photo", "screenshot"],
    &["person", "people", "contact", "user", "member", "customer", "employee"],
    &["web", "internet", "online", "site", "website", "page"],
    &["database", "db", "table", "sql"],
    &["environment", "env", "variable"],
    &["content", "text", "body"],
    &["payment", "charge", "invoice", "bill"],
    &["todo", "task", "reminder"],
    &["price", "cost", "amount", "quote"],
    &["deploy", "deployment", "release", "rollout"],
    &["error", "failure", "exception", "crash"],
    &["secret", "password", "credential"],
    &["server", "host", "machine", "instance", "vm"],
    &["edge", "relation", "relationship", "link"],
    &["forecast", "weather"],
    &["route", "direction", "navigation"],
    &["current", "present", "latest", "today"],
];

/// The group that a stemmed word belongs to.
pub(super) fn group(stemmed: &str) -> Option<usize> {
    static BY_WORD: OnceLock<HashMap<String, usize>> = OnceLock::new();
    let by_word = BY_WORD.get_or_init(|| {
        GROUPS.iter().enumerate().flat_map(|(n, words)| words.iter().map(move |word| (stem(word), n))).collect()
    });
    by_word.get(stemmed).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_word_has_one_meaning() {
        let mut seen = HashSet::new();
        for word in GROUPS.iter().copied().flatten() {
            assert!(seen.insert(stem(word)), "{word} is in two groups");
        }
    }

    #[test]
    fn forms_of_a_word_share_its_group() {
        assert_eq!(group(&stem("creating")), group(&stem("added")));
        assert_ne!(group(&stem("creating")), group(&stem("deleting")));
        assert_eq!(group("zebra"), None);
    }
}
