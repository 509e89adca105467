//! The frame decoder against bytes that nobody meant as frames.

use proptest::collection::vec;
use proptest::prelude::*;
use toolgate_wire::codec::{
    HEADER, MAX_FROM_WORKER, decode_from_worker, decode_to_worker, encode_from_worker, encode_to_worker, frame_length,
};

/// Bytes that are a frame's first ones often enough to get somewhere.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        Just(vec![0]),
        Just(vec![1]),
        Just(vec![255]),
        vec(any::<u8>(), 1..9),
        (0u32..20).prop_map(|length| length.to_le_bytes().to_vec()),
        Just(u32::MAX.to_le_bytes().to_vec()),
        "[a-z\u{e4}]{0,8}".prop_map(|text| {
            let mut field = (text.len() as u32).to_le_bytes().to_vec();
            field.extend_from_slice(text.as_bytes());
            field
        }),
    ];
    (0u8..9, vec(field, 0..14)).prop_map(|(kind, fields)| {
        let mut bytes = vec![kind];
        bytes.extend(fields.into_iter().flatten());
        bytes
    })
}

/// What is decoded is written again byte for byte: there is one spelling of each frame.
fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(frame) = decode_from_worker(bytes) {
        let mut written = Vec::new();
        encode_from_worker(&frame, &mut written);
        prop_assert_eq!(&written[HEADER..], bytes);
    }
    if let Ok(frame) = decode_to_worker(bytes) {
        let mut written = Vec::new();
        encode_to_worker(&frame, &mut written);
        prop_assert_eq!(
            decode_to_worker(&written[HEADER..]).map(|again| format!("{again:?}")),
            Ok(format!("{frame:?}"))
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_bytes_are_a_frame_or_a_fault(bytes in vec(any::<u8>(), 0..200)) {
        check(&bytes)?;
    }

    #[test]
    fn bytes_that_look_like_a_frame_are_one_or_a_fault(bytes in payload()) {
        check(&bytes)?;
    }

    #[test]
    fn a_length_is_taken_up_to_its_bound(length in any::<u32>()) {
        let taken = frame_length(length.to_le_bytes(), MAX_FROM_WORKER);
        prop_assert_eq!(taken.is_ok(), length as usize <= MAX_FROM_WORKER);
    }
}
