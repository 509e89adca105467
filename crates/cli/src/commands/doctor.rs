//! `toolgate doctor`: what confines programs on this machine.
//!
//! Nothing is guessed from versions: a real worker is started, held at a host call, and looked at from outside. What
//! a worker says of itself counts only where the kernel does not contradict it. No program but this one is executed.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use toolgate_config::checked::{Settings, TypeScript};
use toolgate_config::values::Reuse;
use toolgate_config::{Env, lookup};
use toolgate_engine::{Engine, EngineBuilder, EngineChoice, Functions, IsolationMode, Request, find_deno};
use toolgate_gateway::runtime::find_compiler;
use toolgate_guest::lockdown;
use toolgate_mcp::client::{SandboxSupport, StdioSandbox};
use toolgate_wire::{Isolation, Profile, Report};

use super::servers::sentences;
use super::{Exit, Usage};
use crate::args::DoctorArgs;
use crate::print::{Style, escape, out};
use toolgate_engine::EngineWithRuntime;
use toolgate_engine::inspect::{Seen, children, look_at};

/// Runs of one caller, of which one should find the process of the one before.
const REUSE_ATTEMPTS: usize = 4;

/// Everything doctor found out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Diagnosis {
    /// Programs can be run in processes of their own.
    ok: bool,
    version: &'static str,
    system: String,
    layers: Vec<Layer>,
    /// Which deno runs programs on V8, or what is missing for that.
    v8: String,
    /// Which TypeScript checks the types of programs, or what is missing for that.
    typescript: String,
    /// What a server with a sandbox has, or why it would not be started.
    server_sandbox: String,
    /// Whether a process is used again, where the configuration asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reuse: Option<String>,
    /// Why no program can be run, when none can.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Diagnosis {
    /// A layer that is off because it was asked to be says so, rather than blame the machine.
    fn excuse(&mut self, name: &str) {
        for layer in self.layers.iter_mut().filter(|layer| layer.name == name && !layer.active) {
            layer.note = "Left off by --without.".into();
        }
    }
}

/// One thing between a program and the machine.
#[derive(Debug, Serialize)]
struct Layer {
    name: &'static str,
    active: bool,
    /// No program is run without it.
    required: bool,
    /// What it does, or for a missing one what that means.
    note: String,
}

pub(crate) fn doctor(args: &DoctorArgs) -> anyhow::Result<Exit> {
    if args.client {
        return super::client_check::serve();
    }
    let builder = Engine::builder().isolation(IsolationMode::Process).without(args.left_off()).workers_ahead(0);
    let settings = settings(args)?;
    let deno = settings.as_ref().and_then(|settings| settings.v8.deno.as_deref());
    let wanted = settings.as_ref().map_or(TypeScript::Found, |settings| settings.type_check.compiler.clone());
    let reuse = settings.as_ref().map_or(Reuse::Never, |settings| settings.sandbox.reuse);
    let mut diagnosis = Diagnosis {
        v8: v8(deno),
        typescript: typescript(&wanted),
        server_sandbox: server_sandbox(&StdioSandbox::support()),
        reuse: try_reuse(&builder, reuse),
        ..diagnose(builder)
    };
    for left_off in &args.without {
        diagnosis.excuse(left_off.name());
    }
    if args.json {
        out(escape::json(&serde_json::to_string(&diagnosis)?))?;
    } else {
        out(describe(&diagnosis, Style::stdout()))?;
    }
    Ok(if diagnosis.ok { Exit::Done } else { Exit::Failed })
}

/// What a worker shows. The rest is empty.
fn diagnose(builder: EngineBuilder) -> Diagnosis {
    let (facts, error) = match examine(builder) {
        Ok((report, seen)) => {
            let error = report.failure().map(ToString::to_string);
            (Facts { claim: report.isolation, seen, ran: error.is_none() }, error)
        }
        Err(error) => (Facts::default(), Some(format!("{error:#}"))),
    };
    let version = env!("CARGO_PKG_VERSION");
    let (v8, typescript, server_sandbox) = Default::default();
    let layers = layers(&facts);
    Diagnosis { ok: facts.ran, version, system: system(), layers, v8, typescript, server_sandbox, reuse: None, error }
}

/// What a server with `sandbox` has here.
fn server_sandbox(support: &SandboxSupport) -> String {
    match support {
        SandboxSupport { refusal: Some(refusal), .. } => format!("no server with `sandbox` is started: {refusal}"),
        SandboxSupport { cgroup: true, .. } => "landlock, seccomp, and a cgroup for memory and processes".to_owned(),
        SandboxSupport { cgroup: false, .. } => {
            "landlock and seccomp; no cgroup can be made here, so memory is bounded for \
            each process of a server, and the number of its processes is not"
                .to_owned()
        }
    }
}

/// Uses a process twice, where the configuration asks for it, and says what came of it.
fn try_reuse(builder: &EngineBuilder, wanted: Reuse) -> Option<String> {
    if wanted == Reuse::Never {
        return None;
    }
    let builder = builder.clone().reuse(toolgate_engine::Reuse::SameCaller).engine(EngineChoice::QuickJs);
    let Ok(started) = EngineWithRuntime::start(builder) else { return Some(reuse_sentence(false, None)) };
    let again = || Request { caller: Some("doctor".into()), ..Request::new(Profile::Chain, "return 1") };
    let was_rewound = (0..REUSE_ATTEMPTS).any(|_| started.engine.run_blocking(again()).isolation.rewound);
    Some(reuse_sentence(was_rewound, started.engine.reuse_refusal()))
}

fn reuse_sentence(was_rewound: bool, refusal: Option<String>) -> String {
    if was_rewound {
        return "a process is put back and used again for runs of the same caller".to_owned();
    }
    let why = refusal.map(|refusal| format!(" ({refusal})")).unwrap_or_default();
    format!(
        "toolgate.sandbox.reuse is same_caller, but a process cannot be put back here{why}, so every run gets a fresh one. \
         Putting back takes Linux 6.10 or later on x86-64, and the right to trace child processes."
    )
}

/// The settings of the configuration. A file that was not asked for and cannot be read is for other commands to explain.
///
/// Reading needs no consent: nothing of the file is executed.
fn settings(args: &DoctorArgs) -> anyhow::Result<Option<Settings>> {
    let env = Env::of_process();
    let file = match lookup::find(args.config.as_deref(), &env) {
        Ok(found) => found.map(|found| found.path),
        Err(error) if args.config.is_some() => return Err(Usage(error.to_string()).into()),
        Err(_) => None,
    };
    let Some(file) = file else { return Ok(None) };
    match toolgate_config::load(&file, &env) {
        Ok(config) => Ok(Some(config.settings)),
        Err(problems) if args.config.is_some() => Err(Usage(sentences(&problems)).into()),
        Err(_) => Ok(None),
    }
}

/// What would check types. The program is not started, for the same reason.
fn typescript(wanted: &TypeScript) -> String {
    match find_compiler(wanted) {
        Ok(found) => {
            let version = found.version.map(|version| format!("TypeScript {version}, ")).unwrap_or_default();
            format!("{version}{} (not started; the first check starts it in a jail)", found.program.display())
        }
        Err(missing) => format!("programs run without a type check: {missing}"),
    }
}

/// Where V8 would come from. The program is not started: it may be one that a repository's configuration names.
fn v8(deno: Option<&Path>) -> String {
    match find_deno(deno) {
        Ok(deno) => format!("{} (not started; a run on V8 starts it in a jail)", deno.display()),
        Err(reason) => reason,
    }
}

/// What a worker said, and what the kernel showed of it.
#[derive(Debug, Default)]
struct Facts {
    claim: Isolation,
    seen: Option<Seen>,
    ran: bool,
}

/// Runs a program that stands still at a host call, and looks at its process in the meantime.
fn examine(builder: EngineBuilder) -> anyhow::Result<(Report, Option<Seen>)> {
    let started = EngineWithRuntime::start(builder)?;
    // The first run starts the zygote, so that the second one's only new child is its worker.
    let first = started.engine.run_blocking(Request::new(Profile::Chain, "return 1"));
    if first.failure().is_some() {
        return Ok((first, None));
    }
    let before = children();
    let seen = Arc::new(Mutex::new(None));
    let host = Functions::new().with("hold", {
        let seen = seen.clone();
        move |_| {
            *seen.lock() = worker_since(&before).map(look_at);
            async { Ok(Value::Null) }
        }
    });
    let request = Request { host: Arc::new(host), ..Request::new(Profile::Chain, "await hold(); return 1") };
    let report = started.engine.run_blocking(request);
    let seen = seen.lock().take();
    Ok((report, seen))
}

fn worker_since(before: &BTreeSet<u32>) -> Option<u32> {
    children().difference(before).next().copied()
}

fn layers(facts: &Facts) -> Vec<Layer> {
    let (claim, seen) = (&facts.claim, facts.seen.clone().unwrap_or_default());
    let not_denied = |kernel: Option<bool>| kernel != Some(false);
    let limits = seen.limits.iter().map(|(name, value)| format!("{} {value}", name.to_lowercase())).collect::<Vec<_>>();
    vec![
        layer("process", facts.ran, true, "every run has a process of its own, killed at its end", NO_PROCESS),
        layer(
            "seccomp",
            claim.seccomp && not_denied(seen.seccomp),
            true,
            "a program can make no system call that opens, connects, forks or executes",
            NO_SECCOMP,
        ),
        layer(
            "no_new_privs",
            claim.no_new_privs && not_denied(seen.no_new_privs),
            false,
            "no privilege can be gained by executing anything",
            NO_NO_NEW_PRIVS,
        ),
        layer(
            "landlock",
            claim.landlock > 0,
            false,
            &format!("version {}: the kernel denies every file and port once more", claim.landlock),
            if lockdown::landlock_version() == 0 { NO_LANDLOCK } else { LANDLOCK_NOT_PUT_ON },
        ),
        layer("no_exec_memory", claim.no_exec_memory, false, "memory cannot be made executable", NO_MDWE),
        layer(
            "namespaces",
            !claim.namespaces.is_empty(),
            false,
            &format!("{} of its own", claim.namespaces.join(", ")),
            NO_NAMESPACES,
        ),
        layer(
            "private_user",
            claim.private_user && seen.user != Some(0),
            false,
            "a user id that owns nothing",
            NO_PRIVATE_USER,
        ),
        layer(
            "rlimits",
            limits.len() == 4,
            false,
            &limits.join(", "),
            if facts.seen.is_some() { NO_RLIMITS } else { RLIMITS_UNSEEN },
        ),
        layer(
            "pidfd",
            lockdown::has_pidfd(),
            true,
            "a worker is killed by handle, never by a number that may be reused",
            NO_PIDFD,
        ),
    ]
}

fn layer(name: &'static str, active: bool, required: bool, on: &str, off: &str) -> Layer {
    Layer { name, active, required, note: if active { on } else { off }.to_owned() }
}

const NO_PROCESS: &str = "No program can be run in a process of its own here; `--isolation thread` runs without one.";
const NO_SECCOMP: &str = "Without a seccomp filter nothing is run in process mode: the kernel lacks it, or a container \
    forbids putting one on.";
const NO_NO_NEW_PRIVS: &str =
    "The kernel did not take no_new_privs; without it an unprivileged user gets no seccomp filter.";
const NO_LANDLOCK: &str = "This kernel has no landlock (Linux 5.13 and later, if enabled). Files stay out of reach all the \
    same: seccomp has no call that opens one.";
const LANDLOCK_NOT_PUT_ON: &str = "This kernel has landlock, but workers did not get it. Files stay out of reach all the same: \
    seccomp has no call that opens one.";
const NO_MDWE: &str = "This kernel cannot deny executable memory by itself (Linux 6.3 and later). The seccomp filter still \
    refuses to map any.";
const NO_NAMESPACES: &str = "This system does not let a program have namespaces of its own, as is usual in containers. The network \
    stays out of reach all the same: seccomp has no call that makes a socket.";
const NO_PRIVATE_USER: &str = "Workers keep the user that started them: only root can give them one of their own.";
const NO_RLIMITS: &str = "The kernel does not bound a worker's memory and processor time: setting that from outside takes \
    CAP_SYS_RESOURCE, which root in a container often lacks. The sandbox's own accounting and the kill at the deadline hold.";
const RLIMITS_UNSEEN: &str = "No worker ran, so its bounds could not be looked at.";
const NO_PIDFD: &str = "This kernel has no pidfd (Linux 5.3 and later), so workers cannot be killed safely.";

fn system() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {} {}", std::env::consts::OS, release.trim(), std::env::consts::ARCH)
}

fn describe(diagnosis: &Diagnosis, style: Style) -> String {
    let mut text = format!("Toolgate {} on {}\n\n", diagnosis.version, escape::line(&diagnosis.system));
    for layer in &diagnosis.layers {
        let mark = match (layer.active, layer.required) {
            (true, _) => style.good("on "),
            (false, true) => style.bad("off"),
            (false, false) => style.warn("off"),
        };
        text += &format!("  {mark}  {:<15} {}\n", layer.name, layer.note);
    }
    text += &format!("\nV8: {}\n", escape::line(&diagnosis.v8));
    text += &format!("Types: {}\n", escape::line(&diagnosis.typescript));
    text += &format!("Sandbox of servers: {}\n", escape::line(&diagnosis.server_sandbox));
    if let Some(reuse) = &diagnosis.reuse {
        text += &format!("Reuse: {}\n", escape::line(reuse));
    }
    if let Some(error) = &diagnosis.error {
        text += &format!("\n{} {}", style.bad("error:"), escape::text(error));
    }
    let active = diagnosis.layers.iter().filter(|layer| layer.active).count();
    let verdict = if diagnosis.ok { "Programs run in a sealed process" } else { "No program is run in process mode" };
    text + &format!("\n{verdict}: {active} of {} layers hold.", diagnosis.layers.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(facts: &Facts, name: &str) -> bool {
        layers(facts).iter().find(|layer| layer.name == name).is_some_and(|layer| layer.active)
    }

    #[test]
    fn the_kernel_overrules_what_a_worker_says() {
        let claim = Isolation { seccomp: true, no_new_privs: true, ..Isolation::default() };
        let seen = Seen { seccomp: Some(false), no_new_privs: Some(true), ..Seen::default() };
        let facts = Facts { claim, seen: Some(seen), ran: true };
        assert!(!check(&facts, "seccomp"));
        assert!(check(&facts, "no_new_privs"));
    }

    #[test]
    fn a_kernel_that_does_not_say_overrules_nothing() {
        let claim = Isolation { seccomp: true, ..Isolation::default() };
        assert!(check(&Facts { claim, seen: None, ran: true }, "seccomp"));
    }

    #[test]
    fn what_cannot_be_put_back_or_sealed_is_said() {
        let refused = reuse_sentence(false, Some("its mappings are not sealed".to_owned()));
        assert!(
            refused.contains("cannot be put back here (its mappings are not sealed), so every run gets a fresh one")
        );
        let support = |refusal: Option<&str>, cgroup| SandboxSupport { refusal: refusal.map(str::to_owned), cgroup };
        let said = |support| server_sandbox(&support);
        assert!(
            said(support(Some("its sandbox needs landlock"), false)).starts_with("no server with `sandbox` is started")
        );
        assert!(said(support(None, false)).contains("no cgroup can be made here"));
        assert!(!said(support(None, true)).contains("no cgroup"));
    }

    #[test]
    fn every_layer_that_is_off_has_a_sentence() {
        for layer in layers(&Facts::default()).iter().filter(|layer| !layer.active) {
            assert!(layer.note.ends_with('.'), "{layer:?}");
        }
    }
}
