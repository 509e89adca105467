//! `toolgate init`, `add`, `remove`, `connect` and `config schema`: files, ours and the clients'.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Map, Value, json};
use toolgate_config::clients::connect::{self as connecting, Launch};
use toolgate_config::clients::{Client, Os, Roots, Scope};
use toolgate_config::edit::{self, EditError, WrittenFile};
use toolgate_config::{Env, lookup, schema as config_schema};

use super::super::{Exit, Usage};
use super::openapi;
use crate::args::servers::{AddArgs, ConnectArgs, InitArgs, Mode, RemoveArgs};
use crate::print::{escape, note, out};

pub(crate) fn init(args: &InitArgs) -> anyhow::Result<Exit> {
    if args.file.exists() {
        return Err(Usage(format!("{} is there already", args.file.display())).into());
    }
    say(&edit::init(&args.file)?);
    note("next: `toolgate import` takes over your clients' servers, `toolgate add NAME -- COMMAND` adds one");
    Ok(Exit::Done)
}

pub(crate) fn add(args: &AddArgs) -> anyhow::Result<Exit> {
    let file = own_file(args.config.as_deref())?;
    let entry = match &args.openapi {
        Some(document) => openapi::entry(args, document)?,
        None => entry(args)?,
    };
    add_entry(&file, &args.name, &entry)?;
    Ok(Exit::Done)
}

/// Adds a server to our file, which is made if it is not there.
pub(super) fn add_entry(file: &Path, name: &str, entry: &Map<String, Value>) -> anyhow::Result<()> {
    if !file.exists() {
        edit::init(file)?;
    }
    match edit::add(file, name, entry) {
        Ok(written) => {
            say(&written);
            Ok(())
        }
        Err(error @ EditError::Exists(_)) => Err(Usage(error.to_string()).into()),
        Err(error) => Err(error.into()),
    }
}

fn entry(args: &AddArgs) -> Result<Map<String, Value>, Usage> {
    let mut entry = Map::new();
    match (&args.url, args.command.split_first()) {
        (Some(url), _) => {
            entry.insert("url".to_owned(), json!(url));
            put_pairs(&mut entry, "headers", &args.header)?;
        }
        (None, Some((program, rest))) => {
            entry.insert("command".to_owned(), json!(program));
            entry.insert("args".to_owned(), json!(rest));
            put_pairs(&mut entry, "env", &args.env)?;
        }
        (None, None) => return Err(Usage("give a URL, or a command after --".to_owned())),
    }
    Ok(entry)
}

pub(super) fn put_pairs(entry: &mut Map<String, Value>, key: &str, pairs: &[String]) -> Result<(), Usage> {
    let split = |pair: &String| {
        let (name, value) = pair.split_once('=').ok_or_else(|| Usage(format!("--{key}: write NAME=VALUE")))?;
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
    match edit::remove(&file, &args.name) {
        Ok(written) => say(&written),
        Err(error @ EditError::Absent(_)) => return Err(Usage(error.to_string()).into()),
        Err(error) => return Err(error.into()),
    }
    Ok(Exit::Done)
}

pub(crate) fn connect(args: &ConnectArgs) -> anyhow::Result<Exit> {
    let client = Client::named(&args.client)
        .ok_or_else(|| Usage(format!("no client `{}`: there are {}", escape::line(&args.client), clients())))?;
    let scope = if args.project { Scope::Project } else { Scope::User };
    let written = connecting::write(client, scope, &roots()?, &launch(args)?)?;
    say(&written);
    if !written.changed {
        note("nothing had to be changed");
    }
    Ok(Exit::Done)
}

/// How the client starts us: by absolute paths, since it has its own folder and search path.
fn launch(args: &ConnectArgs) -> anyhow::Result<Launch> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut rest = vec!["serve".to_owned()];
    if args.servers.demo {
        rest.push("--demo".to_owned());
    } else {
        let file = std::path::absolute(own_file(args.servers.config.as_deref())?)?;
        if !file.exists() {
            let message = format!("there is no {} yet: `toolgate init` or `toolgate import` writes it", file.display());
            return Err(Usage(message).into());
        }
        rest.extend(["--config".to_owned(), file.to_string_lossy().into_owned()]);
    }
    if let Some(mode) = args.mode {
        let word = match mode {
            Mode::Code => "code",
            Mode::Direct => "direct",
            Mode::Both => "both",
        };
        rest.extend(["--mode".to_owned(), word.to_owned()]);
    }
    Ok(Launch { command: program.to_string_lossy().into_owned(), args: rest })
}

pub(crate) fn schema() -> anyhow::Result<Exit> {
    out(serde_json::to_string_pretty(&config_schema::schema())?)?;
    Ok(Exit::Done)
}

/// The file that is meant; one in this folder if there is none.
pub(super) fn own_file(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(asked) = asked {
        return Ok(asked.to_owned());
    }
    let found = lookup::find(None, &Env::of_process()).map_err(|error| Usage(error.to_string()))?;
    Ok(found.unwrap_or_else(|| PathBuf::from("toolgate.json")))
}

pub(super) fn roots() -> anyhow::Result<Roots> {
    let env = Env::of_process();
    let home = env.home().context("there is no home folder to look in")?.to_owned();
    Ok(Roots { home, cwd: env.cwd().to_owned(), os: Os::current() })
}

pub(super) fn clients() -> String {
    Client::ALL.map(Client::word).join(", ")
}

pub(super) fn say(written: &WrittenFile) {
    if written.changed {
        note(format_args!("wrote {}", escape::line(&written.path.to_string_lossy())));
    }
    if let Some(backup) = &written.backup {
        note(format_args!("  the file as it was: {}", escape::line(&backup.to_string_lossy())));
    }
}
