//! Standard streams that are closed, full, or whose reader has left.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::client::{COUNT, Client, User};

/// Time for a gateway to see the end of its input.
const FIFO_TIMEOUT: Duration = Duration::from_secs(60);

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

/// A gateway with these streams, and its answer to the first request.
fn first_answer(user: &User, streams: (Stdio, Stdio), mut to: impl Write, from: impl Read) -> (Child, String) {
    let config = user.config().display().to_string();
    let child = user.command(&["serve", "--config", &config]).stdin(streams.0).stdout(streams.1).spawn();
    to.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").expect("written");
    let mut answer = String::new();
    BufReader::new(from).read_line(&mut answer).expect("an answer");
    (child.expect("starts"), answer)
}

#[test]
fn a_gateway_serves_over_sockets_as_over_pipes() {
    let user = User::new();
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    let stream = || Stdio::from(OwnedFd::from(theirs.try_clone().expect("a socket")));
    let (mut child, answer) = first_answer(&user, (stream(), stream()), &ours, &ours);
    assert!(answer.contains(r#""id":1"#), "{answer}");
    drop((ours, theirs));
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn the_pipes_of_a_client_stay_blocking_for_their_other_holders() {
    let user = User::new();
    let ((input, to), (from, output)) = (std::io::pipe().expect("a pipe"), std::io::pipe().expect("a pipe"));
    let kept = (input.try_clone().expect("a pipe"), output.try_clone().expect("a pipe"));
    let (mut child, answer) = first_answer(&user, (Stdio::from(input), Stdio::from(output)), &to, &from);
    assert!(answer.contains(r#""id":1"#), "{answer}");
    let flags = |of: &OwnedFd| rustix::fs::fcntl_getfl(of).expect("flags");
    for end in [OwnedFd::from(kept.0), OwnedFd::from(kept.1)] {
        assert!(!flags(&end).contains(rustix::fs::OFlags::NONBLOCK));
    }
    drop(to);
    assert!(child.wait().expect("it ends").success());
}

/// The writer has closed the FIFO before the gateway looks at it, so that the end is all that is left to see.
#[test]
fn a_gateway_ends_with_the_last_writer_of_a_named_fifo() {
    let user = User::new();
    let path = user.write("in", "");
    std::fs::remove_file(&path).expect("removed");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .expect("a FIFO");
    // Open for both, so that neither open waits for the other end.
    let both = std::fs::File::options().read(true).write(true).open(&path).expect("opens");
    let input = std::fs::File::open(&path).expect("opens");
    (&both).write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").expect("written");
    drop(both);
    let config = user.config().display().to_string();
    let mut child =
        user.command(&["serve", "--config", &config]).stdin(input).stdout(Stdio::piped()).spawn().expect("starts");
    let mut answers = child.stdout.take().expect("piped");
    let (send, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = send.send(answers.read_to_string(&mut text).map(|_| text));
    });
    let text = ended.recv_timeout(FIFO_TIMEOUT);
    if text.is_err() {
        child.kill().expect("killed");
    }
    assert!(child.wait().expect("it ends").success());
    let text = text.expect("it ends by itself").expect("text");
    assert!(text.contains(r#""id":1"#), "{text}");
}
