//! Hints after a failure: what is probably wrong with the program.
//!
//! A hint comes from suspicious syntax at or before the position of the failure. The error message is not read, because
//! the program controls its text. A hint is a guess and is worded as advice.

mod missing;
mod results;
mod subtraction;
mod unknown;

pub use self::missing::hint_for_missing;
pub(crate) use self::unknown::{is_meta_tool, meta_tool};
use self::{
    results::Results,
    unknown::{Surroundings, Use},
};
use crate::{
    hyphen,
    parse::{Parsed, with_parsed},
    preflight::{Finding, FindingCode, inspect},
    tools::Tools,
};
use oxc::{
    ast::ast::*,
    ast_visit::{Visit, walk},
    span::GetSpan,
    str::Ident,
};
use std::collections::HashSet;
use toolgate_wire::{ErrorClass, Position, Profile};

/// What is known about a failed run.
#[derive(Debug, Clone, Copy)]
pub struct FailureFacts<'f> {
    /// The program, as the user sent it.
    pub source: &'f str,
    /// The class of the error, if an error was thrown.
    pub class: Option<ErrorClass>,
    /// The position of the failure in the user's text.
    pub position: Option<Position>,
    /// The kind of run.
    pub profile: Profile,
}

/// A hint for a failed run, if one fits.
pub fn hint_for(failure: &FailureFacts<'_>, tools: &dyn Tools) -> Option<String> {
    // A hyphenated call of an existing tool has no suspicious syntax; parsed as JavaScript it would be a subtraction.
    if hyphen::script(failure.source, tools).is_some() {
        return None;
    }
    with_parsed(failure.source, |parsed| Ok(choose(suspects(&parsed, tools, failure), failure))).ok()?
}

/// A hint for a run that took too long, if its program waits for a clock that stands still.
pub fn hint_for_timeout(source: &str, tools: &dyn Tools) -> Option<String> {
    let found = with_parsed(source, |parsed| Ok(inspect(&parsed, tools))).ok()?;
    found.warnings.into_iter().find(|finding| finding.code == FindingCode::BusyWait).map(advice)
}

/// A finding as a hint.
fn advice(finding: Finding) -> String {
    let stop = if finding.message.ends_with('.') { "" } else { "." };
    [Some(finding.message + stop), finding.suggestion].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

struct Suspect {
    position: Position,
    hint: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Fails at its own position.
    Here,
    /// Fails at its own position or later.
    Later,
}

/// The suspect on the line of the failure, or the last one before it that can fail later.
fn choose(mut suspects: Vec<Suspect>, failure: &FailureFacts<'_>) -> Option<String> {
    suspects.sort_by_key(|suspect| suspect.position);
    let Some(place) = failure.position else { return suspects.into_iter().next().map(|suspect| suspect.hint) };
    let here = suspects
        .iter()
        .filter(|suspect| suspect.position.line == place.line)
        .min_by_key(|suspect| suspect.position.column.abs_diff(place.column));
    let earlier = || {
        let type_error = failure.class.is_none_or(|class| class == ErrorClass::Type);
        suspects.iter().rev().find(|one| type_error && one.kind == Kind::Later && one.position < place)
    };
    here.or_else(earlier).map(|suspect| suspect.hint.clone())
}

fn suspects(parsed: &Parsed<'_>, tools: &dyn Tools, failure: &FailureFacts<'_>) -> Vec<Suspect> {
    let preflight = inspect(parsed, tools);
    let mut found: Vec<Suspect> = preflight
        .errors
        .into_iter()
        .chain(preflight.warnings)
        .filter_map(|finding| {
            let (position, kind) = (finding.position, kind(finding.code)?);
            Some(Suspect { position, hint: advice(finding), kind })
        })
        .collect();
    let around = Surroundings {
        profile: failure.profile,
        tools,
        declared: parsed.scoping.symbol_names().take(MAX_DECLARED).map(ToString::to_string).collect(),
    };
    let line = failure.position.map(|position| position.line);
    let results = Results::default();
    let mut finder = SuspectFinder { parsed, around, line, seen: HashSet::new(), results, found: Vec::new() };
    finder.visit_program(parsed.program);
    found.append(&mut finder.found);
    found
}

/// Where a finding makes a program fail; `None` if it makes none fail with an error that needs a hint.
fn kind(code: FindingCode) -> Option<Kind> {
    match code {
        FindingCode::UnknownTool | FindingCode::UnknownBackend | FindingCode::NotReady => Some(Kind::Here),
        FindingCode::ShadowedBackend | FindingCode::MissingAwait => Some(Kind::Later),
        // The error of such a call says what is wrong with it.
        FindingCode::InvalidArguments | FindingCode::Denied | FindingCode::Asked => None,
        FindingCode::NotAwaited | FindingCode::NoResult | FindingCode::BusyWait | FindingCode::RoundedNumber => None,
        // The type check has told it as a warning.
        FindingCode::UnknownProperty => None,
    }
}

/// Finds names that are not defined, and results that are used as something else.
struct SuspectFinder<'p, 'a> {
    parsed: &'p Parsed<'a>,
    around: Surroundings<'p>,
    /// The line of the failure; if it is known, other lines are skipped.
    line: Option<u32>,
    seen: HashSet<Ident<'a>>,
    results: Results,
    found: Vec<Suspect>,
}

/// Names of the program's own that are suggested.
const MAX_DECLARED: usize = 1_000;
/// Names that are examined. Each is compared with every tool.
const MAX_NAMES: usize = 20;

impl<'a> SuspectFinder<'_, 'a> {
    /// The position of an offset, if the failure can be there.
    fn place(&self, offset: u32) -> Option<Position> {
        let position = self.parsed.position(offset);
        self.line.is_none_or(|line| line == position.line).then_some(position)
    }

    fn suspect(&mut self, offset: u32, hint: impl FnOnce(&Self) -> Option<String>) {
        if let Some(position) = self.place(offset)
            && let Some(hint) = hint(self)
        {
            self.found.push(Suspect { position, hint, kind: Kind::Here });
        }
    }

    fn check_global(&mut self, id: &IdentifierReference<'a>, used: Use<'_>) {
        let name = id.name.as_str();
        if self.seen.len() >= MAX_NAMES || !self.parsed.is_global(id) || self.around.tools.global(name).is_some() {
            return;
        }
        if self.place(id.span.start).is_some() && self.seen.insert(id.name) {
            self.suspect(id.span.start, |finder| unknown::advice(name, used, &finder.around));
        }
    }
}

impl<'a> Visit<'a> for SuspectFinder<'_, 'a> {
    fn visit_binary_expression(&mut self, it: &BinaryExpression<'a>) {
        if let Some((names, hint)) = subtraction::about(it, self.parsed, self.around.tools) {
            for name in names {
                self.seen.insert(name.name);
                self.suspect(name.span.start, |_| Some(hint.clone()));
            }
        }
        walk::walk_binary_expression(self, it);
    }

    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        self.check_global(it, Use::Read);
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        if let Expression::Identifier(id) = it.callee.get_inner_expression() {
            self.check_global(id, Use::Call);
        }
        self.suspect(it.span.start, |finder| results::about_response(it, finder.around.tools));
        self.results.bind_callback(it, self.parsed, self.around.tools);
        walk::walk_call_expression(self, it);
    }

    fn visit_member_expression(&mut self, it: &MemberExpression<'a>) {
        if let (Expression::Identifier(id), Some(property)) =
            (it.object().get_inner_expression(), it.static_property_name())
        {
            self.check_global(id, Use::Member(property));
        }
        self.suspect(it.span().start, |finder| {
            let (results, tools) = (&finder.results, finder.around.tools);
            let about_envelope = results.about_envelope(it.object(), finder.parsed, tools);
            about_envelope.or_else(|| results.about_key(it.object(), finder.parsed, tools))
        });
        walk::walk_member_expression(self, it);
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        self.results.bind_loop(it, self.parsed, self.around.tools);
        walk::walk_for_of_statement(self, it);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        self.results.bind(it, self.parsed, self.around.tools);
        walk::walk_variable_declarator(self, it);
    }
}
