//! The JSON Schema that editors check and complete a configuration by.
//!
//! Made from the raw types, so it knows every setting. It judges shapes and spellings, not what only the
//! reader can know: variables, ranges of units, names that must match.

use serde_json::{Value as Json, json};

use super::raw::{File, Shape};

/// The schema of a whole file.
pub fn schema() -> Json {
    let mut schema = File::schema();
    if let Json::Object(members) = &mut schema {
        members.shift_insert(0, "$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        members.shift_insert(1, "title".to_owned(), json!("Toolgate configuration"));
    }
    schema
}
