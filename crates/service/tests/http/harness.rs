//! Async cases by name, run one after the other by `libtest-mimic`.

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

/// No case takes longer, unless something hangs; also on a machine that does much else.
const LONGEST: Duration = Duration::from_secs(300);

/// A name and what to do.
pub(crate) type Case = (&'static str, fn() -> Pin<Box<dyn Future<Output = ()> + Send>>);

/// The async functions of these names, as cases.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        vec![$((concat!(module_path!(), "::", stringify!($name)), || Box::pin($name()))),*]
    };
}
pub(crate) use cases;

/// Runs the cases that the arguments choose.
pub(crate) fn run(cases: &[Case]) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let runtime = Arc::new(runtime);
    let trial = |(name, case): &Case| {
        let (runtime, case) = (runtime.clone(), *case);
        Trial::test(*name, move || {
            // A task of its own turns a panic into a result.
            match runtime.block_on(async { runtime.spawn(tokio::time::timeout(LONGEST, case())).await }) {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) => Err(Failed::from("it hangs")),
                Err(panic) => Err(Failed::from(panic)),
            }
        })
    };
    // One at a time: cases look at the processes and descriptors of this one.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, cases.iter().map(trial).collect()).exit_code()
}
