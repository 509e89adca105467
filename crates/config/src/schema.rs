//! The JSON Schema of the configuration, for validation and completion in editors.
//!
//! Generated from the raw types, so it has every setting. It cannot validate variables, ranges of values with units and
//! names that refer to other entries.

use serde_json::{Value as Json, json};

use super::raw::{File, RawSetting};

/// The schema of a whole file.
pub fn schema() -> Json {
    let mut schema = File::schema();
    if let Json::Object(members) = &mut schema {
        members.shift_insert(0, "$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        members.shift_insert(1, "title".to_owned(), json!("Toolgate configuration"));
    }
    schema
}
