//! What a hostile program can make of the checker: it goes unchecked, and costs the budget and no more.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use toolgate_catalog::types::learned::{LearnedType, LearnedTypes};
use toolgate_run::{Environment, LearnedResults, ProgramTypes, Runner, TypesNotChecked};
use toolgate_typecheck::Unchecked;
use toolgate_wire::Warning;

use crate::runner::{Case, cases};
use crate::world::{TYPED, WAIT_TIMEOUT, check, checker, checkers, run, runner, tools};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        hostile::a_program_that_is_hard_to_check_runs_all_the_same,
        hostile::comments_and_references_mean_nothing,
        hostile::reserved_names_are_not_checked,
        hostile::a_checker_that_dies_is_started_again,
        hostile::a_checker_that_died_is_up_again_before_the_next_check,
        hostile::an_answer_that_is_late_stops_nothing,
        hostile::making_declarations_counts_in_the_budget,
        hostile::a_run_goes_on_while_its_declarations_are_made,
        hostile::a_check_without_a_checker_says_so,
        hostile::many_written_names_against_many_tools_cost_little,
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
    assert!(
        report.warnings.iter().any(|warning| warning.to_string().contains("were not checked")),
        "{:?}",
        report.warnings
    );
}

pub(crate) fn a_checker_that_dies_is_started_again() {
    let before = checkers();
    let types = Arc::new(ProgramTypes::new(checker(WAIT_TIMEOUT)));
    let runner = runner(&tools(), Some(types));
    let wrong = format!("{CALL}return r.isues");
    assert_eq!(check(&runner, &wrong).unwrap().errors.len(), 1);
    kill(&checkers().difference(&before).copied().collect::<Vec<_>>());
    let other = format!("{CALL}return r.totl");
    let since = Instant::now();
    while check(&runner, &other).unwrap().errors.is_empty() {
        assert!(since.elapsed() < WAIT_TIMEOUT, "it was not started again");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn kill(ids: &[u32]) {
    assert!(!ids.is_empty(), "the checker is a process of ours");
    for id in ids {
        assert!(std::process::Command::new("kill").args(["-9", &id.to_string()]).status().unwrap().success());
    }
}

pub(crate) fn a_checker_that_died_is_up_again_before_the_next_check() {
    let before = checkers();
    let checker = checker(WAIT_TIMEOUT);
    checker.warm();
    let of_this = || checkers().difference(&before).copied().collect::<Vec<_>>();
    let mut seen: Vec<u32> = Vec::new();
    // Twice: the first start is asked for, the second is not.
    for _ in 0..2 {
        let since = Instant::now();
        while of_this().iter().all(|id| seen.contains(id)) {
            assert!(since.elapsed() < 3 * WAIT_TIMEOUT, "no process");
            std::thread::sleep(Duration::from_millis(50));
        }
        seen.extend(of_this());
        kill(&of_this());
    }
}

pub(crate) fn an_answer_that_is_late_stops_nothing() {
    // No process answers that fast.
    let types = Arc::new(ProgramTypes::new(checker(Duration::from_micros(1))));
    let runner = runner(&tools(), Some(types));
    let report = run(&runner, &format!("{CALL}return r.isues")).report;
    assert!(report.failure().is_none(), "{report:?}");
    assert_eq!(report.calls.len(), 1);
    let told = "the types of the program were not checked: the type check took too long";
    assert_eq!(report.warnings, [Warning::Remark(told.to_owned())]);
    let request = crate::world::asking(&format!("{CALL}return r.isues"));
    let check = crate::world::block_on(runner.check_types(&request, Duration::from_micros(1))).unwrap();
    assert!(check.preflight.errors.is_empty());
    assert_eq!(check.not_checked, Some(TypesNotChecked::NoAnswer(Unchecked::Late)), "a check says so too");
}

/// What was learned, read so slowly that the declarations take as long.
struct SlowLearning(Duration);

impl LearnedResults for SlowLearning {
    fn version(&self) -> u64 {
        1
    }

    fn result_type(&self, _: &str, _: &str) -> Option<LearnedType> {
        std::thread::sleep(self.0);
        None
    }

    fn types(&self) -> Arc<LearnedTypes> {
        Arc::default()
    }

    fn breaks_its_schema(&self, _: &str, _: &str) -> bool {
        false
    }
}

struct SlowEnvironment(Arc<SlowLearning>, Arc<ProgramTypes>);

impl Environment for SlowEnvironment {
    fn learned(&self) -> Option<Arc<dyn LearnedResults>> {
        Some(Arc::clone(&self.0) as _)
    }

    fn types(&self) -> Option<Arc<ProgramTypes>> {
        Some(Arc::clone(&self.1))
    }
}

pub(crate) fn making_declarations_counts_in_the_budget() {
    // Time enough for the checker alone, which is warm.
    let budget = Duration::from_secs(4);
    let types = Arc::new(ProgramTypes::new(checker(budget)));
    let warm = runner(&tools(), Some(Arc::clone(&types)));
    assert_eq!(check(&warm, &format!("{CALL}return r.isues")).unwrap().errors.len(), 1);
    let environment = SlowEnvironment(Arc::new(SlowLearning(budget)), types);
    let runner = Runner::new(warm.engine().clone(), Arc::clone(warm.bridge()), Arc::new(environment));
    let code = "const r = await loose.get(); const u = await tracker.get_user({ login: r.name }); return u.emial";
    let check = |budget| {
        let request = crate::world::asking(code);
        crate::world::block_on(runner.check_types(&request, budget)).unwrap()
    };
    let first = check(budget);
    assert_eq!(first.not_checked, Some(TypesNotChecked::NoAnswer(Unchecked::Late)));
    let next = check(WAIT_TIMEOUT);
    assert_eq!((next.not_checked, next.preflight.errors.len()), (None, 1), "they were kept: {:?}", next.preflight);
}

/// What was learned, which cannot be read before the gate opens.
struct GatedLearning {
    is_open: Mutex<bool>,
    opened: Condvar,
    reads: AtomicUsize,
}

impl LearnedResults for GatedLearning {
    fn version(&self) -> u64 {
        1
    }

    fn result_type(&self, _: &str, _: &str) -> Option<LearnedType> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let is_open = self.is_open.lock().unwrap();
        let (is_open, _) = self.opened.wait_timeout_while(is_open, 3 * WAIT_TIMEOUT, |is_open| !*is_open).unwrap();
        assert!(*is_open, "the run waits for its declarations");
        None
    }

    fn types(&self) -> Arc<LearnedTypes> {
        Arc::default()
    }

    fn breaks_its_schema(&self, _: &str, _: &str) -> bool {
        false
    }
}

struct GatedEnvironment(Arc<GatedLearning>, Arc<ProgramTypes>);

impl Environment for GatedEnvironment {
    fn learned(&self) -> Option<Arc<dyn LearnedResults>> {
        Some(Arc::clone(&self.0) as _)
    }

    fn types(&self) -> Option<Arc<ProgramTypes>> {
        Some(Arc::clone(&self.1))
    }
}

pub(crate) fn a_run_goes_on_while_its_declarations_are_made() {
    let types = Arc::new(ProgramTypes::new(checker(Duration::from_millis(20))));
    let gate = GatedLearning { is_open: Mutex::new(false), opened: Condvar::new(), reads: AtomicUsize::new(0) };
    let learned = Arc::new(gate);
    let environment = GatedEnvironment(Arc::clone(&learned), types);
    let plain = runner(&tools(), None);
    let runner = Runner::new(plain.engine().clone(), Arc::clone(plain.bridge()), Arc::new(environment));
    let code = "const r = await loose.get(); const u = await tracker.get_user({ login: r.name }); return u.emial";
    for _ in 0..2 {
        let report = run(&runner, code).report;
        assert!(report.failure().is_none(), "{report:?}");
        let warnings: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings, ["the types of the program were not checked: the type check took too long"]);
    }
    *learned.is_open.lock().unwrap() = true;
    learned.opened.notify_all();
    let found = check(&runner, code).unwrap();
    assert_eq!(found.errors.len(), 1, "{found:?}");
    assert_eq!(learned.reads.load(Ordering::SeqCst), 2, "both tools of `loose` were read once");
}

pub(crate) fn a_check_without_a_checker_says_so() {
    let runner = runner(&tools(), None);
    let not_checked = |code: &str| {
        let request = crate::world::asking(code);
        crate::world::block_on(runner.check_types(&request, WAIT_TIMEOUT)).unwrap().not_checked
    };
    assert_eq!(not_checked(&format!("{CALL}return r.total")), Some(TypesNotChecked::NoChecker));
    assert_eq!(not_checked("const a = 1; return a"), Some(TypesNotChecked::NoNames));
}

/// 64 K characters of assignments against 1,000 tools with 100 keys each: what is asked for each name does not grow with the
/// number of tools.
pub(crate) fn many_written_names_against_many_tools_cost_little() {
    let properties: serde_json::Map<String, serde_json::Value> =
        (0..100).map(|n| (format!("k{n:05}"), json!({ "type": "string" }))).collect();
    let tool = |n: usize| {
        let result = json!({ "type": "object", "properties": properties });
        json!({ "name": format!("t{n}"), "outputSchema": result, "reply": {} })
    };
    let many = json!({ "backends": { "many": { "tools": (0..1_000).map(tool).collect::<Vec<_>>() } } });
    let types = Arc::new(ProgramTypes::new(checker(WAIT_TIMEOUT)));
    let runner = runner(&many, Some(types));
    let mut code = "const r = await many.t1(); const x = r ?? {}; if (x.never) { ".to_owned();
    let mut n = 10_000;
    while code.len() < 64 << 10 {
        code.push_str(&format!("x.a{n}=1;"));
        n += 1;
    }
    code.push_str("} return 1");
    let since = Instant::now();
    let report = run(&runner, &code).report;
    assert!(report.failure().is_none(), "{:?}", report.failure());
    assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
}
