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

/// How many literal secrets these servers have.
pub(crate) fn count(servers: &[NewServer]) -> usize {
    let found = |server: &NewServer| {
        let sections = ["env", "headers", "auth"].iter().filter_map(|section| server.entry.get(*section)?.as_object());
        sections
            .flatten()
            .filter(|(name, value)| value.as_str().is_some_and(|text| literal(name, text).is_some()))
            .count()
    };
    servers.iter().map(found).sum()
}

/// Moves them. A server keeps its literal secret if that cannot be kept elsewhere.
pub(crate) fn move_all(servers: &mut [NewServer]) -> anyhow::Result<()> {
    let store = secret::store(secret::configured(None).unwrap_or(Preference::Auto))?;
    for server in servers {
        for section in ["env", "headers", "auth"] {
            if let Some(Value::Object(values)) = server.entry.get_mut(section) {
                move_from(&store, &server.name, values)?;
            }
        }
    }
    Ok(())
}

fn move_from(store: &SecretStore, server: &str, values: &mut Map<String, Value>) -> anyhow::Result<()> {
    for (key, value) in values {
        let Some((scheme, secret)) = value.as_str().and_then(|text| literal(key, text)) else { continue };
        let (name, place) = keep(store, &format!("{}.{}", plain(server), plain(key)), &unescaped(secret))?;
        note(format_args!("kept {name} {}", secret::kept(place)));
        *value = Value::String(format!("{scheme}${{keyring:{name}}}"));
    }
    Ok(())
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

    #[test]
    fn a_secret_is_moved_once_and_two_of_one_name_stay_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SecretStore::new(folder.path(), "toolgate test", Preference::File);
        let moved = |text: &str| {
            let mut values =
                Map::from_iter([("TOKEN".to_owned(), json!(text)), ("MODE".to_owned(), json!("read-only"))]);
            move_from(&store, "git hub", &mut values).expect("moved");
            assert_eq!(values["MODE"], json!("read-only"));
            values["TOKEN"].clone()
        };
        assert_eq!(moved("Bearer a$${b}cdefgh"), json!("Bearer ${keyring:git_hub.TOKEN}"));
        assert_eq!(moved("Bearer a$${b}cdefgh"), json!("Bearer ${keyring:git_hub.TOKEN}"));
        assert_eq!(moved("another-secret"), json!("${keyring:git_hub.TOKEN-2}"));
        assert_eq!(store.get("git_hub.TOKEN").expect("readable").as_deref(), Some("a${b}cdefgh"));
    }
}
