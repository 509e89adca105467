//! Runs named async cases one after the other and says what became of each.

#![allow(clippy::print_stdout, reason = "a test harness of its own")]

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// No case takes longer, unless something hangs.
const LONGEST: Duration = Duration::from_secs(60);

/// A name and what to do.
pub(crate) type Case = (&'static str, fn() -> Pin<Box<dyn Future<Output = ()> + Send>>);

/// The async functions of these names, as cases.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        vec![$((concat!(module_path!(), "::", stringify!($name)), || Box::pin($name()))),*]
    };
}
pub(crate) use cases;

/// Runs the cases whose name has one of the arguments in it; all without arguments.
pub(crate) fn run(cases: &[Case]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        cases.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    let (since, mut passed, mut failed) = (Instant::now(), 0, Vec::new());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    println!("\nrunning {} tests", cases.iter().filter(|(name, _)| chosen(name)).count());
    for (name, case) in cases.iter().filter(|(name, _)| chosen(name)) {
        // A task of its own turns a panic into a result.
        let ended = runtime.block_on(async { runtime.spawn(tokio::time::timeout(LONGEST, case())).await });
        let verdict = match ended {
            Ok(Ok(())) => {
                passed += 1;
                "ok"
            }
            Ok(Err(_)) => {
                failed.push(*name);
                "FAILED (it hangs)"
            }
            Err(_) => {
                failed.push(*name);
                "FAILED"
            }
        };
        println!("test {name} ... {verdict}");
    }
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    let left_out = cases.len() - passed - failed.len();
    println!(
        "\ntest result: {word}. {passed} passed; {} failed; 0 ignored; 0 measured; {left_out} filtered out; finished in {:.2}s\n",
        failed.len(),
        since.elapsed().as_secs_f64()
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
