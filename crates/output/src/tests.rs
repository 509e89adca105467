//! The promises of the pipeline as a whole.

use super::samples;
use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Shapes, and hands back what was kept.
fn shaped(returned: &str, settings: &OutputSettings, intent: Option<&str>) -> (Response, Option<String>) {
    let mut kept = None;
    let response = shape(returned, settings, intent, &mut |whole| {
        kept = Some(whole.text.into_owned());
        ResultId::parse("res_00112233445566778899aabbccddeeff").ok()
    });
    assert!(response.text.len() <= settings.max_output_size);
    assert_eq!(response.bytes_returned, response.text.len());
    assert_eq!(kept.is_some(), !response.stages.is_empty());
    (response, kept)
}

fn with_max(max_output_size: usize) -> OutputSettings {
    OutputSettings { max_output_size, ..OutputSettings::default() }
}

fn check(returned: &str, expected: &str) {
    let (response, kept) = shaped(returned, &OutputSettings::default(), None);
    assert_eq!((response.text.as_str(), kept), (expected, None));
    assert_eq!(response.bytes_processed, expected.len());
}

fn rows(count: usize) -> Value {
    (0..count).map(|i| json!({"id": i, "name": format!("Row {i}"), "note": "lorem ipsum ".repeat(8)})).collect()
}

#[test]
fn a_string_is_given_as_its_text_and_other_values_as_pretty_json() {
    check(r#""plain \"text\"\n\u00e9""#, "plain \"text\"\né");
    check("null", "null");
    check(
        r#"{"b":1,"a":[12345678901234567890,1e21]}"#,
        "{\n  \"b\": 1,\n  \"a\": [\n    12345678901234567890,\n    1e21\n  ]\n}",
    );
    check(r#""{\"a\":1}""#, r#"{"a":1}"#);
    check("", "");
}

#[test]
fn a_lone_surrogate_is_shown_replaced_and_kept_exactly() {
    check(r#"["\ud800"]"#, "[\n  \"\\ufffd\"\n]");
    check(r#""a\ud800""#, "a\u{fffd}");
    let returned = format!("\"\\ud800{}\"", "x".repeat(1_000));
    assert_eq!(shaped(&returned, &with_max(500), None).1, Some(returned));
}

/// Found by fuzzing: escapes in the text of a string are the string's own, not the returned value's.
#[test]
fn a_string_of_json_with_half_a_character_is_given_as_it_is() {
    let text = format!(r#"["\ud800{}"]"#, "x".repeat(6_000));
    check(&json!(text).to_string(), &text);
}

#[test]
fn what_fits_exactly_is_unchanged() {
    let text = "y".repeat(1_000);
    let (response, _) = shaped(&json!(text).to_string(), &with_max(1_000), None);
    assert_eq!(response.text, text);
    let (response, _) = shaped(&json!(text).to_string(), &with_max(999), None);
    assert_eq!(response.stages, [Stage::Truncate, Stage::Footer]);
}

#[test]
fn every_size_that_a_caller_may_ask_for_names_the_result() {
    let text = json!("word ".repeat(2_000)).to_string();
    for returned in [&text, &rows(200).to_string(), &json!("y".repeat(257)).to_string()] {
        for max in [84, 100, 160, 256, 257, 300, 415, 416, 500, 1_000] {
            let (response, kept) = shaped(returned, &with_max(max), None);
            if kept.is_none() {
                continue;
            }
            let id = "res_00112233445566778899aabbccddeeff";
            assert!(response.text.contains(id), "{max}: {}", response.text);
            assert!(!response.text.starts_with("\n"), "there is text above the footer");
            assert_eq!(response.stages.last(), Some(&Stage::Footer));
            assert_eq!(response.text.contains("[Output: "), max >= MIN_FOOTER_SIZE, "{max}: {}", response.text);
        }
    }
}

#[test]
fn rows_inside_an_object_are_shown_by_count_keys_first_rows_and_identities() {
    for settings in [OutputSettings::default(), with_max(24_000), with_max(2_000)] {
        let (response, _) = shaped(&json!({ "rows": rows(2_000) }).to_string(), &settings, None);
        let text = &response.text;
        assert!(text.contains("rows (2000 items, "), "{text}");
        assert!(text.contains("each with keys: id, name, note"), "{text}");
        assert!(text.contains("rows > [0]"), "{text}");
        assert!(text.contains("[1999] id=1999 name=\"Row 1999\""), "{text}");
    }
}

#[test]
fn rows_that_lack_a_few_keys_are_rows_still() {
    let row = |i: usize| match i % 3 {
        0 => json!({ "city": format!("City {i}"), "population": i }),
        _ => json!({ "city": format!("City {i}"), "population": i, "mayor": "M" }),
    };
    let (response, _) =
        shaped(&json!({ "rows": (0..2_000).map(row).collect::<Vec<_>>() }).to_string(), &with_max(24_000), None);
    let text = &response.text;
    assert!(
        text.contains("rows (2000 items, ") && text.contains("each with keys: city, population; some with: mayor"),
        "{text}"
    );
    assert!(text.contains("[1999] city=\"City 1999\""), "{text}");
}

#[test]
fn a_long_text_is_cut_and_its_footer_tells_the_numbers() {
    let lines: String = (0..20_000).map(|i| format!("line number {i:06}\n")).collect();
    let (response, kept) = shaped(&json!(lines).to_string(), &OutputSettings::default(), None);
    let shown: Vec<_> = response.text.lines().filter(|line| !line.starts_with("line")).collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    ... [9490 lines / 176.1KB truncated — showing first 6306 + last 4204 lines] ...

    [Output: 195.2KB returned, 371.1KB processed, 47% reduced]
    [Full result: res_00112233445566778899aabbccddeeff — read_result / query_result]
    ");
    assert_eq!(kept, Some(lines));
}

#[test]
fn large_json_is_outlined_and_small_json_is_not() {
    let (small, _) = shaped(&rows(20).to_string(), &OutputSettings::default(), None);
    assert_eq!(small.stages, []);
    let (large, kept) = shaped(&rows(200).to_string(), &OutputSettings::default(), None);
    assert_eq!(large.stages, [Stage::Chunk, Stage::Footer]);
    assert!(large.text.contains("(200 items") && large.text.contains("[199] id=199 name=\"Row 199\""));
    assert_eq!(kept, Some(rows(200).to_string()));
}

#[test]
fn json_in_a_string_is_treated_as_json() {
    let text = serde_json::to_string_pretty(&json!({"results": rows(200)})).expect("JSON");
    let (response, kept) = shaped(&json!(text).to_string(), &OutputSettings::default(), None);
    assert!(response.text.contains("results (200 items"), "{}", response.text);
    assert_eq!(kept, Some(text));
}

#[test]
fn each_stage_can_be_switched_off() {
    let all = OutputSettings::default();
    let stages = |settings: &OutputSettings| shaped(&rows(2_500).to_string(), settings, Some("row 77")).0.stages;
    assert_eq!(stages(&OutputSettings { intent: false, ..all.clone() }), [Stage::Chunk, Stage::Footer]);
    let no_chunks = OutputSettings { intent: false, auto_chunk_json: false, ..all.clone() };
    assert_eq!(stages(&no_chunks), [Stage::Truncate, Stage::Footer]);
    let cut = |smart_truncation| {
        shaped(&rows(2_500).to_string(), &OutputSettings { smart_truncation, ..no_chunks.clone() }, None).0.text
    };
    assert!(cut(true).contains("\"id\": 2499") && cut(true).contains("\"id\": 0,"));
    assert!(!cut(false).contains("\"id\": 2499") && cut(false).contains("\"id\": 0,"));
}

#[test]
fn what_matches_the_intent_is_json_below_the_header() {
    let mut value = rows(300);
    value[250]["note"] = json!("a failed payment");
    let (response, _) = shaped(&value.to_string(), &OutputSettings::default(), Some("failing payments"));
    assert_eq!(response.stages, [Stage::Intent, Stage::Footer]);
    let (header, rest) = response.text.split_once("\n\n").expect("a header");
    assert_eq!(header, "[1 of 300 sections match \"failing payments\"]");
    let (json, _) = rest.split_once("\n\n").expect("a footer");
    assert_eq!(serde_json::from_str::<Value>(json).expect("JSON"), json!([value[250]]));
}

#[test]
fn an_intent_that_matches_nothing_is_told_with_what_follows_instead() {
    let check = |value: &Value, settings: &OutputSettings, stages: &[Stage], header: &str| {
        let (response, _) = shaped(&value.to_string(), settings, Some("penguins"));
        assert_eq!(response.stages, stages, "{}", response.text);
        assert!(response.text.starts_with(header), "{}", response.text);
        response.text
    };
    let whole = "[No section matches \"penguins\": the whole result follows]\n\n";
    let text = check(&rows(50), &OutputSettings::default(), &[], whole);
    assert_eq!(serde_json::from_str::<Value>(&text[whole.len()..]).expect("JSON"), rows(50));
    let outline =
        "[No section matches \"penguins\": an outline of the whole result follows; read the rest by its result id]\n\n";
    let text = check(&rows(300), &OutputSettings::default(), &[Stage::Chunk, Stage::Footer], outline);
    assert!(
        text.ends_with("[Full result: res_00112233445566778899aabbccddeeff — read_result / query_result]"),
        "{text}"
    );
    let part =
        "[No section matches \"penguins\": a part of the result follows; read the rest by its result id]\n\nword word";
    let words = json!("word word\n".repeat(900));
    check(&words, &with_max(4_000), &[Stage::Truncate, Stage::Footer], part);
    // No room for more than the text and its footer, or for a note that fits a whole text no more.
    check(&words, &with_max(300), &[Stage::Truncate, Stage::Footer], "word word");
    check(&words, &with_max(9_000), &[], "word word");
    // A short result is shown as it is.
    check(&rows(20), &OutputSettings::default(), &[], "[\n");
    check(&rows(50), &OutputSettings { intent: false, ..OutputSettings::default() }, &[], "[\n");
}

#[test]
fn positions_are_explained_when_matches_are_outlined() {
    let mut value = rows(600);
    (0..300).for_each(|i| value[2 * i]["note"] = json!("failed ".repeat(10)));
    let (response, _) = shaped(&value.to_string(), &OutputSettings::default(), Some("failed"));
    assert_eq!(response.stages, [Stage::Intent, Stage::Chunk, Stage::Footer]);
    assert!(
        response.text.starts_with("[300 of 600 sections match \"failed\"]\n\n[Positions below count"),
        "{}",
        response.text
    );
}

#[test]
fn hostile_input_is_answered_within_the_bound() {
    let many = 30_000;
    let nested = "[".repeat(many / 2) + &"]".repeat(many / 2);
    let objects = "{\"a\":".repeat(many / 6) + "1" + &"}".repeat(many / 6);
    let keys = format!("{{{}}}", vec!["\"a\":1"; many / 6].join(","));
    let raw = ["[".repeat(many), "\n".repeat(many), "\"".repeat(many), "\\".repeat(many)];
    let strings = raw.iter().map(|text| json!(text).to_string());
    for text in raw.iter().cloned().chain(strings).chain([nested.clone(), json!(nested).to_string(), objects, keys]) {
        for max in [0, 1, 10, 50, 415, 416, 1_000, 200_000] {
            shaped(&text, &with_max(max), Some("error a"));
        }
    }
}

fn any_settings() -> impl Strategy<Value = OutputSettings> {
    let sizes = (prop_oneof![0..600usize, 0..8_000usize], prop_oneof![0..600usize, 0..20_000usize]);
    let formats = [OutputFormat::Auto, OutputFormat::Pretty, OutputFormat::Compact, OutputFormat::Table];
    (any::<[bool; 3]>(), sizes, prop::sample::select(formats.to_vec())).prop_map(
        |([intent, auto_chunk_json, smart_truncation], (chunk_threshold, max_output_size), format)| OutputSettings {
            intent,
            auto_chunk_json,
            smart_truncation,
            chunk_threshold,
            max_output_size,
            format,
        },
    )
}

fn any_returned() -> impl Strategy<Value = String> {
    let text = "([a-z ]{1,40}|\n|\n\n|é|\u{1f600}|error|\"|\\\\){0,400}";
    prop_oneof![
        samples::json().prop_map(|value| value.to_string()),
        samples::json().prop_map(|value| json!(value.to_string()).to_string()),
        text.prop_map(|text| json!(text).to_string()),
        samples::records().prop_map(|rows| json!({"results": rows}).to_string()),
        ".{0,300}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn answers_are_bounded_and_no_larger_than_their_input(
        returned in any_returned(),
        settings in any_settings(),
        intent in prop::option::of("(error|id|name|a|[a-z]{2}| ){0,8}"),
    ) {
        let (response, _) = shaped(&returned, &settings, intent.as_deref());
        prop_assert!(response.text.len() <= response.bytes_processed + MAX_HEADER_SIZE);
        if !response.stages.contains(&Stage::Intent) {
            prop_assert!(response.text.len() <= response.bytes_processed);
        }
    }

    #[test]
    fn below_the_thresholds_shaping_twice_is_shaping_once(returned in any_returned()) {
        let settings = OutputSettings::default();
        let (once, _) = shaped(&returned, &settings, None);
        prop_assume!(once.stages.is_empty());
        let (twice, _) = shaped(&json!(once.text).to_string(), &settings, None);
        prop_assert_eq!(twice.stages, []);
        prop_assert_eq!(twice.text, once.text);
    }

    #[test]
    fn json_that_was_filtered_is_json_still(
        mut rows in prop::collection::vec(prop_oneof![samples::scalar(), Just(json!({"an": ["Error\n", "\"]"]}))], 50..100),
        in_string in any::<bool>(),
    ) {
        rows.extend([json!("x".repeat(6_000)), json!("one error")]);
        let json = json!({"rows": rows, "total": 3}).to_string();
        let returned = if in_string { json!(json).to_string() } else { json };
        let settings = OutputSettings { auto_chunk_json: false, ..OutputSettings::default() };
        let (response, _) = shaped(&returned, &settings, Some("errors"));
        prop_assert_eq!(&response.stages, &[Stage::Intent, Stage::Footer]);
        let (_, rest) = response.text.split_once("\n\n").expect("a header");
        let (json, _) = rest.rsplit_once("\n\n").expect("a footer");
        rows.retain(|row| row.to_string().to_lowercase().contains("error"));
        prop_assert_eq!(serde_json::from_str::<Value>(json).expect("JSON"), json!({"rows": rows, "total": 3}));
    }
}
