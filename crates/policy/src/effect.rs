//! What is known about the effects of a tool: from its annotations, then from presets for well-known servers, then from the
//! verb of its name, else nothing.
//!
//! What is not known is taken as the protocol takes it: a tool may change something, destroy something, and reach beyond a
//! closed system. Annotations are what a server says of itself; a rule that must hold against a server that lies names the
//! tool instead.

use serde::Serialize;
use serde_json::Value;

/// What a tool may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Traits {
    /// It changes nothing.
    pub read_only: bool,
    /// It may destroy or overwrite something.
    pub destructive: bool,
    /// It may reach beyond a closed system, such as to the internet.
    pub open_world: bool,
    /// Where this is known from.
    pub source: TraitSource,
}

/// Where the effects of a tool are known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TraitSource {
    /// The server says so.
    Annotation,
    /// The server is well known.
    Preset,
    /// The tool's name begins with a verb that says so.
    Verb,
    /// They are not known.
    Unknown,
}

impl Traits {
    /// What the tool does and from where that is known, in words.
    pub fn in_words(self) -> &'static str {
        match (self.source, self.read_only, self.destructive) {
            (TraitSource::Unknown, ..) => "what it does is not known",
            (TraitSource::Annotation, true, _) => "only reads (says its annotation)",
            (TraitSource::Annotation, false, true) => "may change or delete something (says its annotation)",
            (TraitSource::Annotation, false, false) => "adds something (says its annotation)",
            (TraitSource::Preset, true, _) => "only reads (known of this server)",
            (TraitSource::Preset, false, true) => "may change or delete something (known of this server)",
            (TraitSource::Preset, false, false) => "adds something (known of this server)",
            (TraitSource::Verb, true, _) => "only reads (by its name)",
            (TraitSource::Verb, false, true) => "may change or delete something (by its name)",
            (TraitSource::Verb, false, false) => "adds something (by its name)",
        }
    }

    /// Of a tool about which nothing is known.
    pub const UNKNOWN: Traits =
        Traits { read_only: false, destructive: true, open_world: true, source: TraitSource::Unknown };

    /// Of a tool by its backend's name, its own name and its annotations as the server lists them.
    pub fn of(backend: &str, tool: &str, annotations: Option<&Value>) -> Self {
        let hint = |name: &str| annotations.and_then(|it| it.get(name)).and_then(Value::as_bool);
        let (read_only, destructive, open) = (hint("readOnlyHint"), hint("destructiveHint"), hint("openWorldHint"));
        let guessed = preset(backend, tool)
            .map(|effect| (effect, TraitSource::Preset))
            .or_else(|| verb(backend, tool).map(|effect| (effect, TraitSource::Verb)));
        let (effect, source) = match (read_only, destructive, guessed) {
            (Some(true), ..) => (Some(Effect::Reads), TraitSource::Annotation),
            (_, Some(true), _) => (Some(Effect::Destroys), TraitSource::Annotation),
            (_, Some(false), _) => (Some(Effect::Adds), TraitSource::Annotation),
            (Some(false), None, Some((Effect::Adds, _))) => (Some(Effect::Adds), TraitSource::Annotation),
            (Some(false), None, _) => (Some(Effect::Destroys), TraitSource::Annotation),
            (None, None, Some((effect, source))) => (Some(effect), source),
            (None, None, None) => (None, TraitSource::Unknown),
        };
        Traits {
            read_only: effect == Some(Effect::Reads),
            destructive: !matches!(effect, Some(Effect::Reads | Effect::Adds)),
            open_world: open.unwrap_or(true),
            source,
        }
    }
}

/// What a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It changes nothing.
    Reads,
    /// It adds something.
    Adds,
    /// It changes or removes what is there.
    Destroys,
}

use Effect::{Adds, Destroys, Reads};

/// Tools of well-known servers whose verbs say too little or mislead: a part of the server's name, the tool, what it does.
const PRESETS: &[(&str, &str, Effect)] = &[
    ("context7", "resolve-library-id", Reads),
    ("filesystem", "create_directory", Adds),
    ("filesystem", "directory_tree", Reads),
    ("filesystem", "edit_file", Destroys),
    ("filesystem", "list_allowed_directories", Reads),
    ("filesystem", "move_file", Destroys),
    ("filesystem", "write_file", Destroys),
    ("git", "git_add", Adds),
    ("git", "git_branch", Reads),
    ("git", "git_checkout", Destroys),
    ("git", "git_commit", Adds),
    ("git", "git_create_branch", Adds),
    ("git", "git_diff", Reads),
    ("git", "git_diff_staged", Reads),
    ("git", "git_diff_unstaged", Reads),
    ("git", "git_log", Reads),
    ("git", "git_reset", Destroys),
    ("git", "git_show", Reads),
    ("git", "git_status", Reads),
    ("github", "fork_repository", Adds),
    ("github", "merge_pull_request", Destroys),
    ("github", "push_files", Destroys),
    ("github", "run_workflow", Destroys),
    ("memory", "open_nodes", Reads),
    ("memory", "read_graph", Reads),
    ("playwright", "browser_click", Destroys),
    ("playwright", "browser_console_messages", Reads),
    ("playwright", "browser_evaluate", Destroys),
    ("playwright", "browser_network_requests", Reads),
    ("playwright", "browser_snapshot", Reads),
    ("playwright", "browser_take_screenshot", Reads),
    ("playwright", "browser_type", Destroys),
    ("puppeteer", "puppeteer_evaluate", Destroys),
    ("puppeteer", "puppeteer_screenshot", Reads),
    ("sequential", "sequentialthinking", Reads),
    ("slack", "slack_add_reaction", Adds),
    ("slack", "slack_post_message", Adds),
    ("slack", "slack_reply_to_thread", Adds),
    ("sqlite", "append_insight", Adds),
    ("sqlite", "describe_table", Reads),
    ("sqlite", "read_query", Reads),
    ("sqlite", "write_query", Destroys),
    ("time", "convert_time", Reads),
];

fn preset(backend: &str, tool: &str) -> Option<Effect> {
    let backend = backend.to_ascii_lowercase();
    PRESETS.iter().find(|(server, name, _)| *name == tool && backend.contains(server)).map(|(.., effect)| *effect)
}

/// Verbs that change nothing.
const READING: &[&str] = &[
    "analyze",
    "browse",
    "check",
    "compare",
    "count",
    "describe",
    "diff",
    "download",
    "explain",
    "fetch",
    "find",
    "get",
    "grep",
    "has",
    "head",
    "info",
    "inspect",
    "is",
    "list",
    "lookup",
    "ping",
    "preview",
    "read",
    "retrieve",
    "search",
    "show",
    "stat",
    "stats",
    "status",
    "summarize",
    "tail",
    "validate",
    "verify",
    "view",
    "whoami",
];

/// Verbs that change nothing also where they end a name, as in `issues_search`. Other verbs are nouns there: `transition_status`.
const READING_AT_END: &[&str] = &["fetch", "find", "get", "lookup", "search"];

/// Verbs that add something.
const ADDING: &[&str] = &[
    "add",
    "append",
    "attach",
    "book",
    "clone",
    "comment",
    "copy",
    "create",
    "draft",
    "duplicate",
    "email",
    "fork",
    "generate",
    "insert",
    "invite",
    "log",
    "mention",
    "notify",
    "order",
    "open",
    "pay",
    "post",
    "publish",
    "register",
    "reply",
    "schedule",
    "send",
    "share",
    "star",
    "submit",
    "subscribe",
    "tag",
    "transfer",
    "upload",
];

/// Verbs that change or remove what is there.
const DESTROYING: &[&str] = &[
    "apply",
    "approve",
    "archive",
    "assign",
    "ban",
    "block",
    "cancel",
    "change",
    "clear",
    "close",
    "commit",
    "configure",
    "delete",
    "deploy",
    "destroy",
    "disable",
    "drop",
    "edit",
    "enable",
    "erase",
    "execute",
    "format",
    "kill",
    "lock",
    "merge",
    "modify",
    "move",
    "overwrite",
    "patch",
    "purge",
    "push",
    "put",
    "reject",
    "remove",
    "rename",
    "replace",
    "reset",
    "resize",
    "restart",
    "restore",
    "revert",
    "revoke",
    "rollback",
    "rotate",
    "run",
    "save",
    "set",
    "shutdown",
    "stop",
    "terminate",
    "toggle",
    "truncate",
    "unblock",
    "uninstall",
    "unlock",
    "unpublish",
    "update",
    "upgrade",
    "upsert",
    "wipe",
    "write",
];

/// Verbs that change what is there, and are no verbs after one that reads: `list_leave_requests`, `get_start_date`.
const CHANGING: &[&str] = &[
    "accept",
    "acknowledge",
    "complete",
    "dismiss",
    "hide",
    "join",
    "launch",
    "leave",
    "mark",
    "mute",
    "start",
    "transition",
    "trigger",
];

/// Words after which a name has a second verb.
const CONJUNCTIONS: &[&str] = &["and", "or", "then"];

/// By the words of a tool's name. A name that only reads has its verb first, or after the backend's name, and no verb that
/// changes anything.
fn verb(backend: &str, tool: &str) -> Option<Effect> {
    let words = words(tool);
    let named = |verbs: &[&str]| words.iter().any(|word| verbs.contains(&word.as_str()));
    let joined =
        words.windows(2).any(|pair| CONJUNCTIONS.contains(&pair[0].as_str()) && CHANGING.contains(&pair[1].as_str()));
    if named(DESTROYING) || joined {
        return Some(Destroys);
    }
    let own = words.iter().take_while(|word| backend.to_ascii_lowercase().contains(word.as_str())).count();
    let first = words.get(own).or(words.first())?;
    let (last, first) = (words.last()?, first.as_str());
    if ADDING.contains(&first) {
        return Some(Adds);
    }
    if READING.contains(&first) {
        // `get_or_create`, but also `list_orders`, whose second word is no verb here.
        return Some(if words.iter().skip(own + 1).any(|word| ADDING.contains(&word.as_str())) { Adds } else { Reads });
    }
    match last.as_str() {
        _ if named(CHANGING) => Some(Destroys),
        last if ADDING.contains(&last) => Some(Adds),
        last if READING_AT_END.contains(&last) && !named(ADDING) => Some(Reads),
        _ => None,
    }
}

/// The words of a name in lower case: `listOpenIssues` and `list-open_issues` have three.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || (was_lower && letter.is_uppercase()) {
            words.push(String::new());
        }
        if letter.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase() || letter.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// `reads`, `adds` or `destroys`, and where it is known from.
    fn check(backend: &str, tool: &str, annotations: Value, expected: &str) {
        let traits = Traits::of(backend, tool, Some(&annotations));
        let effect = match (traits.read_only, traits.destructive) {
            (true, false) => "reads",
            (false, false) => "adds",
            (false, true) => "destroys",
            (true, true) => "reads and destroys",
        };
        let source = format!("{:?}", traits.source).to_lowercase();
        assert_eq!(format!("{effect} {source}"), expected, "{backend}.{tool} {annotations}");
    }

    #[test]
    fn annotations_come_first() {
        check("x", "delete_all", json!({ "readOnlyHint": true }), "reads annotation");
        check("x", "get", json!({ "readOnlyHint": false }), "destroys annotation");
        check("x", "frob", json!({ "readOnlyHint": false, "destructiveHint": false }), "adds annotation");
        check("x", "list", json!({ "destructiveHint": true }), "destroys annotation");
        check("x", "get", json!({ "readOnlyHint": "yes" }), "reads verb");
        check("x", "create_note", json!({ "readOnlyHint": false }), "adds annotation");
    }

    #[test]
    fn then_presets_then_verbs() {
        check("sqlite", "read_query", json!(null), "reads preset");
        check("my-git", "git_status", json!(null), "reads preset");
        check("notes", "git_checkout", json!(null), "destroys unknown");
        check("tracker", "list_issues", json!(null), "reads verb");
        check("tracker", "listDeletedIssues", json!(null), "reads verb");
        check("tracker", "tracker_get_issue", json!(null), "reads verb");
        check("tracker", "issues-search", json!(null), "reads verb");
        check("tracker", "create_issue", json!(null), "adds verb");
        check("tracker", "get_or_create_issue", json!(null), "adds verb");
        check("tracker", "get_and_delete", json!(null), "destroys verb");
        check("tracker", "bulkUpdate", json!(null), "destroys verb");
        check("tracker", "frobnicate", json!(null), "destroys unknown");
        check("tracker", "", json!(null), "destroys unknown");
        check("db", "query", json!(null), "destroys unknown");
    }

    #[test]
    fn a_name_with_a_reading_word_at_its_end_may_be_a_write() {
        let expected = [
            ("mark_as_read", "destroys verb"),
            ("mark_all_notifications_read", "destroys verb"),
            ("notifications_mark_read", "destroys verb"),
            ("transition_status", "destroys verb"),
            ("mute_list", "destroys verb"),
            ("trigger_check", "destroys verb"),
            ("start_download", "destroys verb"),
            ("acknowledge-alert", "destroys verb"),
            ("joinChannel", "destroys verb"),
            ("fetch_and_mark_read", "destroys verb"),
            ("resolve_issue", "destroys unknown"),
            ("resolve-library-id", "destroys unknown"),
            ("service_status", "destroys unknown"),
            ("bulk_check", "destroys unknown"),
            ("list_leave_requests", "reads verb"),
            ("get_start_date", "reads verb"),
            ("users_lookup", "reads verb"),
            ("pages-find", "reads verb"),
            ("itemGet", "reads verb"),
        ];
        for (tool, effect) in expected {
            check("x", tool, json!(null), effect);
        }
        check("my-context7", "resolve-library-id", json!(null), "reads preset");
    }

    #[test]
    fn what_is_not_known_may_do_anything() {
        assert_eq!(Traits::of("x", "frob", None), Traits::UNKNOWN);
        assert!(!Traits::of("x", "frob", Some(&json!({ "openWorldHint": false }))).open_world);
    }

    #[test]
    fn every_preset_can_be_met() {
        for (server, tool, _) in PRESETS {
            assert_eq!(Traits::of(server, tool, None).source, TraitSource::Preset, "{server}.{tool}");
        }
    }
}
