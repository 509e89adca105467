//! Standard streams that are closed, full, or whose reader has left.

use std::io::Read;
use std::process::Stdio;

use crate::client::{COUNT, Client, User};

/// Closes what its first argument says, then becomes the rest.
fn closing(streams: &str) -> User {
    User::new().with_prefix(&["sh", "-c", &format!(r#"exec "$@" {streams}"#), "sh"])
}

#[test]
fn commands_work_with_any_stream_closed() {
    for streams in ["<&-", ">&-", "2>&-", "<&- 2>&-", "<&- >&- 2>&-"] {
        let user = closing(streams);
        let (code, stdout, stderr) = user.run_program(COUNT, &[]);
        assert_eq!(code, 0, "{streams}: {stderr}");
        assert_eq!(stdout.trim(), if streams.contains(">&- ") || streams.starts_with(">&-") { "" } else { "20" });
        let (code, ..) = user.run(&["list", "--config", &user.config().display().to_string()]);
        assert_eq!(code, 0, "{streams}");
    }
}

#[test]
fn a_gateway_serves_without_standard_error() {
    let user = closing("2>&-");
    let mut client = user.serve();
    assert_eq!(client.chain(COUNT), "20");
    assert_eq!(client.leave(), "");
}

#[test]
fn a_gateway_without_an_input_ends_at_once() {
    let user = closing("<&-");
    let (code, stdout, _) = user.run(&["serve", "--config", &user.config().display().to_string()]);
    assert_eq!((code, stdout.as_str()), (0, ""));
}

#[test]
fn a_reader_that_leaves_early_is_no_failure_and_a_full_device_is_one() {
    let user = User::new();
    let program = user.write("long.js", "return 'x'.repeat(190_000)");
    let mut child =
        user.command(&["run", &program]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    // More than a pipe holds is still to come.
    child.stdout.take().expect("piped").read_exact(&mut [0; 10]).expect("the beginning");
    let ended = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("anic"), "{stderr}");
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a device");
    let ended = user.command(&["run", &program]).stdout(full).stderr(Stdio::piped()).output().expect("it ends");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cannot write to standard output: No space left on device"), "{stderr}");
}

#[test]
fn a_gateway_whose_client_reads_no_more_ends_with_its_servers() {
    let user = User::new();
    let config = user.config().display().to_string();
    let mut child = user.command(&["serve", "--config", &config]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let child = child.as_mut().expect("starts");
    drop(child.stdout.take());
    let mut input = child.stdin.take().expect("piped");
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    // The gateway may be gone before the last of them is written.
    for _ in 0..100 {
        let _ = std::io::Write::write_all(&mut input, format!("{request}\n").as_bytes());
    }
    drop(input);
    assert!(child.wait().expect("it ends").code().is_some(), "no signal ended it");
}

#[test]
fn a_gateway_with_few_descriptors_answers_every_call_and_comes_back() {
    let user = User::new().with_prefix(&["sh", "-c", r#"ulimit -n 64; exec "$@""#, "sh"]);
    let mut client: Client = user.serve();
    assert_eq!(client.chain(COUNT), "20");
    // More at one time than there are descriptors for.
    for answer in client.chains(&[COUNT; 60]) {
        assert!(answer == "20" || answer.contains("Too many open files"), "{answer}");
    }
    // The last descriptors are closed after the last answer.
    let comes_back = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        client.chain(COUNT) == "20"
    });
    assert!(comes_back);
    client.leave();
}
