//! Which texts of a configuration are secrets: what is taken out of a record before it leaves this machine.
//!
//! Credentials, and what `${file:…}`, `${keyring:…}` and `${cmd:…}` stand for, always are. An environment variable, a header, an
//! argument or a part of a URL is one if its name says so (`API_TOKEN`), or if it has the form of one: a word with letters and
//! digits in turn, a long number. Of a longer text, such as a cookie or a line of options, the parts that are secrets count as
//! well, because they also occur alone. Other settings (`info`, `us-east-1`, a path) stay, because a record in which these are replaced
//! cannot be read.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value as Json;
use url::Url;

use crate::values::Secret;

/// Characters of the shortest secret that is known by its name or its source. Shorter texts occur everywhere by chance.
const MIN_CHARS: usize = 6;
/// Characters of the shortest secret that is known by its form.
const MIN_CHARS_BY_FORM: usize = 8;
/// A part of a URL's path counts as a secret from this many characters on: shorter parts are versions and ids.
const MIN_PATH_PART: usize = 16;
/// A word of letters and at most three digits counts as a secret when it is longer than this many characters.
const MAX_WORD: usize = 24;
/// A number counts as a secret when it has more digits than this.
const MAX_NUMBER: usize = 6;
/// Words in names of secrets.
const SECRET_WORDS: [&str; 12] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "authorization",
    "cookie",
    "bearer",
];
/// Parts of names of secrets, between `_` or `-`.
const SECRET_PARTS: [&str; 5] = ["key", "auth", "pat", "pwd", "pass"];
/// Last parts of names of places where a secret is, or of what is beside it.
const PLACE_PARTS: [&str; 11] =
    ["file", "path", "dir", "folder", "url", "uri", "host", "endpoint", "id", "name", "type"];
/// Variables that every process has, and what clients call some of them.
const ORDINARY: [&str; 14] = [
    "HOME",
    "USER",
    "LOGNAME",
    "PWD",
    "OLDPWD",
    "HOSTNAME",
    "PATH",
    "SHELL",
    "TMPDIR",
    "LANG",
    "userHome",
    "workspaceFolder",
    "workspaceFolderBasename",
    "pathSeparator",
];
/// Schemes of the header `Authorization`.
const SCHEMES: [&str; 5] = ["bearer", "basic", "token", "apikey", "digest"];

/// The secrets of a configuration. Their values are never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretValues(BTreeSet<Secret>);

impl SecretValues {
    /// The secrets of a variable, a header or another setting with a name.
    pub fn of_named(name: &str, value: &str) -> Self {
        let mut secrets = Self::default();
        secrets.add_named(name, value);
        secrets
    }

    /// The secrets among the arguments of a program.
    pub fn of_arguments<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let mut secrets = Self::default();
        secrets.add_arguments(arguments);
        secrets
    }

    /// The values.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(Secret::expose)
    }

    /// Adds a value that is a secret because of where it comes from. Of `user:password` the password alone as well.
    pub(super) fn add(&mut self, value: &str) {
        let value = value.trim();
        if value.chars().count() >= MIN_CHARS {
            self.0.insert(Secret::new(value));
        }
        if let Some((_, password)) = value.split_once(':').filter(|(user, _)| !user.contains(['/', ' ', '\n'])) {
            self.add_plain(password);
        }
    }

    /// Adds the secrets of another configuration.
    pub(crate) fn add_all(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    fn add_plain(&mut self, value: &str) {
        if value.chars().count() >= MIN_CHARS {
            self.0.insert(Secret::new(value));
        }
    }

    /// Adds the value of a variable, a header or another setting with a name, if it is a secret.
    pub(super) fn add_named(&mut self, name: &str, value: &str) {
        let value = without_scheme(value.trim());
        if ORDINARY.contains(&name) {
            return;
        }
        if let Ok(url) = Url::parse(value)
            && value.contains("://")
        {
            return self.add_url(&url);
        }
        if let Ok(json @ (Json::Object(_) | Json::Array(_))) = serde_json::from_str(value) {
            return self.add_json(name, &json);
        }
        if is_secret_name(name) || has_secret_form(value) {
            self.add_plain(value);
        }
        let words = value.split_whitespace();
        if value.starts_with('-') && words.clone().nth(1).is_some() {
            self.add_arguments(words.clone());
        }
        words.for_each(|word| self.add_word(word));
    }

    /// Adds the secrets of a part of a text without blanks: a URL, or `name=value` between `;` or `,`.
    fn add_word(&mut self, word: &str) {
        if let Ok(url) = Url::parse(word)
            && word.contains("://")
        {
            return self.add_url(&url);
        }
        for setting in word.split([';', ',']) {
            if let Some((_, value)) = setting.split_once('=').filter(|(name, _)| is_secret_name(name)) {
                self.add_plain(value);
            }
            setting.split('=').filter(|part| has_secret_form(part)).for_each(|part| self.add_plain(part));
        }
    }

    /// Adds the secrets among the arguments of a program: `--token=x`, `--token x`, `--header "Authorization: x"`, and those that
    /// have the form of one.
    pub(super) fn add_arguments<'a>(&mut self, arguments: impl IntoIterator<Item = &'a str>) {
        let mut named = "";
        for argument in arguments {
            let option = argument.trim_start_matches('-');
            let name = option.split_once('=').map_or(option, |(name, _)| name);
            let is_option = option.len() < argument.len() && !name.contains(char::is_whitespace);
            match option.split_once('=').filter(|_| is_option || is_variable(option)) {
                Some((name, value)) => self.add_argument(name, value),
                None if is_option => {}
                None => self.add_argument(named, argument),
            }
            named = if is_option && !option.contains('=') { option } else { "" };
        }
    }

    fn add_argument(&mut self, name: &str, value: &str) {
        if let Some((header, value)) = as_header(value) {
            self.add_named(header, value);
        }
        self.add_named(name, value);
    }

    /// Adds the secrets of a URL: its password, and the parts of its path and query that are secrets.
    pub(super) fn add_url(&mut self, url: &Url) {
        let decoded = |text: &str| {
            let pair = format!("x={}", text.replace('+', "%2B"));
            url::form_urlencoded::parse(pair.as_bytes()).next().map(|(_, text)| text.into_owned()).unwrap_or_default()
        };
        if let Some(password) = url.password() {
            self.add_plain(password);
            self.add_plain(&decoded(password));
        }
        self.add_named("", url.username());
        let parts = url.path_segments().into_iter().flatten();
        parts.filter(|part| part.len() >= MIN_PATH_PART).for_each(|part| self.add_named("", part));
        for (name, value) in url.query_pairs() {
            self.add_named(&name, &value);
        }
    }

    /// Adds the secrets of a setting that is JSON, such as the key file of a service account.
    fn add_json(&mut self, name: &str, json: &Json) {
        match json {
            Json::String(text) if is_secret_name(name) || has_secret_form(text) => self.add_plain(text),
            Json::Array(items) => items.iter().for_each(|item| self.add_json(name, item)),
            Json::Object(members) => members.iter().for_each(|(name, value)| self.add_json(name, value)),
            _ => {}
        }
    }
}

impl fmt::Debug for SecretValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretValues({})", self.0.len())
    }
}

/// Whether this is the name of an environment variable.
fn is_variable(text: &str) -> bool {
    let name = text.split_once('=').map_or(text, |(name, _)| name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// The name and the value of a text in the form of a header, `Name: value`. Neither a URL nor a Windows path has it.
fn as_header(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(':')?;
    let is_name = name.len() > 1 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    (is_name && !value.starts_with('/')).then(|| (name, value.trim()))
}

/// `Bearer x` is the secret `x`.
fn without_scheme(value: &str) -> &str {
    match value.split_once(' ') {
        Some((scheme, rest)) if SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()) => rest.trim(),
        _ => value,
    }
}

/// Whether a name says that its value is a secret.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase();
    let mut parts = name.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
    let joined: String = parts.clone().collect();
    let is_place = parts.clone().next_back().is_some_and(|last| PLACE_PARTS.contains(&last));
    !is_place
        && (SECRET_WORDS.iter().any(|word| joined.contains(word)) || parts.any(|part| SECRET_PARTS.contains(&part)))
}

/// Whether a text has the form of a secret.
fn has_secret_form(text: &str) -> bool {
    text.chars().count() >= MIN_CHARS_BY_FORM
        && text.split(|c: char| !c.is_alphanumeric()).any(|word| !is_ordinary_word(word))
}

/// Whether a word without separators may stand in any text: a short one, a number, one of letters with a few digits at its end.
fn is_ordinary_word(word: &str) -> bool {
    let length = word.chars().count();
    if length <= 3 {
        return true;
    }
    if word.chars().all(|c| c.is_ascii_digit()) {
        return length <= MAX_NUMBER;
    }
    let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = word.len() - letters.len();
    length <= MAX_WORD && digits <= 3 && letters.chars().all(char::is_alphabetic) && is_cased_as_a_word(letters)
}

/// Whether the letters are all small, all capital, or as in `camelCase`; short ones may be as they like.
fn is_cased_as_a_word(letters: &str) -> bool {
    let is_capital = |c: char| c.is_uppercase();
    let neighbours = || letters.chars().zip(letters.chars().skip(1));
    letters.chars().count() < MIN_CHARS_BY_FORM
        || letters.chars().all(is_capital)
        || !neighbours().any(|(one, next)| is_capital(one) && is_capital(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str, expected: &[&str]) {
        let mut secrets = SecretValues::default();
        secrets.add_named(name, value);
        assert_eq!(secrets.iter().collect::<Vec<_>>(), expected, "{name}={value}");
    }

    #[test]
    fn a_name_says_that_a_value_is_a_secret() {
        for name in ["GITHUB_TOKEN", "api-key", "X-Key", "dbPassword", "STRIPE_SECRET", "Cookie", "DB_PWD"] {
            check(name, "correct horse", &["correct horse"]);
        }
        check("Authorization", "Bearer abcdef", &["abcdef"]);
        check("TOKEN", "short", &[]);
    }

    #[test]
    fn a_value_that_looks_like_a_secret_is_one_under_any_name() {
        for value in
            ["canary-of-the-backend-93ac", "dXNlcjpwYXNz", "4111111111111111", "9f86d081884c7d65", "Tr0ub4dor&3"]
        {
            check("SETTING", value, &[value]);
        }
    }

    #[test]
    fn ordinary_settings_stay() {
        for value in [
            "info",
            "production",
            "us-east-1",
            "gpt-4o-mini",
            "2026-07-28",
            "application/json",
            "/usr/local/bin/node",
            "~/projects/notes",
            "en_US.UTF-8",
            "0.0.0.0:8080",
            "readOnlyHintValue",
            "the quick brown fox",
            "https://docs.example.com/mcp?page=2",
        ] {
            check("SETTING", value, &[]);
        }
        check("HOME", "/home/u1234567", &[]);
        check("TOKEN_FILE", "/run/secrets", &[]);
    }

    #[test]
    fn urls_and_json_are_looked_into() {
        check(
            "DATABASE",
            "postgres://app:pa%2Fssword@db.example.com/runs?sslmode=require&api_key=topsecret",
            &["pa%2Fssword", "pa/ssword", "topsecret"],
        );
        check("HOOK", "https://hooks.example.com/v20260728/T000123/a8Kd82mXq0Zz91LmPq27", &["a8Kd82mXq0Zz91LmPq27"]);
        check("ACCOUNT", r#"{"type": "service", "private_key": "line\none", "client": {"id": "x"}}"#, &["line\none"]);
    }

    #[test]
    fn arguments_are_looked_at_with_their_names() {
        let mut secrets = SecretValues::default();
        let arguments =
            ["-y", "@scope/server", "--token=opensesame", "--password", "letmein", "--level", "debugging", "K3y9x7Q2z"];
        secrets.add_arguments(arguments);
        assert_eq!(secrets.iter().collect::<Vec<_>>(), ["K3y9x7Q2z", "letmein", "opensesame"]);
    }

    #[test]
    fn parts_of_a_longer_text_are_secrets_of_their_own() {
        let noted = |secrets: &SecretValues, text: &str| secrets.iter().any(|secret| secret == text);
        for (arguments, secret) in [
            (&["--header", "Authorization: Bearer tk9f86d0818x"][..], "tk9f86d0818x"),
            (&["--header", "Authorization:letmein"][..], "letmein"),
            (&["--header=X-Api-Key: opensesame"][..], "opensesame"),
            (&["-H", "Cookie: session=9f86d081884c; theme=dark"][..], "9f86d081884c"),
            (&["--connection", "Server=db;Password=Tr0ub4dor3;"][..], "Tr0ub4dor3"),
            (&["Server=db;Password=opensesame;"][..], "opensesame"),
            (&["--options", "--token x1y2z3w4"][..], "x1y2z3w4"),
            (&["OPTIONS=--level debug --token opensesame"][..], "opensesame"),
            (&["--hosts", "a.example.com https://ann:opensesame@b.example.com/"][..], "opensesame"),
        ] {
            let mut secrets = SecretValues::default();
            secrets.add_arguments(arguments.iter().copied());
            assert!(noted(&secrets, secret), "{arguments:?}");
            for ordinary in ["Authorization", "Bearer", "session", "theme=dark", "Server=db", "Password", "--level"] {
                assert!(!noted(&secrets, ordinary), "{ordinary} of {arguments:?}");
            }
        }
        let mut secrets = SecretValues::default();
        secrets.add_named("OPTIONS", "--token x1y2z3w4");
        assert!(noted(&secrets, "x1y2z3w4"));
        let mut secrets = SecretValues::default();
        secrets.add_arguments(["-v", "data:/var/lib", "postgres:16", "localhost:8080", "--mode", "a=b,c=d;e=f"]);
        assert_eq!(secrets.iter().count(), 0);
    }

    #[test]
    fn a_credential_is_one_whatever_its_form() {
        let mut secrets = SecretValues::default();
        secrets.add("ann:opensesame");
        secrets.add("tiny");
        assert_eq!(secrets.iter().collect::<Vec<_>>(), ["ann:opensesame", "opensesame"]);
        assert_eq!(format!("{secrets:?}"), "SecretValues(2)");
    }
}
