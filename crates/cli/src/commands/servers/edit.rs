//! `toolgate init`, `add`, `remove` and `config schema`: our own file.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Map, Value, json};
use toolgate_backends::quoted;
use toolgate_catalog::names::{NameScope, sanitise};
use toolgate_config::clients::{Client, Os, Roots};
use toolgate_config::edit::{self, EditError, NewServer, WrittenFile};
use toolgate_config::problem::Problem;
use toolgate_config::text::{Format, Source};
use toolgate_config::values::BackendName;
use toolgate_config::{Env, lookup, schema as config_schema};

use super::super::logins::login;
use super::super::{Exit, Usage};
use super::openapi;
use crate::args::servers::{AddArgs, AddScope, AddTransport, InitArgs, RemoveArgs};
use crate::consent::keep_trust;
use crate::print::{escape, note, out};

pub(crate) fn init(args: &InitArgs) -> anyhow::Result<Exit> {
    if args.file.exists() {
        return Err(Usage(format!("{} is there already", args.file.display())).into());
    }
    say(&keep_trust(&args.file, || edit::init(&args.file))?);
    note("next: `toolgate import` takes over your clients' servers, `toolgate add NAME -- COMMAND` adds one");
    Ok(Exit::Done)
}

pub(crate) fn add(args: &AddArgs) -> anyhow::Result<Exit> {
    BackendName::new(&args.name).map_err(Usage)?;
    let file = match args.scope {
        Some(AddScope::Project) => PathBuf::from("toolgate.json"),
        Some(AddScope::User) => {
            let env = Env::of_process();
            let own = lookup::find_of_user(&env).map_err(|error| Usage(error.to_string()))?;
            own.map_or_else(|| lookup::new_file(&env), |found| found.path)
        }
        None => own_file(args.config.as_deref())?,
    };
    let remove = remove_command(&args.name, &file);
    let exists = |error: &EditError| {
        Usage(format!("{}: run `{}` first", escape::line(&error.to_string()), escape::line(&remove)))
    };
    // Before a document is read, and what it says is told. A file that cannot be read is told by the edit.
    if edit::server_names(&file).is_ok_and(|names| names.contains(&args.name)) {
        return Err(exists(&EditError::Exists(args.name.clone())).into());
    }
    let entry = match &args.openapi {
        Some(document) => openapi::entry(args, document, &remove)?,
        None => entry(args)?,
    };
    check_entry(&args.name, &entry)?;
    match keep_trust(&file, || edit::add_all(&file, &[NewServer::new(&args.name, entry)])) {
        Ok(written) => say(&written),
        Err(error @ EditError::Exists(_)) => return Err(exists(&error).into()),
        Err(error) => return Err(error.into()),
    }
    if args.url.is_some() && !args.offline {
        // What is wrong with other servers of the file is shown by other commands.
        if let Ok(config) = toolgate_config::load(&file, &Env::of_process()) {
            login::offer(&config, &file, &args.name);
        }
    }
    let spelled = sanitise(&args.name, NameScope::Global);
    if spelled != args.name {
        note(format_args!("programs call it `{spelled}`"));
    }
    note("next: `toolgate list` connects to it and shows its tools");
    Ok(Exit::Done)
}

/// The command that removes a server from this file.
fn remove_command(name: &str, file: &Path) -> String {
    let is_found = own_file(None).is_ok_and(|found| std::path::absolute(found).ok() == std::path::absolute(file).ok());
    let config = if is_found { String::new() } else { format!(" --config {}", quoted(&file.to_string_lossy())) };
    format!("toolgate remove {}{config}", quoted(name))
}

fn entry(args: &AddArgs) -> Result<Map<String, Value>, Usage> {
    let (name, url) = (escape::line(&args.name), args.url.as_deref());
    let mut entry = Map::new();
    match (url, args.command.split_first()) {
        (Some(url), _) => {
            // `add x npx` is a command whose -- was forgotten, not an address.
            if !url.starts_with("http://") && !url.starts_with("https://") {
                let url = escape::line(url);
                let message = format!(
                    "`{url}` is no URL: a server over HTTP begins with https:// or http://; \
                     a program comes after --, as in: toolgate add {name} -- {url}"
                );
                return Err(Usage(message));
            }
            refuse(
                args.transport == Some(AddTransport::Stdio),
                "--transport stdio takes a program after --, not a URL",
            )?;
            refuse(!args.env.is_empty(), "--env is for programs; a server over HTTP takes --header")?;
            if args.transport == Some(AddTransport::Sse) {
                entry.insert("type".to_owned(), json!("sse"));
            }
            entry.insert("url".to_owned(), json!(url));
            put_pairs(&mut entry, "header", "headers", &args.header)?;
            let auth = client(args);
            if !auth.is_empty() {
                entry.insert("auth".to_owned(), Value::Object(auth));
            }
        }
        (None, Some((program, rest))) => {
            let is_remote = matches!(args.transport, Some(AddTransport::Http | AddTransport::Sse));
            refuse(is_remote, "--transport http takes a URL, not a program after --")?;
            refuse(!args.header.is_empty(), "--header is for servers over HTTP; a program takes --env")?;
            let logs_in = args.client_id.is_some() || !args.login_scope.is_empty();
            refuse(
                logs_in,
                "--client-id and --login-scope are for servers over HTTP and for APIs; a program logs in by itself",
            )?;
            entry.insert("command".to_owned(), json!(program));
            entry.insert("args".to_owned(), json!(rest));
            put_pairs(&mut entry, "env", "env", &args.env)?;
        }
        (None, None) => {
            let message = format!(
                "say what {name} is: a URL, as in `toolgate add {name} https://example.com/mcp`, or a program after --, as in \
                 `toolgate add {name} -- npx -y SERVER`"
            );
            return Err(Usage(message));
        }
    }
    Ok(entry)
}

/// Refuses a server whose URL cannot be one, and notes what the configuration will warn of. What is only missing, such as a variable,
/// may come later.
fn check_entry(name: &str, entry: &Map<String, Value>) -> Result<(), Usage> {
    let text = json!({ "mcpServers": { name: entry } }).to_string();
    let source = Source::new(Path::new("toolgate.json"), Format::Json, &text);
    let Ok(config) = toolgate_config::check(source, &Env::of_process()) else { return Ok(()) };
    let mut problems = config.incomplete.values().flat_map(|server| &server.problems);
    let is_wrong = |problem: &&Problem| problem.unset.is_none() && problem.path.ends_with(".url");
    if let Some(problem) = problems.find(is_wrong) {
        return Err(Usage(said(problem)));
    }
    config.warnings.iter().for_each(|warning| note(format_args!("warning: {}", said(warning))));
    Ok(())
}

/// A problem without its place in a file.
fn said(problem: &Problem) -> String {
    let help = problem.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
    escape::line(&format!("{}: {}{help}", problem.path, problem.message)).into_owned()
}

/// Notes what the configuration will warn of in servers that are taken over.
pub(super) fn warn_of(servers: &[NewServer]) {
    for server in servers {
        // A URL that cannot be one is taken over as it is, and listed as such.
        let _ = check_entry(&server.name, &server.entry);
    }
}

/// The client and the scopes of a login, as a configuration has them.
pub(super) fn client(args: &AddArgs) -> Map<String, Value> {
    let client = [("clientId", &args.client_id), ("clientSecret", &args.client_secret)];
    let mut auth: Map<String, Value> =
        client.into_iter().filter_map(|(key, value)| Some((key.to_owned(), json!(value.as_ref()?)))).collect();
    if !args.login_scope.is_empty() {
        auth.insert("scopes".to_owned(), json!(args.login_scope));
    }
    auth
}

fn refuse(wrong: bool, message: &str) -> Result<(), Usage> {
    if wrong { Err(Usage(message.to_owned())) } else { Ok(()) }
}

pub(super) fn put_pairs(entry: &mut Map<String, Value>, flag: &str, key: &str, pairs: &[String]) -> Result<(), Usage> {
    let split = |pair: &String| {
        // A header may also be written as in HTTP.
        let header = pair.split_once(": ").filter(|(name, _)| flag == "header" && !name.contains('='));
        let (name, value) = header
            .map(|(name, value)| (name, value.trim_start()))
            .or_else(|| pair.split_once('='))
            .ok_or_else(|| Usage(format!("--{flag}: write NAME=VALUE")))?;
        Ok((name.to_owned(), json!(value)))
    };
    let pairs = pairs.iter().map(split).collect::<Result<Map<_, _>, Usage>>()?;
    if !pairs.is_empty() {
        entry.insert(key.to_owned(), Value::Object(pairs));
    }
    Ok(())
}

pub(crate) fn remove(args: &RemoveArgs) -> anyhow::Result<Exit> {
    let file = own_file(args.config.as_deref())?;
    if !file.exists() {
        let shown = escape::line(&file.to_string_lossy()).into_owned();
        return Err(Usage(format!(
            "no server named {}: there is no configuration at {shown}",
            escape::line(&args.name)
        ))
        .into());
    }
    let before = toolgate_config::load(&file, &Env::of_process());
    match keep_trust(&file, || edit::remove(&file, &args.name)) {
        Ok(written) => say(&written),
        Err(error @ EditError::Absent(_)) => return Err(Usage(error.to_string()).into()),
        Err(error) => return Err(error.into()),
    }
    if let Ok(before) = before {
        login::forget_removed(&before, &args.name);
    }
    Ok(Exit::Done)
}

pub(crate) fn schema() -> anyhow::Result<Exit> {
    out(serde_json::to_string_pretty(&config_schema::schema())?)?;
    Ok(Exit::Done)
}

/// The configuration file that the command edits: the one that is found, else a new one in the user's configuration folder.
pub(crate) fn own_file(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(asked) = asked {
        return Ok(asked.to_owned());
    }
    let env = Env::of_process();
    let found = lookup::find(None, &env).map_err(|error| Usage(error.to_string()))?;
    Ok(found.map_or_else(|| lookup::new_file(&env), |found| found.path))
}

pub(crate) fn roots() -> anyhow::Result<Roots> {
    let env = Env::of_process();
    let home = env.home().context("there is no home folder to look in")?.to_owned();
    Ok(Roots { home, cwd: env.cwd().to_owned(), os: Os::current() })
}

pub(super) fn clients() -> String {
    Client::ALL.map(Client::word).join(", ")
}

pub(crate) fn say(written: &WrittenFile) {
    if written.changed {
        note(format_args!("wrote {}", escape::line(&written.path.to_string_lossy())));
    }
    if let Some(backup) = &written.backup {
        note(format_args!("  the file as it was: {}", escape::line(&backup.to_string_lossy())));
    }
}
