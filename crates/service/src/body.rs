//! Reads request bodies: JSON, bounded in size and time; errors point to the invalid field.
//!
//! All bodies that are being received or sent share one memory budget, so that many slow clients together cannot hold more
//! than that, and those of one caller leave room for others. What the fields mean is up to the handlers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_json::value::RawValue;
use serde_path_to_error::Segment;

use super::caller_permits::{CallerPermit, CallerPermits};
use super::refusal::Refusal;
use super::{Caller, HttpService};
use toolgate_mcp::{off_runtime, tree_bytes};
use toolgate_wire::foreign_text::{clipped, head};
use toolgate_wire::freed_bytes;

/// The unit of the memory budget, in bytes.
const BUDGET_UNIT: usize = 4 * 1024;

/// The most bytes of memory of the tree of a part of a body.
const MAX_TREE_BYTES: usize = 32 << 20;

/// The memory budget that all bodies share, for one caller.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    bytes: CallerPermits,
    caller: Arc<str>,
}

/// A part of the budget, returned on drop.
#[derive(Debug)]
pub(super) struct Share(CallerPermit);

impl Budget {
    /// The part of a caller in a budget of all.
    pub(super) fn new(bytes: CallerPermits, caller: &str) -> Self {
        Budget { bytes, caller: caller.into() }
    }

    pub(super) fn share(&self) -> Share {
        Share(self.bytes.empty(&self.caller))
    }

    /// Extends a share to this many bytes, or fails at once: a request that waited for memory would keep what it has.
    pub(super) fn cover(&self, share: &mut Share, bytes: usize) -> Result<(), Refusal> {
        if share.cover(bytes) { Ok(()) } else { Err(Refusal::unavailable(NO_MEMORY)) }
    }
}

/// Why there is no share.
pub(super) const NO_MEMORY: &str = "the memory for request and reply bodies is exhausted";

impl Share {
    /// Extends it to this many bytes; false if they are not free for the caller.
    pub(super) fn cover(&mut self, bytes: usize) -> bool {
        let bytes = bytes.div_ceil(BUDGET_UNIT).saturating_mul(BUDGET_UNIT);
        self.0.try_grow(bytes.saturating_sub(self.0.amount()))
    }

    /// The tree of a part of the body, counted in this share beside what it holds already. `pointer` names the part in an error.
    pub(super) fn tree(&mut self, pointer: &str, part: &RawValue) -> Result<Value, Refusal> {
        let text = part.get();
        off_runtime(text.len(), || {
            let bytes = tree_bytes(text, MAX_TREE_BYTES).map_err(|error| Refusal::field(pointer, error.to_string()))?;
            // Lists grow by doubling: while it is built, a tree takes up to half as much again.
            if !self.cover(self.0.amount().saturating_add(bytes + bytes / 2)) {
                return Err(Refusal::unavailable(NO_MEMORY));
            }
            serde_json::from_str(text).map_err(|error| Refusal::field(pointer, bounded_message(&error)))
        })
    }

    /// Gives back what is beyond this many bytes.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        self.0.shrink_to(bytes.div_ceil(BUDGET_UNIT).saturating_mul(BUDGET_UNIT));
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        freed_bytes::note(self.0.amount());
    }
}

/// Limits on the size of a body and the time to receive it.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyLimits {
    pub(super) bytes: usize,
    pub(super) time: Duration,
}

/// A request body as a value; it holds the body's share of the memory budget until the handler has ended.
pub(super) struct Received<T> {
    pub(super) value: T,
    pub(super) share: Share,
}

impl<T: DeserializeOwned> FromRequest<HttpService> for Received<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, service: &HttpService) -> Result<Self, Refusal> {
        let (head, body) = request.into_parts();
        // Admission adds the caller, but for who signs in.
        let budget =
            head.extensions.get::<Caller>().map_or_else(|| service.strangers_budget(), |it| service.budget(it));
        let (text, share) = read(&head.headers, body, service.body_limits(), &budget).await?;
        Ok(Received { value: parse(&text)?, share })
    }
}

/// Reads a whole body, and returns its share of the memory budget.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
    limits: BodyLimits,
    budget: &Budget,
) -> Result<(Vec<u8>, Share), Refusal> {
    if !is_json(headers) {
        return Err(Refusal::UnsupportedMediaType);
    }
    if body.size_hint().lower() > limits.bytes as u64 {
        return Err(Refusal::TooLarge(limits.bytes));
    }
    let reading = collect(body, limits.bytes, budget);
    tokio::time::timeout(limits.time, reading).await.unwrap_or(Err(Refusal::TooSlow(limits.time)))
}

async fn collect(mut body: Body, most: usize, budget: &Budget) -> Result<(Vec<u8>, Share), Refusal> {
    let (mut bytes, mut share) = (Vec::new(), budget.share());
    while let Some(frame) = next_frame(&mut body).await {
        let frame = frame.map_err(|_| Refusal::BadRequest("the body ended before it was complete"))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > most {
            return Err(Refusal::TooLarge(most));
        }
        budget.cover(&mut share, bytes.len() + data.len())?;
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, share))
}

fn next_frame(body: &mut Body) -> impl Future<Output = Option<Result<hyper::body::Frame<Chunk>, axum::Error>>> {
    std::future::poll_fn(|cx| std::pin::Pin::new(&mut *body).poll_frame(cx))
}

type Chunk = <Body as HttpBody>::Data;

fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(kind)) = headers.get(header::CONTENT_TYPE).map(|kind| kind.to_str()) else { return false };
    let essence = kind.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// Parses a JSON object into a type; an error points to the field.
pub(super) fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, Refusal> {
    // A list would be read as the fields of an object in their order, and of other values the type would be named.
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    if first.is_some_and(|byte| *byte != b'{') && serde_json::from_slice::<IgnoredAny>(text).is_ok() {
        return Err(Refusal::field("", "must be an object"));
    }
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let pointer = pointer(error.path());
        Refusal::field(pointer, bounded_message(error.inner()))
    })?;
    reader.end().map_err(|error| Refusal::field("", bounded_message(&error)))?;
    Ok(value)
}

/// Most characters of a message about a body.
const MAX_MESSAGE_CHARS: usize = 300;

/// The message, bounded: serde quotes the invalid value, which may be megabytes.
fn bounded_message(error: &serde_json::Error) -> String {
    clipped(&error.to_string(), MAX_MESSAGE_CHARS).into_owned()
}

/// A JSON pointer (RFC 6901).
fn pointer(path: &serde_path_to_error::Path) -> String {
    let steps = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(format!("/{index}")),
        Segment::Map { key } => Some(format!("/{}", escaped(key))),
        // An enum variant is part of the value, not of the path.
        Segment::Enum { .. } | Segment::Unknown => None,
    });
    steps.collect()
}

/// A key as a token of a JSON pointer, bounded and escaped.
pub(super) fn escaped(key: &str) -> String {
    head(key, 100).replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::RunBody;

    fn check(text: &str, expected: &str) {
        let found = match parse::<RunBody>(text.as_bytes()) {
            Err(Refusal::BadInput { pointer, message }) => format!("{pointer}: {message}"),
            other => format!("{:?}", other.map(|_| ())),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn an_error_points_to_the_field() {
        check(r#"{"code": 1}"#, "/code: invalid type: integer `1`, expected a string at line 1 column 10");
        let list = r#"{"code": "", "functions": ["a", null]}"#;
        check(list, "/functions/1: invalid type: null, expected a string at line 1 column 36");
        let wish = r#"{"code": "", "timeoutMs": -1}"#;
        check(wish, "/timeoutMs: invalid type: integer `-1`, expected a whole number at line 1 column 28");
        let unknown = r#"{"c/o~de": ""}"#;
        assert!(matches!(parse::<RunBody>(unknown.as_bytes()),
            Err(Refusal::BadInput { pointer, .. }) if pointer == "/c~1o~0de"));
    }

    #[test]
    fn text_that_is_no_json_is_refused_as_a_whole() {
        check("", ": EOF while parsing a value at line 1 column 0");
        check(r#"{"code": ""} x"#, ": trailing characters at line 1 column 14");
    }

    #[test]
    fn only_an_object_has_fields() {
        for text in [r#"["return 1", null, null]"#, " []", "null", "\"return 1\"", "7", "true"] {
            check(text, ": must be an object");
        }
    }

    #[test]
    fn the_bodies_of_one_caller_leave_room_for_others() {
        let all = CallerPermits::new(16 * BUDGET_UNIT);
        let (greedy, other) = (Budget::new(all.clone(), "greedy"), Budget::new(all.clone(), "other"));
        let mut shares: Vec<_> = (0..20).map(|_| greedy.share()).collect();
        let held = shares.iter_mut().filter_map(|share| greedy.cover(share, 1).ok()).count();
        assert_eq!(held, 8);
        let mut share = other.share();
        assert_eq!(other.cover(&mut share, 4 * BUDGET_UNIT), Ok(()));
        drop((shares, share));
        assert_eq!(all.used(), 0);
    }

    #[test]
    fn a_tree_is_counted_beside_its_text_and_bounded() {
        let all = CallerPermits::new(64 << 20);
        let mut share = Budget::new(all.clone(), "").share();
        let lists = |count: usize| RawValue::from_string(format!("[{}1]", "[[]],".repeat(count))).expect("JSON");
        assert!(share.cover(BUDGET_UNIT));
        let (text, before) = (lists(20_000), all.used());
        assert!(share.tree("/arguments", &text).is_ok());
        assert!(all.used() > before + 10 * text.get().len(), "{} bytes are counted", all.used());
        let too_large = share.tree("/arguments", &lists(1_000_000));
        assert!(matches!(too_large, Err(Refusal::BadInput { pointer, .. }) if pointer == "/arguments"));
        let mut other = Budget::new(CallerPermits::new(1 << 20), "").share();
        assert_eq!(other.tree("/arguments", &text), Err(Refusal::unavailable(NO_MEMORY)));
        drop(share);
        assert_eq!(all.used(), 0);
    }

    #[test]
    fn the_budget_is_shared_and_given_back() {
        let all = CallerPermits::new(3 * BUDGET_UNIT);
        let budget = Budget::new(all.clone(), "");
        let (mut one, mut two) = (budget.share(), budget.share());
        assert_eq!(budget.cover(&mut one, 1), Ok(()));
        assert_eq!(budget.cover(&mut one, BUDGET_UNIT), Ok(()));
        assert_eq!(budget.cover(&mut two, 2 * BUDGET_UNIT), Ok(()));
        assert_eq!(all.used(), 3 * BUDGET_UNIT);
        assert!(budget.cover(&mut one, BUDGET_UNIT + 1).is_err());
        drop(two);
        assert_eq!(budget.cover(&mut one, BUDGET_UNIT + 1), Ok(()));
    }
}
