//! Entry points for the fuzz targets: what a peer sends, read as the connections read it.
//!
//! Not for other callers. Each function panics where a rule of the reader is broken, and returns nothing.

use serde_json::Value;
use toolgate_wire::ByteBudget;

use crate::client::http::sse::{Event, Events};
use crate::framing::lines::id_in;
use crate::json_text::{JsonText, range_in, small_tree};
use crate::result::{ToolResult, Wrapping};
use crate::rpc::{self, Incoming};
use crate::server::message::Message;

/// Bound of one message, so that the bound itself is met.
const MAX_BYTES: usize = 64 << 10;

/// A line of a server: the client's side.
pub fn server_line(line: &[u8]) {
    let budget = ByteBudget::new("a fuzz target", MAX_BYTES);
    let _ = id_in(line);
    let Ok(text) = JsonText::read(line.to_vec(), budget.empty_permit()) else {
        // Short enough not to be nested too deeply.
        let is_json = std::str::from_utf8(line).is_ok_and(|text| serde_json::from_str::<Value>(text).is_ok());
        assert!(!is_json || line.len() > 128, "JSON is refused");
        return;
    };
    for message in rpc::messages(&text) {
        if let Incoming::Reply { outcome: Ok(result), .. } = rpc::classify(message) {
            let part = range_in(text.as_str(), result);
            assert_eq!(text.as_str().get(part), Some(result), "a result is a part of its message");
            if let Ok(result) = JsonText::counted(result.to_owned(), &budget) {
                read_result(result);
            }
        }
    }
    assert_eq!(budget.used(), 0, "every byte that was counted is given back");
}

fn read_result(text: JsonText) {
    let result = ToolResult::new(text);
    let _ = (result.result_type(), result.requests_input(), result.input_requests(), result.fault());
    let value = result.into_value(Wrapping::of_schema(None));
    assert!(serde_json::from_str::<serde::de::IgnoredAny>(value.as_str()).is_ok(), "a value is JSON");
}

/// A message of a client: the server's side.
pub fn client_message(bytes: &[u8]) {
    let budget = ByteBudget::new("a fuzz target", MAX_BYTES);
    let Ok(text) = JsonText::read(bytes.to_vec(), budget.empty_permit()) else { return };
    let _ = small_tree(text.as_str());
    let Ok((tree, _permit)) = text.into_tree(MAX_BYTES) else { return };
    let messages = match tree {
        Value::Array(messages) => messages,
        other => vec![other],
    };
    messages.into_iter().for_each(|message| drop(Message::read(message)));
}

/// A stream of events, in two parts: where it is cut changes nothing.
pub fn events(bytes: &[u8], cut: usize) {
    let (first, second) = bytes.split_at(cut.min(bytes.len()));
    assert_eq!(events_of(&[bytes]), events_of(&[first, second]), "a cut at {cut}");
}

/// The data, the id and the delay of an event.
type EventParts = (Option<Vec<u8>>, Option<String>, Option<u64>);

/// The events, and whether the stream was refused.
fn events_of(parts: &[&[u8]]) -> (Vec<EventParts>, bool) {
    let mut events = Events::new(ByteBudget::new("a fuzz target", 8 * MAX_BYTES), MAX_BYTES);
    let mut found = Vec::new();
    let is_refused = parts.iter().any(|part| events.feed(part, &mut found).is_err());
    let parts = |event: Event| (event.data.map(|(data, _)| data), event.id, event.retry);
    (found.into_iter().map(parts).collect(), is_refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_formed_input_of_every_kind_passes() {
        server_line(
            br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"a\":1}"}],"isError":true}}"#,
        );
        server_line(br#"[{"id":"2","error":{"code":1,"message":"x"}},{"method":"m"}]"#);
        server_line(b"no JSON");
        client_message(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#);
        let stream = b"id: 1\r\ndata: {}\r\n\r\nretry: 5\n\ndata:a\ndata:b\n\n";
        for cut in 0..=stream.len() {
            events(stream, cut);
        }
    }
}
