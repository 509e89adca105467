//! Clients' files: what is found in them, and how Toolgate is put into them.

use std::path::PathBuf;

use toolgate_config::clients::connect::{self, ConnectError, Launch};
use toolgate_config::clients::import::{self, FoundServer};
use toolgate_config::clients::{Client, Os, Roots, Scope};

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
        self.shown(&import::found(client, &self.roots).unwrap())
    }

    fn shown(&self, servers: &[FoundServer]) -> String {
        let line = |server: &FoundServer| {
            let raw = serde_json::to_string(&server.raw).unwrap();
            let skipped = server.skipped.as_ref().map(|why| format!(" SKIPPED: {why}")).unwrap_or_default();
            let dropped =
                if server.dropped.is_empty() { String::new() } else { format!(" dropped {:?}", server.dropped) };
            format!("{} ({}): {raw}{dropped}{skipped}\n", server.name, server.from.display())
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
"#,
    );
    insta::assert_snapshot!(machine.found(Client::Codex));
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

fn launch() -> Launch {
    Launch {
        command: "/opt/toolgate".to_owned(),
        args: vec!["serve".to_owned(), "--config".to_owned(), "/c.json".to_owned()],
    }
}

#[test]
fn connecting_creates_what_is_missing_and_the_second_time_changes_nothing() {
    let machine = Machine::new(Os::Linux);
    let mut shown = String::new();
    for client in Client::ALL {
        let first = connect::write(client, Scope::User, &machine.roots, &launch()).unwrap();
        assert!(first.changed && first.backup.is_none());
        let text = std::fs::read_to_string(&first.path).unwrap();
        let second = connect::write(client, Scope::User, &machine.roots, &launch()).unwrap();
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
    let first = connect::write(Client::Cursor, Scope::Project, &machine.roots, &launch()).unwrap();
    assert_eq!(std::fs::read_to_string(first.backup.clone().unwrap()).unwrap(), before);
    let after = std::fs::read_to_string(&file).unwrap();
    insta::assert_snapshot!(after);
    let moved = Launch { command: "/new/toolgate".to_owned(), ..launch() };
    let second = connect::write(Client::Cursor, Scope::Project, &machine.roots, &moved).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), after.replace("/opt/toolgate", "/new/toolgate"));
    assert_ne!(second.backup, first.backup);
    assert_eq!(std::fs::read_to_string(first.backup.unwrap()).unwrap(), before);
}

#[test]
fn what_connect_writes_import_skips() {
    let machine = Machine::new(Os::Linux);
    for client in Client::ALL {
        connect::write(client, Scope::User, &machine.roots, &launch()).unwrap();
        let found = import::found(client, &machine.roots).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].skipped, Some(import::Skipped::Toolgate));
    }
}

#[test]
fn claude_desktop_has_no_projects() {
    let machine = Machine::new(Os::Linux);
    let error = connect::write(Client::Claude, Scope::Project, &machine.roots, &launch()).unwrap_err();
    assert!(matches!(error, ConnectError::NoProjects(Client::Claude)));
}
