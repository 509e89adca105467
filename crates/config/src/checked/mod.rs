//! What the rest of the program may rely on: every value parsed, every variable filled in,
//! every name known. Built only by [`check`], which reports all that is wrong at once.

mod backends;
mod checker;
mod envfile;
mod functions;
mod limits;
mod service;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub use backends::starts_toolgate;
pub use backends::{Backend, Policy, Process, Remote, Transport};
pub use functions::{Function, Target};
pub use limits::Profiles;
pub use service::{Http, Key};

use super::problem::{Problem, Severity};
use super::raw::{self, Raw};
use super::values::{Allowed, BackendName, Bytes, Endpoint, Engine, FunctionName, Isolation, Mode, Store};
use super::vars::Env;
use backends::Servers;
use checker::Checker;

/// A configuration that can be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The file it came from.
    pub file: PathBuf,
    /// The servers to connect to.
    pub backends: BTreeMap<BackendName, Backend>,
    /// The servers that are configured and switched off.
    pub disabled: Vec<BackendName>,
    /// All the rest.
    pub settings: Settings,
    /// What has no effect or may surprise.
    pub warnings: Vec<Problem>,
}

/// Toolgate's own settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// What an agent sees.
    pub mode: Mode,
    /// How scripts are run.
    pub sandbox: Sandbox,
    /// How results are shaped.
    pub output: Output,
    /// Bounds of the gateway as a whole.
    pub limits: Limits,
    /// The folder of the tool cache; none if it is off or there is no home to put it in.
    pub cache: Option<PathBuf>,
    /// The HTTP service.
    pub http: Http,
    /// Configured host functions.
    pub functions: BTreeMap<FunctionName, Function>,
    /// What guarded HTTP may reach beyond the public internet.
    pub guard: Vec<Allowed>,
    /// Where sessions live.
    pub store: Store,
    /// The V8 engine.
    pub v8: V8,
    /// The weather service; none means the public one.
    pub weather: Option<Endpoint>,
    /// Whether agents may add backends.
    pub allow_runtime_registration: bool,
}

/// How scripts are run.
#[derive(Debug, Clone, PartialEq)]
pub struct Sandbox {
    /// The engine; none leaves the choice to the program.
    pub engine: Option<Engine>,
    /// The isolation; none is the platform's default.
    pub isolation: Option<Isolation>,
    /// Runs at once; none is twice the cores, at least 8.
    pub max_concurrent_runs: Option<usize>,
    /// Workers kept ready; none is the engine's default.
    pub pool: Option<usize>,
    /// Limits that differ from the profiles' own.
    pub limits: Profiles,
}

/// How results are shaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Filter by intent.
    pub intent: bool,
    /// Chunk large JSON.
    pub auto_chunk_json: bool,
    /// Keep head and tail.
    pub smart_truncation: bool,
    /// What counts as large.
    pub chunk_threshold: Bytes,
    /// The hard bound.
    pub max_output_size: Bytes,
}

/// Bounds of the gateway as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How long a backend may take to start.
    pub start_timeout: Duration,
    /// How many runs may wait.
    pub max_queued_runs: usize,
    /// How much of reduced results is kept.
    pub result_store: Bytes,
    /// How long it is kept.
    pub result_ttl: Duration,
    /// How long running work may go on at shutdown.
    pub shutdown_grace: Duration,
}

/// The V8 engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V8 {
    /// The deno binary; none means a search on PATH.
    pub deno: Option<PathBuf>,
    /// Processes kept warm.
    pub pool: usize,
    /// Processor time after which a run moves here.
    pub threshold: Duration,
}

/// Checks a file against everything but the world outside: no server is started, no name resolved.
/// (A server's `envFile` is read.)
pub fn check(raw: &Raw, env: &Env) -> Result<Checked, Vec<Problem>> {
    let mut checker = Checker::new(raw, env);
    let toolgate = raw.file.toolgate.as_ref().map(|toolgate| toolgate.value.clone()).unwrap_or_default();
    let limits = value(&toolgate.limits);
    let call = backends::Defaults::check(&mut checker, &limits);
    let servers = backends::check(&mut checker, &raw.file, &toolgate, &call);
    let settings = Settings {
        mode: checker.get(&toolgate.mode).unwrap_or(Mode::Code),
        sandbox: sandbox(&mut checker, &value(&toolgate.sandbox)),
        output: output(&mut checker, &value(&toolgate.output)),
        limits: bounds(&mut checker, &limits),
        cache: cache(&mut checker, &value(&toolgate.cache)),
        http: service::check(&mut checker, &value(&toolgate.http)),
        functions: functions::check(&mut checker, &toolgate, &servers.names, call.timeout),
        guard: checker.list(&value(&toolgate.guard).allow).unwrap_or_default(),
        store: checker.get(&toolgate.store).unwrap_or(Store::Memory),
        v8: v8(&mut checker, &value(&value(&toolgate.engines).v8)),
        weather: checker.get(&value(&toolgate.weather).base_url),
        allow_runtime_registration: flag(&toolgate.allow_runtime_registration, false),
    };
    let mut problems = checker.finish();
    problems.sort_by_key(|problem| problem.position);
    if problems.iter().any(|problem| problem.severity == Severity::Error) {
        return Err(problems);
    }
    let Servers { backends, disabled, .. } = servers;
    Ok(Checked { file: raw.source.file().to_owned(), backends, disabled, settings, warnings: problems })
}

fn sandbox(checker: &mut Checker<'_>, raw: &raw::Sandbox) -> Sandbox {
    Sandbox {
        engine: checker.get(&raw.engine),
        isolation: checker.get(&raw.isolation),
        max_concurrent_runs: checker.count(&raw.max_concurrent_runs, 1..=4096),
        pool: checker.count(&raw.pool, 0..=256),
        limits: limits::check(checker, &value(&raw.limits)),
    }
}

fn output(checker: &mut Checker<'_>, raw: &raw::Output) -> Output {
    let range = Bytes::new(1024)..=Bytes::new(64 << 20);
    Output {
        intent: flag(&raw.intent, true),
        auto_chunk_json: flag(&raw.auto_chunk_json, true),
        smart_truncation: flag(&raw.smart_truncation, true),
        chunk_threshold: checker.size(&raw.chunk_threshold, &range).unwrap_or(Bytes::new(10_240)),
        max_output_size: checker.size(&raw.max_output_size, &range).unwrap_or(Bytes::new(200_000)),
    }
}

fn bounds(checker: &mut Checker<'_>, raw: &raw::Limits) -> Limits {
    let store = Bytes::new(1 << 20)..=Bytes::new(4 << 30);
    Limits {
        start_timeout: checker.period(&raw.start_timeout).unwrap_or(Duration::from_secs(60)),
        max_queued_runs: checker.count(&raw.max_queued_runs, 0..=100_000).unwrap_or(256),
        result_store: checker.size(&raw.result_store, &store).unwrap_or(Bytes::new(64 << 20)),
        result_ttl: checker.period(&raw.result_ttl).unwrap_or(Duration::from_secs(3600)),
        shutdown_grace: checker.period(&raw.shutdown_grace).unwrap_or(Duration::from_secs(10)),
    }
}

fn cache(checker: &mut Checker<'_>, raw: &raw::Cache) -> Option<PathBuf> {
    let dir = match &raw.dir {
        Some(dir) => checker.text(dir).and_then(|text| checker.path(&text, &dir.place)),
        None => checker.env.xdg("XDG_CACHE_HOME", ".cache").map(|cache| cache.join("toolgate")),
    };
    dir.filter(|_| flag(&raw.enabled, true))
}

fn v8(checker: &mut Checker<'_>, raw: &raw::V8) -> V8 {
    let deno =
        raw.deno.as_ref().and_then(|deno| checker.text(deno).and_then(|text| checker.program(&text, &deno.place)));
    let threshold = checker.count(&raw.threshold_ms, 1..=60_000).unwrap_or(50);
    V8 { deno, pool: checker.count(&raw.pool, 0..=16).unwrap_or(1), threshold: Duration::from_millis(threshold as u64) }
}

/// A section that is absent is one without settings.
fn value<T: Clone + Default>(section: &Option<raw::At<T>>) -> T {
    section.as_ref().map(|section| section.value.clone()).unwrap_or_default()
}

fn flag(setting: &Option<raw::At<bool>>, default: bool) -> bool {
    setting.as_ref().map_or(default, |setting| setting.value)
}
