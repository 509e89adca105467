//! The map of key paths: the values with their sizes, and as much data as fits.
//!
//! The budget is divided by max-min fairness: an entry that needs less than its share leaves the rest to larger ones, so
//! that small values are printed in full beside a large one.

use super::super::size::Kb;
use super::described;
use super::identity::{glimpse, identity};
use super::page::{Page, clipped, join, step};
use super::uniform::Records;
use toolgate_json::{JsonEntry, Shape, Value, minified, minified_head};

/// Maximum depth of the map; deeper containers are printed as their first bytes. The time of an outline is depth times
/// size.
const MAX_DEPTH: usize = 10;

/// Minimum number of bytes for the content of a line.
const MIN_LINE: usize = 48;

/// Minimum number of bytes per entry; entries beyond the budget are only named.
const MIN_SHARE: usize = 160;

/// Number of entries that get a line even below [`MIN_SHARE`].
const MIN_SHOWN: usize = 4;

/// Minimum budget for the entries of a container; below it the container is printed as its first bytes.
const MIN_NESTED: usize = 192;

/// Maximum size of a container that is printed in full.
const MAX_INLINE: usize = 1_024;

/// Maximum length of an array that is printed by element; longer ones are printed by range.
const MAX_LISTED: usize = 16;

/// Minimum number of items in a range.
const MIN_RANGE: usize = 5;

/// Maximum number of ranges of an array.
const MAX_RANGES: usize = 20;

/// Number of single items before the ranges.
const FIRST_ITEMS: usize = 3;

/// Prints one value in about `budget` bytes.
pub(super) fn describe(page: &mut Page, path: &str, value: Value<'_>, budget: usize, depth: usize) {
    let room = budget.saturating_sub(path.len() + 2);
    let room = if value.is_container() { room.min(MAX_INLINE) } else { room };
    if let Some(small) = minified(value, room) {
        page.line(&labelled(path, ": ", &small));
        return;
    }
    if !value.is_container() {
        excerpt(page, path, value, budget);
        return;
    }
    if depth < MAX_DEPTH && budget >= MIN_NESTED {
        container(page, path, value, budget, depth);
    } else {
        stub(page, path, value, budget);
    }
}

fn container(page: &mut Page, path: &str, value: Value<'_>, budget: usize, depth: usize) {
    if let Some(records) = Records::of(value) {
        records.describe(page, path, budget, depth);
        return;
    }
    // One pass for both: in deeply nested JSON, each level is nearly the whole text.
    let mut rest = value.entries();
    let first: Vec<_> = rest.by_ref().take(MAX_LISTED).collect();
    let count = first.len() + rest.count();
    let before = page.room();
    if !path.is_empty() {
        page.line(&sized(path, value, count));
    }
    let budget = budget.saturating_sub(before - page.room());
    if count == first.len() {
        entries(page, path, first.into_iter(), budget, depth);
    } else if value.shape() == Shape::Array {
        ranges(page, path, (value, count), budget, depth);
    } else {
        entries(page, path, value.entries(), budget, depth);
    }
}

fn labelled(path: &str, separator: &str, text: &str) -> String {
    if path.is_empty() { text.to_owned() } else { format!("{path}{separator}{text}") }
}

/// Head and tail of a long scalar.
fn excerpt(page: &mut Page, path: &str, value: Value<'_>, budget: usize) {
    let label = format!("{path} (string, {}): ", Kb(value.len()));
    let label = if value.shape() == Shape::String { label } else { format!("{path}: ") };
    let shown = clipped(value.text(), budget.saturating_sub(label.len()).max(MIN_LINE));
    page.line(&format!("{label}{shown}"));
}

/// The size and identity of a container, and its first bytes if there is room.
fn stub(page: &mut Page, path: &str, value: Value<'_>, budget: usize) {
    let mut line = sized(path, value, value.entries().count());
    if let Some(identity) = identity(value) {
        line.push(' ');
        line.push_str(&identity);
    }
    let left = budget.saturating_sub(line.len() + 8);
    if left >= MIN_LINE / 2 {
        line.push_str(": ");
        line.push_str(&minified_head(value, left));
        line.push_str(" …");
    }
    page.line(&line);
}

fn sized(path: &str, value: Value<'_>, count: usize) -> String {
    format!("{path} ({}, {})", described(value, count), Kb(value.len()))
}

/// The entries that fit, and the names of the others.
fn entries<'a>(page: &mut Page, path: &str, all: impl Iterator<Item = JsonEntry<'a>>, budget: usize, depth: usize) {
    let mut shown = Vec::new();
    let mut rest = all.enumerate().peekable();
    let mut least = 0;
    while let Some((index, entry)) = rest.peek() {
        let path = child(path, *index, entry);
        least += (path.len() + 3 + entry.value.len()).min(path.len() + MIN_SHARE);
        if least > budget / 4 * 3 && shown.len() >= MIN_SHOWN {
            break;
        }
        shown.push((path, entry.value));
        rest.next();
    }
    let others = unshown(rest.map(|(_, entry)| entry), budget / 4);
    let budget = budget.saturating_sub(others.as_ref().map_or(0, |line| line.len() + path.len()));
    let needs: Vec<_> = shown.iter().map(|(path, value)| path.len() + 3 + value.len()).collect();
    let share = fair_share(&needs, budget);
    for (path, value) in shown {
        describe(page, &path, value, share, depth + 1);
    }
    if let Some(others) = others {
        page.line(&join(path, &others));
    }
}

fn child(path: &str, index: usize, entry: &JsonEntry<'_>) -> String {
    match entry.key {
        Some(key) => join(path, &step(key)),
        None => join(path, &format!("[{index}]")),
    }
}

/// `… 12 more (3.4KB): names` for the entries without a line.
fn unshown<'a>(entries: impl Iterator<Item = JsonEntry<'a>>, budget: usize) -> Option<String> {
    let (mut count, mut bytes) = (0usize, 0);
    let mut names = String::new();
    let mut all_named = true;
    for entry in entries {
        count += 1;
        bytes += entry.end - entry.lead;
        let Some(name) = entry.key.filter(|_| all_named).map(step) else { continue };
        all_named = names.len() + name.len() + 32 <= budget;
        names.push_str(if names.is_empty() { ": " } else { ", " });
        names.push_str(if all_named { &name } else { "…" });
    }
    (count > 0).then(|| format!("… {count} more ({}){names}", Kb(bytes)))
}

/// The max-min fair share of the budget.
fn fair_share(needs: &[usize], budget: usize) -> usize {
    let mut needs = needs.to_vec();
    needs.sort_unstable();
    let mut left = budget;
    for (place, need) in needs.iter().enumerate() {
        let share = left / (needs.len() - place);
        if *need > share {
            return share;
        }
        left -= need;
    }
    budget
}

/// A long array of different items: the first ones, then ranges with sizes and identities.
fn ranges(page: &mut Page, path: &str, (array, count): (Value<'_>, usize), budget: usize, depth: usize) {
    let scalars = array.entries().take(FIRST_ITEMS).all(|entry| !entry.value.is_container());
    if !scalars {
        for (index, entry) in array.entries().take(FIRST_ITEMS).enumerate() {
            describe(page, &join(path, &format!("[{index}]")), entry.value, budget / 2 / FIRST_ITEMS, depth + 1);
        }
    }
    let left = if scalars { budget } else { budget / 2 };
    let fitting = (left / (path.len() + 2 * MIN_LINE)).clamp(1, MAX_RANGES);
    let length = count.div_ceil(fitting).max(MIN_RANGE);
    let share = left / count.div_ceil(length);
    let mut items = array.entries();
    for from in (0..count).step_by(length) {
        let to = (from + length).min(count);
        let line = range(&join(path, &format!("[{from}-{}]", to - 1)), items.by_ref().take(to - from), share);
        page.line(&line);
    }
}

/// One range: its size, and the short forms of its items as far as they fit.
fn range<'a>(label: &str, items: impl Iterator<Item = JsonEntry<'a>>, budget: usize) -> String {
    let mut bytes = 0;
    let mut glimpses = String::new();
    let mut fits = true;
    for item in items {
        bytes += item.end - item.lead;
        let Some(glimpse) = fits.then(|| glimpse(item.value)).flatten() else { continue };
        fits = label.len() + glimpses.len() + glimpse.len() + 24 <= budget;
        glimpses.push_str(if glimpses.is_empty() { ": " } else { "; " });
        glimpses.push_str(if fits { &glimpse } else { "…" });
    }
    format!("{label} ({}){glimpses}", Kb(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_small_do_not_need_the_large_get() {
        assert_eq!(fair_share(&[10, 1_000, 10], 320), 300);
        assert_eq!(fair_share(&[100, 100], 50), 25);
        assert_eq!(fair_share(&[1, 2], 100), 100);
        assert_eq!(fair_share(&[], 7), 7);
    }
}
