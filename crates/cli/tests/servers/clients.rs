//! Servers come from clients, and clients get Toolgate: `import`, `add`, `connect`, `disconnect`.

use serde_json::{Value, json};

use super::User;

const OWN: &str = ".config/toolgate/toolgate.json";

fn json_of(user: &User, file: &str) -> Value {
    let text = std::fs::read_to_string(user.path(file)).expect("written");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn import_is_one_write_with_one_backup_and_keeps_what_narrows() {
    let user = User::new();
    let before = "{\n  // mine\n  \"mcpServers\": { \"kept\": { \"command\": \"k\" } }\n}\n";
    user.write(OWN, before);
    user.write(
        ".codex/config.toml",
        "[mcp_servers.narrow]\ncommand = \"n\"\ncwd = \"/srv\"\nenabled_tools = [\"read\"]\ndisabled_tools = [\"write\"]\n\
         startup_timeout_sec = 9\n[mcp_servers.off]\ncommand = \"o\"\nenabled = false\n[mcp_servers.kept]\ncommand = \"other\"\n",
    );
    let shown = user.json(&["import", "codex", "--dry-run", "--json"]);
    let result = |index: usize| shown["servers"][index]["result"].as_str().expect("a sentence").to_owned();
    assert!(
        result(0).starts_with("would be added") && result(0).contains("startup_timeout_sec (toolgate.limits"),
        "{shown}"
    );
    assert!(
        result(1).contains("disabled as it was") && result(2).starts_with("skipped: the configuration has"),
        "{shown}"
    );
    assert_eq!(std::fs::read_to_string(user.path(OWN)).expect("there"), before);

    user.run(&["import", "codex"]);
    assert_eq!(std::fs::read_to_string(user.path(&format!("{OWN}.bak"))).expect("a backup"), before);
    let config = toolgate_config(&user);
    assert!(config.contains("// mine"), "{config}");
    let narrow: Value = serde_json::from_str(&user.try_run(&["list", "--json"]).1).expect("JSON");
    let rows: Vec<&str> =
        narrow["backends"].as_array().expect("rows").iter().filter_map(|row| row["state"].as_str()).collect();
    assert!(rows.contains(&"disabled"), "{narrow}");
    for word in ["\"allow\": [\"read\"]", "\"deny\": [\"write\"]", "\"cwd\": \"/srv\""] {
        assert!(config.contains(word), "{word}: {config}");
    }
}

fn toolgate_config(user: &User) -> String {
    std::fs::read_to_string(user.path(OWN)).expect("written")
}

#[test]
fn flags_of_other_clients_commands_work() {
    let user = User::new();
    user.run(&[
        "add",
        "--transport",
        "http",
        "docs",
        "https://x.example/mcp",
        "--header",
        "Authorization: Bearer ${T}",
    ]);
    user.run(&["add", "-s", "user", "-e", "A=b", "local", "--", "npx", "-y", "p"]);
    let config = json_of_template(&user);
    assert_eq!(config["mcpServers"]["docs"]["headers"]["Authorization"], "Bearer ${T}");
    assert_eq!(config["mcpServers"]["local"]["args"], json!(["-y", "p"]));
    assert_eq!(config["mcpServers"]["local"]["env"]["A"], "b");
    user.run(&["add", "-s", "project", "here", "--", "x"]);
    assert!(user.path("toolgate.json").exists());
}

/// The file with the comments of the template taken out.
fn json_of_template(user: &User) -> Value {
    let lines: Vec<String> =
        toolgate_config(user).lines().filter(|line| !line.trim_start().starts_with("//")).map(str::to_owned).collect();
    serde_json::from_str(&lines.join("\n")).expect("JSON")
}

#[test]
fn what_add_cannot_mean_is_refused_with_what_it_can() {
    let user = User::new();
    let refused = |args: &[&str], message: &str| {
        let (code, _, stderr) = user.try_run(args);
        assert!(code == 2 && stderr.contains(message), "{args:?}: {stderr}");
    };
    refused(&["add", "x", "foo"], "toolgate add x -- foo");
    refused(&["add", "x", "npx", "foo"], "toolgate add x -- npx foo");
    refused(&["add", "x", "npx", "-y", "foo"], "toolgate add x -- npx -y foo");
    refused(&["add", "x", "docker", "run", "-i", "--rm", "a b"], "toolgate add x -- docker run -i --rm 'a b'");
    refused(&["add", "x", "https://x.example", "more"], "unexpected argument");
    refused(&["add", "x", "https://x.example", "--env", "A=b"], "--header");
    refused(&["add", "x", "--header", "A=b", "--", "prog"], "--env");
    refused(&["add", "x", "--transport", "stdio", "https://x.example"], "a program after --");
    refused(&["add", "", "--", "prog"], "must not be empty");
    refused(&["add", " x", "--", "prog"], "nor begin or end with white space");
    assert!(!user.path(OWN).exists());
}

#[test]
fn connect_takes_served_servers_out_and_disconnect_puts_them_back() {
    let user = User::with_demo("tracker");
    let program = env!("CARGO_BIN_EXE_toolgate");
    let tracker = json!({ "command": program, "args": ["demo"], "env": { "K": "s3cret" } });
    let before = json!({ "mcpServers": { "tracker": tracker, "own": { "command": "o" } } });
    user.write(".cursor/mcp.json", &before.to_string());
    let (code, _, stderr) = user.try_run(&["connect", "cursor"]);
    assert!(code == 0 && stderr.contains("--take-over") && stderr.contains("next:"), "{stderr}");
    assert_eq!(json_of(&user, ".cursor/mcp.json")["mcpServers"]["tracker"], before["mcpServers"]["tracker"]);
    user.run(&["connect", "cursor", "--take-over"]);
    let connected = json_of(&user, ".cursor/mcp.json");
    assert!(connected["mcpServers"]["tracker"].is_null() && connected["mcpServers"]["own"].is_object(), "{connected}");
    assert!(connected["mcpServers"]["toolgate"].is_object());
    user.run(&["disconnect", "cursor"]);
    assert_eq!(json_of(&user, ".cursor/mcp.json"), before);
    assert_eq!(user.try_run(&["disconnect", "cursor"]).0, 1);
    let (code, screen) = user.on_terminal(&["connect", "cursor"], "y\n");
    assert!(code == 0 && screen.contains("taken out"), "{screen}");
    assert!(json_of(&user, ".cursor/mcp.json")["mcpServers"]["tracker"].is_null());
}

#[test]
fn connect_leaves_servers_that_only_have_the_name_of_one_of_toolgates() {
    let user = User::with_home_elsewhere();
    let own = json!({ "mcpServers": {
        "other": { "command": "npx", "args": ["-y", "one"] }, "remote": { "url": "https://one.example/mcp" },
        "place": { "command": "node", "args": ["index.js"], "cwd": "/a" }, "named": { "url": "${SERVER_URL}" },
        "off": { "command": "o", "disabled": true }, "moved": { "command": "m", "args": ["--token", "${keyring:moved.token}"] },
    } });
    std::fs::create_dir_all(user.home().join(".config/toolgate")).expect("a folder");
    std::fs::write(user.home().join(OWN), own.to_string()).expect("written");
    let before = json!({ "mcpServers": {
        "other": { "command": "npx", "args": ["-y", "two"] }, "remote": { "url": "https://two.example/mcp" },
        "place": { "command": "node", "args": ["index.js"], "cwd": "/b" }, "named": { "url": "https://own.example/mcp" },
        "off": { "command": "o" }, "moved": { "command": "m", "args": ["--token", "s3cret"] },
    } });
    std::fs::create_dir_all(user.home().join(".cursor")).expect("a folder");
    std::fs::write(user.home().join(".cursor/mcp.json"), before.to_string()).expect("written");
    let (code, _, stderr) = user.try_run(&["connect", "cursor", "--take-over"]);
    assert!(code == 0 && stderr.contains("taken out, because Toolgate serves them: moved\n"), "{stderr}");
    assert!(stderr.contains("kept in cursor") && stderr.contains("other") && stderr.contains("off"), "{stderr}");
    let text = std::fs::read_to_string(user.home().join(".cursor/mcp.json")).expect("the file");
    let after: Value = serde_json::from_str(&text).expect("JSON");
    for name in ["other", "remote", "off", "place", "named"] {
        assert_eq!(after["mcpServers"][name], before["mcpServers"][name], "{name}");
    }
    assert!(after["mcpServers"]["moved"].is_null(), "{after}");
}

#[test]
fn connect_names_the_servers_that_the_file_of_the_project_starts_too() {
    let user = User::with_home_elsewhere();
    let own = json!({ "mcpServers": { "tracker": { "command": "t" }, "notes": { "command": "n" } } });
    std::fs::create_dir_all(user.home().join(".config/toolgate")).expect("a folder");
    std::fs::write(user.home().join(OWN), own.to_string()).expect("written");
    let project = json!({ "mcpServers": { "tracker": { "command": "t" }, "other": { "command": "o" } } });
    for (client, file) in [("claude-code", ".mcp.json"), ("cursor", ".cursor/mcp.json")] {
        user.write(file, &project.to_string());
        let (code, _, stderr) = user.try_run(&["connect", client]);
        let advice = format!("toolgate connect {client} --project --take-over");
        assert!(code == 0 && stderr.contains("also starts tracker itself in this folder"), "{stderr}");
        assert!(stderr.contains(file) && stderr.contains(&advice), "{stderr}");
        assert_eq!(json_of(&user, file), project, "it is only told of");
        let (_, _, stderr) = user.try_run(&["connect", client, "--keep"]);
        assert!(!stderr.contains("tracker"), "{stderr}");
        user.run(&["connect", client, "--project", "--take-over"]);
        assert!(json_of(&user, file)["mcpServers"]["tracker"].is_null());
        let (_, _, stderr) = user.try_run(&["connect", client]);
        assert!(!stderr.contains("tracker"), "{stderr}");
    }
    user.write(".mcp.json", "{");
    assert_eq!(user.try_run(&["connect", "claude-code"]).0, 0, "a broken file of the project is no obstacle");
}
