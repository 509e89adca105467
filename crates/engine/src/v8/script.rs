//! Deno's arguments, and the first message: the JavaScript of a worker and the numbers that it shares with the host.

use serde_json::json;
use toolgate_guest::prelude;

const OUTER: &str = include_str!("js/outer.js");

/// The files of the first message, in the order of the parameters of `worker.js`.
const INNER: [(&str, &str); 15] = [
    ("worker", include_str!("js/worker.js")),
    ("realm", include_str!("js/realm.js")),
    ("serialise", include_str!("js/serialise.js")),
    ("captured", prelude::REALM),
    ("codec", include_str!("js/codec.js")),
    ("clone", prelude::CLONE),
    ("core", prelude::CORE),
    ("stage", prelude::STAGE),
    ("console", prelude::CONSOLE),
    ("events", prelude::EVENTS),
    ("tools", prelude::TOOLS),
    ("web", prelude::WEB),
    ("main", prelude::MAIN),
    ("locale_hooks", prelude::LOCALE_HOOKS),
    ("locale", prelude::LOCALE),
];

/// Deny every permission, never prompt, load nothing, cache nothing.
const FLAGS: [&str; 17] = [
    "run",
    "--quiet",
    "--no-prompt",
    "--no-remote",
    "--no-npm",
    "--no-config",
    "--no-lock",
    "--no-check",
    "--no-code-cache",
    "--deny-read",
    "--deny-write",
    "--deny-net",
    "--deny-env",
    "--deny-sys",
    "--deny-run",
    "--deny-ffi",
    "--deny-import",
];

/// The arguments for a heap limit in megabytes.
pub(super) fn arguments(heap: u64) -> Vec<String> {
    let mut arguments: Vec<String> = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
    arguments.push(format!("--v8-flags=--max-old-space-size={heap}"));
    // The program is a data URL: there is no file whose path could appear in an error.
    arguments.push(format!("data:application/javascript,{}", percent_encoded(OUTER)));
    arguments
}

/// The host's first message: a length, then JSON with the text of the constants and a list of names and texts.
pub(super) fn first_message() -> Vec<u8> {
    // As a text, which a program that needs it parses: an expression like the other files.
    let locale_data = json!(prelude::LOCALE_DATA).to_string();
    let files: Vec<_> = INNER.into_iter().chain([("locale_data", locale_data.as_str())]).collect();
    message(&files)
}

fn message(files: &[(&str, &str)]) -> Vec<u8> {
    let files: Vec<_> = files.iter().map(|(name, text)| json!([name, text])).collect();
    let text = json!({ "constants": prelude::constants().to_string(), "files": files }).to_string().into_bytes();
    let mut message = (text.len() as u32).to_le_bytes().to_vec();
    message.extend(text);
    message
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'();/?:@&=+$,".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};

    /// The deno of the tests: from the environment variable, from `PATH`, or installed by `./check`.
    fn deno() -> PathBuf {
        let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.check/deno/node_modules/deno/deno");
        super::super::find::find(None).unwrap_or(installed)
    }

    /// Runs `code` in a worker whose program has escaped into Deno's own realm, where `own` creates functions. Returns what
    /// `code` passes to `tell`.
    fn with_denos_own_realm(code: &str) -> String {
        let probe = format!(
            "(function (outside) {{
               const own = outside.read.constructor;
               let told = 'nothing';
               const tell = (value) => {{ told = value; }};
               {code};
               return () => outside.write(outside.encode(`${{told}}`));
             }})"
        );
        let mut worker = Command::new(deno())
            .args(arguments(64))
            .arg("000000")
            .env_clear()
            .env("DENO_DIR", "/dev/null/deno")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a worker");
        let mut stdin = worker.stdin.take().expect("piped");
        stdin.write_all(&message(&[("probe", &probe)])).expect("written");
        let output = worker.wait_with_output().expect("an end");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[test]
    fn denos_own_realm_is_empty() {
        let names = "tell(Object.getOwnPropertyNames(own('return globalThis')()).sort())";
        assert_eq!(with_denos_own_realm(names), "Infinity,NaN,globalThis,queueMicrotask,undefined");
    }

    /// Imports a module in Deno's own realm and calls a function of it.
    fn check_imported(module: &str, call: &str, expected: &str) {
        let code = format!(
            "Promise.resolve(\"return import('{module}')\").then(own).then((load) => load()).then((it) => {{
               try {{ tell({call}) }} catch {{ tell('refused') }}
             }}, () => tell('not imported'))"
        );
        assert_eq!(with_denos_own_realm(&code), expected, "{call}");
    }

    #[test]
    fn a_module_imported_in_denos_own_realm_can_do_nothing() {
        // The import itself succeeds whatever is denied, which is one more reason to run no program in that realm.
        check_imported("node:fs", "typeof it.readFileSync", "function");
        check_imported("node:fs", "it.readFileSync('/etc/passwd').length", "refused");
        check_imported("node:fs", "it.readdirSync('/').length", "refused");
        check_imported("node:child_process", "it.spawnSync('/bin/true').status", "refused");
    }

    #[test]
    fn the_program_fits_in_one_argument() {
        const MAX_ARG_STRLEN: usize = 128 * 1024;
        assert!(arguments(64).iter().all(|argument| argument.len() < MAX_ARG_STRLEN));
    }

    #[test]
    fn every_permission_is_denied() {
        for denied in ["read", "write", "net", "env", "sys", "run", "ffi", "import"] {
            assert!(arguments(64).contains(&format!("--deny-{denied}")), "{denied}");
        }
    }
}
