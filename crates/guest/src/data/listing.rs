//! A backend's tools, read in place from the host's text: a program uses a few of hundreds.

use std::borrow::Cow;

use super::lazy::scan::{expect_end, members, skip_space, skip_string, skip_value};
use super::lazy::unescape::unescape_wtf8;

/// `{"name": …, "tools": […]}`, where a tool is its name, or `{"id": …, "name": …}` where a program calls it
/// by another.
#[derive(Debug)]
pub(crate) struct Listing {
    text: Vec<u8>,
    name: String,
    /// Where the list of tools begins.
    tools: usize,
}

/// One tool by both its names.
struct Listed<'t> {
    /// What a program calls it.
    id: Cow<'t, [u8]>,
    /// What its backend calls it.
    name: Cow<'t, [u8]>,
}

impl Listing {
    /// Nothing, unless the text is such a listing.
    pub(crate) fn read(text: Vec<u8>) -> Option<Self> {
        let (mut name, mut tools) = (None, None);
        let end = members(&text, skip_space(&text, 0), 0, |member| match member.key_text(&text) {
            b"name" => name = string(&text, member.value),
            b"tools" => tools = Some(member.value).filter(|&at| text[at] == b'['),
            _ => {}
        });
        expect_end(&text, end.ok()?).ok()?;
        let name = owned(&name?);
        Some(Listing { name, tools: tools?, text })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn tools(&self) -> impl Iterator<Item = Listed<'_>> {
        elements(&self.text, self.tools).filter_map(|at| listed(&self.text, at))
    }

    /// The identifiers of all tools, and their names if one differs.
    pub(crate) fn names(&self) -> (Vec<String>, Option<Vec<String>>) {
        let ids = self.tools().map(|tool| owned(&tool.id)).collect();
        let differ = self.tools().any(|tool| tool.id != tool.name);
        (ids, differ.then(|| self.tools().map(|tool| owned(&tool.name)).collect()))
    }

    /// The name of the tool that a program means. An identifier goes before another tool's own name.
    pub(crate) fn tool(&self, spelling: &str) -> Option<String> {
        let spelling = spelling.as_bytes();
        let by_id = self.tools().find(|tool| *tool.id == *spelling);
        by_id.or_else(|| self.tools().find(|tool| *tool.name == *spelling)).map(|tool| owned(&tool.name))
    }
}

/// The text of a name: no tool's name has a lone surrogate.
fn owned(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Where the elements begin of the list at `at`, which has been scanned before.
fn elements(text: &[u8], at: usize) -> impl Iterator<Item = usize> {
    let mut next = skip_space(text, at + 1);
    std::iter::from_fn(move || {
        let at = next;
        if text.get(at) == Some(&b']') {
            return None;
        }
        let after = skip_space(text, skip_value(text, at, 0).ok()?);
        next = if text.get(after) == Some(&b',') { skip_space(text, after + 1) } else { after };
        Some(at)
    })
}

fn listed(text: &[u8], at: usize) -> Option<Listed<'_>> {
    if let Some(name) = string(text, at) {
        return Some(Listed { id: name.clone(), name });
    }
    let (mut id, mut name) = (None, None);
    let read = members(text, at, 0, |member| match member.key_text(text) {
        b"id" => id = string(text, member.value),
        b"name" => name = string(text, member.value),
        _ => {}
    });
    read.ok()?;
    Some(Listed { id: id?, name: name? })
}

/// The string at `at`, if there is one.
fn string(text: &[u8], at: usize) -> Option<Cow<'_, [u8]>> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let (end, escaped) = skip_string(text, at).ok()?;
    let inside = text.get(at + 1..end - 1)?;
    Some(if escaped { Cow::Owned(unescape_wtf8(inside)) } else { Cow::Borrowed(inside) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Listing> {
        Listing::read(text.as_bytes().to_vec())
    }

    fn check(text: &str, expected: &[(&str, &str)]) {
        let listing = read(text).expect("a listing");
        let (ids, names) = listing.names();
        assert_eq!(ids, expected.iter().map(|&(id, _)| id).collect::<Vec<_>>());
        let differ = expected.iter().any(|(id, name)| id != name);
        assert_eq!(names, differ.then(|| expected.iter().map(|&(_, name)| name.to_owned()).collect()));
    }

    #[test]
    fn tools_are_listed_by_one_name_or_two() {
        check(r#"{"name":"exa","tools":[]}"#, &[]);
        check(r#"{"name":"exa","tools":["a","b"]}"#, &[("a", "a"), ("b", "b")]);
        check(r#" { "tools" : [ "a" , {"name":"b-c","id":"b_c"} ] , "name":"x" } "#, &[("a", "a"), ("b_c", "b-c")]);
        check(r#"{"name":"x","tools":["\u00e9\"\ud83d\ude00","ü"]}"#, &[("é\"😀", "é\"😀"), ("ü", "ü")]);
    }

    #[test]
    fn an_identifier_goes_before_another_tools_name() {
        let listing = read(r#"{"name":"x","tools":[{"name":"a","id":"b"},{"name":"c-d","id":"a"},"plain"]}"#).unwrap();
        assert_eq!(listing.tool("a").as_deref(), Some("c-d"));
        assert_eq!(listing.tool("b").as_deref(), Some("a"));
        assert_eq!(listing.tool("c-d").as_deref(), Some("c-d"));
        assert_eq!(listing.tool("plain").as_deref(), Some("plain"));
        assert_eq!(listing.tool("toString"), None);
        assert_eq!(listing.tool(""), None);
    }

    #[test]
    fn what_is_no_listing_is_not_read() {
        for text in
            ["", "{}", "[]", "null", r#"{"name":"x"}"#, r#"{"name":1,"tools":[]}"#, r#"{"name":"x","tools":{}}"#]
        {
            assert!(read(text).is_none(), "{text}");
        }
        for text in
            [r#"{"name":"x","tools":["a""#, r#"{"name":"x","tools":["a"]}]"#, r#"{"name":"x","tools":["a" "b"]}"#]
        {
            assert!(read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn what_is_no_tool_is_left_out() {
        check(r#"{"name":"x","tools":[1,null,{},{"id":"a"},["b"],"c"]}"#, &[("c", "c")]);
    }
}
