//! Who asks for a run, and what that caller may use.

/// Which backends a caller may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Access {
    /// All of them.
    #[default]
    All,
    /// These, by their own names.
    Only(Vec<String>),
}

impl Access {
    /// Whether this backend may be used.
    pub fn permits(&self, backend: &str) -> bool {
        match self {
            Access::All => true,
            Access::Only(names) => names.iter().any(|name| name == backend),
        }
    }
}
