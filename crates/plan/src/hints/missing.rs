//! Advice about a global or a module of another runtime, at the place where a program failed.
//!
//! It looks at the class of the error and at the program's text; the message is not read, because the program controls it.
//! It needs no catalog: every kind of run gets it.

use crate::{
    facility::{missing_facility, missing_modules},
    parse::{Parsed, with_parsed},
    reach,
};
use oxc::{
    ast::ast::*,
    ast_visit::{Visit, walk},
    span::{GetSpan, Span},
};
use toolgate_wire::{ErrorClass, Position, Profile};

/// What to use instead of the missing global or module, if the program uses one where it failed.
///
/// QuickJS gives the position of the name that is not defined, V8 that of its statement or of a property behind it. QuickJS refuses `import()` with a
/// `ReferenceError` without a position, V8 with a `TypeError`.
pub fn hint_for_missing(
    source: &str,
    class: ErrorClass,
    position: Option<Position>,
    profile: Profile,
) -> Option<String> {
    if class == ErrorClass::Other {
        return None;
    }
    let found = with_parsed(source, |parsed| {
        let mut uses = Uses {
            parsed: &parsed,
            statement: parsed.program.span,
            position,
            names: Vec::new(),
            receivers: Vec::new(),
            imports: Vec::new(),
        };
        uses.visit_program(parsed.program);
        let (name, imports) = (uses.failed_name(profile).map(str::to_owned), uses.imports_here());
        let calls_tool = profile == Profile::Snippet && uses.calls_unknown_receiver();
        let is_reference = class == ErrorClass::Reference;
        Ok((name.filter(|_| is_reference), imports, calls_tool && is_reference))
    });
    let (name, imports, calls_tool) = found.ok()?;
    let facility = name.and_then(|name| missing_facility(&name, profile));
    let modules = || imports.then(|| missing_modules(profile));
    facility.or_else(modules).or_else(|| calls_tool.then(|| NO_TOOLS.to_owned()))
}

/// The hint for a snippet that calls a tool of a server.
const NO_TOOLS: &str = "A snippet has no tools of servers, only host functions: a program of `call_tool_chain` (`toolgate run` without `--profile snippet`) has them.";

/// The uses of undeclared names and of `import()` in a program.
struct Uses<'p, 'a> {
    parsed: &'p Parsed<'a>,
    position: Option<Position>,
    /// The innermost statement at the position.
    statement: Span,
    names: Vec<(u32, &'a str)>,
    /// The places of undeclared names that are not of the sandbox and have a method called, such as `notes` in `notes.list()`.
    receivers: Vec<u32>,
    imports: Vec<u32>,
}

impl<'a> Uses<'_, 'a> {
    /// The undeclared name at the position; else the missing facility before it in its statement, or the first one behind it.
    fn failed_name(&self, profile: Profile) -> Option<&'a str> {
        let position = self.position?;
        let place = |name: &(u32, &'a str)| self.parsed.position(name.0);
        if let Some((_, name)) = self.names.iter().find(|name| place(name) == position) {
            return Some(name);
        }
        let is_suspect =
            |(offset, name): &&(u32, &'a str)| self.is_here(*offset) && missing_facility(name, profile).is_some();
        let suspects: Vec<_> = self.names.iter().filter(is_suspect).collect();
        let before = suspects.iter().rfind(|name| place(name) < position);
        before.or(suspects.first()).map(|(_, name)| *name)
    }

    /// Whether the name that is not defined is one that has a method called.
    fn calls_unknown_receiver(&self) -> bool {
        self.position.is_some() && self.receivers.iter().any(|offset| self.is_here(*offset))
    }

    /// Whether there is an `import()` in the statement at the position; anywhere, where the position is not known.
    fn imports_here(&self) -> bool {
        self.imports.iter().any(|offset| self.position.is_none() || self.is_here(*offset))
    }

    fn is_here(&self, offset: u32) -> bool {
        (self.statement.start..self.statement.end).contains(&offset)
    }
}

impl<'a> Visit<'a> for Uses<'_, 'a> {
    fn visit_statement(&mut self, it: &Statement<'a>) {
        let span = it.span();
        let holds = |position| (self.parsed.position(span.start)..self.parsed.position(span.end)).contains(&position);
        if self.position.is_some_and(holds) {
            self.statement = span;
        }
        walk::walk_statement(self, it);
    }

    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        if self.parsed.is_global(it) {
            self.names.push((it.span.start, it.name.as_str()));
        }
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        if let Some((object, ..)) = reach::member(&it.callee)
            && let Expression::Identifier(id) = object.get_inner_expression()
            && self.parsed.is_global(id)
            && !reach::is_built_in(id.name.as_str())
        {
            self.receivers.push(id.span.start);
        }
        walk::walk_call_expression(self, it);
    }

    fn visit_unary_expression(&mut self, it: &UnaryExpression<'a>) {
        // `typeof` of an undeclared name does not fail.
        let is_typeof_name = it.operator == UnaryOperator::Typeof && matches!(it.argument, Expression::Identifier(_));
        if !is_typeof_name {
            walk::walk_unary_expression(self, it);
        }
    }

    fn visit_import_expression(&mut self, it: &ImportExpression<'a>) {
        self.imports.push(it.span.start);
        walk::walk_import_expression(self, it);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program fails where `at` begins in its text.
    fn check(source: &str, class: ErrorClass, at: Option<&str>, expected: Option<String>) {
        let offset = at.map(|at| source.find(at).expect("the place"));
        let position = offset.map(|offset| Position::of_offset(source, offset));
        for profile in [Profile::Chain, Profile::Snippet] {
            let found = hint_for_missing(source, class, position, profile);
            assert_eq!(found.is_some(), expected.is_some(), "{source}");
        }
        assert_eq!(hint_for_missing(source, class, position, Profile::Chain), expected, "{source}");
    }

    #[test]
    fn an_undefined_global_of_another_runtime_has_its_advice() {
        let fetch = missing_facility("fetch", Profile::Chain);
        assert!(fetch.is_some());
        check("return fetch('a')", ErrorClass::Reference, Some("fetch"), fetch.clone());
        // V8 gives the place of the statement, or of the property.
        check("const a = () => fetch.x;", ErrorClass::Reference, Some("x;"), fetch.clone());
        check("const a = 1; return a + fetch('x').y", ErrorClass::Reference, Some("return"), fetch.clone());
        check("const a = [1].map(\n  v => fetch(v))", ErrorClass::Reference, Some("const"), fetch);
    }

    #[test]
    fn a_name_elsewhere_in_the_program_has_none() {
        check("typeof fetch; return reslut", ErrorClass::Reference, Some("reslut"), None);
        check("fetch; return reslut", ErrorClass::Reference, Some("return"), None);
        check("return [typeof fetch, reslut]", ErrorClass::Reference, Some("return"), None);
        check("const fetch = 1; return fetch + reslut", ErrorClass::Reference, Some("return"), None);
        check("const o = {}; return o.fetch.x", ErrorClass::Type, Some("o.fetch"), None);
    }

    #[test]
    fn a_snippet_that_calls_a_tool_is_told_where_tools_are() {
        let hint = |source: &str, profile| {
            hint_for_missing(source, ErrorClass::Reference, Some(Position::of_offset(source, 0)), profile)
        };
        assert_eq!(hint("return odd.echo({})", Profile::Snippet).as_deref(), Some(NO_TOOLS));
        assert_eq!(hint("return odd.echo({})", Profile::Chain), None);
        assert_eq!(hint("return reslut", Profile::Snippet), None);
        assert_eq!(hint("const odd = 1; return Math.max(odd, reslut)", Profile::Snippet), None);
    }

    #[test]
    fn what_an_error_says_does_not_count() {
        check("throw new Error('ReferenceError: fetch is not defined')", ErrorClass::Other, Some("throw"), None);
        check("throw new ReferenceError('fetch is not defined')", ErrorClass::Reference, Some("throw"), None);
    }

    #[test]
    fn an_import_has_the_advice_about_modules() {
        let modules = Some(missing_modules(Profile::Chain));
        check("return await import('fs')", ErrorClass::Reference, None, modules.clone());
        check("return await import('fs')", ErrorClass::Type, Some("return"), modules);
        check("const f = () => import('fs');\nreturn null.x", ErrorClass::Type, Some("return"), None);
        check("return 'import(1)'.x.y", ErrorClass::Type, Some("return"), None);
        check("return await import('fs')", ErrorClass::Other, None, None);
    }
}
