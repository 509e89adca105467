//! The validated configuration: every value parsed, every variable substituted, every reference resolved.
//!
//! Built only by `check`, which reports all problems at once.

mod agent;
mod audit;
mod backends;
mod checker;
mod commands;
mod envfile;
mod functions;
mod limits;
mod login;
mod openapi;
mod parts;
mod policy;
mod runs;
mod secret_values;
mod server_sandbox;
mod service;
mod telemetry;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

pub use agent::{AgentTools, DataSource, Weather};
pub use audit::Audit;
pub use backends::starts_toolgate;
pub use backends::{BackendConfig, BackendPolicy, BackendTransport, Process, Remote, ToolTraits};
pub use functions::{Function, FunctionEffect, FunctionTarget};
pub use login::LoginSettings;
pub use openapi::{OpenApi, SpecSource};
pub use runs::{RunStore, Runs};
pub use secret_values::SecretValues;
pub use server_sandbox::ServerSandbox;
pub use service::{Http, HttpOAuth, Key, OAuthScope};
pub use telemetry::TelemetrySettings;

use super::problem::{Problem, Unset};
use super::raw::{self, Raw};
use super::text::split_path;
use super::values::{
    Allowed, BackendName, Bytes, EgressWord, Engine, FunctionName, Isolation, Mode, ResultFormat, Reuse, SecretPlace,
    StoreSetting,
};
use super::vars::Env;
use backends::Servers;
use checker::{Checker, Findings};
use parts::FilePart;
use toolgate_wire::{LimitRequest, Profiles};

/// A validated configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The file it came from.
    pub file: PathBuf,
    /// The servers to connect to.
    pub backends: BTreeMap<BackendName, BackendConfig>,
    /// The disabled servers.
    pub disabled: Vec<BackendName>,
    /// The servers that cannot be started as they are written. They do not keep the others from being used.
    pub incomplete: BTreeMap<BackendName, Incomplete>,
    /// Toolgate's own settings.
    pub settings: Settings,
    /// Files besides its own that values came from, or that are missing for them. A change of one may change values.
    pub files: BTreeSet<PathBuf>,
    /// Servers with values that commands print, which may change without a change of any file.
    pub commanded: BTreeSet<BackendName>,
    /// The values that are secrets, also those of servers that cannot be started as they are written.
    pub secrets: SecretValues,
    /// Settings that have no effect or may be mistakes.
    pub warnings: Vec<Problem>,
}

impl Checked {
    /// The file of approvals that stand for later calls, one for each configuration: another one has other servers, and an
    /// approval is about the calls of one.
    pub fn remembered_rules_file(&self) -> Option<PathBuf> {
        let folder = self.settings.remembered_rules.as_ref()?;
        Some(folder.join(format!("{:016x}.json", runs::hash(&self.file))))
    }
}

/// A server that needs configuration: a variable or a secret is not set, a file is missing, the URL is invalid, or its
/// settings under `toolgate.backends` are.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Incomplete {
    /// What is wrong; at least one.
    pub problems: Vec<Problem>,
    /// What can be told of how to start or connect to it, without the values that cannot be read.
    pub transport: Option<BackendTransport>,
}

impl Incomplete {
    /// The environment variables and secrets that are not set, without repetitions.
    pub fn unset(&self) -> Vec<&Unset> {
        let mut names: Vec<&Unset> = self.problems.iter().filter_map(|problem| problem.unset.as_ref()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The variables, headers and credentials whose values cannot be used for another reason: a file is missing, a command failed.
    pub fn unusable(&self) -> BTreeSet<(ValueSection, String)> {
        let others = self.problems.iter().filter(|problem| problem.unset.is_none());
        others.filter_map(|problem| ValueSection::of_setting(&problem.path)).collect()
    }

    /// One line for people and models: `needs configuration: set GITHUB_TOKEN`.
    pub fn reason(&self) -> String {
        format!("needs configuration: {}", self.lacks())
    }

    /// What has to be done: `set GITHUB_TOKEN`.
    pub fn lacks(&self) -> String {
        let (mut variables, mut parts) = (Vec::new(), Vec::new());
        for unset in self.unset() {
            match unset {
                Unset::Variable(name) => variables.push(name.as_str()),
                Unset::Secret(name) => parts.push(format!("run `toolgate secret set {name}`")),
            }
        }
        if !variables.is_empty() {
            parts.insert(0, format!("set {}", variables.join(", ")));
        }
        let others = self.problems.iter().filter(|problem| problem.unset.is_none());
        parts.extend(others.map(sentence));
        parts.join("; ")
    }
}

/// A section of a server whose members are values with names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueSection {
    /// Environment variables.
    Env,
    /// Headers of requests.
    Headers,
    /// Credentials, or the settings of a login.
    Auth,
}

impl ValueSection {
    /// The section and the name of a setting of a server, such as `mcpServers.github.env.TOKEN`.
    fn of_setting(path: &str) -> Option<(Self, String)> {
        let keys = split_path(path);
        let [servers, _, section, name @ ..] = keys.as_slice() else { return None };
        let section = match section.as_str() {
            "env" => Self::Env,
            "headers" => Self::Headers,
            "auth" => Self::Auth,
            _ => return None,
        };
        let is_server = ["mcpServers", "servers"].contains(&servers.as_str());
        (is_server && !name.is_empty()).then(|| (section, name.join(".")))
    }
}

/// What is wrong with a server; with the setting, where that is not in the server's entry.
fn sentence(problem: &Problem) -> String {
    match problem.path.starts_with("toolgate.") {
        true => format!("{}: {}", problem.path, problem.message),
        false => problem.message.clone(),
    }
}

/// Where programs may send HTTP requests of their own choice.
#[derive(Debug, Clone, PartialEq)]
pub enum EgressSetting {
    /// Nowhere.
    Off,
    /// To these hosts and networks.
    Hosts(Vec<Allowed>),
    /// To every public host.
    All,
}

/// Toolgate's own settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Which tools an agent sees.
    pub mode: Mode,
    /// Whether `serve` starts a daemon that all windows share.
    pub share: bool,
    /// Which of Toolgate's own tools agents have.
    pub tools: AgentTools,
    /// Data that agents compute on, by name.
    pub data: BTreeMap<String, DataSource>,
    /// How scripts are run.
    pub sandbox: Sandbox,
    /// How results are reduced.
    pub output: Output,
    /// Limits of the whole gateway.
    pub limits: GatewayLimits,
    /// The directory of the tool cache; `None` if it is off or there is no home directory.
    pub cache: Option<PathBuf>,
    /// The HTTP service.
    pub http: Http,
    /// The audit log; `None` if it is off.
    pub audit: Option<Audit>,
    /// Where traces and metrics go; `None` if nowhere.
    pub telemetry: Option<TelemetrySettings>,
    /// Configured host functions.
    pub functions: BTreeMap<FunctionName, Function>,
    /// Who may call which tool.
    pub policy: toolgate_policy::Policy,
    /// The folder of approvals that stand for later calls; `None` without a home directory. The file in it is that of
    /// [`Checked::remembered_rules_file`].
    pub remembered_rules: Option<PathBuf>,
    /// Where programs may send HTTP requests.
    pub egress: EgressSetting,
    /// What guarded HTTP may reach besides the public internet.
    pub guard: Vec<Allowed>,
    /// The session store.
    pub store: StoreSetting,
    /// Durable runs.
    pub runs: Runs,
    /// The V8 engine.
    pub v8: V8,
    /// The type check of programs.
    pub type_check: TypeCheck,
    /// The weather function.
    pub weather: Weather,
    /// Where logins are kept.
    pub logins: Logins,
    /// Whether agents may add and remove backends.
    pub allow_runtime_registration: bool,
}

/// Where logins are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logins {
    /// The folder that knows of them; `None` without a home directory.
    pub folder: Option<PathBuf>,
    /// Where new ones go.
    pub place: SecretPlace,
}

/// How scripts are run.
#[derive(Debug, Clone, PartialEq)]
pub struct Sandbox {
    /// The engine; `None` is the default of the command.
    pub engine: Option<Engine>,
    /// The isolation; `None` is the platform's default.
    pub isolation: Option<Isolation>,
    /// Whether a process that ran a program may run another one of the same caller.
    pub reuse: Reuse,
    /// Maximum number of concurrent runs; `None` is twice the number of cores, at least 8.
    pub max_concurrent_runs: Option<usize>,
    /// Number of idle workers; `None` is the engine's default.
    pub pool: Option<usize>,
    /// Limits that differ from the profiles' own.
    pub limits: Profiles<LimitRequest>,
}

/// How results are reduced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Reduce results to the parts that match the intent.
    pub intent: bool,
    /// Replace large JSON by an overview.
    pub auto_chunk_json: bool,
    /// Truncate in the middle instead of at the end.
    pub smart_truncation: bool,
    /// Size above which JSON is chunked.
    pub chunk_threshold: Bytes,
    /// How a result is written.
    pub format: ResultFormat,
    /// Maximum size of a returned result; `None` is the default of the door.
    pub max_output_size: Option<Bytes>,
}

/// Limits of the whole gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Timeout for the start of a backend.
    pub start_timeout: Duration,
    /// Maximum number of queued runs.
    pub max_queued_runs: usize,
    /// Maximum total size of kept results.
    pub result_store: Bytes,
    /// How long results are kept.
    pub result_ttl: Duration,
    /// How long running work may continue at shutdown.
    pub shutdown_grace: Duration,
    /// Bytes that are held at one time.
    pub bytes_in_flight: BytesInFlight,
}

/// The bytes that Toolgate holds for others at one time: answers and arguments on their way, messages, bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BytesInFlight {
    /// For everything together.
    pub process: Bytes,
    /// For the runs of one caller.
    pub caller: Bytes,
    /// For one run; `None` is as many as it has memory, at least 16 MB.
    pub run: Option<Bytes>,
}

impl Default for BytesInFlight {
    fn default() -> Self {
        BytesInFlight { process: Bytes::new(256 << 20), caller: Bytes::new(128 << 20), run: None }
    }
}

/// The V8 engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V8 {
    /// The deno binary; `None` searches PATH.
    pub deno: Option<PathBuf>,
    /// Number of idle processes.
    pub pool: usize,
    /// Processor time after which a run moves to V8.
    pub threshold: Duration,
}

/// The type check of programs before their first call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeCheck {
    /// Which TypeScript compiler checks them.
    pub compiler: TypeScript,
    /// How long a run waits for its check, if the configuration says it.
    pub budget: Option<Duration>,
}

impl TypeCheck {
    /// How long a run of a gateway waits for its check.
    pub fn budget_or_default(&self) -> Duration {
        self.budget.unwrap_or(Duration::from_millis(150))
    }
}

/// The TypeScript compiler that checks programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeScript {
    /// The one that the environment names or the search path has, if any.
    Found,
    /// This program.
    At(PathBuf),
    /// None: programs are not checked.
    Off,
}

/// Validates the settings of a file.
pub(crate) fn check(raw: &Raw, env: &Env) -> Result<Checked, Vec<Problem>> {
    let mut checker = Checker::new(raw, env);
    let toolgate = raw.file.toolgate.as_ref().map(|toolgate| toolgate.value.clone()).unwrap_or_default();
    let limits = value(&toolgate.limits);
    let call = backends::Defaults::check(&mut checker, &limits, &toolgate);
    let servers = backends::check(&mut checker, &raw.file, &toolgate, &call);
    let store = checker.get(&toolgate.store).unwrap_or(StoreSetting::Memory);
    let runs = runs::check(&mut checker, &value(&toolgate.runs), &store);
    let mut settings = Settings {
        mode: checker.get(&toolgate.mode).unwrap_or(Mode::Code),
        share: flag(&toolgate.share, false),
        tools: agent::tools(&value(&toolgate.tools)),
        data: agent::data(&mut checker, &toolgate.data),
        sandbox: sandbox(&mut checker, &value(&toolgate.sandbox)),
        output: output(&mut checker, &value(&toolgate.output)),
        limits: bounds(&mut checker, &limits),
        cache: cache(&mut checker, &value(&toolgate.cache)),
        http: service::check(&mut checker, &value(&toolgate.http)),
        audit: audit::check(&mut checker, &value(&toolgate.audit)),
        telemetry: telemetry::check(&mut checker, &value(&toolgate.telemetry)),
        functions: functions::check(&mut checker, &toolgate, &servers.names, call.timeout),
        policy: policy::check(&mut checker, &toolgate, &servers.names),
        remembered_rules: checker.env.state_folder().map(|state| state.join("remembered-rules")),
        egress: egress(&mut checker, &toolgate.egress),
        guard: checker.list(&value(&toolgate.guard).allow).unwrap_or_default(),
        store,
        runs,
        v8: v8(&mut checker, &value(&value(&toolgate.engines).v8)),
        type_check: TypeCheck {
            compiler: typescript(&mut checker, &value(&toolgate.engines)),
            budget: checker.period(&limits.type_check),
        },
        weather: agent::weather(&mut checker, &value(&toolgate.weather)),
        logins: Logins {
            folder: checker.env.state_folder().map(|state| state.join("logins")),
            place: checker.get(&value(&toolgate.secrets).store).unwrap_or(SecretPlace::Auto),
        },
        allow_runtime_registration: flag(&toolgate.allow_runtime_registration, false),
    };
    let Findings { mut problems, parts, files, secrets } = checker.finish();
    problems.sort_by_key(|problem| problem.position);
    let problems = parts.sort(problems);
    if problems.is_fatal() {
        return Err(problems.all());
    }
    settings.functions.retain(|name, _| !problems.leaves_out(&FilePart::Function(name.as_str().to_owned())));
    settings.data.retain(|name, _| !problems.leaves_out(&FilePart::Data(name.clone())));
    let (mut incomplete, warnings) = problems.warnings();
    let Servers { mut backends, disabled, commanded, .. } = servers;
    for (name, server) in &mut incomplete {
        server.transport = backends.remove(name).map(|backend| backend.transport);
    }
    // A disabled server is not looked into.
    let incomplete = incomplete.into_iter().filter(|(name, _)| !disabled.contains(name)).collect();
    let file = raw.source.file().to_owned();
    Ok(Checked { file, backends, disabled, incomplete, settings, files, commanded, secrets, warnings })
}

fn sandbox(checker: &mut Checker<'_>, raw: &raw::Sandbox) -> Sandbox {
    Sandbox {
        engine: checker.get(&raw.engine),
        isolation: checker.get(&raw.isolation),
        reuse: checker.get(&raw.reuse).unwrap_or(Reuse::Never),
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
        format: checker.get(&raw.format).unwrap_or(ResultFormat::Auto),
        max_output_size: checker.size(&raw.max_output_size, &range),
    }
}

fn bounds(checker: &mut Checker<'_>, raw: &raw::Limits) -> GatewayLimits {
    let store = Bytes::new(1 << 20)..=Bytes::new(4 << 30);
    GatewayLimits {
        start_timeout: checker.period(&raw.start_timeout).unwrap_or(Duration::from_secs(60)),
        max_queued_runs: checker.count(&raw.max_queued_runs, 0..=100_000).unwrap_or(256),
        result_store: checker.size(&raw.result_store, &store).unwrap_or(Bytes::new(64 << 20)),
        result_ttl: checker.period(&raw.result_ttl).unwrap_or(Duration::from_secs(3600)),
        shutdown_grace: checker.period(&raw.shutdown_grace).unwrap_or(Duration::from_secs(10)),
        bytes_in_flight: bytes_in_flight(checker, raw),
    }
}

fn bytes_in_flight(checker: &mut Checker<'_>, raw: &raw::Limits) -> BytesInFlight {
    let range = Bytes::new(1 << 20)..=Bytes::new(1 << 40);
    let usual = BytesInFlight::default();
    BytesInFlight {
        process: checker.size(&raw.bytes_in_flight, &range).unwrap_or(usual.process),
        caller: checker.size(&raw.caller_bytes_in_flight, &range).unwrap_or(usual.caller),
        run: checker.size(&raw.run_bytes_in_flight, &range),
    }
}

fn cache(checker: &mut Checker<'_>, raw: &raw::Cache) -> Option<PathBuf> {
    let dir = match &raw.dir {
        Some(dir) => checker.text(dir).and_then(|text| checker.path(&text, &dir.place)),
        None => checker.env.xdg("XDG_CACHE_HOME", ".cache").map(|cache| cache.join("toolgate")),
    };
    dir.filter(|_| flag(&raw.enabled, true))
}

fn egress(checker: &mut Checker<'_>, raw: &Option<raw::Located<raw::RawEgress>>) -> EgressSetting {
    match raw.as_ref().map(|raw| (&raw.value, &raw.place)) {
        None => EgressSetting::Off,
        Some((raw::RawEgress::Word(word), place)) => {
            let word = checker.get(&Some(raw::Located { value: word.clone(), place: place.clone() }));
            match word {
                Some(EgressWord::All) => EgressSetting::All,
                Some(EgressWord::Off) | None => EgressSetting::Off,
            }
        }
        Some((raw::RawEgress::Hosts(hosts), place)) => {
            let hosts = checker.list(&Some(raw::Located { value: hosts.clone(), place: place.clone() }));
            EgressSetting::Hosts(hosts.unwrap_or_default())
        }
    }
}

fn v8(checker: &mut Checker<'_>, raw: &raw::V8) -> V8 {
    let deno =
        raw.deno.as_ref().and_then(|deno| checker.text(deno).and_then(|text| checker.program(&text, &deno.place)));
    let threshold = checker.count(&raw.threshold_ms, 1..=60_000).unwrap_or(50);
    V8 { deno, pool: checker.count(&raw.pool, 0..=16).unwrap_or(1), threshold: Duration::from_millis(threshold as u64) }
}

fn typescript(checker: &mut Checker<'_>, raw: &raw::Engines) -> TypeScript {
    let Some(setting) = &raw.typescript else { return TypeScript::Found };
    match checker.text(setting) {
        Some(word) if word == "off" => TypeScript::Off,
        Some(path) => checker.program(&path, &setting.place).map_or(TypeScript::Off, TypeScript::At),
        None => TypeScript::Off,
    }
}

/// The section, or its default if it is absent.
fn value<T: Clone + Default>(section: &Option<raw::Located<T>>) -> T {
    section.as_ref().map(|section| section.value.clone()).unwrap_or_default()
}

fn flag(setting: &Option<raw::Located<bool>>, default: bool) -> bool {
    setting.as_ref().map_or(default, |setting| setting.value)
}
