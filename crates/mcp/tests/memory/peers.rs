//! Servers that answer one handshake and then every call with one large result: a shell script, and a thread.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

/// The result of the handshake.
const READY: &str =
    r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"large","version":"1"}}"#;

/// How often the repeated part of a result occurs.
const TIMES: usize = 100_000;

/// What a result is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// Small objects, each a large tree.
    Rows,
    /// Numbers of one digit, the largest tree of all.
    Numbers,
    /// One text that is not JSON.
    Text,
    /// One text that spells a list of objects, with an escape before every quote.
    SpelledRows,
}

impl Shape {
    pub(crate) const ALL: [Self; 4] = [Self::Rows, Self::Numbers, Self::Text, Self::SpelledRows];

    /// The beginning, the part that is repeated, and the end of the result.
    fn parts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Rows => (r#"{"structuredContent":[0"#, r#",{"id":1,"name":"row"}"#, "]}"),
            Self::Numbers => (r#"{"structuredContent":[0"#, ",1,2,3,4,5,6,7,8", "]}"),
            Self::Text => (r#"{"content":[{"type":"text","text":""#, "some words and more ", r#""}]}"#),
            Self::SpelledRows => {
                (r#"{"content":[{"type":"text","text":"[0"#, r#",{\"id\":1,\"name\":\"row of some\"}"#, r#"]"}]}"#)
            }
        }
    }

    /// The result.
    pub(crate) fn reply(self) -> String {
        let (start, part, end) = self.parts();
        [start, &part.repeat(TIMES), end].concat()
    }

    /// A shell script that is a server with this result.
    pub(crate) fn script(self) -> String {
        let (start, part, end) = self.parts();
        format!(
            "read line; printf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{READY}}}'; read line; read line; \
             printf '%s' '{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{start}'; \
             yes '{part}' | head -n {TIMES} | tr -d '\\n'; printf '%s\\n' '{end}}}'; cat > /dev/null"
        )
    }
}

/// How a body is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Transfer {
    /// With a `Content-Length`.
    Announced,
    /// In chunks.
    Chunked,
    /// As an event, in chunks.
    Events,
}

/// The response to every call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Body {
    pub(crate) shape: Shape,
    pub(crate) transfer: Transfer,
}

/// Serves in threads of its own until the test ends; returns its URL.
pub(crate) fn serve(body: Body) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || while answer(stream.as_ref().unwrap(), body).is_some() {});
        }
    });
    url
}

fn answer(mut stream: &TcpStream, body: Body) -> Option<()> {
    let request = read_request(stream)?;
    let Some(id) = request.split(r#""id":"#).nth(1).and_then(|rest| rest.split(',').next()) else {
        return stream.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").ok();
    };
    let result = if request.contains("initialize") { READY.to_owned() } else { body.shape.reply() };
    let reply = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    let transfer = if request.contains("initialize") { Transfer::Announced } else { body.transfer };
    let kind = if transfer == Transfer::Events { "text/event-stream" } else { "application/json" };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n");
    if transfer == Transfer::Announced {
        write!(stream, "{head}Content-Length: {}\r\n\r\n{reply}", reply.len()).ok()?;
        return Some(());
    }
    let reply = if transfer == Transfer::Events { format!("data: {reply}\n\n") } else { reply };
    write!(stream, "{head}Transfer-Encoding: chunked\r\n\r\n").ok()?;
    for chunk in reply.as_bytes().chunks(64 << 10) {
        write!(stream, "{:x}\r\n", chunk.len()).ok()?;
        stream.write_all(chunk).ok()?;
        stream.write_all(b"\r\n").ok()?;
    }
    stream.write_all(b"0\r\n\r\n").ok()
}

/// The body of the next request; none at the end of the connection.
fn read_request(stream: &TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    String::from_utf8(body).ok()
}
