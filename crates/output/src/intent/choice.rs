//! A bit set of the sections that stay: a megabyte of two-byte sections needs 64 KB.
//!
//! The sections are written in a second pass, when their total size is known, so that the output is not reallocated.

/// One bit per section, in order.
#[derive(Default)]
pub(super) struct Choice {
    words: Vec<u64>,
    first: Option<usize>,
    pub(super) kept: usize,
    pub(super) all: usize,
    /// Total bytes of the sections that stay.
    pub(super) bytes: usize,
}

impl Choice {
    /// Adds the next section.
    pub(super) fn push(&mut self, stays: bool, bytes: usize) {
        let (place, bit) = (self.all, self.all % 64);
        if bit == 0 {
            self.words.push(0);
        }
        self.all += 1;
        if stays {
            if let Some(word) = self.words.last_mut() {
                *word |= 1 << bit;
            }
            self.first.get_or_insert(place);
            self.kept += 1;
            self.bytes += bytes;
        }
    }

    /// Whether some sections stay and some do not.
    pub(super) fn leaves_out(&self) -> bool {
        self.kept > 0 && self.kept < self.all
    }

    pub(super) fn has(&self, place: usize) -> bool {
        self.words.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    pub(super) fn is_first(&self, place: usize) -> bool {
        self.first == Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_is_as_it_was_marked() {
        let mut choice = Choice::default();
        (0..200).for_each(|place| choice.push(place % 3 == 1, place));
        assert!((0..300).all(|place| choice.has(place) == (place < 200 && place % 3 == 1)));
        assert_eq!((choice.kept, choice.all, choice.bytes), (67, 200, (0..67).map(|n| 3 * n + 1).sum()));
        assert!(choice.leaves_out() && choice.is_first(1) && !choice.is_first(4));
    }

    #[test]
    fn none_or_all_leave_nothing_out() {
        for stays in [true, false] {
            let mut choice = Choice::default();
            assert!(!choice.leaves_out());
            (0..70).for_each(|_| choice.push(stays, 1));
            assert!(!choice.leaves_out());
        }
    }
}
