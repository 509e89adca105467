//! Checks the arguments of a call against the tool's schema, and what the policy says about the call.

use super::{FindingCode, Inspector, MAX_CALLS, PlannedCall};
use crate::{
    erase::shorten,
    literal::{Arguments, argument_start, arguments},
    reach::Reached,
    tools::{ArgumentFault, Foreseen},
};
use oxc::ast::ast::CallExpression;

impl<'a> Inspector<'_, 'a> {
    pub(super) fn check_arguments(&mut self, call: &CallExpression<'a>, reached: &Reached, backend: &str, tool: &str) {
        let known = arguments(call);
        let at = argument_start(call);
        let written = format!("{}.{}", shorten(&reached.receiver), shorten(&reached.name));
        match &known {
            Arguments::Known(value) => {
                for problem in self.tools.check_arguments(backend, tool, value) {
                    let message = tell(&written, &problem);
                    if self.fatal.has(call.span) {
                        self.accuse(FindingCode::InvalidArguments, at, message, None, (backend, &reached.name));
                    } else {
                        self.warn(FindingCode::InvalidArguments, at, message, None);
                    }
                }
            }
            Arguments::Partial { .. } => self.check_partial(&known, (backend, tool), &written, at),
            Arguments::Unknown if call.arguments.len() > 1 => {
                let message = format!("{written} takes one argument object");
                self.warn(FindingCode::InvalidArguments, at, message, None);
            }
            Arguments::Unknown => {}
        }
        let literal = match &known {
            Arguments::Known(value) => Some(value),
            Arguments::Partial { .. } | Arguments::Unknown => None,
        };
        if let Some((code, message)) = tell_policy(&written, &self.tools.foresee(backend, tool, literal)) {
            if code == FindingCode::Denied && self.fatal.has(call.span) {
                self.accuse(code, reached.name_span.start, message, None, (backend, &reached.name));
            } else {
                self.warn(code, reached.name_span.start, message, None);
            }
        }
        if self.preflight.calls.len() < MAX_CALLS {
            let position = Some(self.parsed.position(call.span.start));
            let planned =
                PlannedCall { backend: backend.to_owned(), tool: tool.to_owned(), position, arguments: known };
            self.preflight.calls.push(planned);
        }
    }

    /// Checks an object of which only some properties are known: warnings only.
    fn check_partial(&mut self, known: &Arguments, (backend, tool): (&str, &str), written: &str, at: u32) {
        let Arguments::Partial { literals, dynamic, open } = known else { return };
        let has = |name: &String| literals.contains_key(name) || dynamic.contains(name);
        let mut problems: Vec<ArgumentFault> = Vec::new();
        let mut problem = |path: &str, message: &str| {
            problems.push(ArgumentFault { path: path.to_owned(), message: message.to_owned() });
        };
        if let Some(parameters) = self.tools.parameters(backend, tool) {
            for name in parameters.required.iter().filter(|name| !open && !has(name)) {
                problem(name, "is required");
            }
            for name in
                literals.keys().chain(dynamic).filter(|name| parameters.closed && !parameters.names.contains(name))
            {
                problem(name, "is not expected");
            }
        }
        let found = self.tools.check_arguments(backend, tool, &literals.clone().into());
        problems.extend(found.into_iter().filter(|one| literals.contains_key(first_segment(&one.path))));
        problems.dedup_by(|a, b| a.path == b.path);
        for one in problems {
            self.warn(FindingCode::InvalidArguments, at, tell(written, &one), None);
        }
    }
}

pub(super) fn tell(written: &str, problem: &ArgumentFault) -> String {
    if problem.path.is_empty() {
        format!("{written}: {}", problem.message)
    } else {
        format!("{written}: `{}` {}", problem.path, problem.message)
    }
}

fn first_segment(path: &str) -> &str {
    path.trim_start_matches('/').split(['.', '[', '/']).next().unwrap_or_default()
}

/// What the policy does to a call, in a sentence.
pub(super) fn tell_policy(written: &str, foreseen: &Foreseen) -> Option<(FindingCode, String)> {
    match foreseen {
        Foreseen::Free => None,
        Foreseen::Asked(reason) => Some((FindingCode::Asked, format!("a person is asked about {written}: {reason}"))),
        Foreseen::Denied(reason) => {
            Some((FindingCode::Denied, format!("DENIED: {written} is denied by the policy: {reason}")))
        }
    }
}
