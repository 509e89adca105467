//! The text of a program as a checker gets it: without comments, and with casts to `any`.

use crate::parse::Parsed;
use oxc::span::Span;

/// Written before an expression in brackets, gives it the type `any`.
const ANY: &str = "/** @type {any} */(";

/// An expression that is given the type `any`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cast {
    pub(super) span: Span,
    /// What is written before: `name: ` where `{ name }` was.
    pub(super) name: String,
}

impl Cast {
    pub(super) fn around(span: Span) -> Self {
        Cast { span, name: String::new() }
    }
}

/// The text, and the offsets in the program at which something is inserted, with its length.
pub(super) fn checked_text(parsed: &Parsed<'_>, mut casts: Vec<Cast>) -> (String, Vec<(u32, u32)>) {
    let mut blank = parsed.code.to_owned().into_bytes();
    for comment in &parsed.program.comments {
        for at in comment.span.start as usize..comment.span.end as usize {
            if let Some(byte) = blank.get_mut(at).filter(|byte| !matches!(**byte, b'\n' | b'\r')) {
                *byte = b' ';
            }
        }
    }
    // A comment with characters of several bytes has become more characters, which shifts columns only inside it and
    // after it on its line; offsets in bytes are what is mapped.
    let blank = String::from_utf8(blank).unwrap_or_default();
    casts.sort_by_key(|cast| (cast.span.start, cast.span.end));
    casts.dedup();
    let opening = casts.iter().map(|cast| (cast.span.start, format!("{}{ANY}", cast.name)));
    let closing = casts.iter().map(|cast| (cast.span.end, ")".to_owned()));
    let mut inserts: Vec<(u32, String)> = closing.chain(opening).collect();
    inserts.sort_by_key(|(at, _)| *at);
    let (mut text, mut insertions, mut done) = (String::new(), Vec::new(), 0);
    for (at, inserted) in inserts {
        text.push_str(blank.get(done..at as usize).unwrap_or_default());
        text.push_str(&inserted);
        insertions.push((at, inserted.len() as u32));
        done = at as usize;
    }
    text.push_str(blank.get(done..).unwrap_or_default());
    (text, insertions)
}
