//! Literal secrets in the entries of other clients: found by their names, moved to the keyring, replaced by `${keyring:…}`.

use serde_json::{Map, Value};
use toolgate_config::edit::NewServer;
use toolgate_secrets::{Place, Preference, SecretStore};

use super::secret;
use crate::print::note;

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
        let counted = replace_in_entry(&mut server.entry.clone(), &mut |_, secret| {
            count += 1;
            Ok(secret.to_owned())
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
    replace_in_entry(entry, &mut |key, secret| {
        let (name, place) = keep(store, &format!("{}.{}", plain(server), plain(key)), &unescaped(secret))?;
        note(format_args!("kept {name} {}", secret::kept(place)));
        Ok(format!("${{keyring:{name}}}"))
    })
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
    Ok(())
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
    // `$${` is a literal `${`; without the first dollar it is a variable.
    let has_variable = secret.replace("$${", "").contains("${");
    let is_literal = secret.chars().count() >= MIN_SECRET_CHARS && !has_variable && !secret.starts_with(['/', '~']);
    (is_named && is_literal).then_some((scheme, secret))
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

    /// An entry whose secrets are replaced by their names in brackets.
    fn replaced(entry: Value) -> Value {
        let Value::Object(mut entry) = entry else { panic!("an object") };
        replace_in_entry(&mut entry, &mut |name, secret| Ok(format!("<{name} {}>", secret.len()))).expect("replaced");
        Value::Object(entry)
    }

    #[track_caller]
    fn check_args(args: &[&str], expected: &[&str]) {
        assert_eq!(replaced(json!({ "args": args })), json!({ "args": expected }));
    }

    #[test]
    fn secrets_in_arguments_are_found() {
        check_args(&["run", "--api-key", "12345678", "x"], &["run", "--api-key", "<api-key 8>", "x"]);
        check_args(&["--api-key=12345678"], &["--api-key=<api-key 8>"]);
        check_args(&["-e", "GITHUB_TOKEN=ghp_0123"], &["-e", "GITHUB_TOKEN=<GITHUB_TOKEN 8>"]);
        check_args(
            &["--header", "Authorization: Bearer abcdefgh"],
            &["--header", "Authorization: Bearer <Authorization 8>"],
        );
        check_args(&["--header=X-Api-Key:abcdefgh"], &["--header=X-Api-Key:<X-Api-Key 8>"]);
        check_args(
            &["mcp-remote", "https://a.test/mcp?api_key=abcdefgh&x=1#f"],
            &["mcp-remote", "https://a.test/mcp?api_key=<api_key 8>&x=1#f"],
        );
    }

    #[test]
    fn arguments_without_secrets_stay() {
        for args in [
            ["--token", "${TOKEN}"],
            ["--token=${keyring:x.TOKEN}", "--verbose"],
            ["--key-file=/home/u/.ssh/id_rsa", "--mode=read-only"],
            ["--no-auth", "https://a.test/mcp?page=12345678"],
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
        assert_eq!(url("https://a.test/mcp?token=abcdefgh&b"), "https://a.test/mcp?token=<token 8>&b");
        assert_eq!(url("https://a.test/mcp?a=1&apiKey=abcdefgh"), "https://a.test/mcp?a=1&apiKey=<apiKey 8>");
        for same in ["https://a.test/mcp", "https://a.test/mcp?token=${TOKEN}", "https://a.test/token=abcdefgh"] {
            assert_eq!(url(same), same);
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
