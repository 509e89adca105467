//! Arrays of objects with the same keys, of which some items may lack a few.

use std::collections::VecDeque;

use super::super::size::Kb;
use super::identity::{first_scalar, identity};
use super::page::{Page, join, step};
use super::{IDENTITIES, map};
use toolgate_json::{Shape, Value, is_space};

/// Minimum number of items of a uniform array.
const MIN_ITEMS: usize = 3;

/// Maximum number of keys of a record.
const MAX_KEYS: usize = 64;

/// Maximum number of items that are printed in full.
const FIRST_ITEMS: usize = 5;

/// An array of objects with the same keys.
pub(super) struct Records<'a> {
    items: Value<'a>,
    count: usize,
    keys: Vec<Key<'a>>,
}

/// A key, and the number of items that have it.
struct Key<'a> {
    name: &'a str,
    count: usize,
}

impl<'a> Records<'a> {
    /// `None` unless all items are objects that have at least one key in common, and each at least half of all keys.
    pub(super) fn of(array: Value<'a>) -> Option<Self> {
        // Test the first byte before skipping the item: in deeply nested JSON, each level is nearly the whole text.
        let inside = array.text().strip_prefix('[')?;
        inside.trim_start_matches(is_space).strip_prefix('{')?;
        let (mut keys, mut count, mut fewest) = (Vec::new(), 0, usize::MAX);
        for item in array.entries() {
            let found = count_keys(item.value, &mut keys)?;
            fewest = fewest.min(found);
            count += 1;
        }
        let is_common = |key: &Key<'_>| key.count >= count;
        let fits = count >= MIN_ITEMS && keys.iter().any(is_common) && fewest * 2 >= keys.len();
        fits.then_some(Self { items: array, count, keys })
    }

    /// Count, keys, first items and the identities of the rest.
    pub(super) fn describe(&self, page: &mut Page, path: &str, budget: usize, depth: usize) {
        let (common, others): (Vec<_>, Vec<_>) = self.keys.iter().partition(|key| key.count >= self.count);
        let named = |keys: &[&Key<'_>]| keys.iter().map(|key| step(key.name)).collect::<Vec<_>>().join(", ");
        let some = if others.is_empty() { String::new() } else { format!("; some with: {}", named(&others)) };
        let at = if path.is_empty() { String::new() } else { format!("{path} ") };
        page.line(&format!(
            "{at}({} items, {}), each with keys: {}{some}",
            self.count,
            Kb(self.items.len()),
            named(&common)
        ));
        let shown = self.first_items(page, path, budget, depth);
        if shown < self.count {
            self.identities(page, path, shown, budget.saturating_mul(IDENTITIES));
        }
    }

    /// Prints the items that fit into half of the budget, at least one; returns their number.
    fn first_items(&self, page: &mut Page, path: &str, budget: usize, depth: usize) -> usize {
        let mut used = 0;
        let fits = |item: &Value<'_>| {
            used += path.len() + 8 + item.len();
            used <= budget / 2
        };
        let items = self.items.entries().map(|entry| entry.value);
        let shown = items.clone().take(FIRST_ITEMS).take_while(fits).count().max(1);
        for (index, item) in items.take(shown).enumerate() {
            map::describe(page, &join(path, &format!("[{index}]")), item, budget / 2 / shown, depth + 1);
        }
        shown
    }

    /// One line per item from `from` on. If not all fit, the first and the last.
    fn identities(&self, page: &mut Page, path: &str, from: usize, budget: usize) {
        let budget = budget.min(page.room());
        let tail_budget = budget / 4;
        // No identity is shorter than this, so earlier items cannot be among those at the end.
        let tail_from = self.count.saturating_sub(tail_budget / "[9] id=1".len());
        let rest = join(path, &format!("[{from}-{}]", self.count - 1));
        let mut head = format!("{rest} identities:");
        let mut tail = VecDeque::new();
        let (mut tail_bytes, mut left_out, mut named) = (0, 0usize, false);
        let mut full = false;
        for (index, item) in self.items.entries().enumerate().skip(from) {
            if full && index < tail_from {
                left_out += 1;
                continue;
            }
            let Some(identity) = identity(item.value).or_else(|| first_scalar(item.value)) else { continue };
            named = true;
            let line = format!("\n[{index}] {identity}");
            full |= head.len() + line.len() > budget - tail_budget;
            if !full {
                head.push_str(&line);
                continue;
            }
            if index < tail_from {
                left_out += 1;
                continue;
            }
            tail_bytes += line.len();
            tail.push_back(line);
            while tail_bytes + MORE_ROOM > tail_budget {
                let Some(dropped) = tail.pop_front() else { break };
                tail_bytes -= dropped.len();
                left_out += 1;
            }
        }
        if !named {
            return;
        }
        if left_out > 0 {
            head.push_str(&format!("\n… {left_out} more …"));
        }
        head.extend(tail);
        page.line(&head);
    }
}

/// Bytes reserved for the line with the number of omitted items and the line break before the list.
const MORE_ROOM: usize = 40;

/// Counts the keys of an item; returns their number. `None` if it is no object, has none, or there are too many.
fn count_keys<'a>(item: Value<'a>, keys: &mut Vec<Key<'a>>) -> Option<usize> {
    let mut found = 0;
    for (place, entry) in item.entries().enumerate() {
        let name = entry.key?;
        // Compare with the key at the same place first; search only if that fails.
        let is_here = keys.get(place).is_some_and(|key| key.name == name);
        let place = if is_here { Some(place) } else { keys.iter().position(|key| key.name == name) };
        match place {
            Some(place) => keys.get_mut(place)?.count += 1,
            None if keys.len() >= MAX_KEYS => return None,
            None => keys.push(Key { name, count: 1 }),
        }
        found += 1;
    }
    (item.shape() == Shape::Object && found > 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: bool) {
        assert_eq!(Records::of(Value::of(json)).is_some(), expected, "{json}");
    }

    #[test]
    fn records_have_the_same_keys_in_any_order() {
        check(r#"[{"a":1,"b":2},{"b":1,"a":2},{"a":[],"b":{}}]"#, true);
        check(r#"[{"a":1},{"a":1},{"a":1,"b":2}]"#, true);
        check(r#"[{"a":1},{"a":1},{"a":1,"b":2,"c":3}]"#, false);
        check(r#"[{"a":1},{"a":1},{"b":2}]"#, false);
        check(r#"[{"a":1},{"a":1},[]]"#, false);
        check(r#"[{"a":1},{"a":1}]"#, false);
        check("[{},{},{}]", false);
        check("[1,2,3]", false);
    }
}
