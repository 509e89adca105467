//! Every format says the same value.

use super::super::{OutputSettings, Response, samples, shape};
use super::*;
use proptest::prelude::*;
use serde_json::json;

fn shaped(value: &str, format: OutputFormat) -> Response {
    let settings =
        OutputSettings { format, auto_chunk_json: false, max_output_size: usize::MAX / 4, ..OutputSettings::default() };
    shape(value, &settings, None, &mut |_| None)
}

#[track_caller]
fn check(value: &serde_json::Value, format: OutputFormat, expected: &str) {
    assert_eq!(shaped(&value.to_string(), format).text, expected);
}

/// Reads a text as a model would: tables become lists of records again.
fn read(text: &str) -> serde_json::Value {
    let Some(json) = text.strip_prefix(TABLE_NOTE) else { return serde_json::from_str(text).expect("JSON") };
    expand(serde_json::from_str(json).expect("JSON"))
}

fn expand(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value::{Array, Object};
    match value {
        Array(items) => Array(items.into_iter().map(expand).collect()),
        Object(fields) if fields.contains_key(COLUMNS) => {
            let rows = fields[ROWS].as_array().expect("rows").iter();
            let keys: Vec<&str> =
                fields[COLUMNS].as_array().expect("keys").iter().filter_map(|key| key.as_str()).collect();
            let record = |row: &serde_json::Value| {
                let values = row.as_array().expect("a row");
                assert_eq!(values.len(), keys.len());
                Object(keys.iter().map(|key| (*key).to_owned()).zip(values.iter().cloned().map(expand)).collect())
            };
            Array(rows.map(record).collect())
        }
        Object(fields) => Object(fields.into_iter().map(|(key, value)| (key, expand(value))).collect()),
        scalar => scalar,
    }
}

fn people(count: usize) -> serde_json::Value {
    (0..count).map(|n| json!({ "id": n, "name": format!("Person {n}"), "active": n % 2 == 0 })).collect()
}

#[test]
fn a_value_is_written_as_asked() {
    let value = json!({ "a": [1, { "b": "x y" }] });
    check(&value, OutputFormat::Pretty, "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x y\"\n    }\n  ]\n}");
    for format in [OutputFormat::Compact, OutputFormat::Auto, OutputFormat::Table] {
        check(&value, format, r#"{"a":[1,{"b":"x y"}]}"#);
        check(&json!("a text\n"), format, "a text\n");
        check(&json!(7), format, "7");
    }
    assert_eq!(shaped(" [1 , \"a b\"]\n", OutputFormat::Compact).text, r#"[1,"a b"]"#);
}

#[test]
fn records_are_a_header_and_rows_below_one_line_that_explains_them() {
    check(
        &json!({ "total": 3, "people": people(3) }),
        OutputFormat::Table,
        &format!(
            "{TABLE_NOTE}{}",
            "{\"total\":3,\"people\":{\"#columns\":[\"id\",\"name\",\"active\"],\"#rows\":[\n\
             [0,\"Person 0\",true],\n[1,\"Person 1\",false],\n[2,\"Person 2\",true]\n]}}"
        ),
    );
    assert_eq!(TABLE_NOTE.trim_end().lines().count(), 1);
}

#[test]
fn a_table_is_chosen_where_it_saves_much() {
    assert!(!shaped(&people(3).to_string(), OutputFormat::Auto).text.contains(COLUMNS));
    let response = shaped(&people(50).to_string(), OutputFormat::Auto);
    assert!(response.text.starts_with(TABLE_NOTE));
    assert_eq!((response.stages.len(), response.bytes_processed), (0, response.text.len()));
    assert_eq!(read(&response.text), people(50));
}

#[test]
fn what_is_not_uniform_is_no_table() {
    for value in [
        json!([{ "a": 1 }, { "a": 1 }]),
        json!([{ "a": 1 }, { "a": 1 }, { "b": 1 }]),
        json!([{ "a": 1 }, { "a": 1 }, { "a": 1, "b": 1 }]),
        json!([{}, {}, {}]),
        json!([{ "a": 1 }, { "a": 1 }, null]),
        json!({ "#rows": people(3) }),
        json!([{ "#columns": 1 }, { "#columns": 2 }, { "#columns": 3 }]),
    ] {
        check(&value, OutputFormat::Table, &value.to_string());
    }
    let other_order = r#"[{"a":1,"b":2},{"b":1,"a":2},{"a":1,"b":2}]"#;
    assert_eq!(shaped(other_order, OutputFormat::Table).text, other_order);
    let escaped = r#"{"\u0023rows":1,"list":[{"a":1},{"a":2},{"a":3}]}"#;
    assert_eq!(shaped(escaped, OutputFormat::Table).text, escaped);
}

#[test]
fn a_table_that_fits_is_shown_whole_where_the_indented_form_would_be_outlined() {
    let value = (0..150).map(|n| json!({ "id": n, "description": "d", "customer_number": n, "priority": 1 }));
    let value: serde_json::Value = value.collect();
    let text = |format| {
        shape(&value.to_string(), &OutputSettings { format, ..OutputSettings::default() }, None, &mut |_| None)
    };
    assert!(text(OutputFormat::Pretty).text.starts_with("[JSON outline"));
    let table = text(OutputFormat::Auto);
    assert_eq!((table.stages.len(), read(&table.text)), (0, value.clone()));
}

#[test]
fn only_a_key_of_a_table_far_inside_leaves_the_tables_out() {
    let nested = |inner: serde_json::Value| (0..MAX_DEPTH + 2).fold(inner, |inner, _| json!([inner]));
    let list = |inner: serde_json::Value| -> serde_json::Value {
        let inner = nested(inner);
        (0..3).map(|id| json!({ "id": id, "data": inner })).collect()
    };
    let text = |value: &serde_json::Value| shaped(&value.to_string(), OutputFormat::Table).text;
    for inner in [json!({ "a": "\\u0023rows" }), json!(["#columns", { "\u{1}": "#rows\":" }]), json!({ "#row": 1 })] {
        let value = list(inner);
        assert!(text(&value).starts_with(TABLE_NOTE), "{}", text(&value));
        assert_eq!(read(&text(&value)), value);
    }
    let reserved = list(json!({ "#rows": 1 })).to_string();
    for value in [reserved.replace("#rows", "\\u0023rows"), reserved] {
        assert!(!shaped(&value, OutputFormat::Table).text.starts_with(TABLE_NOTE), "{value}");
    }
}

#[test]
fn hostile_values_are_written_within_their_bound() {
    let deep = "[".repeat(20_000) + &"]".repeat(20_000);
    let objects = "{\"a\":".repeat(5_000) + "[{\"b\":1},{\"b\":1},{\"b\":1}]" + &"}".repeat(5_000);
    for text in [deep, objects] {
        for max_output_size in [0, 100, 1_000] {
            let settings = OutputSettings { format: OutputFormat::Table, max_output_size, ..OutputSettings::default() };
            assert!(shape(&text, &settings, None, &mut |_| None).text.len() <= max_output_size);
        }
    }
}

proptest! {
    #[test]
    fn every_format_says_the_same_value(
        value in prop_oneof![samples::json(), samples::records().prop_map(|rows| json!({ "results": rows, "n": 1 }))],
    ) {
        prop_assume!(!value.is_string());
        for format in [OutputFormat::Auto, OutputFormat::Pretty, OutputFormat::Compact, OutputFormat::Table] {
            let text = shaped(&value.to_string(), format).text;
            prop_assert_eq!(read(&text), value.clone(), "{:?}: {}", format, text);
        }
    }

    #[test]
    fn lists_of_records_come_back(rows in prop::collection::vec((any::<i32>(), ".{0,12}", samples::json()), 3..20), nest in any::<bool>()) {
        let list: serde_json::Value = rows.into_iter().map(|(id, text, data)| json!({ "id": id, "te\"xt": text, "data": data })).collect();
        let value = if nest { json!({ "a": [list.clone(), { "deep": list }] }) } else { list };
        let table = shaped(&value.to_string(), OutputFormat::Table).text;
        prop_assert!(table.starts_with(TABLE_NOTE));
        prop_assert_eq!(read(&table), value);
    }
}
