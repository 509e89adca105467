//! The few lines of a test harness that these tests need: names, a filter, one line a case, an exit code.

#![allow(clippy::print_stdout, reason = "a test harness of its own")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// A rule and the function that checks it.
pub(crate) struct Case {
    name: &'static str,
    check: fn(),
}

impl Case {
    pub(crate) const fn new(name: &'static str, check: fn()) -> Self {
        Case { name, check }
    }
}

/// Makes the cases of functions, named as they are.
macro_rules! cases {
    ($($module:ident :: $name:ident),* $(,)?) => {
        vec![$($crate::runner::Case::new(concat!(stringify!($module), "::", stringify!($name)), $crate::$module::$name)),*]
    };
}
pub(crate) use cases;

/// Runs the cases whose names contain one of the arguments, or all.
pub(crate) fn run(cases: Vec<Case>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |case: &&Case| wanted.is_empty() || wanted.iter().any(|part| case.name.contains(part.as_str()));
    if arguments.iter().any(|argument| argument == "--list") {
        for case in &cases {
            println!("{}: test", case.name);
        }
        return ExitCode::SUCCESS;
    }
    let (chosen, since) = (cases.iter().filter(is_wanted).collect::<Vec<_>>(), Instant::now());
    println!("\nrunning {} tests", chosen.len());
    let failed: Vec<&str> = chosen.iter().filter(|case| !passes(case)).map(|case| case.name).collect();
    let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {verdict}. {} passed; {} failed; 0 ignored; 0 measured; {} filtered out; finished in {:.2}s\n",
        chosen.len() - failed.len(),
        failed.len(),
        cases.len() - chosen.len(),
        since.elapsed().as_secs_f64()
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(101) }
}

fn passes(case: &Case) -> bool {
    let passed = catch_unwind(AssertUnwindSafe(case.check)).is_ok();
    println!("test {} ... {}", case.name, if passed { "ok" } else { "FAILED" });
    passed
}
