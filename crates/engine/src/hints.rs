//! Hints for a program that used a global of another runtime.
//!
//! The name comes from the interpreter's message. The outcome's code does not: a program that forges the message gets
//! a hint about the name that it forged, and nothing else changes.

use toolgate_plan::{missing_facility, missing_modules};
use toolgate_wire::{Code, Profile};

/// How the messages of QuickJS and V8 for `import()` begin.
const NO_DYNAMIC_IMPORT: [&str; 2] =
    ["ReferenceError: could not load module", "TypeError: A dynamic import callback was not specified"];

/// What to use instead of the missing global or module.
pub(crate) fn hint(code: Code, message: &str, profile: Profile) -> Option<String> {
    if code != Code::Runtime {
        return None;
    }
    if NO_DYNAMIC_IMPORT.iter().any(|start| message.starts_with(start)) {
        return Some(missing_modules(profile));
    }
    let name = message.strip_prefix("ReferenceError: ")?.strip_suffix(" is not defined")?;
    missing_facility(name, profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, profile: Profile, expected: Option<String>) {
        assert_eq!(hint(Code::Runtime, message, profile), expected);
    }

    #[test]
    fn an_undefined_global_of_another_runtime_has_the_planners_hint() {
        for profile in Profile::ALL {
            let expected = missing_facility("fetch", profile);
            assert!(expected.is_some());
            check("ReferenceError: fetch is not defined", profile, expected);
        }
    }

    #[test]
    fn a_mistyped_name_has_no_hint() {
        check("ReferenceError: reslut is not defined", Profile::Chain, None);
        check("TypeError: fetch is not defined", Profile::Chain, None);
    }

    #[test]
    fn only_a_runtime_failure_has_a_hint() {
        assert_eq!(hint(Code::Timeout, "ReferenceError: fetch is not defined", Profile::Chain), None);
    }
}
