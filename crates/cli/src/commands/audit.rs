//! `toolgate audit verify`: whether the audit log is as it was written.

use std::path::PathBuf;

use serde_json::json;
use toolgate_audit::{Broken, Verified};
use toolgate_config::{Env, lookup};

use super::{Exit, Usage};
use crate::args::AuditVerifyArgs;
use crate::print::{escape, note, out};

pub(crate) fn verify(args: &AuditVerifyArgs) -> anyhow::Result<Exit> {
    let file = file(args)?;
    let verified = toolgate_audit::verify(&file, args.expect.as_deref());
    if args.json {
        out(escape::json(&to_json(&verified).to_string()))?;
    } else {
        match &verified {
            Ok(verified) => describe(verified)?,
            Err(broken) => note(escape::line(&broken.to_string())),
        }
    }
    Ok(if verified.is_ok_and(|verified| verified.has_expected) { Exit::Done } else { Exit::Failed })
}

/// The file that is meant. A configuration is read and not acted on: no server is started, so it needs no trust.
fn file(args: &AuditVerifyArgs) -> anyhow::Result<PathBuf> {
    if let Some(file) = &args.file {
        return Ok(file.clone());
    }
    let env = Env::of_process();
    let found = lookup::find(args.servers.config.as_deref(), &env).map_err(|error| Usage(error.to_string()))?;
    let configured = found
        .and_then(|found| toolgate_config::load(&found.path, &env).ok())
        .and_then(|config| config.settings.audit.map(|audit| audit.file));
    let usual = || env.state_folder().map(|state| state.join("audit.jsonl"));
    configured.or_else(usual).ok_or_else(|| Usage("there is no home directory: name the file".to_owned()).into())
}

fn describe(verified: &Verified) -> anyhow::Result<()> {
    let Verified { lines, first, head, files, lost, torn, has_expected } = verified;
    out(format_args!("{lines} lines in {files} files: the chain holds"))?;
    out(format_args!("head: {head}"))?;
    if *first > 1 {
        note(format_args!("it begins with line {first}: older archives were removed"));
    }
    if *lost > 0 {
        note(format_args!("{lost} records were lost before they could be written"));
    }
    if *torn > 0 {
        note(format_args!("{torn} lines were not finished by a process that was killed"));
    }
    if !has_expected {
        note("the expected hash is not in the chain: lines were cut off at the end, or all of them were written anew");
    }
    Ok(())
}

fn to_json(verified: &Result<Verified, Broken>) -> serde_json::Value {
    match verified {
        Ok(it) => json!({
            "ok": it.has_expected, "lines": it.lines, "first": it.first, "head": it.head, "files": it.files,
            "lost": it.lost, "torn": it.torn, "has_expected": it.has_expected,
        }),
        Err(Broken::Line { file, line, reason }) => {
            json!({ "ok": false, "file": file.to_string_lossy(), "line": line, "error": reason })
        }
        Err(error) => json!({ "ok": false, "error": error.to_string() }),
    }
}
