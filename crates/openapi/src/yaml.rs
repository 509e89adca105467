//! Rewrites a YAML document (1.2, core schema) as JSON text.
//!
//! Aliases are expanded, and what they expand to counts against the size of a document, so an alias bomb is refused.
//! Mapping keys that are numbers, such as the status codes of `responses`, become text. Merge keys (`<<`), which are no part
//! of YAML 1.2 and common in documents, are resolved at the end. Tags of applications are not supported.

use std::collections::HashMap;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

use crate::bounds::MAX_YAML_DEPTH;

/// A text that became JSON, or why it did not.
pub(crate) struct Conversion<J> {
    pub json: Result<J, String>,
    /// The bytes of JSON that were written for it, also if it is refused.
    pub written: usize,
}

/// Converts the first document of a text, if it has at most `max` bytes as JSON.
pub(crate) fn to_json(text: &str, max: usize) -> Conversion<String> {
    let json = String::with_capacity(text.len());
    let mut writer = Writer { json, open: Vec::new(), anchors: HashMap::new(), merge_keys: 0 };
    let converted = write(text, max, &mut writer);
    let written = writer.json.len();
    let json = converted.and_then(|()| if writer.merge_keys == 0 { Ok(writer.json) } else { merged(&writer.json) });
    // Merge keys leave out what a map has already, and numbers may become longer.
    let written = json.as_ref().map_or(0, String::len).max(written);
    Conversion { json, written }
}

fn write(text: &str, max: usize, writer: &mut Writer) -> Result<(), String> {
    for event in Parser::new_from_str(text) {
        let (event, at) = event.map_err(|error| format!("invalid YAML: {error}"))?;
        writer.take(event).map_err(|message| format!("line {}: {message}", at.start.line()))?;
        if writer.json.len() > max {
            return Err(format!("it has more than {max} bytes as JSON"));
        }
    }
    Ok(())
}

/// A document with its merge keys resolved.
fn merged(json: &str) -> Result<String, String> {
    if depth(json) > MAX_MERGE_DEPTH {
        return Err(format!(
            "more than {MAX_MERGE_DEPTH} collections inside each other, in a document with merge keys (`<<`)"
        ));
    }
    let mut document: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    merge(&mut document);
    Ok(document.to_string())
}

/// The key whose value, a map or a list of maps, gives a map the members that it does not have itself.
const MERGE_KEY: &str = "<<";
/// How the name begins under which a merge key is written until it is resolved; a number follows, because a map may have
/// several. No key of a document may begin like this.
const MERGE_PREFIX: &str = "\0<<";
/// [`MERGE_PREFIX`] as JSON text.
const MERGE_PREFIX_JSON: &str = "\"\\u0000<<";
/// Maximum nesting of a document with merge keys: that of a tree of `serde_json`.
const MAX_MERGE_DEPTH: usize = 127;

fn merge(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(merge);
            if !members.keys().any(|key| key.starts_with(MERGE_PREFIX)) {
                return;
            }
            let all = std::mem::take(members).into_iter();
            let (given, own): (Vec<_>, Vec<_>) = all.partition(|(key, _)| key.starts_with(MERGE_PREFIX));
            members.extend(own);
            for (_, given) in given {
                let several = if let Value::Array(several) = given { several } else { vec![given] };
                several.into_iter().for_each(|one| inherit(members, one));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(merge),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Adds the members that a map does not have. The first that gives a member counts.
fn inherit(members: &mut Map<String, Value>, given: Value) {
    let Value::Object(given) = given else { return };
    for (key, value) in given {
        members.entry(key).or_insert(value);
    }
}

/// How many collections of a JSON text are inside each other.
fn depth(json: &str) -> usize {
    let (mut open, mut deepest) = (0_usize, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                open += 1;
                deepest = deepest.max(open);
            }
            b'}' | b']' if !is_text => open = open.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

struct Writer {
    json: String,
    open: Vec<Collection>,
    anchors: HashMap<usize, Anchored>,
    /// Merge keys written so far.
    merge_keys: usize,
}

/// What an alias stands for.
#[derive(Clone)]
enum Anchored {
    /// The JSON text at a place that is written. A copy of each would multiply a text with anchors inside each other.
    Written(Range<usize>),
    /// A merge key, of which an alias is text.
    MergeKey,
}

/// A collection that is not closed yet.
struct Collection {
    anchor: usize,
    start: usize,
    is_map: bool,
    /// Keys and values written so far.
    parts: usize,
}

impl Writer {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let start = self.before_value();
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix == "str");
                if !is_text && text == MERGE_KEY && self.is_key() {
                    return self.merge_key(anchor);
                }
                if is_text || self.is_key() {
                    self.text(&text)
                } else {
                    self.plain(&text)
                }
                self.after_value(anchor, start)
            }
            Event::SequenceStart(anchor, _) => self.begin(anchor, false),
            Event::MappingStart(anchor, _) => self.begin(anchor, true),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(closed) = self.open.pop() else { return Ok(()) };
                self.json.push(if closed.is_map { '}' } else { ']' });
                self.after_value(closed.anchor, closed.start)
            }
            Event::Alias(anchor) => {
                let start = self.before_value();
                match self.anchors.get(&anchor).cloned().ok_or("an alias refers to itself")? {
                    Anchored::MergeKey => self.text(MERGE_KEY),
                    Anchored::Written(place) => self.json.extend_from_within(place),
                }
                let is_text = self.json.get(start..).is_some_and(|expanded| expanded.starts_with('"'));
                if self.is_key() && !is_text {
                    return Err("a key must be text".to_owned());
                }
                self.after_value(0, start)
            }
            Event::DocumentStart(_) if !self.json.is_empty() => Err("there is more than one YAML document".to_owned()),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                Ok(())
            }
        }
    }

    fn is_key(&self) -> bool {
        self.open.last().is_some_and(|open| open.is_map && open.parts % 2 == 0)
    }

    /// Writes what separates the next key or value from the one before; gives where it begins.
    fn before_value(&mut self) -> usize {
        if let Some(open) = self.open.last()
            && open.parts > 0
        {
            self.json.push(if open.is_map && open.parts % 2 == 1 { ':' } else { ',' });
        }
        self.json.len()
    }

    /// Writes a merge key under a name of its own. An alias of it is text.
    fn merge_key(&mut self, anchor: usize) -> Result<(), String> {
        self.text(&format!("{MERGE_PREFIX}{}", self.merge_keys));
        self.merge_keys += 1;
        if anchor != 0 {
            self.anchors.insert(anchor, Anchored::MergeKey);
        }
        self.count_part();
        Ok(())
    }

    fn after_value(&mut self, anchor: usize, start: usize) -> Result<(), String> {
        let written = self.json.get(start..).unwrap_or_default();
        if self.is_key() && written.starts_with(MERGE_PREFIX_JSON) {
            return Err("a key must not begin with a null character and `<<`".to_owned());
        }
        if anchor != 0 {
            self.anchors.insert(anchor, Anchored::Written(start..self.json.len()));
        }
        self.count_part();
        Ok(())
    }

    fn count_part(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.parts += 1;
        }
    }

    fn begin(&mut self, anchor: usize, is_map: bool) -> Result<(), String> {
        if self.open.len() >= MAX_YAML_DEPTH {
            return Err(format!("more than {MAX_YAML_DEPTH} collections inside each other"));
        }
        if self.is_key() {
            return Err("a key must be text".to_owned());
        }
        let start = self.before_value();
        self.json.push(if is_map { '{' } else { '[' });
        self.open.push(Collection { anchor, start, is_map, parts: 0 });
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.json.push_str(&serde_json::Value::from(text).to_string());
    }

    /// A plain scalar: null, a boolean, a number, or text.
    fn plain(&mut self, text: &str) {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => self.json.push_str("null"),
            "true" | "True" | "TRUE" => self.json.push_str("true"),
            "false" | "False" | "FALSE" => self.json.push_str("false"),
            text if is_json_number(text) => self.json.push_str(text),
            text => self.text(text),
        }
    }
}

/// Whether JSON writes the number in the same way. Hexadecimal, octal and other spellings of YAML stay text: a document
/// has no use for them.
fn is_json_number(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    starts && serde_json::from_str::<serde_json::Number>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::MAX_DOCUMENT_BYTES;

    fn to_json(yaml: &str) -> Result<String, String> {
        super::to_json(yaml, MAX_DOCUMENT_BYTES).json
    }

    #[track_caller]
    fn check(yaml: &str, json: &str) {
        assert_eq!(to_json(yaml).unwrap(), json);
        serde_json::from_str::<serde_json::Value>(json).unwrap();
    }

    #[test]
    fn scalars_keep_their_types() {
        check(
            "a: 1\nb: 1.5\nc: true\nd: ~\ne: '1'\nf: 1.0.0\ng: 2020-01-01",
            r#"{"a":1,"b":1.5,"c":true,"d":null,"e":"1","f":"1.0.0","g":"2020-01-01"}"#,
        );
        check("a:\nb: |\n  x\n  \"y\"\n", r#"{"a":null,"b":"x\n\"y\"\n"}"#);
    }

    #[test]
    fn keys_are_text() {
        check("200: {x: [1, 2]}\ntrue: no", r#"{"200":{"x":[1,2]},"true":"no"}"#);
    }

    #[test]
    fn aliases_are_expanded() {
        check("a: &x {k: [1]}\nb: *x\nc: [*x]", r#"{"a":{"k":[1]},"b":{"k":[1]},"c":[{"k":[1]}]}"#);
        check("a: &x [&y é, &z [*y]]\nb: {*y : *z}\nc: *x", r#"{"a":["é",["é"]],"b":{"é":["é"]},"c":["é",["é"]]}"#);
        check("a: {&m <<: {k: 1}}\nb: {*m : 2}\nc: *m", r#"{"a":{"k":1},"b":{"<<":2},"c":"<<"}"#);
    }

    #[test]
    fn a_merge_key_gives_what_a_map_does_not_have() {
        check("a: &x {k: 1, l: 2}\nb: {<<: *x, l: 3}", r#"{"a":{"k":1,"l":2},"b":{"l":3,"k":1}}"#);
        check(
            "a: &x {k: 1}\nb: &y {<<: *x, m: 2}\nc:\n  <<: [*y, {k: 9, n: 3}]",
            r#"{"a":{"k":1},"b":{"m":2,"k":1},"c":{"m":2,"k":1,"n":3}}"#,
        );
        check("a: {'<<': {k: 1}}", r#"{"a":{"<<":{"k":1}}}"#);
    }

    #[test]
    fn each_merge_key_of_a_map_counts() {
        check("a: {<<: {k: 1}, <<: {k: 2, l: 3}}", r#"{"a":{"k":1,"l":3}}"#);
        check("a: &x {<<: {k: 1}}\nb: {<<: *x, <<: {l: 2}}", r#"{"a":{"k":1},"b":{"k":1,"l":2}}"#);
    }

    #[test]
    fn a_merge_key_in_quotes_is_a_key() {
        check("a: {'<<': {k: 1}, <<: {m: 2}}", r#"{"a":{"<<":{"k":1},"m":2}}"#);
        check("a: {!!str <<: {k: 1}}\nb: {<<: {m: 2}}", r#"{"a":{"<<":{"k":1}},"b":{"m":2}}"#);
        for taken in [r#"{"\0<<0": {k: 1}}"#, r#"{a: &x "\0<<0", *x : {k: 1}}"#] {
            let refused = to_json(taken).unwrap_err();
            assert!(refused.contains("must not begin"), "{taken}: {refused}");
        }
    }

    #[test]
    fn a_deep_document_with_merge_keys_is_refused_with_the_bound() {
        let nested = |depth: usize| format!("a: {{<<: {{k: 1}}}}\nb:\n {}'[{{'", "- ".repeat(depth - 1));
        assert!(to_json(&nested(MAX_MERGE_DEPTH)).is_ok());
        let refused = to_json(&nested(MAX_MERGE_DEPTH + 1)).unwrap_err();
        assert!(refused.contains("more than 127 collections inside each other"), "{refused}");
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut bomb = format!("a0: &a0 [{}]\n", vec!["lol"; 1000].join(","));
        for level in 1..10 {
            let of = vec![format!("*a{}", level - 1); 20].join(",");
            bomb.push_str(&format!("a{level}: &a{level} [{of}]\n"));
        }
        assert!(to_json(&bomb).unwrap_err().contains("bytes as JSON"));
        let deep = format!("a: {}", "[".repeat(1_000));
        let refused = to_json(&deep).unwrap_err();
        assert!(refused.contains("recursion limit"), "{refused}");
        let deep = format!("a:\n {}x", "- ".repeat(1_000));
        let refused = to_json(&deep).unwrap_err();
        assert!(refused.contains("inside each other") || refused.contains("recursion limit"), "{refused}");
    }

    #[test]
    fn what_was_written_counts_also_if_it_is_refused() {
        let text = format!("a: &x {{k: [{}]}}\nb: [*x, *x, *x, *x]\n", vec!["lol"; 100].join(","));
        let Conversion { json, written } = super::to_json(&text, 4_000);
        assert!(written > 3_000 && json.is_ok_and(|json| json.len() == written), "{written}");
        let Conversion { json, written: until } = super::to_json(&text, 1_500);
        assert!(until > 1_500 && json.is_err_and(|reason| reason.contains("more than 1500 bytes")), "{until}");
        let Conversion { json, written: until } = super::to_json(&format!("{text}c: *none"), 4_000);
        assert!(until >= written - 1 && json.is_err(), "{until}");
        let Conversion { json, written: with_merged } = super::to_json(&text.replace("b:", "b:\n  <<:"), 4_000);
        assert!(with_merged > written && json.is_ok_and(|json| json.len() < 1_500), "{with_merged}");
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for text in ["a: [1", "{a: 1}: 2", "a: *b", "--- a\n--- b"] {
            assert!(to_json(text).is_err(), "{text}");
        }
    }
}
