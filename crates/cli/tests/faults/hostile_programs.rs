//! Hostile programs and the tools of real servers: what the gateway does for a program outside of its worker, such as checking
//! arguments and keeping the record of calls, stays within the program's limits.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bar::Bar;
use crate::client::{Client, User};

/// What a run may have in flight: as much as it has memory.
const RUN_BYTES: u64 = 50 << 20;
/// How late control may be where calls have arguments of 15 MB. The host reads one message to its end before it looks at the deadline:
/// 150 to 590 ms of a debug build, where 1 MB takes 20 to 40 ms.
const LARGE_MESSAGE_MARGIN: Duration = Duration::from_secs(3);
const DEADLINE: Duration = Duration::from_secs(4);

/// A list of three million numbers that takes the program no memory.
const MANY: &str = "new Proxy([], { get: (_, k) => k === 'length' ? 3e6 : k === 'toJSON' ? undefined : 1 })";

fn gateway(mode: &str) -> (User, Client) {
    gateway_with(mode, json!({ "sandbox": { "engine": "quickjs" } }))
}

fn gateway_with(mode: &str, settings: Value) -> (User, Client) {
    let user = User::new();
    let script = user.write("server.py", include_str!("server.py"));
    let demo = json!({ "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] });
    let servers = json!({ "demo": demo, "bad": { "command": "python3", "args": [script, mode] } });
    let config = json!({ "mcpServers": servers, "toolgate": settings });
    std::fs::write(user.config(), config.to_string()).expect("written");
    let client = user.serve();
    (user, client)
}

fn chain(client: &mut Client, code: &str) -> Value {
    chain_within(client, code, DEADLINE)
}

/// Runs a program that is no part of a case: a busy machine may take long to start a server, or to compile a schema.
fn plain(client: &mut Client, code: &str) -> String {
    text(&chain_within(client, code, Duration::from_secs(120)))
}

fn chain_within(client: &mut Client, code: &str, wall: Duration) -> Value {
    let timeout = u64::try_from(wall.as_millis()).expect("few");
    client.ask("tools/call", json!({ "name": "call_tool_chain", "arguments": { "code": code, "timeout": timeout } }))
}

fn text(answer: &Value) -> String {
    answer["content"][0]["text"].as_str().map_or(answer.to_string(), str::to_owned)
}

/// Runs a program whose arguments are costly to check.
fn check_arguments(mode: &str, arguments: &str) {
    let (_user, mut client) = gateway(mode);
    // The first call compiles the schema.
    assert_eq!(plain(&mut client, "return await bad.attack({}).then(() => 1)"), "1", "{mode}");
    let bar = Bar::of(client.pid());
    let code = format!("try {{ return typeof await bad.attack({{ x: {arguments} }}) }} catch (e) {{ return e.code }}");
    let end = text(&chain(&mut client, &code));
    let ends = ["string", "INVALID_ARGUMENTS", "TOO_LARGE", "OVER_BUDGET", "TIMEOUT", "MEMORY"];
    assert!(ends.iter().any(|expected| end.starts_with(expected)), "{mode}: {end}");
    bar.check(mode, RUN_BYTES, 0, DEADLINE);
    assert_eq!(plain(&mut client, "return 2"), "2", "{mode}");
    client.leave();
}

#[test]
fn checking_arguments_takes_no_more_than_the_runs_time_and_memory() {
    for mode in ["strings", "any20", "any500"] {
        check_arguments(mode, MANY);
    }
    check_arguments("enum", "Array.from({ length: 20000 }, () => 19999.5)");
    check_arguments("pattern", "Array.from({ length: 300000 }, (_, n) => n * n % 7 < 3 ? 'a' : 'b').join('')");
    check_arguments("names", "Object.fromEntries(Array.from({ length: 1000 }, (_, n) => ['a'.repeat(30) + n, 1]))");
}

#[test]
fn arguments_of_host_functions_are_counted_before_they_become_values() {
    let functions = json!({
        "look": { "tool": "bad.attack", "read_only": true },
        "ping": { "url": "http://127.0.0.1:9/", "method": "GET" },
    });
    let settings = json!({ "sandbox": { "engine": "quickjs" }, "egress": "all", "functions": functions });
    let (_user, mut client) = gateway_with("strings", settings);
    assert_eq!(plain(&mut client, "return await look({}).then(() => 1)"), "1");
    let calls =
        ["look({ x })", "ping(x)", "httpCall({ url: 'http://a.test/', body: x })", "api.fetch('http://a.test/', x)"];
    for call in calls {
        let bar = Bar::of(client.pid());
        let code = format!("const x = {MANY}; try {{ return typeof await {call} }} catch (e) {{ return e.code }}");
        let end = text(&chain(&mut client, &code));
        let ends = ["TOO_LARGE", "OVER_BUDGET", "TIMEOUT", "MEMORY"];
        assert!(ends.iter().any(|expected| end.starts_with(expected)), "{call}: {end}");
        bar.check(call, RUN_BYTES, 0, DEADLINE);
    }
    client.leave();
}

#[test]
fn the_record_of_failed_calls_is_small() {
    let (_user, mut client) = gateway("strings");
    let code = "let failed = 0;
        for (let n = 0; n < 150; n++) await demo.always_fails({ message: 'x'.repeat(2e6) }).catch(() => failed++);
        return failed";
    assert_eq!(plain(&mut client, "return await demo.always_fails({ message: 'x' }).catch(() => 1)"), "1");
    let bar = Bar::of(client.pid());
    let answer = chain(&mut client, code);
    let size = answer.to_string().len();
    assert!(size < 300_000, "the answer has {size} bytes, with its report");
    bar.check("always_fails", RUN_BYTES, 0, DEADLINE);
    client.leave();
}

#[test]
fn arguments_under_way_count_in_the_memory_of_the_run() {
    let (_user, mut client) = gateway("strings");
    assert_eq!(plain(&mut client, "return await bad.attack({}).then(() => 1)"), "1");
    let bar = Bar::of(client.pid());
    let code = "const text = 'x'.repeat(15e6);
        const all = await Promise.allSettled(Array.from({ length: 64 }, () => bad.attack({ y: text })));
        return all.filter(one => one.status === 'rejected' && one.reason.code === 'OVER_BUDGET').length > 0";
    let end = text(&chain(&mut client, code));
    assert!(["true", "TIMEOUT", "MEMORY"].iter().any(|expected| end.starts_with(expected)), "{end}");
    bar.check_with_margin("64 calls of 15 MB", RUN_BYTES, 0, DEADLINE, LARGE_MESSAGE_MARGIN);
    client.leave();
}

#[test]
fn four_runs_at_once_take_four_times_the_limit_of_one() {
    let (_user, mut client) = gateway("strings");
    assert_eq!(plain(&mut client, "return await bad.attack({}).then(() => 1)"), "1");
    let code = "const text = 'x'.repeat(15e6);
        const all = await Promise.allSettled(Array.from({ length: 64 }, () => bad.attack({ y: text })));
        return all.filter(one => one.status === 'rejected' && one.reason.code === 'OVER_BUDGET').length > 0";
    let timeout = u64::try_from(DEADLINE.as_millis()).expect("few");
    let call = json!({ "name": "call_tool_chain", "arguments": { "code": code, "timeout": timeout } });
    let bar = Bar::of(client.pid());
    let answers = client.ask_all("tools/call", &vec![call; 4]);
    for end in answers.iter().map(text) {
        assert!(["true", "TIMEOUT", "MEMORY"].iter().any(|expected| end.starts_with(expected)), "{end}");
    }
    bar.check_with_margin("four runs of 64 calls of 15 MB", 4 * RUN_BYTES, 0, DEADLINE, LARGE_MESSAGE_MARGIN);
    client.leave();
}

#[test]
fn a_configured_time_is_the_most_that_a_client_gets() {
    let user = User::new();
    user.configure(&json!({ "sandbox": { "engine": "quickjs", "limits": { "chain": { "timeout": "300ms" } } } }));
    let mut client = user.serve();
    let mut run = |arguments: Value| {
        text(&client.ask("tools/call", json!({ "name": "call_tool_chain", "arguments": arguments })))
    };
    let more = run(json!({ "code": "for (;;);", "timeout": 600_000 }));
    assert!(more.contains("timeout may be at most 300 milliseconds here"), "{more}");
    let ended = run(json!({ "code": "for (;;);" }));
    assert!(ended.starts_with("TIMEOUT") && ended.contains("300 ms"), "{ended}");
    client.leave();
}
