//! The output pipeline, the chunker above all, over any text: bounded, never larger than its input, what stays of JSON
//! is JSON, and what is kept is the whole.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, value::RawValue};
use toolgate_output::results::Kind;
use toolgate_output::{MAX_HEADER_SIZE, OutputFormat, OutputSettings, Response, Stage, shape};

fuzz_target!(|input: (u16, u16, u8, u8, &str, &str)| {
    let (chunk_threshold, max_output_size, switches, copies, intent, text) = input;
    let settings = OutputSettings {
        intent: switches & 1 != 0,
        auto_chunk_json: switches & 2 == 0,
        smart_truncation: switches & 4 == 0,
        chunk_threshold: chunk_threshold.into(),
        // Some thousands of bytes, so that all stages have room, or nearly none.
        max_output_size: if switches & 8 == 0 { max_output_size.into() } else { (max_output_size % 512).into() },
        format: if copies & 1 == 0 { OutputFormat::Pretty } else { OutputFormat::Compact },
    };
    let returned = returned(text, switches, copies.into());
    let mut kept = None;
    let response = shape(&returned, &settings, Some(intent), &mut |whole| {
        kept = Some((whole.kind, whole.text.into_owned()));
        None
    });
    assert!(response.text.len() <= settings.max_output_size);
    assert_eq!(response.text.len(), response.bytes_returned);
    assert_eq!(kept.is_some(), !response.stages.is_empty());
    let header = if response.stages.contains(&Stage::Intent) { MAX_HEADER_SIZE } else { 0 };
    assert!(response.text.len() <= response.bytes_processed + header);
    match kept {
        Some((kind, whole)) => check_kept(&returned, kind, &whole),
        None => check_whole(&returned, &response.text),
    }
    check_json(&returned, &response);
});

/// The text itself, many of it as an array or an object, or any of these in a string.
fn returned(text: &str, switches: u8, copies: usize) -> String {
    let many = vec![text; copies];
    let json = match switches >> 4 & 3 {
        0 => text.to_owned(),
        1 => format!("[{}]", many.join(",")),
        2 => format!("{{\"n\":1,\"results\":[{}]}}", many.join(",")),
        _ => many.join(if switches & 64 == 0 { "\n" } else { "\n\n" }),
    };
    if switches & 128 == 0 { json } else { Value::from(json).to_string() }
}

/// What is kept is what was returned: the same JSON, the text of the string, or what is no JSON as it is.
fn check_kept(returned: &str, kind: Kind, whole: &str) {
    match serde_json::from_str::<Value>(returned) {
        Ok(Value::String(text)) => assert_eq!(whole, text),
        _ if serde_json::from_str::<&RawValue>(returned).is_ok() => {
            assert_eq!(whole, returned.trim_matches([' ', '\t', '\n', '\r']));
        }
        _ => assert_eq!(whole, returned),
    }
    if kind == Kind::Json {
        assert!(serde_json::from_str::<&RawValue>(whole).is_ok());
    }
}

/// What no stage changed is the string's text, or the same JSON laid out.
fn check_whole(returned: &str, shown: &str) {
    match serde_json::from_str::<Value>(returned) {
        Ok(Value::String(text)) => assert_eq!(shown, text),
        Ok(value) => assert_eq!(serde_json::from_str::<Value>(shown).ok(), Some(value)),
        Err(_) => {}
    }
}

/// JSON that only lost elements is JSON between header and footer.
fn check_json(returned: &str, response: &Response) {
    if !matches!(response.stages[..], [Stage::Intent] | [Stage::Intent, Stage::Footer]) {
        return;
    }
    if serde_json::from_str::<Value>(returned).is_ok_and(|value| value.is_array() || value.is_object()) {
        let (_, rest) = response.text.split_once("\n\n").expect("a header");
        let has_footer = response.stages.contains(&Stage::Footer);
        let json = if has_footer { rest.rsplit_once("\n\n").expect("a footer").0 } else { rest };
        assert!(serde_json::from_str::<Value>(json).is_ok(), "no JSON: {json}");
    }
}
