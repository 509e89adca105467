//! Who asks for a run, and what that caller may use.
//!
//! A door builds one [`CallerScope`] from the credentials of a request; the bridge and the registry of host functions
//! decide by it. Nothing else carries rights.

use std::fmt;
use std::num::NonZeroU32;

/// What a caller may use, and how it shares with others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallerScope {
    /// The name of its key; empty for the local user. What is kept for a caller is kept under this name.
    pub name: String,
    /// Callers with the same number share one turn in a queue. The local callers of HTTP and WebSockets, who are one user,
    /// have none and share one turn; an MCP session without a key has a number of its own.
    pub fairness: Option<u64>,
    /// The backends whose tools it may call.
    pub backends: Access,
    /// The tools of these backends that it may call: patterns over `backend.tool`.
    pub tools: Access,
    /// How many tool calls it may make; `None` means as many as it likes.
    pub rate: Option<CallRate>,
    /// The host functions that it may call.
    pub functions: Access,
}

impl CallerScope {
    /// Whether it may call this tool, both by their original names.
    pub fn permits_tool(&self, backend: &str, tool: &str) -> bool {
        self.backends.permits(backend) && self.tools.permits_pair(backend, tool)
    }

    /// Whether no tool is kept from it.
    pub fn sees_all_tools(&self) -> bool {
        self.backends == Access::All && self.tools == Access::All
    }
}

/// Tool calls that a caller may make in a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallRate(NonZeroU32);

impl CallRate {
    /// The most that can be asked for. A higher bound would be met by no caller, so leave the rate out instead.
    pub const MAX: u32 = 600_000;

    /// A rate between 1 and [`CallRate::MAX`] calls a minute; `None` for every other number.
    pub fn per_minute(calls: u32) -> Option<Self> {
        NonZeroU32::new(calls).filter(|calls| calls.get() <= Self::MAX).map(CallRate)
    }

    /// Calls a minute.
    pub fn calls(self) -> u32 {
        self.0.get()
    }
}

/// Which names a caller may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Access {
    /// All of them.
    #[default]
    All,
    /// Those that one of these patterns matches.
    Only(Vec<Pattern>),
}

impl Access {
    /// Access to the names that match one of these patterns.
    pub fn only<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Self {
        Access::Only(patterns.into_iter().map(Pattern::new).collect())
    }

    /// Whether this name may be used.
    pub fn permits(&self, name: &str) -> bool {
        match self {
            Access::All => true,
            Access::Only(patterns) => patterns.iter().any(|pattern| pattern.matches(name)),
        }
    }

    /// Whether `backend.tool` may be used.
    pub fn permits_pair(&self, backend: &str, tool: &str) -> bool {
        *self == Access::All || self.permits(&format!("{backend}.{tool}"))
    }
}

/// A pattern over whole names: `*` is any text, `?` one character, everything else itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern(Vec<Piece>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Any,
    One,
    Char(char),
}

impl Pattern {
    /// Reads a pattern; every text is one.
    pub fn new(text: &str) -> Self {
        let pieces = text.chars().map(|c| match c {
            '*' => Piece::Any,
            '?' => Piece::One,
            other => Piece::Char(other),
        });
        Pattern(pieces.collect())
    }

    /// Whether a name fits. Goes back only to the last `*`, so no pattern is slow.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut piece, mut at, mut retry) = (0, 0, None);
        while let Some(letter) = name.get(at) {
            match self.0.get(piece) {
                Some(Piece::Any) => {
                    retry = Some((piece + 1, at));
                    piece += 1;
                }
                Some(Piece::One) => (piece, at) = (piece + 1, at + 1),
                Some(Piece::Char(wanted)) if wanted == letter => (piece, at) = (piece + 1, at + 1),
                Some(Piece::Char(_)) | None => match retry {
                    Some((after, from)) => {
                        (piece, at) = (after, from + 1);
                        retry = Some((after, from + 1));
                    }
                    None => return false,
                },
            }
        }
        self.0.get(piece..).unwrap_or_default().iter().all(|piece| *piece == Piece::Any)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Any => write!(f, "*"),
            Piece::One => write!(f, "?"),
            Piece::Char(letter) => write!(f, "{letter}"),
        })
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_matches_is_permitted() {
        let access = Access::only(["git*", "d?mo"]);
        for (name, expected) in [("git", true), ("github", true), ("demo", true), ("dmo", false), ("agit", false)] {
            assert_eq!(access.permits(name), expected, "{name}");
        }
        assert!(Access::All.permits("anything"));
        assert!(!Access::only([]).permits("anything"));
    }

    #[test]
    fn a_tool_needs_its_backend_and_itself() {
        let caller = CallerScope {
            backends: Access::only(["github", "notes.v2"]),
            tools: Access::only(["github.list_*", "slack.*", "notes.v2.read"]),
            ..CallerScope::default()
        };
        for (backend, tool, expected) in [
            ("github", "list_issues", true),
            ("github", "delete_repo", false),
            ("slack", "post", false),
            ("notes.v2", "read", true),
            ("notes", "v2.read", false),
        ] {
            assert_eq!(caller.permits_tool(backend, tool), expected, "{backend}.{tool}");
        }
        assert!(!caller.sees_all_tools() && CallerScope::default().sees_all_tools());
        assert!(CallerScope::default().permits_tool("any", "tool"));
        let none = CallerScope { tools: Access::only([]), ..CallerScope::default() };
        assert!(!none.permits_tool("any", "tool"));
    }

    #[test]
    fn a_rate_is_bounded_on_both_sides() {
        assert_eq!(CallRate::per_minute(0), None);
        assert_eq!(CallRate::per_minute(1).map(CallRate::calls), Some(1));
        assert_eq!(CallRate::per_minute(CallRate::MAX).map(CallRate::calls), Some(CallRate::MAX));
        assert_eq!(CallRate::per_minute(CallRate::MAX + 1), None);
    }
}
