//! Edit distance between two spellings.

/// The optimal string alignment distance (insertions, deletions, replacements and swaps of neighbours) of `a` and `b`, or
/// `None` if it exceeds `bound`.
///
/// Costs `|a| * |b|` steps, so callers bound the length of input from outside.
pub(super) fn within(a: &str, b: &str, bound: usize) -> Option<usize> {
    // The difference in length is a lower bound of the distance and cheaper to compute.
    if a.chars().count().abs_diff(b.chars().count()) > bound {
        return None;
    }
    // So is the number of letters that only one of them has: a step adds or removes at most one.
    if a.is_ascii() && b.is_ascii() {
        let (in_a, in_b) = (letters(a), letters(b));
        if (in_a & !in_b).count_ones().max((in_b & !in_a).count_ones()) as usize > bound {
            return None;
        }
    }
    Some(strsim::osa_distance(a, b)).filter(|&steps| steps <= bound)
}

/// The set of the bytes of `text`, each by its last five bits.
fn letters(text: &str) -> u32 {
    text.bytes().fold(0, |set, byte| set | 1 << (byte & 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(a: &str, b: &str, expected: Option<usize>) {
        assert_eq!(within(a, b, 2), expected);
        assert_eq!(within(b, a, 2), expected);
    }

    #[test]
    fn every_kind_of_typing_error_is_one_step() {
        check("search", "search", Some(0));
        check("search", "serch", Some(1));
        check("search", "seearch", Some(1));
        check("search", "saarch", Some(1));
        check("search", "saerch", Some(1));
    }

    #[test]
    fn letters_count_not_bytes() {
        check("größe", "grösse", Some(2));
        check("", "ab", Some(2));
    }

    #[test]
    fn a_distance_above_the_bound_is_no_match() {
        check("search", "fetch", None);
        check("", "abc", None);
    }
}
