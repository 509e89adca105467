//! Spans and durations of runs and calls, by the semantic conventions of OpenTelemetry for MCP and generative AI.
//!
//! A request at a door of MCP is a span of kind SERVER, the run inside it one of kind INTERNAL, and each call of the run to a server
//! behind one of kind CLIENT. They are made when a run has ended; nothing waits for them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, SystemTime};

use toolgate_config::checked::{BackendTransport, TelemetrySettings as Settings};
use toolgate_telemetry::{Attributes, Collector, Metric, Span, SpanKind, Telemetry, new_span_id, new_trace_id};
use toolgate_wire::foreign_text::clipped;
use toolgate_wire::{CallRecord, CallState, Target};

use super::Gateway;
use toolgate_backends::BackendState;
use toolgate_run::{Door, EndedRun, RunListener, RunTrace};

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
        let mut attributes: Attributes = vec![("toolgate.backend", name.into())];
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

impl RunListener for TelemetryListener {
    fn wants_traces(&self) -> bool {
        true
    }

    fn ended(&self, run: &EndedRun<'_>) {
        let report = &run.report.report;
        let began = SystemTime::now().checked_sub(report.elapsed).unwrap_or(SystemTime::UNIX_EPOCH);
        let ids = run.trace.cloned().unwrap_or_else(|| RunTrace {
            trace_id: run.origin.trace.ids().map_or_else(new_trace_id, |(trace, _)| trace.to_owned()),
            door_span: new_span_id(),
            run_span: new_span_id(),
            context: run.origin.trace.clone(),
        });
        let client = run.origin.trace.ids().map(|(_, span)| span.to_owned());
        let mut spans = Vec::with_capacity(report.calls.len() + 2);
        let error = report.failure().map(|failure| failure.code.name());
        let inside = match run.door {
            Door::Mcp(tool) => {
                let name = direct_name(run).unwrap_or(tool);
                spans.push(self.door_span(run, &ids, client, name, began, error));
                Some(ids.door_span.clone())
            }
            Door::Api | Door::CommandLine | Door::Http | Door::WebSocket | Door::Durable => client,
        };
        // A call without a program is no run.
        let around = match run.text {
            Some(_) => {
                spans.push(run_span(run, &ids, inside, began, error));
                Some(ids.run_span.clone())
            }
            None => inside,
        };
        let mut backends = HashMap::new();
        for (at, call) in report.calls.iter().enumerate() {
            let start = run.call_starts.get(at).copied().unwrap_or_default();
            let began = began + Duration::from_secs_f64(start.max(0.0) / 1e3);
            let backend = match &call.target {
                Target::Tool { backend, .. } => {
                    let attributes =
                        backends.entry(backend.as_str()).or_insert_with(|| self.backend_attributes(backend));
                    Some(&*attributes)
                }
                Target::Function(_) => None,
            };
            spans.push(self.call_span(run, &ids, around.clone(), call, backend, began));
        }
        self.telemetry.spans(spans);
    }
}

impl TelemetryListener {
    fn door_span(
        &self,
        run: &EndedRun<'_>,
        ids: &RunTrace,
        parent: Option<String>,
        tool: &str,
        began: SystemTime,
        error: Option<&'static str>,
    ) -> Span {
        let origin = run.origin;
        let mut attributes = operation(tool, error);
        if !origin.transport.is_empty() {
            attributes.push(("network.transport", origin.transport.into()));
        }
        self.telemetry.duration(Metric::ServerOperation, run.report.report.elapsed, &attributes);
        if !origin.request_id.is_empty() {
            attributes.push(("jsonrpc.request.id", origin.request_id.trim_matches('"').into()));
        }
        if origin.session != 0 {
            attributes.push(("mcp.session.id", origin.session.to_string().into()));
        }
        attributes.extend(origin.protocol.as_deref().map(|protocol| ("mcp.protocol.version", protocol.into())));
        let name = span_name(tool);
        Span {
            name,
            kind: SpanKind::Server,
            ..span(ids, &ids.door_span, parent, (began, run.report.report.elapsed), attributes, error)
        }
    }

    fn call_span(
        &self,
        run: &EndedRun<'_>,
        ids: &RunTrace,
        parent: Option<String>,
        call: &CallRecord,
        backend: Option<&Attributes>,
        began: SystemTime,
    ) -> Span {
        let tool = match &call.target {
            Target::Tool { tool, .. } => tool.as_str(),
            Target::Function(name) => name.as_str(),
        };
        let error = (call.state != CallState::Applied).then(|| call.error_code.as_deref().unwrap_or("unknown"));
        let took = Duration::from_secs_f64(call.ms.max(0.0) / 1e3);
        let mut attributes = operation(tool, error);
        if let Some(backend) = backend {
            attributes.extend_from_slice(backend);
            // Programs can invent the names of tools of calls that are not sent.
            if call.state != CallState::NotSent {
                self.telemetry.duration(Metric::ClientOperation, took, &attributes);
            }
        }
        attributes.push(("toolgate.run.id", run.report.id.as_str().into()));
        let name = span_name(tool);
        Span { name, kind: SpanKind::Client, ..span(ids, &new_span_id(), parent, (began, took), attributes, error) }
    }
}

fn run_span(
    run: &EndedRun<'_>,
    ids: &RunTrace,
    parent: Option<String>,
    began: SystemTime,
    error: Option<&'static str>,
) -> Span {
    let mut attributes: Attributes = vec![
        ("toolgate.run.id", run.report.id.as_str().into()),
        ("toolgate.run.door", run.door.name().into()),
        ("toolgate.run.path", run.report.route.name().into()),
        ("toolgate.run.engine", run.report.report.engine.name().into()),
    ];
    attributes.extend(error.map(|error| ("error.type", error.into())));
    span(ids, &ids.run_span, parent, (began, run.report.report.elapsed), attributes, error)
}

/// A span inside this process.
fn span(
    ids: &RunTrace,
    span_id: &str,
    parent: Option<String>,
    (began, took): (SystemTime, Duration),
    attributes: Attributes,
    error: Option<&str>,
) -> Span {
    Span {
        trace_id: ids.trace_id.clone(),
        span_id: span_id.to_owned(),
        parent,
        tracestate: ids.context.tracestate.clone(),
        name: "run".to_owned(),
        kind: SpanKind::Internal,
        began,
        took,
        attributes,
        error: error.map(str::to_owned),
    }
}

/// Names of tools come from programs.
const MAX_TOOL_CHARS: usize = 200;
const MAX_ERROR_CHARS: usize = 100;

/// The name of a span about a call of a tool.
fn span_name(tool: &str) -> String {
    format!("{TOOLS_CALL} {}", clipped(tool, MAX_TOOL_CHARS))
}

/// The attributes of one call of a tool, on either side.
fn operation(tool: &str, error: Option<&str>) -> Attributes {
    let mut attributes: Attributes = vec![
        ("mcp.method.name", TOOLS_CALL.into()),
        ("gen_ai.tool.name", clipped(tool, MAX_TOOL_CHARS).into_owned().into()),
        ("gen_ai.operation.name", "execute_tool".into()),
    ];
    attributes.extend(error.map(|error| ("error.type", clipped(error, MAX_ERROR_CHARS).into_owned().into())));
    attributes
}

/// The tool that a client called without a program.
fn direct_name<'a>(run: &'a EndedRun<'_>) -> Option<&'a str> {
    match (run.text, run.report.report.calls.first().map(|call| &call.target)) {
        (None, Some(Target::Tool { tool, .. })) => Some(tool),
        _ => None,
    }
}
