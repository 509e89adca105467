//! Configurations in JSON: any bytes are a configuration or a list of problems, each within the text.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use toolgate_config::text::{Format, Source};
use toolgate_config::{Env, check};

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.split(|byte| *byte == b'\n').count();
    let Ok(source) = Source::from_bytes(Path::new("/nowhere/toolgate"), Format::Json, bytes.to_vec()) else { return };
    // Without variables and commands: what a file names must not be read or run by this program.
    let Err(problems) = check(source, &Env::new(None, "/nowhere")) else { return };
    assert!(!problems.is_empty(), "a refusal has a reason");
    for problem in problems {
        assert!(!problem.to_string().is_empty());
        // A carriage return may end a line too.
        let returns = bytes.iter().filter(|byte| **byte == b'\r').count();
        assert!(problem.position.is_none_or(|at| at.line <= lines + returns), "{problem}");
    }
});
