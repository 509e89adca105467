//! A clock that jumps: by years, forwards and backwards, while a gateway runs.

use std::process::Command;

use serde_json::json;

use crate::client::{COUNT, Client, User};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/clock.c");
const DECADE: i64 = 10 * 365 * 24 * 3600;

#[test]
fn a_gateway_goes_on_when_the_clock_jumps() {
    let user = User::new();
    user.configure(&json!({ "audit": { "enabled": true } }));
    let library = user.folder().join("clock.so");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).args([SOURCE, "-ldl"]).status();
    assert!(built.expect("a compiler").success());
    let file = user.write("offset", "0");
    let config = user.config().display().to_string();
    let mut command = user.command(&["serve", "--config", &config]);
    command.env("LD_PRELOAD", &library).env("CLOCK_OFFSET_FILE", &file);
    let mut client = Client::start(&mut command);
    let real = year(&mut client);
    let kept = kept_result(&mut client);
    let mut seen = Vec::new();
    for offset in [DECADE, -DECADE, 0, 3 * DECADE, 0] {
        std::fs::write(&file, offset.to_string()).expect("written");
        assert_eq!(client.chain(COUNT), "20", "{offset}");
        // A timer is not a matter of the system's clock.
        assert_eq!(client.chain("await sleep(5); return 'slept'"), "slept", "{offset}");
        let durable = json!({ "name": "call_tool_chain", "arguments": { "code": COUNT, "durable": true } });
        let answer = client.ask("tools/call", durable);
        assert_eq!(answer["content"][0]["text"], json!("20"), "{offset}: {answer}");
        seen.push(year(&mut client) - real);
    }
    let decades: Vec<i64> = seen.iter().map(|years| (years + 105) / 10 - 10).collect();
    assert_eq!(decades, [1, -1, 0, 3, 0], "the clock did jump: {seen:?}");
    // How long a result is kept is measured, not read from the clock.
    let read = client.ask("tools/call", json!({ "name": "read_result", "arguments": { "result_id": kept } }));
    assert!(read.to_string().contains("n0"), "{read}");
    client.leave();
    let (code, stdout, stderr) = user.run(&["audit", "verify"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
}

fn year(client: &mut Client) -> i64 {
    client.chain("return new Date().getFullYear()").parse().expect("a year")
}

fn kept_result(client: &mut Client) -> String {
    let answer = client.chain("return Array.from({ length: 20_000 }, (_, i) => ({ i, name: 'n' + i }))");
    let word = answer.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').find(|word| word.starts_with("res_"));
    word.unwrap_or_else(|| panic!("{answer}")).to_owned()
}
