//! Reads lines of bounded length from an untrusted stream.
//!
//! A line that is over its limit, or does not fit into the byte budget, is discarded except for its message id, so that
//! its request can be answered. Does not parse JSON otherwise.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use toolgate_json::MemberScan;
use toolgate_wire::{ByteBudget, BytePermit};

use crate::buffer::{Buffer, Overflow};

/// One line.
#[derive(Debug)]
pub(crate) enum Line {
    /// Within bounds, and the permit that counts it.
    Whole(Vec<u8>, BytePermit),
    /// Discarded for this reason, except for the message id in it.
    Discarded { id: Option<Value>, reason: Overflow },
}

/// Reads lines of at most `limit` bytes.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    budget: ByteBudget,
    limit: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R, budget: ByteBudget, limit: usize) -> Self {
        Self { reader: BufReader::with_capacity(64 << 10, reader), budget, limit }
    }

    /// The next line without its newline; none at the end of the stream.
    ///
    /// Not cancel-safe: dropping the future may lose the beginning of a line.
    pub(crate) async fn next(&mut self) -> std::io::Result<Option<Line>> {
        let mut line = Buffer::new(&self.budget, self.limit);
        let mut discarding: Option<(MemberScan, Overflow)> = None;
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() && line.is_empty() && discarding.is_none() {
                return Ok(None);
            }
            let end = memchr::memchr(b'\n', chunk);
            let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
            let used = part.len() + usize::from(end.is_some());
            let is_last = end.is_some() || chunk.is_empty();
            if let Some((scan, _)) = &mut discarding {
                scan.feed(part);
            } else if let Err(reason) = line.push(part) {
                let mut scan = MemberScan::new("id");
                scan.feed(line.as_slice());
                scan.feed(part);
                line = Buffer::new(&self.budget, self.limit);
                discarding = Some((scan, reason));
            }
            self.reader.consume(used);
            if is_last {
                return Ok(Some(match discarding {
                    Some((scan, reason)) => Line::Discarded { id: scan.found().and_then(id_of), reason },
                    None => {
                        let (bytes, permit) = line.finish();
                        Line::Whole(bytes, permit)
                    }
                }));
            }
        }
    }
}

/// The id of a message that is not valid JSON.
pub(crate) fn id_in(line: &[u8]) -> Option<Value> {
    MemberScan::of("id", line).as_deref().and_then(id_of)
}

/// A string or a number that is not negative, which ids are.
fn id_of(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(|id: &Value| id.is_string() || id.is_u64())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(text: &str, limit: usize, expected: &[Result<&str, u64>]) {
        let mut lines = Lines::new(text.as_bytes(), ByteBudget::unlimited(), limit);
        for line in expected {
            match (lines.next().await.unwrap(), line) {
                (Some(Line::Whole(found, _)), Ok(text)) => assert_eq!(found, text.as_bytes()),
                (Some(Line::Discarded { id, reason: Overflow::TooLong }), Err(expected)) => {
                    assert_eq!(id, Some(Value::from(*expected)));
                }
                (found, expected) => panic!("{found:?} is not {expected:?}"),
            }
        }
        assert!(lines.next().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn lines_end_with_a_newline_or_with_the_stream() {
        check("a\n\nb", 9, &[Ok("a"), Ok(""), Ok("b")]).await;
    }

    #[tokio::test]
    async fn a_line_over_the_limit_leaves_its_id_and_the_next_line() {
        check("{\"result\":\"long\",\"id\":8}\nok\n", 10, &[Err(8), Ok("ok")]).await;
    }

    #[tokio::test]
    async fn a_line_over_the_limit_may_end_with_the_stream() {
        check("{\"id\":1,\"x\":\"yyyyyy", 5, &[Err(1)]).await;
    }

    #[tokio::test]
    async fn a_line_at_the_limit_is_whole() {
        check("12345\n", 5, &[Ok("12345")]).await;
    }

    #[tokio::test]
    async fn a_line_over_the_budget_leaves_its_id_and_holds_nothing() {
        let budget = ByteBudget::new("b", 100_000);
        let text = format!("{{\"id\":3,\"result\":\"{}\"}}\nok\n", "x".repeat(1_000_000));
        let mut lines = Lines::new(text.as_bytes(), budget.clone(), 1 << 30);
        let Some(Line::Discarded { id, reason: Overflow::OverBudget(_) }) = lines.next().await.unwrap() else {
            panic!("kept");
        };
        assert_eq!((id, budget.used()), (Some(Value::from(3)), 0));
        assert!(matches!(lines.next().await.unwrap(), Some(Line::Whole(line, _)) if line == b"ok"));
    }

    #[test]
    fn an_id_is_a_string_or_a_whole_number() {
        assert_eq!(id_in(br#"{"id":"17","x"#), Some(Value::from("17")));
        assert_eq!(id_in(br#"{"id":17,"x"#), Some(Value::from(17)));
        assert_eq!(id_in(br#"{"id":null,"result":1}"#), None);
        assert_eq!(id_in(br#"{"id":99999999999999999999999999,"result":1}"#), None);
    }
}
