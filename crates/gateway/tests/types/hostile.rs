//! What a hostile program can make of the checker: it goes unchecked, and costs the budget and no more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use toolgate_gateway::run::ProgramTypes;

use crate::runner::{Case, cases};
use crate::world::{TYPED, check, checker, run, runner, tools};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        hostile::a_program_that_is_hard_to_check_runs_all_the_same,
        hostile::comments_and_references_mean_nothing,
        hostile::reserved_names_are_not_checked,
        hostile::a_checker_that_dies_is_started_again,
    ]
}

const CALL: &str = "const r = await tracker.list_issues(); ";

pub(crate) fn a_program_that_is_hard_to_check_runs_all_the_same() {
    // A budget as users have it, and a process of its own.
    let types = Arc::new(ProgramTypes::new(checker(Duration::from_millis(150))));
    let runner = runner(&tools(), Some(types));
    let nested = format!("{}r{}", "[".repeat(200), "]".repeat(200));
    let union: String = (0..600).map(|n| format!("x === {n} ? {{ a{n}: r }} : ")).collect();
    let tuple: String = (0..30).map(|n| format!("const t{} = [...t{n}, ...t{n}];", n + 1)).collect();
    for code in [
        format!("{CALL}return {nested}.length"),
        format!("{CALL}const x = 599; return Object.keys({union}{{}}).length"),
        format!("{CALL}const t0 = [1, r]; if (r.total > 100) {{ {tuple} }} return t0.length"),
        format!("{CALL}const s = '{}'; return s.length", "x".repeat(200_000)),
        format!("{CALL}const f = a => a ? f(f) : f; return typeof f"),
        format!("{CALL}return {}1", "r.total + ".repeat(900)),
        format!("{CALL}const g = n => n > 0 ? [g(n - 1), [g(n - 1)]] : n; return g(3).length"),
    ] {
        let since = Instant::now();
        let report = run(&runner, &code).report;
        let shown = &code[..code.len().min(120)];
        assert!(report.failure().is_none(), "{shown}: {:?}", report.failure());
        assert!(since.elapsed() < Duration::from_secs(60), "{shown}");
    }
    let fine = run(&runner, &format!("{CALL}return r.total")).report;
    assert!(fine.failure().is_none());
}

pub(crate) fn comments_and_references_mean_nothing() {
    for comment in [
        "// @ts-nocheck\n",
        "// @ts-ignore\n",
        "/* @ts-expect-error */ ",
        "/// <reference path=\"/etc/passwd\" />\n",
        "/// <reference no-default-lib=\"true\"/>\n",
        "/** @type {any} */ ",
        "/** @typedef {any} Promise */ ",
    ] {
        let code = format!("{comment}{CALL}{comment}return r.isues");
        let found = check(&TYPED, &code).unwrap();
        assert_eq!(found.errors.len(), 1, "{comment}: {found:?}");
    }
    for code in ["const m = await import('/etc/passwd'); ", "const m = require('/etc/passwd'); "] {
        let Some(found) = check(&TYPED, &format!("{code}{CALL}return r.isues")) else { continue };
        assert!(!format!("{found:?}").contains("root:"), "{found:?}");
    }
}

pub(crate) fn reserved_names_are_not_checked() {
    let code = format!("class $tg0 {{ }} {CALL}return new $tg0().x + r.total");
    let report = run(&TYPED, &code).report;
    assert!(report.failure().is_none(), "{report:?}");
    assert!(report.warnings.iter().any(|warning| warning.contains("were not checked")), "{:?}", report.warnings);
}

pub(crate) fn a_checker_that_dies_is_started_again() {
    let types = Arc::new(ProgramTypes::new(checker(crate::world::PATIENCE)));
    let runner = runner(&tools(), Some(types));
    let wrong = format!("{CALL}return r.isues");
    assert_eq!(check(&runner, &wrong).unwrap().errors.len(), 1);
    let own = std::process::id().to_string();
    let mut killed = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let status = std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let is_ours = status.lines().any(|line| line.split_whitespace().eq(["PPid:", own.as_str()]));
        if is_ours && status.contains("Name:\ttsc") {
            let id = entry.file_name().into_string().unwrap();
            assert!(std::process::Command::new("kill").args(["-9", &id]).status().unwrap().success());
            killed += 1;
        }
    }
    assert!(killed > 0, "the checker is a process of ours");
    let other = format!("{CALL}return r.totl");
    let since = Instant::now();
    while check(&runner, &other).unwrap().errors.is_empty() {
        assert!(since.elapsed() < crate::world::PATIENCE, "it was not started again");
        std::thread::sleep(Duration::from_millis(50));
    }
}
