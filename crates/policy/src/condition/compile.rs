//! From the syntax tree of `cel` to a tree whose variables, functions and patterns are resolved.
//!
//! Whatever a condition cannot use is refused here: an unknown name is found when the configuration is loaded, not at a call.

use cel::IdedExpr;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapExpr, SelectExpr, operators,
};
use regex::{Regex, RegexBuilder};

use super::ConditionFault;

/// Levels of the tree. Bounds the recursion of the evaluation.
const MAX_DEPTH: usize = 100;
/// Bytes of a compiled pattern.
const MAX_PATTERN: usize = 256 << 10;

/// A literal value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
}

/// A root variable, or a field of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variable {
    Args,
    Caller,
    Profile,
    Backend,
    ToolName,
    ReadOnly,
    Destructive,
    OpenWorld,
    InRun,
    InDay,
}

/// An operator or function of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Index,
    StartsWith,
    EndsWith,
    Contains,
}

/// An operator or function of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unary {
    Not,
    Negate,
    NotStrictlyFalse,
    Size,
    Int,
    Uint,
    Double,
    Text,
    Bool,
    Lower,
    Upper,
}

/// One step of a condition.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Literal(Literal),
    Variable(Variable),
    /// A variable of a macro, by its place.
    Slot(usize),
    /// The list in a slot with one more value, in place.
    Append(usize, Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Conditional(Box<Node>, Box<Node>, Box<Node>),
    Unary(Unary, Box<Node>),
    Binary(Binary, Box<Node>, Box<Node>),
    Select(Box<Node>, String),
    Has(Box<Node>, String),
    Matches(Box<Node>, Regex),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Fold(Box<Fold>),
}

/// A loop over a list or the keys of a map: what `all`, `exists`, `filter` and `map` are.
#[derive(Debug, Clone)]
pub(super) struct Fold {
    pub(super) range: Node,
    pub(super) item: usize,
    pub(super) result: usize,
    pub(super) init: Node,
    pub(super) while_true: Node,
    pub(super) step: Node,
    pub(super) end: Node,
}

impl Node {
    /// Whether it reads a variable of which this is said.
    pub(super) fn reads(&self, of: &impl Fn(Variable) -> bool) -> bool {
        match self {
            Node::Variable(variable) => of(*variable),
            Node::Literal(_) | Node::Slot(_) => false,
            Node::Append(_, one) | Node::Unary(_, one) | Node::Select(one, _) => one.reads(of),
            Node::Has(one, _) | Node::Matches(one, _) => one.reads(of),
            Node::And(one, other) | Node::Or(one, other) | Node::Binary(_, one, other) => {
                one.reads(of) || other.reads(of)
            }
            Node::Conditional(test, one, other) => test.reads(of) || one.reads(of) || other.reads(of),
            Node::List(items) => items.iter().any(|item| item.reads(of)),
            Node::Map(entries) => entries.iter().any(|(key, value)| key.reads(of) || value.reads(of)),
            Node::Fold(fold) => {
                let Fold { range, init, while_true, step, end, .. } = &**fold;
                [range, init, while_true, step, end].into_iter().any(|node| node.reads(of))
            }
        }
    }
}

/// Compiles a whole condition; also gives the number of slots that it needs.
pub(super) fn compile(tree: &IdedExpr) -> Result<(Node, usize), ConditionFault> {
    let mut compiler = Compiler { scope: Vec::new(), slots: 0, depth: 0 };
    let root = compiler.node(tree)?;
    match gives_bool(&root) {
        true => Ok((root, compiler.slots)),
        false => Err(ConditionFault::NotBoolean),
    }
}

/// Whether it may give a boolean. What is known to give something else would fail at every call.
fn gives_bool(node: &Node) -> bool {
    match node {
        Node::Literal(literal) => matches!(literal, Literal::Bool(_)),
        Node::List(_) | Node::Map(_) | Node::Append(..) => false,
        Node::Variable(variable) => {
            matches!(variable, Variable::ReadOnly | Variable::Destructive | Variable::OpenWorld)
        }
        Node::Binary(operator, ..) => {
            !matches!(operator, Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Modulo)
        }
        Node::Unary(operator, _) => matches!(operator, Unary::Not | Unary::NotStrictlyFalse | Unary::Bool),
        Node::Conditional(_, one, other) => gives_bool(one) || gives_bool(other),
        _ => true,
    }
}

struct Compiler<'a> {
    /// Names of macros' variables that can be seen, innermost last.
    scope: Vec<(&'a str, usize)>,
    slots: usize,
    depth: usize,
}

impl<'a> Compiler<'a> {
    fn node(&mut self, tree: &'a IdedExpr) -> Result<Node, ConditionFault> {
        if self.depth == MAX_DEPTH {
            return Err(ConditionFault::TooComplex);
        }
        self.depth += 1;
        let node = match &tree.expr {
            Expr::Literal(value) => literal(value),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(fold) => self.fold(fold),
            Expr::Struct(_) => Err(ConditionFault::Unsupported("a message")),
            Expr::Unspecified => Err(ConditionFault::Syntax("an expression is missing".to_owned())),
        };
        self.depth -= 1;
        node
    }

    fn boxed(&mut self, tree: &'a IdedExpr) -> Result<Box<Node>, ConditionFault> {
        self.node(tree).map(Box::new)
    }

    fn slot_of(&self, name: &str) -> Option<usize> {
        self.scope.iter().rev().find(|(known, _)| *known == name).map(|(_, slot)| *slot)
    }

    fn variable(&self, name: &str) -> Result<Node, ConditionFault> {
        if let Some(slot) = self.slot_of(name) {
            return Ok(Node::Slot(slot));
        }
        match name {
            "args" => Ok(Node::Variable(Variable::Args)),
            "caller" => Ok(Node::Variable(Variable::Caller)),
            "profile" => Ok(Node::Variable(Variable::Profile)),
            "tool" | "counts" => Err(ConditionFault::Unsupported("tool or counts without a field")),
            _ => Err(ConditionFault::UnknownVariable(name.to_owned())),
        }
    }

    /// A field of `tool`, `counts` or `caller`, which are no values of their own.
    fn field(&self, root: &str, field: &str) -> Option<Result<Variable, ConditionFault>> {
        if self.slot_of(root).is_some() {
            return None;
        }
        let unknown = |root, fields| Err(ConditionFault::UnknownField(root, field.to_owned(), fields));
        Some(match (root, field) {
            ("caller", "name") => Ok(Variable::Caller),
            ("caller", _) => unknown("caller", "name"),
            ("tool", "backend") => Ok(Variable::Backend),
            ("tool", "name") => Ok(Variable::ToolName),
            ("tool", "readOnly") => Ok(Variable::ReadOnly),
            ("tool", "destructive") => Ok(Variable::Destructive),
            ("tool", "openWorld") => Ok(Variable::OpenWorld),
            ("tool", _) => unknown("tool", "backend, name, readOnly, destructive and openWorld"),
            ("counts", "run") => Ok(Variable::InRun),
            ("counts", "day") => Ok(Variable::InDay),
            ("counts", _) => unknown("counts", "run and day"),
            _ => return None,
        })
    }

    fn select(&mut self, select: &'a SelectExpr) -> Result<Node, ConditionFault> {
        let root = match &select.operand.expr {
            Expr::Ident(root) => self.field(root, &select.field),
            _ => None,
        };
        match root {
            Some(variable) if select.test => variable.map(|_| Node::Literal(Literal::Bool(true))),
            Some(variable) => variable.map(Node::Variable),
            None if select.test => Ok(Node::Has(self.boxed(&select.operand)?, select.field.clone())),
            None => Ok(Node::Select(self.boxed(&select.operand)?, select.field.clone())),
        }
    }

    fn call(&mut self, call: &'a CallExpr) -> Result<Node, ConditionFault> {
        let unknown = || ConditionFault::UnknownFunction(call.func_name.clone(), call.args.len());
        match (call.target.as_deref(), call.args.as_slice()) {
            (None, [one]) => match unary(&call.func_name) {
                Some(operator) => Ok(Node::Unary(operator, self.boxed(one)?)),
                None => Err(unknown()),
            },
            (None, [one, other]) => match call.func_name.as_str() {
                operators::LOGICAL_AND => Ok(Node::And(self.boxed(one)?, self.boxed(other)?)),
                operators::LOGICAL_OR => Ok(Node::Or(self.boxed(one)?, self.boxed(other)?)),
                "matches" => self.matches(one, other),
                name => match binary(name) {
                    Some(operator) => Ok(Node::Binary(operator, self.boxed(one)?, self.boxed(other)?)),
                    None => Err(unknown()),
                },
            },
            (None, [test, one, other]) if call.func_name == operators::CONDITIONAL => {
                Ok(Node::Conditional(self.boxed(test)?, self.boxed(one)?, self.boxed(other)?))
            }
            (Some(target), []) => match call.func_name.as_str() {
                "size" => Ok(Node::Unary(Unary::Size, self.boxed(target)?)),
                "lowerAscii" => Ok(Node::Unary(Unary::Lower, self.boxed(target)?)),
                "upperAscii" => Ok(Node::Unary(Unary::Upper, self.boxed(target)?)),
                _ => Err(unknown()),
            },
            (Some(target), [one]) => {
                let operator = match call.func_name.as_str() {
                    "matches" => return self.matches(target, one),
                    "startsWith" => Binary::StartsWith,
                    "endsWith" => Binary::EndsWith,
                    "contains" => Binary::Contains,
                    _ => return Err(unknown()),
                };
                Ok(Node::Binary(operator, self.boxed(target)?, self.boxed(one)?))
            }
            _ => Err(unknown()),
        }
    }

    /// Patterns are compiled once, so they cannot come from the arguments.
    fn matches(&mut self, text: &'a IdedExpr, pattern: &'a IdedExpr) -> Result<Node, ConditionFault> {
        let Expr::Literal(LiteralValue::String(pattern)) = &pattern.expr else {
            return Err(ConditionFault::DynamicPattern);
        };
        let built = RegexBuilder::new(pattern.inner()).size_limit(MAX_PATTERN).dfa_size_limit(MAX_PATTERN).build();
        let pattern = built.map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => ConditionFault::Pattern("it is too complex".to_owned()),
            error => {
                let text = error.to_string();
                ConditionFault::Pattern(text.lines().last().unwrap_or_default().trim().to_owned())
            }
        })?;
        Ok(Node::Matches(self.boxed(text)?, pattern))
    }

    fn list(&mut self, list: &'a ListExpr) -> Result<Node, ConditionFault> {
        if !list.optional_indices.is_empty() {
            return Err(ConditionFault::Unsupported("an optional entry"));
        }
        list.elements.iter().map(|item| self.node(item)).collect::<Result<_, _>>().map(Node::List)
    }

    fn map(&mut self, map: &'a MapExpr) -> Result<Node, ConditionFault> {
        let entry = |entry: &'a cel::common::ast::IdedEntryExpr, this: &mut Self| match &entry.expr {
            EntryExpr::MapEntry(entry) if !entry.optional => Ok((this.node(&entry.key)?, this.node(&entry.value)?)),
            EntryExpr::MapEntry(_) => Err(ConditionFault::Unsupported("an optional entry")),
            EntryExpr::StructField(_) => Err(ConditionFault::Unsupported("a message")),
        };
        map.entries.iter().map(|it| entry(it, self)).collect::<Result<_, _>>().map(Node::Map)
    }

    fn fold(&mut self, fold: &'a ComprehensionExpr) -> Result<Node, ConditionFault> {
        if fold.iter_var2.is_some() {
            return Err(ConditionFault::Unsupported("a macro with two variables"));
        }
        let range = self.node(&fold.iter_range)?;
        let init = self.node(&fold.accu_init)?;
        let (item, result) = (self.slots, self.slots + 1);
        self.slots += 2;
        self.scope.push((&fold.accu_var, result));
        let while_true = self.node(&fold.loop_cond)?;
        let end = self.node(&fold.result)?;
        self.scope.push((&fold.iter_var, item));
        let step = self.step(&fold.loop_step, &fold.accu_var, result)?;
        self.scope.truncate(self.scope.len() - 2);
        Ok(Node::Fold(Box::new(Fold { range, item, result, init, while_true, step, end })))
    }

    /// `result + [value]` is done in place, as otherwise a list of n values would take n² steps.
    fn step(&mut self, step: &'a IdedExpr, result: &str, slot: usize) -> Result<Node, ConditionFault> {
        let Expr::Call(call) = &step.expr else { return self.node(step) };
        match call.args.as_slice() {
            [one, other] if call.func_name == operators::ADD => match (&one.expr, &other.expr) {
                (Expr::Ident(name), Expr::List(list)) if name == result => match list.elements.as_slice() {
                    [value] => Ok(Node::Append(slot, self.boxed(value)?)),
                    _ => self.node(step),
                },
                _ => self.node(step),
            },
            [test, one, other] if call.func_name == operators::CONDITIONAL => {
                let (test, one) = (self.boxed(test)?, self.step(one, result, slot)?);
                Ok(Node::Conditional(test, Box::new(one), self.boxed(other)?))
            }
            _ => self.node(step),
        }
    }
}

fn literal(value: &LiteralValue) -> Result<Node, ConditionFault> {
    Ok(Node::Literal(match value {
        LiteralValue::Boolean(value) => Literal::Bool(*value.inner()),
        LiteralValue::Double(value) => Literal::Double(*value.inner()),
        LiteralValue::Int(value) => Literal::Int(*value.inner()),
        LiteralValue::Null => Literal::Null,
        LiteralValue::String(value) => Literal::Text(value.inner().to_owned()),
        LiteralValue::UInt(value) => Literal::Uint(*value.inner()),
        LiteralValue::Bytes(_) => return Err(ConditionFault::Unsupported("a text of bytes")),
    }))
}

fn unary(name: &str) -> Option<Unary> {
    Some(match name {
        operators::LOGICAL_NOT => Unary::Not,
        operators::NEGATE => Unary::Negate,
        operators::NOT_STRICTLY_FALSE => Unary::NotStrictlyFalse,
        "size" => Unary::Size,
        "int" => Unary::Int,
        "uint" => Unary::Uint,
        "double" => Unary::Double,
        "string" => Unary::Text,
        "bool" => Unary::Bool,
        _ => return None,
    })
}

fn binary(name: &str) -> Option<Binary> {
    Some(match name {
        operators::ADD => Binary::Add,
        operators::SUBSTRACT => Binary::Subtract,
        operators::MULTIPLY => Binary::Multiply,
        operators::DIVIDE => Binary::Divide,
        operators::MODULO => Binary::Modulo,
        operators::EQUALS => Binary::Equal,
        operators::NOT_EQUALS => Binary::NotEqual,
        operators::LESS => Binary::Less,
        operators::LESS_EQUALS => Binary::LessOrEqual,
        operators::GREATER => Binary::Greater,
        operators::GREATER_EQUALS => Binary::GreaterOrEqual,
        operators::IN => Binary::In,
        operators::INDEX => Binary::Index,
        _ => return None,
    })
}
