//! Resolves a tool path (`backend.tool` or `tool`) to a tool.

use super::backend::ToolRef;
use super::snapshot::Catalog;

/// Maximum number of dots of a path that are tried as the separator between backend and tool. A name with more dots is
/// still reachable by its identifier.
const MAX_SEPARATORS: usize = 32;

/// The result of resolving a path.
#[derive(Debug, Clone)]
pub enum Resolution<'a> {
    /// One tool.
    Found(ToolRef<'a>),
    /// A tool name without backend that at least two backends have, sorted by backend.
    Ambiguous(Vec<ToolRef<'a>>),
    /// No tool.
    Unknown,
}

impl<'a> Resolution<'a> {
    /// The tool, if the path resolves to exactly one.
    pub fn found(self) -> Option<ToolRef<'a>> {
        match self {
            Self::Found(found) => Some(found),
            Self::Ambiguous(_) | Self::Unknown => None,
        }
    }
}

impl Catalog {
    /// A tool by backend and name. Each may be an original name or an identifier.
    pub fn tool(&self, backend: &str, tool: &str) -> Option<ToolRef<'_>> {
        self.backend(backend)?.tool(tool)
    }

    /// Resolves `backend.tool` or a bare `tool`.
    ///
    /// Names may contain dots: the longest matching backend name wins, and original names take precedence over
    /// identifiers, so that no tool can shadow another one.
    pub fn resolve(&self, path: &str) -> Resolution<'_> {
        match self.qualified(path) {
            Some(found) => Resolution::Found(found),
            None => self.bare(path),
        }
    }

    fn qualified(&self, path: &str) -> Option<ToolRef<'_>> {
        let splits = || path.rmatch_indices('.').take(MAX_SEPARATORS).map(|(at, _)| (&path[..at], &path[at + 1..]));
        let by_original = splits().find_map(|(backend, tool)| {
            let backend = self.backend(backend).filter(|found| found.name() == backend)?;
            backend.tool(tool).filter(|found| found.tool().name == tool)
        });
        by_original.or_else(|| splits().find_map(|(backend, tool)| self.tool(backend, tool)))
    }

    fn bare(&self, name: &str) -> Resolution<'_> {
        let positions = self.inner.lookup.by_tool.get(name).map_or(&[][..], Vec::as_slice);
        let mut candidates: Vec<ToolRef<'_>> = positions.iter().filter_map(|&at| self.at(at)).collect();
        if candidates.iter().any(|found| found.tool().name == name) {
            candidates.retain(|found| found.tool().name == name);
        }
        match candidates.as_slice() {
            [] => Resolution::Unknown,
            [one] => Resolution::Found(*one),
            _ => Resolution::Ambiguous(candidates),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BackendState, Listing, Tool};
    use super::*;
    use serde_json::json;

    fn catalog() -> Catalog {
        let listing = |name: &str, tools: &[&str]| Listing {
            name: name.into(),
            state: BackendState::Ready,
            tools: tools.iter().filter_map(|name| Tool::from_raw(json!({ "name": name }))).collect(),
            tags: Vec::new(),
        };
        Catalog::new(vec![
            listing("my-search", &["web-search", "fetch", "x.y"]),
            listing("my_search", &["fetch", "web_search"]),
            listing("a", &["b.c", "only-here"]),
            listing("a.b", &["c", "d"]),
            listing("a_b", &["c", "d"]),
        ])
    }

    #[track_caller]
    fn check(path: &str, expected: &[&str]) {
        let catalog = catalog();
        let found = match catalog.resolve(path) {
            Resolution::Found(found) => vec![found.path()],
            Resolution::Ambiguous(several) => several.iter().map(ToolRef::path).collect(),
            Resolution::Unknown => Vec::new(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn either_spelling_of_backend_and_tool_resolves() {
        check("my-search.web-search", &["my-search.web-search"]);
        check("my-search.web_search", &["my-search.web-search"]);
        check("my_search_2.web_search", &["my-search.web-search"]);
    }

    #[test]
    fn an_original_never_resolves_to_another() {
        check("my_search.web_search", &["my_search.web_search"]);
        check("a_b.c", &["a_b.c"]);
    }

    #[test]
    fn a_dot_inside_a_name_is_no_separator() {
        check("my-search.x.y", &["my-search.x.y"]);
        check("a.b.d", &["a.b.d"]);
    }

    #[test]
    fn the_longest_backend_name_wins() {
        check("a.b.c", &["a.b.c"]);
        assert_eq!(catalog().resolve("a.b.c").found().unwrap().backend.name(), "a.b");
        check("a.b_c", &["a.b.c"]);
        assert_eq!(catalog().resolve("a.b_c").found().unwrap().backend.name(), "a");
    }

    #[test]
    fn a_bare_tool_resolves_where_one_backend_has_it() {
        check("only-here", &["a.only-here"]);
        check("only_here", &["a.only-here"]);
        check("x.y", &["my-search.x.y"]);
    }

    #[test]
    fn a_bare_tool_of_several_backends_is_ambiguous() {
        check("fetch", &["my-search.fetch", "my_search.fetch"]);
    }

    #[test]
    fn a_bare_original_goes_before_an_identifier() {
        check("web_search", &["my_search.web_search"]);
    }

    #[test]
    fn anything_else_is_unknown() {
        for path in ["", ".", "..", "nope", "a.nope", "nope.c", "__proto__", "my-search.", ".fetch"] {
            check(path, &[]);
        }
        check(&".".repeat(100_000), &[]);
    }
}
