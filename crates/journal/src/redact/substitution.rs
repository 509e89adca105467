//! Finds secrets in texts and puts stand-ins in their place.
//!
//! A text is searched as it stands, and again in what it stands for as JSON, as JSON in JSON and so on while it has escapes; what is found
//! there is brought back to the text itself. So one secret has one stand-in however a server spells it, and where secrets overlap, the same
//! one is chosen in every spelling. Stand-ins have as many bytes as their secrets in every spelling.

use std::borrow::Cow;
use std::collections::BTreeMap;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::MAX_READINGS;
use super::spelling::{decoded, spelled};
use crate::text::{Blobs, ContentHash, MissingBlob, Text};

/// Bytes of secrets that are searched for in one pass over a text. The automaton of a pass takes some fifty times as many.
const MAX_PASS_BYTES: usize = 1 << 20;

/// Replaces secrets in texts, each text in a few passes: their number depends on the bytes of the secrets and on how deep the
/// text has JSON in JSON, not on how many secrets there are.
pub(super) struct Substitution {
    passes: Vec<Pass>,
    /// Long texts that were replaced.
    done: BTreeMap<ContentHash, Text>,
    /// Bytes that were searched.
    pub(super) searched: u64,
}

/// Secrets that are searched for together.
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

/// A secret in a text, or the rest of one that another secret overlaps, with what is written there.
pub(super) struct Hit<'s> {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) stand_in: Cow<'s, str>,
}

impl Substitution {
    /// Of these secrets and their stand-ins.
    pub(super) fn new(stand_ins: BTreeMap<String, String>) -> Self {
        let mut passes = Vec::new();
        let (mut secrets, mut bytes) = (Vec::new(), 0);
        for (secret, stand_in) in stand_ins {
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
    pub(super) fn replaced(&mut self, text: &Text, from: &Blobs, to: &mut Blobs) -> Result<Text, MissingBlob> {
        if let Text::Blob { blob, .. } = text
            && let Some(done) = self.done.get(blob)
        {
            return Ok(done.clone());
        }
        let kept = to.keep(&self.without_secrets(from.text(text)?)).0;
        if let Text::Blob { blob, .. } = text {
            self.done.insert(blob.clone(), kept.clone());
        }
        Ok(kept)
    }

    /// The text without secrets.
    pub(super) fn without_secrets<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        let mut searched = 0;
        let hits = self.hits(text, MAX_READINGS, &mut searched);
        let replaced = if hits.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(with_stand_ins(text, &hits)) };
        self.searched += searched;
        replaced
    }

    /// The secrets in a text and in what it stands for, in their order and without overlaps.
    fn hits<'s>(&'s self, text: &str, readings: usize, searched: &mut u64) -> Vec<Hit<'s>> {
        let mut hits = Vec::new();
        for pass in &self.passes {
            *searched += text.len() as u64;
            pass.find(text, &mut hits);
        }
        if readings > 0
            && let Some(read) = decoded(text)
        {
            let within = self.hits(&read, readings - 1, searched);
            drop(read);
            hits.extend(spelled(text, within));
        }
        without_overlaps(hits)
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

    fn find<'s>(&'s self, text: &str, hits: &mut Vec<Hit<'s>>) {
        match self {
            Pass::Several { automaton, stand_ins } => hits.extend(automaton.find_iter(text).map(|found| Hit {
                start: found.start(),
                end: found.end(),
                stand_in: Cow::Borrowed(&stand_ins[found.pattern().as_usize()]),
            })),
            Pass::Single { secret, stand_in } => {
                hits.extend(text.match_indices(secret.as_str()).map(|(start, _)| Hit {
                    start,
                    end: start + secret.len(),
                    stand_in: Cow::Borrowed(stand_in),
                }))
            }
        }
    }
}

/// Hits in their order. Of those that overlap, the first one stays whole, and of those that begin together the longest; of the others
/// stays what is behind it.
fn without_overlaps(mut hits: Vec<Hit<'_>>) -> Vec<Hit<'_>> {
    hits.sort_by_key(|hit| (hit.start, std::cmp::Reverse(hit.end)));
    let mut covered = 0;
    hits.retain_mut(|hit| {
        let is_new = hit.end > covered;
        if is_new && hit.start < covered {
            hit.stand_in = behind(&hit.stand_in, covered - hit.start);
            hit.start = covered;
        }
        covered = covered.max(hit.end);
        is_new
    });
    hits
}

/// The rest of a stand-in. It has its characters where its secret has them.
fn behind<'s>(stand_in: &Cow<'s, str>, bytes: usize) -> Cow<'s, str> {
    match stand_in {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(bytes..).unwrap_or_default()),
        Cow::Owned(text) => Cow::Owned(text.get(bytes..).unwrap_or_default().to_owned()),
    }
}

fn with_stand_ins(text: &str, hits: &[Hit<'_>]) -> String {
    let (mut replaced, mut from) = (String::with_capacity(text.len()), 0);
    for hit in hits {
        replaced.push_str(&text[from..hit.start]);
        replaced.push_str(&hit.stand_in);
        from = hit.end;
    }
    replaced.push_str(&text[from..]);
    replaced
}
