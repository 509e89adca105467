//! `toolgate result`: a part of a result that was kept.

use toolgate_output::results::Reading;

use super::{Exit, Usage};
use crate::args::programs::ResultArgs;
use crate::print::{error, escape, out};
use crate::tools;

pub(crate) fn result(args: ResultArgs) -> anyhow::Result<Exit> {
    let max_bytes = usize::try_from(args.max_output).unwrap_or(usize::MAX);
    let reading = Reading { path: args.path, lines: args.lines, search: args.grep, max_bytes };
    let results = tools::results().map_err(|fault| Usage(format!("{fault:#}")))?;
    match results.read(&args.id, &reading) {
        Ok(text) => {
            out(escape::text(&text))?;
            Ok(Exit::Done)
        }
        Err(fault) => {
            error(&escape::message(&fault.to_string()));
            Ok(Exit::Failed)
        }
    }
}
