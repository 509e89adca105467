//! `toolgate add NAME --openapi FILE`: the entry of an HTTP API.
//!
//! The document is loaded once here, so that one that cannot be used is refused before it is in a file. Requests will go
//! to the base that is written, which is `--base` or else the first server of the document.

use std::path::Path;

use anyhow::Context;
use serde_json::{Map, Value, json};
use toolgate_openapi::{Api, ApiSettings, Credentials, summary};
use url::{Host, Url};

use super::super::Usage;
use super::edit::put_pairs;
use crate::args::servers::AddArgs;
use crate::print::{escape, note};

/// The entry for a document.
pub(super) fn entry(args: &AddArgs, document: &str) -> anyhow::Result<Map<String, Value>> {
    let asked = args.base.as_deref().map(|base| Url::parse(base).map_err(|error| Usage(format!("--base: {error}"))));
    let asked = asked.transpose()?;
    let is_url = ["http://", "https://"].iter().any(|scheme| document.starts_with(scheme));
    let (spec, base) = match is_url {
        true => {
            let base = asked.clone().ok_or_else(|| Usage("--base: say where requests go".to_owned()))?;
            (document.to_owned(), base)
        }
        false => of_file(Path::new(document), asked.clone(), &args.auth)?,
    };
    let mut entry = Map::from_iter([
        ("type".to_owned(), json!("openapi")),
        ("spec".to_owned(), json!(spec)),
        ("base".to_owned(), json!(base.as_str().trim_end_matches('/'))),
    ]);
    put_pairs(&mut entry, "auth", "auth", &args.auth)?;
    put_pairs(&mut entry, "header", "headers", &args.header)?;
    // Who names an address of this machine or network means it; a name that a document gives is not believed.
    if let Some(host) = asked.as_ref().and_then(named_address) {
        note(format_args!("allowHosts: {} may be reached although it is not public", escape::line(&host)));
        entry.insert("allowHosts".to_owned(), json!([host]));
    }
    Ok(entry)
}

/// An address, or the name of this machine.
fn named_address(base: &Url) -> Option<String> {
    match base.host()? {
        Host::Ipv4(address) => Some(address.to_string()),
        Host::Ipv6(address) => Some(address.to_string()),
        Host::Domain(name) => (name == "localhost").then(|| name.to_owned()),
    }
}

/// The absolute path of a document that can be used, and where its requests go.
fn of_file(file: &Path, asked: Option<Url>, auth: &[String]) -> anyhow::Result<(String, Url)> {
    let shown = escape::line(&file.to_string_lossy()).to_string();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let named = summary(&text, None).map_err(|error| Usage(format!("{shown}: {error}")))?.servers.into_iter().next();
    let base = asked.or(named).ok_or_else(|| {
        Usage(format!("{shown} names no server with an absolute URL: say with --base where requests go"))
    })?;
    // Only the names count here: a scheme that the document does not have is told before anything is written.
    let schemes = auth.iter().filter_map(|pair| pair.split_once('=')).map(|(name, _)| (name.to_owned(), String::new()));
    let settings = ApiSettings { credentials: Credentials::new(schemes.collect()), ..ApiSettings::new(base.clone()) };
    let api = Api::load(&text, settings).map_err(|error| Usage(format!("{shown}: {error}")))?;
    note(format_args!("{} tools at {}", api.operations().len(), escape::line(base.as_str())));
    for skipped in api.skipped() {
        note(format_args!("  no tool: {}: {}", escape::line(&skipped.operation), escape::line(&skipped.reason)));
    }
    Ok((std::path::absolute(file)?.to_string_lossy().into_owned(), base))
}
