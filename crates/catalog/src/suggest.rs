//! Did you mean …?

use super::distance;
use super::snapshot::Catalog;

/// A hint with more guesses is a list, not a hint.
const MAX_SUGGESTIONS: usize = 3;
/// Nobody mistypes a name of this length by hand; beyond it the comparison would only cost.
const MAX_LENGTH: usize = 100;

/// What kind of name was not found.
#[derive(Debug, Clone, Copy)]
pub enum Misspelt<'a> {
    /// A backend.
    Backend,
    /// A tool of this backend, which is known (either spelling).
    ToolOf(&'a str),
    /// A tool, wherever it is: suggestions are spelt `backend.tool`.
    Tool,
}

impl Catalog {
    /// Up to three names, as code spells them, that `written` may have been meant to be, nearest first.
    pub fn suggest(&self, kind: Misspelt<'_>, written: &str) -> Vec<String> {
        match kind {
            Misspelt::Backend => nearest(
                written,
                self.backends().iter().map(|backend| (backend.name(), backend.identifier().to_owned())),
            ),
            Misspelt::ToolOf(backend) => {
                let tools = self.backend(backend).map_or(&[][..], |backend| backend.tools());
                nearest(written, tools.iter().map(|entry| (entry.tool().name.as_str(), entry.identifier().to_owned())))
            }
            Misspelt::Tool => {
                let bare = written.rsplit('.').next().unwrap_or(written);
                nearest(bare, self.tools().map(|tool| (tool.tool().name.as_str(), tool.spelling())))
            }
        }
    }
}

/// The best of `candidates`, each a name to compare and a text to suggest.
pub(super) fn nearest<'a>(written: &str, candidates: impl Iterator<Item = (&'a str, String)>) -> Vec<String> {
    let written = fold(written);
    if written.is_empty() || written.chars().count() > MAX_LENGTH {
        return Vec::new();
    }
    let mut near: Vec<(usize, String)> = candidates
        .filter(|(name, _)| name.len() <= MAX_LENGTH)
        .filter_map(|(name, suggestion)| Some((steps(&written, &fold(name))?, suggestion)))
        .collect();
    near.sort();
    near.dedup();
    near.into_iter().map(|(_, suggestion)| suggestion).take(MAX_SUGGESTIONS).collect()
}

/// Case and separators are what writers mix up most, so they count for nothing.
fn fold(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// How far `name` is from `written`; a third of the letters may be wrong, and a part of a longer name is near too.
fn steps(written: &str, name: &str) -> Option<usize> {
    let length = written.chars().count();
    let bound = (length / 3).clamp(1, 4);
    let contained = || {
        let shorter = length.min(name.chars().count());
        (shorter >= 4 && (name.contains(written) || written.contains(name))).then_some(bound + 1)
    };
    distance::within(written, name, bound).or_else(contained)
}

#[cfg(test)]
mod tests {
    use super::super::{BackendState, Listing, Tool};
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(kind: Misspelt<'_>, written: &str, expected: &[&str]) {
        let listing = |name: &str, tools: &[&str]| Listing {
            name: name.into(),
            state: BackendState::Ready,
            tools: tools.iter().filter_map(|name| Tool::from_raw(json!({ "name": name }))).collect(),
            tags: Vec::new(),
        };
        let catalog = Catalog::new(vec![
            listing("exa", &["web_search_exa", "find-similar", "crawl", "list_a", "list_b", "list_c", "list_d"]),
            listing("my-github", &["createIssue", "crawl"]),
        ]);
        assert_eq!(catalog.suggest(kind, written), expected);
    }

    #[test]
    fn case_and_separators_do_not_matter() {
        check(Misspelt::Backend, "MyGitHub", &["my_github"]);
        check(Misspelt::ToolOf("exa"), "findSimilar", &["find_similar"]);
        check(Misspelt::ToolOf("my_github"), "create_issue", &["createIssue"]);
    }

    #[test]
    fn a_slip_of_the_fingers_is_forgiven() {
        check(Misspelt::Backend, "eax", &["exa"]);
        check(Misspelt::ToolOf("exa"), "carwl", &["crawl"]);
    }

    #[test]
    fn part_of_a_name_is_enough() {
        check(Misspelt::ToolOf("exa"), "web_search", &["web_search_exa"]);
    }

    #[test]
    fn a_tool_anywhere_is_suggested_with_its_backend() {
        check(Misspelt::Tool, "exxa.crawll", &["exa.crawl", "my_github.crawl"]);
    }

    #[test]
    fn no_more_than_three_are_suggested() {
        check(Misspelt::ToolOf("exa"), "list_e", &["list_a", "list_b", "list_c"]);
    }

    #[test]
    fn nothing_near_is_nothing_suggested() {
        check(Misspelt::Backend, "postgres", &[]);
        check(Misspelt::Backend, "", &[]);
        check(Misspelt::ToolOf("nope"), "crawl", &[]);
        check(Misspelt::Tool, &"x".repeat(1_000_000), &[]);
    }
}
