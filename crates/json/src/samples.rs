//! Arbitrary values for property tests.

use proptest::prelude::*;
use serde_json::{Map, Value};

/// Any scalar, some of them long.
pub(crate) fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-zé\u{1f600}\"\\\\\n ]{0,12}".prop_map(Value::from),
        "[a-z ]{0,3}".prop_map(|word| Value::from(word.repeat(200))),
    ]
}

/// Any JSON value of moderate size.
pub(crate) fn json() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 32, 6, |inner| {
        let key = prop_oneof![Just("id".to_owned()), Just("name".to_owned()), "[a-z.\\[> é\"]{0,6}"];
        let member = (key, inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..8).prop_map(Value::from),
            prop::collection::vec(member, 0..8).prop_map(|members| Value::Object(members.into_iter().collect())),
            records().prop_map(Value::from),
        ]
    })
}

/// Objects with the same keys.
pub(crate) fn records() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec((scalar(), scalar(), scalar()), 0..20).prop_map(|rows| {
        let record = |(id, name, note)| {
            Value::Object(Map::from_iter([("id".to_owned(), id), ("name".to_owned(), name), ("note".to_owned(), note)]))
        };
        rows.into_iter().map(record).collect()
    })
}
