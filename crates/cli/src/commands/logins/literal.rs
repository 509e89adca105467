//! Literal secrets in the entries of other clients: moved to the keyring, replaced by `${keyring:…}`.
//!
//! They are found by their names, and then as records find them ([`SecretValues`]): passwords in URLs, members of JSON texts, options
//! inside of a value, values in the form of a secret. A whole argument in that form stays, since it may be the name of a package;
//! what stays is told.

use serde_json::{Map, Value};
use toolgate_config::checked::SecretValues;
use toolgate_config::edit::NewServer;
use toolgate_secrets::{Place, Preference, SecretStore};

use super::secret;
use crate::print::{escape, note};

/// Shorter values are words such as `true`, not secrets.
const MIN_SECRET_CHARS: usize = 8;
/// Parts of names that secrets have.
const MARKS: [&str; 9] =
    ["token", "secret", "password", "passwd", "apikey", "credential", "authorization", "accesskey", "privatekey"];
/// Whole names, or last words of names, that secrets have.
const WORDS: [&str; 4] = ["key", "pat", "auth", "pwd"];

/// Sections of an entry whose members are a name and a value each.
const SECTIONS: [&str; 3] = ["env", "headers", "auth"];

/// Gives the text that takes the place of a secret, by the name of the secret and the secret.
type Replace<'a> = dyn FnMut(&str, &str) -> anyhow::Result<String> + 'a;

/// How many literal secrets these servers have.
pub(crate) fn count(servers: &[NewServer]) -> usize {
    let mut count = 0;
    for server in servers {
        let counted = replace_in_entry(&mut server.entry.clone(), &mut |_, _| {
            count += 1;
            // What is replaced is not found again.
            Ok("${keyring:counted}".to_owned())
        });
        // Nothing that fails is called.
        debug_assert!(counted.is_ok());
    }
    count
}

/// Moves them. A server keeps its literal secret if that cannot be kept elsewhere.
pub(crate) fn move_all(servers: &mut [NewServer]) -> anyhow::Result<()> {
    let store = secret::store(secret::configured(None).unwrap_or(Preference::Auto))?;
    servers.iter_mut().try_for_each(|server| move_from(&store, &server.name, &mut server.entry))
}

fn move_from(store: &SecretStore, server: &str, entry: &mut Map<String, Value>) -> anyhow::Result<()> {
    replace_in_entry(entry, &mut |key, secret| keep_as(store, server, key, &unescaped(secret)))?;
    for setting in what_stays(entry) {
        let (server, setting) = (escape::line(server), escape::line(&setting));
        note(format_args!("{server}: {setting} may be a secret, or have one; it stays in the file"));
    }
    Ok(())
}

/// Keeps a secret of a server, and gives what stands for it in a configuration.
pub(super) fn keep_as(store: &SecretStore, server: &str, key: &str, value: &str) -> anyhow::Result<String> {
    let (name, place) = keep(store, &format!("{}.{}", plain(server), plain(key)), value)?;
    note(format_args!("kept {name} {}", secret::kept(place)));
    Ok(format!("${{keyring:{name}}}"))
}

/// Replaces the secrets of an entry: in its sections, its arguments and its URL.
fn replace_in_entry(entry: &mut Map<String, Value>, replace: &mut Replace<'_>) -> anyhow::Result<()> {
    for section in SECTIONS {
        for (name, value) in entry.get_mut(section).and_then(Value::as_object_mut).into_iter().flatten() {
            set(value, |text| replace_value(name, text, replace))?;
        }
    }
    if let Some(Value::Array(args)) = entry.get_mut("args") {
        replace_in_args(args, replace)?;
    }
    if let Some(url) = entry.get_mut("url") {
        set(url, |text| replace_in_query(text, replace))?;
    }
    replace_found(entry, replace)
}

/// Replaces the secrets that have no name of their own.
fn replace_found(entry: &mut Map<String, Value>, replace: &mut Replace<'_>) -> anyhow::Result<()> {
    for section in SECTIONS {
        for (name, value) in entry.get_mut(section).and_then(Value::as_object_mut).into_iter().flatten() {
            set(value, |text| replace_each(name, text, found_in(name, text).iter().collect(), replace))?;
        }
    }
    if let Some(url) = entry.get_mut("url") {
        set(url, |text| replace_each("url", text, found_in("url", text).iter().collect(), replace))?;
    }
    if let Some(Value::Array(args)) = entry.get_mut("args") {
        for arg in args {
            // What is a secret in one argument may be a part of the name of a package in another one.
            let found = found_in_args(std::slice::from_ref(arg));
            let is_part = |secret: &&str| arg.as_str() != Some(*secret);
            let parts: Vec<&str> = found.iter().filter(is_part).collect();
            let changed = arg.as_str().map(|text| replace_each("argument", text, parts, replace)).transpose()?;
            if let Some(changed) = changed.flatten() {
                *arg = Value::String(changed);
            }
        }
    }
    Ok(())
}

/// The secrets of a value, variables aside.
fn found_in(name: &str, text: &str) -> SecretValues {
    SecretValues::of_named(name, &without_variables(text))
}

fn found_in_args(args: &[Value]) -> SecretValues {
    let args: Vec<String> = args.iter().filter_map(Value::as_str).map(without_variables).collect();
    SecretValues::of_arguments(args.iter().map(String::as_str))
}

/// A text with a digit in the place of each variable, which may stand anywhere in a URL, also for a port.
fn without_variables(text: &str) -> String {
    segments(text).map(|(is_literal, segment)| if is_literal { segment } else { "0" }).collect()
}

/// Replaces these secrets in a text, the longest first: a shorter one may be a part of it.
fn replace_each(
    name: &str,
    text: &str,
    mut secrets: Vec<&str>,
    replace: &mut Replace<'_>,
) -> anyhow::Result<Option<String>> {
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let mut changed = text.to_owned();
    for secret in secrets.into_iter().filter(|secret| is_movable(secret)) {
        // In a text that is JSON it is written with escapes.
        let in_json = Value::from(secret).to_string();
        let in_json = in_json.trim_matches('"').to_owned();
        let written = [secret.to_owned(), in_json].into_iter().find(|written| literal_parts(&changed, written) > 0);
        if let Some(written) = written {
            let with = replace(name, &written)?;
            let [password, moved] = [&written, &with].map(|text| format!(":{text}@"));
            // The user's name, or the scheme, may be the same word.
            changed = match literal_parts(&changed, &password) {
                0 => with_literal_parts(&changed, &written, &with),
                _ => with_literal_parts(&changed, &password, &moved),
            };
        }
    }
    Ok((changed != text).then_some(changed))
}

/// Whether a text that was found is no path.
fn is_movable(secret: &str) -> bool {
    !secret.starts_with(['/', '~', '.']) && secret.get(1..3) != Some(":\\")
}

/// How often a text has this part outside of variables.
fn literal_parts(text: &str, part: &str) -> usize {
    segments(text).filter(|(is_literal, _)| *is_literal).map(|(_, segment)| segment.matches(part).count()).sum()
}

/// A text with another part in the place of this one, outside of variables.
fn with_literal_parts(text: &str, part: &str, with: &str) -> String {
    segments(text)
        .map(|(is_literal, segment)| if is_literal { segment.replace(part, with) } else { segment.to_owned() })
        .collect()
}

/// The literal texts and the variables of a text in turn, and which of them are literal.
fn segments(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let starts = rest.match_indices("${").map(|(at, _)| at);
        // `$${` is a literal `${`.
        let start = starts.into_iter().find(|at| !rest.get(..*at).is_some_and(|before| before.ends_with('$')));
        let (is_literal, end) = match start {
            Some(0) => (false, rest.find('}').map_or(rest.len(), |end| end + 1)),
            Some(start) => (true, start),
            None => (true, rest.len()),
        };
        let (segment, after) = rest.split_at(end);
        rest = after;
        Some((is_literal, segment))
    })
}

/// The settings of an entry that still may have secrets, after all that can be moved were.
fn what_stays(entry: &Map<String, Value>) -> Vec<String> {
    // With a variable beside it, what was found may be a text around the variable.
    let has = |text: &str, secret: &str| !has_variable(text) || has_literal(text, secret);
    let stays =
        |name: &str, text: &str| found_in(name, text).iter().any(|secret| is_movable(secret) && has(text, secret));
    let mut settings = Vec::new();
    for section in SECTIONS {
        for (name, value) in entry.get(section).and_then(Value::as_object).into_iter().flatten() {
            if value.as_str().is_some_and(|text| stays(name, text)) {
                settings.push(format!("`{name}` of `{section}`"));
            }
        }
    }
    if entry.get("url").and_then(Value::as_str).is_some_and(|url| stays("url", url)) {
        settings.push("`url`".to_owned());
    }
    let args = entry.get("args").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let in_args = |secret: &str| args.iter().filter_map(Value::as_str).any(|arg| has_literal(arg, secret));
    if found_in_args(args).iter().any(|secret| is_movable(secret) && in_args(secret)) {
        settings.push("one of `args`".to_owned());
    }
    settings
}

/// Whether a text has this secret outside of variables, as it is written or as the texts of JSON inside of it are read: an escape
/// such as `\u00e9` hides it otherwise.
fn has_literal(text: &str, secret: &str) -> bool {
    let decoded = serde_json::from_str::<Value>(text).unwrap_or_default();
    literal_parts(text, secret) > 0 || has_literal_text(&decoded, secret)
}

fn has_literal_text(value: &Value, secret: &str) -> bool {
    match value {
        Value::String(text) => literal_parts(text, secret) > 0,
        Value::Array(items) => items.iter().any(|item| has_literal_text(item, secret)),
        Value::Object(members) => {
            members.iter().any(|(name, value)| literal_parts(name, secret) > 0 || has_literal_text(value, secret))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Puts another text in the place of a text, if there is one.
fn set(value: &mut Value, changed: impl FnOnce(&str) -> anyhow::Result<Option<String>>) -> anyhow::Result<()> {
    if let Some(text) = value.as_str().map(changed).transpose()?.flatten() {
        *value = Value::String(text);
    }
    Ok(())
}

/// Replaces the secrets of a command's arguments: `--NAME VALUE`, and what [`replace_in_text`] finds in each.
fn replace_in_args(args: &mut [Value], replace: &mut Replace<'_>) -> anyhow::Result<()> {
    let mut option: Option<String> = None;
    for arg in args {
        let Some(text) = arg.as_str() else { continue };
        let is_option = text.starts_with('-') && !text.contains(['=', ':', ' ']);
        let next = is_option.then(|| text.trim_start_matches('-').to_owned());
        // What follows an option without a value is often a URL or another option.
        let named = option.take().filter(|_| !text.starts_with('-') && !text.contains("://"));
        set(arg, |text| match named {
            Some(name) if literal(&name, text).is_some() => replace_value(&name, text, replace),
            _ => replace_in_text(text, replace),
        })?;
        option = next;
    }
    Ok(())
}

/// Replaces the secret of a text that is a URL, `NAME=VALUE`, `--NAME=VALUE` or `Header: value`.
fn replace_in_text(text: &str, replace: &mut Replace<'_>) -> anyhow::Result<Option<String>> {
    if text.starts_with("http://") || text.starts_with("https://") {
        return replace_in_query(text, replace);
    }
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    let Some(at) = text.find(['=', ':']).filter(|at| text.get(..*at).is_some_and(is_name)) else { return Ok(None) };
    let (name, rest) = text.split_at(at);
    let value = rest.get(1..).unwrap_or_default();
    let value = value.trim_start_matches(' ');
    let before = text.get(..text.len() - value.len()).unwrap_or_default();
    let replaced = match literal(name.trim_start_matches('-'), value) {
        Some(_) => replace_value(name.trim_start_matches('-'), value, replace)?,
        // `--header=Authorization: Bearer …`
        None if rest.starts_with('=') => replace_in_text(value, replace)?,
        None => None,
    };
    Ok(replaced.map(|value| format!("{before}{value}")))
}

/// Replaces the secrets of the query of a URL.
fn replace_in_query(url: &str, replace: &mut Replace<'_>) -> anyhow::Result<Option<String>> {
    let Some((before, after)) = url.split_once('?') else { return Ok(None) };
    let (query, fragment) = after.find('#').map_or((after, ""), |at| after.split_at(at));
    let mut is_changed = false;
    let mut pairs = Vec::new();
    for pair in query.split('&') {
        let replaced = match pair.split_once('=') {
            Some((name, value)) => replace_value(name, value, replace)?.map(|value| format!("{name}={value}")),
            None => None,
        };
        is_changed |= replaced.is_some();
        pairs.push(replaced.unwrap_or_else(|| pair.to_owned()));
    }
    Ok(is_changed.then(|| format!("{before}?{}{fragment}", pairs.join("&"))))
}

/// Replaces the secret of a value of this name, if it seems to have one.
fn replace_value(name: &str, text: &str, replace: &mut Replace<'_>) -> anyhow::Result<Option<String>> {
    let Some((scheme, secret)) = literal(name, text) else { return Ok(None) };
    Ok(Some(format!("{scheme}{}", replace(name, secret)?)))
}

/// Keeps a secret under a name that has none, or has the same.
fn keep(store: &SecretStore, wanted: &str, value: &str) -> anyhow::Result<(String, Place)> {
    let mut name = wanted.to_owned();
    for number in 2.. {
        match store.get(&name)? {
            Some(other) if other != value => name = format!("{wanted}-{number}"),
            _ => break,
        }
    }
    let place = store.set(&name, value)?;
    Ok((name, place))
}

/// The scheme and the secret of a value that seems to be one, such as `Bearer ` and the token.
fn literal<'a>(name: &str, text: &'a str) -> Option<(&'a str, &'a str)> {
    let plain: String = name.to_ascii_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    let last = name.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default().to_ascii_lowercase();
    let is_named = MARKS.iter().any(|mark| plain.contains(mark)) || WORDS.contains(&last.as_str());
    let (scheme, secret) = match text.split_once(' ') {
        Some((word, _)) if ["bearer", "basic", "token"].contains(&word.to_ascii_lowercase().as_str()) => {
            text.split_at(word.len() + 1)
        }
        _ => ("", text),
    };
    let is_literal =
        secret.chars().count() >= MIN_SECRET_CHARS && !has_variable(secret) && !secret.starts_with(['/', '~']);
    (is_named && is_literal).then_some((scheme, secret))
}

/// Whether a text has a variable. `$${` is a literal `${`.
fn has_variable(text: &str) -> bool {
    text.replace("$${", "").contains("${")
}

/// A value of a configuration as it is meant: secrets are not searched for variables.
fn unescaped(text: &str) -> String {
    text.replace("$${", "${")
}

fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(name: &str, text: &str, expected: Option<(&str, &str)>) {
        assert_eq!(literal(name, text), expected, "{name}: {text}");
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        check("GITHUB_TOKEN", "ghp_0123456789", Some(("", "ghp_0123456789")));
        check("Authorization", "Bearer abcdefgh", Some(("Bearer ", "abcdefgh")));
        check("X-Api-Key", "abcdefgh", Some(("", "abcdefgh")));
        check("OPENAI_KEY", "sk-12345678", Some(("", "sk-12345678")));
        check("MONKEY", "bananas-are-fine", None);
        check("LOG_LEVEL", "information", None);
        check("TOKEN", "short", None);
        check("TOKEN", "${GITHUB_TOKEN}", None);
        check("TOKEN", "Bearer ${keyring:x}", None);
        check("TOKEN", "a$${b}cdefgh", Some(("", "a$${b}cdefgh")));
        check("KEY_FILE", "/home/u/.ssh/id", None);
        check("SSH_KEY", "/home/u/.ssh/id_rsa", None);
    }

    /// An entry whose secrets are replaced by their names and lengths.
    fn replaced(entry: Value) -> Value {
        let Value::Object(mut entry) = entry else { panic!("an object") };
        replace_in_entry(&mut entry, &mut |name, secret| Ok(format!("${{{name} {}}}", secret.len())))
            .expect("replaced");
        Value::Object(entry)
    }

    #[track_caller]
    fn check_args(args: &[&str], expected: &[&str]) {
        assert_eq!(replaced(json!({ "args": args })), json!({ "args": expected }));
    }

    #[test]
    fn secrets_in_arguments_are_found() {
        check_args(&["run", "--api-key", "12345678", "x"], &["run", "--api-key", "${api-key 8}", "x"]);
        check_args(&["--api-key=12345678"], &["--api-key=${api-key 8}"]);
        check_args(&["-e", "GITHUB_TOKEN=ghp_0123"], &["-e", "GITHUB_TOKEN=${GITHUB_TOKEN 8}"]);
        check_args(
            &["--header", "Authorization: Bearer abcdefgh"],
            &["--header", "Authorization: Bearer ${Authorization 8}"],
        );
        check_args(&["--header=X-Api-Key:abcdefgh"], &["--header=X-Api-Key:${X-Api-Key 8}"]);
        check_args(
            &["mcp-remote", "https://a.test/mcp?api_key=abcdefgh&x=1#f"],
            &["mcp-remote", "https://a.test/mcp?api_key=${api_key 8}&x=1#f"],
        );
    }

    #[test]
    fn arguments_without_secrets_stay() {
        for args in [
            ["--token", "${TOKEN}"],
            ["--token=${keyring:x.TOKEN}", "--verbose"],
            ["--key-file=/home/u/.ssh/id_rsa", "--mode=read-only"],
            ["--no-auth", "https://a.test/mcp?page=123456"],
            ["--auth", "--something-else"],
            ["--header", "Authorization: Bearer ${AUTH}"],
            ["C:\\keys\\private.pem", "user/auth:latest-build"],
        ] {
            check_args(&args, &args);
        }
    }

    #[test]
    fn secrets_in_the_query_of_a_url_are_found() {
        let url = |text: &str| replaced(json!({ "url": text }))["url"].clone();
        assert_eq!(url("https://a.test/mcp?token=abcdefgh&b"), "https://a.test/mcp?token=${token 8}&b");
        assert_eq!(url("https://a.test/mcp?a=1&apiKey=abcdefgh"), "https://a.test/mcp?a=1&apiKey=${apiKey 8}");
        for same in ["https://a.test/mcp", "https://a.test/mcp?token=${TOKEN}", "https://a.test/token=abcdefgh"] {
            assert_eq!(url(same), same);
        }
    }

    #[test]
    fn secrets_inside_of_values_are_found() {
        let entry = replaced(json!({
            "command": "x",
            "args": ["-y", "postgresql://bob:hunter2hunter2@db.example/app", "--level", "info"],
            "env": {
                "DATABASE_URL": "postgres://app:Sw0rdfish@db.example/app",
                "HEADERS": "{\"Authorization\": \"Bearer abc\\ndef\", \"Accept\": \"*/*\"}",
                "OPTS": "--level debug --token opensesame",
                "MIXED": "postgres://${USER_NAME}:${PASSWORD}@db.example/app",
                "CONFIG_FILE": "/home/u/a1b2c3d4e5",
                "MODE": "read-only",
            },
            "headers": { "Cookie": "session=9f86d081884c; theme=dark", "Accept": "application/json" },
        }));
        let expected = json!({
            "command": "x",
            "args": ["-y", "postgresql://bob:${argument 14}@db.example/app", "--level", "info"],
            "env": {
                "DATABASE_URL": "postgres://app:${DATABASE_URL 9}@db.example/app",
                "HEADERS": "{\"Authorization\": \"${HEADERS 15}\", \"Accept\": \"*/*\"}",
                "OPTS": "--level debug --token ${OPTS 10}",
                "MIXED": "postgres://${USER_NAME}:${PASSWORD}@db.example/app",
                "CONFIG_FILE": "/home/u/a1b2c3d4e5",
                "MODE": "read-only",
            },
            "headers": { "Cookie": "${Cookie 32}", "Accept": "application/json" },
        });
        assert_eq!(entry, expected);
        let url = replaced(json!({ "url": "https://bob:hunter2hunter2@web.example/mcp" }));
        assert_eq!(url, json!({ "url": "https://bob:${url 14}@web.example/mcp" }));
    }

    #[test]
    fn secrets_beside_variables_are_found_and_variables_stay() {
        let entry = replaced(json!({ "env": {
            "A": "postgres://app:Sw0rdfish@db.example/${Sw0rdfish}", "B": "a$${b} --token opensesame",
        } }));
        assert_eq!(entry["env"]["A"], "postgres://app:${A 9}@db.example/${Sw0rdfish}");
        let parts: Vec<_> = segments("a$${b}${C}d${E").collect();
        assert_eq!(parts, [(true, "a$${b}"), (false, "${C}"), (true, "d"), (false, "${E")]);
    }

    #[test]
    fn what_cannot_be_moved_is_told() {
        let stays = |entry: Value| {
            let Value::Object(mut entry) = entry else { panic!("an object") };
            let moved = replace_in_entry(&mut entry, &mut |name, _| Ok(format!("${{keyring:{name}}}")));
            moved.expect("moved");
            what_stays(&entry)
        };
        assert_eq!(stays(json!({ "args": ["-y", "K3y9x7Q2z"] })), ["one of `args`"]);
        assert_eq!(stays(json!({ "url": "https://a.example/mcp?next=x1y2%2Fz3w4v5" })), ["`url`"]);
        // One of two is moved; the other is written with an escape.
        let two = r#"{"token": "opensesame-1234", "password": "caf\u00e9-opensesame"}"#;
        assert_eq!(stays(json!({ "env": { "SETTINGS": two } })), ["`SETTINGS` of `env`"]);
        assert_eq!(stays(json!({ "headers": { "X-Settings": two } })), ["`X-Settings` of `headers`"]);
        assert_eq!(stays(json!({ "args": [two] })), ["one of `args`"]);
        for whole in [
            json!({ "args": ["--token", "opensesame", "postgres://a:opensesame@b.example/"] }),
            json!({ "env": { "TOKEN": "Bearer opensesame", "COOKIE": "a=${B}" }, "args": ["/home/u/a1b2c3d4e5"] }),
            json!({ "url": "https://bob:hunter2hunter2@web.example/mcp?key=opensesame" }),
        ] {
            assert_eq!(stays(whole.clone()), [""; 0], "{whole}");
        }
    }

    #[test]
    fn a_secret_is_moved_once_and_two_of_one_name_stay_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SecretStore::new(folder.path(), "toolgate test", Preference::File);
        let moved = |text: &str| {
            let values = json!({ "TOKEN": text, "MODE": "read-only" });
            let mut entry = Map::from_iter([("env".to_owned(), values)]);
            move_from(&store, "git hub", &mut entry).expect("moved");
            assert_eq!(entry["env"]["MODE"], json!("read-only"));
            entry["env"]["TOKEN"].clone()
        };
        assert_eq!(moved("Bearer a$${b}cdefgh"), json!("Bearer ${keyring:git_hub.TOKEN}"));
        assert_eq!(moved("Bearer a$${b}cdefgh"), json!("Bearer ${keyring:git_hub.TOKEN}"));
        assert_eq!(moved("another-secret"), json!("${keyring:git_hub.TOKEN-2}"));
        assert_eq!(store.get("git_hub.TOKEN").expect("readable").as_deref(), Some("a${b}cdefgh"));
    }
}
