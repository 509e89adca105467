//! Standard input and output as asynchronous streams.
//!
//! `tokio::io::stdin` reads on a thread of its own, and `tokio::io::stdout` writes on another one: a request and its reply pass
//! four threads more than they need, and waking a thread costs more than most requests. An anonymous pipe is therefore opened
//! once more by its name in `/proc`. That gives it a file description of its own, so that its non-blocking mode is not seen by
//! other holders of the pipe, such as the client or standard error. Anything else (a terminal, a file, a socket, a named FIFO),
//! and a pipe that cannot be opened again, is read and written by those threads: to open a terminal may make it the controlling
//! one, and a FIFO that is opened after its last writer has closed it reports no end until another writer comes.

use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(target_os = "linux")]
use tokio::net::unix::pipe;

#[cfg(target_os = "linux")]
const STDIN: &str = "/proc/self/fd/0";
#[cfg(target_os = "linux")]
const STDOUT: &str = "/proc/self/fd/1";

/// Whether the descriptor is a pipe without a name in the file system. Reads the link and opens nothing. A file cannot pass for
/// one: its link is an absolute path.
#[cfg(target_os = "linux")]
fn is_anonymous_pipe(descriptor: &str) -> bool {
    std::fs::read_link(descriptor).is_ok_and(|target| target.as_os_str().as_encoded_bytes().starts_with(b"pipe:["))
}

/// Standard input. Needs a Tokio runtime.
pub fn standard_input() -> Box<dyn AsyncRead + Send + Unpin> {
    #[cfg(target_os = "linux")]
    if is_anonymous_pipe(STDIN)
        && let Ok(input) = pipe::OpenOptions::new().open_receiver(STDIN)
    {
        return Box::new(input);
    }
    Box::new(tokio::io::stdin())
}

/// Standard output. Needs a Tokio runtime.
pub fn standard_output() -> Box<dyn AsyncWrite + Send + Unpin> {
    #[cfg(target_os = "linux")]
    if is_anonymous_pipe(STDOUT)
        && let Ok(output) = pipe::OpenOptions::new().open_sender(STDOUT)
    {
        return Box::new(output);
    }
    Box::new(tokio::io::stdout())
}
