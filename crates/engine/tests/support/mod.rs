//! Cases as data: a program, what it is given, what must come of it.
//!
//! A file under `specs/` holds a list of cases. The same case runs on every engine; where one
//! must differ, the case says so by the engine's name.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod deno;
pub(crate) mod machine;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_engine::host::{HeldBytes, Question, Target};
use toolgate_engine::wire::{CallId, Code, LimitRequest, Outcome, Profile, Report};
use toolgate_engine::{
    Engine, EngineBuilder, EngineChoice, Functions, Host, HostCall, HostError, HostFuture, IsolationMode, Request,
    V8Settings, WorkerCommand,
};

/// One program and what must come of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    #[serde(default = "chain")]
    pub(crate) profile: String,
    pub(crate) code: Text,
    /// What the program computes on, or its `context`.
    #[serde(default)]
    pub(crate) data: Option<Value>,
    /// The same as text, where it must not be JSON or must be long.
    #[serde(default)]
    pub(crate) data_text: Option<Text>,
    /// Names of the host functions that the program may call; see [`function`].
    #[serde(default)]
    pub(crate) functions: Vec<String>,
    /// Whether the backend `shop` is there.
    #[serde(default)]
    pub(crate) tools: bool,
    #[serde(default)]
    pub(crate) limits: LimitSpec,
    #[serde(default)]
    pub(crate) expect: Expect,
    /// What differs on one engine, by its name.
    #[serde(default)]
    pub(crate) engines: BTreeMap<String, Override>,
    /// The promise that a hostile case defends.
    #[serde(default)]
    pub(crate) promise: Option<String>,
    /// Whether it may run on a thread of this process: nothing in it escapes the interrupt or needs the kernel.
    #[serde(default)]
    pub(crate) safe_in_thread: bool,
    /// Bytes that the case's host functions themselves hold, which no limit of the run bounds.
    #[serde(default)]
    pub(crate) held_by_functions: u64,
}

fn chain() -> String {
    "chain".into()
}

/// Another expectation, or none at all.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Override {
    /// `"skip: why"`.
    Skip(String),
    Expect(Box<Expect>),
}

/// A text, or parts of one that are put together.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Text {
    Whole(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Part {
    Once(String),
    Often { repeat: String, times: usize },
}

impl Text {
    pub(crate) fn text(&self) -> String {
        match self {
            Text::Whole(text) => text.clone(),
            Text::Parts(parts) => parts.iter().map(Part::text).collect(),
        }
    }
}

impl Part {
    fn text(&self) -> String {
        match self {
            Part::Once(text) => text.clone(),
            Part::Often { repeat, times } => repeat.repeat(*times),
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitSpec {
    wall_ms: Option<u64>,
    memory: Option<u64>,
    stack: Option<u64>,
    code: Option<u64>,
    result: Option<u64>,
    result_depth: Option<u32>,
    log_lines: Option<u64>,
    calls: Option<u64>,
    calls_in_flight: Option<u64>,
}

impl LimitSpec {
    fn request(&self) -> LimitRequest {
        LimitRequest {
            wall: self.wall_ms.map(Duration::from_millis),
            memory: self.memory,
            stack: self.stack,
            code: self.code,
            result: self.result,
            result_depth: self.result_depth,
            log_lines: self.log_lines,
            calls: self.calls,
            calls_in_flight: self.calls_in_flight,
        }
    }
}

/// What is looked at; what is absent may be anything.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expect {
    /// The value, compared as JSON.
    #[serde(deserialize_with = "present")]
    value: Option<Value>,
    /// The value's text, byte by byte.
    json: Option<String>,
    /// Any of these codes.
    code: Option<OneOf>,
    error: Option<String>,
    error_has: Option<String>,
    error_lacks: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
    hint_has: Option<String>,
    stdout: Option<Vec<String>>,
    stderr: Option<Vec<String>>,
    dropped: Option<u64>,
    warning_has: Option<String>,
    /// The ledger, as `name state`.
    calls: Option<Vec<String>>,
    safe_to_retry: Option<bool>,
    /// Whatever comes of it is right, as long as it comes and the rest of the suite's checks hold.
    any: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum OneOf {
    One(String),
    Some(Vec<String>),
}

impl OneOf {
    fn has(&self, code: &str) -> bool {
        match self {
            OneOf::One(one) => one == code,
            OneOf::Some(some) => some.iter().any(|one| one == code),
        }
    }
}

/// Tells `null` from nothing.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Expect {
    /// What of the report is not as expected.
    pub(crate) fn faults(&self, report: &Report) -> Vec<String> {
        let mut faults = Vec::new();
        let mut differ = |what: &str, wanted: String, got: String| {
            faults.push(format!("{what}: wanted {wanted}, got {got}"));
        };
        let shown = show(report);
        match &report.outcome {
            Outcome::Returned(value) => {
                if let Some(code) = &self.code {
                    differ("code", format!("{code:?}"), shown.clone());
                }
                let got: Value = serde_json::from_str(value.get()).unwrap_or(Value::Null);
                if self.value.as_ref().is_some_and(|wanted| *wanted != got) {
                    differ("value", format!("{:?}", self.value), shown.clone());
                }
                if self.json.as_ref().is_some_and(|wanted| wanted != value.get()) {
                    differ("json", format!("{:?}", self.json), shown.clone());
                }
                if self.error.is_some() || self.error_has.is_some() {
                    differ("error", "a failure".into(), shown.clone());
                }
            }
            Outcome::Failed(failure) => {
                if self.value.is_some() || self.json.is_some() {
                    differ("outcome", format!("{:?}{:?}", self.value, self.json), shown.clone());
                }
                if self.code.as_ref().is_some_and(|code| !code.has(failure.code.name())) {
                    differ("code", format!("{:?}", self.code), shown.clone());
                }
                if self.error.as_ref().is_some_and(|wanted| *wanted != failure.message) {
                    differ("error", format!("{:?}", self.error), shown.clone());
                }
                if self.error_has.as_ref().is_some_and(|part| !failure.message.contains(part)) {
                    differ("error", format!("…{:?}…", self.error_has), shown.clone());
                }
                if self.error_lacks.as_ref().is_some_and(|part| failure.message.contains(part)) {
                    differ("error", format!("no {:?}", self.error_lacks), shown.clone());
                }
                if self.hint_has.as_ref().is_some_and(|part| !failure.hint.as_deref().unwrap_or("").contains(part)) {
                    differ("hint", format!("…{:?}…", self.hint_has), format!("{:?}", failure.hint));
                }
                let (line, column) = failure.position.map_or((0, 0), |at| (at.line, at.column));
                if self.line.is_some_and(|wanted| wanted != line) || self.column.is_some_and(|wanted| wanted != column)
                {
                    differ("position", format!("{:?}:{:?}", self.line, self.column), format!("{line}:{column}"));
                }
            }
        }
        let logs = &report.logs;
        if self.stdout.as_ref().is_some_and(|wanted| *wanted != logs.stdout) {
            differ("stdout", format!("{:?}", self.stdout), format!("{:?}; {shown}", logs.stdout));
        }
        if self.stderr.as_ref().is_some_and(|wanted| *wanted != logs.stderr) {
            differ("stderr", format!("{:?}", self.stderr), format!("{:?}; {shown}", logs.stderr));
        }
        if self.dropped.is_some_and(|wanted| wanted != logs.dropped) {
            differ("dropped", format!("{:?}", self.dropped), format!("{}; {shown}", logs.dropped));
        }
        let warned = |part: &String| report.warnings.iter().any(|warning| warning.to_string().contains(part));
        if self.warning_has.as_ref().is_some_and(|part| !warned(part)) {
            differ("warnings", format!("{:?}", self.warning_has), format!("{:?}", report.warnings));
        }
        let calls = ledger(report);
        if self.calls.as_ref().is_some_and(|wanted| *wanted != calls) {
            differ("calls", format!("{:?}", self.calls), format!("{calls:?}; {shown}"));
        }
        if self.safe_to_retry.is_some_and(|wanted| wanted != report.safe_to_retry()) {
            differ("safe_to_retry", format!("{:?}", self.safe_to_retry), format!("{:?}", report.safe_to_retry()));
        }
        faults
    }

    fn says_something(&self) -> bool {
        self.any
            || self.value.is_some()
            || self.json.is_some()
            || self.code.is_some()
            || self.stdout.is_some()
            || self.stderr.is_some()
    }
}

fn ledger(report: &Report) -> Vec<String> {
    let state = |state| serde_json::to_value(state).ok().and_then(|v| v.as_str().map(str::to_owned));
    report.calls.iter().map(|call| format!("{} {}", call.name(), state(call.state).unwrap_or_default())).collect()
}

/// Everything of a report that must be the same wherever the program runs.
pub(crate) fn show(report: &Report) -> String {
    let outcome = match &report.outcome {
        Outcome::Returned(value) => value.get().chars().take(400).collect::<String>(),
        Outcome::Failed(failure) => {
            // A loop is stopped where it happens to be.
            let place = failure.position.filter(|_| failure.code != Code::Timeout);
            // Interpreters put an expression's column at different ends of it; where it matters the case names it.
            let at = place.map_or(String::new(), |at| format!(" at line {}", at.line));
            format!("{failure}{at}{}", failure.hint.as_ref().map_or(String::new(), |hint| format!(" ({hint})")))
        }
    };
    format!("{outcome} | {:?} | {:?} | {}", report.logs.stdout, report.logs.stderr, report.logs.dropped)
}

impl Case {
    pub(crate) fn request(&self) -> Request {
        let profile: Profile = self.profile.parse().expect("a profile");
        let data = self.data_text.as_ref().map(Text::text).or_else(|| self.data.as_ref().map(Value::to_string));
        let mut functions = Functions::new();
        for name in &self.functions {
            functions = function(functions, name);
        }
        Request {
            limits: self.limits.request(),
            data,
            host: Arc::new(Shop { functions, open: self.tools }),
            seed: Some(7),
            ..Request::new(profile, self.code.text())
        }
    }

    /// What is expected on an engine; nothing when the case is not for it.
    pub(crate) fn expected_on(&self, engine: &str) -> Option<&Expect> {
        match self.engines.get(engine) {
            None => Some(&self.expect),
            Some(Override::Expect(expect)) => Some(expect),
            Some(Override::Skip(reason)) => {
                assert!(reason.starts_with("skip: "), "{}: say `skip: why`", self.name);
                None
            }
        }
    }

    /// How long it may take until control is back: its own time and 100 ms where `TOOLGATE_QUIET` says that the machine is quiet, or
    /// a second on one that may be busy.
    pub(crate) fn time_allowed(&self) -> Duration {
        let is_quiet = std::env::var_os("TOOLGATE_QUIET").is_some();
        self.wall() + Duration::from_millis(if is_quiet { 100 } else { 1_000 })
    }

    /// The time that the program has.
    pub(crate) fn wall(&self) -> Duration {
        let profile: Profile = self.profile.parse().expect("a profile");
        self.limits.request().resolve(profile).map(|resolved| resolved.limits.wall).unwrap_or_default()
    }

    /// Bytes that the program may hold.
    pub(crate) fn memory(&self) -> u64 {
        let profile: Profile = self.profile.parse().expect("a profile");
        self.limits.request().resolve(profile).map(|resolved| resolved.limits.memory).unwrap_or_default()
    }

    /// Whether only its deadline ends it.
    pub(crate) fn ends_at_its_deadline(&self) -> bool {
        self.expect.code.as_ref().is_some_and(|code| code.has("TIMEOUT"))
    }

    pub(crate) fn differs_on(&self, engine: &str) -> bool {
        self.engines.contains_key(engine)
    }
}

/// The host functions that cases can name.
fn function(functions: Functions, name: &str) -> Functions {
    let kind = name.rsplit('.').next().unwrap_or_default();
    match kind {
        "echo" => functions.with(name, |mut args: Value| async move { Ok(args[0].take()) }),
        "all" => functions.with(name, |args: Value| async move { Ok(args) }),
        "fail" => functions.with(name, |args: Value| async move {
            Err(HostError::new("BROKEN", format!("cannot do {}", args[0])).with_data(json!({ "asked": args[0] })))
        }),
        "refuse" => functions.with(name, |_| async move { Err(HostError::not_sent("DENIED", "not for you")) }),
        "never" => functions.with(name, |_| std::future::pending::<Result<Value, HostError>>()),
        "later" => functions.with(name, |args: Value| async move {
            tokio::task::yield_now().await;
            Ok(args[0].clone())
        }),
        "after" => functions.with(name, |args: Value| async move {
            tokio::time::sleep(Duration::from_millis(args[0].as_u64().unwrap_or(0))).await;
            Ok(args[0].clone())
        }),
        "big" => functions.with(name, |args: Value| async move {
            Ok(Value::String("x".repeat(usize::try_from(args[0].as_u64().unwrap_or(0)).unwrap_or(0))))
        }),
        "panic" => functions.with(name, |_| async move { panic!("a host function that panics") }),
        "panicLater" => functions.with(name, |_| async move {
            tokio::task::yield_now().await;
            panic!("a host function that panics later")
        }),
        other => panic!("no test function `{other}`"),
    }
}

/// Host functions, and one backend with two tools.
struct Shop {
    functions: Functions,
    open: bool,
}

impl Host for Shop {
    fn call(&self, call: HostCall) -> HostFuture {
        match &call.target {
            Target::Tool { backend, tool } if self.open && backend == "shop" && tool == "price-of" => {
                let args: Value = serde_json::from_str(&call.args).unwrap_or_default();
                Box::pin(async move { Ok(json!({ "item": args["item"], "cents": 120 }).to_string()) })
            }
            _ => self.functions.call(call),
        }
    }

    fn answer(&self, question: &Question) -> Option<String> {
        match question {
            Question::Backend(name) | Question::Global(name) if name == "shop" => Some(
                json!({ "name": "shop", "tools": [{ "name": "price-of", "id": "price_of" }, { "name": "gone", "id": "gone" }] })
                    .to_string(),
            ),
            Question::Backends => Some(json!([{ "name": "shop", "id": "shop" }]).to_string()),
            Question::InterfaceOf(name) if name == "shop.price_of" => Some(json!({ "found": name }).to_string()),
            Question::Interface { backend, tool } if backend == "shop" || backend.is_empty() => {
                Some(json!({ "found": [backend, tool] }).to_string())
            }
            Question::Backend(_) | Question::Global(_) | Question::InterfaceOf(_) | Question::Interface { .. } => None,
        }
    }

    fn functions(&self) -> Vec<String> {
        self.functions.functions()
    }

    fn has_tools(&self) -> bool {
        self.open
    }

    fn take_held(&self, id: CallId) -> Option<HeldBytes> {
        self.functions.take_held(id)
    }
}

/// Where the cases are.
pub(crate) fn specs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs")
}

/// The cases of every file in a folder, with the file's name before each.
pub(crate) fn load(folder: &Path) -> Vec<Case> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder of specs")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable");
        let topic = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let read: Vec<Case> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{topic}: {error}"));
        cases.extend(read.into_iter().map(|case| Case { name: format!("{topic}: {}", case.name), ..case }));
    }
    assert!(!cases.is_empty(), "no cases in {}", folder.display());
    let mut names: Vec<_> = cases.iter().map(|case| &case.name).collect();
    names.sort();
    names.windows(2).for_each(|pair| assert_ne!(pair[0], pair[1], "two cases of one name"));
    for case in &cases {
        assert!(case.expect.says_something(), "{} expects nothing", case.name);
    }
    cases
}

/// The worker that process engines start.
pub(crate) fn worker() -> WorkerCommand {
    WorkerCommand::Program(env!("CARGO_BIN_EXE_toolgate-worker").into())
}

/// An engine of real processes.
pub(crate) fn process_builder() -> EngineBuilder {
    Engine::builder().worker_command(worker()).engine(EngineChoice::QuickJs)
}

/// An engine of threads.
pub(crate) fn thread_builder() -> EngineBuilder {
    Engine::builder().isolation(IsolationMode::Thread)
}

/// Every engine that the specs run on, by name. The first is the one that the others are held against.
pub(crate) fn engines() -> Vec<(&'static str, Engine)> {
    vec![
        ("process", process_builder().build().expect("a process engine")),
        ("thread", thread_builder().build().expect("a thread engine")),
        ("v8", v8_builder().engine(EngineChoice::V8).build().expect("a V8 engine")),
    ]
}

/// An engine that has a deno.
pub(crate) fn v8_builder() -> EngineBuilder {
    process_builder().v8(V8Settings { deno: Some(deno::deno()), ahead: 2, ..V8Settings::default() })
}

/// Waits until `done` says so, looking again and again; fails when it takes too long.
pub(crate) async fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(tokio::time::Instant::now() < deadline, "in ten seconds it never came true that {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
