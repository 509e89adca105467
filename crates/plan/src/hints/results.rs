//! Advice about results that are used as something that they are not: a `Response`, MCP's form of a result, an object with
//! other keys.

use crate::{
    parse::Parsed,
    reach::{self, Target},
    suggest,
    tools::Tools,
};
use oxc::{ast::ast::*, syntax::symbol::SymbolId};
use std::collections::HashMap;

/// Variables that are followed.
const MAX_VARIABLES: usize = 200;
/// Keys on the way from a result to a value.
const MAX_PATH: usize = 16;
/// Keys that a hint lists.
const MAX_KEYS: usize = 12;
/// Methods of an array whose first parameter's first parameter is an item.
const WITH_ITEMS: &[&str] = &[
    "every",
    "filter",
    "find",
    "findIndex",
    "findLast",
    "findLastIndex",
    "flatMap",
    "forEach",
    "map",
    "some",
    "sort",
    "toSorted",
];
/// Methods of an array that give items of it.
const OF_ITEMS: &[&str] =
    &["at", "filter", "find", "findLast", "pop", "reverse", "shift", "slice", "sort", "toReversed", "toSorted"];

/// A value inside the result of a tool: the keys to it. Arrays on the way are entered without a key.
#[derive(Clone)]
struct ResultPath {
    backend: String,
    tool: String,
    keys: Vec<String>,
}

impl ResultPath {
    fn with(mut self, key: &str) -> Option<Self> {
        self.keys.push(key.to_owned());
        (self.keys.len() <= MAX_PATH).then_some(self)
    }
}

/// The variables that hold the result of a tool call, or a part of it.
#[derive(Default)]
pub(super) struct Results(HashMap<SymbolId, ResultPath>);

impl Results {
    /// Remembers the variables of `const r = await b.t({…})` and of `const { issues } = r`.
    pub(super) fn bind(&mut self, declarator: &VariableDeclarator<'_>, parsed: &Parsed<'_>, tools: &dyn Tools) {
        if let Some(path) = declarator.init.as_ref().and_then(|init| self.path(init, parsed, tools)) {
            self.bind_pattern(&declarator.id, &path);
        }
    }

    /// Remembers the variable of `for (const issue of r.issues)`.
    pub(super) fn bind_loop(&mut self, it: &ForOfStatement<'_>, parsed: &Parsed<'_>, tools: &dyn Tools) {
        if let ForStatementLeft::VariableDeclaration(left) = &it.left
            && let (Some(first), Some(path)) = (left.declarations.first(), self.path(&it.right, parsed, tools))
        {
            self.bind_pattern(&first.id, &path);
        }
    }

    /// Remembers the parameter of `r.issues.map((issue) => …)`.
    pub(super) fn bind_callback(&mut self, call: &CallExpression<'_>, parsed: &Parsed<'_>, tools: &dyn Tools) {
        if let Some((array, method)) = any_member(&call.callee)
            && WITH_ITEMS.contains(&method)
            && let Some(path) = self.path(array, parsed, tools)
        {
            let params = match call.arguments.first().and_then(Argument::as_expression) {
                Some(Expression::ArrowFunctionExpression(it)) => &it.params,
                Some(Expression::FunctionExpression(it)) => &it.params,
                _ => return,
            };
            let items = if matches!(method, "sort" | "toSorted") { 2 } else { 1 };
            params.items.iter().take(items).for_each(|param| self.bind_pattern(&param.pattern, &path));
        }
    }

    fn bind_pattern(&mut self, pattern: &BindingPattern<'_>, path: &ResultPath) {
        match pattern {
            BindingPattern::BindingIdentifier(id) => {
                if let Some(symbol) = id.symbol_id.get().filter(|_| self.0.len() < MAX_VARIABLES) {
                    self.0.insert(symbol, path.clone());
                }
            }
            BindingPattern::ObjectPattern(object) => {
                for property in &object.properties {
                    if let Some(key) = property.key.static_name()
                        && let Some(inner) = path.clone().with(&key)
                    {
                        self.bind_pattern(&property.value, &inner);
                    }
                }
            }
            BindingPattern::AssignmentPattern(it) => self.bind_pattern(&it.left, path),
            BindingPattern::ArrayPattern(_) => {}
        }
    }

    /// Where in which result a value is, if that can be told.
    fn path(&self, expression: &Expression<'_>, parsed: &Parsed<'_>, tools: &dyn Tools) -> Option<ResultPath> {
        let inner = expression.get_inner_expression();
        match inner {
            Expression::Identifier(id) => {
                let symbol = parsed.scoping.get_reference(id.reference_id.get()?).symbol_id()?;
                self.0.get(&symbol).filter(|_| !parsed.scoping.symbol_is_mutated(symbol)).cloned()
            }
            Expression::AwaitExpression(it) => {
                let Expression::CallExpression(call) = it.argument.get_inner_expression() else { return None };
                match reach::callee(parsed, &call.callee, tools)?.target {
                    Target::Tool { backend, tool } => Some(ResultPath { backend, tool, keys: Vec::new() }),
                    Target::NoSuchTool { .. } | Target::NoSuchBackend => None,
                }
            }
            Expression::CallExpression(call) => {
                let (array, method) = any_member(&call.callee)?;
                self.path(array, parsed, tools).filter(|_| OF_ITEMS.contains(&method))
            }
            Expression::ChainExpression(it) => match &it.expression {
                ChainElement::StaticMemberExpression(it) => {
                    self.path(&it.object, parsed, tools)?.with(it.property.name.as_str())
                }
                _ => None,
            },
            // An index: an item of the array.
            Expression::ComputedMemberExpression(it) if reach::member(inner).is_none() => {
                self.path(&it.object, parsed, tools).filter(|_| it.expression.is_number_literal())
            }
            _ => {
                let (object, key) = any_member(inner)?;
                self.path(object, parsed, tools)?.with(key)
            }
        }
    }

    /// `r.content[0]` and `r.structuredContent.x`, where `r` is the value of a tool call.
    pub(super) fn about_envelope(
        &self,
        object: &Expression<'_>,
        parsed: &Parsed<'_>,
        tools: &dyn Tools,
    ) -> Option<String> {
        let (result, name, _) = reach::member(object)?;
        let is_envelope = matches!(name, "content" | "structuredContent")
            && self.path(result, parsed, tools).is_some_and(|path| path.keys.is_empty());
        is_envelope.then(|| {
            format!(
                "A tool's result is its value, without MCP's envelope: if there is no `{name}` in it, use it directly."
            )
        })
    }

    /// `r.isues.map(…)`, where results of that tool are known to have `issues`.
    pub(super) fn about_key(&self, object: &Expression<'_>, parsed: &Parsed<'_>, tools: &dyn Tools) -> Option<String> {
        let ResultPath { backend, tool, keys } = self.path(object, parsed, tools)?;
        for (at, key) in keys.iter().enumerate() {
            let before: Vec<&str> = keys.iter().take(at).map(String::as_str).collect();
            let known = tools.result_keys(&backend, &tool, &before).filter(|_| key != "length")?;
            if known.contains(key) || known.is_empty() {
                continue;
            }
            let place = if before.is_empty() { String::new() } else { format!(", under `{}`", before.join(".")) };
            let meant = suggest::question(&suggest::nearest(key, known.iter().map(String::as_str)));
            let listed = known.iter().take(MAX_KEYS).cloned().collect::<Vec<_>>().join(", ");
            let more = if known.len() > MAX_KEYS { ", …" } else { "" };
            let sentences = [
                Some(format!("The result of {backend}.{tool} has no `{key}`{place}.")),
                meant,
                Some(format!("It has {listed}{more}.")),
            ];
            return Some(sentences.into_iter().flatten().collect::<Vec<_>>().join(" "));
        }
        None
    }
}

/// The object and the property, also of `object?.property`.
fn any_member<'e, 'a>(expression: &'e Expression<'a>) -> Option<(&'e Expression<'a>, &'e str)> {
    match expression.get_inner_expression() {
        Expression::StaticMemberExpression(it) => Some((&it.object, it.property.name.as_str())),
        other => reach::member(other).map(|(object, name, _)| (object, name)),
    }
}

/// `x.json()`: nothing in the sandbox has such a method.
pub(super) fn about_response(call: &CallExpression<'_>, tools: &dyn Tools) -> Option<String> {
    let (_, name, _) = reach::member(&call.callee)?;
    if !matches!(name, "json" | "text" | "blob" | "arrayBuffer") || !call.arguments.is_empty() {
        return None;
    }
    let fetching = tools.functions().into_iter().find(|function| matches!(function.as_str(), "httpCall" | "api.fetch"));
    let fetched = match fetching {
        Some(function) => format!(" A response of `{function}` has its body in `json` or `body`."),
        None => String::new(),
    };
    Some(format!("A tool's result is plain data, already parsed: use it without `.{name}()`.{fetched}"))
}
