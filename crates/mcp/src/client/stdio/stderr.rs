//! Keeps the last output of a child on standard error, for error messages.
//!
//! Always reads, so that the child never blocks on a full pipe; keeps a bounded amount. Writes nothing to a log.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The most bytes kept.
const MAX_KEPT_BYTES: usize = 64 << 10;
/// The most bytes shown in an error.
const MAX_SHOWN_BYTES: usize = 4 << 10;

/// The last bytes of a stream.
#[derive(Debug, Default)]
pub struct StderrTail(Mutex<VecDeque<u8>>);

impl StderrTail {
    /// Reads until the child closes its end.
    pub(crate) async fn follow(&self, mut stderr: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; 16 << 10];
        while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
            self.push(&chunk[..count]);
        }
    }

    /// Clears the text for a new process.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    /// The last lines, without control characters.
    pub fn shown(&self) -> String {
        let kept = self.0.lock();
        let skip = kept.len().saturating_sub(MAX_SHOWN_BYTES);
        let bytes: Vec<u8> = kept.iter().skip(skip).copied().collect();
        drop(kept);
        printable(&String::from_utf8_lossy(&bytes))
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock();
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(MAX_KEPT_BYTES);
        kept.drain(..excess);
    }
}

/// Removes control characters, which could move a terminal's cursor or imitate our own output.
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
        let text = "x".repeat(MAX_KEPT_BYTES * 3) + "the end\n";
        tail.follow(text.as_bytes()).await;
        assert_eq!(tail.0.lock().len(), MAX_KEPT_BYTES);
        assert!(tail.shown().len() <= MAX_SHOWN_BYTES);
        assert!(tail.shown().ends_with("xthe end"));
    }

    #[tokio::test]
    async fn control_characters_are_removed() {
        let tail = StderrTail::default();
        tail.follow(&b"\x1b[2Jred\x07\r\nnext\xff"[..]).await;
        assert_eq!(tail.shown(), "[2Jred\nnext\u{fffd}");
    }
}
