//! The output pipeline, the chunker above all, over any text: bounded, never larger than its input, no panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_gateway::output::{MAX_HEADER_SIZE, OutputSettings, Stage, shape};

fuzz_target!(|input: (u16, u16, u8, &str)| {
    let (chunk_threshold, max_output_size, switches, returned) = input;
    let settings = OutputSettings {
        intent: switches & 1 != 0,
        auto_chunk_json: switches & 2 == 0,
        smart_truncation: switches & 4 == 0,
        chunk_threshold: chunk_threshold.into(),
        max_output_size: max_output_size.into(),
    };
    let mut kept = false;
    let response = shape(returned, &settings, Some("id error name"), &mut |whole| {
        kept = true;
        assert!(whole.text.len() <= returned.len());
        None
    });
    assert!(response.text.len() <= settings.max_output_size);
    assert_eq!(response.text.len(), response.bytes_returned);
    assert_eq!(kept, !response.stages.is_empty());
    let header = if response.stages.contains(&Stage::Intent) { MAX_HEADER_SIZE } else { 0 };
    assert!(response.text.len() <= response.bytes_processed + header);
});
