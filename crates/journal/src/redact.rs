//! Replaces secrets in a record by stand-ins, so that it can be given away and still runs.
//!
//! A secret is a value that the caller names, a text or number under a name such as `password` in any JSON of the record, or a
//! text of the form of a well-known credential. It is replaced everywhere in the record, also in the program, by the
//! same stand-in of the same length and the same kinds of characters: positions, sizes and most formats stay. Which escapes
//! JSON spells it with makes no difference, and they stay too. What the guest said gets new digests. A program that *computes*
//! with a secret (a signature, a checksum) says something else with the stand-in, and its replay diverges there.
//!
//! # Layout
//! - `named`: values under secret names
//! - `spelling`: the text that escapes of JSON stand for
//! - `substitution`: finds secrets and writes their stand-ins

mod named;
mod spelling;
mod substitution;

use std::collections::{BTreeMap, BTreeSet};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use ring::hmac;

use crate::entry::{Call, DigestText, Event, Header};
use crate::recording::Record;
use crate::text::{Blobs, ContentHash, MissingBlob, Text};
use named::in_json;
use spelling::for_each_reading;
use substitution::Substitution;

/// Bytes of the shortest text that counts as a secret: shorter ones occur everywhere by chance.
const MIN_SECRET: usize = 6;
/// JSON in JSON in JSON is looked into; deeper is not.
const MAX_NESTING: usize = 3;
/// How often a text is read as JSON to find secrets: a program may print what it got as JSON, and the report has that in JSON again.
const MAX_READINGS: usize = MAX_NESTING + 2;

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
        Substitution::new(self.stand_ins(&named)).without_secrets(text).into_owned()
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
        let mut substitution = Substitution::new(self.stand_ins(&secrets));
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
            in_json(text, MAX_NESTING, &mut found);
            for_each_reading(text, MAX_READINGS, |text| {
                named.find(text, &mut found);
                credentials(text, &mut found);
            });
        }
        found.retain(|secret| secret.len() >= MIN_SECRET);
        Ok(found)
    }

    /// The secrets with what stands there instead.
    fn stand_ins(&self, secrets: &BTreeSet<String>) -> BTreeMap<String, String> {
        secrets.iter().map(|secret| (secret.clone(), self.stand_in(secret))).collect()
    }

    /// A text of the same length and kinds of characters: a letter of another alphabet becomes one that takes as many bytes. Where the secret is a number, so is the stand-in, and a program writes it
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
            other if other.is_alphabetic() => letter_like(other, byte),
            other => other,
        });
        replaced.collect()
    }
}

/// A letter that takes as many bytes as this one, which is not of ASCII.
fn letter_like(letter: char, byte: u8) -> char {
    let other = match letter.len_utf8() {
        2 => 'а' as u32 + u32::from(byte % 32),
        3 => '一' as u32 + u32::from(byte),
        _ => '𠀀' as u32 + u32::from(byte),
    };
    char::from_u32(other).unwrap_or(letter)
}

/// The values that the caller names, to be found in texts: a record counts only those that it has.
struct NamedValues<'v> {
    values: Vec<&'v String>,
    /// `None` where no automaton could be made: then all values count.
    automaton: Option<AhoCorasick>,
}

impl<'v> NamedValues<'v> {
    fn new(values: impl Iterator<Item = &'v String>) -> Self {
        let values: Vec<&String> = values.collect();
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&values);
        NamedValues { values, automaton: automaton.ok() }
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
    use serde_json::Value;
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

    /// Numbers that are spread, and the same in every run of the tests.
    struct Spread(u64);

    impl Spread {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % bound
        }
    }

    /// A text inside a JSON string, each character in one of the spellings that JSON has for it.
    fn spelled(text: &str, spread: &mut Spread) -> String {
        let spelled = text.chars().map(|c| {
            let quoted = Value::from(c.to_string()).to_string();
            let mut units = [0; 2];
            let units = c.encode_utf16(&mut units).iter();
            match spread.below(4) {
                0 => units.map(|unit| format!("\\u{unit:04x}")).collect(),
                1 => units.map(|unit| format!("\\u{unit:04X}")).collect(),
                2 if c == '/' => "\\/".to_owned(),
                _ => quoted[1..quoted.len() - 1].to_owned(),
            }
        });
        spelled.collect()
    }

    fn any_secret(spread: &mut Spread) -> String {
        let letters: Vec<char> = "abcXYZ789abcXYZ789/+&<>'\"\\\n=-éßЖ語𠮷😀".chars().collect();
        let more = spread.below(20);
        let own = format!("k{:06}Q", spread.below(1_000_000));
        own.chars().chain((0..more).map(|_| letters[spread.below(letters.len())])).collect()
    }

    #[test]
    fn a_secret_is_found_in_every_spelling_and_keeps_it() {
        let mut spread = Spread(7);
        for round in 0..600 {
            let (secret, depth) = (any_secret(&mut spread), round % 4);
            let note = |secret: &str| format!("<x> {secret} \"y\"");
            let mut body = note(&secret);
            for level in 0..depth {
                let text = spelled(&body, &mut spread);
                let password = if level == 0 { spelled(&secret, &mut spread) } else { "none".to_owned() };
                body = format!(r#"{{"password":"{password}","text":"{text}"}}"#);
            }
            let recording = Recording::new(facts());
            recording.answered(CallId(1), toolgate_wire::CallState::Applied, Ok(body.as_bytes()));
            recording.said(&FromWorker::Log { stream: Stream::Stdout, text: note(&secret) }, false);
            recording.said(&FromWorker::Log { stream: Stream::Stdout, text: Value::from(&*body).to_string() }, false);
            recording.finish(&serde_json::json!({ "value": note(&secret), "logs": [body] }).to_string());
            let mut record = recording.take();
            let before = all_text(&record).len();
            // A value of the configuration, or one under a name.
            let named = if depth == 0 || spread.below(2) == 0 { vec![secret.clone()] } else { Vec::new() };
            let redaction = Redaction::new(named);
            redaction.apply(&mut record).expect("complete");
            assert_eq!(all_text(&record).len(), before, "{secret:?} at depth {depth}");
            for text in record.entries.iter().flat_map(|entry| entry.event.texts()) {
                let text = record.blobs.text(text).expect("complete");
                for_each_reading(text, 9, |text| assert!(!text.contains(&secret), "{secret:?} in {text}"));
            }
            let Event::Answered(reply) = &record.entries[1].event else { panic!("{record:?}") };
            let mut kept = record.blobs.text(reply.body.text()).expect("complete").to_owned();
            for _ in 0..depth {
                let read: Value = serde_json::from_str(&kept).expect("still JSON");
                kept = read["text"].as_str().expect("text").to_owned();
            }
            assert_eq!(kept, note(&redaction.stand_in(&secret)), "nothing else has changed");
        }
    }

    #[test]
    fn a_text_loses_the_named_values_in_every_spelling() {
        let redaction = Redaction::with_key(&[3; 32], vec!["ab/c+d<é>1".into()]);
        let stand_in = redaction.stand_in("ab/c+d<é>1");
        for text in [
            r#"{"v":"ab\/c+d<é>1"}"#,
            r#"{"v":"ab/c\u002Bd\u003c\u00e9>1"}"#,
            r#"{"v":"\u0061\u0062\/c+d<\u00E9\u003E1"}"#,
        ] {
            let replaced: Value = serde_json::from_str(&redaction.text(text)).expect("still JSON");
            assert_eq!(replaced["v"], *stand_in, "{text}");
        }
        // A line that only has JSON in it, and one that has no JSON.
        for text in [r#"got {"v":"ab\/c+d<é>1"#, "ab/c+d<é>1"] {
            let replaced = redaction.text(text);
            assert!(!replaced.contains("ab") && replaced.len() == text.len(), "{replaced}");
        }
        let other = r#"{"v":"\u00E9\/\u002B"}"#;
        assert_eq!(redaction.text(other), other);
    }

    #[test]
    fn a_secret_inside_another_one_does_not_split_it_in_any_spelling() {
        let redaction =
            Redaction::new(vec!["outer/inner-secret".into(), "inner-secret".into(), "secret/behind".into()]);
        let stand_in = redaction.stand_in("outer/inner-secret");
        for text in ["outer/inner-secret", r"outer\/inner-secret", r"outer\u002finner\u002Dsecret"] {
            let read: String = serde_json::from_str(&format!("\"{}\"", redaction.text(text))).expect("JSON");
            assert_eq!(read, stand_in);
        }
        // The one that begins first is replaced whole, whichever reading has it; of the others nothing is left whole.
        let redaction = Redaction::new(vec!["first-second".into(), "second-third".into(), "third-fourth".into()]);
        let stand_in = redaction.stand_in("first-second");
        let overlap = redaction.text(r"\u002ffirst\u002dsecond-third-fourth");
        let read: String = serde_json::from_str(&format!("\"{overlap}\"")).expect("JSON");
        assert!(read.starts_with(&format!("/{stand_in}")), "{read}");
        assert!(!read.contains("third") && !read.contains("fourth"), "{read}");
    }

    #[test]
    fn letters_of_other_alphabets_become_others() {
        let redaction = Redaction::with_key(&[5; 32], Vec::new());
        for secret in ["пароль-пароль", "密码密码密码", "𠮷𠮷𠮷𠮷", "Übergrößenträger"] {
            let stand_in = redaction.stand_in(secret);
            let form = |text: &str| text.chars().map(char::len_utf8).collect::<Vec<_>>();
            assert_eq!(form(&stand_in), form(secret));
            let unchanged = stand_in.chars().zip(secret.chars()).filter(|(one, other)| one == other).count();
            assert!(unchanged < 4, "{secret}: {stand_in}");
        }
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
        let mut substitution = Substitution::new(redaction.stand_ins(&secrets.collect()));
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
        // Escapes, halves of surrogate pairs, documents behind each other, and one that is cut.
        check(r#"{"pass\u0077ord": "hun\/ter2"}"#, &["hun/ter2"]);
        check(r#"{"name": "\ud800", "password": "v"}"#, &["v"]);
        check("{\"password\": \"v\"}\n{\"password\": \"w\"}\n", &["v", "w"]);
        check(r#"[{"password": "v"}, {"na"#, &["v"]);
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        let mut found = BTreeSet::new();
        credentials("a task-list, risk-free: sk-short, eyJ.x", &mut found);
        in_json(r#"{"tokens": 12, "secretary": "ann", "name": "bob"}"#, 3, &mut found);
        assert_eq!(found, BTreeSet::new());
    }
}
