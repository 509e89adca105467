//! Native code that tries to leave something behind for the next run of its caller, in a process that its host puts back.
//!
//! Each attack is found: by the filter, which kills it; by the host, which ends the process since it cannot put it back; or it
//! is undone, and the next run in the same process finds nothing.

#[path = "../../engine/tests/support/rewinding.rs"]
mod rewinding;

use std::sync::Arc;

use rewinding::permits_rewinding;
use serde_json::Value;
use toolgate_engine::wire::{Profile, Report};
use toolgate_engine::{Engine, EngineChoice, Functions, Request, Reuse, WorkerCommand};

/// What becomes of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is undone, and the process serves the next run.
    Undone,
    /// The process is ended after the run.
    Ended,
    /// It is undone, or the process is ended: whichever comes first.
    Either,
    /// The filter kills the process during the run.
    Killed,
}

use Fate::{Either, Ended, Killed, Undone};

const ATTACKS: &[(&str, Fate)] = &[
    ("nothing", Undone),
    ("data", Undone),
    ("every-page", Undone),
    ("stack", Undone),
    ("more-stack-than-a-run-has", Ended),
    ("mapping", Undone),
    ("many-mappings", Ended),
    ("break", Undone),
    ("break-within-a-page", Killed),
    ("break-over-a-hole", Undone),
    ("break-without-its-guard", Undone),
    ("hole-in-the-stack", Undone),
    ("hole-in-the-data", Undone),
    ("exchanged-data", Undone),
    ("moved-data", Undone),
    ("less-memory", Ended),
    ("a-lower-soft-limit", Ended),
    // A run that ends before its call is answered leaves nothing unread.
    ("unread-reply", Either),
    ("half-a-frame", Ended),
    ("frames-for-ever", Ended),
    ("a-loop", Undone),
    ("an-end", Either),
    ("handler", Killed),
    ("mask", Killed),
    ("mask-by-return", Killed),
    ("signal-stack", Killed),
    ("thread", Killed),
    ("descriptor", Killed),
    ("protection", Killed),
    ("memory-to-drop-later", Killed),
    ("dropped-memory", Killed),
    ("timer", Killed),
    ("restart-list", Killed),
];

/// What the kernel refuses, since the mappings are sealed.
const SEALED: [&str; 5] =
    ["break-without-its-guard", "hole-in-the-stack", "hole-in-the-data", "exchanged-data", "moved-data"];
/// What only the host can find.
const LOWERED: [&str; 2] = ["less-memory", "a-lower-soft-limit"];

/// State of the processor.
#[cfg(target_arch = "x86_64")]
const REGISTERS: &[(&str, Fate)] = &[
    ("x87-control", Undone),
    ("sse-control", Undone),
    ("vectors", Undone),
    ("direction", Undone),
    ("alignment", Undone),
    ("identification", Ended),
    ("callee-saved", Undone),
    ("fs-base", Undone),
    ("gs-base", Undone),
];

fn engine() -> Engine {
    let worker = WorkerCommand::Program(env!("CARGO_BIN_EXE_toolgate-hostile-worker").into());
    let builder = Engine::builder().worker_command(worker).engine(EngineChoice::QuickJs);
    builder.reuse(Reuse::SameCaller).build().expect("a process engine")
}

async fn order(engine: &Engine, caller: &str, order: &str) -> Report {
    let host = Arc::new(Functions::new().with("echo", |args: Value| async move { Ok(args[0].clone()) }));
    let program = Request::new(Profile::Chain, format!("return \"do {order}\""));
    engine.run(Request { host, caller: Some(caller.into()), ..program }).await
}

fn outcome(report: &Report) -> String {
    match report.value() {
        Ok(value) => value.get().trim_matches('"').to_owned(),
        Err(failure) => failure.to_string(),
    }
}

/// Leaves something, and looks for it in the next run of the same caller.
async fn check(engine: &Engine, attack: &str, fate: Fate) {
    let first = order(engine, attack, &format!("leave {attack}")).await;
    let killed = outcome(&first).contains("signal 31");
    assert_eq!(killed, fate == Killed, "{attack}: {}", outcome(&first));
    assert_eq!(first.failure().is_some(), killed, "{attack}: {}", outcome(&first));
    if SEALED.contains(&attack) {
        assert_eq!(outcome(&first), "-1", "{attack}: the kernel refuses it");
    }
    if LOWERED.contains(&attack) {
        assert_eq!(outcome(&first), "0", "{attack}: the kernel permits it");
    }
    let hint = if killed { "0".to_owned() } else { outcome(&first) };
    let second = order(engine, attack, &format!("find {attack} {hint}")).await;
    assert_eq!(outcome(&second), "clean", "{attack}");
    assert!(fate == Either || second.isolation.rewound == (fate == Undone), "{attack}: {:?}", second.isolation);
    let third = order(engine, attack, &format!("find {attack} {hint}")).await;
    assert_eq!((outcome(&third).as_str(), third.isolation.rewound), ("clean", true), "{attack}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_native_code_leaves_behind_stays() {
    if !permits_rewinding() {
        return;
    }
    let engine = engine();
    for (attack, fate) in ATTACKS {
        check(&engine, attack, *fate).await;
    }
}

#[cfg(target_arch = "x86_64")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_state_of_the_processor_stays() {
    if !permits_rewinding() {
        return;
    }
    let engine = engine();
    // What is looked for can be found: in the run that left it.
    assert_eq!(outcome(&order(&engine, "vectors", "find vectors-of-this-run").await), "found");
    for (register, fate) in REGISTERS {
        check(&engine, register, *fate).await;
    }
}
