//! Facilities of other runtimes that the sandbox does not have, and what to use instead.
//!
//! One table for every hint about a missing global: [`crate::hint_for_missing`] advises without a catalog, [`crate::hint_for`]
//! advises where a failed program uses such a name, and adds a tool that does the job if it finds one.

use toolgate_wire::Profile;

/// What is missing under some global names, and what replaces it.
pub(crate) struct Facility {
    names: &'static [&'static str],
    /// The profiles without it.
    missing_in: &'static [Profile],
    /// What is missing: one sentence.
    lack: &'static str,
    instead: Replacement,
    /// Words in the name of a tool or host function that does the job, in order of preference.
    pub(crate) tool_words: &'static [&'static str],
}

/// What replaces a facility.
#[derive(Clone, Copy)]
enum Replacement {
    /// Data that the caller passes in.
    Input,
    /// A tool or host function.
    Call,
    /// The objects of the language.
    Language,
    /// Typed arrays and text coding.
    Bytes,
    /// Waiting, or doing one thing after the other.
    Sequence,
    /// The same in every profile.
    Fixed(&'static str),
}

const EVERY: &[Profile] = &Profile::ALL;
const COMPUTE: &[Profile] = &[Profile::Compute];

static FACILITIES: &[Facility] = &[
    Facility {
        names: &["process", "os"],
        missing_in: EVERY,
        lack: "There is no `process` and no environment in the sandbox.",
        instead: Replacement::Input,
        tool_words: &["env", "exec", "shell", "command"],
    },
    Facility {
        names: &["child_process", "exec", "spawn"],
        missing_in: EVERY,
        lack: "The sandbox cannot start processes.",
        instead: Replacement::Call,
        tool_words: &["exec", "shell", "command", "run", "terminal"],
    },
    Facility {
        names: &["require", "module", "exports", "__dirname", "__filename"],
        missing_in: EVERY,
        lack: "There are no modules in the sandbox.",
        instead: Replacement::Language,
        tool_words: &[],
    },
    Facility {
        names: &["Deno", "Bun", "fs", "path"],
        missing_in: EVERY,
        lack: "There is no file system in the sandbox.",
        instead: Replacement::Call,
        tool_words: &["file", "read", "fs", "dir"],
    },
    Facility {
        names: &["fetch", "XMLHttpRequest", "WebSocket", "http", "https", "axios"],
        missing_in: EVERY,
        lack: "There is no network in the sandbox.",
        instead: Replacement::Call,
        tool_words: &["fetch", "http", "url", "crawl", "scrape", "browse", "web", "request"],
    },
    Facility {
        names: &["httpCall", "api"],
        missing_in: EVERY,
        lack: "Programs may send no HTTP requests here: `toolgate.egress` is off.",
        instead: Replacement::Fixed("The user can allow hosts there; otherwise look for a tool that does it."),
        tool_words: &["fetch", "http", "url", "crawl", "scrape", "browse", "web", "request"],
    },
    Facility {
        names: &["Buffer"],
        missing_in: EVERY,
        lack: "There is no `Buffer` in the sandbox.",
        instead: Replacement::Bytes,
        tool_words: &[],
    },
    Facility {
        names: &["WebAssembly"],
        missing_in: EVERY,
        lack: "There is no `WebAssembly` in the sandbox.",
        instead: Replacement::Fixed("Write the computation in JavaScript."),
        tool_words: &[],
    },
    Facility {
        names: &["SharedArrayBuffer", "Atomics"],
        missing_in: EVERY,
        lack: "The sandbox has one thread.",
        instead: Replacement::Fixed("Use `ArrayBuffer` and typed arrays."),
        tool_words: &[],
    },
    Facility {
        names: &["Worker", "MessageChannel", "BroadcastChannel"],
        missing_in: EVERY,
        lack: "The sandbox has one thread and no `Worker`.",
        instead: Replacement::Sequence,
        tool_words: &[],
    },
    Facility {
        names: &["performance"],
        missing_in: EVERY,
        lack: "There is no `performance` in the sandbox.",
        instead: Replacement::Fixed("Use `Date.now()`, which advances when a call or a timer ends."),
        tool_words: &[],
    },
    Facility {
        names: &["window", "document", "localStorage", "sessionStorage", "navigator"],
        missing_in: EVERY,
        lack: "The sandbox is not a browser.",
        instead: Replacement::Input,
        tool_words: &[],
    },
    Facility {
        names: &["setImmediate"],
        missing_in: EVERY,
        lack: "There is no `setImmediate` in the sandbox.",
        instead: Replacement::Sequence,
        tool_words: &[],
    },
    Facility {
        names: &["setTimeout", "setInterval", "queueMicrotask", "sleep", "clearTimeout", "clearInterval"],
        missing_in: COMPUTE,
        lack: "A computation has no timers.",
        instead: Replacement::Sequence,
        tool_words: &[],
    },
];

/// The facility that a global name stands for, if runs of this profile lack it.
pub(crate) fn missing(name: &str, profile: Profile) -> Option<&'static Facility> {
    FACILITIES.iter().find(|facility| facility.names.contains(&name) && facility.missing_in.contains(&profile))
}

impl Facility {
    /// What is missing and what to use instead: `call`, if there is a tool or function that does the job.
    pub(crate) fn advice(&self, profile: Profile, call: Option<&str>) -> String {
        match call {
            Some(call) => format!("{} This can do it: {call}.", self.lack),
            None => format!("{} {}", self.lack, self.instead.sentence(profile)),
        }
    }
}

impl Replacement {
    fn sentence(self, profile: Profile) -> &'static str {
        use Profile::{Chain, Compute, Snippet};
        match (self, profile) {
            (Replacement::Input, Compute) => "Pass what the function needs in its argument.",
            (Replacement::Input, Chain) => "Use what the global `context` or a tool gives.",
            (Replacement::Input, Snippet) => "Use what the global `context` or a function of `api` gives.",
            (Replacement::Call, Compute) => "A computation has only its argument: pass the data in.",
            (Replacement::Call, Chain) => "Call a tool that does it; `__interfaces` lists them.",
            (Replacement::Call, Snippet) => "Call a function of `api` that does it.",
            (Replacement::Language, Compute) => "JavaScript's own objects are there.",
            (Replacement::Language, Chain) => "JavaScript's own objects are there, and tools are global objects.",
            (Replacement::Language, Snippet) => {
                "JavaScript's own objects are there, and host functions are under `api`."
            }
            (Replacement::Bytes, Compute) => "Use `Uint8Array`, `atob` and `btoa`.",
            (Replacement::Bytes, Chain | Snippet) => {
                "Use `Uint8Array`, `TextEncoder`, `TextDecoder`, `atob` and `btoa`."
            }
            (Replacement::Sequence, Compute) => "A computation returns its value at once: loop over the data instead.",
            (Replacement::Sequence, Chain | Snippet) => "Use `await sleep(ms)` and `Promise.all`.",
            (Replacement::Fixed(sentence), _) => sentence,
        }
    }
}

/// What to use instead of a global that runs of this profile do not have; `None` for a name that no other runtime has.
pub(crate) fn missing_facility(name: &str, profile: Profile) -> Option<String> {
    missing(name, profile).map(|facility| facility.advice(profile, None))
}

/// What to use instead of `import()`.
pub(crate) fn missing_modules(profile: Profile) -> String {
    let instead = Replacement::Language.sentence(profile);
    format!("There are no modules and no dynamic import in the sandbox. {instead}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_stands_for_two_facilities() {
        let names: Vec<&str> = FACILITIES.iter().flat_map(|facility| facility.names.iter().copied()).collect();
        let unique: std::collections::HashSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), unique.len());
    }

    #[test]
    fn advice_fits_the_profile() {
        let lack = "There is no network in the sandbox.";
        for (profile, instead) in [
            (Profile::Compute, "A computation has only its argument: pass the data in."),
            (Profile::Chain, "Call a tool that does it; `__interfaces` lists them."),
            (Profile::Snippet, "Call a function of `api` that does it."),
        ] {
            assert_eq!(missing_facility("fetch", profile), Some(format!("{lack} {instead}")));
        }
    }

    #[test]
    fn timers_are_missing_only_in_computations() {
        assert!(missing_facility("setTimeout", Profile::Compute).is_some());
        assert_eq!(missing_facility("setTimeout", Profile::Chain), None);
        assert_eq!(missing_facility("reslut", Profile::Chain), None);
    }
}
