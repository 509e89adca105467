//! The trace that a request belongs to, by its headers: W3C Trace Context and Baggage.
//!
//! The headers are the caller's own words: bounded, ignored where they are not valid, and used for traces only.

use axum::http::{HeaderMap, HeaderValue};
use toolgate_mcp::{RequestOrigin, TraceContext};

/// Where a request comes from, as far as its headers say.
pub(super) fn origin(headers: &HeaderMap) -> RequestOrigin {
    RequestOrigin { trace: context(headers), ..RequestOrigin::default() }
}

/// The trace context of a request. A list may be split over several headers of one name; a request with two `traceparent` headers has no trace.
pub(super) fn context(headers: &HeaderMap) -> TraceContext {
    let found = TraceContext::of_texts(|name| {
        let values: Option<Vec<&str>> = headers.get_all(name).iter().map(text).collect();
        values.filter(|values| !values.is_empty()).map(|values| values.join(","))
    });
    // A proxy may add baggage by itself, which is not for the servers behind: it counts as part of a trace alone.
    let baggage = found.baggage.filter(|_| found.traceparent.is_some());
    TraceContext { baggage, ..found }
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn check(headers: &[(&'static str, &str)], expected: [Option<&str>; 3]) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let TraceContext { traceparent, tracestate, baggage } = context(&map);
        assert_eq!([traceparent.as_deref(), tracestate.as_deref(), baggage.as_deref()], expected, "{headers:?}");
    }

    #[test]
    fn headers_give_the_trace_where_they_are_valid() {
        let parent = ("traceparent", PARENT);
        check(&[], [None; 3]);
        check(&[parent, ("tracestate", "a=b"), ("baggage", "user=ada")], [Some(PARENT), Some("a=b"), Some("user=ada")]);
        check(&[parent, ("tracestate", "a=b"), ("tracestate", " c=d ")], [Some(PARENT), Some("a=b,c=d"), None]);
        check(&[parent, parent], [None; 3]);
        check(&[("traceparent", "00-nonsense"), ("tracestate", "a=b")], [None; 3]);
        check(&[parent, ("baggage", "user=\u{e4}")], [Some(PARENT), None, None]);
        check(&[parent, ("baggage", &"x".repeat(9_000))], [Some(PARENT), None, None]);
    }
}
