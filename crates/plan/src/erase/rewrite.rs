//! Rewrites enums and namespaces, which have a run-time effect, as JavaScript in the same place.
//!
//! Both become a variable and a function that fills it. Members are constants inside that function, so that later members
//! can refer to earlier ones. Initialisers keep their position.

use super::Eraser;
use crate::compile::unused_name;
use oxc::{
    ast::ast::*,
    ast_visit::{Visit, walk},
    span::GetSpan,
    syntax::{identifier::is_identifier_name, keyword::is_reserved_keyword},
};
use std::fmt::Write as _;

/// Whether a declaration has no run-time effect.
pub(super) fn vanishes(declaration: &Declaration<'_>) -> bool {
    match declaration {
        Declaration::VariableDeclaration(it) => it.declare,
        Declaration::FunctionDeclaration(it) => it.declare || it.body.is_none(),
        Declaration::ClassDeclaration(it) => it.declare,
        Declaration::TSEnumDeclaration(it) => it.declare,
        Declaration::TSNamespaceDeclaration(it) => it.declare || is_type_only(it),
        Declaration::TSTypeAliasDeclaration(_)
        | Declaration::TSInterfaceDeclaration(_)
        | Declaration::TSExternalModuleDeclaration(_)
        | Declaration::TSGlobalDeclaration(_) => true,
        Declaration::TSImportEqualsDeclaration(_) => false,
    }
}

/// Whether a namespace contains only types.
pub(super) fn is_type_only(namespace: &TSNamespaceDeclaration<'_>) -> bool {
    match &namespace.body {
        TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => is_type_only(inner),
        TSNamespaceDeclarationBody::TSModuleBlock(block) => block.body.iter().all(|statement| match statement {
            Statement::ExportDeclaration(export) => vanishes(&export.declaration),
            Statement::EmptyStatement(_) => true,
            other => other.as_declaration().is_some_and(vanishes),
        }),
    }
}

impl<'a> Eraser<'_, 'a, '_> {
    /// The keyword that declares the variable of an enum or namespace; empty if it is declared already.
    fn declare(&mut self, id: &BindingIdentifier<'a>) -> String {
        let first = id.symbol_id.get().is_none_or(|symbol| self.declared.insert(symbol));
        match (first, self.blocks) {
            (false, _) => String::new(),
            (true, 0) => format!("var {};", id.name),
            (true, _) => format!("let {};", id.name),
        }
    }

    pub(super) fn rewrite_enum(&mut self, it: &TSEnumDeclaration<'a>) {
        let object = self.enum_name.get_or_insert_with(|| unused_name(self.parsed.code, "__enum")).clone();
        let declaration = self.declare(&it.id);
        let members = &it.body.members;
        let first = members.first().map_or(it.body.span.end - 1, |member| member.span.start);
        self.edits.rewrite(it.span.start, first, format!("{declaration}(({object}) => {{"));
        let mut previous: Option<String> = None;
        for (index, member) in members.iter().enumerate() {
            let after = members.get(index + 1).map_or(it.body.span.end - 1, |next| next.span.start);
            previous = self.rewrite_member(member, (index, after), &object, previous);
        }
        let name = &it.id.name;
        self.edits.rewrite(it.body.span.end - 1, it.body.span.end, format!("}})({name} ||= {{}});"));
    }

    /// Writes one member; returns the name of the constant with its value, unless the value is known to be a string.
    fn rewrite_member(
        &mut self,
        member: &TSEnumMember<'a>,
        (index, after): (usize, u32),
        object: &str,
        previous: Option<String>,
    ) -> Option<String> {
        let name = member_name(&member.id);
        let constant = if can_be_constant(name) { name.to_owned() } else { format!("{object}{index}") };
        let key = quote(name);
        let mut head = format!("const {constant} = ");
        match (&member.initializer, index, &previous) {
            (Some(value), _, _) => {
                self.edits.rewrite(member.span.start, value.span().start, head);
                self.visit_expression(value);
            }
            (None, 0, _) => self.edits.rewrite(member.span.start, member.span.end, head + "0"),
            (None, _, Some(previous)) => {
                let _ = write!(head, "{previous} + 1");
                self.edits.rewrite(member.span.start, member.span.end, head);
            }
            (None, _, None) => self.fault(
                member.span.start,
                "This enum member needs a value, because the one before it is a string",
                "Write `= \"…\"` after its name.",
            ),
        }
        let tail = format!(";if (typeof ({object}[{key}] = {constant}) !== \"string\") {object}[{constant}] = {key};");
        self.edits.insert(member.span.end, tail);
        self.edits.blank(member.span.end, after);
        let string = matches!(&member.initializer, Some(Expression::StringLiteral(_) | Expression::TemplateLiteral(_)));
        (!string).then_some(constant)
    }

    pub(super) fn rewrite_namespace(&mut self, it: &TSNamespaceDeclaration<'a>) {
        let object = self.space_name.get_or_insert_with(|| unused_name(self.parsed.code, "__space"));
        let object = format!("{object}{}", self.namespaces.len());
        let declaration = self.declare(&it.id);
        let (body_start, body_end) = (it.body.span().start, it.body.span().end);
        let head = format!("{declaration}(({object}) => {{");
        let tail = format!("}})({} ||= {{}});", it.id.name);
        self.namespaces.push(object.clone());
        match &it.body {
            TSNamespaceDeclarationBody::TSModuleBlock(block) => {
                self.edits.rewrite(it.span.start, body_start + 1, head);
                self.in_function(|this| walk::walk_ts_module_block(this, block));
                self.edits.rewrite(body_end - 1, body_end, tail);
            }
            TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => {
                // `namespace a.b {…}`: the inner one is exported.
                self.edits.rewrite(it.span.start, body_start, head);
                self.in_function(|this| this.rewrite_namespace(inner));
                self.edits.insert(body_end, format!("{object}.{0} = {0};{tail}", inner.id.name));
            }
        }
        self.namespaces.pop();
    }

    /// An export of a namespace is also a property of its object.
    pub(super) fn export_from_namespace(&mut self, it: &ExportDeclaration<'a>) {
        let Some(object) = self.namespaces.last().cloned() else { return };
        let mut names: Vec<&str> = Vec::new();
        match &it.declaration {
            Declaration::VariableDeclaration(variables) => {
                for declarator in &variables.declarations {
                    match &declarator.id {
                        BindingPattern::BindingIdentifier(id) if variables.kind.is_const() => names.push(&id.name),
                        _ => {
                            return self.fault(
                                it.span.start,
                                "A namespace can only export constants, functions, classes and enums",
                                "Use a plain object instead of the namespace.",
                            );
                        }
                    }
                }
            }
            other => names.extend(other.id().map(|id| id.name.as_str())),
        }
        let assignments: String = names.iter().map(|name| format!("{object}.{name} = {name};")).collect();
        self.edits.insert(it.span.end, format!(";{assignments}"));
    }
}

fn member_name<'m>(id: &'m TSEnumMemberName<'_>) -> &'m str {
    match id {
        TSEnumMemberName::Identifier(it) => it.name.as_str(),
        TSEnumMemberName::String(it) | TSEnumMemberName::ComputedString(it) => it.value.as_str(),
        TSEnumMemberName::ComputedTemplateString(it) => {
            it.quasis.first().and_then(|quasi| quasi.value.cooked.as_ref()).map_or("", |text| text.as_str())
        }
    }
}

fn can_be_constant(name: &str) -> bool {
    const NOT_IN_STRICT_CODE: [&str; 5] = ["arguments", "eval", "await", "yield", "let"];
    is_identifier_name(name) && !is_reserved_keyword(name) && !NOT_IN_STRICT_CODE.contains(&name)
}

/// A JavaScript string literal, correct also where JSON and JavaScript differ.
pub(crate) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}
