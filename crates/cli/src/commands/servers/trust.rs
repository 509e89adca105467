//! `toolgate trust`: consent to the content of a file that comes from a folder.

use std::path::Path;

use anyhow::Context;
use toolgate_config::lookup::FileOrigin;
use toolgate_config::text::Source;
use toolgate_config::trust::TrustStore;
use toolgate_config::{Env, lookup};

use super::super::{Exit, Usage};
use crate::args::servers::TrustArgs;
use crate::consent::summary;
use crate::print::{escape, note, out};

pub(crate) fn trust(args: &TrustArgs) -> anyhow::Result<Exit> {
    let env = Env::of_process();
    let store = TrustStore::of(&env);
    if args.list {
        for file in store.files().context("cannot read the list of trusted files")? {
            out(escape::line(&file))?;
        }
        return Ok(Exit::Done);
    }
    let file = match &args.file {
        Some(file) => file.clone(),
        None => lookup::find(None, &env)
            .map_err(|error| Usage(error.to_string()))?
            // The file of the user needs no trust, and may not be meant by a person in another folder.
            .filter(|found| found.origin == FileOrigin::WorkingFolder)
            .map(|found| found.path)
            .ok_or_else(|| {
                Usage("there is no configuration file in this folder; `toolgate trust FILE` names one".to_owned())
            })?,
    };
    if args.forget { forget(&store, &file) } else { record(&store, &file) }
}

fn record(store: &TrustStore, file: &Path) -> anyhow::Result<Exit> {
    let source = Source::open(file).map_err(|problem| Usage(escape::text(&problem.to_string()).into_owned()))?;
    note(summary(&source));
    store.trust(&source).context("cannot remember it")?;
    note(format_args!("trusted as it is now: {}", escape::line(&file.to_string_lossy())));
    Ok(Exit::Done)
}

fn forget(store: &TrustStore, file: &Path) -> anyhow::Result<Exit> {
    let known = store.forget(file).context("cannot change the list of trusted files")?;
    let shown = file.to_string_lossy();
    let shown = escape::line(&shown);
    note(if known { format!("no longer trusted: {shown}") } else { format!("was not trusted: {shown}") });
    Ok(Exit::Done)
}
