//! A WebSocket client for one conversation in texts, over the socket of the gateway.
//!
//! Frames of a client are masked; the mask here is zero, which leaves them as they are. Pings are answered by nothing: no conversation
//! lasts so long.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::os::unix::net::UnixStream;

use crate::gateway::Files;

const TEXT: u8 = 0x1;
const CLOSE: u8 = 0x8;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
/// The longest message that is read.
const MAX_MESSAGE_BYTES: u64 = 64 << 20;

pub(crate) struct Socket(BufReader<UnixStream>);

impl Socket {
    pub(crate) fn open(files: &Files, path: &str) -> Result<Self> {
        let mut stream = files.open()?;
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line)?;
        if !line.starts_with("HTTP/1.1 101") {
            return Err(Error::other(format!("no WebSocket: {line}")));
        }
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(Socket(stream))
    }

    pub(crate) fn send(&mut self, text: &str) -> Result<()> {
        self.0.get_mut().write_all(&frame(text.as_bytes()))
    }

    /// The next text.
    pub(crate) fn receive(&mut self) -> Result<String> {
        let mut text = Vec::new();
        loop {
            let (first, payload) = read_frame(&mut self.0)?;
            match first & 0xf {
                CLOSE => return Err(ErrorKind::UnexpectedEof.into()),
                // A text, or the continuation of one.
                0x0 | TEXT => text.extend(payload),
                _ => continue,
            }
            if first & FINAL != 0 {
                return String::from_utf8(text).map_err(Error::other);
            }
        }
    }
}

/// A text as one masked frame.
fn frame(text: &[u8]) -> Vec<u8> {
    let mut frame = vec![FINAL | TEXT];
    match (u8::try_from(text.len()), u16::try_from(text.len())) {
        (Ok(short), _) if short < 126 => frame.push(MASKED | short),
        (_, Ok(long)) => {
            frame.push(MASKED | 126);
            frame.extend(long.to_be_bytes());
        }
        _ => {
            frame.push(MASKED | 127);
            frame.extend((text.len() as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(text);
    frame
}

/// The first byte of a frame of the gateway, and its payload.
fn read_frame(from: &mut impl Read) -> Result<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    from.read_exact(&mut head)?;
    let [first, length] = head;
    let length = match length {
        126 => {
            let mut long = [0; 2];
            from.read_exact(&mut long)?;
            u16::from_be_bytes(long).into()
        }
        127 => {
            let mut long = [0; 8];
            from.read_exact(&mut long)?;
            u64::from_be_bytes(long)
        }
        short => short.into(),
    };
    if length > MAX_MESSAGE_BYTES {
        return Err(Error::other(format!("a message of {length} bytes")));
    }
    let mut payload = Vec::new();
    from.take(length).read_to_end(&mut payload)?;
    if payload.len() as u64 != length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok((first, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_frames_are_read_as_they_are_written() {
        for length in [0, 1, 125, 126, 65_535, 65_536, 100_000] {
            let text = vec![b'x'; length];
            let mut written = frame(&text);
            // A gateway's frames have no mask.
            let mask_at = written.len() - length - 4;
            written.drain(mask_at..mask_at + 4);
            written[1] &= !MASKED;
            assert_eq!(read_frame(&mut &written[..]).expect("a frame"), (FINAL | TEXT, text));
        }
        assert!(read_frame(&mut &[FINAL | TEXT, 5, b'x'][..]).is_err());
    }
}
