//! Reads lines of bounded length from an untrusted stream.
//!
//! A line over the limit is discarded except for its message id, so that its request can be answered. Does not parse JSON
//! otherwise.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::scan::IdScan;

/// A line buffer larger than this is freed after use.
const MAX_KEPT_BUFFER: usize = 1 << 20;

/// One line.
#[derive(Debug, PartialEq)]
pub(crate) enum Line<'a> {
    /// Within bounds.
    Whole(&'a [u8]),
    /// Longer than the limit: discarded, except for the message id in it.
    TooLong { id: Option<Value> },
}

/// Reads lines of at most `limit` bytes.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    limit: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R, limit: usize) -> Self {
        Self { reader: BufReader::with_capacity(64 << 10, reader), line: Vec::new(), limit }
    }

    /// The next line without its newline; none at the end of the stream.
    ///
    /// Not cancel-safe: dropping the future may lose the beginning of a line.
    pub(crate) async fn next(&mut self) -> std::io::Result<Option<Line<'_>>> {
        if self.line.capacity() > MAX_KEPT_BUFFER {
            self.line = Vec::new();
        }
        self.line.clear();
        let mut skipping: Option<IdScan> = None;
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() && self.line.is_empty() && skipping.is_none() {
                return Ok(None);
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let used = part.len() + usize::from(end.is_some());
            let is_last = end.is_some() || chunk.is_empty();
            if let Some(scan) = &mut skipping {
                scan.feed(part);
            } else if self.line.len() + part.len() > self.limit {
                let mut scan = IdScan::default();
                scan.feed(&self.line);
                scan.feed(part);
                self.line = Vec::new();
                skipping = Some(scan);
            } else {
                self.line.extend_from_slice(part);
            }
            self.reader.consume(used);
            if is_last {
                return Ok(Some(match skipping {
                    Some(scan) => Line::TooLong { id: scan.found() },
                    None => Line::Whole(&self.line),
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(text: &str, limit: usize, expected: &[Line<'_>]) {
        let mut lines = Lines::new(text.as_bytes(), limit);
        for line in expected {
            assert_eq!(lines.next().await.unwrap().as_ref(), Some(line));
        }
        assert_eq!(lines.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn lines_end_with_a_newline_or_with_the_stream() {
        check("a\n\nb", 9, &[Line::Whole(b"a"), Line::Whole(b""), Line::Whole(b"b")]).await;
    }

    #[tokio::test]
    async fn a_line_over_the_limit_leaves_its_id_and_the_next_line() {
        check(
            "{\"result\":\"long\",\"id\":8}\nok\n",
            10,
            &[Line::TooLong { id: Some(Value::from(8)) }, Line::Whole(b"ok")],
        )
        .await;
    }

    #[tokio::test]
    async fn a_line_over_the_limit_may_end_with_the_stream() {
        check("{\"id\":1,\"x\":\"yyyyyy", 5, &[Line::TooLong { id: Some(Value::from(1)) }]).await;
    }

    #[tokio::test]
    async fn a_line_at_the_limit_is_whole() {
        check("12345\n", 5, &[Line::Whole(b"12345")]).await;
    }
}
