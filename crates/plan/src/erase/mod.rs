//! Erases TypeScript syntax from a program, in place.
//!
//! Most TypeScript syntax has no run-time effect and becomes white space; enums, parameter properties and namespaces
//! become equivalent JavaScript (`rewrite`). Where erasing would join two statements, or leave a line break where
//! JavaScript allows none, a semicolon or spaces without line breaks keep the meaning.
//!
//! It does not check types and does not change JavaScript syntax.

mod class;
mod rewrite;

use crate::{
    edit::Edits,
    fault::SyntaxFault,
    parse::{Parsed, skip_trivia},
};
use oxc::{
    ast::ast::*,
    ast_visit::{Visit, walk},
    span::{GetSpan, Span},
    syntax::{scope::ScopeFlags, symbol::SymbolId},
};
use std::collections::HashSet;
use toolgate_wire::foreign_text::clipped;

/// Adds the edits that turn the program into JavaScript.
pub(crate) fn erase(parsed: &Parsed<'_>, edits: &mut Edits) -> Result<(), SyntaxFault> {
    let mut eraser = Eraser {
        parsed,
        edits,
        fault: None,
        blocks: 0,
        declared: HashSet::new(),
        enum_name: None,
        space_name: None,
        namespaces: Vec::new(),
    };
    eraser.visit_program(parsed.program);
    eraser.fault.map_or(Ok(()), Err)
}

struct Eraser<'p, 'a, 'e> {
    parsed: &'p Parsed<'a>,
    edits: &'e mut Edits,
    fault: Option<SyntaxFault>,
    /// Nesting of blocks in the current function.
    blocks: usize,
    /// Enums and namespaces whose variable is declared already.
    declared: HashSet<SymbolId>,
    /// Unused names for the objects of enums and namespaces, created when first needed.
    enum_name: Option<String>,
    space_name: Option<String>,
    /// The names of the enclosing namespaces' objects.
    namespaces: Vec<String>,
}

impl<'a> Eraser<'_, 'a, '_> {
    fn fault(&mut self, at: u32, message: &str, hint: &str) {
        self.fault.get_or_insert_with(|| self.parsed.fault(at, message).hint(hint));
    }

    fn text(&self, start: u32, end: u32) -> &'a str {
        self.parsed.code.get(start as usize..end as usize).unwrap_or_default()
    }

    /// The offset of the first token after `at`.
    fn next_token(&self, at: u32) -> u32 {
        at + skip_trivia(self.parsed.code.get(at as usize..).unwrap_or_default()) as u32
    }

    fn byte_at(&self, at: u32) -> Option<u8> {
        self.parsed.code.as_bytes().get(at as usize).copied()
    }

    fn erase_statement(&mut self, span: Span) {
        self.edits.blank_statement(span.start, span.end);
    }

    /// Erases `as T`, `satisfies T` or `<T>` after an expression.
    fn erase_suffix(&mut self, start: u32, end: u32) {
        let start = self.next_token(start);
        // A type is never followed by one of these on the same line, so a line break ended the statement here. Without the
        // type it would not.
        match self.byte_at(self.next_token(end)) {
            Some(b'(' | b'[' | b'`') => self.edits.blank_statement(start, end),
            _ => self.edits.blank(start, end),
        }
    }

    /// Erases the `?` or `!` after a name.
    fn erase_mark(&mut self, after: u32, marks: &[u8]) {
        let mut at = self.next_token(after);
        if self.byte_at(at) == Some(b']') {
            at = self.next_token(at + 1);
        }
        if self.byte_at(at).is_some_and(|byte| marks.contains(&byte)) {
            self.edits.blank(at, at + 1);
        }
    }

    /// The words in a range, except those in comments.
    fn words(&self, start: u32, end: u32) -> Vec<(Span, &'a str)> {
        let mut words = Vec::new();
        let mut at = self.next_token(start);
        while at < end {
            let rest = self.text(at, end);
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(rest.len());
            let step = if length > 0 { length } else { rest.chars().next().map_or(1, char::len_utf8) } as u32;
            if length > 0 {
                words.push((Span::new(at, at + step), self.text(at, at + step)));
            }
            at = self.next_token(at + step);
        }
        words
    }

    /// Erases these words in the range.
    fn erase_words(&mut self, start: u32, end: u32, erased: &[&str]) {
        for (span, word) in self.words(start, end) {
            if erased.contains(&word) {
                self.edits.blank(span.start, span.end);
            }
        }
    }

    fn erase_type_arguments(&mut self, arguments: Option<&TSTypeParameterInstantiation<'a>>) {
        if let Some(arguments) = arguments {
            self.edits.blank(arguments.span.start, arguments.span.end);
        }
    }

    /// Visits a function with a block nesting that starts at zero.
    fn in_function(&mut self, visit: impl FnOnce(&mut Self)) {
        let blocks = std::mem::take(&mut self.blocks);
        visit(self);
        self.blocks = blocks;
    }
}

const IMPORTED: &str =
    "There are no modules to import here. Tools are ready as global objects: call `backend.tool({…})`.";

impl<'a> Visit<'a> for Eraser<'_, 'a, '_> {
    fn visit_hashbang(&mut self, it: &Hashbang<'a>) {
        self.edits.blank(it.span.start, it.span.end);
    }

    fn visit_block_statement(&mut self, it: &BlockStatement<'a>) {
        self.blocks += 1;
        walk::walk_block_statement(self, it);
        self.blocks -= 1;
    }

    fn visit_switch_statement(&mut self, it: &SwitchStatement<'a>) {
        self.blocks += 1;
        walk::walk_switch_statement(self, it);
        self.blocks -= 1;
    }

    fn visit_static_block(&mut self, it: &StaticBlock<'a>) {
        self.in_function(|this| walk::walk_static_block(this, it));
    }

    // Types and what belongs to them.

    fn visit_ts_type_annotation(&mut self, it: &TSTypeAnnotation<'a>) {
        self.edits.blank(it.span.start, it.span.end);
    }

    fn visit_ts_type_parameter_declaration(&mut self, it: &TSTypeParameterDeclaration<'a>) {
        self.edits.blank(it.span.start, it.span.end);
    }

    fn visit_ts_type_parameter_instantiation(&mut self, it: &TSTypeParameterInstantiation<'a>) {
        self.edits.blank(it.span.start, it.span.end);
    }

    fn visit_ts_type_alias_declaration(&mut self, it: &TSTypeAliasDeclaration<'a>) {
        self.erase_statement(it.span);
    }

    fn visit_ts_interface_declaration(&mut self, it: &TSInterfaceDeclaration<'a>) {
        self.erase_statement(it.span);
    }

    fn visit_ts_external_module_declaration(&mut self, it: &TSExternalModuleDeclaration<'a>) {
        self.erase_statement(it.span);
    }

    fn visit_ts_global_declaration(&mut self, it: &TSGlobalDeclaration<'a>) {
        self.erase_statement(it.span);
    }

    fn visit_ts_namespace_export_declaration(&mut self, it: &TSNamespaceExportDeclaration<'a>) {
        self.erase_statement(it.span);
    }

    fn visit_ts_enum_declaration(&mut self, it: &TSEnumDeclaration<'a>) {
        if it.declare { self.erase_statement(it.span) } else { self.rewrite_enum(it) }
    }

    fn visit_ts_namespace_declaration(&mut self, it: &TSNamespaceDeclaration<'a>) {
        if it.declare || rewrite::is_type_only(it) { self.erase_statement(it.span) } else { self.rewrite_namespace(it) }
    }

    // Expressions.

    fn visit_ts_as_expression(&mut self, it: &TSAsExpression<'a>) {
        self.visit_expression(&it.expression);
        self.erase_suffix(it.expression.span().end, it.span.end);
    }

    fn visit_ts_satisfies_expression(&mut self, it: &TSSatisfiesExpression<'a>) {
        self.visit_expression(&it.expression);
        self.erase_suffix(it.expression.span().end, it.span.end);
    }

    fn visit_ts_instantiation_expression(&mut self, it: &TSInstantiationExpression<'a>) {
        self.visit_expression(&it.expression);
        self.erase_suffix(it.expression.span().end, it.span.end);
    }

    fn visit_ts_non_null_expression(&mut self, it: &TSNonNullExpression<'a>) {
        self.visit_expression(&it.expression);
        self.edits.blank(it.span.end - 1, it.span.end);
    }

    fn visit_ts_type_assertion(&mut self, it: &TSTypeAssertion<'a>) {
        let inner = it.expression.span();
        if self.text(it.span.start, inner.start).contains(['\n', '\r', '\u{2028}', '\u{2029}']) {
            // After `return`, `throw` and `yield` the operand must start on the same line.
            self.edits.replace(it.span.start, inner.start, "(");
            self.visit_expression(&it.expression);
            self.edits.insert(inner.end, ")");
        } else {
            self.edits.blank(it.span.start, inner.start);
            self.visit_expression(&it.expression);
        }
    }

    fn visit_import_meta(&mut self, it: &ImportMeta) {
        self.fault(it.span.start, "`import.meta` is not available", IMPORTED);
    }

    // Functions.

    fn visit_function(&mut self, it: &Function<'a>, _flags: ScopeFlags) {
        if it.body.is_none() || it.declare {
            return self.erase_statement(it.span);
        }
        if let Some(this) = &it.this_param {
            let end = it.params.items.first().map(|p| p.span.start).or(it.params.rest.as_ref().map(|r| r.span.start));
            match end {
                Some(end) => self.edits.blank(this.span.start, end),
                None => self.edits.blank(this.span.start, it.params.span.end.max(this.span.end + 1) - 1),
            }
        }
        self.in_function(|this| {
            if let Some(parameters) = &it.type_parameters {
                this.visit_ts_type_parameter_declaration(parameters);
            }
            this.visit_formal_parameters(&it.params);
            if let Some(returned) = &it.return_type {
                this.visit_ts_type_annotation(returned);
            }
            if let Some(body) = &it.body {
                this.visit_function_body(body);
            }
        });
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        // No line break is allowed after `async` or `return`, or before `=>`.
        if let Some(parameters) = &it.type_parameters {
            self.edits.blank_line(parameters.span.start, it.params.span.start);
        }
        if let Some(returned) = &it.return_type {
            self.edits.blank_line(returned.span.start, returned.span.end);
        }
        self.in_function(|this| {
            this.visit_formal_parameters(&it.params);
            this.visit_arrow_function_body(&it.body);
        });
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        self.erase_words(it.span.start, it.pattern.span().start, &class::MODIFIERS);
        if it.optional {
            self.erase_mark(it.pattern.span().end, b"?");
        }
        walk::walk_formal_parameter(self, it);
    }

    fn visit_variable_declaration(&mut self, it: &VariableDeclaration<'a>) {
        if it.declare {
            return self.erase_statement(it.span);
        }
        walk::walk_variable_declaration(self, it);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if it.definite {
            self.erase_mark(it.id.span().end, b"!");
        }
        walk::walk_variable_declarator(self, it);
    }

    // Classes: see `class`.

    fn visit_class(&mut self, it: &Class<'a>) {
        self.erase_class(it);
    }

    // Modules. `compile` handles the main export.

    fn visit_import_declaration(&mut self, it: &ImportDeclaration<'a>) {
        let types = |specifier: &ImportDeclarationSpecifier<'_>| matches!(specifier, ImportDeclarationSpecifier::ImportSpecifier(one) if one.import_kind.is_type());
        let only_types = it.specifiers.as_ref().is_some_and(|all| !all.is_empty() && all.iter().all(types));
        if it.import_kind.is_type() || only_types {
            self.erase_statement(it.span);
        } else {
            let message = format!("Cannot import \"{}\"", shorten(&it.source.value));
            self.fault(it.span.start, &message, IMPORTED);
        }
    }

    fn visit_ts_import_equals_declaration(&mut self, it: &TSImportEqualsDeclaration<'a>) {
        if it.import_kind.is_type() {
            self.erase_statement(it.span);
        } else {
            self.fault(it.span.start, "`import x = …` is not supported", IMPORTED);
        }
    }

    fn visit_ts_export_assignment(&mut self, it: &TSExportAssignment<'a>) {
        self.fault(it.span.start, "`export = …` is not supported", "Use `export default`, or return the value.");
    }

    fn visit_export_all_declaration(&mut self, it: &ExportAllDeclaration<'a>) {
        if it.export_kind.is_type() {
            self.erase_statement(it.span);
        } else {
            self.fault(it.span.start, "Cannot export from another module", IMPORTED);
        }
    }

    fn visit_export_from_declaration(&mut self, it: &ExportFromDeclaration<'a>) {
        if it.export_kind.is_type() {
            self.erase_statement(it.span);
        } else {
            self.fault(it.span.start, "Cannot export from another module", IMPORTED);
        }
    }

    fn visit_export_named_declaration(&mut self, it: &ExportNamedDeclaration<'a>) {
        self.erase_statement(it.span);
    }

    fn visit_export_declaration(&mut self, it: &ExportDeclaration<'a>) {
        let start = it.declaration.span().start;
        if rewrite::vanishes(&it.declaration) {
            return self.erase_statement(it.span);
        }
        self.edits.blank_statement(it.span.start, start);
        walk::walk_export_declaration(self, it);
        self.export_from_namespace(it);
    }

    fn visit_export_default_declaration(&mut self, it: &ExportDefaultDeclaration<'a>) {
        match &it.declaration {
            ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => self.erase_statement(it.span),
            ExportDefaultDeclarationKind::FunctionDeclaration(function) if function.body.is_none() => {
                self.erase_statement(it.span);
            }
            _ => walk::walk_export_default_declaration(self, it),
        }
    }
}

/// Most characters of a name in a message.
const MAX_SHOWN_NAME: usize = 60;

/// A name from the program, shortened for a message.
pub(crate) fn shorten(name: &str) -> String {
    clipped(name, MAX_SHOWN_NAME).into_owned()
}
