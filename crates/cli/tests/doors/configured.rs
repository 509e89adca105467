//! The same report at every door under a configuration that all of them find: a tool that the policy denies, a server with a
//! hyphen in its name, a host function, a context; and the profiles `snippet` and `compute` at each of their doors.

use std::ops::RangeInclusive;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate_gateway::runtime::Gateway;
use toolgate_run::RunRequest;
use toolgate_wire::limits::Unit;
use toolgate_wire::{Limit, Profile};

use crate::client::{CommandLine, HttpDoor, McpHttp, McpStdio, Setting, report_of};
use crate::{TOOLGATE, comparable, gateway_of, without_value};

/// A home folder with this configuration, and with data.
pub(crate) fn home_with(config: &Value) -> TempDir {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join(".config/toolgate");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("toolgate.json"), config.to_string()).expect("written");
    std::fs::write(home.path().join("data.json"), DATA).expect("written");
    home
}

const DATA: &str = r#"{"rows":[3,1,2]}"#;

fn configuration() -> Value {
    let demo = json!({ "command": TOOLGATE, "args": ["demo"] });
    json!({
        "mcpServers": { "demo": demo, "my-notes": demo },
        "toolgate": {
            "cache": { "enabled": false },
            "policy": [{ "tool": "demo.create_note", "do": "deny", "reason": "Notes are not written." }],
            "functions": { "issueOf": { "tool": "demo.get_issue" } },
            "data": { "all": { "file": "../../data.json" } },
        },
    })
}

/// Programs of the chain profile, each with a word for what it is about.
const CHAIN: &[&str] = &[
    // A tool that is denied: refused before anything runs, caught, as JSON, and by a name that only the run knows.
    "await demo.create_note({ name: 'a', text: 'b' })",
    "return await demo.create_note({ name: 'a', text: 'b' })",
    "try { await demo.create_note({ name: 'a', text: 'b' }) } catch (e) { return [e.name, e.code, e.message] }",
    "const name = ['create', 'note'].join('_'); return await demo[name]({ name: 'a', text: 'b' })",
    "const name = 'create_' + 'note'; try { await demo[name]({ name: 'a', text: 'b' }) } catch (e) { return [e.code, e.message] }",
    r#"{"tool": "demo.create_note", "arguments": {"name": "a", "text": "b"}}"#,
    // A server whose name is no identifier.
    "return await my_notes.list_notes({})",
    "return await my-notes.list_notes({})",
    "return await tools['my-notes'].list_notes({})",
    r#"{"tool": "my-notes.list_notes"}"#,
    "return await my_notes.list_note({})",
    "return Object.keys(tools)",
    // Host functions.
    "return (await issueOf({ number: 4 })).number",
    "return await issueOf({ number: 'four' })",
    "return await issueof({ number: 4 })",
    "return typeof httpCall",
];

/// Programs that see data: the context of a chain and of a snippet.
const WITH_CONTEXT: &[&str] = &[
    "return context.rows.length",
    "context.rows.push(4); return context",
    "return [typeof context, Object.isFrozen(context)]",
];

const SNIPPETS: &[&str] = &[
    "return 1",
    "console.log('a'); console.error('b'); return { big: 10n, f() {}, d: new Date(0) }",
    "return { a: { b: { c: { d: { e: { f: { g: { h: { i: { j: { k: 1 } } } } } } } } } } }",
    "throw new TypeError('no')",
    "return (",
    "return await demo.list_notes({})",
    "return (await issueOf({ number: 4 })).number",
    "return fetch('https://example.com')",
];

const FUNCTIONS: &[&str] = &[
    "(data) => data.rows.sort()",
    "data => { console.log(data.rows.length); return data.rows.reduce((a, b) => a + b) }",
    "(data) => data.no.such",
    "async (data) => data",
    "(data) => fetch('x')",
    "1 +",
    "(data) => { throw new Error('no') }",
];

async fn by_the_api(gateway: &Gateway, profile: Profile, code: &str, data: Option<&str>) -> Value {
    let request = RunRequest { data: data.map(str::to_owned), ..RunRequest::new(profile, code) };
    comparable(serde_json::to_value(gateway.runner().run(request).await).expect("a report"))
}

/// The report inside an answer of `run_code`, whose clients get more beside it.
fn report_of_snippet(mut answer: Value) -> Value {
    let Some(mut report) = answer.pointer_mut("/result/structuredContent").map(Value::take) else { return answer };
    assert_eq!(report["stdout"], report["logs"]["stdout"]);
    assert_eq!(report["stderr"], report["logs"]["stderr"]);
    for key in ["stdout", "stderr", "environment", "errorName"] {
        report.as_object_mut().map(|fields| fields.remove(key));
    }
    comparable(report)
}

/// All doors of one configuration.
struct Doors<'a> {
    home: &'a Path,
    http: HttpDoor,
    stdio: McpStdio,
}

impl Doors<'_> {
    async fn at(home: &Path) -> Doors<'_> {
        let setting = Setting::Home(home);
        Doors { home, http: HttpDoor::start(setting).await, stdio: McpStdio::start(setting).await }
    }

    async fn by_command(&self, args: &[&str], input: &str) -> Value {
        comparable(CommandLine::report(Setting::Home(self.home), args, input).await)
    }

    /// What the doors of programs say, each with its name and whether its report has the value.
    async fn program(&mut self, profile: &str, code: &str, context: Option<&str>) -> Vec<(&'static str, Value, bool)> {
        let mut args = vec!["run", "-", "--json", "--profile", profile];
        args.extend(context.iter().flat_map(|_| ["--context", "data.json"]));
        let mut body = json!({ "code": code, "profile": profile });
        if let Some(context) = context {
            body["context"] = serde_json::from_str(context).expect("JSON");
        }
        let mut said = vec![
            ("command line", self.by_command(&args, code).await, true),
            ("POST /v1/run", comparable(self.http.post("/v1/run", &body, "").await), true),
            ("WebSocket", comparable(self.http.ask_by_socket(&body).await), true),
        ];
        let mcp = McpHttp::new(&self.http);
        if profile == "snippet" {
            let mut arguments = json!({ "code": code });
            if let Some(context) = body.get("context") {
                arguments["hints"] = context.clone();
            }
            said.push(("run_code over stdio", report_of_snippet(self.stdio.call("run_code", &arguments).await), true));
            said.push(("run_code over HTTP", report_of_snippet(mcp.call("run_code", &arguments).await), true));
        } else if context.is_none() {
            let arguments = json!({ "code": code, "max_output_size": 200_000 });
            let stdio = report_of(self.stdio.call("call_tool_chain", &arguments).await);
            said.push(("call_tool_chain over stdio", comparable(stdio), false));
            said.push((
                "call_tool_chain over HTTP",
                comparable(report_of(mcp.call("call_tool_chain", &arguments).await)),
                false,
            ));
        }
        said
    }

    /// What the doors of functions over data say.
    async fn function(&mut self, code: &str) -> Vec<(&'static str, Value, bool)> {
        let body = json!({ "code": code, "data": serde_json::from_str::<Value>(DATA).expect("JSON") });
        let arguments = json!({ "code": code });
        let mcp = McpHttp::new(&self.http);
        vec![
            ("command line", self.by_command(&["compute", code, "--data", "data.json", "--json"], "").await, true),
            ("POST /v1/compute", comparable(self.http.post("/v1/compute", &body, "").await), true),
            ("compute over stdio", comparable(report_of(self.stdio.call("compute", &arguments).await)), false),
            ("compute over HTTP", comparable(report_of(mcp.call("compute", &arguments).await)), false),
        ]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_door_gives_the_same_report_under_a_configuration() {
    let config = configuration();
    let home = home_with(&config);
    let gateway = gateway_of(&config, &home.path().join(".config/toolgate/toolgate.json")).await;
    let mut doors = Doors::at(home.path()).await;
    let mut wrong = Vec::new();
    let mut compare = |code: &str, expected: Value, said: Vec<(&str, Value, bool)>| {
        let without = without_value(expected.clone());
        for (door, found, has_value) in said {
            let expected = if has_value { &expected } else { &without };
            if found != *expected {
                wrong.push(format!("{door}:\n{code}\n  {found}\n  {expected} (API)"));
            }
        }
    };
    for code in CHAIN {
        let expected = by_the_api(&gateway, Profile::Chain, code, None).await;
        compare(code, expected, doors.program("chain", code, None).await);
    }
    for code in SNIPPETS {
        let expected = by_the_api(&gateway, Profile::Snippet, code, None).await;
        compare(code, expected, doors.program("snippet", code, None).await);
    }
    for code in WITH_CONTEXT {
        let expected = by_the_api(&gateway, Profile::Chain, code, Some(DATA)).await;
        compare(code, expected, doors.program("chain", code, Some(DATA)).await);
        let expected = by_the_api(&gateway, Profile::Snippet, code, Some(DATA)).await;
        compare(code, expected, doors.program("snippet", code, Some(DATA)).await);
    }
    for code in FUNCTIONS {
        let expected = by_the_api(&gateway, Profile::Compute, code, Some(DATA)).await;
        compare(code, expected, doors.function(code).await);
    }
    // The policy holds at every door, so that the comparison is one of refusals.
    let denied = by_the_api(&gateway, Profile::Chain, CHAIN[2], None).await;
    assert_eq!(denied["value"][1], "DENIED", "{denied}");
    gateway.shut_down().await;
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n\n"));
}

/// The limits that the configuration has, by its keys.
const LIMITS: [(&str, Limit); 8] = [
    ("timeout", Limit::Wall),
    ("memory", Limit::Memory),
    ("stack", Limit::Stack),
    ("code", Limit::Code),
    ("result", Limit::Result),
    ("log_lines", Limit::LogLines),
    ("calls", Limit::Calls),
    ("calls_in_flight", Limit::CallsInFlight),
];

const PROFILES: [(&str, Profile); 3] =
    [("compute", Profile::Compute), ("chain", Profile::Chain), ("snippet", Profile::Snippet)];

/// A configuration with these values of limits in every profile.
fn limited(limits: &[(&str, Limit)], end: impl Fn(RangeInclusive<u64>) -> u64) -> Value {
    let of = |profile: Profile| -> Value {
        let value = |limit: Limit| {
            let number = end(limit.range(profile));
            match limit.spec().unit {
                Unit::Milliseconds => json!(format!("{number}ms")),
                Unit::Bytes => json!(number.to_string()),
                Unit::Characters | Unit::Levels | Unit::Lines | Unit::Calls => json!(number),
            }
        };
        limits.iter().map(|(key, limit)| ((*key).to_owned(), value(*limit))).collect()
    };
    let profiles: Value = PROFILES.iter().map(|(name, profile)| ((*name).to_owned(), of(*profile))).collect();
    let data = json!({ "all": { "file": "../../data.json" } });
    json!({ "toolgate": { "sandbox": { "limits": profiles }, "data": data } })
}

/// The failure that the least value of a limit may cause; no other may happen.
fn failure_of(limit: Limit) -> &'static str {
    match limit {
        Limit::Wall => "TIMEOUT",
        Limit::Memory => "MEMORY",
        Limit::Stack => "RUNTIME",
        Limit::Code => "INVALID_CODE",
        Limit::Result => "OUTPUT_TOO_LARGE",
        Limit::ResultDepth | Limit::LogLines | Limit::Calls | Limit::CallsInFlight => "",
    }
}

/// Every report of short programs at every door under a configuration.
async fn reports(config: &Value) -> Vec<(String, Value)> {
    let home = home_with(config);
    let gateway = gateway_of(config, &home.path().join(".config/toolgate/toolgate.json")).await;
    let mut doors = Doors::at(home.path()).await;
    let mut all = Vec::new();
    for (name, profile) in PROFILES {
        let (code, data) = if profile == Profile::Compute { ("(data) => 1", Some(DATA)) } else { ("return 1", None) };
        let mut said = vec![("API", by_the_api(&gateway, profile, code, data).await, true)];
        match profile {
            Profile::Compute => said.extend(doors.function(code).await),
            Profile::Chain | Profile::Snippet => said.extend(doors.program(name, code, None).await),
        }
        all.extend(said.into_iter().map(|(door, report, _)| (format!("{name} at {door}"), report)));
    }
    gateway.shut_down().await;
    all
}

/// What the configuration accepts for a limit is what a run gets, at every door: it ends as the limit has it, and is not
/// refused for the limit's value.
#[tokio::test(flavor = "multi_thread")]
async fn every_limit_that_the_configuration_accepts_runs_at_every_door() {
    for (door, report) in reports(&limited(&LIMITS, |range| *range.end())).await {
        assert_eq!(report["ok"], true, "all at their most, {door}: {report}");
    }
    for limit in LIMITS {
        for (door, report) in reports(&limited(&[limit], |range| *range.start())).await {
            let fits = report["ok"] == true || report["code"] == failure_of(limit.1);
            assert!(fits, "{} at its least, {door}: {report}", limit.0);
        }
    }
}
