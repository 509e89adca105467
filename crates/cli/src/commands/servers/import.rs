//! `toolgate import`: takes over the servers that MCP clients have.
//!
//! One write with one backup, into the user's own configuration. Nothing is executed, and a file that comes with the
//! working directory is used only if it is trusted or named.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolgate_config::clients::import::{
    ClientServers, FoundServer, Projects, SkippedServer, found, found_in, mark_repeated,
};
use toolgate_config::clients::{Client, Scope};
use toolgate_config::edit::{self, NewServer};
use toolgate_config::text::Source;
use toolgate_config::trust::TrustStore;
use toolgate_config::{Env, lookup};

use super::super::logins::literal;
use super::super::{Exit, Usage};
use super::edit::{clients, roots, say, warn_of};
use super::{marked_table, sentences};
use crate::args::servers::ImportArgs;
use crate::consent::{self, ask, is_interactive, keep_trust};
use crate::print::{Style, counted, escape, note, out};

pub(crate) fn import(args: &ImportArgs) -> anyhow::Result<Exit> {
    let file = target(args.config.as_deref())?;
    let mut servers = look(args)?;
    withhold_untrusted(&mut servers, args.dry_run);
    let known = edit::server_names(&file)?;
    let rows: Vec<Row<'_>> = servers.iter().map(|server| Row::of(server, &known)).collect();
    let mut new: Vec<NewServer> = rows.iter().filter(|row| row.skipped.is_none()).map(Row::server).collect();
    if !args.dry_run && !new.is_empty() {
        move_secrets(args, &mut new)?;
        say(&keep_trust(&file, || edit::add_all(&file, &new))?);
        warn_of(&new);
    }
    if args.json {
        let rows: Vec<Value> = rows.iter().map(|row| row.json(args.dry_run)).collect();
        out(escape::json(&json!({ "servers": rows, "config": file }).to_string()))?;
    } else if rows.is_empty() {
        note(format_args!("no servers found; looked at the files of {}", clients()));
        note(
            "next: `toolgate add NAME -- COMMAND` or `toolgate add NAME URL` adds one, `toolgate ui --demo` shows the demo server",
        );
    } else {
        let cells: Vec<Vec<String>> = rows.iter().map(|row| row.cells(args.dry_run)).collect();
        let style = Style::stdout();
        let mark = |row: usize, column: usize, cell: &str| match (column, rows.get(row)) {
            (2, Some(Row { skipped: Some(_), .. })) => style.faint(cell),
            (2, Some(Row { skipped: None, .. })) => style.good(cell),
            _ => cell.to_owned(),
        };
        out(marked_table(&["NAME", "FROM", "RESULT"], &cells, style, mark))?;
        if !args.dry_run && !new.is_empty() {
            note(
                "next: `toolgate list` connects to them, `toolgate connect CLIENT` puts Toolgate in front of an agent",
            );
        }
    }
    Ok(Exit::Done)
}

/// Moves literal secrets out of the entries, if that is wanted.
fn move_secrets(args: &ImportArgs, servers: &mut [NewServer]) -> anyhow::Result<()> {
    let count = literal::count(servers);
    if count == 0 || args.keep_secrets {
        return Ok(());
    }
    let found = counted(count, "literal secret");
    let question =
        || ask(&format!("These servers have {found}. Keep them among `toolgate secret` instead of in the file?"));
    if args.move_secrets || (is_interactive() && question()) {
        return literal::move_all(servers);
    }
    if !is_interactive() {
        note(format_args!("the file gets {found}; with --move-secrets they are kept among `toolgate secret` instead"));
    }
    Ok(())
}

/// The file to write: the one that was named, or the user's own. A file of the working directory is never meant unnamed.
fn target(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(asked) = asked {
        return Ok(asked.to_owned());
    }
    let env = Env::of_process();
    let own = lookup::find_of_user(&env).map_err(|error| Usage(error.to_string()))?;
    Ok(own.map_or_else(|| lookup::new_file(&env), |found| found.path))
}

/// The servers that were found. A file that cannot be read is reported, and does not hide the others.
fn readable(found: ClientServers) -> Vec<FoundServer> {
    if !found.problems.is_empty() {
        note(sentences(&found.problems));
    }
    found.servers
}

fn look(args: &ImportArgs) -> anyhow::Result<Vec<FoundServer>> {
    let wrong = |problems: Vec<_>| Usage(sentences(&problems));
    let projects = if args.all_projects { Projects::All } else { Projects::Current };
    let Some(from) = args.from.as_deref() else {
        let roots = roots()?;
        let mut all = Vec::new();
        for client in Client::ALL {
            all.extend(readable(found(client, &roots, projects)));
        }
        return Ok(all);
    };
    match Client::named(from) {
        Some(client) => match found(client, &roots()?, projects) {
            ClientServers { servers, problems } if servers.is_empty() && !problems.is_empty() => {
                Err(wrong(problems).into())
            }
            found => Ok(readable(found)),
        },
        None if Path::new(from).is_file() => Ok(found_in(Path::new(from)).map_err(wrong)?),
        None => Err(Usage(format!("`{}` is neither a file nor one of {}", escape::line(from), clients())).into()),
    }
}

/// Skips the servers of files that came with the working directory, unless they are trusted or the user consents now.
fn withhold_untrusted(servers: &mut [FoundServer], dry_run: bool) {
    let store = TrustStore::of(&Env::of_process());
    let mut files: Vec<PathBuf> = servers
        .iter()
        .filter(|server| server.scope == Scope::Project && server.skipped.is_none())
        .map(|server| server.from.clone())
        .collect();
    files.dedup();
    for file in files {
        // A file that cannot be asked about is not used.
        let is_trusted = |source: &Source| store.trusts(source) || (!dry_run && consented(source, &store));
        if Source::open(&file).is_ok_and(|source| is_trusted(&source)) {
            continue;
        }
        for server in servers.iter_mut() {
            match &server.skipped {
                None if server.from == file => server.skipped = Some(SkippedServer::Untrusted(file.clone())),
                // The user's own server of that name comes instead.
                Some(SkippedServer::Duplicate(first) | SkippedServer::NameConflict(first)) if *first == file => {
                    server.skipped = None;
                }
                _ => {}
            }
        }
    }
    // Also of two clients.
    mark_repeated(servers);
}

fn consented(source: &Source, store: &TrustStore) -> bool {
    if !is_interactive() {
        return false;
    }
    note(format_args!("{} comes with this folder:", escape::line(&source.file().to_string_lossy())));
    note(consent::summary(source));
    ask("Import its servers?") && store.trust(source).is_ok()
}

/// What becomes of a server.
struct Row<'a> {
    server: &'a FoundServer,
    skipped: Option<String>,
}

impl<'a> Row<'a> {
    fn of(server: &'a FoundServer, known: &[String]) -> Self {
        let exists = known.contains(&server.name).then(|| "the configuration has a server of this name".to_owned());
        Row { server, skipped: server.skipped.as_ref().map(ToString::to_string).or(exists) }
    }

    fn server(&self) -> NewServer {
        let FoundServer { name, raw, settings, .. } = self.server;
        NewServer { name: name.clone(), entry: raw.clone(), settings: settings.clone() }
    }

    fn result(&self, dry_run: bool) -> String {
        if let Some(reason) = &self.skipped {
            return format!("skipped: {reason}");
        }
        let done = if dry_run { "would be added" } else { "added" };
        let off = self.server.raw.get("disabled") == Some(&Value::Bool(true))
            || self.server.raw.get("enabled") == Some(&Value::Bool(false));
        let off = if off { ", disabled as it was" } else { "" };
        let left_out = self.server.dropped.iter().map(|dropped| format!("{} ({})", dropped.key, dropped.why));
        let left_out: Vec<String> = left_out.collect();
        let without = if left_out.is_empty() { String::new() } else { format!(", without {}", left_out.join(", ")) };
        format!("{done}{off}{without}")
    }

    fn json(&self, dry_run: bool) -> Value {
        let dropped: Vec<Value> =
            self.server.dropped.iter().map(|dropped| json!({ "key": dropped.key, "why": dropped.why })).collect();
        json!({
            "name": self.server.name, "from": self.server.from, "result": self.result(dry_run), "left_out": dropped,
        })
    }

    fn cells(&self, dry_run: bool) -> Vec<String> {
        vec![self.server.name.clone(), self.server.from.to_string_lossy().into_owned(), self.result(dry_run)]
    }
}
