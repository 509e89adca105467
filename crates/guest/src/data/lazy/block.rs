//! Sixteen bytes of text at a time.

#![allow(unsafe_code)]

/// Where in the block the first quote, backslash or control character is.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn first_special(block: &[u8; 16]) -> Option<usize> {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    // SAFETY: every x86-64 has these instructions; the load reads the block's sixteen bytes, however they are aligned.
    let found = unsafe {
        let bytes = _mm_loadu_si128(block.as_ptr().cast());
        let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8));
        let slashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
        let controls = _mm_cmpeq_epi8(bytes, _mm_min_epu8(bytes, _mm_set1_epi8(0x1f)));
        _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quotes, slashes), controls))
    };
    (found != 0).then(|| found.trailing_zeros() as usize)
}

/// The same, for other machines.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline]
pub(super) fn first_special_anywhere(block: &[u8; 16]) -> Option<usize> {
    const ONES: u128 = u128::MAX / 0xff;
    let bytes = u128::from_le_bytes(*block);
    let zero_if_quote = bytes ^ (ONES * b'"' as u128);
    let zero_if_slash = bytes ^ (ONES * b'\\' as u128);
    let found = (zero_if_quote.wrapping_sub(ONES) & !zero_if_quote)
        | (zero_if_slash.wrapping_sub(ONES) & !zero_if_slash)
        | (bytes.wrapping_sub(ONES * 0x20) & !bytes);
    // A borrow can only spoil bytes above the first hit, and the first is the one that counts.
    let found = found & (ONES * 0x80);
    (found != 0).then(|| (found.trailing_zeros() / 8) as usize)
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) use first_special_anywhere as first_special;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{first_special, first_special_anywhere};

    fn plainly(block: &[u8; 16]) -> Option<usize> {
        block.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < 0x20)
    }

    #[test]
    fn every_byte_is_special_or_not_at_every_place() {
        for byte in 0..=u8::MAX {
            for at in 0..16 {
                let mut block = [b'a'; 16];
                block[at] = byte;
                let expected = plainly(&block);
                assert_eq!((first_special(&block), first_special_anywhere(&block)), (expected, expected), "{block:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_first_of_several_is_found(block: [u8; 16]) {
            let expected = plainly(&block);
            prop_assert_eq!((first_special(&block), first_special_anywhere(&block)), (expected, expected));
        }
    }
}
