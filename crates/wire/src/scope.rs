//! Who asks for a run, and what that caller may use.
//!
//! A door builds one [`CallerScope`] from the credentials of a request; the bridge and the registry of host functions
//! decide by it. Nothing else carries rights.

use std::fmt;

/// What a caller may use, and how it shares with others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallerScope {
    /// The name of its key; empty for the local user. What is kept for a caller is kept under this name.
    pub name: String,
    /// Callers with the same number share one turn in a queue. `None`: every connection counts as its own caller.
    pub fairness: Option<u64>,
    /// The backends whose tools it may call.
    pub backends: Access,
    /// The host functions that it may call.
    pub functions: Access,
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
}
