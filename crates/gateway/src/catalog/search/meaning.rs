//! Words that mean the same to someone who describes a task.
//!
//! A small and general table: verbs that every API uses in its own way and nouns that have two common names. A tool
//! that uses one word of a group is found by the others, for less than by its own. A word with two meanings is in two
//! groups: a calendar's event is scheduled by what creates it.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::words::stem;

/// The verbs of change. The order of the first [`CHANGES`] lines is what [`changes`] goes by.
const GROUPS: &[&[&str]] = &[
    &[
        "create", "add", "new", "make", "insert", "register", "open", "file", "schedule", "book", "send", "post",
        "put", "start", "submit",
    ],
    &["delete", "remove", "erase", "drop", "destroy", "discard", "trash", "cancel", "forget", "clear", "uninstall"],
    &[
        "update", "edit", "change", "modify", "alter", "patch", "set", "adjust", "rewrite", "replace", "move",
        "assign", "close", "put", "scale", "rename", "resolve", "mark",
    ],
    &["send", "post", "publish", "write", "submit", "save", "store"],
    &["move", "rename", "relocate", "transfer"],
    &["run", "execute", "start", "launch", "trigger", "invoke", "begin"],
    &["stop", "cancel", "abort", "halt", "terminate", "kill", "end", "close", "mute", "pause"],
    &[
        "get", "read", "fetch", "show", "retrieve", "view", "display", "load", "look", "see", "give", "tell", "return",
        "print", "open", "check",
    ],
    &["list", "enumerate", "browse", "every", "show"],
    &["find", "search", "query", "lookup", "locate", "seek", "look"],
    &["copy", "duplicate", "clone"],
    &["switch", "checkout", "toggle"],
    &["convert", "conversion", "translate", "transform"],
    &["join", "merge", "combine"],
    &["count", "number", "sum", "total"],
    &["compare", "diff", "difference"],
    &["compress", "gzip", "zip", "archive"],
    &["upload", "attach", "import"],
    &["download", "export", "save"],
    &["schedule", "book", "plan", "arrange"],
    &["share", "permission", "access", "grant", "invite", "allow"],
    &["refund", "reimburse"],
    &["restart", "reboot"],
    &["multiple", "several", "many", "bulk", "batch"],
    &["size", "large", "big", "byte"],
    &["summary", "summarize", "overview", "digest"],
    &["status", "state", "health"],
    &["info", "information", "detail", "metadata", "property"],
    &["time", "clock", "date", "hour", "now"],
    &["current", "present", "latest", "recent", "today", "now"],
    &["calendar", "appointment", "meeting", "event"],
    &["free", "available", "availability", "busy"],
    &["folder", "directory", "dir"],
    &["file", "document", "doc"],
    &["ticket", "issue", "bug"],
    &["mail", "email", "inbox", "gmail"],
    &["message", "chat", "dm", "comment", "reply"],
    &["sms", "text"],
    &["repository", "repo", "codebase"],
    &["commit", "revision", "changeset"],
    &["log", "history", "journal"],
    &["picture", "image", "photo", "screenshot"],
    &["song", "track", "music"],
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
    &["edge", "relation", "relationship", "link", "connection"],
    &["forecast", "weather"],
    &["route", "direction", "navigation"],
];

/// How many groups, from the first, are about changing something.
const CHANGES: usize = 7;

/// The groups that a stemmed word belongs to.
pub(super) fn groups(stemmed: &str) -> &'static [usize] {
    static BY_WORD: OnceLock<HashMap<String, Vec<usize>>> = OnceLock::new();
    let by_word = BY_WORD.get_or_init(|| {
        let mut by_word: HashMap<String, Vec<usize>> = HashMap::new();
        for (n, words) in GROUPS.iter().enumerate() {
            for word in *words {
                by_word.entry(stem(word)).or_default().push(n);
            }
        }
        by_word
    });
    by_word.get(stemmed).map_or(&[], Vec::as_slice)
}

/// Whether a stemmed word says that something is to be changed.
pub(super) fn changes(stemmed: &str) -> bool {
    groups(stemmed).iter().any(|&group| group < CHANGES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[track_caller]
    fn check(one: &str, other: &str, expected: bool) {
        let other = groups(&stem(other));
        assert_eq!(groups(&stem(one)).iter().any(|group| other.contains(group)), expected);
    }

    #[test]
    fn words_of_one_meaning_share_a_group() {
        check("creating", "added", true);
        check("creating", "deleting", false);
        check("open", "create", true);
        check("open", "read", true);
        check("zebra", "zebra", false);
    }

    #[test]
    fn a_group_names_a_word_once() {
        for words in GROUPS {
            let distinct: HashSet<String> = words.iter().map(|word| stem(word)).collect();
            assert_eq!(distinct.len(), words.len(), "{words:?}");
        }
    }

    #[test]
    fn only_verbs_of_change_change() {
        for word in ["create", "delete", "update", "send", "move", "run", "stop"] {
            assert!(changes(&stem(word)), "{word}");
        }
        for word in ["get", "list", "find", "weather"] {
            assert!(!changes(&stem(word)), "{word}");
        }
    }
}
