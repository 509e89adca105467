//! Spans and durations of runs and calls, by the semantic conventions of OpenTelemetry for MCP and generative AI.
//!
//! A run is a span of kind INTERNAL inside the span of its request (`request_spans`), and each call of the run to a server behind one
//! of kind CLIENT. They are made when a run has ended, by a thread of their own; no run waits for them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, SystemTime};

use toolgate_config::checked::{BackendTransport, TelemetrySettings as Settings};
use toolgate_telemetry::{AttributeValue, Attributes, Collector, Metric, Span, SpanId, SpanKind, Telemetry};
use toolgate_wire::foreign_text::clipped;
use toolgate_wire::{CallErrorCode, CallRecord, CallState, Target};

use super::Gateway;
use super::request_spans::{MAX_NAME_CHARS, OpenRequest};
use toolgate_backends::BackendState;
use toolgate_mcp::TraceContext;
use toolgate_mcp::server::{BegunRequest, RequestTarget};
use toolgate_run::{EndedRun, RunListener, RunTrace};

/// The method of every call of a tool.
const TOOLS_CALL: &str = "tools/call";

/// Sends what it hears to a collector.
pub(super) struct TelemetryListener {
    telemetry: Telemetry,
    /// Knows how backends are connected.
    gateway: OnceLock<Weak<Gateway>>,
}

impl TelemetryListener {
    /// Starts to send; none if there can be no thread for it.
    pub(super) fn start(settings: &Settings) -> Option<Self> {
        let collector = Collector {
            host: settings.host.clone(),
            port: settings.port,
            path: settings.path.clone(),
            headers: settings.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect(),
            service: settings.service_name.clone(),
        };
        match Telemetry::start(collector) {
            Ok(telemetry) => Some(TelemetryListener { telemetry, gateway: OnceLock::new() }),
            Err(error) => {
                tracing::error!(%error, "traces and metrics cannot be sent");
                None
            }
        }
    }

    /// Asks this gateway about backends from now on.
    pub(super) fn ask(&self, gateway: &Arc<Gateway>) {
        let _ = self.gateway.set(Arc::downgrade(gateway));
    }

    /// How a backend is connected, and the revision of the protocol that it speaks.
    fn backend_attributes(&self, name: &str) -> Attributes {
        let mut attributes: Attributes = vec![("toolgate.backend", name.to_owned().into())];
        let Some(gateway) = self.gateway.get().and_then(Weak::upgrade) else { return attributes };
        if let Some(backend) = gateway.config().backends.get(name) {
            let transport = if matches!(backend.transport, BackendTransport::Stdio(_)) { "pipe" } else { "tcp" };
            attributes.push(("network.transport", transport.into()));
        }
        if let Some(BackendState::Ready(ready)) = gateway.backend(name).map(|backend| backend.state()) {
            attributes.push(("mcp.protocol.version", ready.server.protocol.to_string().into()));
        }
        attributes
    }

    /// Waits a moment for the last spans.
    pub(super) fn flush(&self) {
        self.telemetry.flush();
    }
}

impl Gateway {
    /// A request at a door of MCP, if traces are sent.
    pub(crate) fn observe_served(&self, request: &BegunRequest<'_>) -> Option<OpenRequest> {
        self.telemetry.as_ref().map(|telemetry| OpenRequest::served(telemetry.telemetry.clone(), request))
    }

    /// A request that is passed on to a backend.
    pub(crate) fn observe_sent(
        &self,
        backend: &str,
        method: &'static str,
        target: Option<RequestTarget<'_>>,
        trace: &TraceContext,
    ) -> OpenRequest {
        let listener = self.telemetry.as_ref();
        let attributes = listener.map(|listener| listener.backend_attributes(backend)).unwrap_or_default();
        let telemetry = listener.map(|listener| listener.telemetry.clone());
        OpenRequest::sent(telemetry, method, target, trace, attributes)
    }
}

impl RunListener for TelemetryListener {
    fn wants_traces(&self) -> bool {
        true
    }

    fn ended(&self, run: &EndedRun<'_>) {
        let report = &run.report.report;
        let began = run.at.checked_sub(report.elapsed).unwrap_or(SystemTime::UNIX_EPOCH);
        let ids = run.trace.cloned().unwrap_or_else(|| RunTrace::new(&run.origin.trace));
        let request = run.origin.trace.ids().and_then(|(_, span)| SpanId::parse(span));
        let mut spans = Vec::with_capacity(report.calls.len() + 1);
        let error = report.failure().map(|failure| failure.code.name());
        // A call without a program is no run.
        let around = match run.text {
            Some(_) => {
                spans.push(run_span(run, &ids, request, began, error));
                Some(ids.run_span)
            }
            None => request,
        };
        let mut backends = HashMap::new();
        let starts = run.noted.starts().chain(std::iter::repeat(0.0));
        for (call, start) in report.calls.iter().zip(starts) {
            let began = began + Duration::from_secs_f64(start.max(0.0) / 1e3);
            let backend = match &call.target {
                Target::Tool { backend, .. } => {
                    let attributes =
                        backends.entry(backend.as_str()).or_insert_with(|| self.backend_attributes(backend));
                    Some(&*attributes)
                }
                Target::Function(_) => None,
            };
            spans.push(self.call_span(run, &ids, around, call, backend, began));
        }
        self.telemetry.spans(spans);
    }
}

impl TelemetryListener {
    fn call_span(
        &self,
        run: &EndedRun<'_>,
        ids: &RunTrace,
        parent: Option<SpanId>,
        call: &CallRecord,
        backend: Option<&Attributes>,
        began: SystemTime,
    ) -> Span {
        let tool = match &call.target {
            Target::Tool { tool, .. } => tool.as_str(),
            Target::Function(name) => name.as_str(),
        };
        let error = (call.state != CallState::Applied)
            .then(|| call.error_code.as_ref().map_or("unknown", CallErrorCode::as_str))
            .map(|error| clipped(error, MAX_ERROR_CHARS).into_owned());
        let took = Duration::from_secs_f64(call.ms.max(0.0) / 1e3);
        let mut attributes = operation(tool, error.clone());
        if let Some(backend) = backend {
            attributes.extend_from_slice(backend);
            // Programs can invent the names of tools of calls that are not sent.
            if call.state != CallState::NotSent {
                self.telemetry.duration(Metric::ClientOperation, took, &attributes);
            }
        }
        attributes.push(("toolgate.run.id", run.report.id.clone().into()));
        Span {
            name: span_name(tool).into(),
            kind: SpanKind::Client,
            error: error.map(Into::into),
            ..span(ids, SpanId::random(), parent, (began, took), attributes)
        }
    }
}

fn run_span(
    run: &EndedRun<'_>,
    ids: &RunTrace,
    parent: Option<SpanId>,
    began: SystemTime,
    error: Option<&'static str>,
) -> Span {
    let mut attributes: Attributes = vec![
        ("toolgate.run.id", run.report.id.clone().into()),
        ("toolgate.run.door", run.door.name().into()),
        ("toolgate.run.path", run.report.route.name().into()),
        ("toolgate.run.engine", run.report.report.engine.name().into()),
    ];
    attributes.extend(error.map(|error| ("error.type", error.into())));
    let span = span(ids, ids.run_span, parent, (began, run.report.report.elapsed), attributes);
    Span { error: error.map(Into::into), ..span }
}

/// A span inside this process.
fn span(
    ids: &RunTrace,
    span_id: SpanId,
    parent: Option<SpanId>,
    (began, took): (SystemTime, Duration),
    attributes: Attributes,
) -> Span {
    Span {
        trace_id: ids.trace_id,
        span_id,
        parent,
        tracestate: ids.context.tracestate.clone(),
        name: "run".into(),
        kind: SpanKind::Internal,
        began,
        took,
        attributes,
        error: None,
    }
}

/// Codes of errors come from servers.
const MAX_ERROR_CHARS: usize = 100;

/// The name of a span about a call of a tool.
fn span_name(tool: &str) -> String {
    format!("{TOOLS_CALL} {}", clipped(tool, MAX_NAME_CHARS))
}

/// The attributes of one call of a tool, on either side.
fn operation(tool: &str, error: Option<String>) -> Attributes {
    let mut attributes: Attributes = vec![
        ("mcp.method.name", TOOLS_CALL.into()),
        ("gen_ai.tool.name", clipped(tool, MAX_NAME_CHARS).into_owned().into()),
        ("gen_ai.operation.name", "execute_tool".into()),
    ];
    attributes.extend(error.map(|error| ("error.type", AttributeValue::from(error))));
    attributes
}
