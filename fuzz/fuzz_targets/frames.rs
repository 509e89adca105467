//! The frame decoder, which is the one place where a worker's bytes are read.
//!
//! Whatever the bytes are, the decoder gives a frame or a fault; a frame is written again as the
//! same bytes, so there is no second spelling for a worker to hide behind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_wire::codec::{
    HEADER, MAX_FROM_WORKER, decode_from_worker, decode_to_worker, encode_from_worker, encode_to_worker, frame_length,
};

fuzz_target!(|bytes: &[u8]| {
    if let Some(header) = bytes.first_chunk::<HEADER>() {
        let _ = frame_length(*header, MAX_FROM_WORKER);
    }
    if let Ok(frame) = decode_from_worker(bytes) {
        let mut written = Vec::new();
        encode_from_worker(&frame, &mut written);
        assert_eq!(&written[HEADER..], bytes);
    }
    if let Ok(frame) = decode_to_worker(bytes) {
        let mut written = Vec::new();
        encode_to_worker(&frame, &mut written);
        let _ = decode_to_worker(&written[HEADER..]);
    }
});
