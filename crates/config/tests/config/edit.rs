//! Edits change one entry and nothing else.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};
use toolgate_config::edit::{self, EditError, NewServer, template};
use toolgate_config::text::{Format, Source};
use toolgate_config::{Env, check};

fn entry(json: Json) -> Map<String, Json> {
    json.as_object().unwrap().clone()
}

fn new_entry() -> Map<String, Json> {
    entry(json!({"command": "npx", "args": ["-y", "it's \"q\" ${X:-y}"], "env": {"A": "1", "B-2": "zwei: ü"}}))
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn with(name: &str, text: &str) -> (Self, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        (Self(folder), file)
    }
}

fn added(name: &str, text: &str) -> Result<String, EditError> {
    let (_folder, file) = Folder::with(name, text);
    edit::add(&file, "new one", &new_entry())?;
    Ok(std::fs::read_to_string(file).unwrap())
}

fn removed(name: &str, text: &str, server: &str) -> Result<String, EditError> {
    let (_folder, file) = Folder::with(name, text);
    edit::remove(&file, server)?;
    Ok(std::fs::read_to_string(file).unwrap())
}

/// Sets the client of the server `s`; its `auth` is as expected afterwards, and comments are kept.
#[track_caller]
fn check_client(name: &str, text: &str, expected: Json) {
    let (_folder, file) = Folder::with(name, text);
    edit::set_client(&file, "s", &entry(json!({"clientId": "me", "redirectPort": 8123}))).unwrap();
    let source = Source::open(&file).unwrap();
    let tree = source.tree().unwrap().to_json();
    let section = if text.contains("mcpServers") { "mcpServers" } else { "servers" };
    assert_eq!(tree[section]["s"]["auth"], expected, "{}", source.text());
    assert_eq!(source.text().contains("one"), text.contains("one"), "{}", source.text());
}

#[test]
fn the_client_of_a_login_is_put_beside_what_is_there() {
    let client = json!({"clientId": "me", "redirectPort": 8123});
    let json = "{\n  \"mcpServers\": {\n    \"s\": {\n      \"url\": \"https://a.example/mcp\" // one\n    }\n  }\n}\n";
    check_client("a.json", json, client.clone());
    check_client("a.yaml", "mcpServers:\n  s:\n    url: https://a.example/mcp  # one\n", client.clone());
    check_client("a.toml", "[mcpServers.s]\nurl = \"https://a.example/mcp\" # one\n", client);
    check_client(
        "a.json",
        r#"{"servers": {"s": {"url": "https://a.example/mcp", "auth": {"scopes": ["a"], "clientId": "old"}}}}"#,
        json!({"scopes": ["a"], "clientId": "me", "redirectPort": 8123}),
    );
    let api = r#"{"type": "openapi", "spec": "a.yaml", "auth": {"key": "k", "oauth": {"scopes": ["a"]}}}"#;
    check_client(
        "a.json",
        &format!(r#"{{"mcpServers": {{"s": {api}}}}}"#),
        json!({"key": "k", "oauth": {"scopes": ["a"], "clientId": "me", "redirectPort": 8123}}),
    );
    let (_folder, file) = Folder::with("a.json", "{}");
    assert!(matches!(edit::set_client(&file, "s", &Map::new()), Err(EditError::Absent(absent)) if absent.name == "s"));
}

fn check_remove(name: &str, text: &str, server: &str, expected: &str) {
    assert_eq!(removed(name, text, server).unwrap(), expected, "{text}");
}

#[test]
fn adding_keeps_comments_and_layout() {
    let table = [
        ("a.json", "{}"),
        ("a.json", "{\n}\n"),
        ("a.json", "{\n  // only a comment\n}\n"),
        ("a.json", "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}"),
        ("a.json", "{\n\t\"mcpServers\": {\n\t\t\"a\": { \"command\": \"x\" } // first\n\t}\n}\n"),
        (
            "a.json",
            "{\n    \"mcpServers\": {\n        \"a\": { \"command\": \"x\" }, /* one */\n        // two\n    },\n}\n",
        ),
        ("a.json", "{\r\n  \"servers\": {\r\n  }\r\n}\r\n"),
        ("a.json", "{\n  \"toolgate\": {}\n}\n"),
        ("a.yaml", ""),
        ("a.yaml", "# top\nmcpServers:\n    a:\n        command: x # first\n    # after\ntoolgate:\n    mode: both\n"),
        ("a.yaml", "mcpServers: {} # none\ntoolgate: {}\n"),
        ("a.yaml", "mcpServers:\n"),
        ("a.yaml", "toolgate: {}"),
        ("a.toml", ""),
        (
            "a.toml",
            "# top\n[mcpServers.a] # first\ncommand = \"x\"\n\n# settings\n[toolgate]\nmode = \"both\" # both\n",
        ),
        ("a.toml", "mcpServers = { a = { command = \"x\" } }\n"),
    ];
    let shown =
        table.iter().map(|(name, text)| format!("=== {name}\n{text}\n--- becomes\n{}\n", added(name, text).unwrap()));
    insta::assert_snapshot!(shown.collect::<String>());
}

#[test]
fn removing_from_json_leaves_the_rest() {
    let lines = "{\n  \"mcpServers\": {\n    // about a\n    \"a\": { \"command\": \"x\" }, // first\n    \"b\": { \"command\": \"y\" }\n  }\n}\n";
    check_remove(
        "a.json",
        lines,
        "a",
        "{\n  \"mcpServers\": {\n    // about a\n    \"b\": { \"command\": \"y\" }\n  }\n}\n",
    );
    check_remove(
        "a.json",
        lines,
        "b",
        "{\n  \"mcpServers\": {\n    // about a\n    \"a\": { \"command\": \"x\" } // first\n  }\n}\n",
    );
    let one = r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}"#;
    check_remove("a.json", one, "a", r#"{"mcpServers": { "b": {"command": "y"}}}"#);
    check_remove("a.json", one, "b", r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    check_remove("a.json", r#"{"mcpServers": {"a": {"command": "x"},}}"#, "a", r#"{"mcpServers": {}}"#);
}

#[test]
fn removing_takes_the_settings_of_the_server_along() {
    let text = r#"{"mcpServers": {"a": {"command": "x"}}, "toolgate": {"backends": {"a": {"tags": []}, "b": {}}}}"#;
    check_remove("a.json", text, "a", r#"{"mcpServers": {}, "toolgate": {"backends": { "b": {}}}}"#);
}

#[test]
fn removing_from_yaml_takes_its_lines() {
    let text =
        "mcpServers:\n  a:\n    command: x\n    env:\n      A: 1\n  # about b\n  b: { command: y }\ntoolgate: {}\n";
    check_remove("a.yaml", text, "a", "mcpServers:\n  # about b\n  b: { command: y }\ntoolgate: {}\n");
    check_remove(
        "a.yaml",
        text,
        "b",
        "mcpServers:\n  a:\n    command: x\n    env:\n      A: 1\n  # about b\ntoolgate: {}\n",
    );
    let block = "mcpServers:\n  a:\n    command: |\n      x\n\n# about b\n  b: { command: y }\n";
    check_remove("a.yaml", block, "a", "mcpServers:\n\n# about b\n  b: { command: y }\n");
    check_remove("a.yaml", "mcpServers: # all\n  a:\n    command: x\n", "a", "mcpServers: {} # all\n");
}

#[test]
fn removing_from_toml_takes_its_table() {
    let text = "# top\n[mcpServers.a]\ncommand = \"x\"\n\n# about b\n[mcpServers.b]\ncommand = \"y\" # y\n";
    check_remove("a.toml", text, "b", "# top\n[mcpServers.a]\ncommand = \"x\"\n");
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let refused = |result: Result<String, EditError>| result.unwrap_err().to_string();
    insta::assert_snapshot!(refused(added("a.json", r#"{"mcpServers": {"new one": {}}}"#)), @"a server named new one already exists");
    insta::assert_snapshot!(refused(removed("a.json", "{}", "a")), @"no server named a");
    let flow = added("a.yaml", "mcpServers: { a: { command: x } }\n");
    assert!(matches!(flow, Err(EditError::Refused { why: "its servers are in flow style, { … }", .. })));
    assert!(matches!(added("a.json", "{"), Err(EditError::Unreadable(_))));
    assert!(matches!(added("a.json", "[]"), Err(EditError::Refused { .. })));
}

#[test]
fn the_file_as_it_was_is_kept_beside() {
    let (_folder, file) = Folder::with("toolgate.json", "\u{FEFF}{} // mine");
    let written = edit::add(&file, "a", &new_entry()).unwrap();
    assert_eq!(std::fs::read_to_string(written.backup.unwrap()).unwrap(), "\u{FEFF}{} // mine");
    assert!(std::fs::read_to_string(&file).unwrap().starts_with('\u{FEFF}'));
    let names: Vec<_> =
        std::fs::read_dir(file.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[cfg(unix)]
#[test]
fn links_and_permissions_stay() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, file) = Folder::with("real.json", "{}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.0.path().join("toolgate.json");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    edit::add(&link, "a", &entry(json!({"command": "npx", "env": {"TOKEN": "${TOKEN}"}}))).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::read_to_string(&file).unwrap().contains("npx"));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
}

#[cfg(unix)]
#[test]
fn a_file_that_gets_secrets_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |file: &Path| std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
    for secret in [
        json!({"command": "x", "env": {"TOKEN": "t0k3n"}}),
        json!({"url": "https://x.example/?key=k"}),
        json!({"command": "x", "env": {"TOKEN": "${TOKEN:-t0k3n}"}}),
    ] {
        let (_folder, file) = Folder::with("toolgate.json", "{}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let written = edit::add(&file, "a", &entry(secret)).unwrap();
        assert_eq!((mode(&file), mode(&written.backup.unwrap())), (0o600, 0o600));
    }
}

#[test]
fn several_servers_are_added_by_one_write_with_their_settings() {
    for (name, text) in [
        ("toolgate.json", "{\n  // mine\n  \"toolgate\": {\n    \"mode\": \"both\"\n  }\n}\n"),
        ("toolgate.yaml", "# mine\ntoolgate:\n  mode: both\n"),
        ("toolgate.toml", "# mine\n[toolgate]\nmode = \"both\"\n"),
    ] {
        let (_folder, file) = Folder::with(name, text);
        let settings = entry(json!({"allow": ["read"], "deny": ["write"]}));
        let servers =
            ["a", "b"].map(|name| NewServer { settings: settings.clone(), ..NewServer::new(name, new_entry()) });
        let written = edit::add_all(&file, &servers).unwrap();
        assert_eq!(std::fs::read_to_string(written.backup.unwrap()).unwrap(), text);
        assert!(std::fs::read_to_string(&file).unwrap().contains("mine"));
        let checked = check(Source::open(&file).unwrap(), &Env::new(None, "/w")).unwrap();
        for name in ["a", "b"] {
            let policy = &checked.backends.get(name).unwrap().policy;
            assert!(policy.permits("read") && !policy.permits("write") && !policy.permits("other"), "{name}");
        }
        let before = std::fs::read_to_string(&file).unwrap();
        let twice = [NewServer::new("c", new_entry()), NewServer::new("a", new_entry())];
        assert!(matches!(edit::add_all(&file, &twice), Err(EditError::Exists(name)) if name == "a"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), before, "all or none");
    }
}

#[test]
fn the_templates_are_good_and_are_not_written_over_anything() {
    for name in ["toolgate.json", "toolgate.yaml", "toolgate.toml"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sub").join(name);
        edit::init(&file).unwrap();
        let source = Source::open(&file).unwrap();
        assert_eq!(source.text(), template(Format::of(&file)));
        let checked = check(source, &Env::new(None, "/w")).unwrap();
        assert!(checked.backends.is_empty() && checked.warnings.is_empty());
        assert!(matches!(edit::init(&file), Err(EditError::Write { .. })));
        edit::add(&file, "a", &new_entry()).unwrap();
        edit::remove(&file, "a").unwrap();
        let back = check(Source::open(&file).unwrap(), &Env::new(None, "/w")).unwrap();
        assert_eq!(back.settings, checked.settings);
    }
}

fn json_of(name: &str, text: &str) -> Json {
    Source::new(Path::new(name), Format::of(Path::new(name)), text).tree().unwrap().to_json()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// Whatever name and value: an edit either means exactly what was asked, or is refused.
    #[test]
    fn adding_and_removing_gives_the_file_back(
        name in "[a-zA-Z0-9 .:#'\"{}\\\\é-]{1,12}",
        arg in "[ -~é\n\t]{0,12}",
        before in 0..3usize,
    ) {
        let servers: String = (0..before).map(|index| format!("\n    \"s{index}\": {{ \"command\": \"x\" }}, // {index}")).collect();
        let json = format!("{{\n  \"mcpServers\": {{{servers}\n  }}\n}}\n");
        let yaml: String = (0..before).map(|index| format!("  s{index}:\n    command: x # {index}\n")).collect();
        let yaml = if before == 0 { "mcpServers: {}\n".to_owned() } else { format!("mcpServers:\n{yaml}") };
        let toml: String = (0..before).map(|index| format!("[mcpServers.s{index}]\ncommand = \"x\" # {index}\n")).collect();
        for (file, text) in [("a.json", json), ("a.yaml", yaml), ("a.toml", toml)] {
            let (_folder, path) = Folder::with(file, &text);
            let entry = entry(json!({"command": arg, "args": [arg], "env": {"A": arg}}));
            edit::add(&path, &name, &entry).unwrap();
            let edited = std::fs::read_to_string(&path).unwrap();
            prop_assert_eq!(&json_of(file, &edited)["mcpServers"][&name], &Json::Object(entry));
            edit::remove(&path, &name).unwrap();
            let back = std::fs::read_to_string(&path).unwrap();
            prop_assert_eq!(json_of(file, &back).get("mcpServers").cloned().unwrap_or(json!({})), json_of(file, &text).get("mcpServers").cloned().unwrap_or(json!({})));
        }
    }
}
