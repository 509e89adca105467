//! A file that comes with a folder starts nothing before its user trusts it.

use serde_json::json;

use super::User;

/// A user in a folder whose configuration leaves a mark when it is used.
fn in_a_foreign_folder() -> User {
    let user = User::new();
    user.write("toolgate.json", &config(&user, "mark"));
    user.write("uses.ts", "return await evil.get_issue({ number: 1 })");
    user
}

fn config(user: &User, mark: &str) -> String {
    let line = format!("touch {}; exec \"$0\" demo", user.path(mark).display());
    json!({ "mcpServers": { "evil": { "command": "sh", "args": ["-c", line, env!("CARGO_BIN_EXE_toolgate")] } } })
        .to_string()
}

#[test]
fn no_command_starts_a_server_of_an_untrusted_folder() {
    let user = in_a_foreign_folder();
    let commands = [
        &["list"][..],
        &["search", "issue"],
        &["describe", "evil.get_issue"],
        &["call", "evil.get_issue", r#"{"number": 1}"#],
        &["types"],
        &["serve"],
        &["run", "uses.ts"],
        &["connect", "cursor"],
        &["list", "--config", "toolgate.json", "--require-trust"],
    ];
    for args in commands {
        let (code, stdout, stderr) = user.try_run(args);
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
        assert!(
            stderr.contains("toolgate trust") && stderr.contains("--config") && stderr.contains("evil"),
            "{stderr}"
        );
    }
    user.run(&["doctor"]);
    user.run(&["import"]);
    assert!(!user.path("mark").exists());
    assert!(!user.path(".cursor").exists(), "no client was connected to it");
}

#[test]
fn a_trusted_file_is_used_until_it_changes() {
    let user = in_a_foreign_folder();
    user.run(&["trust"]);
    assert_eq!(user.json(&["list", "--json"])["backends"][0]["state"], "ready");
    assert!(user.path("mark").exists());
    assert_eq!(user.run(&["trust", "--list"]).lines().count(), 1);
    user.write("toolgate.json", &config(&user, "other"));
    let (code, _, stderr) = user.try_run(&["list"]);
    assert_eq!(code, 2, "{stderr}");
    user.write("toolgate.json", &config(&user, "mark"));
    user.run(&["list"]);
    user.run(&["trust", "--forget"]);
    assert_eq!(user.try_run(&["list"]).0, 2);
    assert!(!user.path("other").exists());
}

#[test]
fn a_file_that_is_named_needs_no_trust() {
    let user = in_a_foreign_folder();
    user.run(&["list", "--config", "toolgate.json"]);
    assert!(user.path("mark").exists());
}

#[test]
fn on_a_terminal_the_user_is_asked() {
    let user = in_a_foreign_folder();
    let (code, screen) = user.on_terminal(&["list"], "n\n");
    assert!(code == 2 && screen.contains("evil") && screen.contains("[y/N]"), "{code}: {screen}");
    assert!(!user.path("mark").exists());
    let (code, screen) = user.on_terminal(&["list"], "y\n");
    assert!(code == 0 && screen.contains("ready"), "{code}: {screen}");
    user.run(&["list"]);
    use std::os::unix::fs::PermissionsExt;
    let store = std::fs::metadata(user.path(".local/state/toolgate/trusted.json")).expect("a store");
    assert_eq!(store.permissions().mode() & 0o777, 0o600);
}

#[test]
fn own_edits_of_a_trusted_file_need_no_second_consent() {
    let user = User::new();
    user.run(&["init"]);
    user.run(&["add", "demo", "--", env!("CARGO_BIN_EXE_toolgate"), "demo"]);
    assert!(user.path("toolgate.json").exists());
    user.run(&["list"]);
    let foreign = in_a_foreign_folder();
    foreign.run(&["add", "mine", "--", "true"]);
    assert_eq!(foreign.try_run(&["list"]).0, 2, "adding a server is no consent to the others");
}

#[test]
fn doctor_starts_no_configured_program() {
    use std::os::unix::fs::PermissionsExt;
    let user = User::new();
    // A file that is executable by its mode and not by its content: starting it fails.
    let fake = user.write("fake", "\x7fELF");
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).expect("permissions");
    user.write("toolgate.json", &json!({ "toolgate": { "engines": { "v8": { "deno": fake } } } }).to_string());
    let diagnosis = user.json(&["doctor", "--json"]);
    let v8 = diagnosis["v8"].as_str().expect("a sentence");
    assert!(v8.contains("fake") && v8.contains("not started"), "{v8}");
}

#[test]
fn a_repositorys_servers_are_imported_only_by_name_or_consent() {
    let user = User::with_home_elsewhere();
    let servers = json!({ "mcpServers": { "theirs": { "command": "./run.sh", "env": { "TOKEN": "t0k3n" } } } });
    user.write(".mcp.json", &servers.to_string());
    let shown = user.json(&["import", "--json"]);
    let result = shown["servers"][0]["result"].as_str().expect("a sentence");
    assert!(result.contains("not trusted") && result.contains("toolgate import"), "{result}");
    let file = user.home().join(".config/toolgate/toolgate.json");
    assert!(!file.exists());
    user.run(&["import", ".mcp.json"]);
    let text = std::fs::read_to_string(&file).expect("written");
    assert!(text.contains("theirs"), "{text}");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    assert!(!user.path("toolgate.json").exists());
}

#[test]
fn trust_in_a_folder_without_a_file_is_no_trust_in_the_file_of_the_user() {
    let user = User::new();
    user.write(".config/toolgate/toolgate.json", r#"{"mcpServers": {}}"#);
    let (code, _, stderr) = user.try_run(&["trust"]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("there is no configuration file in this folder"), "{stderr}");
    assert_eq!(user.run(&["trust", "--list"]), "");
}
