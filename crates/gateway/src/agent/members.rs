//! The members of a JSON object whose values nobody has read.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Keys and values as they are written, in their order, doubles and all.
#[derive(Debug)]
pub(super) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Nothing, unless the text is an object.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The value that counts: the last of that name.
    pub(super) fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().rfind(|(own, _)| own == key).map(|(_, value)| value.get())
    }

    /// Gives every member of that name this value.
    pub(super) fn set(&mut self, key: &str, value: &'a RawValue) {
        self.0.iter_mut().filter(|(own, _)| own == key).for_each(|(_, old)| *old = value);
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.0.retain(|(own, _)| own != key);
    }

    /// Whether a key is there twice.
    pub(super) fn has_doubles(&self) -> bool {
        let mut keys = HashSet::with_capacity(self.0.len());
        !self.0.iter().all(|(key, _)| keys.insert(key))
    }
}

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        #[derive(Deserialize)]
        struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
        let mut members = Vec::new();
        while let Some((Key(key), value)) = map.next_entry()? {
            members.push((key, value));
        }
        Ok(Members(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_as_they_are_written() {
        let members = Members::read(r#" { "a" : [1,  2], "b\u0063": "x" , "a":null} "#).unwrap();
        assert_eq!(serde_json::to_string(&members).unwrap(), r#"{"a":[1,  2],"bc":"x","a":null}"#);
        assert_eq!((members.get("a"), members.get("c")), (Some("null"), None));
        assert!(members.has_doubles());
        assert!(!Members::read(r#"{"a":1,"b":{"a":1}}"#).unwrap().has_doubles());
    }

    #[test]
    fn members_change_and_go() {
        let new = RawValue::from_string("7".to_owned()).unwrap();
        let mut members = Members::read(r#"{"a":1,"b":2,"c":3}"#).unwrap();
        members.set("b", &new);
        members.remove("a");
        assert_eq!(serde_json::to_string(&members).unwrap(), r#"{"b":7,"c":3}"#);
    }

    #[test]
    fn what_is_no_object_has_none() {
        for text in ["", "[]", "7", "{", r#"{"a":1}}"#, r#"{"a"}"#] {
            assert!(Members::read(text).is_none(), "{text}");
        }
    }
}
