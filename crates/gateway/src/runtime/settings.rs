//! From configured values to what the engine, the output pipeline and the stores take.

use toolgate_engine::{Engine, EngineBuilder, EngineChoice, IsolationMode, Reuse, V8Settings};
use toolgate_wire::{LimitRequest, Profile};

use toolgate_config::checked::{BytesInFlight, Settings};
use toolgate_config::values::{self, Isolation};
use toolgate_output::results::ResultLimits;
use toolgate_output::{OutputFormat, OutputSettings};
use toolgate_run::set_process_bytes;

/// An engine as the configuration wants it; the worker program is the caller's to name.
pub fn engine_builder(settings: &Settings) -> EngineBuilder {
    let mut builder = Engine::builder().max_waiting_runs(settings.limits.max_queued_runs);
    builder = match settings.sandbox.isolation {
        Some(Isolation::Process) => builder.isolation(IsolationMode::Process),
        Some(Isolation::Thread) => builder.isolation(IsolationMode::Thread),
        None => builder,
    };
    builder = match settings.sandbox.engine {
        Some(values::Engine::Auto) => builder.engine(EngineChoice::Auto),
        Some(values::Engine::QuickJs) => builder.engine(EngineChoice::QuickJs),
        Some(values::Engine::V8) => builder.engine(EngineChoice::V8),
        None => builder,
    };
    builder = builder.reuse(match settings.sandbox.reuse {
        values::Reuse::Never => Reuse::Never,
        values::Reuse::SameCaller => Reuse::SameCaller,
    });
    builder = builder.v8(v8_settings(settings));
    if let Some(runs) = settings.sandbox.max_concurrent_runs {
        builder = builder.max_concurrent_runs(runs);
    }
    if let Some(ahead) = settings.sandbox.pool {
        builder = builder.workers_ahead(ahead);
    }
    builder
}

/// How V8 is used, as the configuration wants it.
fn v8_settings(settings: &Settings) -> V8Settings {
    let v8 = &settings.v8;
    V8Settings { deno: v8.deno.clone(), ahead: v8.pool, move_after: v8.threshold, ..V8Settings::default() }
}

/// The configured limits of a profile. The configuration accepts what the engine accepts, so they are passed on as they are.
pub(super) fn configured_limits(settings: &Settings, profile: Profile) -> LimitRequest {
    settings.sandbox.limits.of(profile).clone()
}

/// Bounds the bytes that this process holds, where that differs from what is in force. Several gateways of one process
/// share the bound, so one with the usual setting changes nothing.
pub(super) fn bound_process(settings: &Settings, in_force: &BytesInFlight) {
    let wanted = settings.limits.bytes_in_flight.process;
    if wanted != in_force.process {
        set_process_bytes(wanted);
    }
}

/// How results are shaped.
pub(super) fn output_settings(settings: &Settings) -> OutputSettings {
    let output = &settings.output;
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let usual = OutputSettings::default();
    OutputSettings {
        intent: output.intent,
        auto_chunk_json: output.auto_chunk_json,
        smart_truncation: output.smart_truncation,
        chunk_threshold: size(output.chunk_threshold.get()),
        max_output_size: output.max_output_size.map_or(usual.max_output_size, |bytes| size(bytes.get())),
        format: match output.format {
            values::ResultFormat::Auto => OutputFormat::Auto,
            values::ResultFormat::Pretty => OutputFormat::Pretty,
            values::ResultFormat::Compact => OutputFormat::Compact,
            values::ResultFormat::Table => OutputFormat::Table,
        },
    }
}

pub(super) fn result_limits(settings: &Settings) -> ResultLimits {
    ResultLimits {
        max_bytes: usize::try_from(settings.limits.result_store.get()).unwrap_or(usize::MAX),
        time_to_live: settings.limits.result_ttl,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::path::Path;
    use std::time::Duration;
    use toolgate_config::text::{Format, Source};
    use toolgate_config::{Env, check};
    use toolgate_engine::{Request, V8Status};
    use toolgate_mcp::process_budget;
    use toolgate_wire::Code;

    fn settings(toolgate: Value) -> Settings {
        let text = json!({ "mcpServers": {}, "toolgate": toolgate }).to_string();
        let source = Source::new(Path::new("toolgate.json"), Format::Json, &text);
        check(source, &Env::new(None, "/")).unwrap().settings
    }

    #[test]
    fn v8_is_used_as_configured() {
        let v8 = json!({ "deno": "/opt/deno", "pool": 3, "threshold_ms": 80 });
        let expected = V8Settings {
            deno: Some("/opt/deno".into()),
            ahead: 3,
            move_after: Duration::from_millis(80),
            ..V8Settings::default()
        };
        assert_eq!(v8_settings(&settings(json!({ "engines": { "v8": v8 } }))), expected);
        assert_eq!(v8_settings(&settings(json!({}))), V8Settings::default(), "without settings, the engine's own");
    }

    #[test]
    fn the_bytes_of_the_process_are_as_configured() {
        // Larger than usual: other tests of this process go on meanwhile.
        let (more, usual) = (settings(json!({ "limits": { "bytes_in_flight": "300MB" } })), settings(json!({})));
        bound_process(&more, &usual.limits.bytes_in_flight);
        assert_eq!(process_budget().limit(), 300 << 20);
        bound_process(&usual, &more.limits.bytes_in_flight);
        assert_eq!(process_budget().limit(), 256 << 20);
        assert_eq!(usual.limits.bytes_in_flight, BytesInFlight::default());
    }

    #[tokio::test]
    async fn the_configured_engine_is_the_one_that_runs() {
        let configured = settings(json!({
            "sandbox": { "engine": "v8", "isolation": "thread" },
            "engines": { "v8": { "deno": "/nowhere/deno" } },
        }));
        let engine = engine_builder(&configured).build().unwrap();
        let V8Status::Missing { reason } = engine.v8_status() else { panic!("there is no such program") };
        assert!(reason.starts_with("/nowhere/deno is not a deno program"), "{reason}");
        let report = engine.run(Request::new(Profile::Chain, "return 1")).await;
        let failure = report.failure().unwrap();
        assert_eq!((failure.code, &failure.message), (Code::Unavailable, &reason));
    }
}
