//! The guest's contract: every case under `specs/guest` on every engine, with the same result.

mod support;

use support::{Case, Expect, engines, load, show, specs};
use toolgate_engine::Engine;
use toolgate_wire::{Code, Report};

/// Only cases whose name has this in it are run, when it is set: for work on one of them.
const ONLY: &str = "TOOLGATE_SPEC";

/// A case that takes longer is named, so that the suite stays quick.
const SLOW: std::time::Duration = std::time::Duration::from_millis(700);

/// Cases under way at one time: a V8 worker takes its time to come up.
const LANES: usize = 2;

/// How often a case is run that is not about time and ran out of it: a busy machine may not bring a worker up within the few seconds
/// that a snippet has at most.
const MAX_ATTEMPTS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_engine_keeps_the_guests_contract() {
    let only = std::env::var(ONLY).unwrap_or_default();
    let engines = engines();
    let mut lanes = vec![Vec::new(); LANES];
    let cases = load(&specs().join("guest")).into_iter().filter(|case| case.name.contains(&only));
    cases.enumerate().for_each(|(at, case)| lanes[at % LANES].push(case));
    let runs: Vec<_> = lanes.into_iter().map(|cases| tokio::spawn(faults_of(cases, engines.clone()))).collect();
    let mut faults = Vec::new();
    for run in runs {
        faults.extend(run.await.expect("a lane"));
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

async fn report_of(case: &Case, expect: &Expect, engine: &Engine) -> Report {
    let mut report = engine.run(case.request()).await;
    for _ in 1..MAX_ATTEMPTS {
        let is_timeout = report.failure().is_some_and(|failure| failure.code == Code::Timeout);
        if !is_timeout || expect.faults(&report).is_empty() {
            break;
        }
        report = engine.run(case.request()).await;
    }
    report
}

async fn faults_of(cases: Vec<Case>, engines: Vec<(&'static str, Engine)>) -> Vec<String> {
    let mut faults = Vec::new();
    for case in &cases {
        let mut first: Option<(&str, String)> = None;
        for (name, engine) in &engines {
            let Some(expect) = case.expected_on(name) else { continue };
            let report = report_of(case, expect, engine).await;
            if report.elapsed > SLOW && *name != "v8" {
                eprintln!("{} [{name}] took {:?}", case.name, report.elapsed);
            }
            faults.extend(expect.faults(&report).into_iter().map(|fault| format!("{} [{name}] {fault}", case.name)));
            if case.differs_on(name) {
                continue;
            }
            match &first {
                None => first = Some((name, show(&report))),
                Some((other, shown)) if *shown != show(&report) => {
                    faults.push(format!("{} [{name}] {} but [{other}] {shown}", case.name, show(&report)));
                }
                Some(_) => {}
            }
        }
    }
    faults
}
