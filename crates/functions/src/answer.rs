//! What a host function gives: a value, or JSON text that never became a tree, with the permit that counts its bytes.
//!
//! A tree of `serde_json` values takes up to forty times the memory of its text, and a program gets text in any case. So a
//! response that is JSON already stays text, and its bytes count in the budget of the run until the text is handed on.

use super::{ErrorCode, FailedEffect, FunctionError};
use serde_json::Value;
use toolgate_json::scan::{expect_end, skip_space, skip_value};
use toolgate_wire::{ByteBudget, BytePermit, OverBudget};

/// Answers of up to this size are not counted: calls in flight are bounded in number, and small ones take no lock.
const MAX_UNCOUNTED_BYTES: usize = 64 * 1024;

/// The answer of a host function.
#[derive(Debug)]
pub struct FunctionAnswer {
    content: Content,
    permit: Option<BytePermit>,
}

#[derive(Debug)]
enum Content {
    Value(Value),
    /// Valid JSON.
    Text(String),
}

impl From<Value> for FunctionAnswer {
    fn from(value: Value) -> Self {
        Self { content: Content::Value(value), permit: None }
    }
}

impl FunctionAnswer {
    /// An answer that is JSON text already, with the permit that counts it, at least in its size.
    pub fn of_text(text: String, mut permit: BytePermit) -> Self {
        permit.shrink_to(counted_bytes(text.len()));
        Self { content: Content::Text(text), permit: Some(permit) }
    }

    /// The bytes of its JSON text.
    pub fn text_len(&self) -> usize {
        match &self.content {
            Content::Value(value) => value.to_string().len(),
            Content::Text(text) => text.len(),
        }
    }

    /// The answer as JSON text, and the permit that counts it.
    pub fn into_text(self) -> (String, Option<BytePermit>) {
        match self.content {
            Content::Value(value) => (value.to_string(), self.permit),
            Content::Text(text) => (text, self.permit),
        }
    }

    /// The answer as a tree.
    ///
    /// # Errors
    /// If the text is nested too deep for a tree; the call has been made then.
    pub fn into_value(self) -> Result<Value, FunctionError> {
        match self.content {
            Content::Value(value) => Ok(value),
            Content::Text(text) => serde_json::from_str(&toolgate_json::replace_lone_surrogates(&text)).map_err(|_| {
                let error = FunctionError::new(ErrorCode::TooLarge, "the answer is nested too deep");
                error.with_effect(FailedEffect::Unknown)
            }),
        }
    }
}

/// Whether a text is JSON that a program can be given, inside so many containers.
pub fn is_json(text: &str, depth: u32) -> bool {
    let bytes = text.as_bytes();
    skip_value(bytes, skip_space(bytes, 0), depth).is_ok_and(|end| expect_end(bytes, end).is_ok())
}

/// The bytes that count of an answer of this size.
pub fn counted_bytes(bytes: usize) -> usize {
    if bytes > MAX_UNCOUNTED_BYTES { bytes } else { 0 }
}

/// Has a permit count at least this many bytes, which must fit now.
pub(crate) fn grow_to(permit: &mut BytePermit, bytes: usize) -> Result<(), OverBudget> {
    let more = counted_bytes(bytes).saturating_sub(permit.bytes());
    if more > 0 { permit.try_grow(more) } else { Ok(()) }
}

/// The bytes of a text as a JSON string.
pub(crate) fn quoted_bytes(text: &str) -> usize {
    let of_byte = |byte: u8| match byte {
        b'"' | b'\\' | b'\x08' | b'\t' | b'\n' | b'\x0c' | b'\r' => 2,
        0..=0x1f => 6,
        _ => 1,
    };
    text.bytes().map(of_byte).sum::<usize>() + 2
}

/// A body that was read, counted twice over: as it is, and as the text that is made of it.
#[derive(Debug)]
pub(crate) struct CountedBody {
    pub(crate) bytes: Vec<u8>,
    pub(crate) permit: BytePermit,
}

impl CountedBody {
    /// A body whose size was announced, 0 if it was not: waits for room for it.
    pub(crate) async fn announced(size: usize, budget: &ByteBudget) -> Result<Self, OverBudget> {
        let permit = budget.reserve(counted_bytes(size) * 2).await?;
        Ok(Self { bytes: Vec::with_capacity(size), permit })
    }

    /// Waits for room for a body of unknown size before a chunk makes it count: for the largest that it may become, or for
    /// all of a smaller budget. Until then it holds nothing that another body could wait for.
    pub(crate) async fn wait_for_room(
        &mut self,
        chunk: &[u8],
        cap: usize,
        budget: &ByteBudget,
    ) -> Result<(), OverBudget> {
        if self.permit.bytes() > 0 || counted_bytes(self.bytes.len() + chunk.len()) == 0 {
            return Ok(());
        }
        let mut room = cap.saturating_mul(2);
        self.permit = loop {
            match budget.reserve(room).await {
                // It or a parent is smaller.
                Err(refused) if refused.limit < room => room = refused.limit,
                reserved => break reserved?,
            }
        };
        Ok(())
    }

    /// Adds a chunk, which must fit now.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<(), OverBudget> {
        grow_to(&mut self.permit, counted_bytes(self.bytes.len() + chunk.len()) * 2)?;
        self.bytes.extend_from_slice(chunk);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_size_of_a_quoted_text_is_known_before_it_is_written(text in any::<String>()) {
            prop_assert_eq!(quoted_bytes(&text), Value::String(text.clone()).to_string().len());
        }
    }

    #[test]
    fn what_a_program_cannot_read_is_no_json() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(is_json(" {\"a\": [1, \"\\ud800\"]} ", 1));
        assert!(is_json(&nested(999), 1));
        assert!(!is_json(&nested(1_000), 1));
        assert!(!is_json("{\"a\": 1} 2", 1));
        assert!(!is_json("", 1));
    }

    #[tokio::test]
    async fn a_body_counts_until_its_answer_is_handed_on() {
        let budget = ByteBudget::new("this run", 1 << 20);
        let body = |size: usize| vec![b'x'; size];
        let mut small = CountedBody::announced(0, &budget).await.unwrap();
        small.push(&body(MAX_UNCOUNTED_BYTES)).unwrap();
        assert_eq!(budget.used(), 0);
        let mut large = CountedBody::announced(0, &budget).await.unwrap();
        large.push(&body(300_000)).unwrap();
        assert_eq!(budget.used(), 600_000);
        assert_eq!(large.push(&body(300_000)).unwrap_err().budget, "this run");
        let text = format!("\"{}\"", String::from_utf8(large.bytes).unwrap());
        let answer = FunctionAnswer::of_text(text, large.permit);
        assert_eq!(budget.used(), 300_002);
        let (text, permit) = answer.into_text();
        assert_eq!((text.len(), budget.used()), (300_002, 300_002));
        drop(permit);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_text_becomes_a_value_where_one_is_needed() {
        let of = |text: &str| FunctionAnswer::of_text(text.to_owned(), ByteBudget::unlimited().empty_permit());
        assert_eq!(of("[1.50]").into_value().unwrap(), serde_json::json!([1.5]));
        assert_eq!(of("\"\\ud800\"").into_value().unwrap(), serde_json::json!("\u{fffd}"));
        let deep = "[".repeat(500) + &"]".repeat(500);
        assert_eq!(of(&deep).into_value().unwrap_err().code, ErrorCode::TooLarge);
    }
}
