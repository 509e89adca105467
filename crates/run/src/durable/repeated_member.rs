//! Finds a member that an object of a JSON text has twice: readers differ in which of the two they take.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// The name of a member that an object of this text has twice. No tree is made of the text.
pub(super) fn repeated_member(text: &str) -> Option<String> {
    let mut repeated = None;
    let mut reader = serde_json::Deserializer::from_str(text);
    // What is no JSON is refused elsewhere.
    let _ = Finder { repeated: &mut repeated }.deserialize(&mut reader);
    repeated
}

struct Finder<'r> {
    repeated: &'r mut Option<String>,
}

impl Finder<'_> {
    fn inside(&mut self) -> Finder<'_> {
        Finder { repeated: self.repeated }
    }
}

impl<'de> DeserializeSeed<'de> for Finder<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Finder<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self.inside())?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            members.next_value_seed(self.inside())?;
            if let Some(name) = names.replace(name) {
                self.repeated.get_or_insert(name);
            }
        }
        Ok(())
    }
}
