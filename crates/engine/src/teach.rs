//! What to use instead of what a sandbox does not have.
//!
//! The name comes from the interpreter's own message. That is no ground for a code, which is
//! decided elsewhere; a program that fakes the message gets fitting advice about what it faked.

use toolgate_wire::{Code, Profile};

/// Advice for a program that reached for something of another runtime.
pub(crate) fn hint(code: Code, message: &str, profile: Profile) -> Option<String> {
    if code != Code::Runtime {
        return None;
    }
    let no_module = ["ReferenceError: could not load module", "TypeError: A dynamic import callback was not specified"];
    if no_module.iter().any(|start| message.starts_with(start)) {
        return Some(format!("There are no modules and no dynamic import in the sandbox. {}", plain_objects(profile)));
    }
    let what = message.strip_prefix("ReferenceError: ")?;
    advice(what.strip_suffix(" is not defined")?, profile)
}

fn advice(name: &str, profile: Profile) -> Option<String> {
    let (lack, instead) = match name {
        "process" | "os" => ("There is no `process` and no environment in the sandbox.", input(profile)),
        "require" | "module" | "exports" | "__dirname" | "__filename" => {
            ("There are no modules in the sandbox.", plain_objects(profile))
        }
        "Deno" | "Bun" | "fs" | "path" => ("There is no file system in the sandbox.", reach(profile)),
        "fetch" | "XMLHttpRequest" | "WebSocket" | "http" | "https" | "axios" => {
            ("There is no network in the sandbox.", reach(profile))
        }
        "Buffer" => ("There is no `Buffer` in the sandbox.", bytes(profile)),
        "WebAssembly" => ("There is no `WebAssembly` in the sandbox.", "Write the computation in JavaScript."),
        "SharedArrayBuffer" | "Atomics" => ("The sandbox has one thread.", "Use `ArrayBuffer` and typed arrays."),
        "Worker" | "MessageChannel" | "BroadcastChannel" => {
            ("The sandbox has one thread and no `Worker`.", in_turn(profile))
        }
        "performance" => ("There is no `performance` in the sandbox.", "Use `Date.now()`, which moves between events."),
        "window" | "document" | "localStorage" | "sessionStorage" | "navigator" => {
            ("The sandbox is no browser.", input(profile))
        }
        "setTimeout" | "setInterval" | "setImmediate" | "queueMicrotask" | "sleep" | "clearTimeout"
        | "clearInterval" => ("There is no such timer here.", in_turn(profile)),
        _ => return None,
    };
    Some(format!("{lack} {instead}"))
}

fn input(profile: Profile) -> &'static str {
    match profile {
        Profile::Compute => "Pass what the function needs in its argument.",
        Profile::Chain => "Use what the global `context` or a tool gives.",
        Profile::Snippet => "Use what the global `context` or a function of `api` gives.",
    }
}

fn reach(profile: Profile) -> &'static str {
    match profile {
        Profile::Compute => "A computation has its argument alone: pass the data in.",
        Profile::Chain => "Call a tool that does it; `__interfaces` lists them.",
        Profile::Snippet => "Call a function of `api` that does it.",
    }
}

fn plain_objects(profile: Profile) -> &'static str {
    match profile {
        Profile::Compute => "JavaScript's own objects are there.",
        Profile::Chain => "JavaScript's own objects are there, and tools are global objects.",
        Profile::Snippet => "JavaScript's own objects are there, and host functions are under `api`.",
    }
}

fn bytes(profile: Profile) -> &'static str {
    match profile {
        Profile::Compute => "Use `Uint8Array`, `atob` and `btoa`.",
        Profile::Chain | Profile::Snippet => "Use `Uint8Array`, `TextEncoder`, `TextDecoder`, `atob` and `btoa`.",
    }
}

fn in_turn(profile: Profile) -> &'static str {
    match profile {
        Profile::Compute => "A computation gives its value at once: loop over the data instead.",
        Profile::Chain | Profile::Snippet => "Use `await sleep(ms)` and `Promise.all`.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, profile: Profile, expected: Option<&str>) {
        assert_eq!(hint(Code::Runtime, message, profile).as_deref(), expected);
    }

    #[test]
    fn what_is_absent_has_advice_that_fits_the_profile() {
        let message = "ReferenceError: fetch is not defined";
        let lack = "There is no network in the sandbox.";
        check(
            message,
            Profile::Compute,
            Some(&format!("{lack} A computation has its argument alone: pass the data in.")),
        );
        check(message, Profile::Snippet, Some(&format!("{lack} Call a function of `api` that does it.")));
    }

    #[test]
    fn a_mistyped_name_has_no_advice() {
        check("ReferenceError: reslut is not defined", Profile::Chain, None);
        check("TypeError: fetch is not defined", Profile::Chain, None);
    }

    #[test]
    fn only_a_programs_own_failure_is_advised_on() {
        assert_eq!(hint(Code::Timeout, "ReferenceError: fetch is not defined", Profile::Chain), None);
    }
}
