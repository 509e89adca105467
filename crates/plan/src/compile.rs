//! Compiles TypeScript source to one JavaScript expression whose value is a function.
//!
//! The source is parsed as a complete function body first, so nothing in it can close the wrapper early. The user's text
//! keeps its lines; [`Program::source_position`] maps a position that an interpreter reports to the user's text.
//!
//! It runs nothing and does not look at tools.

use crate::{
    edit::{Edits, Origin},
    erase::erase,
    fault::SyntaxFault,
    parse::{Parsed, with_parsed},
};
use oxc::{
    ast::ast::*,
    ast_visit::{Visit, walk},
    span::{GetSpan, Span},
};
use toolgate_wire::position::{Position, count_line_ends, nth_line};

/// The kind of program that a text must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The body of an async function, a module with a main function, or a bare function.
    Script,
    /// Exactly one function expression, which the worker calls with the data.
    Compute,
}

/// A program that a worker can evaluate.
#[derive(Debug, Clone)]
pub struct Program {
    /// One JavaScript expression, to be evaluated as a classic script. For [`Form::Script`] its value is an async function
    /// without parameters, for [`Form::Compute`] it is the user's function.
    pub js: String,
    /// The global names that it uses, sorted.
    pub globals: Vec<String>,
    source: Box<str>,
    origin: Origin,
}

/// Compiles `source`.
pub fn compile(source: &str, form: Form) -> Result<Program, SyntaxFault> {
    with_parsed(source, |parsed| compile_parsed(&parsed, form))
}

pub(crate) fn compile_parsed(parsed: &Parsed<'_>, form: Form) -> Result<Program, SyntaxFault> {
    compile_edited(parsed, form, Edits::default())
}

/// Compiles `source` with additional edits.
pub(crate) fn compile_edited(parsed: &Parsed<'_>, form: Form, mut edits: Edits) -> Result<Program, SyntaxFault> {
    let frame = match form {
        Form::Script => script_frame(parsed, &mut edits)?,
        Form::Compute => compute_frame(parsed)?,
    };
    keep_line_breaks_countable(parsed, &mut edits);
    erase(parsed, &mut edits)?;
    Ok(assemble(parsed, edits, frame))
}

/// The text before and after the user's text.
struct Frame {
    before: &'static str,
    /// The part of the parsed text that stays.
    body: Span,
    after: String,
}

fn assemble(parsed: &Parsed<'_>, edits: Edits, frame: Frame) -> Program {
    let (start, end) = (parsed.source_offset(frame.body.start), parsed.source_offset(frame.body.end));
    let mut js = String::with_capacity(parsed.code.len() + frame.before.len() + frame.after.len() + 64);
    let mut origin = Origin::default();
    origin.made(0, frame.body.start as usize);
    js.push_str(frame.before);
    let lines = count_line_ends(parsed.source.get(..start).unwrap_or_default());
    js.extend(std::iter::repeat_n('\n', lines));
    edits.apply(parsed.code, frame.body.start as usize, frame.body.end as usize, &mut js, &mut origin);
    origin.made(js.len(), frame.body.end as usize);
    // On a line of its own, so that it is not part of a comment at the end of the user's text.
    js.push('\n');
    js.push_str(&frame.after);
    origin.shift(start, frame.body.start as usize, end);
    Program { js: with_line_feeds(js), globals: parsed.globals(), source: parsed.source.into(), origin }
}

/// A lone carriage return ends a line in JavaScript, but not every interpreter counts it.
fn with_line_feeds(js: String) -> String {
    if !js.contains('\r') {
        return js;
    }
    let mut result = String::with_capacity(js.len());
    let mut chars = js.chars().peekable();
    while let Some(c) = chars.next() {
        result.push(if c == '\r' && chars.peek() != Some(&'\n') { '\n' } else { c });
    }
    result
}

impl Program {
    /// Maps a position from QuickJS, whose columns count bytes from one, to the user's text. `None` when the program has no
    /// such line.
    pub fn source_position(&self, line: u32, column: u32) -> Option<Position> {
        let (start, text) = nth_line(&self.js, line)?;
        self.position_at(start + (column as usize).saturating_sub(1).min(text.len()))
    }

    /// The text as the user sent it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Maps an offset in [`js`](Self::js) to the user's text.
    pub fn position_at(&self, offset: usize) -> Option<Position> {
        self.source_offset(offset).map(|at| Position::of_offset(&self.source, at))
    }

    /// The offset in the user's text of an offset in [`js`](Self::js).
    pub(crate) fn source_offset(&self, offset: usize) -> Option<usize> {
        self.origin.of(offset)
    }
}

// Scripts.

const BEFORE_SCRIPT: &str = "(async () => {\"use strict\";";

fn script_frame(parsed: &Parsed<'_>, edits: &mut Edits) -> Result<Frame, SyntaxFault> {
    let after = match main_export(parsed, edits)? {
        Some(main) => main,
        None => match lone_function(parsed.program) {
            Some(Lone::Declaration(function)) => {
                function.id.as_ref().map(|id| format!("return {}();", id.name)).unwrap_or_default()
            }
            Some(Lone::Expression(function)) => {
                let span = function.span();
                edits.insert(span.start, "return (");
                edits.insert(span.end, ")()");
                String::new()
            }
            None => {
                return_last_expression(parsed.program, edits);
                String::new()
            }
        },
    };
    let body = Span::new(0, u32::try_from(parsed.code.len()).unwrap_or(u32::MAX));
    Ok(Frame { before: BEFORE_SCRIPT, body, after: format!(";{after}\n}})") })
}

/// Turns the main export of a module into an ordinary declaration; returns the statement that runs it.
fn main_export(parsed: &Parsed<'_>, edits: &mut Edits) -> Result<Option<String>, SyntaxFault> {
    let mut main = None;
    for statement in &parsed.program.body {
        match statement {
            Statement::ExportDefaultDeclaration(it) => {
                if let Some(default) = default_export(parsed, it, edits)? {
                    return Ok(Some(default));
                }
            }
            Statement::ExportDeclaration(it) => match &it.declaration {
                Declaration::FunctionDeclaration(function)
                    if is_main(function.id.as_ref()) && function.body.is_some() =>
                {
                    main = Some("return main();".to_owned());
                }
                Declaration::VariableDeclaration(variables) if !variables.declare && declares_main(variables) => {
                    main = Some(call_or_value("main"));
                }
                _ => {}
            },
            Statement::ExportNamedDeclaration(it) => {
                let exported =
                    it.specifiers.iter().filter(|one| !one.export_kind.is_type() && !it.export_kind.is_type());
                for one in exported {
                    let (local, name) = (one.local.name(), one.exported.name());
                    if name == "default" || (name == "main" && main.is_none()) {
                        main = Some(call_or_value(&local));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(main)
}

fn is_main(id: Option<&BindingIdentifier<'_>>) -> bool {
    id.is_some_and(|id| id.name == "main")
}

fn declares_main(variables: &VariableDeclaration<'_>) -> bool {
    variables.declarations.iter().any(|one| is_main(one.id.get_binding_identifier()))
}

fn call_or_value(name: &str) -> String {
    format!("return typeof {name} === \"function\" ? {name}() : {name};")
}

fn default_export(
    parsed: &Parsed<'_>,
    it: &ExportDefaultDeclaration<'_>,
    edits: &mut Edits,
) -> Result<Option<String>, SyntaxFault> {
    let inner = it.declaration.span();
    match &it.declaration {
        ExportDefaultDeclarationKind::FunctionDeclaration(function) if function.body.is_none() => Ok(None),
        ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => Ok(None),
        ExportDefaultDeclarationKind::FunctionDeclaration(function) if function.id.is_some() => {
            edits.blank_statement(it.span.start, inner.start);
            Ok(function.id.as_ref().map(|id| format!("return {}();", id.name)))
        }
        ExportDefaultDeclarationKind::ClassDeclaration(_) => Err(parsed
            .fault(it.span.start, "The default export must be a function or a value, not a class")
            .hint("Write `export default async function main() { … }`.")),
        _ => {
            let name = unused_name(parsed.code, "__main");
            edits.rewrite(it.span.start, inner.start, format!("const {name} = "));
            edits.insert(inner.end, ";");
            Ok(Some(call_or_value(&name)))
        }
    }
}

pub(crate) enum Lone<'p, 'a> {
    Declaration(&'p Function<'a>),
    Expression(&'p Expression<'a>),
}

/// The function, if the program consists of nothing else.
pub(crate) fn lone_function<'p, 'a>(program: &'p oxc::ast::ast::Program<'a>) -> Option<Lone<'p, 'a>> {
    let mut statements = program.body.iter().filter(|statement| !is_nothing(statement));
    let (only, None) = (statements.next()?, statements.next()) else { return None };
    match only {
        Statement::FunctionDeclaration(function) => Some(Lone::Declaration(function)),
        Statement::ExpressionStatement(it) if is_function(&it.expression) => Some(Lone::Expression(&it.expression)),
        _ => None,
    }
}

/// Whether a statement has no effect at run time.
pub(crate) fn is_nothing(statement: &Statement<'_>) -> bool {
    match statement {
        Statement::EmptyStatement(_) | Statement::TSTypeAliasDeclaration(_) | Statement::TSInterfaceDeclaration(_) => {
            true
        }
        Statement::FunctionDeclaration(function) => function.body.is_none(),
        Statement::ImportDeclaration(it) => it.import_kind.is_type(),
        _ => false,
    }
}

fn is_function(expression: &Expression<'_>) -> bool {
    matches!(
        expression.get_inner_expression(),
        Expression::ArrowFunctionExpression(_) | Expression::FunctionExpression(_)
    )
}

/// A program that ends with an expression returns its value, as in a REPL.
fn return_last_expression(program: &oxc::ast::ast::Program<'_>, edits: &mut Edits) {
    let start = match last_statement(program) {
        None => program.directives.last().map(|directive| directive.span.start),
        Some(_) => last_expression(program).map(|statement| statement.span.start),
    };
    if let Some(start) = start {
        edits.insert(start, "return ");
    }
}

/// The expression at the end of the program.
pub(crate) fn last_expression<'p, 'a>(program: &'p oxc::ast::ast::Program<'a>) -> Option<&'p ExpressionStatement<'a>> {
    match last_statement(program) {
        Some(Statement::ExpressionStatement(it)) => Some(it),
        _ => None,
    }
}

/// The statement that runs last. Function declarations after it do not run: they are hoisted.
fn last_statement<'p, 'a>(program: &'p oxc::ast::ast::Program<'a>) -> Option<&'p Statement<'a>> {
    let hoisted = |statement: &Statement<'_>| matches!(statement, Statement::FunctionDeclaration(_));
    program.body.iter().rev().find(|statement| !is_nothing(statement) && !hoisted(statement))
}

// Computation.

fn compute_frame(parsed: &Parsed<'_>) -> Result<Frame, SyntaxFault> {
    let function = if parsed.program.directives.is_empty() { lone_function(parsed.program) } else { None };
    let body = match function {
        Some(Lone::Declaration(function)) => function.span,
        Some(Lone::Expression(function)) => function.span(),
        None => {
            return Err(SyntaxFault::new("The code must be exactly one function expression")
                .hint("Send an arrow function such as `(data) => data.length`."));
        }
    };
    Ok(Frame { before: "(", body, after: ")".to_owned() })
}

// Names and line breaks.

/// A name that does not occur in `code`.
pub(crate) fn unused_name(code: &str, base: &str) -> String {
    let mut name = base.to_owned();
    while code.contains(&name) {
        name.push('_');
    }
    name
}

/// U+2028 and U+2029 end lines in code but not in strings, and interpreters count them differently.
fn keep_line_breaks_countable(parsed: &Parsed<'_>, edits: &mut Edits) {
    const SEPARATORS: [char; 2] = ['\u{2028}', '\u{2029}'];
    if !parsed.code.contains(SEPARATORS) {
        return;
    }
    let mut literals = Literals::default();
    literals.visit_program(parsed.program);
    literals.0.sort_by_key(|span| span.start);
    for (at, separator) in parsed.code.match_indices(SEPARATORS) {
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        let before = literals.0.partition_point(|span| span.start <= at);
        let literal = before.checked_sub(1).and_then(|index| literals.0.get(index));
        if literal.is_none_or(|span| at >= span.end) {
            edits.line_feed(at, at + separator.len() as u32);
        }
    }
}

#[derive(Default)]
struct Literals(Vec<Span>);

impl<'a> Visit<'a> for Literals {
    fn visit_string_literal(&mut self, it: &StringLiteral<'a>) {
        self.0.push(it.span);
    }

    fn visit_template_literal(&mut self, it: &TemplateLiteral<'a>) {
        self.0.extend(it.quasis.iter().map(|quasi| quasi.span));
        walk::walk_template_literal(self, it);
    }
}
