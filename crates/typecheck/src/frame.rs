//! Messages of a language server: JSON with a header that says its length.

use std::io::{self, Read};

use serde_json::Value;

/// Maximum size of a message's header.
const MAX_HEADER: usize = 4 << 10;
/// Maximum size of a message that is read: more is not an answer to what was asked.
const MAX_MESSAGE: usize = 8 << 20;

/// A message as it is sent.
pub(crate) fn encode(message: &Value) -> Vec<u8> {
    let body = message.to_string();
    let mut frame = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    frame.extend_from_slice(body.as_bytes());
    frame
}

/// Cuts a stream into messages.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    received: Vec<u8>,
}

impl FrameReader {
    /// The next message; waits for it as long as `from` does.
    pub(crate) fn next(&mut self, from: &mut impl Read) -> io::Result<Value> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(message);
            }
            let mut chunk = [0u8; 16 << 10];
            match from.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.received.extend_from_slice(chunk.get(..count).unwrap_or_default()),
            }
        }
    }

    /// A message that has arrived completely.
    fn take(&mut self) -> io::Result<Option<Value>> {
        let Some(end) = self.received.windows(4).take(MAX_HEADER).position(|bytes| bytes == b"\r\n\r\n") else {
            return if self.received.len() > MAX_HEADER { Err(invalid("no end of its header")) } else { Ok(None) };
        };
        let header = String::from_utf8_lossy(self.received.get(..end).unwrap_or_default()).to_ascii_lowercase();
        let length = header.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        let length = length.filter(|length| *length <= MAX_MESSAGE).ok_or_else(|| invalid("no length"))?;
        let start = end + 4;
        let Some(body) = self.received.get(start..start + length) else { return Ok(None) };
        let message = serde_json::from_slice(body).map_err(|_| invalid("no JSON"))?;
        self.received.drain(..start + length);
        Ok(Some(message))
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a message of the language server has {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_are_cut_wherever_the_stream_is() {
        let mut bytes = encode(&json!({ "a": "ü" }));
        bytes.extend(encode(&json!([1])));
        let mut reader = FrameReader::default();
        let mut single = bytes.iter().map(|byte| vec![*byte]).collect::<std::collections::VecDeque<_>>();
        struct Bytes<'b>(&'b mut std::collections::VecDeque<Vec<u8>>);
        impl Read for Bytes<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let Some(next) = self.0.pop_front() else { return Ok(0) };
                buffer[..next.len()].copy_from_slice(&next);
                Ok(next.len())
            }
        }
        assert_eq!(reader.next(&mut Bytes(&mut single)).unwrap(), json!({ "a": "ü" }));
        assert_eq!(reader.next(&mut Bytes(&mut single)).unwrap(), json!([1]));
        let end = reader.next(&mut Bytes(&mut single)).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn false_lengths_are_refused() {
        for text in ["Content-Length: 99999999999\r\n\r\n", "Content-Length: x\r\n\r\n", "X: 1\r\n\r\n{}"] {
            let end = FrameReader::default().next(&mut text.as_bytes()).unwrap_err();
            assert_eq!(end.kind(), io::ErrorKind::InvalidData, "{text}");
        }
        let endless = vec![b'x'; MAX_HEADER * 2];
        let end = FrameReader::default().next(&mut endless.as_slice()).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::InvalidData);
    }
}
