//! How far apart two spellings are.

/// The least number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`,
/// or `None` where it is more than `bound`.
///
/// Costs `|a| * |b|` steps, so callers bound the length of what comes from outside.
pub(super) fn within(a: &str, b: &str, bound: usize) -> Option<usize> {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    if a.len().abs_diff(b.len()) > bound {
        return None;
    }
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i + 1);
        for (j, &y) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        if row.iter().all(|&steps| steps > bound) {
            return None;
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|&steps| steps <= bound)
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
    fn every_kind_of_slip_is_one_step() {
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
    fn what_is_further_than_the_bound_is_no_match() {
        check("search", "fetch", None);
        check("", "abc", None);
    }
}
