//! Did you mean …? Names near a name that does not exist.

/// Longest part of a name that is compared. Names come from outside and may be very long.
const COMPARED: usize = 64;
const MOST: usize = 3;

/// Up to three of `candidates` that a writer of `name` may have meant, the nearest first.
pub(crate) fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Vec<String> {
    let wanted = Folded::new(name);
    let mut scored: Vec<(usize, &str)> =
        candidates.into_iter().filter_map(|one| Some((wanted.distance(one)?, one))).collect();
    scored.sort();
    scored.dedup();
    // Beside a near name a far one only distracts.
    let best = scored.first().map_or(0, |(distance, _)| *distance);
    scored.retain(|(distance, _)| *distance <= best + 1);
    scored.into_iter().take(MOST).map(|(_, one)| one.to_owned()).collect()
}

/// "Did you mean `a`, `b` or `c`?"
pub(crate) fn question(names: &[String]) -> Option<String> {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => None,
        [one] => Some(format!("Did you mean {one}?")),
        [first @ .., last] => Some(format!("Did you mean {} or {last}?", first.join(", "))),
    }
}

struct Folded(Vec<char>);

impl Folded {
    /// Case, `-`, `_` and `.` make no difference to what someone meant.
    fn new(name: &str) -> Self {
        let kept = name.chars().take(COMPARED).filter(|c| !matches!(c, '-' | '_' | '.' | ' '));
        Self(kept.flat_map(char::to_lowercase).collect())
    }

    fn distance(&self, other: &str) -> Option<usize> {
        let other = Self::new(other);
        let longest = self.0.len().max(other.0.len());
        let edits = edits(&self.0, &other.0);
        if edits <= (longest / 3).max(1) && edits < longest {
            return Some(edits);
        }
        // `search` for `web_search_exa`: a whole word of the name.
        let contains =
            |long: &[char], short: &[char]| short.len() >= 4 && long.windows(short.len()).any(|w| w == short);
        (contains(&other.0, &self.0) || contains(&self.0, &other.0)).then_some(COMPARED + edits)
    }
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from one to the other.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX / 2);
            let mut best = (at(&last, j) + usize::from(x != y)).min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            if i > 0 && j > 0 && Some(x) == b.get(j - 1) && a.get(i - 1) == Some(y) {
                best = best.min(at(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: [&str; 6] = ["web_search", "web_fetch", "list_files", "read-file", "readFile", "delete"];

    #[track_caller]
    fn check(name: &str, expected: &[&str]) {
        assert_eq!(nearest(name, TOOLS), expected, "{name}");
    }

    #[test]
    fn typing_errors_case_and_hyphens_are_seen_through() {
        check("web_serch", &["web_search", "web_fetch"]);
        check("websearch", &["web_search"]);
        check("Web-Search", &["web_search"]);
        check("web_saerch", &["web_search"]);
        check("read_file", &["read-file", "readFile"]);
    }

    #[test]
    fn a_word_of_a_longer_name_is_enough() {
        check("search", &["web_search"]);
        check("files", &["list_files"]);
    }

    #[test]
    fn nothing_near_gives_nothing() {
        check("zzz", &[]);
        check("", &[]);
        check("x", &[]);
    }

    #[test]
    fn a_question_reads_as_one() {
        assert_eq!(question(&[]), None);
        assert_eq!(question(&["a".into(), "b".into(), "c".into()]).as_deref(), Some("Did you mean `a`, `b` or `c`?"));
    }

    #[test]
    fn huge_names_cost_little() {
        let long = "a".repeat(10_000);
        assert_eq!(nearest(&long, [long.as_str()]), [long.as_str()]);
    }
}
