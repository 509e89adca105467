//! Which part of a file a problem belongs to.
//!
//! A problem of one server makes that server incomplete; a function or a data source with a problem is left out with a
//! warning. Every other error rejects the file: keys, the policy and the audit log are used as they are written or not at all.

use std::collections::BTreeMap;

use super::Incomplete;
use crate::problem::{Problem, ProblemSeverity, printable};
use crate::raw::Location;
use crate::values::BackendName;

/// A part of the file without which the rest can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FilePart {
    /// A server: its entry, or its settings under `toolgate.backends`.
    Server(BackendName),
    /// A server whose name is invalid, so that it cannot be shown as incomplete.
    NamelessServer,
    /// Settings under `toolgate.backends` of a server that does not exist.
    Orphan,
    /// A function, by its name in the file.
    Function(String),
    /// A data source, by its name in the file.
    Data(String),
}

impl FilePart {
    /// What becomes of the part.
    fn consequence(&self) -> &'static str {
        match self {
            Self::Server(_) | Self::NamelessServer => "the server is left out",
            Self::Orphan => "these settings have no effect",
            Self::Function(_) => "the function is left out",
            Self::Data(_) => "the data is left out",
        }
    }
}

/// The parts of a file, each with its path.
#[derive(Default)]
pub(super) struct FileParts(Vec<(String, FilePart)>);

/// The problems of a file by what they affect.
#[derive(Default)]
pub(super) struct SortedProblems {
    /// Errors of servers.
    pub(super) incomplete: BTreeMap<BackendName, Incomplete>,
    /// Errors of other parts.
    pub(super) left_out: Vec<(FilePart, Problem)>,
    /// Errors of the whole file, and all warnings.
    pub(super) others: Vec<Problem>,
}

impl FileParts {
    /// Adds a part: what is wrong at this place or inside it is a problem of the part.
    pub(super) fn add(&mut self, place: &Location, part: FilePart) {
        self.0.push((printable(&place.path), part));
    }

    /// The part that an error is in.
    fn of(&self, problem: &Problem) -> Option<&FilePart> {
        let is_inside = |path: &str| {
            problem.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.0.iter().find(|(path, _)| is_inside(path)).map(|(_, part)| part)
    }

    /// Separates the errors of single parts from everything else.
    pub(super) fn sort(&self, problems: Vec<Problem>) -> SortedProblems {
        let mut sorted = SortedProblems::default();
        for problem in problems {
            let is_error = problem.severity == ProblemSeverity::Error;
            match self.of(&problem).filter(|_| is_error) {
                Some(FilePart::Server(name)) => {
                    sorted.incomplete.entry(name.clone()).or_default().problems.push(problem);
                }
                Some(part) => sorted.left_out.push((part.clone(), problem)),
                None => sorted.others.push(problem),
            }
        }
        sorted
    }
}

impl SortedProblems {
    /// Whether the file cannot be used.
    pub(super) fn is_fatal(&self) -> bool {
        self.others.iter().any(|problem| problem.severity == ProblemSeverity::Error)
    }

    /// All problems in the order of the file: a person who repairs it sees all of them.
    pub(super) fn all(self) -> Vec<Problem> {
        let of_servers = self.incomplete.into_values().flat_map(|server| server.problems);
        let of_parts = self.left_out.into_iter().map(|(_, problem)| problem);
        in_order(self.others.into_iter().chain(of_servers).chain(of_parts))
    }

    /// Whether a function or data source of this name has a problem.
    pub(super) fn leaves_out(&self, part: &FilePart) -> bool {
        self.left_out.iter().any(|(left_out, _)| left_out == part)
    }

    /// The servers that cannot be started, and the warnings of a file that can be used.
    pub(super) fn warnings(self) -> (BTreeMap<BackendName, Incomplete>, Vec<Problem>) {
        let warning = |(part, mut problem): (FilePart, Problem)| {
            problem.message = format!("{}; {}", problem.message, part.consequence());
            problem.warning()
        };
        let left_out = self.left_out.into_iter().map(warning);
        (self.incomplete, in_order(self.others.into_iter().chain(left_out)))
    }
}

fn in_order(problems: impl Iterator<Item = Problem>) -> Vec<Problem> {
    let mut problems: Vec<Problem> = problems.collect();
    problems.sort_by_key(|problem| problem.position);
    problems
}
