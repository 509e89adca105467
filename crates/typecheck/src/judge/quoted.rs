//! The types that a message quotes.

use toolgate_catalog::types::check::{DeclaredType, RESERVED, TypeOrigin};
use toolgate_wire::foreign_text::one_line;

use super::MAX_QUOTED;

/// The texts of a message's first line that are in single quotes.
pub(super) struct Quoted<'m>(pub(super) Vec<&'m str>);

impl<'m> Quoted<'m> {
    pub(super) fn of(message: &'m str) -> Self {
        let line = message.lines().next().unwrap_or_default();
        // A quoted type may contain quotes of its own only in texts, which no declared type has.
        Self(line.split('\'').skip(1).step_by(2).collect())
    }

    pub(super) fn first(&self) -> Option<&&'m str> {
        self.0.first()
    }

    pub(super) fn second(&self) -> Option<&&'m str> {
        self.0.get(1)
    }
}

#[derive(Clone, Copy)]
pub(super) enum Declared<'d> {
    Text,
    Number,
    Type(&'d DeclaredType),
}

/// A declared type, or a list of it.
pub(super) struct Member<'d> {
    pub(super) kind: Declared<'d>,
    pub(super) is_list: bool,
}

impl<'d> Member<'d> {
    pub(super) fn has(&self, name: &str) -> bool {
        let is_open = matches!(self.kind, Declared::Type(declared) if declared.is_open && !self.is_list);
        is_open || self.keys().contains(&name)
    }

    /// Whether the values of both have the same methods.
    pub(super) fn is_of_kind(&self, other: &Self) -> bool {
        let is_list = self.is_list || other.is_list;
        let same = std::mem::discriminant(&self.kind) == std::mem::discriminant(&other.kind);
        self.is_list == other.is_list && (is_list || same)
    }

    pub(super) fn keys(&self) -> Vec<&'d str> {
        match self.kind {
            _ if self.is_list => vec!["length"],
            Declared::Text => vec!["length"],
            Declared::Number => Vec::new(),
            Declared::Type(declared) => declared.keys.iter().map(String::as_str).collect(),
        }
    }

    pub(super) fn shown(&self) -> String {
        let name = match self.kind {
            Declared::Text => "string".to_owned(),
            Declared::Number => "number".to_owned(),
            Declared::Type(declared) => one_line(&declared.shown, MAX_QUOTED),
        };
        // `tracker.list().issues[]` is an item of the list `tracker.list().issues`.
        match (self.is_list, name.strip_suffix("[]")) {
            (true, Some(list)) => list.to_owned(),
            (true, None) => format!("{name}[]"),
            (false, _) => name,
        }
    }

    pub(super) fn origin(&self) -> Option<TypeOrigin> {
        match self.kind {
            Declared::Type(declared) => Some(declared.origin),
            Declared::Text | Declared::Number => None,
        }
    }
}

/// The kind of a value in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    Boolean,
    List,
    Object,
    Promise,
}

impl Kind {
    pub(super) fn shown(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::List => "a list",
            Self::Object => "an object",
            Self::Promise => "a promise",
        }
    }
}

/// The kind that a quoted type certainly has as JSON; `None` for everything else, such as a `Date`.
pub(super) fn kind_of(text: &str) -> Option<Kind> {
    match text {
        "string" | "$tgs" => return Some(Kind::Text),
        "number" | "$tgn" => return Some(Kind::Number),
        "boolean" | "true" | "false" => return Some(Kind::Boolean),
        _ if text.contains(" | ") || text.contains("toJSON") => return None,
        _ => {}
    }
    if is_promise(text) {
        return Some(Kind::Promise);
    }
    if text.ends_with("[]") {
        return Some(Kind::List);
    }
    let is_type = text.strip_prefix(RESERVED).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    (is_type || text.starts_with("{ ") || text == "{}").then_some(Kind::Object)
}

/// Whether a quoted type is one promise.
pub(super) fn is_promise(of: &str) -> bool {
    of.strip_prefix("Promise<").is_some_and(|rest| rest.ends_with('>') && !rest.contains(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_those_of_json() {
        assert_eq!(
            (kind_of("$tgs"), kind_of("$tgn"), kind_of("$tg3")),
            (Some(Kind::Text), Some(Kind::Number), Some(Kind::Object))
        );
        assert_eq!((kind_of("$tg3[]"), kind_of("Promise<$tg1>")), (Some(Kind::List), Some(Kind::Promise)));
        for unknown in ["Date", "string | number", "{ toJSON(): string; }", "any", "Promise<a> | Promise<b>", "$tgx"] {
            assert_eq!(kind_of(unknown), None, "{unknown}");
        }
    }
}
