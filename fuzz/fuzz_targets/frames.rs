//! The frame decoder, which is the one place where a worker's bytes are read.
//!
//! Whatever the bytes are, the decoder gives a frame or a fault; a frame is written again as the
//! same bytes, so there is no second spelling for a worker to hide behind. The host's own frames may
//! be spelt in two ways, but what is written again is read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_wire::codec::{
    HEADER, MAX_FROM_WORKER, decode_from_worker, decode_to_worker, encode_from_worker, encode_to_worker, frame_length,
};

fuzz_target!(|bytes: &[u8]| {
    if let Some(header) = bytes.first_chunk::<HEADER>() {
        assert!(
            frame_length(*header, MAX_FROM_WORKER).is_ok_and(|length| length <= MAX_FROM_WORKER)
                == (u32::from_le_bytes(*header) as usize <= MAX_FROM_WORKER)
        );
    }
    if let Ok(frame) = decode_from_worker(bytes) {
        let mut written = Vec::new();
        encode_from_worker(&frame, &mut written);
        assert_eq!(&written[HEADER..], bytes);
        assert_eq!(frame_length(*written.first_chunk().expect("a header"), MAX_FROM_WORKER), Ok(bytes.len()));
    }
    if let Ok(frame) = decode_to_worker(bytes) {
        let (mut once, mut again) = (Vec::new(), Vec::new());
        encode_to_worker(&frame, &mut once);
        let read = decode_to_worker(&once[HEADER..]).expect("what was written can be read");
        encode_to_worker(&read, &mut again);
        assert_eq!(once, again);
    }
});
