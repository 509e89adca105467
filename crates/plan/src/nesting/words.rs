//! What a word means for the nesting of the code around it.

/// The kinds of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Name,
    /// A keyword after which an operand comes.
    Prefix,
    /// A keyword that takes a bracketed header.
    Header,
    /// A keyword of the type language: nests, and is a plain name elsewhere.
    Type,
    /// `of` may be a name or stand before an operand.
    Of,
}

impl Word {
    pub(super) fn of(word: &str) -> Self {
        match word {
            "if" | "while" | "for" | "with" => Self::Header,
            "await" | "case" | "delete" | "do" | "else" | "extends" | "in" | "instanceof" | "new" | "return"
            | "throw" | "typeof" | "void" | "yield" | "default" => Self::Prefix,
            "abstract" | "as" | "asserts" | "async" | "class" | "declare" | "export" | "function" | "import"
            | "infer" | "is" | "keyof" | "module" | "namespace" | "readonly" | "satisfies" | "unique" => Self::Type,
            "of" => Self::Of,
            _ => Self::Name,
        }
    }
}

/// Words that go on with what stands before them, even on a new line.
pub(super) const CONTINUING_WORDS: [&str; 12] =
    ["as", "catch", "else", "extends", "finally", "implements", "in", "instanceof", "is", "of", "satisfies", "while"];

/// Words that can only start a statement, wherever they stand after an operand.
pub(super) const STATEMENT_WORDS: [&str; 14] = [
    "break", "class", "const", "continue", "export", "for", "function", "if", "import", "return", "switch", "throw",
    "try", "var",
];
