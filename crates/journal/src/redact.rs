//! Replaces secrets in a record by stand-ins, so that it can be given away and still runs.
//!
//! A secret is a value that the caller names, a text or number under a name such as `password` in any JSON of the record, or a
//! text of the form of a well-known credential. It is replaced everywhere in the record, also in the program, by the
//! same stand-in of the same length and the same kinds of characters: positions, sizes and most formats stay. What the
//! guest said gets new digests. A program that *computes* with a secret (a signature, a checksum) says something else
//! with the stand-in, and its replay diverges there.

mod named;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use ring::hmac;
use serde_json::Value;

use crate::entry::{Call, DigestText, Event, Header};
use crate::recording::Record;
use crate::text::{Blobs, ContentHash, MissingBlob, Text};
use named::in_json;

/// Bytes of the shortest text that counts as a secret: shorter ones occur everywhere by chance.
const MIN_SECRET: usize = 6;
/// JSON in JSON in JSON is looked into; deeper is not.
const MAX_NESTING: usize = 3;

/// How well-known credentials begin.
const PREFIXES: [&str; 13] = [
    "sk-",
    "sk_live_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "eyJ",
];
/// Characters after such a prefix that make it a credential.
const MIN_CREDENTIAL: usize = 16;

/// Rules and key of a redaction.
pub struct Redaction {
    key: hmac::Key,
    values: Vec<String>,
}

impl Redaction {
    /// A redaction that also replaces these values. Its key is random, so stand-ins are stable within what one
    /// redaction is applied to, and no one can test guesses of a secret against them.
    pub fn new(values: Vec<String>) -> Self {
        let mut key = [0; 32];
        // Without random numbers stand-ins are still no secrets, only guesses of a secret could be tested.
        let _ = getrandom::fill(&mut key);
        Redaction::with_key(&key, values)
    }

    /// The same with a key of the caller's, for stand-ins that stay the same over several files.
    pub fn with_key(key: &[u8; 32], values: Vec<String>) -> Self {
        Redaction { key: hmac::Key::new(hmac::HMAC_SHA256, key), values }
    }

    /// A text without the values that this redaction was given. What names say about other values does not count here.
    pub fn text(&self, text: &str) -> String {
        let named: BTreeSet<String> = self.values.iter().filter(|value| value.len() >= MIN_SECRET).cloned().collect();
        if named.is_empty() {
            return text.to_owned();
        }
        let substitution = Substitution::new(self.replacements(&named));
        substitution.passes.iter().fold(text.to_owned(), |text, pass| pass.replace(&text).unwrap_or(text))
    }

    /// Replaces the secrets of a record; returns how many there were.
    ///
    /// # Errors
    /// If a text of the record is missing.
    pub fn apply(&self, record: &mut Record) -> Result<usize, MissingBlob> {
        let secrets = self.secrets(record)?;
        if secrets.is_empty() {
            return Ok(0);
        }
        let mut substitution = Substitution::new(self.replacements(&secrets));
        let key = record.header().and_then(Header::key);
        let mut blobs = Blobs::default();
        for entry in &mut record.entries {
            for text in entry.event.texts_mut() {
                *text = substitution.replaced(text, &record.blobs, &mut blobs)?;
            }
            if let Event::Header(header) = &mut entry.event {
                header.code_hash = ContentHash::of(blobs.text(&header.code)?);
            }
            if let (Some(key), Some(frame)) = (&key, entry.event.frame(&blobs)?) {
                let digest = DigestText(key.digest(&frame));
                if let Event::Call(Call { digest: kept, .. })
                | Event::Line { digest: kept, .. }
                | Event::End { digest: kept, .. } = &mut entry.event
                {
                    *kept = digest;
                }
            }
        }
        record.blobs = blobs;
        Ok(secrets.len())
    }

    /// The secrets of a record.
    fn secrets(&self, record: &Record) -> Result<BTreeSet<String>, MissingBlob> {
        let mut found = BTreeSet::new();
        let named = NamedValues::new(self.values.iter().filter(|value| value.len() >= MIN_SECRET));
        // A long text is looked into once, however often it is named.
        let mut seen: BTreeSet<&ContentHash> = BTreeSet::new();
        for text in record.entries.iter().flat_map(|entry| entry.event.texts()) {
            if let Text::Blob { blob, .. } = text
                && !seen.insert(blob)
            {
                continue;
            }
            let text = record.blobs.text(text)?;
            named.find(text, &mut found);
            in_json(text, MAX_NESTING, &mut found);
            credentials(text, &mut found);
        }
        found.retain(|secret| secret.len() >= MIN_SECRET);
        Ok(found)
    }

    /// Every form in which a secret may stand in a text, with what stands there instead.
    fn replacements(&self, secrets: &BTreeSet<String>) -> BTreeMap<String, String> {
        let mut replacements = BTreeMap::new();
        for secret in secrets {
            let stand_in = self.stand_in(secret);
            replacements.extend(forms(secret).into_iter().zip(forms(&stand_in)));
        }
        replacements
    }

    /// A text of the same length and kinds of characters. Where the secret is a number, so is the stand-in, and a program writes it
    /// as it is: it begins with no zero, ends a fraction with none, and one of 16 digits is an integer that a program has exactly.
    fn stand_in(&self, secret: &str) -> String {
        // The secret is hashed once, whatever its length: the stream is made of its hash.
        let seed = hmac::sign(&self.key, secret.as_bytes());
        let mut stream = Vec::new();
        while stream.len() < secret.len() {
            let mut context = hmac::Context::with_key(&self.key);
            context.update(&(stream.len() as u64).to_le_bytes());
            context.update(seed.as_ref());
            stream.extend_from_slice(context.sign().as_ref());
        }
        let is_digit = |at: usize| secret.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
        let replaced = secret.char_indices().zip(stream).map(|((at, c), byte)| match c {
            '0'..='9' if at == 0 || !is_digit(at - 1) || !is_digit(at + 1) => char::from(b'1' + byte % 8),
            '0'..='9' => char::from(b'0' + byte % 10),
            'a'..='z' => char::from(b'a' + byte % 26),
            'A'..='Z' => char::from(b'A' + byte % 26),
            other => other,
        });
        replaced.collect()
    }
}

/// A text as it stands in a text, in JSON, and in JSON in JSON.
fn forms(text: &str) -> [String; MAX_NESTING] {
    let mut form = text.to_owned();
    std::array::from_fn(|_| {
        let escaped = escape(&form);
        std::mem::replace(&mut form, escaped)
    })
}

/// The values that the caller names, to be found in texts: a record counts only those that it has.
struct NamedValues<'v> {
    /// The value behind each pattern.
    values: Vec<&'v String>,
    /// `None` where no automaton could be made: then all values count.
    automaton: Option<AhoCorasick>,
}

impl<'v> NamedValues<'v> {
    fn new(values: impl Iterator<Item = &'v String>) -> Self {
        let patterns: Vec<(String, &String)> =
            values.flat_map(|value| forms(value).into_iter().map(move |form| (form, value))).collect();
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(patterns.iter().map(|(form, _)| form));
        NamedValues { values: patterns.into_iter().map(|(_, value)| value).collect(), automaton: automaton.ok() }
    }

    /// Collects the values that a text has. One inside another is replaced with it, and is found where it stands alone.
    fn find(&self, text: &str, found: &mut BTreeSet<String>) {
        match &self.automaton {
            _ if self.values.is_empty() => {}
            Some(automaton) => {
                for hit in automaton.find_iter(text) {
                    let value = self.values[hit.pattern().as_usize()];
                    if !found.contains(value) {
                        found.insert(value.clone());
                    }
                }
            }
            None => found.extend(self.values.iter().map(|value| (*value).clone())),
        }
    }
}

/// Bytes of secrets that are searched for in one pass over a text. The automaton of a pass takes some fifty times as many.
const MAX_PASS_BYTES: usize = 1 << 20;

/// Replaces secrets in texts, each text in a few passes: their number depends on the bytes of the secrets, not on how many
/// secrets there are.
struct Substitution {
    passes: Vec<Pass>,
    /// Long texts that were replaced.
    done: BTreeMap<ContentHash, Text>,
    /// Bytes that were searched.
    searched: u64,
}

/// Secrets that are replaced together.
enum Pass {
    Several {
        automaton: AhoCorasick,
        stand_ins: Vec<String>,
    },
    /// One that is very long, or for which no automaton could be made.
    Single {
        secret: String,
        stand_in: String,
    },
}

impl Substitution {
    /// The longest are replaced first: a secret may contain another one.
    fn new(replacements: BTreeMap<String, String>) -> Self {
        let mut ordered: Vec<(String, String)> = replacements.into_iter().collect();
        ordered.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
        let mut passes = Vec::new();
        let (mut secrets, mut bytes) = (Vec::new(), 0);
        for (secret, stand_in) in ordered {
            if bytes > 0 && bytes + secret.len() > MAX_PASS_BYTES {
                passes.extend(Pass::of(std::mem::take(&mut secrets)));
                bytes = 0;
            }
            bytes += secret.len();
            secrets.push((secret, stand_in));
        }
        passes.extend(Pass::of(secrets));
        Substitution { passes, done: BTreeMap::new(), searched: 0 }
    }

    /// The text without secrets. A long one that is named again is not searched again.
    fn replaced(&mut self, text: &Text, from: &Blobs, to: &mut Blobs) -> Result<Text, MissingBlob> {
        if let Text::Blob { blob, .. } = text
            && let Some(done) = self.done.get(blob)
        {
            return Ok(done.clone());
        }
        let mut replaced = Cow::Borrowed(from.text(text)?);
        for pass in &self.passes {
            self.searched += replaced.len() as u64;
            if let Some(changed) = pass.replace(&replaced) {
                replaced = Cow::Owned(changed);
            }
        }
        let kept = to.keep(&replaced).0;
        if let Text::Blob { blob, .. } = text {
            self.done.insert(blob.clone(), kept.clone());
        }
        Ok(kept)
    }
}

impl Pass {
    fn of(secrets: Vec<(String, String)>) -> Vec<Pass> {
        if let [(secret, stand_in)] = secrets.as_slice() {
            return vec![Pass::Single { secret: secret.clone(), stand_in: stand_in.clone() }];
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(secrets.iter().map(|(secret, _)| secret));
        match automaton {
            Ok(automaton) => {
                vec![Pass::Several {
                    automaton,
                    stand_ins: secrets.into_iter().map(|(_, stand_in)| stand_in).collect(),
                }]
            }
            Err(_) => secrets.into_iter().map(|(secret, stand_in)| Pass::Single { secret, stand_in }).collect(),
        }
    }

    /// The text with stand-ins; `None` where there is nothing to replace.
    fn replace(&self, text: &str) -> Option<String> {
        match self {
            Pass::Several { automaton, stand_ins } => {
                automaton.is_match(text).then(|| automaton.replace_all(text, stand_ins))
            }
            Pass::Single { secret, stand_in } => {
                text.contains(secret.as_str()).then(|| text.replace(secret.as_str(), stand_in))
            }
        }
    }
}

/// A text as it stands inside a JSON string.
fn escape(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Collects words of the form of a well-known credential.
fn credentials(text: &str, found: &mut BTreeSet<String>) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || ['_', '-', '.'].contains(&c);
    for prefix in PREFIXES {
        for (start, _) in text.match_indices(prefix) {
            if text[..start].chars().next_back().is_some_and(is_part) {
                continue;
            }
            let rest = &text[start..];
            let word = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
            if word.len() >= prefix.len() + MIN_CREDENTIAL {
                found.insert(word.trim_end_matches('.').to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use toolgate_engine::transcript::DigestKey;
    use toolgate_wire::frame::{Stream, Target};
    use toolgate_wire::{CallId, FromWorker, Profile};

    use super::*;
    use crate::recording::tests::facts;
    use crate::recording::{Recording, RunFacts};

    const PASSWORD: &str = "hunter2-Ünïc0de";
    const GITHUB: &str = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";

    fn record() -> Record {
        let code = format!("await db.login({{ user: 'ann', password: '{PASSWORD}' }})");
        let facts = RunFacts { run: "r".into(), profile: Profile::Chain, code, caller: String::new(), request: None };
        let recording = Recording::new(facts);
        let target = Target::Tool { backend: "db".into(), tool: "login".into() };
        let args = serde_json::json!({ "user": "ann", "pass_word": PASSWORD });
        let call = FromWorker::Call { id: CallId(1), target, args: args.to_string().into_bytes() };
        recording.said(&call, false);
        // JSON in JSON, as MCP servers send it.
        let inner = serde_json::json!({ "apiKey": "line\n\"one\"", "note": GITHUB }).to_string();
        let body = serde_json::json!({ "text": inner }).to_string();
        recording.answered(CallId(1), toolgate_wire::CallState::Applied, Ok(body.as_bytes()));
        recording.said(&FromWorker::Log { stream: Stream::Stdout, text: format!("got {GITHUB}") }, false);
        recording.finish(&serde_json::json!({ "value": GITHUB }).to_string());
        recording.take()
    }

    fn all_text(record: &Record) -> String {
        let mut out = Vec::new();
        crate::cassette::write(record, &mut out).expect("memory");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn secrets_are_replaced_everywhere_by_the_same_stand_in() {
        let mut redacted = record();
        let before = all_text(&redacted);
        assert!(before.contains(GITHUB) && before.contains(PASSWORD));
        Redaction::new(Vec::new()).apply(&mut redacted).expect("complete");
        let after = all_text(&redacted);
        for secret in [GITHUB, PASSWORD, "hunter2", r"line\n"] {
            assert!(!after.contains(secret), "{secret} in {after}");
        }
        assert_eq!(after.len(), before.len(), "{after}");
        let report: Value = serde_json::from_str(redacted.report().expect("report")).expect("JSON");
        let stand_in = report["value"].as_str().expect("text");
        assert_eq!(after.matches(stand_in).count(), before.matches(GITHUB).count());
        assert!(after.contains("user: 'ann'"), "{after}");
    }

    #[test]
    fn what_the_guest_said_has_its_new_digest() {
        let mut redacted = record();
        Redaction::new(Vec::new()).apply(&mut redacted).expect("complete");
        let key: DigestKey = redacted.header().and_then(Header::key).expect("key");
        let said: Vec<_> = redacted.entries.iter().filter(|entry| entry.event.digest().is_some()).collect();
        assert_eq!(said.len(), 2);
        for entry in said {
            let frame = entry.event.frame(&redacted.blobs).expect("complete").expect("a frame");
            assert_eq!(entry.event.digest(), Some(key.digest(&frame)));
        }
    }

    #[test]
    fn a_value_that_the_caller_names_is_replaced() {
        let mut redacted = record();
        Redaction::new(vec!["db.login".into(), "ann".into()]).apply(&mut redacted).expect("complete");
        let after = all_text(&redacted);
        assert!(!after.contains("await db.login") && after.contains("'ann'"), "{after}");
    }

    #[test]
    fn named_values_count_where_the_record_has_them() {
        let named = |values: &[&str]| Redaction::new(values.iter().map(|value| (*value).to_owned()).collect());
        let own = Redaction::new(Vec::new()).apply(&mut record()).expect("complete");
        assert_eq!(named(&["not-in-the-record"]).apply(&mut record()).expect("complete"), own);
        assert_eq!(named(&["await db.", "wait db"]).apply(&mut record()).expect("complete"), own + 1);
    }

    #[test]
    fn a_text_loses_the_named_values_in_every_form() {
        let redaction = Redaction::with_key(&[3; 32], vec!["two\"lines\nlong".into(), "short".into()]);
        let inner = serde_json::json!({ "note": "two\"lines\nlong", "token": "kept-as-it-is", "word": "short" });
        let text = serde_json::json!({ "plain": "two\"lines\nlong", "nested": inner.to_string() }).to_string();
        let replaced: Value = serde_json::from_str(&redaction.text(&text)).expect("still JSON");
        let nested: Value = serde_json::from_str(replaced["nested"].as_str().expect("text")).expect("still JSON");
        let stand_in = redaction.stand_in("two\"lines\nlong");
        assert_eq!((replaced["plain"].as_str(), nested["note"].as_str()), (Some(&*stand_in), Some(&*stand_in)));
        assert_eq!((&nested["token"], &nested["word"]), (&Value::from("kept-as-it-is"), &Value::from("short")));
        assert_eq!(Redaction::new(Vec::new()).text(&text), text);
    }

    #[test]
    fn stand_ins_depend_on_the_key_and_keep_the_form() {
        let stand_in = |key: u8| Redaction::with_key(&[key; 32], Vec::new()).stand_in("aB3-xyz");
        assert_eq!(stand_in(1), stand_in(1));
        assert_ne!(stand_in(1), stand_in(2));
        let kinds: Vec<bool> = stand_in(1).chars().map(|c| c.is_ascii_digit()).collect();
        assert_eq!(kinds, [false, false, true, false, false, false, false]);
    }

    /// How many bytes are searched in texts with these secrets.
    fn searched(secrets: impl Iterator<Item = String>, texts: &[&str]) -> u64 {
        let redaction = Redaction::with_key(&[1; 32], Vec::new());
        let mut substitution = Substitution::new(redaction.replacements(&secrets.collect()));
        let (mut from, mut to) = (Blobs::default(), Blobs::default());
        for text in texts {
            let text = from.keep(text).0;
            substitution.replaced(&text, &from, &mut to).expect("it is there");
        }
        substitution.searched
    }

    #[test]
    fn a_text_is_searched_once_for_any_number_of_secrets() {
        let text = (0..5000).map(|n| format!(r#""password":"secret-{n:06}""#)).collect::<Vec<_>>().join(",");
        let secrets = |count: usize| (0..count).map(|n| format!("secret-{n:06}"));
        assert_eq!(searched(secrets(1), &[&text]), text.len() as u64);
        assert_eq!(searched(secrets(5000), &[&text]), text.len() as u64);
        // A long text that is named again is not searched again.
        assert_eq!(searched(secrets(5000), &[&text, &text, &text]), text.len() as u64);
        // Only the bytes of the secrets make more passes of it.
        assert_eq!(searched((0..5000).map(|n| format!("{n:0700}")), &[&text]), 4 * text.len() as u64);
    }

    #[test]
    fn a_record_of_many_secrets_has_none_of_them_left() {
        let recording = Recording::new(facts());
        // Names within names, forms within forms, secrets within secrets.
        let deep = (0..100).fold(
            serde_json::json!("deep-secret"),
            |value, n| serde_json::json!({ "token": value, "note": format!("note-{n:03}") }),
        );
        let many: Vec<Value> = (0..5_000).map(|n| serde_json::json!({ "password": format!("pass\n{n}") })).collect();
        let long = "0123456789abcdef".repeat(70_000);
        let body =
            serde_json::json!({ "deep": deep, "many": many, "secret": long, "text": "pass\n77 pass\n7 pass\n777" });
        recording.answered(CallId(1), toolgate_wire::CallState::Applied, Ok(body.to_string().as_bytes()));
        recording.finish(&serde_json::json!({ "value": body.to_string() }).to_string());
        let mut record = recording.take();
        // The notes are below a secret name too.
        let found = Redaction::new(Vec::new()).apply(&mut record).expect("complete");
        assert_eq!(found, 5_000 + 1 + 1 + 99);
        let after = all_text(&record);
        for secret in ["deep-secret", "pass\\", "0123456789abcdef", "note-007"] {
            assert!(!after.contains(secret), "{secret}");
        }
        assert!(after.contains("note-099"), "it is not below a secret name");
    }

    #[test]
    fn the_stand_in_of_a_number_is_a_number_that_a_program_writes_so() {
        for key in 0..=255 {
            let redaction = Redaction::with_key(&[key; 32], Vec::new());
            for number in ["1234567890123", "8007199254740991", "-1000000", "0.123456", "1020.30405"] {
                let stand_in = redaction.stand_in(number);
                let read: f64 = serde_json::from_str(&stand_in).unwrap_or_else(|error| panic!("{stand_in}: {error}"));
                assert_eq!(read.to_string(), stand_in);
            }
        }
    }

    #[test]
    fn values_under_secret_names_are_found_whatever_their_kind_and_schemas_are_not() {
        let check = |text: &str, expected: &[&str]| {
            let mut found = BTreeSet::new();
            in_json(text, MAX_NESTING, &mut found);
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{text}");
        };
        check(
            r#"{"token": 1234567890123, "password": [99887766, "s", -5.25]}"#,
            &["-5.25", "1234567890123", "99887766", "s"],
        );
        check(r#"{"credentials": {"user": "u", "list": [{"k": "v"}]}}"#, &["u", "v"]);
        check(r#"{"token": {"type": "bearer", "value": "v"}}"#, &["bearer", "v"]);
        // A schema says which values there are; what it gives as a value is one.
        check(r#"{"fields": {"password": {"type": "string", "description": "d"}}}"#, &[]);
        check(r#"{"properties": {"token": {"title": "t", "type": ["string", "null"], "default": "v"}}}"#, &["v"]);
        check(
            r##"{"properties": {"api_key": {"$ref": "#/$defs/key"}, "secret": {"anyOf": [{"type": "string"}]}}}"##,
            &[],
        );
        check(
            r#"{"token": {"type": "object", "properties": {"password": {"type": "string"}, "a": {"examples": ["v"]}}}}"#,
            &["v"],
        );
        check(r#"{"password": true, "token": null}"#, &[]);
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        let mut found = BTreeSet::new();
        credentials("a task-list, risk-free: sk-short, eyJ.x", &mut found);
        in_json(r#"{"tokens": 12, "secretary": "ann", "name": "bob"}"#, 3, &mut found);
        assert_eq!(found, BTreeSet::new());
    }
}
