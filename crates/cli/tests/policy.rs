//! `toolgate policy`, and the policy at the doors of the command line.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use toolgate_config::Env;

/// A home folder with a configuration of the demo server and this policy.
struct User(tempfile::TempDir);

impl User {
    fn with(policy: Value, default: &str) -> Self {
        let user = User(tempfile::tempdir().expect("a folder"));
        let servers = json!({ "demo": { "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] } });
        let config = json!({ "mcpServers": servers, "toolgate": { "policy": policy, "policy_default": default } });
        user.write("toolgate.json", &config.to_string());
        user
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text).expect("written");
        path.to_string_lossy().into_owned()
    }

    fn run_in(&self, folder: &Path, args: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        command.args(args).current_dir(folder).env("HOME", self.0.path()).stdin(Stdio::null());
        for name in ["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "COLUMNS"] {
            command.env_remove(name);
        }
        let output = command.env("NO_COLOR", "1").output().expect("the binary runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
    }

    /// Exit code, standard output and standard error of a command with this configuration.
    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let config = self.0.path().join("toolgate.json");
        let args: Vec<&str> = args.iter().copied().chain(["--config", config.to_str().expect("UTF-8")]).collect();
        self.run_in(self.0.path(), &args)
    }

    /// Writes the approvals that stand for good under this configuration.
    fn remember(&self, rules: &Value) {
        let env = Env::new(Some(self.0.path().to_owned()), self.0.path());
        let config = toolgate_config::load(&self.0.path().join("toolgate.json"), &env).expect("a configuration");
        let file = config.remembered_rules_file().expect("a file");
        self.write(file.strip_prefix(self.0.path()).expect("below home").to_str().expect("UTF-8"), &rules.to_string());
    }

    fn json(&self, args: &[&str]) -> Value {
        let (_, stdout, stderr) = self.run(args);
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{args:?}: {error} {stdout}{stderr}"))
    }
}

fn notes_policy() -> Value {
    json!([
        { "tool": "demo.*", "annotations": ["readOnly"], "do": "allow" },
        { "tool": "demo.create_note", "when": "size(args.text) > 10", "do": "ask", "reason": "Long notes are read first." },
        { "tool": "demo.delete_note", "do": "deny", "reason": "Notes are deleted by people." },
    ])
}

#[test]
fn explain_says_which_rule_decides() {
    let user = User::with(notes_policy(), "allow");
    let explained = user.json(&[
        "policy",
        "explain",
        "demo.create_note({ name: 'n', text: 'a long note about nothing' })",
        "--json",
    ]);
    assert_eq!(explained["do"], "ask");
    assert_eq!(explained["rule"], "policy[1]");
    assert_eq!(explained["reason"], "Long notes are read first.");
    assert_eq!(explained["arguments"], json!({ "name": "n", "text": "a long note about nothing" }));
    let (code, stdout, _) = user.run(&["policy", "explain", "demo.delete_note", r#"{"name": "x"}"#]);
    assert_eq!(code, 0);
    assert!(stdout.starts_with("deny by policy[2]: Notes are deleted by people.\n"), "{stdout}");
    assert!(stdout.contains("policy[2]  deny   demo.delete_note  applies"), "{stdout}");
    let read = user.json(&["policy", "explain", "demo.list_issues", "--json"]);
    assert_eq!((&read["do"], &read["traits"]["source"]), (&json!("allow"), &json!("annotation")));
    let (code, _, stderr) = user.run(&["policy", "explain", "demo.create_note({ name: 'n', text: process.env.X })"]);
    assert_eq!(code, 2, "{stderr}");
}

#[test]
fn list_shows_the_rules_in_the_order_in_which_they_decide() {
    let user = User::with(notes_policy(), "ask");
    let (code, stdout, _) = user.run(&["policy", "list"]);
    assert_eq!(code, 0);
    insta::assert_snapshot!(stdout.trim_end(), @r"
    rule       do     tool              conditions            reason
    policy[2]  deny   demo.delete_note                        Notes are deleted by people.
    policy[1]  ask    demo.create_note  size(args.text) > 10  Long notes are read first.
    policy[0]  allow  demo.*            readOnly
    calls that no rule is about: ask
    ");
    let listed = user.json(&["policy", "list", "--json"]);
    assert_eq!(listed["default"], "ask");
    let first = json!({ "rule": "policy[2]", "tool": "demo.delete_note", "do": "deny", "reason": "Notes are deleted by people." });
    assert_eq!(listed["rules"][0], first);
}

#[test]
fn test_compares_decisions_with_expected_ones() {
    let user = User::with(notes_policy(), "allow");
    let lines = [
        json!({ "tool": "demo.delete_note", "arguments": {}, "expect": "deny" }),
        json!({ "tool": "demo.create_note", "arguments": { "text": "short" }, "expect": "allow" }),
        json!({ "tool": "demo.create_note", "arguments": { "text": "not so short" }, "expect": "ask" }),
        json!({ "tool": "demo.create_note", "arguments": {}, "expect": "ask" }),
        json!({ "tool": "demo.frob", "annotations": { "readOnlyHint": true }, "expect": "allow" }),
    ];
    let text = lines.map(|line| line.to_string()).join("\n");
    let file = user.write("good.jsonl", &text);
    let (code, stdout, stderr) = user.run(&["policy", "test", &file]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(stdout.ends_with("5 decisions, 0 other than expected\n"), "{stdout}");
    let file = user.write("bad.jsonl", &text.replace("\"deny\"", "\"allow\""));
    let tested = user.json(&["policy", "test", &file, "--json"]);
    assert_eq!(tested["wrong"], 1);
    assert_eq!((&tested["lines"][0]["ok"], &tested["lines"][0]["do"]), (&json!(false), &json!("deny")));
    assert_eq!(user.run(&["policy", "test", &file]).0, 1);
    let file = user.write("broken.jsonl", "{\"tool\": \"a.b\", \"expct\": \"deny\"}");
    let (code, _, stderr) = user.run(&["policy", "test", &file]);
    assert!(code == 2 && stderr.contains("broken.jsonl:1:"), "{stderr}");
}

#[test]
fn test_decides_as_the_gateway_does() {
    let user = User::with(json!([]), "deny");
    let demo = json!({ "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] });
    let config = json!({
        "mcpServers": { "my-bank": demo, "demo": demo },
        "toolgate": {
            "policy": [
                { "tool": "*", "annotations": ["readOnly"], "do": "allow" },
                { "tool": "my-bank.buy-now", "do": "ask" },
                { "tool": "demo.create_note", "do": "ask" },
            ],
            "policy_default": "deny",
            "backends": { "demo": { "tools": { "delete_note": { "read_only": true } } } },
        },
    });
    user.write("toolgate.json", &config.to_string());
    let lines = [
        // What the configuration says that a tool does counts, also against annotations.
        json!({ "tool": "demo.delete_note", "expect": "allow" }),
        json!({ "tool": "demo.delete_note", "annotations": { "destructiveHint": true }, "expect": "allow" }),
        // By the names of the server and by those of programs.
        json!({ "tool": "my-bank.buy-now", "expect": "ask" }),
        json!({ "tool": "my_bank.buy_now", "expect": "ask" }),
        json!({ "tool": "my_bank.sell", "expect": "deny" }),
    ];
    let file = user.write("lines.jsonl", &lines.map(|line| line.to_string()).join("\n"));
    let (code, stdout, stderr) = user.run(&["policy", "test", &file]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    let explained = user.json(&["policy", "explain", "demo.delete_note", "--json"]);
    assert_eq!(explained["do"], "allow", "{explained}");
}

#[test]
fn what_is_no_tool_is_explained_with_its_arguments() {
    let user = User::with(json!([{ "tool": "payIt", "when": "args.amount > 3", "do": "deny" }]), "allow");
    for (call, expected) in
        [("payIt({ amount: 5 })", "deny"), ("payIt({ amount: 2 })", "allow"), ("nosuch.tool({a: 1})", "allow")]
    {
        let explained = user.json(&["policy", "explain", call, "--json"]);
        assert_eq!(explained["do"], expected, "{call}: {explained}");
    }
    let (code, _, stderr) = user.run(&["policy", "explain", "nosuch.tool({ a: b })"]);
    assert!(code == 2 && stderr.contains("neither JSON nor an object of literals"), "{stderr}");
}

#[test]
fn a_draft_can_be_used_as_it_is() {
    let user = User::with(json!([]), "allow");
    let (code, stdout, stderr) = user.run(&["policy", "draft"]);
    assert_eq!(code, 0, "{stderr}");
    let draft: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(draft["toolgate"]["policy_default"], "ask");
    let of = |tool: &str| {
        let rules = draft["toolgate"]["policy"].as_array().expect("rules");
        rules.iter().find(|rule| rule["tool"] == tool).map(|rule| rule["do"].clone())
    };
    assert_eq!(of("demo.list_issues"), Some(json!("allow")));
    assert_eq!(of("demo.delete_note"), Some(json!("ask")));
    let drafted = User::with(draft["toolgate"]["policy"].clone(), "ask");
    assert_eq!(drafted.json(&["policy", "explain", "demo.list_issues", "--json"])["do"], "allow");
    assert_eq!(drafted.json(&["policy", "explain", "demo.unheard_of", "--json"])["do"], "ask");
}

#[test]
fn permissions_of_clients_are_imported() {
    let user = User::with(json!([]), "allow");
    let claude = json!({ "permissions": { "allow": ["mcp__github__list_issues", "Bash(ls)"], "deny": ["mcp__bank"] } });
    let folder = user.0.path().join("project");
    user.write("project/.claude/settings.json", &claude.to_string());
    user.write(
        ".codex/config.toml",
        "approval_policy = \"on-request\"\n[mcp_servers.docs]\ndefault_tools_approval_mode = \"approve\"\n",
    );
    let (code, stdout, stderr) = user.run_in(&folder, &["policy", "import", "--json"]);
    assert_eq!(code, 0, "{stderr}");
    let imported: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(
        imported["toolgate"],
        json!({
            "policy": [
                { "tool": "docs.*", "do": "allow" },
                { "tool": "bank.*", "do": "deny" },
                { "tool": "github.list_issues", "do": "allow" },
            ],
            "policy_default": "ask",
        })
    );
    assert_eq!(imported["skipped"], json!(["Bash(ls)"]));
    let nothing = tempfile::tempdir().expect("a folder");
    let empty = User(tempfile::tempdir().expect("a folder"));
    assert_eq!(empty.run_in(nothing.path(), &["policy", "import"]).0, 2);
}

#[test]
fn the_doors_of_the_command_line_obey_the_policy() {
    let user = User::with(notes_policy(), "allow");
    let (code, _, stderr) = user.run(&["call", "demo.delete_note", r#"{"name": "x"}"#]);
    assert_eq!(code, 1);
    assert!(
        stderr.contains("DENIED: demo.delete_note is denied by the policy: Notes are deleted by people."),
        "{stderr}"
    );
    let program = user.write("p.ts", "try { await demo.delete_note({ name: 'x' }) } catch (e) { return e.code }");
    let (code, stdout, stderr) = user.run(&["run", &program]);
    assert_eq!((code, stdout.trim()), (0, "DENIED"), "{stderr}");
    let certain = user.write("q.ts", "return await demo.delete_note({ name: 'x' })");
    let (code, _, stderr) = user.run(&["check", &certain]);
    assert_eq!(code, 1);
    assert!(stderr.contains("is denied by the policy: Notes are deleted by people."), "{stderr}");
}

/// Each command is a process of its own, and the counts of a day are in the store that all of them share.
#[test]
fn a_limit_a_day_holds_over_restarts_and_processes() {
    let user = User::with(json!([{ "tool": "demo.create_note", "do": "allow", "limits": "at most 3 a day" }]), "allow");
    let call = || user.run(&["call", "demo.create_note", r#"{"name": "a", "text": "b"}"#]);
    let (code, _, stderr) = call();
    assert_eq!(code, 0, "{stderr}");
    let together = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(call)).collect();
        calls.into_iter().map(|call| call.join().expect("a command")).collect::<Vec<_>>()
    });
    assert_eq!(together.iter().filter(|(code, ..)| *code == 0).count(), 2, "{together:?}");
    let (code, _, stderr) = call();
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("DENIED: demo.create_note is denied by the policy"), "{stderr}");
    let (code, _, stderr) = user.run(&["call", "demo.list_issues"]);
    assert_eq!(code, 0, "other tools are not counted: {stderr}");
    // Without its store nothing is known of today, so the call is not made.
    let user = User::with(json!([{ "tool": "demo.create_note", "do": "allow", "limits": "at most 3 a day" }]), "allow");
    user.write(".local/state/toolgate/runs", "no folder");
    let (code, _, stderr) = user.run(&["call", "demo.create_note", r#"{"name": "a", "text": "b"}"#]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("cannot be counted") && stderr.contains("toolgate.runs.store"), "{stderr}");
}

#[test]
fn a_gateway_does_not_start_without_its_policy() {
    let user = User::with(json!([{ "tool": "demo.*", "when": "arg.x", "do": "deny" }]), "allow");
    let (code, _, stderr) = user.run(&["call", "demo.list_issues"]);
    assert_eq!(code, 2);
    assert!(
        stderr.contains("toolgate.policy[0].when: the condition cannot be used: no variable named arg"),
        "{stderr}"
    );
}

#[test]
fn approvals_for_good_are_listed_and_revoked() {
    let user = User::with(notes_policy(), "allow");
    let rule = json!({ "tool": "demo.create_note", "when": "size(args.text) < 100", "do": "allow" });
    let remembered =
        json!([{ "id": "remembered-1", "caller": "local", "forGood": true, "askedBy": "x", "rule": rule }]);
    user.remember(&remembered);
    let (_, stdout, _) = user.run(&["policy", "list"]);
    assert!(stdout.contains("remembered-1       local   demo.create_note  size(args.text) < 100"), "{stdout}");
    assert_eq!(user.json(&["policy", "list", "--json"])["remembered"][0]["id"], "remembered-1");
    assert_eq!(user.run(&["policy", "revoke", "remembered-1"]).0, 0);
    assert_eq!(user.run(&["policy", "revoke", "remembered-1"]).0, 2);
    assert_eq!(user.json(&["policy", "list", "--json"])["remembered"], json!([]));
}

#[test]
fn an_approval_for_good_holds_under_its_own_configuration_only() {
    let user = User::with(json!([{ "tool": "demo.create_note", "do": "ask" }]), "allow");
    let rule = json!({ "tool": "demo.create_note", "do": "allow" });
    user.remember(&json!([{ "id": "remembered-1", "caller": "local", "forGood": true, "askedBy": "x", "rule": rule }]));
    assert_eq!(user.json(&["policy", "list", "--json"])["remembered"][0]["id"], "remembered-1");
    // Another file with the same text is another configuration.
    let text = std::fs::read_to_string(user.0.path().join("toolgate.json")).expect("a file");
    let other = user.write("other/toolgate.json", &text);
    let (code, stdout, stderr) = user.run_in(user.0.path(), &["policy", "list", "--json", "--config", &other]);
    assert_eq!(code, 0, "{stderr}");
    let listed: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(listed["remembered"], json!([]), "{stdout}");
    let (code, ..) = user.run_in(user.0.path(), &["policy", "revoke", "remembered-1", "--config", &other]);
    assert_eq!(code, 2, "it is not there to be revoked");
}

#[test]
fn a_rule_that_names_no_tool_and_no_server_is_told() {
    let rules = json!([
        { "tool": "demo.creat_note", "do": "ask" },
        { "tool": "dmo.delete_note", "do": "deny" },
        { "tool": "demo.delete_*", "do": "ask" },
        { "tool": "api.fetch", "do": "ask" },
    ]);
    let user = User::with(rules, "allow");
    let misspelt_tool = "policy[0] is about no call: demo has no tool creat_note; did you mean create_note?";
    let misspelt_server = "the rule is about no call: there is no server named dmo\n  help: did you mean demo?";
    let (code, _, stderr) = user.run(&["list"]);
    assert!(stderr.contains(misspelt_tool) && stderr.contains(misspelt_server), "{stderr}");
    assert_eq!((code, stderr.matches("is about no call").count()), (0, 2), "{stderr}");
    // The tools are known from then on.
    let (_, _, stderr) = user.run(&["policy", "list"]);
    assert!(stderr.contains(misspelt_tool) && stderr.contains(misspelt_server), "{stderr}");
    assert_eq!(user.json(&["policy", "list", "--json"])["notices"], json!([misspelt_tool]));
    let listed = user.json(&["list", "--json"]);
    assert_eq!(listed["backends"][0]["notices"], json!([misspelt_tool]));
}

#[test]
fn explain_of_a_tool_that_is_not_there_names_the_one_that_may_be_meant() {
    let user = User::with(notes_policy(), "allow");
    let (_, stdout, stderr) = user.run(&["policy", "explain", "demo.create_nte({})", "--json"]);
    let explained: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(explained["known"], false);
    assert!(
        stderr.contains("there is no tool demo.create_nte now") && stderr.contains("did you mean demo.create_note"),
        "{stderr}"
    );
    assert_eq!(user.json(&["policy", "explain", "demo.create_note({})", "--json"])["known"], true);
}

#[test]
fn a_file_that_expects_nothing_is_no_test() {
    let user = User::with(notes_policy(), "allow");
    let file = user.write("expected.jsonl", "\n");
    let (code, _, stderr) = user.run(&["policy", "test", &file]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("expects nothing"), "{stderr}");
}
