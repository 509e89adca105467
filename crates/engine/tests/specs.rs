//! The guest's contract: every case under `specs/guest` on every engine, with the same result.

mod support;

use support::{engines, load, show, specs};

/// Only cases whose name has this in it are run, when it is set: for work on one of them.
const ONLY: &str = "TOOLGATE_SPEC";

/// A case that takes longer is named, so that the suite stays quick.
const SLOW: std::time::Duration = std::time::Duration::from_millis(700);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_engine_keeps_the_guests_contract() {
    let only = std::env::var(ONLY).unwrap_or_default();
    let engines = engines();
    let mut faults = Vec::new();
    for case in load(&specs().join("guest")).iter().filter(|case| case.name.contains(&only)) {
        let mut first: Option<(&str, String)> = None;
        for (name, engine) in &engines {
            let Some(expect) = case.expected_on(name) else { continue };
            let report = engine.run(case.request()).await;
            if report.elapsed > SLOW {
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
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}
