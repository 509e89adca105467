//! Cases by name, run one after the other by `libtest-mimic`.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

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

/// Runs the cases that the arguments choose.
pub(crate) fn run(cases: Vec<Case>) -> ExitCode {
    let trial = |case: Case| {
        Trial::test(case.name, move || {
            (case.check)();
            Ok(())
        })
    };
    // One at a time: each uses all cores.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, cases.into_iter().map(trial).collect()).exit_code()
}
