//! Suggests existing backend and tool names for a name that does not exist.

use super::distance;
use super::snapshot::Catalog;

/// Maximum number of suggestions for one name.
const MAX_SUGGESTIONS: usize = 3;
/// Maximum length of a name that is compared; bounds the cost of the edit distance.
const MAX_COMPARED_LENGTH: usize = 100;

/// The kind of a name that was not found.
#[derive(Debug, Clone, Copy)]
pub enum UnknownName<'a> {
    /// A backend.
    Backend,
    /// A tool of this existing backend (original name or identifier).
    ToolOf(&'a str),
    /// A tool of any backend; suggestions have the form `backend.tool`.
    Tool,
}

impl Catalog {
    /// Up to three identifiers that are similar to `written`, nearest first.
    pub fn suggest(&self, kind: UnknownName<'_>, written: &str) -> Vec<String> {
        match kind {
            UnknownName::Backend => nearest(
                written,
                self.backends().iter().map(|backend| (backend.name(), backend.identifier().to_owned())),
            ),
            UnknownName::ToolOf(backend) => {
                let tools = self.backend(backend).map_or(&[][..], |backend| backend.tools());
                nearest(written, tools.iter().map(|entry| (entry.tool().name.as_str(), entry.identifier().to_owned())))
            }
            UnknownName::Tool => self.suggest_tool(written),
        }
    }

    /// Tools of the backend that a path begins with; where it has no similar one, those of any, similar backends first.
    fn suggest_tool(&self, written: &str) -> Vec<String> {
        let own = self.backends().iter().find_map(|backend| {
            let rest = |name: &str| written.strip_prefix(name)?.strip_prefix('.');
            Some((backend, rest(backend.name()).or_else(|| rest(backend.identifier()))?))
        });
        if let Some((backend, bare)) = own {
            let spelled = |name: &str| format!("{}.{name}", backend.identifier());
            let tools = backend.tools().iter().map(|it| (it.tool().name.as_str(), spelled(it.identifier())));
            let near = nearest(bare, tools);
            if !near.is_empty() {
                return near;
            }
        }
        let (receiver, bare) = written.rsplit_once('.').unwrap_or(("", written));
        let is_other = |backend: &str| receiver.is_empty() || steps(&fold(receiver), &fold(backend)).is_none();
        let tools =
            self.tools().map(|tool| (is_other(tool.backend.name()), tool.tool().name.as_str(), tool.spelling()));
        nearest_first(bare, tools)
    }
}

/// The nearest of `candidates`, each a name to compare and a text to suggest.
pub(super) fn nearest<'a>(written: &str, candidates: impl Iterator<Item = (&'a str, String)>) -> Vec<String> {
    nearest_first(written, candidates.map(|(name, suggestion)| (false, name, suggestion)))
}

/// The same with a mark for those that come after others as near.
fn nearest_first<'a>(written: &str, candidates: impl Iterator<Item = (bool, &'a str, String)>) -> Vec<String> {
    let written = fold(written);
    if written.is_empty() || written.chars().count() > MAX_COMPARED_LENGTH {
        return Vec::new();
    }
    let mut near: Vec<(usize, bool, String)> = candidates
        .filter(|(_, name, _)| name.len() <= MAX_COMPARED_LENGTH)
        .filter_map(|(later, name, suggestion)| Some((steps(&written, &fold(name))?, later, suggestion)))
        .collect();
    near.sort();
    near.dedup();
    near.into_iter().map(|(.., suggestion)| suggestion).take(MAX_SUGGESTIONS).collect()
}

/// Removes case and separators, which are mistaken most often.
fn fold(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The edit distance if at most a third of the letters differ. A name that contains the other one is one step further.
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
    fn check(kind: UnknownName<'_>, written: &str, expected: &[&str]) {
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
        check(UnknownName::Backend, "MyGitHub", &["my_github"]);
        check(UnknownName::ToolOf("exa"), "findSimilar", &["find_similar"]);
        check(UnknownName::ToolOf("my_github"), "create_issue", &["createIssue"]);
    }

    #[test]
    fn a_slip_of_the_fingers_is_forgiven() {
        check(UnknownName::Backend, "eax", &["exa"]);
        check(UnknownName::ToolOf("exa"), "carwl", &["crawl"]);
    }

    #[test]
    fn part_of_a_name_is_enough() {
        check(UnknownName::ToolOf("exa"), "web_search", &["web_search_exa"]);
    }

    #[test]
    fn a_tool_anywhere_is_suggested_with_its_backend() {
        check(UnknownName::Tool, "exxa.crawll", &["exa.crawl", "my_github.crawl"]);
        check(UnknownName::Tool, "myGithub.crawll", &["my_github.crawl", "exa.crawl"]);
        check(UnknownName::Tool, "crawll", &["exa.crawl", "my_github.crawl"]);
    }

    #[test]
    fn the_tools_of_a_backend_that_is_named_come_before_those_of_others() {
        check(UnknownName::Tool, "my-github.carwl", &["my_github.crawl"]);
        check(UnknownName::Tool, "my_github.carwl", &["my_github.crawl"]);
        check(UnknownName::Tool, "my_github.web_search", &["exa.web_search_exa"]);
    }

    #[test]
    fn no_more_than_three_are_suggested() {
        check(UnknownName::ToolOf("exa"), "list_e", &["list_a", "list_b", "list_c"]);
    }

    #[test]
    fn nothing_near_is_nothing_suggested() {
        check(UnknownName::Backend, "postgres", &[]);
        check(UnknownName::Backend, "", &[]);
        check(UnknownName::ToolOf("nope"), "crawl", &[]);
        check(UnknownName::Tool, &"x".repeat(1_000_000), &[]);
    }
}
