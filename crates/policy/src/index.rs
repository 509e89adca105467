//! Which rules can be about a tool, found without looking at every pattern.
//!
//! A rule that names one tool is found by that name, and a pattern that spells out what stands before the first dot by that
//! text; every other pattern is always looked at. The index may give a rule that is not about the tool, and never leaves one
//! out.

use std::collections::HashMap;

use crate::Glob;

/// Positions of rules, by the beginning of their patterns.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RuleIndex {
    exact: HashMap<String, Vec<u32>>,
    by_backend: HashMap<String, Vec<u32>>,
    others: Vec<u32>,
}

impl RuleIndex {
    /// An index of these patterns by their positions.
    pub(crate) fn new<'a>(patterns: impl Iterator<Item = &'a Glob>) -> Self {
        let mut index = RuleIndex::default();
        for (pattern, position) in patterns.zip(0_u32..) {
            let text = pattern.as_str();
            let literal = text.split(['*', '?']).next().unwrap_or_default();
            let list = if literal.len() == text.len() {
                index.exact.entry(text.to_owned()).or_default()
            } else if let Some((backend, _)) = literal.split_once('.') {
                index.by_backend.entry(backend.to_owned()).or_default()
            } else {
                &mut index.others
            };
            list.push(position);
        }
        index
    }

    /// The positions of the rules that may be about a tool with these spellings, each once and in order.
    pub(crate) fn candidates<'a>(&'a self, paths: &[&str]) -> Candidates<'a> {
        let mut lists = Vec::with_capacity(2 * paths.len() + 1);
        lists.push(self.others.as_slice());
        for path in paths {
            lists.extend(self.exact.get(*path).map(Vec::as_slice));
            let backend = path.split_once('.').and_then(|(backend, _)| self.by_backend.get(backend));
            lists.extend(backend.map(Vec::as_slice));
        }
        Candidates { lists }
    }
}

/// Ascending lists, merged.
pub(crate) struct Candidates<'a> {
    lists: Vec<&'a [u32]>,
}

impl Iterator for Candidates<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let least = self.lists.iter().filter_map(|list| list.first().copied()).min()?;
        for list in &mut self.lists {
            if let Some((first, rest)) = list.split_first()
                && *first == least
            {
                *list = rest;
            }
        }
        usize::try_from(least).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_rule_about_a_tool_is_left_out(
            patterns in prop::collection::vec("[ab.*?]{0,6}", 0..40),
            paths in prop::collection::vec("[ab.]{0,6}", 1..3),
        ) {
            let globs: Vec<Glob> = patterns.into_iter().map(Glob::new).collect();
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let index = RuleIndex::new(globs.iter());
            let found: Vec<usize> = index.candidates(&paths).collect();
            prop_assert!(found.is_sorted_by(|one, other| one < other), "{found:?}");
            let about = |found: &dyn Fn(usize) -> bool| -> Vec<usize> {
                let matches = |at: &usize| paths.iter().any(|path| globs[*at].matches(path));
                (0..globs.len()).filter(|at| found(*at)).filter(matches).collect()
            };
            prop_assert_eq!(about(&|at| found.contains(&at)), about(&|_| true));
        }
    }
}
