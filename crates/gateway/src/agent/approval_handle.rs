//! The signed handle that a client carries between two rounds of questions (`requestState`).
//!
//! It names the run, the caller it belongs to, which questions were shown, which round it was, and when it ends. A client
//! cannot change it, use it as another caller, or answer questions that it was not shown. It holds nothing secret and is
//! shorter than 200 bytes.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::{digest, hmac};

use toolgate_run::durable::PendingView;

const VERSION: u8 = 1;
/// Bytes of the fields before the signature: version, run, time, end, round, digest.
const FIELDS: usize = 1 + 16 + 8 + 8 + 1 + DIGEST;
const DIGEST: usize = 8;
const SIGNATURE: usize = 16;
/// How long a handle can be used.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// What a handle says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handle {
    /// The run.
    pub(crate) run: String,
    /// When it was made, in milliseconds since 1970.
    pub(crate) issued: u64,
    /// Rounds of questions so far, this one included.
    pub(crate) round: u8,
    /// Of the questions that were shown.
    pub(crate) shown: [u8; DIGEST],
}

/// Signs handles. Replicas with the same key file take each other's.
pub(crate) struct HandleKey(hmac::Key);

impl HandleKey {
    /// A key that is derived from the content of a file.
    pub(crate) fn from_file(file: &Path) -> std::io::Result<Self> {
        Ok(Self::from_secret(&std::fs::read(file)?))
    }

    /// A key that is derived from a secret.
    pub(crate) fn from_secret(secret: &[u8]) -> Self {
        let from = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let derived = hmac::sign(&from, b"toolgate handle of a paused run");
        HandleKey(hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()))
    }

    fn signature(&self, fields: &[u8], caller: &str) -> [u8; SIGNATURE] {
        let signed = hmac::sign(&self.0, &[fields, caller.as_bytes()].concat());
        let mut signature = [0; SIGNATURE];
        signature.iter_mut().zip(signed.as_ref()).for_each(|(to, from)| *to = *from);
        signature
    }

    /// The text of a handle for this caller; `None` if the run has a name of another form.
    pub(crate) fn sign(&self, handle: &Handle, caller: &str) -> Option<String> {
        let run = u128::from_str_radix(&handle.run, 16).ok().filter(|_| handle.run.len() == 32)?;
        let end = handle.issued.saturating_add(u64::try_from(LIFETIME.as_millis()).unwrap_or(u64::MAX));
        let mut bytes = vec![VERSION];
        bytes.extend(run.to_be_bytes());
        bytes.extend(handle.issued.to_be_bytes());
        bytes.extend(end.to_be_bytes());
        bytes.push(handle.round);
        bytes.extend(handle.shown);
        let signature = self.signature(&bytes, caller);
        bytes.extend(signature);
        Some(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// What a text says, if it was signed here for this caller and has not ended.
    pub(crate) fn read(&self, text: &str, caller: &str, now: u64) -> Option<Handle> {
        if text.len() > 200 {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok().filter(|bytes| bytes.len() == FIELDS + SIGNATURE)?;
        let (fields, signature) = bytes.split_at(FIELDS);
        // The tag is compared in constant time.
        let expected = self.signature(fields, caller);
        let difference = expected.iter().zip(signature).fold(0, |sum, (one, other)| sum | (one ^ other));
        if difference != 0 || fields.first() != Some(&VERSION) {
            return None;
        }
        let number = |from: usize| Some(u64::from_be_bytes(fields.get(from..from + 8)?.try_into().ok()?));
        let run = u128::from_be_bytes(fields.get(1..17)?.try_into().ok()?);
        let shown = fields.get(34..34 + DIGEST)?.try_into().ok()?;
        let handle = Handle { run: format!("{run:032x}"), issued: number(17)?, round: *fields.get(33)?, shown };
        (now <= number(25)?).then_some(handle)
    }
}

/// A digest of questions: which calls, and exactly which arguments.
pub(crate) fn digest_of<'a>(questions: impl IntoIterator<Item = &'a PendingView>) -> [u8; DIGEST] {
    let mut cut = [0; DIGEST];
    cut.iter_mut().zip(hash(questions).as_ref()).for_each(|(to, from)| *to = *from);
    cut
}

/// The name of a call without a run, in place of a run's: the part of the digest that [`digest_of`] leaves out, so that a handle
/// which nothing else is kept of binds to exactly this call.
pub(crate) fn name_of(question: &PendingView) -> String {
    hash([question]).as_ref().iter().skip(DIGEST).take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn hash<'a>(questions: impl IntoIterator<Item = &'a PendingView>) -> digest::Digest {
    let mut context = digest::Context::new(&digest::SHA256);
    for question in questions {
        let PendingView { call_id, backend, tool, arguments, .. } = question;
        let backend = backend.as_deref().unwrap_or_default();
        for part in [&call_id.to_string(), backend, tool.as_str(), arguments.0.get()] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part.as_bytes());
        }
    }
    context.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> Handle {
        Handle {
            run: "000102030405060708090a0b0c0d0e0f".into(),
            issued: 1_700_000_000_000,
            round: 3,
            shown: [7; DIGEST],
        }
    }

    #[test]
    fn a_handle_is_short_and_comes_back() {
        let key = HandleKey::from_secret(b"secret");
        let text = key.sign(&handle(), "ci").unwrap();
        assert!(text.len() < 200, "{}", text.len());
        assert_eq!(key.read(&text, "ci", handle().issued), Some(handle()));
        assert_eq!(key.sign(&Handle { run: "my run".into(), ..handle() }, "ci"), None);
    }

    #[test]
    fn nobody_else_can_use_or_change_it() {
        let key = HandleKey::from_secret(b"secret");
        let text = key.sign(&handle(), "ci").unwrap();
        assert_eq!(key.read(&text, "other", handle().issued), None);
        assert_eq!(HandleKey::from_secret(b"other").read(&text, "ci", handle().issued), None);
        let day = 24 * 60 * 60 * 1000;
        assert_eq!(key.read(&text, "ci", handle().issued + day + 1), None, "it has ended");
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(key.read(&String::from_utf8(changed).unwrap(), "ci", handle().issued), None, "{at}");
        }
        for text in ["", "AAAA", &"A".repeat(300), "not base64!"] {
            assert_eq!(key.read(text, "ci", 0), None);
        }
    }
}
