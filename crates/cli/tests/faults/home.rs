//! A home that cannot be written: read-only, or on a disk without space.

use serde_json::json;

use crate::client::{COUNT, User};

/// Mounts a file system at the home that cannot be written, then becomes the command.
const READ_ONLY: &str = r#"mount -t tmpfs -o ro,size=64k none "$HOME" && exec "$@""#;
const FULL: &str =
    r#"mount -t tmpfs -o size=64k none "$HOME" && { cat /dev/zero > "$HOME/fill" 2> /dev/null; exec "$@"; }"#;

/// What the system says of each.
const FAULTS: [(&str, &str); 2] = [(READ_ONLY, "Read-only file system"), (FULL, "No space left on device")];

/// Whether this process may mount in a namespace of its own; in some containers root may not.
fn can_mount() -> bool {
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount -t tmpfs none /mnt"]);
    command.stderr(std::process::Stdio::null()).status().is_ok_and(|status| status.success())
}

fn users() -> Vec<(User, &'static str)> {
    if !can_mount() {
        return Vec::new();
    }
    let user = |script| User::new().with_prefix(&["unshare", "--mount", "sh", "-c", script, "sh"]);
    FAULTS.iter().map(|(script, says)| (user(script), *says)).collect()
}

#[test]
fn a_gateway_serves_without_its_cache_and_says_so() {
    for (user, says) in users() {
        let mut client = user.serve();
        assert_eq!(client.chain(COUNT), "20");
        // The answer is whole, although a part of it would be kept for later.
        assert!(client.chain("return 'x'.repeat(100_000)").contains("xxx"));
        let log = client.leave();
        assert!(log.contains("cannot write the tool cache") && log.contains(says), "{log}");
    }
}

#[test]
fn a_result_that_cannot_be_kept_is_shown_and_that_is_said() {
    for (user, says) in users() {
        let code = "return Array.from({ length: 20_000 }, (_, i) => ({ i, name: 'n' + i }))";
        let (code, stdout, stderr) = user.run_program(code, &["--intent", "n7", "--max-output", "2KB"]);
        assert_eq!(code, 0, "{stderr}");
        assert!(stdout.contains("n7"), "{stdout}");
        assert!(!stdout.contains("res_"), "a result that was not kept has no name: {stdout}");
        assert!(stderr.contains(says), "{stderr}");
    }
}

#[test]
fn a_durable_run_is_refused_and_others_go_on() {
    for (user, says) in users() {
        let mut client = user.serve();
        let durable = json!({ "name": "call_tool_chain", "arguments": { "code": COUNT, "durable": true } });
        let refused = client.ask("tools/call", durable).to_string();
        assert!(refused.contains("durable runs cannot be kept") && refused.contains(says), "{refused}");
        assert_eq!(client.chain(COUNT), "20");
        client.leave();
    }
}

#[test]
fn commands_that_write_say_what_they_could_not_and_change_nothing() {
    for (user, says) in users() {
        let config = user.home().join("toolgate.json").display().to_string();
        for args in [
            &["add", "x", "--config", &config, "--", "true"][..],
            &["runs", "list", "--config", &user.config().display().to_string()],
        ] {
            let (code, _, stderr) = user.run(args);
            assert_eq!(code, 1, "{args:?}: {stderr}");
            assert_eq!(stderr.matches(says).count(), 1, "{args:?}: {stderr}");
        }
    }
}

#[test]
fn an_audit_log_that_cannot_be_begun_keeps_a_gateway_from_starting_and_one_that_fills_up_does_not() {
    for (user, says) in users() {
        user.configure(&json!({ "audit": { "enabled": true } }));
        if says.starts_with("Read-only") {
            let (code, _, stderr) = user.run(&["serve", "--config", &user.config().display().to_string()]);
            assert_eq!(code, 1, "{stderr}");
            assert!(stderr.contains("the audit log cannot be written") && stderr.contains(says), "{stderr}");
        } else {
            let mut client = user.serve();
            assert_eq!(client.chain(COUNT), "20");
            client.leave();
        }
    }
}
