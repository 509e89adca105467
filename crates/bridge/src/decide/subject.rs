//! What the policy is asked about, as rules see it.

use std::sync::Arc;

use toolgate_catalog::ToolRef;
use toolgate_policy::{PolicyCall, Traits};
use toolgate_wire::Target;

use crate::explain::QuestionedCall;

/// What the policy is asked about: a tool, or a host function.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    /// What is called, by its own names.
    pub(crate) target: Target,
    /// `backend.tool` by their own names, or the function's name.
    pub(super) path: Arc<str>,
    /// `backend.tool` as programs write it, where that is another spelling.
    pub(crate) spelling: Option<String>,
    /// What is known about its effects.
    pub(crate) traits: Traits,
}

impl Subject {
    fn new(target: Target, traits: Traits) -> Self {
        Subject { path: target.to_string().into(), target, spelling: None, traits }
    }

    /// A tool of the catalog.
    pub(crate) fn of(found: ToolRef<'_>) -> Self {
        let (backend, tool) = (found.backend.name(), found.tool().name.as_str());
        let (path, spelling) = (found.path(), found.spelling());
        Subject {
            target: Target::Tool { backend: backend.to_owned(), tool: tool.to_owned() },
            spelling: (spelling != path).then_some(spelling),
            path: path.into(),
            traits: Traits::of(backend, tool, found.tool().annotations()),
        }
    }

    /// A request of a client to a backend that only reads.
    pub(crate) fn request(backend: &str, method: &str) -> Self {
        let target = Target::Tool { backend: backend.to_owned(), tool: method.to_owned() };
        Subject::new(target, Traits { read_only: true, destructive: false, ..Traits::UNKNOWN })
    }

    /// A host function, of which it is known whether this call changes nothing.
    pub(crate) fn function(name: &str, reads_only: bool) -> Self {
        let known = Traits { read_only: true, destructive: false, ..Traits::UNKNOWN };
        let traits = if reads_only { known } else { Traits::UNKNOWN };
        Subject::new(Target::Function(name.to_owned()), traits)
    }

    /// A tool that there is not.
    pub(crate) fn unknown_tool(backend: &str, tool: &str) -> Self {
        let target = Target::Tool { backend: backend.to_owned(), tool: tool.to_owned() };
        Subject::new(target, Traits::of(backend, tool, None))
    }

    /// A tool that there is not, by the path that a person typed.
    pub(crate) fn unknown(path: &str) -> Self {
        match path.split_once('.') {
            Some((backend, tool)) => Subject::unknown_tool(backend, tool),
            None => Subject::new(Target::Function(path.to_owned()), Traits::of("", path, None)),
        }
    }

    /// The call that a policy decides about.
    pub(crate) fn with_call<T>(&self, asked: QuestionedCall<'_>, use_call: impl FnOnce(&PolicyCall<'_>) -> T) -> T {
        let path = &*self.path;
        let paths = [path, self.spelling.as_deref().unwrap_or(path)];
        let (backend, tool) = match &self.target {
            Target::Tool { backend, tool } => (backend.as_str(), tool.as_str()),
            Target::Function(name) => ("", name.as_str()),
        };
        use_call(&PolicyCall {
            paths: if self.spelling.is_some() { &paths } else { &paths[..1] },
            backend,
            tool,
            traits: self.traits,
            caller: asked.caller,
            profile: asked.profile,
            args: asked.arguments,
        })
    }
}
