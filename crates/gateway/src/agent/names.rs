//! Names under which a client sees what backends call by names of their own.
//!
//! A name is `backend__own`, at most 64 characters of `A-Z a-z 0-9 _ -`, as the strictest clients want it; `prefix:
//! false` leaves the backend's out. Where two would get one name, both get a number made from their own names: a new
//! backend can make a name longer, never give it to another.

use std::collections::{HashMap, HashSet};

use ring::digest::{SHA256, digest};

use toolgate_config::Checked;

/// Longest name.
const MAX_NAME: usize = 64;
/// Hexadecimal digits that tell apart what would look the same.
const DIGITS: usize = 12;

/// A name, and what it stands for: a backend's own name for something.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) backend: String,
    pub(super) own: String,
}

/// Whether the configuration keeps a backend's name out.
pub(super) fn is_bare(config: &Checked, backend: &str) -> bool {
    config.backends.get(backend).is_some_and(|it| !it.policy.prefix)
}

/// A name for each of these pairs of a backend and a name of its own. None is one that `is_taken`.
pub(super) fn named(
    owned: impl Iterator<Item = (String, String)>,
    is_bare: impl Fn(&str) -> bool,
    is_taken: impl Fn(&str) -> bool,
) -> Vec<Named> {
    let mut rows: Vec<Named> = owned
        .map(|(backend, own)| {
            let name = if is_bare(&backend) { plain(&own) } else { joined(&backend, &own) };
            Named { name, backend, own }
        })
        .collect();
    let mut wanted: HashMap<String, usize> = HashMap::new();
    rows.iter().for_each(|row| *wanted.entry(row.name.clone()).or_default() += 1);
    for row in &mut rows {
        let alone = wanted.get(&row.name) == Some(&1) && !is_taken(&row.name);
        if !alone || row.name.is_empty() || row.name.len() > MAX_NAME {
            row.name = numbered(&row.backend, &row.own);
        }
    }
    // Two names with one digest do not happen by chance; of two made on purpose only the first is shown.
    let mut seen = HashSet::new();
    rows.retain(|row| seen.insert(row.name.clone()));
    rows
}

/// Whether a name is made with the name of this backend.
pub(super) fn begins_with(name: &str, backend: &str) -> bool {
    name.strip_prefix(&plain(backend)).is_some_and(|rest| rest.starts_with("__"))
}

fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect()
}

fn joined(backend: &str, tool: &str) -> String {
    format!("{}__{}", plain(backend), plain(tool))
}

fn numbered(backend: &str, tool: &str) -> String {
    let name = joined(backend, tool);
    let hash = digest(&SHA256, format!("{backend}\0{tool}").as_bytes());
    let digits: String = hash.as_ref().iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect();
    // All ASCII by now, so every place is a boundary.
    format!("{}_{digits}", name.get(..name.len().min(MAX_NAME - DIGITS - 1)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::agent::tools::is_taken;

    /// A backend whose name begins with `bare` has no prefix.
    fn names(backends: &[(&str, &[&str])]) -> Vec<String> {
        let owned = backends.iter().flat_map(|(backend, tools)| tools.iter().map(move |tool| (*backend, *tool)));
        let owned = owned.map(|(backend, tool)| (backend.to_owned(), tool.to_owned()));
        let rows = named(owned, |backend| backend.starts_with("bare"), is_taken);
        rows.into_iter().map(|row| row.name).collect()
    }

    #[test]
    fn a_plain_name_is_backend_and_tool() {
        assert_eq!(names(&[("exa", &["web-search"])]), ["exa__web-search"]);
    }

    #[test]
    fn names_that_would_be_one_are_told_apart_on_both_sides() {
        let both = names(&[("a", &["b__c"]), ("a__b", &["c"])]);
        assert!(both.iter().all(|name| name.starts_with("a__b__c_") && name.len() == 8 + DIGITS), "{both:?}");
        assert_ne!(both[0], both[1]);
        assert_eq!(names(&[("a", &["x y", "x_y"])]).len(), 2);
    }

    #[test]
    fn without_a_prefix_a_tool_keeps_its_own_name() {
        assert_eq!(names(&[("a", &["find"]), ("bare", &["find", "web-search"])]), ["a__find", "find", "web-search"]);
    }

    #[test]
    fn a_bare_name_that_another_tool_has_is_neither_s() {
        let numbered = |name: &str, start: &str| name.starts_with(start) && name.len() == start.len() + DIGITS;
        let both = names(&[("bare1", &["find"]), ("bare2", &["find"])]);
        assert!(numbered(&both[0], "bare1__find_") && numbered(&both[1], "bare2__find_"), "{both:?}");
        let crossed = names(&[("a", &["find"]), ("bare", &["a__find"])]);
        assert!(numbered(&crossed[0], "a__find_") && numbered(&crossed[1], "bare__a__find_"), "{crossed:?}");
    }

    #[test]
    fn a_bare_name_is_never_one_of_the_gateway_s_own() {
        for own in ["call_tool_chain", "register_manual"] {
            assert!(names(&[("bare", &[own])])[0].starts_with(&format!("bare__{own}_")));
        }
    }

    #[test]
    fn a_long_or_odd_name_is_short_and_plain() {
        let long = "x".repeat(10_000);
        let odd: [&str; 5] = ["\"];evil//", "🙂", &long, "__proto__", ""];
        for name in names(&[("böse", &odd), ("bare", &odd)]) {
            assert!(!name.is_empty() && name.len() <= MAX_NAME, "{name}");
            assert!(name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-'), "{name}");
        }
    }

    #[test]
    fn the_same_tool_has_the_same_name_every_time() {
        let long = "y".repeat(100);
        let alone = names(&[("b", &[&long])]);
        let among = names(&[("a", &["z"]), ("b", &[&long]), ("c", &["z"])]);
        assert!(among.contains(&alone[0]));
    }
}
