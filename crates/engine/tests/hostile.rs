//! Hostile programs: every case under `specs/hostile` against the real process engine.
//!
//! After each one the host must be the same and healthy, the next harmless run right, nothing
//! left behind, and nothing of the host or of another run in anything that came out.

#[path = "support/rewinding.rs"]
mod rewinding;
mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use rewinding::permits_rewinding;
use serde_json::json;
use support::deno::deno;
use support::machine::{children, descriptors, forget_peak, peak, resident, threads};
use support::{Case, eventually, load, process_builder, show, specs, thread_builder, v8_builder};
use toolgate_engine::wire::{Interpreter, Profile, Report};
use toolgate_engine::{Engine, EngineChoice, Request, Reuse, V8Settings};

/// Only cases whose name has this in it are run, when it is set: for work on one of them.
const ONLY: &str = "TOOLGATE_SPEC";
/// An environment value that no program may ever see.
const CANARY: &str = "canary-of-the-host-7c1f";
/// What another run holds while a case runs.
const MARKER: &str = "marker-of-a-neighbour-93ab";
/// How far the host's memory may grow during a run and be above the beginning after it, beside what the program itself may hold.
const HOST_MEMORY: u64 = 16 * 1024 * 1024;
const LEAST_CASES: usize = 120;
/// Cases that must have run in a worker that was put back.
const LEAST_REWOUND: usize = 120;
const START_OF_V8: Duration = Duration::from_secs(3);
/// The caller of every run, where workers are used again for the same caller.
const CALLER: &str = "ada";
/// Workers that may be kept for callers, and descriptors of each.
const KEPT: usize = 16;
const DESCRIPTORS_OF_KEPT: usize = 8;

/// What the host holds when no program runs.
struct Baseline {
    descriptors: usize,
    children: usize,
    resident: u64,
}

impl Baseline {
    async fn of(engine: &Engine) -> Self {
        healthy(engine).await;
        let (descriptors, children) = at_rest().await;
        Baseline { descriptors, children, resident: resident() }
    }

    /// The same, with as many workers kept as may be.
    fn with_kept_workers(self) -> Self {
        let descriptors = self.descriptors + KEPT * DESCRIPTORS_OF_KEPT;
        Baseline { descriptors, children: self.children + KEPT, ..self }
    }

    /// Fails unless everything is as it was.
    async fn check(&self, of: &Case) {
        let case = &of.name;
        eventually(&format!("{case}: its descriptors are closed"), || descriptors() <= self.descriptors).await;
        eventually(&format!("{case}: its threads have ended"), || threads("toolgate-guest") == 0).await;
        eventually(&format!("{case}: no zombie and no process stays"), || {
            let now = children();
            now.len() <= self.children && !now.iter().any(|child| child.is_zombie())
        })
        .await;
        let most = self.resident + of.memory() + of.held_by_functions + HOST_MEMORY;
        let from = self.resident;
        eventually(&format!("{case}: the host goes back to {most} bytes, from {from} at the start"), || {
            resident() <= most
        })
        .await;
    }
}

/// Descriptors and children once both stay what they are: after a run, its worker is replaced in the background.
async fn at_rest() -> (usize, usize) {
    const LOOKS: u32 = 10;
    let look = || (descriptors(), children().len());
    let (mut last, mut same) = (look(), 0);
    while same < LOOKS {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = look();
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    last
}

/// A harmless run is right.
async fn healthy(engine: &Engine) {
    let request = Request {
        data: Some(json!({ "marker": MARKER }).to_string()),
        caller: Some(CALLER.into()),
        ..Request::new(Profile::Chain, "globalThis.kept = context.marker; return [1, 2, 3].map((x) => x * 2)")
    };
    let report = engine.run(request).await;
    assert_eq!(report.value().map(|value| value.get()).ok(), Some("[2,4,6]"), "{}", show(&report));
}

/// What of the host or of a neighbour stands in a report.
fn leaks(report: &Report) -> Vec<String> {
    let text = serde_json::to_string(report).expect("a report");
    let exe = std::env::current_exe().expect("a path").display().to_string();
    let home = std::env::var("HOME").ok().filter(|home| home.len() > 1).map(|home| format!("{home}/"));
    let mut secrets = vec![CANARY.to_owned(), MARKER.to_owned(), exe, env!("CARGO_MANIFEST_DIR").to_owned()];
    secrets.extend(home);
    secrets.extend(["toolgate-zygote", "root:x:0", ".cargo/registry"].map(str::to_owned));
    secrets.into_iter().filter(|secret| text.contains(secret.as_str())).collect()
}

/// Every promise that the page lists.
fn promises() -> BTreeSet<String> {
    let page = std::fs::read_to_string(specs().join("hostile/PROMISES.md")).expect("the promises");
    page.lines().filter_map(|line| line.strip_prefix("- `")?.split('`').next().map(str::to_owned)).collect()
}

/// A run of the case's kind, with its limits, leaves a marker in its worker. Whether it returned, so that the worker is kept.
async fn leave_marker(engine: &Engine, case: &Case) -> bool {
    let request = case.request();
    let code = match request.profile {
        Profile::Compute => "(data) => { globalThis.kept = data.marker; return 1 }",
        Profile::Chain | Profile::Snippet => "globalThis.kept = context.marker; return 1",
    };
    let request = Request {
        data: Some(json!({ "marker": MARKER }).to_string()),
        caller: Some(CALLER.into()),
        limits: request.limits,
        ..Request::new(request.profile, code)
    };
    engine.run(request).await.failure().is_none()
}

/// The report of a case; `None` when it is not for this engine.
async fn run(engine: &Engine, name: &str, case: &Case, faults: &mut Vec<String>) -> Option<Report> {
    let expect = case.expected_on(name)?;
    let request = Request { caller: Some(CALLER.into()), ..case.request() };
    let (can_measure, before) = (forget_peak(), resident());
    let report = engine.run(request).await;
    let growth = peak().saturating_sub(before);
    if can_measure && growth > case.memory() + case.held_by_functions + HOST_MEMORY {
        faults.push(format!("{} [{name}] the host grew by {growth} bytes", case.name));
    }
    faults.extend(expect.faults(&report).into_iter().map(|fault| format!("{} [{name}] {fault}", case.name)));
    faults.extend(leaks(&report).into_iter().map(|secret| format!("{} [{name}] gives away {secret}", case.name)));
    // A V8 worker that nobody started ahead takes its time to come up.
    let start = if name == "v8" { START_OF_V8 } else { Duration::ZERO };
    if report.elapsed > case.time_allowed() + start {
        faults.push(format!("{} [{name}] took {:?}", case.name, report.elapsed));
    }
    Some(report)
}

fn cases() -> Vec<Case> {
    let only = std::env::var(ONLY).unwrap_or_default();
    load(&specs().join("hostile")).into_iter().filter(|case| case.name.contains(&only)).collect()
}

async fn every_case() {
    let host = std::process::id();
    let engine = process_builder().build().expect("a process engine");
    let baseline = Baseline::of(&engine).await;
    let mut faults = Vec::new();
    for case in cases() {
        run(&engine, "process", &case, &mut faults).await;
        healthy(&engine).await;
        baseline.check(&case).await;
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    assert_eq!(std::process::id(), host);
    engine.dispose();
    eventually("a disposed engine has no process", || children().is_empty()).await;
}

/// Every case in a worker that was put back after the harmless run before it, which had its limits and a marker; and every
/// harmless run in one that a case may have had. Without the cases that end at their deadline: they take long, and their worker
/// is killed as ever.
///
/// A worker that is worn out or has computed for long is replaced, so a few of the cases may get a fresh one.
async fn every_case_in_a_worker_that_is_used_again() {
    let engine = process_builder().reuse(Reuse::SameCaller).build().expect("a process engine");
    let baseline = Baseline::of(&engine).await.with_kept_workers();
    let (mut faults, mut fresh, mut rewound) = (Vec::new(), Vec::new(), 0);
    for case in cases().into_iter().filter(|case| !case.ends_at_its_deadline()) {
        let is_kept = leave_marker(&engine, &case).await;
        if let Some(report) = run(&engine, "process", &case, &mut faults).await
            && is_kept
            && report.engine != Interpreter::None
        {
            rewound += usize::from(report.isolation.rewound);
            fresh.extend((!report.isolation.rewound).then_some(case.name.clone()));
        }
        healthy(&engine).await;
        baseline.check(&case).await;
    }
    if permits_rewinding() {
        assert!(10 * rewound >= 9 * (rewound + fresh.len()), "{rewound} were rewound, and not {fresh:?}");
        assert!(rewound >= LEAST_REWOUND || std::env::var_os(ONLY).is_some(), "only {rewound} were rewound");
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    engine.dispose();
    eventually("a disposed engine has no process", || children().is_empty()).await;
}

/// Nothing is started ahead here, so that what is left behind can be told from what waits.
async fn every_case_on_v8() {
    let builder = v8_builder().v8(V8Settings { deno: Some(deno()), ahead: 0, ..V8Settings::default() });
    let engine = builder.engine(EngineChoice::V8).build().expect("a V8 engine");
    let baseline = Baseline::of(&engine).await;
    let mut faults = Vec::new();
    for case in cases() {
        run(&engine, "v8", &case, &mut faults).await;
        healthy(&engine).await;
        baseline.check(&case).await;
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    engine.dispose();
    eventually("a disposed engine has no process", || children().is_empty()).await;
}

async fn every_case_that_is_safe_in_a_thread() {
    let engine = thread_builder().build().expect("a thread engine");
    let baseline = Baseline::of(&engine).await;
    let mut faults = Vec::new();
    for case in cases().into_iter().filter(|case| case.safe_in_thread) {
        run(&engine, "thread", &case, &mut faults).await;
        healthy(&engine).await;
        baseline.check(&case).await;
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

/// One test, so that nothing else in this process opens a descriptor or starts a child meanwhile.
#[test]
fn hostile_programs_are_contained() {
    // SAFETY: the only test of this program, and no other thread reads the environment yet.
    unsafe { std::env::set_var("TOOLGATE_TEST_CANARY", CANARY) };
    // As the command does at its start: what a case made the host hold goes back to the system.
    toolgate_guest::give_back_freed_memory();
    // A case makes a host function panic. With RUST_BACKTRACE set, the default hook would read this program's debug
    // information then, and its tens of megabytes would count as what the case cost the host.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("tokio");
    runtime.block_on(async {
        every_case().await;
        every_case_in_a_worker_that_is_used_again().await;
        every_case_that_is_safe_in_a_thread().await;
        every_case_on_v8().await;
    });
}

#[test]
fn every_hostile_case_defends_a_promise() {
    let promises = promises();
    let cases = load(&specs().join("hostile"));
    assert!(cases.len() >= LEAST_CASES, "{} cases", cases.len());
    for case in &cases {
        let promise = case.promise.as_ref().unwrap_or_else(|| panic!("{} names no promise", case.name));
        assert!(promises.contains(promise), "{}: no promise {promise}", case.name);
    }
}
