//! `toolgate secret`, `${keyring:NAME}`, and literal secrets of other clients.

use serde_json::{Value, json};

use crate::user::User;

#[test]
fn secrets_are_kept_listed_and_forgotten() {
    let user = User::new();
    assert!(user.run(&["secret", "list"]).stderr.contains("there are no secrets"));
    let kept = user.run_with_input(&["secret", "set", "GITHUB_TOKEN"], "canary-github\n");
    assert_eq!(kept.code, 0, "{kept:?}");
    assert!(kept.stderr.contains("${keyring:GITHUB_TOKEN}") && kept.stderr.contains("encrypted file"), "{kept:?}");
    let listed = user.run(&["secret", "list"]).stdout;
    assert!(listed.contains("GITHUB_TOKEN  file     20"), "{listed}");
    let listed: Value = serde_json::from_str(&user.run(&["secret", "list", "--json"]).stdout).unwrap();
    assert_eq!(
        (&listed["secrets"][0]["name"], &listed["secrets"][0]["place"]),
        (&json!("GITHUB_TOKEN"), &json!("file"))
    );
    for (name, input) in [("a b", "x"), ("", "x"), ("a}b", "x"), ("fine", "")] {
        assert_eq!(user.run_with_input(&["secret", "set", name], input).code, 2, "{name}");
    }
    assert_eq!(user.run(&["secret", "remove", "GITHUB_TOKEN"]).code, 0);
    assert_eq!(user.run(&["secret", "remove", "GITHUB_TOKEN"]).code, 2);
    user.check_no_secret();
}

#[test]
fn a_server_without_its_secret_needs_configuration_and_stops_no_other() {
    let user = User::new();
    let demo =
        |value: &str| json!({ "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"], "env": { "T": value } });
    user.config(&json!({ "mcpServers": { "one": demo("${keyring:ONE}"), "two": demo("plain") } }));
    let listed: Value = serde_json::from_str(&user.run(&["list", "--json"]).stdout).unwrap();
    let rows = listed["backends"].as_array().unwrap();
    assert_eq!((&rows[0]["state"], &rows[1]["state"]), (&json!("needs configuration"), &json!("ready")), "{listed}");
    assert_eq!(rows[0]["detail"], json!("run `toolgate secret set ONE`"));
    user.run_with_input(&["secret", "set", "ONE"], "canary-one");
    assert_eq!(user.run(&["list"]).code, 0);
    user.check_no_secret();
}

#[test]
fn literal_secrets_of_other_clients_are_moved() {
    let user = User::new();
    let servers = json!({
        "git": { "command": "true", "env": { "GITHUB_TOKEN": "canary-0123456789", "LEVEL": "information" } },
        "web": { "url": "https://web.example/mcp", "headers": { "Authorization": "Bearer canary-bearer-token" } },
        "far": { "command": "true", "args": ["--api-key", "canary-of-option", "--header", "X-Token: canary-of-header"] },
        "query": { "url": "https://query.example/mcp?key=canary-of-query&page=1" },
    });
    let file = user.file("elsewhere/mcp.json", &json!({ "mcpServers": servers }).to_string());
    let shown = user.run(&["import", &file, "--dry-run", "--move-secrets"]);
    assert_eq!((shown.code, user.run(&["secret", "list"]).stdout.as_str()), (0, ""), "{shown:?}");
    let moved = user.run(&["import", &file, "--move-secrets"]);
    assert_eq!(moved.code, 0, "{moved:?}");
    let config = std::fs::read_to_string(user.home().join(".config/toolgate/toolgate.json")).unwrap();
    for written in [
        r#""GITHUB_TOKEN": "${keyring:git.GITHUB_TOKEN}""#,
        r#""LEVEL": "information""#,
        r#""Authorization": "Bearer ${keyring:web.Authorization}""#,
        "${keyring:far.api-key}",
        "X-Token: ${keyring:far.X-Token}",
        "https://query.example/mcp?key=${keyring:query.key}&page=1",
    ] {
        assert!(config.contains(written), "{written}: {config}");
    }
    std::fs::remove_file(&file).unwrap();
    user.check_no_secret();
}

#[test]
fn literal_secrets_inside_of_values_are_moved_and_what_stays_is_told() {
    let user = User::new();
    let servers = json!({
        "base": {
            "command": "true",
            "args": ["postgresql://bob:canary-of-argument@db.example/app"],
            "env": {
                "DATABASE_URL": "mysql://app:canary-of-variable@db.example/app",
                "EXTRA_HEADERS": "{\"Authorization\": \"Bearer canary-of-json\", \"Accept\": \"*/*\"}",
                "OPTS": "--level debug --token canary-of-options",
            },
        },
        "web": { "url": "https://bob:canary-of-url@web.example/mcp", "headers": { "Cookie": "session=canary-of-cookie" } },
        "odd": { "command": "true", "args": ["-y", "K3y9x7Q2z"] },
    });
    let file = user.file("elsewhere/mcp.json", &json!({ "mcpServers": servers }).to_string());
    let moved = user.run(&["import", &file, "--move-secrets"]);
    assert_eq!(moved.code, 0, "{moved:?}");
    let stays: Vec<&str> = moved.stderr.lines().filter(|line| line.contains("stays in the file")).collect();
    assert_eq!(stays, ["odd: one of `args` may be a secret, or have one; it stays in the file"], "{moved:?}");
    let config = std::fs::read_to_string(user.home().join(".config/toolgate/toolgate.json")).unwrap();
    for written in [
        "postgresql://bob:${keyring:base.argument}@db.example/app",
        "mysql://app:${keyring:base.DATABASE_URL}@db.example/app",
        r#"{\"Authorization\": \"${keyring:base.EXTRA_HEADERS}\", \"Accept\": \"*/*\"}"#,
        "--level debug --token ${keyring:base.OPTS}",
        "https://bob:${keyring:web.url}@web.example/mcp",
        r#""Cookie": "${keyring:web.Cookie}""#,
    ] {
        assert!(config.contains(written), "{written}: {config}");
    }
    std::fs::remove_file(&file).unwrap();
    user.check_no_secret();
}

#[test]
fn literal_secrets_stay_where_nobody_can_be_asked() {
    let user = User::new();
    let servers = json!({ "git": { "command": "true", "env": { "GITHUB_TOKEN": "ghp-0123456789" } } });
    let file = user.file("elsewhere/mcp.json", &json!({ "mcpServers": servers }).to_string());
    let imported = user.run(&["import", &file]);
    assert!(imported.code == 0 && imported.stderr.contains("1 literal secret;"), "{imported:?}");
    assert!(imported.stderr.contains("--move-secrets"), "{imported:?}");
    let config = std::fs::read_to_string(user.home().join(".config/toolgate/toolgate.json")).unwrap();
    assert!(config.contains("ghp-0123456789"), "{config}");
    let again = user.run(&["import", &file, "--keep-secrets"]);
    assert!(again.code == 0 && !again.stderr.contains("--move-secrets"), "{again:?}");
}
