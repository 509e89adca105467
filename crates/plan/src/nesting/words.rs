//! What a word means for the nesting of the code after it.

/// The kinds of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Name,
    /// A keyword that is followed by an operand.
    Prefix,
    /// A keyword that is followed by a bracketed header.
    Header,
    /// A keyword of the type language: nests in types, and is a plain name elsewhere.
    Type,
    /// `of`: a name, or a keyword that is followed by an operand.
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

/// Words that continue the expression before them, even on a new line.
pub(super) const CONTINUING_WORDS: [&str; 12] =
    ["as", "catch", "else", "extends", "finally", "implements", "in", "instanceof", "is", "of", "satisfies", "while"];

/// Words that always start a statement when they follow an operand.
pub(super) const STATEMENT_WORDS: [&str; 14] = [
    "break", "class", "const", "continue", "export", "for", "function", "if", "import", "return", "switch", "throw",
    "try", "var",
];
