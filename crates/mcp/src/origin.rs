//! Where a request comes from: the client's name, and the trace that it belongs to.
//!
//! Both are the client's own words: bounded, never trusted, and used for logs and traces only.

use std::fmt::Display;

use serde_json::{Map, Value};

use crate::protocol::META_CLIENT;
use toolgate_wire::foreign_text::{head, one_line};

/// The most characters of a client's name.
const MAX_CLIENT_CHARS: usize = 100;
/// The most characters of a request's id.
const MAX_ID_CHARS: usize = 100;
/// The most bytes of each part of a trace context.
const MAX_TRACE_BYTES: usize = 8 * 1024;

/// What a request says of where it comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestOrigin {
    /// The name and version of the client, if it said.
    pub client: Option<String>,
    /// The trace that the request belongs to.
    pub trace: TraceContext,
    /// Its JSON-RPC id, as JSON text; empty where there was no JSON-RPC.
    pub request_id: String,
    /// The revision of the protocol: the one that it names, or that of its legacy session.
    pub protocol: Option<&'static str>,
    /// The client's number in this process: requests with the same number are of one session. Zero outside of a session.
    pub session: u64,
    /// How the client is connected: `pipe` or `tcp`; empty where there was no MCP.
    pub transport: &'static str,
}

/// The W3C trace context of a request: in its `_meta`, or in its headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceContext {
    /// `00-` trace id `-` span id `-` flags; absent if it is not of this form.
    pub traceparent: Option<String>,
    /// What tracing systems add.
    pub tracestate: Option<String>,
    /// Properties of the whole trace.
    pub baggage: Option<String>,
}

impl RequestOrigin {
    /// What `_meta` of a request says; `introduced` is how the client introduced itself before, if it did.
    pub(crate) fn of(meta: Option<&Map<String, Value>>, introduced: Option<&str>) -> Self {
        let own = meta.and_then(|meta| meta.get(META_CLIENT)).and_then(client_name);
        let client = own.or_else(|| introduced.map(str::to_owned));
        RequestOrigin { client, trace: TraceContext::of(meta), ..RequestOrigin::default() }
    }

    /// The same with the id of the request.
    pub(crate) fn with_request(self, id: &Value) -> Self {
        let request_id = head(&id.to_string(), MAX_ID_CHARS).to_owned();
        RequestOrigin { request_id, ..self }
    }
}

/// The name and version that a client gives itself.
pub(crate) fn client_name(info: &Value) -> Option<String> {
    let text = |key: &str| info.get(key).and_then(Value::as_str).unwrap_or_default().trim();
    let whole = format!("{} {}", text("name"), text("version"));
    let shown = one_line(whole.trim(), MAX_CLIENT_CHARS);
    (!shown.is_empty()).then_some(shown)
}

impl TraceContext {
    fn of(meta: Option<&Map<String, Value>>) -> Self {
        Self::of_texts(|key| meta?.get(key)?.as_str().map(str::to_owned))
    }

    /// What a request says under these three names. A text that is too long or not printable is ignored.
    pub fn of_texts(said: impl Fn(&'static str) -> Option<String>) -> Self {
        let is_accepted =
            |value: &String| value.len() <= MAX_TRACE_BYTES && value.bytes().all(|byte| (b' '..0x7f).contains(&byte));
        let text = |key: &'static str| said(key).filter(is_accepted);
        let traceparent = text("traceparent").filter(|it| is_traceparent(it));
        // Without a trace the rest means nothing.
        let tracestate = traceparent.is_some().then(|| text("tracestate")).flatten();
        TraceContext { traceparent, tracestate, baggage: text("baggage") }
    }

    /// Puts it into `_meta` of a request; what is absent is not put there.
    pub fn add_to(&self, meta: &mut Map<String, Value>) {
        let parts = [("traceparent", &self.traceparent), ("tracestate", &self.tracestate), ("baggage", &self.baggage)];
        for (key, value) in parts {
            if let Some(value) = value {
                meta.insert(key.to_owned(), value.clone().into());
            }
        }
    }

    /// The same trace with another span as the parent of what follows.
    pub fn with_span(&self, trace_id: impl Display, span_id: impl Display) -> Self {
        let flags = if self.traceparent.is_none() || self.is_sampled() { "01" } else { "00" };
        TraceContext { traceparent: Some(format!("00-{trace_id}-{span_id}-{flags}")), ..self.clone() }
    }

    /// The trace id and the span id.
    pub fn ids(&self) -> Option<(&str, &str)> {
        let mut parts = self.traceparent.as_deref()?.split('-').skip(1);
        Some((parts.next()?, parts.next()?))
    }

    /// Whether the client records the trace.
    pub fn is_sampled(&self) -> bool {
        let flags = self.traceparent.as_deref().and_then(|it| it.rsplit('-').next());
        flags.and_then(|flags| u8::from_str_radix(flags, 16).ok()).is_some_and(|flags| flags & 1 == 1)
    }
}

/// Version 00 of the W3C recommendation: no id is all zeros.
fn is_traceparent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [version, trace, span, flags] = parts.as_slice() else { return false };
    let is_hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let is_id = |part: &str, length| is_hex(part, length) && part.bytes().any(|byte| byte != b'0');
    *version == "00" && is_id(trace, 32) && is_id(span, 16) && is_hex(flags, 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn check(meta: Value, expected: Option<&str>) {
        let origin = RequestOrigin::of(meta.as_object(), None);
        assert_eq!(origin.trace.traceparent.as_deref(), expected, "{meta}");
    }

    #[test]
    fn a_trace_context_is_taken_if_it_is_one() {
        check(json!({"traceparent": PARENT}), Some(PARENT));
        check(json!({"traceparent": PARENT.to_uppercase()}), None);
        check(json!({"traceparent": "00-00000000000000000000000000000000-b7ad6b7169203331-01"}), None);
        check(json!({"traceparent": "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}), None);
        check(json!({"traceparent": format!("{PARENT}-x")}), None);
        check(json!({"traceparent": 7}), None);
        let meta = json!({"traceparent": PARENT, "tracestate": "a=b\r\nc", "baggage": "user=ada"});
        let trace = RequestOrigin::of(meta.as_object(), None).trace;
        assert_eq!((trace.tracestate.as_deref(), trace.baggage.as_deref()), (None, Some("user=ada")));
        assert_eq!(trace.ids(), Some(("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")));
        assert!(trace.is_sampled());
        let mut out = Map::new();
        trace.add_to(&mut out);
        assert_eq!(Value::Object(out), json!({"traceparent": PARENT, "baggage": "user=ada"}));
    }

    #[test]
    fn a_client_is_named_by_its_request_or_by_its_introduction() {
        let meta = json!({META_CLIENT: {"name": "agent\n", "version": "2"}});
        assert_eq!(RequestOrigin::of(meta.as_object(), Some("old 1")).client.as_deref(), Some("agent 2"));
        assert_eq!(RequestOrigin::of(None, Some("old 1")).client.as_deref(), Some("old 1"));
        assert_eq!(
            client_name(&json!({"name": "x".repeat(300)})).map(|name| name.len()),
            Some(MAX_CLIENT_CHARS + '…'.len_utf8())
        );
        assert_eq!(client_name(&json!({"name": 7})), None);
    }
}
