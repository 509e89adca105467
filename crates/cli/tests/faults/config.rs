//! A configuration that is rewritten while it is read.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::client::{COUNT, User};

/// Ends the writer, also when an assertion fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes the file in place, without care, until the rest is done.
fn rewriting<R>(user: &User, rest: impl FnOnce() -> R) -> R {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut turn = false;
            while !done.load(Ordering::Relaxed) {
                turn = !turn;
                // Long, so that a half of it can be seen.
                let tags: Vec<String> = (0..if turn { 10 } else { 5_000 }).map(|n| format!("tag{n}")).collect();
                user.configure(&json!({ "backends": { "demo": { "tags": tags } } }));
            }
        });
        let _end = End(&done);
        rest()
    })
}

#[test]
fn a_half_written_file_is_read_again_or_said_to_be_wrong() {
    let user = User::new();
    let config = user.config().display().to_string();
    rewriting(&user, || {
        for _ in 0..20 {
            let (code, stdout, stderr) = user.run(&["list", "--json", "--config", &config]);
            assert!(
                code == 0 && stdout.contains("demo") || stderr.contains("toolgate.json"),
                "{code}: {stdout}{stderr}"
            );
        }
    });
    let (code, stdout, _) = user.run(&["list", "--config", &config]);
    assert!(code == 0 && stdout.contains("ready"), "{stdout}");
}

#[test]
fn a_gateway_goes_on_while_its_configuration_is_rewritten_and_follows_the_last() {
    let user = User::new();
    let mut client = user.serve();
    rewriting(&user, || {
        for _ in 0..20 {
            assert_eq!(client.chain(COUNT), "20");
        }
    });
    let other = json!({ "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] });
    std::fs::write(user.config(), json!({ "mcpServers": { "other": other } }).to_string()).expect("written");
    let follows = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        client.chain(&COUNT.replace("demo", "other")) == "20"
    });
    assert!(follows, "the last content is in effect");
    client.leave();
}
