//! Spans and durations of MCP requests, by the semantic conventions of OpenTelemetry for MCP.
//!
//! A request at a door of MCP is a span of kind SERVER, one that is passed on to a server behind a span of kind CLIENT inside it;
//! calls of tools to servers behind are in `telemetry`. Names that clients invent are in no name of a span and in no metric: a name
//! counts once the request was answered, which one with an unknown name is not.

use std::time::{Instant, SystemTime};

use toolgate_backends::CallError;
use toolgate_mcp::server::{BegunRequest, RequestEnd, RequestRecord, RequestTarget};
use toolgate_mcp::{RequestOrigin, TraceContext};
use toolgate_telemetry::{AttributeValue, Attributes, Metric, Span, SpanId, SpanKind, Telemetry, TraceId};
use toolgate_wire::foreign_text::clipped;

/// The most characters of the name of a tool, of a prompt and of the URI of a resource.
pub(super) const MAX_NAME_CHARS: usize = 200;
/// The JSON-RPC codes by which errors are counted; servers behind may send any.
const COUNTED_CODES: [i64; 9] = [-32700, -32600, -32601, -32602, -32603, -32002, -32020, -32021, -32022];
/// The class of every other error.
const OTHER_ERROR: &str = "_OTHER";

/// A request that is being served or passed on. One that is dropped before its end was cancelled.
pub(crate) struct OpenRequest {
    /// None where no traces are sent.
    telemetry: Option<Telemetry>,
    kind: SpanKind,
    method: &'static str,
    target: Option<OwnedTarget>,
    trace_id: TraceId,
    span_id: SpanId,
    parent: Option<SpanId>,
    context: TraceContext,
    since: Instant,
    /// Attributes of the span and of its duration.
    measured: Attributes,
    /// Attributes of the span alone.
    told: Attributes,
    is_open: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum OwnedTarget {
    Tool(String),
    Prompt(String),
    Resource(String),
}

impl OwnedTarget {
    fn of(target: RequestTarget<'_>) -> Self {
        let name = |name: &str| clipped(name, MAX_NAME_CHARS).into_owned();
        match target {
            RequestTarget::Tool(tool) => OwnedTarget::Tool(name(tool)),
            RequestTarget::Prompt(prompt) => OwnedTarget::Prompt(name(prompt)),
            RequestTarget::Resource(uri) => OwnedTarget::Resource(name(&without_secrets(uri))),
        }
    }

    fn attribute(&self) -> (&'static str, AttributeValue) {
        match self {
            OwnedTarget::Tool(tool) => ("gen_ai.tool.name", tool.clone().into()),
            OwnedTarget::Prompt(prompt) => ("gen_ai.prompt.name", prompt.clone().into()),
            OwnedTarget::Resource(uri) => ("mcp.resource.uri", uri.clone().into()),
        }
    }

    /// Its name, if there are few of its kind. Resources have as many URIs as there are records.
    fn counted_name(&self) -> Option<&str> {
        match self {
            OwnedTarget::Tool(name) | OwnedTarget::Prompt(name) => Some(name),
            OwnedTarget::Resource(_) => None,
        }
    }
}

/// A URI without credentials, query and fragment.
fn without_secrets(uri: &str) -> String {
    let mut rest = uri.split(['?', '#']).next().unwrap_or_default();
    let mut cleaned = String::with_capacity(rest.len());
    // A URI may have another one inside, such as `fetch://https://ada:secret@host/`.
    while let Some((before, after)) = rest.split_once("://") {
        cleaned.push_str(before);
        cleaned.push_str("://");
        let authority = after.split('/').next().unwrap_or_default();
        rest = authority.rfind('@').map_or(after, |at| &after[at + 1..]);
    }
    cleaned + rest
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestFailure {
    /// A JSON-RPC error.
    Code(i64),
    /// Another class.
    Class(&'static str),
}

impl RequestFailure {
    /// `error.type` of a span.
    fn told(self) -> AttributeValue {
        match self {
            RequestFailure::Code(code) => code.to_string().into(),
            RequestFailure::Class(class) => class.into(),
        }
    }

    /// `error.type` of a duration.
    fn counted(self) -> AttributeValue {
        match self {
            RequestFailure::Code(code) if !COUNTED_CODES.contains(&code) => OTHER_ERROR.into(),
            failure => failure.told(),
        }
    }
}

impl OpenRequest {
    /// A request at our door.
    pub(super) fn served(telemetry: Telemetry, request: &BegunRequest<'_>) -> Self {
        let BegunRequest { method, target, origin } = *request;
        let RequestOrigin { trace, request_id, protocol, session, transport, .. } = origin;
        let mut open = OpenRequest::new(Some(telemetry), SpanKind::Server, method, target, trace);
        open.measured.extend(protocol.map(|protocol| ("mcp.protocol.version", protocol.into())));
        open.measured.push(("network.transport", (*transport).into()));
        open.told.push(("jsonrpc.request.id", request_id.trim_matches('"').to_owned().into()));
        if *session != 0 {
            open.told.push(("mcp.session.id", session.to_string().into()));
        }
        open
    }

    /// A request that is passed on to a server behind, which these attributes describe.
    pub(super) fn sent(
        telemetry: Option<Telemetry>,
        method: &'static str,
        target: Option<RequestTarget<'_>>,
        trace: &TraceContext,
        backend: Attributes,
    ) -> Self {
        let mut open = OpenRequest::new(telemetry, SpanKind::Client, method, target, trace);
        open.measured.extend(backend);
        open
    }

    fn new(
        telemetry: Option<Telemetry>,
        kind: SpanKind,
        method: &'static str,
        target: Option<RequestTarget<'_>>,
        trace: &TraceContext,
    ) -> Self {
        let ids = trace.ids().and_then(|(trace, span)| Some((TraceId::parse(trace)?, SpanId::parse(span)?)));
        let (trace_id, span_id) = (ids.map_or_else(TraceId::random, |(trace, _)| trace), SpanId::random());
        // Without spans of our own the trace is passed on as it came.
        let context = if telemetry.is_some() { trace.with_span(trace_id, span_id) } else { trace.clone() };
        OpenRequest {
            telemetry,
            kind,
            method,
            target: target.map(OwnedTarget::of),
            trace_id,
            span_id,
            parent: ids.map(|(_, span)| span),
            context,
            since: Instant::now(),
            measured: Vec::with_capacity(8),
            told: Vec::with_capacity(4),
            is_open: true,
        }
    }

    /// What a server behind is told of the trace.
    pub(crate) fn context(&self) -> &TraceContext {
        &self.context
    }

    /// The server behind has answered, or not.
    pub(crate) fn answered<T>(mut self, answer: &Result<T, CallError>) {
        self.finish(answer.as_ref().err().map(|error| match error {
            CallError::Rejected { code, .. } => RequestFailure::Code(*code),
            CallError::Timeout { .. } => RequestFailure::Class("timeout"),
            CallError::Cancelled { .. } => RequestFailure::Class("cancelled"),
            CallError::NotReady { .. } | CallError::Unreachable { .. } | CallError::Crashed { .. } => {
                RequestFailure::Class("unavailable")
            }
            _ => RequestFailure::Class(OTHER_ERROR),
        }));
    }

    fn finish(&mut self, failure: Option<RequestFailure>) {
        self.is_open = false;
        let Some(telemetry) = &self.telemetry else { return };
        let took = self.since.elapsed();
        let is_answered = matches!(failure, None | Some(RequestFailure::Class("tool_error")));
        let counted_name = self.target.as_ref().and_then(OwnedTarget::counted_name).filter(|_| is_answered);
        let mut attributes: Attributes = Vec::with_capacity(12);
        attributes.push(("mcp.method.name", self.method.into()));
        if self.method == "tools/call" {
            attributes.push(("gen_ai.operation.name", "execute_tool".into()));
        }
        attributes.append(&mut self.measured);
        let plain = attributes.len();
        attributes.extend(self.target.as_ref().filter(|_| counted_name.is_some()).map(OwnedTarget::attribute));
        attributes.extend(failure.map(|failure| ("error.type", failure.counted())));
        let metric = if self.kind == SpanKind::Server { Metric::ServerOperation } else { Metric::ClientOperation };
        telemetry.duration(metric, took, &attributes);
        attributes.truncate(plain);
        attributes.extend(self.target.as_ref().map(OwnedTarget::attribute));
        attributes.extend(failure.map(|failure| ("error.type", failure.told())));
        if let Some(RequestFailure::Code(code)) = failure {
            attributes.push(("rpc.response.status_code", code.to_string().into()));
        }
        attributes.append(&mut self.told);
        let error = failure.map(|failure| match failure.told() {
            AttributeValue::Text(text) => text,
            AttributeValue::Number(_) | AttributeValue::Flag(_) => OTHER_ERROR.into(),
        });
        telemetry.spans(vec![Span {
            trace_id: self.trace_id,
            span_id: self.span_id,
            parent: self.parent,
            tracestate: self.context.tracestate.clone(),
            name: counted_name.map_or(self.method.into(), |name| format!("{} {name}", self.method).into()),
            kind: self.kind,
            began: SystemTime::now().checked_sub(took).unwrap_or(SystemTime::UNIX_EPOCH),
            took,
            attributes,
            error,
        }]);
    }
}

impl RequestRecord for OpenRequest {
    fn trace(&self) -> &TraceContext {
        &self.context
    }

    fn ended(mut self: Box<Self>, end: RequestEnd) {
        self.finish(match end {
            RequestEnd::Completed => None,
            RequestEnd::ToolFailed => Some(RequestFailure::Class("tool_error")),
            RequestEnd::Failed(code) => Some(RequestFailure::Code(code)),
        });
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if self.is_open {
            self.finish(Some(RequestFailure::Class("cancelled")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(uri: &str, expected: &str) {
        assert_eq!(without_secrets(uri), expected);
    }

    #[test]
    fn a_uri_is_told_without_credentials_and_query() {
        check("file:///home/ada/notes.txt", "file:///home/ada/notes.txt");
        check("https://ada:secret@example.com/a?token=1#x", "https://example.com/a");
        check("fetch://https://ada:secret@example.com/a", "fetch://https://example.com/a");
        check("db://rows@1", "db://1");
        check("toolgate://stats", "toolgate://stats");
        check("urn:a:b?c", "urn:a:b");
    }

    #[test]
    fn codes_that_servers_invent_are_counted_together() {
        assert_eq!(RequestFailure::Code(-32602).counted(), "-32602".into());
        assert_eq!(RequestFailure::Code(1234).counted(), "_OTHER".into());
        assert_eq!(RequestFailure::Code(1234).told(), "1234".into());
    }
}
