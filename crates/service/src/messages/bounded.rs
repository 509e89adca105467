//! Lists of request bodies with a bound that holds while they are read, and texts that may be short only.
//!
//! A list of small values takes up to fifty times the memory of its text, and the memory budget counts the text. Values of any
//! shape stay text ([`serde_json::value::RawValue`]) until [`crate::body::Share::tree`] has counted their tree.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// Functions that a request may name.
const MAX_NAMES: usize = 1_000;
/// Characters of the name of a function.
const MAX_NAME_CHARS: usize = 256;

/// A list of at most `MAX` items; reading ends at the first item beyond it.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct BoundedList<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> Default for BoundedList<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const MAX: usize> Deref for BoundedList<T, MAX> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const MAX: usize> IntoIterator for BoundedList<T, MAX> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for BoundedList<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for ListVisitor<T, MAX> {
    type Value = BoundedList<T, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while list.len() < MAX {
            match items.next_element()? {
                Some(item) => list.push(item),
                None => return Ok(BoundedList(list)),
            }
        }
        items.next_element::<Beyond<MAX>>()?;
        Ok(BoundedList(list))
    }
}

/// An item that is one too many: refused before it is read, so that the error points to it.
struct Beyond<const MAX: usize>;

impl<'de, const MAX: usize> Deserialize<'de> for Beyond<MAX> {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom(format_args!("the list has more than {MAX} items")))
    }
}

impl<T: JsonSchema, const MAX: usize> JsonSchema for BoundedList<T, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "List".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let items = generator.subschema_for::<T>();
        json_schema!({"type": "array", "items": items, "maxItems": MAX})
    }
}

/// The names of functions that a request lists.
#[derive(Debug)]
pub(crate) struct FunctionNames(Vec<String>);

impl Deref for FunctionNames {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

impl<'de> Deserialize<'de> for FunctionNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = BoundedList::<FunctionName, MAX_NAMES>::deserialize(deserializer)?;
        Ok(Self(names.into_iter().map(|FunctionName(name)| name).collect()))
    }
}

impl JsonSchema for FunctionNames {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "FunctionNames".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let items = json_schema!({"type": "string", "maxLength": MAX_NAME_CHARS});
        json_schema!({"type": "array", "items": items, "maxItems": MAX_NAMES})
    }
}

struct FunctionName(String);

impl<'de> Deserialize<'de> for FunctionName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = FunctionName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<FunctionName, E> {
                match name.chars().nth(MAX_NAME_CHARS) {
                    Some(_) => Err(E::custom(format_args!("the name has more than {MAX_NAME_CHARS} characters"))),
                    None => Ok(FunctionName(name.to_owned())),
                }
            }
        }
        deserializer.deserialize_str(Reader)
    }
}

/// Reads a text, or an object with one text in it: takes no more memory than that text. What it means is up to the handler.
pub(super) fn text_or_one_member<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    struct Reader;
    impl<'de> Visitor<'de> for Reader {
        type Value = Option<Value>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string, or an object with one string")
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Some(Value::from(text)))
        }

        fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
            let mut only = Map::new();
            while let Some((name, text)) = members.next_entry::<String, String>()? {
                if !only.is_empty() {
                    return Err(A::Error::custom("an object with one string is expected"));
                }
                only.insert(name, text.into());
            }
            Ok(Some(Value::Object(only)))
        }
    }
    deserializer.deserialize_any(Reader)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: for<'de> Deserialize<'de>>(text: &str, expected: Result<(), &str>) {
        let found = serde_json::from_str::<T>(text).map(drop).map_err(|error| error.to_string());
        let found = found.as_ref().map_err(|error| error.split(" at line").next().unwrap_or_default());
        assert_eq!(found.copied(), expected);
    }

    #[test]
    fn a_list_ends_at_its_bound() {
        check::<BoundedList<u8, 3>>("[]", Ok(()));
        check::<BoundedList<u8, 3>>("[1,2,3]", Ok(()));
        check::<BoundedList<u8, 3>>("[1,2,3,4]", Err("the list has more than 3 items"));
        // What is behind the bound is not looked at.
        check::<BoundedList<u8, 3>>("[1,2,3,\"x\",", Err("the list has more than 3 items"));
    }

    #[test]
    fn names_are_bounded_in_number_and_length() {
        let many = |count: usize| serde_json::to_string(&vec![""; count]).expect("JSON");
        check::<FunctionNames>(&many(1_000), Ok(()));
        check::<FunctionNames>(&many(1_001), Err("the list has more than 1000 items"));
        let long = |chars: usize| format!("[\"{}\"]", "é".repeat(chars));
        check::<FunctionNames>(&long(256), Ok(()));
        check::<FunctionNames>(&long(257), Err("the name has more than 256 characters"));
    }
}
