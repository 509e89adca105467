//! What a child wrote to its standard error: the last of it, for error messages.
//!
//! Always read, so that a chatty child never blocks; never more than a fixed amount kept.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

/// How much is kept.
const KEPT: usize = 64 << 10;
/// How much of that goes into an error.
const SHOWN: usize = 4 << 10;

/// The end of a stream of text.
#[derive(Debug, Default)]
pub struct StderrTail(Mutex<VecDeque<u8>>);

impl StderrTail {
    /// Reads until the child closes its end.
    pub async fn follow(&self, mut stderr: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; 16 << 10];
        while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
            self.push(&chunk[..count]);
        }
    }

    /// Starts over for a new process.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// The last few lines, safe to print.
    pub fn shown(&self) -> String {
        let kept = self.lock();
        let skip = kept.len().saturating_sub(SHOWN);
        let bytes: Vec<u8> = kept.iter().skip(skip).copied().collect();
        drop(kept);
        printable(&String::from_utf8_lossy(&bytes))
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.lock();
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(KEPT);
        kept.drain(..excess);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Control characters could move a terminal's cursor or fake a line of ours.
fn printable(text: &str) -> String {
    let kept = |c: &char| matches!(c, '\n' | '\t') || !c.is_control();
    text.chars().filter(kept).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_end_is_kept() {
        let tail = StderrTail::default();
        let text = "x".repeat(KEPT * 3) + "the end\n";
        tail.follow(text.as_bytes()).await;
        assert_eq!(tail.lock().len(), KEPT);
        assert!(tail.shown().len() <= SHOWN);
        assert!(tail.shown().ends_with("xthe end"));
    }

    #[tokio::test]
    async fn what_is_shown_can_not_drive_a_terminal() {
        let tail = StderrTail::default();
        tail.follow(&b"\x1b[2Jred\x07\r\nnext\xff"[..]).await;
        assert_eq!(tail.shown(), "[2Jred\nnext\u{fffd}");
    }
}
