//! Checks code for computation delegation before it runs.
//!
//! Its purpose is an early error that names what will not work. **It is not a security boundary**: code that passes it
//! runs in the sandbox, which has none of these functions either. So it checks plain calls only, and accepts code in case
//! of doubt.

use crate::{
    compile::{Lone, lone_function},
    fault::SyntaxFault,
    parse::{Parsed, with_parsed},
};
use oxc::{
    ast::ast::*,
    ast_visit::{Visit, walk},
    span::Span,
    syntax::scope::ScopeFlags,
};
use serde::Serialize;
use toolgate_wire::position::Position;

/// Why code is not accepted for computation delegation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
pub enum Violation {
    /// It is not valid TypeScript.
    #[error("{0}")]
    Syntax(SyntaxFault),
    /// It is valid, but not exactly one function expression.
    #[error("the code must be exactly one function expression, such as `(data) => data.length`")]
    NotOneFunction,
    /// It calls something that loads or builds code.
    #[error("`{name}` is not allowed: the function computes on its argument alone")]
    Forbidden {
        /// The name of what it calls.
        name: &'static str,
        /// The position.
        position: Position,
    },
    /// It is, or contains, an async function.
    #[error("async functions are not allowed: the function must return its result at once")]
    Async {
        /// The position.
        position: Position,
    },
    /// It is a generator function.
    #[error("generator functions are not allowed: the function must return its result at once")]
    Generator {
        /// The position.
        position: Position,
    },
}

impl Violation {
    /// The position in the code, if there is one.
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::Syntax(fault) => fault.position,
            Self::NotOneFunction => None,
            Self::Forbidden { position, .. } | Self::Async { position } | Self::Generator { position } => {
                Some(*position)
            }
        }
    }
}

/// Checks that `code` is one function expression that calls none of `require`, `import`, `eval` and `Function`.
///
/// This is not a security boundary; see the module documentation.
pub fn validate_code(code: &str) -> Result<(), Violation> {
    with_parsed(code, |parsed| Ok(look_over(&parsed))).unwrap_or_else(|fault| Err(Violation::Syntax(fault)))
}

fn look_over(parsed: &Parsed<'_>) -> Result<(), Violation> {
    let mut guard = Guard { parsed, found: None };
    guard.visit_program(parsed.program);
    if let Some(violation) = guard.found {
        return Err(violation);
    }
    match lone_function(parsed.program).filter(|_| parsed.program.directives.is_empty()) {
        Some(Lone::Declaration(function)) => not_a_generator(parsed, function),
        Some(Lone::Expression(expression)) => match expression.get_inner_expression() {
            Expression::FunctionExpression(function) => not_a_generator(parsed, function),
            _ => Ok(()),
        },
        None => Err(Violation::NotOneFunction),
    }
}

fn not_a_generator(parsed: &Parsed<'_>, function: &Function<'_>) -> Result<(), Violation> {
    if function.generator {
        Err(Violation::Generator { position: parsed.position(function.span.start) })
    } else {
        Ok(())
    }
}

struct Guard<'p, 'a> {
    parsed: &'p Parsed<'a>,
    found: Option<Violation>,
}

impl<'a> Guard<'_, 'a> {
    fn forbid(&mut self, name: &'static str, span: Span) {
        self.found.get_or_insert_with(|| Violation::Forbidden { name, position: self.parsed.position(span.start) });
    }

    fn refuse_async(&mut self, span: Span) {
        self.found.get_or_insert_with(|| Violation::Async { position: self.parsed.position(span.start) });
    }

    fn check_callee(&mut self, callee: &Expression<'a>, span: Span, constructed: bool) {
        let name = match (self.global_name(callee), constructed) {
            (Some("require"), false) => "require",
            (Some("eval"), false) => "eval",
            (Some("Function"), false) => "Function()",
            (Some("Function"), true) => "new Function",
            _ => return,
        };
        self.forbid(name, span);
    }

    /// The name of a global variable that an expression reads: `eval`, `globalThis.eval`, `window["eval"]`.
    fn global_name<'e>(&self, expression: &'e Expression<'a>) -> Option<&'e str> {
        match expression.get_inner_expression() {
            Expression::Identifier(id) => self.parsed.is_global(id).then_some(id.name.as_str()),
            Expression::StaticMemberExpression(member) => {
                self.is_global_object(&member.object).then_some(member.property.name.as_str())
            }
            Expression::ComputedMemberExpression(member) => match &member.expression {
                Expression::StringLiteral(key) if self.is_global_object(&member.object) => Some(key.value.as_str()),
                _ => None,
            },
            Expression::SequenceExpression(all) => all.expressions.last().and_then(|last| self.global_name(last)),
            _ => None,
        }
    }

    fn is_global_object(&self, expression: &Expression<'a>) -> bool {
        matches!(expression.get_inner_expression(), Expression::Identifier(id)
            if self.parsed.is_global(id) && matches!(id.name.as_str(), "globalThis" | "window" | "self" | "global"))
    }
}

impl<'a> Visit<'a> for Guard<'_, 'a> {
    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        self.check_callee(&it.callee, it.span, false);
        walk::walk_call_expression(self, it);
    }

    fn visit_new_expression(&mut self, it: &NewExpression<'a>) {
        self.check_callee(&it.callee, it.span, true);
        walk::walk_new_expression(self, it);
    }

    fn visit_import_expression(&mut self, it: &ImportExpression<'a>) {
        self.forbid("import", it.span);
    }

    fn visit_import_declaration(&mut self, it: &ImportDeclaration<'a>) {
        if !it.import_kind.is_type() {
            self.forbid("import", it.span);
        }
    }

    fn visit_import_meta(&mut self, it: &ImportMeta) {
        self.forbid("import", it.span);
    }

    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        if it.r#async {
            self.refuse_async(it.span);
        }
        walk::walk_function(self, it, flags);
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        if it.r#async {
            self.refuse_async(it.span);
        }
        walk::walk_arrow_function_expression(self, it);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn passes(code: &str) {
        assert_eq!(validate_code(code), Ok(()), "{code}");
    }

    #[track_caller]
    fn refused(code: &str, part: &str) {
        match validate_code(code) {
            Err(violation) if !matches!(violation, Violation::Syntax(_)) => {
                assert!(violation.to_string().contains(part), "{code}: {violation}");
            }
            other => panic!("{code}: {other:?}"),
        }
    }

    #[test]
    fn one_function_of_any_kind_passes() {
        passes("(data) => data");
        passes("data => data.filter(d => d.risk > 90)");
        passes("function (data) { return data }");
        passes("function sum(data) { return data.length }");
        passes("((data) => data)");
        passes("(function (data) { return data });");
        passes("// first\n/* second */ (data: number[]): number => data.length");
        passes("<T,>(data: T[]) => data as unknown as number[]");
        passes("```js\n(d) => d\n```");
        passes("(d) => { function* pages() { yield 1 } return [...pages()] }");
    }

    #[test]
    fn anything_else_is_not_one_function() {
        for code in [
            "",
            "42",
            "return 1",
            "const f = (d) => d",
            "(d) => d; (e) => e",
            "'(d) => d'",
            "({ f() {} })",
            "(d => d)(1)",
        ] {
            assert_eq!(validate_code(code), Err(Violation::NotOneFunction), "{code}");
        }
    }

    #[test]
    fn what_loads_or_builds_code_is_refused_by_name() {
        refused("(d) => require('fs')", "`require`");
        refused("(d) => import('fs')", "`import`");
        refused("import fs from 'fs'; (d) => d", "`import`");
        refused("(d) => eval('1')", "`eval`");
        refused("(d) => (0, eval)('1')", "`eval`");
        refused("(d) => eval?.('1')", "`eval`");
        refused("(d) => new Function('return 1')()", "`new Function`");
        refused("(d) => Function('return 1')()", "`Function()`");
        refused("(d) => globalThis.eval('1')", "`eval`");
        refused("(d) => window['require']('fs')", "`require`");
    }

    #[test]
    fn words_that_are_not_calls_of_these_pass() {
        passes("(d) => d.require");
        passes("(d) => d.require('x') + d.eval('y') + d.Function()");
        passes("(d) => 'require(1) eval(2) import(3)'");
        passes("(d) => { // eval('x')\n return d }");
        passes("(d) => ({ eval: 1, require: 2, Function: 3 })");
        passes("(require) => require(1)");
        passes("(data) => process.env");
        passes("(d) => d instanceof Function");
        passes("(d) => `import(${d})`");
    }

    #[test]
    fn async_and_generator_functions_are_refused_as_such() {
        refused("async (d) => d", "async");
        refused("async function (d) { return d }", "async");
        refused("(d) => { const f = async () => 1; return f() }", "async");
        refused("(d) => ({ async m() {} })", "async");
        refused("function* (d) { yield d }", "generator");
    }

    #[test]
    fn broken_code_is_a_syntax_violation_with_a_position() {
        match validate_code("(d) => {") {
            Err(Violation::Syntax(fault)) => assert_eq!(fault.position, Some(Position { line: 1, column: 9 })),
            other => panic!("{other:?}"),
        }
    }
}
