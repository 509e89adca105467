//! The audit log of a gateway: from calls and runs to records.
//!
//! An observer: it returns nothing and waits for nothing. One record for each call at the end of its run, one before each call
//! that may have an effect, so that a killed process leaves a trace of it, and one for each run.

use serde_json::{Map, Value, json};
use toolgate_audit::{AuditLog, AuditSettings, digest};
use toolgate_config::Checked;
use toolgate_config::checked::Audit;
use toolgate_mcp::client::ToolChange;
use toolgate_wire::{CallRecord, CallState, CallerScope};

use toolgate_run::{ArgumentsWanted, BegunCall, Door, EndedRun, RunListener};
use toolgate_wire::foreign_text::clipped;

/// Whether the audit log of a configuration can be written, if it asks for one. An audit that is asked for and not kept must be
/// noticed at the start.
///
/// # Errors
/// If it cannot.
pub fn check_audit(config: &Checked) -> std::io::Result<()> {
    config.settings.audit.as_ref().map_or(Ok(()), |settings| AuditListener::open(settings).map(drop))
}

/// Writes what it hears to the log.
pub(super) struct AuditListener {
    log: AuditLog,
    arguments: ArgumentsWanted,
}

impl AuditListener {
    /// Begins to write.
    pub(super) fn open(settings: &Audit) -> std::io::Result<Self> {
        let log = AuditLog::open(AuditSettings {
            file: settings.file.clone(),
            max_bytes: settings.max_size.get(),
            keep: settings.keep,
        })?;
        let arguments = if settings.arguments { ArgumentsWanted::Redacted } else { ArgumentsWanted::Digests };
        Ok(AuditListener { log, arguments })
    }

    /// Notes tools that changed what they say.
    pub(super) fn tools_changed(&self, backend: &str, changes: &[ToolChange]) {
        for change in changes.iter().take(MAX_CHANGES) {
            let parts: Vec<&str> = change.parts.iter().map(|part| part.name()).collect();
            let mut record = Map::new();
            record.insert("event".into(), "tool-changed".into());
            record.insert("target".into(), shown(&format!("{backend}.{}", change.tool)));
            record.insert("parts".into(), parts.into());
            self.log.record(record);
        }
    }

    /// Waits a moment for the last records.
    pub(super) fn flush(&self) {
        self.log.flush();
    }
}

impl RunListener for AuditListener {
    fn ended(&self, run: &EndedRun<'_>) {
        let report = &run.report.report;
        let mut records = Vec::with_capacity(report.calls.len() + 1);
        for (at, call) in report.calls.iter().enumerate() {
            let mut record = begin_ended("call", run);
            add_call(&mut record, at, call, run);
            records.push(record);
        }
        let mut record = begin_ended("run", run);
        // The text of a durable run that this process did not execute is not known here.
        record.insert("program".into(), run.text.filter(|text| !text.is_empty()).map(digest).into());
        record.insert("calls".into(), report.calls.len().into());
        record.insert("outcome".into(), report.failure().map_or("ok", |failure| failure.code.name()).into());
        record.insert("ms".into(), rounded(report.execution_ms()));
        records.push(record);
        self.log.records(run.at, records);
    }

    fn call_begins(&self, call: &BegunCall<'_>) {
        let mut record = begin("call-begins", call.door, call.caller, call.origin.client.as_deref(), call.run);
        record.insert("target".into(), shown(&call.target.to_string()));
        record.insert("digest".into(), call.digest.into());
        self.log.record(record);
    }

    fn wants_arguments(&self) -> ArgumentsWanted {
        self.arguments
    }
}

fn begin_ended(event: &str, run: &EndedRun<'_>) -> Map<String, Value> {
    let mut record = begin(event, run.door, run.caller, run.origin.client.as_deref(), &run.report.id);
    if run.report.is_durable {
        record.insert("durable".into(), true.into());
    }
    record
}

fn begin(event: &str, door: Door, caller: &CallerScope, client: Option<&str>, run: &str) -> Map<String, Value> {
    let who = if caller.name.is_empty() { "local" } else { &caller.name };
    let mut record = Map::new();
    record.insert("event".into(), event.into());
    record.insert("who".into(), who.into());
    record.insert("client".into(), client.into());
    record.insert("door".into(), door.name().into());
    record.insert("run".into(), run.into());
    record
}

fn add_call(record: &mut Map<String, Value>, at: usize, call: &CallRecord, run: &EndedRun<'_>) {
    record.insert("call".into(), (at + 1).into());
    record.insert("target".into(), shown(&call.target.to_string()));
    record.insert("digest".into(), run.noted.digest(at).into());
    record.insert("bytes".into(), call.request_bytes.into());
    record.insert("readOnly".into(), call.read_only.into());
    add_decision(record, call);
    let outcome = match call.state {
        CallState::Applied => "applied",
        CallState::Failed => "failed",
        CallState::NotSent => "not_sent",
        CallState::Unknown => "unknown",
    };
    record.insert("outcome".into(), outcome.into());
    record.insert("code".into(), call.error_code.as_ref().map_or(Value::Null, |code| shown(code.as_str())));
    record.insert("ms".into(), rounded(call.ms));
    if let Some(arguments) = run.noted.arguments(at) {
        record.insert("arguments".into(), arguments);
    }
}

/// Which rule decided about the call, how, and what a person did who was asked. Without rules every permitted call is allowed.
fn add_decision(record: &mut Map<String, Value>, call: &CallRecord) {
    let decision = call.decision.as_deref();
    record.insert("rule".into(), decision.and_then(|it| it.rule.clone()).into());
    record.insert("decision".into(), decision.map_or("allow", |it| it.action).into());
    record.insert("verdict".into(), decision.and_then(|it| it.verdict).into());
    record.insert("reviewer".into(), decision.and_then(|it| it.reviewer.clone()).into());
    if let Some(sent) = decision.and_then(|it| it.sent_arguments.as_deref()) {
        record.insert("sentDigest".into(), digest(sent).into());
    }
}

/// Records of tools that changed at once.
const MAX_CHANGES: usize = 100;
/// Most characters of a name in a line.
const MAX_NAME_CHARS: usize = 300;

/// A name that comes from a program, bounded.
fn shown(name: &str) -> Value {
    clipped(name, MAX_NAME_CHARS).into_owned().into()
}

fn rounded(ms: f64) -> Value {
    json!((ms * 1e3).round() / 1e3)
}
