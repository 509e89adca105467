//! Type erasure inside classes: modifiers, members without run-time effect, parameter properties.

use super::{Eraser, shorten};
use oxc::{
    ast::ast::*,
    ast_visit::Visit,
    span::{GetSpan, Span},
    syntax::scope::ScopeFlags,
};
use std::fmt::Write as _;

/// Modifiers of a member or parameter without run-time effect.
pub(super) const MODIFIERS: [&str; 7] =
    ["public", "private", "protected", "readonly", "override", "abstract", "declare"];

impl<'a> Eraser<'_, 'a, '_> {
    pub(super) fn erase_class(&mut self, it: &Class<'a>) {
        if it.declare {
            return self.erase_statement(it.span);
        }
        if it.r#abstract {
            self.erase_abstract(it);
        }
        if let Some(parameters) = &it.type_parameters {
            self.visit_ts_type_parameter_declaration(parameters);
        }
        if let Some(heritage) = &it.heritage {
            self.visit_expression(&heritage.expression);
            self.erase_type_arguments(heritage.type_arguments.as_deref());
        }
        self.erase_implements(it);
        for element in &it.body.body {
            self.erase_element(element, it.heritage.is_some());
        }
    }

    fn erase_abstract(&mut self, it: &Class<'a>) {
        let end = it.id.as_ref().map_or(it.body.span.start, |id| id.span.start);
        if let Some((span, _)) = self.words(it.span.start, end).into_iter().find(|(_, word)| *word == "abstract") {
            self.edits.blank(span.start, span.end);
        }
    }

    fn erase_implements(&mut self, it: &Class<'a>) {
        let Some(last) = it.implements.last() else { return };
        let heritage = it
            .heritage
            .as_ref()
            .map(|h| h.type_arguments.as_ref().map_or(h.expression.span().end, |arguments| arguments.span.end));
        let start = heritage
            .or(it.type_parameters.as_ref().map(|parameters| parameters.span.end))
            .or(it.id.as_ref().map(|id| id.span.end))
            .or_else(|| self.words(it.span.start, it.body.span.start).first().map(|(span, _)| span.end));
        if let Some(start) = start {
            self.edits.blank(start, last.span.end);
        }
    }

    fn erase_element(&mut self, element: &ClassElement<'a>, derived: bool) {
        match element {
            ClassElement::StaticBlock(it) => self.visit_static_block(it),
            ClassElement::MethodDefinition(it) => self.erase_method(it, derived),
            ClassElement::PropertyDefinition(it) => self.erase_property(it),
            ClassElement::TSIndexSignature(it) => self.erase_statement(it.span),
            ClassElement::AccessorProperty(it) => {
                self.fault(it.span.start, "`accessor` fields are not supported", "Write a getter and a setter.");
            }
        }
    }

    /// Erases the modifiers of a member. The member before it may lack its semicolon, so a semicolon replaces the first
    /// modifier.
    fn erase_member_modifiers(&mut self, span: Span, key: u32) {
        for (word_span, word) in self.words(span.start, key) {
            if !MODIFIERS.contains(&word) {
                continue;
            }
            if word_span.start == span.start {
                self.edits.blank_statement(word_span.start, word_span.end);
            } else {
                self.edits.blank(word_span.start, word_span.end);
            }
        }
    }

    fn erase_method(&mut self, it: &MethodDefinition<'a>, derived: bool) {
        if it.value.body.is_none() || it.r#type.is_abstract() {
            return self.erase_statement(it.span);
        }
        self.erase_member_modifiers(it.span, it.key.span().start);
        if it.computed {
            self.visit_property_key(&it.key);
        }
        if it.optional {
            self.erase_mark(it.key.span().end, b"?");
        }
        if it.kind == MethodDefinitionKind::Constructor {
            self.assign_parameter_properties(&it.value, derived);
        }
        self.visit_function(&it.value, ScopeFlags::Function);
    }

    fn erase_property(&mut self, it: &PropertyDefinition<'a>) {
        if it.declare || it.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition {
            return self.erase_statement(it.span);
        }
        self.erase_member_modifiers(it.span, it.key.span().start);
        if it.computed {
            self.visit_property_key(&it.key);
        }
        if it.optional || it.definite {
            self.erase_mark(it.key.span().end, b"?!");
        }
        match (&it.type_annotation, &it.value) {
            // Without the semicolon, a field named `get` or `static` would be read as a modifier of the next member.
            (Some(annotation), None) => self.edits.blank_statement(annotation.span.start, annotation.span.end),
            (Some(annotation), Some(_)) => self.visit_ts_type_annotation(annotation),
            (None, _) => {}
        }
        if let Some(value) = &it.value {
            self.in_function(|this| this.visit_expression(value));
        }
    }

    /// `constructor(private x)` also assigns `this.x = x`.
    fn assign_parameter_properties(&mut self, constructor: &Function<'a>, derived: bool) {
        let mut assignments = String::new();
        for parameter in &constructor.params.items {
            if parameter.accessibility.is_none() && !parameter.readonly && !parameter.r#override {
                continue;
            }
            match &parameter.pattern {
                BindingPattern::BindingIdentifier(id) => {
                    // Writing to a String cannot fail.
                    let _ = write!(assignments, "this.{0} = {0};", id.name);
                }
                other => {
                    let text = shorten(self.text(other.span().start, other.span().end));
                    let message = format!("A parameter property cannot be the pattern {text}");
                    return self.fault(other.span().start, &message, "Give the parameter a name.");
                }
            }
        }
        let Some(body) = constructor.body.as_ref().filter(|_| !assignments.is_empty()) else { return };
        let after = if derived {
            body.statements.iter().find(|statement| is_super_call(statement)).map(|statement| statement.span().end)
        } else {
            Some(body.directives.last().map_or(body.span.start + 1, |directive| directive.span.end))
        };
        match after {
            Some(at) => self.edits.insert(at, format!(";{assignments}")),
            None => self.fault(
                body.span.start,
                "A constructor with parameter properties must call `super(…)` as a statement of its own",
                "Assign the fields by hand, after `super(…)`.",
            ),
        }
    }
}

fn is_super_call(statement: &Statement<'_>) -> bool {
    let Statement::ExpressionStatement(it) = statement else { return false };
    matches!(&it.expression, Expression::CallExpression(call) if matches!(call.callee, Expression::Super(_)))
}
