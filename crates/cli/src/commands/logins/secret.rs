//! `toolgate secret`: values for `${keyring:NAME}`, which never appear in an argument, a file of ours or on the terminal.

use std::io::{IsTerminal, Read};

use anyhow::Context;
use serde_json::{Value, json};
use toolgate_config::values::SecretPlace;
use toolgate_config::{Env, load, lookup};
use toolgate_secrets::{Place, Preference, SecretStore};

use super::super::servers::table;
use super::super::{Exit, Usage};
use crate::args::logins::{PlaceArgs, SecretCommand, SecretListArgs, SecretSetArgs};
use crate::print::{Style, escape, note, out};
use crate::units::utc;

/// The longest secret, in bytes.
const MAX_SECRET_BYTES: u64 = 64 << 10;
/// The longest name, in characters.
const MAX_NAME_CHARS: usize = 200;

pub(crate) fn secret(command: &SecretCommand) -> anyhow::Result<Exit> {
    match command {
        SecretCommand::Set(args) => set(args),
        SecretCommand::List(args) => list(args),
        SecretCommand::Remove(args) => {
            let shown = escape::line(&args.name);
            match store(Preference::Auto)?.remove(&args.name)? {
                true => note(format_args!("forgot {shown}")),
                false => return Err(Usage(format!("there is no secret {shown}")).into()),
            }
            Ok(Exit::Done)
        }
    }
}

fn set(args: &SecretSetArgs) -> anyhow::Result<Exit> {
    check_name(&args.name)?;
    let value = value(&args.name)?;
    if value.is_empty() {
        return Err(Usage("nothing came on standard input: there is no secret to keep".to_owned()).into());
    }
    let place = store(preference(&args.place)?)?.set(&args.name, &value)?;
    note(format_args!("kept {} {}; configurations write ${{keyring:{}}}", args.name, kept(place), args.name));
    Ok(Exit::Done)
}

fn list(args: &SecretListArgs) -> anyhow::Result<Exit> {
    let entries = store(Preference::Auto)?.list()?;
    if args.json {
        let row = |entry: &toolgate_secrets::SecretEntry| json!({ "name": entry.name, "place": entry.place.word(), "set": utc(entry.set_at) });
        let rows: Vec<Value> = entries.iter().map(row).collect();
        out(escape::json(&json!({ "secrets": rows }).to_string()))?;
    } else if entries.is_empty() {
        note("there are no secrets: `toolgate secret set NAME` keeps one");
    } else {
        let rows: Vec<Vec<String>> = entries
            .into_iter()
            .map(|entry| vec![entry.name, entry.place.word().to_owned(), utc(entry.set_at)])
            .collect();
        out(table(&["NAME", "KEPT IN", "SET"], &rows, Style::stdout()))?;
    }
    Ok(Exit::Done)
}

/// The secrets of this user.
pub(super) fn store(preference: Preference) -> anyhow::Result<SecretStore> {
    Env::of_process().secrets(preference).context("there is no home folder to keep secrets in")
}

/// Where new secrets go: as the flags say, else as the user's own configuration says.
fn preference(args: &PlaceArgs) -> anyhow::Result<Preference> {
    if args.file {
        return Ok(Preference::File);
    }
    configured(args.config.as_deref())
}

/// Where the user's own configuration, or the one that is named, says that secrets go.
pub(super) fn configured(asked: Option<&std::path::Path>) -> anyhow::Result<Preference> {
    let env = Env::of_process();
    let file = match asked {
        Some(asked) => Some(asked.to_owned()),
        None => lookup::find_of_user(&env).ok().flatten().map(|found| found.path),
    };
    // A file with problems decides nothing here; other commands show them.
    let place = file.and_then(|file| load(&file, &env).ok()).map(|config| config.settings.logins.place);
    Ok(match place {
        Some(SecretPlace::Keyring) => Preference::Keyring,
        Some(SecretPlace::File) => Preference::File,
        Some(SecretPlace::Auto) | None => Preference::Auto,
    })
}

/// Where a secret went, in words.
pub(super) fn kept(place: Place) -> &'static str {
    match place {
        Place::Keyring => "in the keyring of the system",
        Place::File => "in an encrypted file",
    }
}

/// A name must be writable in `${keyring:NAME}`.
fn check_name(name: &str) -> Result<(), Usage> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./@".contains(c);
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || !name.chars().all(is_plain) {
        return Err(Usage("a name has letters, digits and _ - . / @ only".to_owned()));
    }
    Ok(())
}

fn value(name: &str) -> anyhow::Result<String> {
    if std::io::stdin().is_terminal() {
        let terminal = console::Term::stderr();
        terminal.write_str(&format!("{name}: "))?;
        return Ok(terminal.read_secure_line()?);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(MAX_SECRET_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_SECRET_BYTES {
        return Err(Usage(format!("a secret has at most {MAX_SECRET_BYTES} bytes")).into());
    }
    let text = String::from_utf8(bytes).map_err(|_| Usage("the secret is not UTF-8 text".to_owned()))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}
