//! JSON that stays text, and the bounded way from text to a tree.
//!
//! A tree of `serde_json` values takes up to forty times the memory of its text (`[1,1,1]`), so results stay text on their
//! way to a program, and what must become a tree is measured first. Both are counted in a byte budget.

use std::fmt;
use std::mem::size_of;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use tokio::runtime::{Handle, RuntimeFlavor};
use toolgate_json as json;
use toolgate_wire::{ByteBudget, BytePermit, OverBudget};

use crate::buffer::MAX_UNCOUNTED_BYTES;

/// A tree may take this multiple of the largest message.
pub(crate) const MAX_TREE_FACTOR: usize = 4;
/// The memory of a tree that needs no measuring, and the least bound on one that does.
pub(crate) const SMALL_TREE_BYTES: usize = 4 << 20;

/// Valid JSON text of one value, with the permit that counts its bytes.
pub struct JsonText {
    text: String,
    permit: BytePermit,
}

/// The text is not valid JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotJson(String);

/// Why a text does not become a tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// It is too deep, or has half a surrogate pair.
    #[error(transparent)]
    NotJson(#[from] NotJson),
    /// Its tree would take too much memory.
    #[error(
        "its values would take more than {limit} bytes of memory: send large data as one string, or in several parts"
    )]
    TooManyValues {
        /// The bound in bytes.
        limit: usize,
    },
    /// Its tree does not fit into a budget.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
}

impl JsonText {
    /// Checks bytes that a peer sent; gives them back if they are not JSON.
    pub(crate) fn read(bytes: Vec<u8>, permit: BytePermit) -> Result<Self, (Vec<u8>, NotJson)> {
        off_runtime(bytes.len(), || Self::read_here(bytes, permit))
    }

    fn read_here(bytes: Vec<u8>, permit: BytePermit) -> Result<Self, (Vec<u8>, NotJson)> {
        let text = String::from_utf8(bytes).map_err(|error| {
            let reason = error.utf8_error().to_string();
            (error.into_bytes(), NotJson(reason))
        })?;
        match checked(&text) {
            Ok(()) => Ok(Self { text, permit }),
            Err(reason) => Err((text.into_bytes(), reason)),
        }
    }

    /// Checks text that is held already; `budget` counts it from now on, and must have room at once.
    pub fn counted(text: String, budget: &ByteBudget) -> Result<Self, TreeError> {
        off_runtime(text.len(), || checked(&text))?;
        let permit = budget.try_reserve(if text.len() > MAX_UNCOUNTED_BYTES { text.len() } else { 0 })?;
        Ok(Self { text, permit })
    }

    /// The text of a value that this process made; not counted.
    pub fn of(value: &Value) -> Self {
        Self { text: value.to_string(), permit: ByteBudget::unlimited().empty_permit() }
    }

    /// Valid text of a test; not counted.
    #[cfg(test)]
    pub(crate) fn of_text(text: &str) -> Self {
        Self { text: text.to_owned(), permit: ByteBudget::unlimited().empty_permit() }
    }

    /// A copy of valid JSON text.
    pub(crate) fn copied(text: &str, budget: &ByteBudget) -> Result<Self, OverBudget> {
        let permit = budget.try_reserve(if text.len() > MAX_UNCOUNTED_BYTES { text.len() } else { 0 })?;
        Ok(Self { text: text.to_owned(), permit })
    }

    /// A part of the text, which must be a value of its own. Cuts in place, so that nothing is held twice.
    pub(crate) fn cut(mut self, part: Range<usize>) -> Self {
        self.text.truncate(part.end);
        self.text.drain(..part.start);
        self.text.shrink_to_fit();
        let counted = if self.text.len() > MAX_UNCOUNTED_BYTES { self.text.len() } else { 0 };
        self.permit.shrink_to(counted);
        self
    }

    /// Another text in place of this one, made from it and no more than a few words longer, counted by its permit.
    pub(crate) fn replaced(mut self, make: impl FnOnce(String) -> String) -> Self {
        self.text = make(self.text);
        self
    }

    /// One member of an object in place of the whole, if the object has it.
    pub fn into_member(self, name: &str) -> Option<Self> {
        let part = range_in(&self.text, self.value().member(name)?.text());
        Some(self.cut(part))
    }

    /// An object whose member `name` is this value, followed by others.
    pub(crate) fn wrapped_as(self, name: &str, rest: &serde_json::Map<String, Value>) -> Self {
        self.replaced(|mut text| {
            text.insert_str(0, &format!("{{\"{name}\":"));
            for (key, value) in rest {
                text.push_str(&format!(",{}:{value}", Value::from(key.as_str())));
            }
            text.push('}');
            text
        })
    }

    /// The object without its member `name`, or with this JSON text as its value, as the last member. Edits in place. A text that
    /// has the member twice becomes a tree of at most `limit` bytes first, so that no reader takes another one than this.
    ///
    /// # Errors
    /// If that tree takes too much memory, or the text is no object.
    pub fn with_member(self, name: &str, value: Option<&str>, limit: usize) -> Result<Self, TreeError> {
        let found = match self.find_member(name)? {
            Occurrence::Several => return self.rewritten(name, value, limit),
            found => found,
        };
        Ok(self.replaced(|mut text| {
            text.truncate(text.trim_end().len());
            text.drain(..text.len() - text.trim_start().len());
            if let Occurrence::At(part) = found {
                text.drain(part);
            }
            if let Some(value) = value {
                text.pop();
                let is_empty = text.get(1..).is_some_and(|rest| rest.trim_start().is_empty());
                text.push_str(if is_empty { "\"" } else { ",\"" });
                text.push_str(name);
                text.push_str("\":");
                text.push_str(value);
                text.push('}');
            }
            text
        }))
    }

    /// Where an object has a member, with the comma that goes with it.
    fn find_member(&self, name: &str) -> Result<Occurrence, TreeError> {
        let object = self.value();
        if object.shape() != json::Shape::Object {
            return Err(TreeError::NotJson(NotJson("it is no object".to_owned())));
        }
        let mut named = object.entries().filter(|entry| entry.key.is_some_and(|key| json::unquote(key) == name));
        let Some(entry) = named.next() else { return Ok(Occurrence::Absent) };
        if named.next().is_some() {
            return Ok(Occurrence::Several);
        }
        let text = object.text().as_bytes();
        let after = json::scan::skip_space(text, entry.end);
        Ok(Occurrence::At(match text.get(after) {
            Some(b',') => entry.lead..after + 1,
            _ if text.get(entry.lead.wrapping_sub(1)) == Some(&b',') => entry.lead - 1..entry.end,
            _ => entry.lead..entry.end,
        }))
    }

    fn rewritten(self, name: &str, value: Option<&str>, limit: usize) -> Result<Self, TreeError> {
        let (mut tree, mut permit) = self.into_tree(limit)?;
        if let Some(object) = tree.as_object_mut() {
            object.shift_remove(name);
            let value = value.and_then(|value| serde_json::from_str(value).ok());
            object.extend(value.map(|value: Value| (name.to_owned(), value)));
        }
        let text = tree.to_string();
        drop(tree);
        permit.shrink_to(if text.len() > MAX_UNCOUNTED_BYTES { text.len() } else { 0 });
        Ok(Self { text, permit })
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its value, read in place.
    pub fn value(&self) -> json::Value<'_> {
        json::Value::of(&self.text)
    }

    /// The text, and the permit that counts it.
    pub fn into_parts(self) -> (String, BytePermit) {
        (self.text, self.permit)
    }

    /// Counts the bytes in another budget, after those that wait there.
    pub(crate) async fn move_to(self, budget: &ByteBudget) -> Result<Self, OverBudget> {
        if self.permit.bytes() == 0 {
            return Ok(self);
        }
        Ok(Self { text: self.text, permit: self.permit.move_to(budget).await? })
    }

    /// The tree of the value, of at most `limit` bytes of memory, and the permit that counts them.
    pub fn into_tree(self, limit: usize) -> Result<(Value, BytePermit), TreeError> {
        off_runtime(self.text.len(), || self.into_tree_here(limit))
    }

    fn into_tree_here(mut self, limit: usize) -> Result<(Value, BytePermit), TreeError> {
        let bytes = tree_bytes(&self.text, limit)?;
        let counted = if bytes > MAX_UNCOUNTED_BYTES { bytes } else { 0 };
        self.permit.try_grow(counted)?;
        let tree = tree(&self.text)?;
        drop(self.text);
        self.permit.shrink_to(counted);
        Ok((tree, self.permit))
    }
}

/// How often an object has a member.
enum Occurrence {
    Absent,
    At(Range<usize>),
    Several,
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonText({} bytes)", self.text.len())
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// The offsets of a part that borrows from `text`.
pub(crate) fn range_in(text: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    start..start + part.len()
}

/// The tree of a text, if it takes at most `limit` bytes of memory.
///
/// # Errors
/// If it takes more, or the text is not JSON.
pub fn bounded_tree(text: &str, limit: usize) -> Result<Value, TreeError> {
    off_runtime(text.len(), || {
        tree_bytes(text, limit)?;
        Ok(tree(text)?)
    })
}

/// Text of this many bytes takes some milliseconds to read.
const MIN_OFF_RUNTIME_BYTES: usize = 256 << 10;

/// Does `work` over this many bytes on this thread. If they are many, and it is a worker of a runtime of several threads, another
/// thread takes the runtime's other tasks meanwhile. A runtime of one thread has no other, and waits.
pub fn off_runtime<R>(bytes: usize, work: impl FnOnce() -> R) -> R {
    if bytes < MIN_OFF_RUNTIME_BYTES {
        return work();
    }
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

fn tree(text: &str) -> Result<Value, NotJson> {
    serde_json::from_str(text).map_err(|error| no_tree(text, &error))
}

/// Why a text is no tree: serde_json has no kind of error for a depth.
fn no_tree(text: &str, error: &serde_json::Error) -> NotJson {
    let limit = json::scan::MAX_TREE_DEPTH;
    match json::check(text) {
        Some(facts) if facts.depth > limit => NotJson(format!("it is nested deeper than {limit} levels")),
        _ => NotJson(error.to_string()),
    }
}

/// A small tree of a part of a message; none if it is not small.
pub(crate) fn small_tree(text: &str) -> Option<Value> {
    bounded_tree(text, SMALL_TREE_BYTES).ok()
}

/// Valid, not nested deeper than a program can read, and without halves of surrogate pairs, which a Rust string cannot have.
fn checked(text: &str) -> Result<(), NotJson> {
    let facts = json::check(text).ok_or_else(|| not_json(text))?;
    if facts.lone_surrogates {
        return Err(NotJson("a string has half a surrogate pair".to_owned()));
    }
    if facts.depth > json::scan::MAX_DEPTH as usize {
        return Err(NotJson(format!("it is nested deeper than {} levels", json::scan::MAX_DEPTH)));
    }
    Ok(())
}

fn not_json(text: &str) -> NotJson {
    let parsed = serde_json::from_str::<serde::de::IgnoredAny>(text);
    NotJson(parsed.err().map_or_else(|| "not valid JSON".to_owned(), |error| error.to_string()))
}

/// The memory that the tree of a text takes, while it is built at most half as much again.
///
/// # Errors
/// If it takes more than `limit` bytes, or the text is not JSON.
pub fn tree_bytes(text: &str, limit: usize) -> Result<usize, TreeError> {
    // The densest text is one value in two bytes.
    if text.len().saturating_mul(size_of::<Value>()) <= limit.min(MAX_UNCOUNTED_BYTES) {
        return Ok(text.len().saturating_mul(size_of::<Value>()));
    }
    let mut measure = Measure { bytes: 0, limit };
    let mut reader = serde_json::Deserializer::from_str(text);
    match measure.deserialize(&mut reader) {
        Ok(()) => Ok(measure.bytes),
        Err(_) if measure.bytes > limit => Err(TreeError::TooManyValues { limit }),
        Err(error) => Err(no_tree(text, &error).into()),
    }
}

/// Adds up the allocations that `serde_json` makes for a tree.
struct Measure {
    bytes: usize,
    limit: usize,
}

/// A member of a map: hash, key and value, and its place in the index.
const MEMBER_BYTES: usize = 8 + size_of::<String>() + size_of::<Value>() + 16;
/// What an allocator adds to a small block.
const BLOCK_BYTES: usize = 16;

impl Measure {
    fn add<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limit { Err(E::custom("too many values")) } else { Ok(()) }
    }
}

/// The growth of a list by doubling, when it gets its element of this number.
fn growth(count: usize, entry: usize) -> usize {
    match count {
        0 => 4 * entry,
        count if count >= 4 && count.is_power_of_two() => count * entry,
        _ => 0,
    }
}

impl<'de> DeserializeSeed<'de> for &mut Measure {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Measure {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.add(if text.is_empty() { 0 } else { text.len() + BLOCK_BYTES })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut count = 0;
        while list.next_element_seed(&mut *self)?.is_some() {
            self.add(growth(count, size_of::<Value>()))?;
            count += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut count = 0;
        while members.next_key_seed(&mut *self)?.is_some() {
            members.next_value_seed(&mut *self)?;
            self.add(growth(count, MEMBER_BYTES))?;
            count += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Whether another task of a runtime with one worker runs while a task does this work, again and again.
    pub(crate) fn lets_others_run(work: impl Fn() + Send + 'static) -> bool {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let busy = runtime.spawn(async move {
            let other = tokio::spawn(async {});
            (0..1_000).any(|_| {
                work();
                other.is_finished()
            })
        });
        runtime.block_on(busy).unwrap()
    }

    #[test]
    fn large_texts_are_read_beside_the_tasks_of_the_runtime() {
        fn check(work: impl Fn(String) + Send + 'static) {
            assert!(lets_others_run(move || work(format!("[{}1]", "1,".repeat(MIN_OFF_RUNTIME_BYTES)))));
        }
        assert!(!lets_others_run(|| drop(text("[1]"))), "a small text is read at once");
        check(|large| drop(text(&large)));
        check(|large| drop(JsonText::counted(large, &ByteBudget::unlimited())));
        check(|large| drop(JsonText::of_text(&large).into_tree(usize::MAX)));
        check(|large| drop(bounded_tree(&large, usize::MAX)));
        check(|large| drop(crate::rpc::classify(json::Value::of(&large))));
    }

    fn text(text: &str) -> JsonText {
        JsonText::read(text.as_bytes().to_vec(), ByteBudget::unlimited().empty_permit()).unwrap()
    }

    #[test]
    fn bytes_that_are_not_json_come_back_with_the_reason() {
        let read = |bytes: &[u8]| JsonText::read(bytes.to_vec(), ByteBudget::unlimited().empty_permit()).unwrap_err();
        assert_eq!(read(b"{\"a\":").1.to_string(), "EOF while parsing a value at line 1 column 5");
        assert_eq!(read(b"\"\xff\"").0, b"\"\xff\"");
    }

    #[test]
    fn a_part_is_cut_in_place() {
        let whole = text(r#"{"id":1,"result": {"a":[1, 2]} }"#);
        let part = whole.value().member("result").unwrap().text();
        let range = range_in(whole.as_str(), part);
        assert_eq!(whole.cut(range).as_str(), r#"{"a":[1, 2]}"#);
    }

    #[test]
    fn a_member_is_removed_or_set_in_place() {
        let check = |object: &str, value: Option<&str>, expected: &str| {
            let edited = text(object).with_member("t", value, usize::MAX).unwrap();
            assert_eq!(edited.as_str(), expected, "{object}");
        };
        check(r#"{"t":1,"b":2}"#, None, r#"{"b":2}"#);
        check(r#"{"a":1, "t" : [2] , "b":2}"#, None, r#"{"a":1, "b":2}"#);
        check(r#" {"a":1,"\u0074":{}} "#, None, r#"{"a":1}"#);
        check(r#"{"t":1}"#, None, "{}");
        check(r#"{"t":1}"#, Some("\"x\""), r#"{"t":"x"}"#);
        check("{ }", Some("2"), "{ \"t\":2}");
        check(r#"{"a":{"t":1}}"#, Some("2"), r#"{"a":{"t":1},"t":2}"#);
        check(r#"{"t":1,"a":0,"t":2,"t":3}"#, Some("4"), r#"{"a":0,"t":4}"#);
        assert!(text("[1]").with_member("t", None, usize::MAX).is_err());
    }

    #[test]
    fn a_tree_over_the_bound_is_refused_with_what_to_do() {
        let dense = format!("[{}1]", "1,".repeat(500_000));
        let refused = text(&dense).into_tree(4 << 20).unwrap_err();
        assert_eq!(refused, TreeError::TooManyValues { limit: 4 << 20 });
        assert!(refused.to_string().contains("send large data as one string"), "{refused}");
        let flat = serde_json::json!({ "text": "x".repeat(1_000_000) });
        assert_eq!(text(&flat.to_string()).into_tree(4 << 20).unwrap().0, flat);
    }

    #[test]
    fn a_tree_counts_in_the_budget_of_its_text() {
        let budget = ByteBudget::new("b", 1 << 20);
        let dense = format!("[{}1]", "1,".repeat(50_000)).into_bytes();
        let permit = budget.try_reserve(dense.len()).unwrap();
        let refused = JsonText::read(dense, permit).unwrap().into_tree(usize::MAX).unwrap_err();
        assert!(matches!(refused, TreeError::OverBudget(_)), "{refused:?}");
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_serde_refuses_is_refused() {
        let deep = |levels| "[".repeat(levels) + &"]".repeat(levels);
        assert!(matches!(text(&deep(200)).into_tree(usize::MAX), Err(TreeError::NotJson(_))));
        for (bad, reason) in [("\"\\ud800\"".to_owned(), "surrogate"), (deep(1001), "nested deeper than 1000 levels")] {
            let read = JsonText::read(bad.into_bytes(), ByteBudget::unlimited().empty_permit());
            assert!(read.unwrap_err().1.to_string().contains(reason));
        }
    }
}
