//! What the planner may ask about the tools of a run.
//!
//! The catalog is in another crate, which implements this trait. Answers must not change while one text is planned.

use serde_json::Value;

/// The tools that a program can reach.
pub trait Tools: Sync {
    /// The original name of the backend that a *global variable* of this name stands for. `None` for the names of
    /// JavaScript itself.
    fn global(&self, name: &str) -> Option<String>;

    /// The original name of the backend under this key of `tools` and `__backends`; the key is sanitised or original.
    fn backend(&self, name: &str) -> Option<String>;

    /// The original name of the tool under this property of a backend; the property is sanitised or original.
    fn tool(&self, backend: &str, name: &str) -> Option<String>;

    /// The names of all backends as code writes them.
    fn backends(&self) -> Vec<String>;

    /// The names of all tools of a backend as code writes them.
    fn tools(&self, backend: &str) -> Vec<String>;

    /// The parameters of a tool, as far as they can be listed.
    fn parameters(&self, backend: &str, tool: &str) -> Option<Parameters>;

    /// What is certainly wrong with these arguments; empty when they fit or when it is not known.
    fn check_arguments(&self, backend: &str, tool: &str, arguments: &Value) -> Vec<ArgumentFault>;

    /// The keys of the objects under a path of keys in results of a tool, where they are declared or were seen; arrays on the
    /// way are entered.
    fn result_keys(&self, backend: &str, tool: &str, path: &[&str]) -> Option<Vec<String>> {
        let _ = (backend, tool, path);
        None
    }

    /// What the policy certainly does to a call with these arguments, or with any where they are not known.
    fn foresee(&self, backend: &str, tool: &str, arguments: Option<&Value>) -> Foreseen {
        let _ = (backend, tool, arguments);
        Foreseen::Free
    }

    /// The names of the host functions, as code writes them.
    fn functions(&self) -> Vec<String> {
        Vec::new()
    }

    /// Why the tools of this backend are not known completely, and where its state is shown; `None` when they are.
    fn unready(&self, backend: &str) -> Option<String> {
        let _ = backend;
        None
    }
}

/// What is certain about a call before it is made, by the policy of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Foreseen {
    /// Nothing, or that it is let through.
    Free,
    /// A person is asked, for this reason.
    Asked(String),
    /// It is denied, for this reason.
    Denied(String),
}

/// The top level of a tool's input schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Every property that the schema names.
    pub names: Vec<String>,
    /// Required properties.
    pub required: Vec<String>,
    /// Whether other properties are forbidden.
    pub closed: bool,
}

/// One way in which arguments do not fit a tool's schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentFault {
    /// The property, as in `filter.tags[0]`; empty for the argument itself.
    pub path: String,
    /// What was expected there: the rest of a sentence that begins with the path.
    pub message: String,
}

/// A call of a tool, ready to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Original name of the backend.
    pub backend: String,
    /// Original name of the tool.
    pub tool: String,
    /// The one argument: always an object.
    pub arguments: Value,
}

/// Dots at which a path is tried. A try may take time proportional to the length of the path.
pub(crate) const MAX_DOTS: usize = 64;

/// Splits `backend.tool` where both parts are known names. Names may contain dots, so every dot is tried; `Err` holds the
/// number of matches when it is not one.
pub(crate) fn resolve_path(path: &str, tools: &dyn Tools) -> Result<(String, String), usize> {
    let mut found: Vec<(String, String)> = Vec::new();
    for (dot, _) in path.match_indices('.').take(MAX_DOTS) {
        let (Some(backend), Some(tool)) = (path.get(..dot), path.get(dot + 1..)) else { continue };
        let Some(backend) = tools.backend(backend) else { continue };
        let Some(tool) = tools.tool(&backend, tool) else { continue };
        let pair = (backend, tool);
        if !found.contains(&pair) {
            found.push(pair);
        }
    }
    match <[_; 1]>::try_from(found) {
        Ok([pair]) => Ok(pair),
        Err(found) => Err(found.len()),
    }
}

/// The two parts of `path` that name the backend and the tool `meant`.
pub(crate) fn split_path<'p>(path: &'p str, meant: (&str, &str), tools: &dyn Tools) -> Option<(&'p str, &'p str)> {
    let halves =
        path.match_indices('.').take(MAX_DOTS).filter_map(|(dot, _)| Some((path.get(..dot)?, path.get(dot + 1..)?)));
    let mut fits = halves.filter(|(left, right)| {
        tools.backend(left).is_some_and(|backend| {
            backend == meant.0 && tools.tool(&backend, right).is_some_and(|tool| tool == meant.1)
        })
    });
    fits.next()
}
