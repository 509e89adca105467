//! A machine with little memory: what large calls and answers took goes back to the system.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{COUNT, Client, User};

/// Bytes by which a gateway may have grown.
const GROWTH: u64 = 16 << 20;
/// How long the memory may take to go back.
const RETURN_TIMEOUT: Duration = Duration::from_secs(120);

fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

/// A gateway that has answered a call, with the memory that it has then; `None` where the C library keeps what is freed.
fn serving(user: &User) -> Option<(Client, u64)> {
    if !cfg!(target_env = "gnu") {
        return None;
    }
    let mut client = user.serve();
    assert_eq!(client.chain(COUNT), "20");
    let before = resident(client.pid());
    Some((client, before))
}

/// Waits until the gateway holds little more than before.
fn goes_back(pid: u32, before: u64) {
    let since = Instant::now();
    let mut after = resident(pid);
    while after >= before + GROWTH {
        assert!(since.elapsed() < RETURN_TIMEOUT, "{before} bytes before, {after} after");
        std::thread::sleep(Duration::from_millis(50));
        after = resident(pid);
    }
}

/// Eight calls at one time, three times: their arguments become trees of small blocks in the heaps of several threads.
#[test]
fn memory_of_many_small_values_goes_back_to_the_system() {
    let user = User::new();
    let Some((mut client, before)) = serving(&user) else { return };
    let code = "const more = Array.from({ length: 20000 }, (_, n) => ({ a: n % 3, b: [n] })); \
                try { await demo.always_fails({ message: 'x', more }) } catch (e) { return 1 }";
    let arguments = json!({ "code": code, "timeout": 240_000 });
    for _ in 0..3 {
        let call = json!({ "name": "call_tool_chain", "arguments": arguments });
        let answers = client.ask_all("tools/call", &vec![call; 8]);
        assert!(answers.iter().all(|answer| answer["content"][0]["text"] == "1"), "{answers:?}");
    }
    goes_back(client.pid(), before);
    client.leave();
}

#[test]
fn memory_of_large_calls_goes_back_to_the_system() {
    let user = User::new();
    let Some((mut client, before)) = serving(&user) else { return };
    // Blocks of several sizes, arguments and answers, each larger than the one before.
    let code = "let ended = 0; for (const n of [1, 2, 3, 4]) \
                try { await demo.always_fails({ message: 'x'.repeat(n * 3e6) }) } catch (e) { ended += e.message.length > 10 } \
                return ended";
    for _ in 0..4 {
        let arguments = json!({ "code": code, "timeout": 240_000 });
        let answer = client.ask("tools/call", json!({ "name": "call_tool_chain", "arguments": arguments }));
        assert_eq!(answer["content"][0]["text"], "4", "{answer}");
    }
    goes_back(client.pid(), before);
    client.leave();
}
