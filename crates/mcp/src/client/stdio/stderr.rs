//! Keeps the last output of a child on standard error, for error messages.
//!
//! Always reads, so that the child never blocks on a full pipe; keeps a bounded amount, and shows it without the
//! values that the child was configured with. Writes nothing to a log.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::client::redact::Redactor;
use toolgate_wire::foreign_text::stripped;

/// The most bytes kept.
const MAX_KEPT_BYTES: usize = 64 << 10;
/// The most bytes shown in an error.
const MAX_SHOWN_BYTES: usize = 4 << 10;

/// The last bytes of a stream.
#[derive(Debug, Default)]
pub struct StderrTail(Mutex<Tail>);

#[derive(Default)]
struct Tail {
    bytes: VecDeque<u8>,
    redactor: Redactor,
}

impl std::fmt::Debug for Tail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tail({} bytes)", self.bytes.len())
    }
}

impl StderrTail {
    /// Reads until the child closes its end.
    pub(crate) async fn follow(&self, mut stderr: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; 16 << 10];
        while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
            self.push(&chunk[..count]);
        }
    }

    /// Clears the text for a new process, whose secrets these are.
    pub(crate) fn begin(&self, redactor: Redactor) {
        *self.0.lock() = Tail { bytes: VecDeque::new(), redactor };
    }

    /// The last lines, without control characters and secrets.
    pub fn shown(&self) -> String {
        let tail = self.0.lock();
        let (bytes, redactor) = (Vec::from_iter(tail.bytes.iter().copied()), tail.redactor.clone());
        drop(tail);
        // In this order: a secret that is interrupted by control characters, or cut by the bound, must not be shown.
        let text = redactor.redact(&printable(&String::from_utf8_lossy(&bytes)));
        let mut start = text.len().saturating_sub(MAX_SHOWN_BYTES);
        while !text.is_char_boundary(start) {
            start += 1;
        }
        text.get(start..).unwrap_or_default().to_owned()
    }

    fn push(&self, bytes: &[u8]) {
        let kept = &mut self.0.lock().bytes;
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(MAX_KEPT_BYTES);
        kept.drain(..excess);
    }
}

/// Removes control characters, which could move a terminal's cursor or imitate our own output.
fn printable(text: &str) -> String {
    stripped(text).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_end_is_kept() {
        let tail = StderrTail::default();
        let text = "x".repeat(MAX_KEPT_BYTES * 3) + "the end\n";
        tail.follow(text.as_bytes()).await;
        assert_eq!(tail.0.lock().bytes.len(), MAX_KEPT_BYTES);
        assert!(tail.shown().len() <= MAX_SHOWN_BYTES);
        assert!(tail.shown().ends_with("xthe end"));
    }

    #[tokio::test]
    async fn secrets_are_replaced_also_where_the_bound_cuts() {
        let tail = StderrTail::default();
        tail.begin(Redactor::new(&[("TOKEN".to_owned(), "canary-".repeat(8))].into()));
        let text =
            "canary-".repeat(8) + "\x07 and cana\x1bry-" + &"canary-".repeat(7) + &"x".repeat(MAX_SHOWN_BYTES - 20);
        tail.follow(text.as_bytes()).await;
        let shown = tail.shown();
        assert!(!shown.contains("canary") && shown.contains("[TOKEN]xxx"), "{shown}");
        assert!(!format!("{tail:?}").contains("canary"));
    }

    #[tokio::test]
    async fn control_characters_are_removed() {
        let tail = StderrTail::default();
        tail.follow(&b"\x1b[2Jred\x07\r\nnext\xff"[..]).await;
        assert_eq!(tail.shown(), "[2Jred\nnext\u{fffd}");
    }
}
