//! Clients' files: what is found in them, and how Toolgate is put into them.

use std::path::PathBuf;

use toolgate_config::Env;
use toolgate_config::clients::connect::{self, ClientLaunch, ConnectError, MovedServers};
use toolgate_config::clients::import::{self, FoundServer, Projects};
use toolgate_config::clients::{Client, Os, Roots, Scope};
use toolgate_config::edit::WrittenFile;

struct Machine {
    _folder: tempfile::TempDir,
    roots: Roots,
}

impl Machine {
    fn new(os: Os) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (home, cwd) = (folder.path().join("home"), folder.path().join("project"));
        std::fs::create_dir_all(&home).unwrap();
        std::fs::create_dir_all(&cwd).unwrap();
        Self { _folder: folder, roots: Roots { home, cwd, os } }
    }

    fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.roots.home.parent().unwrap().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text.replace("PROJECT", &self.roots.cwd.to_string_lossy())).unwrap();
        path
    }

    /// One line for each server, with the folder's own path taken out.
    fn found(&self, client: Client) -> String {
        self.shown(&import::found(client, &self.roots, Projects::Current).servers)
    }

    fn moved(&self) -> MovedServers {
        MovedServers::of(&Env::new(Some(self.roots.home.clone()), &self.roots.cwd))
    }

    fn connect(
        &self,
        client: Client,
        scope: Scope,
        launch: &ClientLaunch,
        take: &[&str],
    ) -> Result<WrittenFile, ConnectError> {
        let take: Vec<String> = take.iter().map(|name| (*name).to_owned()).collect();
        connect::write(client, scope, &self.roots, launch, &take, &self.moved())
    }

    fn shown(&self, servers: &[FoundServer]) -> String {
        let line = |server: &FoundServer| {
            let raw = serde_json::to_string(&server.raw).unwrap();
            let skipped = server.skipped.as_ref().map(|why| format!(" SKIPPED: {why}")).unwrap_or_default();
            let dropped: String = server.dropped.iter().map(|it| format!(" without {} ({})", it.key, it.why)).collect();
            let settings = if server.settings.is_empty() {
                String::new()
            } else {
                format!(" {}", serde_json::to_string(&server.settings).unwrap())
            };
            format!("{} ({}): {raw}{settings}{dropped}{skipped}\n", server.name, server.from.display())
        };
        let root = self.roots.home.parent().unwrap().to_string_lossy().into_owned();
        servers.iter().map(line).collect::<String>().replace(&root, "ROOT")
    }
}

#[test]
fn claude_desktop_means_its_text_literally() {
    let machine = Machine::new(Os::MacOs);
    machine.write(
        "home/Library/Application Support/Claude/claude_desktop_config.json",
        r#"{"globalShortcut": "", "mcpServers": {"fs": {"command": "npx", "args": ["${HOME}"]},
            "me": {"command": "/opt/toolgate", "args": ["serve"]}, "npx": {"command": "npx", "args": ["toolgate", "serve"]},
            "demo": {"command": "toolgate", "args": ["demo"]}}}"#,
    );
    insta::assert_snapshot!(machine.found(Client::Claude));
}

#[test]
fn claude_code_has_servers_by_project() {
    let machine = Machine::new(Os::Linux);
    machine.write(
        "home/.claude.json",
        r#"{"numStartups": 7, "mcpServers": {"user": {"type": "stdio", "command": "u", "args": [], "env": {}}, "twice": {"command": "user's"}},
            "projects": {"/elsewhere": {"mcpServers": {"far": {"command": "f"}, "twice": {"command": "far"}}, "history": []},
                         "PROJECT": {"mcpServers": {"near": {"command": "n"}, "twice": {"command": "near"}}}}}"#,
    );
    machine.write(
        "project/.mcp.json",
        r#"{"mcpServers": {"shared": {"type": "http", "url": "${URL:-https://x.example}"}, "near": {"command": "n"}}}"#,
    );
    insta::assert_snapshot!(machine.found(Client::ClaudeCode));
}

#[test]
fn cursor_and_vscode_know_their_workspace() {
    let machine = Machine::new(Os::Linux);
    machine.write(
        "project/.cursor/mcp.json",
        r#"{"mcpServers": {"a": {"command": "${workspaceFolder}/run", "env": {"K": "${env:K}"}}}}"#,
    );
    machine.write(
        "project/.vscode/mcp.json",
        r#"{"inputs": [{"id": "key", "type": "promptString"}], // JSONC
            "servers": {"asks": {"command": "x", "env": {"K": "${input:key}"}}, "http": {"type": "http", "url": "https://x.example", "gallery": true}, "odd": {"command": 7}, "none": {}}}"#,
    );
    machine.write(
        "home/.config/Code/User/mcp.json",
        r#"{"servers": {"http": {"type": "http", "url": "https://y.example"}}}"#,
    );
    insta::assert_snapshot!(format!("{}---\n{}", machine.found(Client::Cursor), machine.found(Client::VsCode)));
}

#[test]
fn codex_is_translated() {
    let machine = Machine::new(Os::Linux);
    machine.write(
        "home/.codex/config.toml",
        r#"
model = "m"
[mcp_servers.local]
command = "x"
args = ["${literal}"]
env = { A = "1" }
env_vars = ["TOKEN"]
tool_timeout_sec = 90
startup_timeout_sec = 20
[mcp_servers.remote]
url = "https://x.example/mcp"
bearer_token_env_var = "BEARER"
http_headers = { X-A = "a" }
env_http_headers = { X-B = "B_VAR" }
enabled = false
[mcp_servers.narrow]
command = "x"
enabled_tools = ["read"]
disabled_tools = ["write"]
cwd = "/srv"
"#,
    );
    insta::assert_snapshot!(machine.found(Client::Codex));
}

#[test]
fn gemini_keeps_filters_and_exclusions() {
    let machine = Machine::new(Os::Linux);
    machine.write(
        "home/.gemini/settings.json",
        r#"{"mcp": {"excluded": ["off"]}, "mcpServers": {
            "local": {"command": "x", "env": {"K": "$KEY", "L": "${L}"}, "includeTools": ["read(x)"], "excludeTools": ["write"], "trust": true},
            "http": {"httpUrl": "https://x.example/mcp", "timeout": 5000}, "old": {"url": "https://x.example/sse"}, "off": {"command": "y"}}}"#,
    );
    insta::assert_snapshot!(machine.found(Client::Gemini));
}

#[test]
fn other_editors_and_agents_are_translated() {
    let machine = Machine::new(Os::Linux);
    machine.write(
        "home/.codeium/windsurf/mcp_config.json",
        r#"{"mcpServers": {"w": {"serverUrl": "https://x.example/mcp", "headers": {"A": "${env:A}"}, "disabledTools": ["t"], "disabled": true}}}"#,
    );
    machine.write(
        "home/.config/zed/settings.json",
        r#"{ // mine
            "theme": "x", "context_servers": {
            "new": {"source": "custom", "command": "a", "args": ["${x}"], "env": null},
            "old": {"command": {"path": "b", "args": ["1"], "env": {"E": "f"}}, "settings": {}}}}"#,
    );
    machine.write(
        "home/.config/opencode/opencode.jsonc",
        r#"{"mcp": {"l": {"type": "local", "command": ["npx", "-y", "p"], "environment": {"K": "{env:KEY}"}, "enabled": false, "timeout": 5000},
            "r": {"type": "remote", "url": "https://x.example/mcp", "oauth": {}}}}"#,
    );
    machine.write(
        "home/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        r#"{"mcpServers": {"c": {"command": "x", "timeout": 60, "autoApprove": ["a"], "type": "stdio"}}}"#,
    );
    let clients = [Client::Windsurf, Client::Zed, Client::OpenCode, Client::Cline];
    insta::assert_snapshot!(clients.map(|client| machine.found(client)).join("---\n"));
}

/// What opencode hides by `tools` and `permission` stays hidden; what cannot be translated is told.
#[test]
fn filters_of_opencode_become_settings_of_the_servers() {
    let machine = Machine::new(Os::Linux);
    let file = machine.write(
        "home/.config/opencode/opencode.json",
        r#"{"mcp": {"gh": {"type": "local", "command": ["g"]}, "db": {"type": "local", "command": ["d"]},
                "web": {"type": "local", "command": ["w"]}, "fs": {"type": "local", "command": ["f"]}},
            "tools": {"bash": false, "gh_delete_*": false, "gh_${x}": false, "gh_delete_note": true,
                "db_*": false, "db_query": true, "web*": false, "fs_*": false, "fs_*_": 1},
            "permission": {"edit": "ask", "gh_push": "deny", "db_dump": "ask", "fs_*": "allow"},
            "agent": {"review": {"tools": {"web_*": true}}}}"#,
    );
    machine.write(
        "project/opencode.json",
        r#"{"mcp": {"here": {"type": "local", "command": ["h"]}}, "tools": {"web_*": true, "here_x": false}}"#,
    );
    insta::assert_snapshot!(machine.found(Client::OpenCode), @r#"
    here (ROOT/project/opencode.json): {"command":"h","args":[],"cwd":"ROOT/project"} {"deny":["x"]}
    gh (ROOT/home/.config/opencode/opencode.json): {"command":"g","args":[]} {"deny":["delete_*","__x_","push"]} without tools.gh_delete_note (tools that another pattern hides stay hidden)
    db (ROOT/home/.config/opencode/opencode.json): {"command":"d","args":[]} {"allow":["query"]} without permission.db_dump (a rule of toolgate.policy asks about calls)
    web (ROOT/home/.config/opencode/opencode.json): {"command":"w","args":[]} {"deny":["*"]} without agent.review.tools.web_* (Toolgate does not know the agents of a client)
    fs (ROOT/home/.config/opencode/opencode.json): {"command":"f","args":[]} without tools.fs_*_ (it is neither true nor false)
    "#);
    let named = import::found_in(&file).unwrap();
    assert_eq!(named[0].settings["deny"], serde_json::json!(["delete_*", "__x_", "push"]));
}

#[test]
fn servers_of_other_projects_are_found_when_asked_for() {
    let machine = Machine::new(Os::Linux);
    machine.write("home/.claude.json", r#"{"projects": {"/elsewhere": {"mcpServers": {"far": {"command": "f"}}}}}"#);
    let skipped = |projects| {
        let found = import::found(Client::ClaudeCode, &machine.roots, projects).servers;
        found[0].skipped.clone()
    };
    assert_eq!(skipped(Projects::Current), Some(import::SkippedServer::OtherProject("/elsewhere".into())));
    assert_eq!(skipped(Projects::All), None);
}

#[test]
fn a_server_that_the_user_rejected_stays_off() {
    let machine = Machine::new(Os::Linux);
    machine.write("home/.claude.json", r#"{"projects": {"PROJECT": {"disabledMcpjsonServers": ["no"]}}}"#);
    machine.write("project/.mcp.json", r#"{"mcpServers": {"no": {"command": "n"}, "yes": {"command": "./y"}}}"#);
    let found = import::found(Client::ClaudeCode, &machine.roots, Projects::Current).servers;
    assert_eq!(found[0].raw.get("disabled"), Some(&serde_json::json!(true)));
    assert_eq!(found[1].raw.get("disabled"), None);
    assert_eq!((found[0].scope, found[1].scope), (Scope::Project, Scope::Project));
    let command = machine.roots.cwd.join("y").to_string_lossy().into_owned();
    assert_eq!(found[1].raw.get("command"), Some(&serde_json::json!(command)));
}

#[test]
fn any_file_can_be_named() {
    let machine = Machine::new(Os::Linux);
    let settings =
        machine.write("settings.json", r#"{"editor.tabSize": 2, "mcp": {"servers": {"a": {"command": "x"}}}}"#);
    let yaml = machine.write("some.yaml", "mcpServers:\n  b: { command: y }\n");
    let servers = [import::found_in(&settings).unwrap(), import::found_in(&yaml).unwrap()].concat();
    insta::assert_snapshot!(machine.shown(&servers), @r#"
    a (ROOT/settings.json): {"command":"x"}
    b (ROOT/some.yaml): {"command":"y"}
    "#);
    let broken = machine.write("broken.json", "{");
    assert_eq!(import::found_in(&broken).unwrap_err().len(), 1);
}

#[test]
fn a_client_without_files_has_no_servers() {
    let machine = Machine::new(Os::Windows);
    for client in Client::ALL {
        assert_eq!(machine.found(client), "");
    }
}

fn launch() -> ClientLaunch {
    ClientLaunch {
        command: "/opt/toolgate".to_owned(),
        args: vec!["serve".to_owned(), "--config".to_owned(), "/c.json".to_owned()],
    }
}

#[test]
fn connecting_creates_what_is_missing_and_the_second_time_changes_nothing() {
    let machine = Machine::new(Os::Linux);
    let mut shown = String::new();
    for client in Client::ALL {
        let first = machine.connect(client, Scope::User, &launch(), &[]).unwrap();
        assert!(first.changed && first.backup.is_none());
        let text = std::fs::read_to_string(&first.path).unwrap();
        let second = machine.connect(client, Scope::User, &launch(), &[]).unwrap();
        assert!(!second.changed && second.backup.is_none());
        assert_eq!(std::fs::read_to_string(&first.path).unwrap(), text);
        shown += &format!("== {}\n{text}\n", first.path.strip_prefix(&machine.roots.home).unwrap().display());
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn connecting_keeps_the_rest_and_a_backup() {
    let machine = Machine::new(Os::Linux);
    let before = "{\n  // mine\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\" }\n  }\n}\n";
    let file = machine.write("project/.cursor/mcp.json", before);
    let first = machine.connect(Client::Cursor, Scope::Project, &launch(), &[]).unwrap();
    assert_eq!(std::fs::read_to_string(first.backup.clone().unwrap()).unwrap(), before);
    let after = std::fs::read_to_string(&file).unwrap();
    insta::assert_snapshot!(after);
    let moved = ClientLaunch { command: "/new/toolgate".to_owned(), ..launch() };
    let second = machine.connect(Client::Cursor, Scope::Project, &moved, &[]).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), after.replace("/opt/toolgate", "/new/toolgate"));
    assert_ne!(second.backup, first.backup);
    assert_eq!(std::fs::read_to_string(first.backup.unwrap()).unwrap(), before);
}

#[test]
fn servers_that_were_taken_out_come_back() {
    let machine = Machine::new(Os::Linux);
    let before = "{\n  \"mcpServers\": {\n    \"mine\": {\n      \"command\": \"x\"\n    },\n    \"other\": {\n      \"command\": \"y\"\n    }\n  }\n}\n";
    let file = machine.write("home/.cursor/mcp.json", before);
    let connected = machine.connect(Client::Cursor, Scope::User, &launch(), &["mine", "absent"]).unwrap();
    assert_eq!(std::fs::read_to_string(connected.backup.unwrap()).unwrap(), before);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("mine") && text.contains("other") && text.contains("/opt/toolgate"), "{text}");
    let names = connect::servers(Client::Cursor, Scope::User, &machine.roots).unwrap();
    assert_eq!(names, ["other"]);
    let kept = machine.roots.home.join(".local/state/toolgate/moved.json");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let (_, back) = connect::undo(Client::Cursor, Scope::User, &machine.roots, &machine.moved()).unwrap();
    assert_eq!(back, ["mine"]);
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(parse(&std::fs::read_to_string(&file).unwrap()), parse(before));
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "[]");
    let again = connect::undo(Client::Cursor, Scope::User, &machine.roots, &machine.moved());
    assert!(matches!(again, Err(ConnectError::NotConnected(_))));
}

#[test]
fn servers_of_the_project_are_taken_out_of_claude_code_too() {
    let machine = Machine::new(Os::Linux);
    // `claude mcp add` writes into the section of the project unless it is told otherwise.
    let before = r#"{
  "mcpServers": { "both": { "command": "u" } },
  "projects": {
    "PROJECT": { "mcpServers": { "here": { "command": "h" }, "both": { "command": "p" } }, "history": [1] },
    "/elsewhere": { "mcpServers": { "here": { "command": "e" } } }
  }
}
"#;
    let file = machine.write("home/.claude.json", before);
    let parse = || serde_json::from_str::<serde_json::Value>(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let original = parse();
    let mut names = connect::servers(Client::ClaudeCode, Scope::User, &machine.roots).unwrap();
    names.sort();
    assert_eq!(names, ["both", "here"]);
    machine.connect(Client::ClaudeCode, Scope::User, &launch(), &["here", "both"]).unwrap();
    let project = machine.roots.cwd.to_str().unwrap();
    let connected = parse();
    assert_eq!(connected["projects"][project], serde_json::json!({ "mcpServers": {}, "history": [1] }));
    assert_eq!(connected["projects"]["/elsewhere"], original["projects"]["/elsewhere"], "another project's is left");
    assert_eq!(connected["mcpServers"].as_object().unwrap().len(), 1, "{connected}");
    // From another folder too: what was taken out is put back to where it was.
    let elsewhere = toolgate_config::clients::Roots { cwd: "/elsewhere".into(), ..machine.roots.clone() };
    let (_, mut back) = connect::undo(Client::ClaudeCode, Scope::User, &elsewhere, &machine.moved()).unwrap();
    back.sort();
    assert_eq!(back, ["both", "both", "here"]);
    assert_eq!(parse(), original);
}

#[test]
fn what_connect_writes_import_skips() {
    let machine = Machine::new(Os::Linux);
    for client in Client::ALL {
        machine.connect(client, Scope::User, &launch(), &[]).unwrap();
        let found = import::found(client, &machine.roots, Projects::Current).servers;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].skipped, Some(import::SkippedServer::Toolgate));
    }
}

#[test]
fn claude_desktop_has_no_projects() {
    let machine = Machine::new(Os::Linux);
    let error = machine.connect(Client::Claude, Scope::Project, &launch(), &[]).unwrap_err();
    assert!(matches!(error, ConnectError::NoProjects(Client::Claude)));
}

#[test]
fn a_registered_client_is_taken_over_from_every_spelling() {
    for (file, client, text, expected) in [
        (
            "home/.cursor/mcp.json",
            Client::Cursor,
            r#"{"mcpServers": {"a": {"url": "https://x.example/mcp", "auth": {"CLIENT_ID": "id", "CLIENT_SECRET": "${env:S}", "scopes": ["r"]}}}}"#,
            r#""auth":{"clientId":"id","clientSecret":"${env:S}","scopes":["r"]}"#,
        ),
        (
            "home/.claude.json",
            Client::ClaudeCode,
            r#"{"mcpServers": {"a": {"type": "http", "url": "https://x.example/mcp", "oauth": {"clientId": "id", "callbackPort": 8080}}}}"#,
            r#""auth":{"clientId":"id","redirectPort":8080}"#,
        ),
        (
            "home/.cursor/mcp.json",
            Client::Cursor,
            r#"{"mcpServers": {"a": {"url": "https://x.example/mcp", "auth": {"other": "x"}}}}"#,
            "without oauth (`toolgate login` logs in by itself)",
        ),
    ] {
        let machine = Machine::new(Os::Linux);
        machine.write(file, text);
        let found = machine.found(client);
        assert!(found.contains(expected), "{found}");
    }
}

/// A file that cannot be read is told, and the servers of the client's other file are found.
#[test]
fn a_broken_file_of_a_client_does_not_hide_its_other_file() {
    for (broken, whole) in
        [("project/.cursor/mcp.json", "home/.cursor/mcp.json"), ("home/.cursor/mcp.json", "project/.cursor/mcp.json")]
    {
        let machine = Machine::new(Os::Linux);
        machine.write(broken, "{ \"mcpServers\": {");
        machine.write(whole, r#"{ "mcpServers": { "notes": { "command": "notes", "alwaysLoad": true } } }"#);
        let found = import::found(Client::Cursor, &machine.roots, Projects::Current);
        let names: Vec<&str> = found.servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!((names.as_slice(), found.problems.len()), (&["notes"][..], 1), "{broken}");
        let dropped = &found.servers[0].dropped;
        assert!(dropped.iter().all(|key| !key.why.contains("approvals")), "{dropped:?}");
        assert_eq!(dropped.len(), 1);
    }
}
