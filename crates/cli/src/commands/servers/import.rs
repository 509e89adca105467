//! `toolgate import`: takes over the servers that MCP clients have.

use std::path::Path;

use serde_json::{Value, json};
use toolgate_config::clients::Client;
use toolgate_config::clients::import::{FoundServer, found, found_in};

use super::super::{Exit, Usage};
use super::edit::{add_entry, clients, own_file, roots};
use super::{sentences, table};
use crate::args::servers::ImportArgs;
use crate::print::{Style, escape, note, out};

pub(crate) fn import(args: &ImportArgs) -> anyhow::Result<Exit> {
    let servers = look(args.from.as_deref())?;
    let file = own_file(args.config.as_deref())?;
    let mut rows = Vec::new();
    let mut taken = std::collections::HashSet::new();
    for server in &servers {
        rows.push(Row { server, end: take(server, &file, &mut taken, args.dry_run)? });
    }
    if args.json {
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
        out(escape::json(&json!({ "servers": rows, "config": file }).to_string()))?;
    } else if rows.is_empty() {
        note(format_args!("no servers found; looked at the files of {}", clients()));
    } else {
        let cells: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
        out(table(&["NAME", "FROM", "RESULT"], &cells, Style::stdout()))?;
    }
    Ok(Exit::Done)
}

fn look(from: Option<&str>) -> anyhow::Result<Vec<FoundServer>> {
    let wrong = |problems: Vec<_>| Usage(sentences(&problems));
    let Some(from) = from else {
        let roots = roots()?;
        let mut all = Vec::new();
        for client in Client::ALL {
            match found(client, &roots) {
                Ok(servers) => all.extend(servers),
                // One client's broken file must not hide the others'.
                Err(problems) => note(sentences(&problems)),
            }
        }
        return Ok(all);
    };
    match Client::named(from) {
        Some(client) => Ok(found(client, &roots()?).map_err(wrong)?),
        None if Path::new(from).is_file() => Ok(found_in(Path::new(from)).map_err(wrong)?),
        None => Err(Usage(format!("`{}` is neither a file nor one of {}", escape::line(from), clients())).into()),
    }
}

/// What became of a server.
fn take(
    server: &FoundServer,
    file: &Path,
    taken: &mut std::collections::HashSet<String>,
    dry_run: bool,
) -> anyhow::Result<String> {
    if let Some(reason) = &server.skipped {
        return Ok(format!("skipped: {reason}"));
    }
    if !taken.insert(server.name.clone()) {
        return Ok("skipped: another client has one of this name".to_owned());
    }
    if dry_run {
        return Ok("would be added".to_owned());
    }
    match add_entry(file, &server.name, &server.raw) {
        Ok(()) => {}
        Err(error) if error.is::<Usage>() => return Ok(format!("skipped: {error}")),
        Err(error) => return Err(error),
    }
    let dropped =
        if server.dropped.is_empty() { String::new() } else { format!(", without {}", server.dropped.join(", ")) };
    Ok(format!("added{dropped}"))
}

struct Row<'a> {
    server: &'a FoundServer,
    end: String,
}

impl Row<'_> {
    fn json(&self) -> Value {
        json!({ "name": self.server.name, "from": self.server.from, "result": self.end })
    }

    fn cells(&self) -> Vec<String> {
        vec![self.server.name.clone(), self.server.from.to_string_lossy().into_owned(), self.end.clone()]
    }
}
