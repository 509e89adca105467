//! Evaluates a compiled condition within a budget of steps and bytes.
//!
//! The steps bound the time and, since every value that is made takes one, the memory; the bytes bound the texts that are
//! made and those that are searched. Both are shared by all conditions that one call is decided by.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;
use toolgate_wire::foreign_text::clipped;

use super::compile::{Binary, Fold, Node, Unary, Variable};
use super::value::{ListVal, MapVal, Val};
use super::{ConditionError, Facts};

/// Steps that the conditions of one call may take together.
const MAX_STEPS: u32 = 100_000;
/// Bytes of text that they may look through together, counted in blocks.
const BYTES_A_STEP: usize = 32;
/// Bytes of text that they may match with patterns together: a pattern takes longer for each byte.
const MAX_MATCHED: usize = 256 << 10;
/// Bytes of text that they may make together.
const MAX_MADE: usize = 1 << 20;

/// What the decision of one call may still use.
#[derive(Debug, Clone)]
pub struct Budget {
    steps: u32,
    matched: usize,
    made: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { steps: MAX_STEPS, matched: MAX_MATCHED, made: MAX_MADE }
    }
}

impl Budget {
    pub(super) fn step(&mut self) -> Result<(), ConditionError> {
        self.steps = self.steps.checked_sub(1).ok_or(ConditionError::OverBudget)?;
        Ok(())
    }

    /// Text that is looked through.
    pub(super) fn bytes(&mut self, bytes: usize) -> Result<(), ConditionError> {
        let steps = u32::try_from(bytes / BYTES_A_STEP).unwrap_or(u32::MAX);
        self.steps = self.steps.checked_sub(steps).ok_or(ConditionError::OverBudget)?;
        Ok(())
    }

    fn pattern(&mut self, bytes: usize) -> Result<(), ConditionError> {
        self.matched = self.matched.checked_sub(bytes).ok_or(ConditionError::OverBudget)?;
        Ok(())
    }

    fn text(&mut self, bytes: usize) -> Result<(), ConditionError> {
        self.made = self.made.checked_sub(bytes).ok_or(ConditionError::OverBudget)?;
        self.bytes(bytes)
    }
}

type Evaluated<'a> = Result<Val<'a>, ConditionError>;

/// Whether the condition gives true.
pub(super) fn holds(root: &Node, slots: usize, facts: &Facts<'_>, budget: &mut Budget) -> Result<bool, ConditionError> {
    let mut machine = Machine { facts, slots: vec![Ok(Val::Null); slots], budget };
    match machine.value(root)? {
        Val::Bool(holds) => Ok(holds),
        other => Err(ConditionError::WrongKind("a condition", other.kind().to_owned())),
    }
}

struct Machine<'a, 'b> {
    facts: &'a Facts<'a>,
    /// Variables of macros. An error in a loop is kept: a later element may decide without it.
    slots: Vec<Evaluated<'a>>,
    budget: &'b mut Budget,
}

impl<'a> Machine<'a, '_> {
    fn value(&mut self, node: &'a Node) -> Evaluated<'a> {
        self.budget.step()?;
        match node {
            Node::Literal(literal) => Ok(Val::literal(literal)),
            Node::Variable(variable) => Ok(self.variable(*variable)),
            Node::Slot(slot) => self.slots.get(*slot).cloned().unwrap_or(Ok(Val::Null)),
            Node::Append(slot, value) => self.append(*slot, value),
            Node::And(one, other) => self.logical(one, other, false),
            Node::Or(one, other) => self.logical(one, other, true),
            Node::Conditional(test, one, other) => match self.value(test)? {
                Val::Bool(true) => self.value(one),
                Val::Bool(false) => self.value(other),
                value => Err(wrong("?:", &[&value])),
            },
            Node::Unary(operator, one) => self.unary(*operator, one),
            Node::Binary(operator, one, other) => {
                let (one, other) = (self.value(one)?, self.value(other)?);
                self.binary(*operator, one, other)
            }
            Node::Select(of, field) => match self.value(of)? {
                Val::Map(map) => map.field(field, self.budget)?.ok_or_else(|| ConditionError::NoSuchKey(field.clone())),
                value => Err(wrong("a field", &[&value])),
            },
            Node::Has(of, field) => match self.value(of)? {
                Val::Map(map) => Ok(Val::Bool(map.field(field, self.budget)?.is_some())),
                value => Err(wrong("has", &[&value])),
            },
            Node::Matches(text, pattern) => match self.value(text)? {
                Val::Text(text) => {
                    self.budget.pattern(text.len())?;
                    self.budget.bytes(text.len())?;
                    Ok(Val::Bool(pattern.is_match(&text)))
                }
                value => Err(wrong("matches", &[&value])),
            },
            Node::List(items) => {
                let items = items.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?;
                Ok(Val::List(ListVal::Made(Rc::new(items))))
            }
            Node::Map(entries) => self.map(entries),
            Node::Fold(fold) => self.fold(fold),
        }
    }

    fn variable(&self, variable: Variable) -> Val<'a> {
        let Facts { args, caller, profile, backend, tool, traits, in_run, in_day } = self.facts;
        let text = |text: &'a str| Val::Text(Cow::Borrowed(text));
        let count = |count: u64| i64::try_from(count).map_or(Val::Uint(count), Val::Int);
        match variable {
            Variable::Args => Val::of(args),
            Variable::Caller => text(caller),
            Variable::Profile => text(profile),
            Variable::Backend => text(backend),
            Variable::ToolName => text(tool),
            Variable::ReadOnly => Val::Bool(traits.read_only),
            Variable::Destructive => Val::Bool(traits.destructive),
            Variable::OpenWorld => Val::Bool(traits.open_world),
            Variable::InRun => count(*in_run),
            Variable::InDay => count(*in_day),
        }
    }

    /// `&&` and `||`: one side that decides makes an error of the other irrelevant, whichever comes first.
    fn logical(&mut self, one: &'a Node, other: &'a Node, decides: bool) -> Evaluated<'a> {
        let one = self.boolean(one);
        if one == Ok(decides) {
            return Ok(Val::Bool(decides));
        }
        let other = self.boolean(other);
        match (one, other) {
            (_, Ok(other)) if other == decides => Ok(Val::Bool(decides)),
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            (Ok(_), Ok(_)) => Ok(Val::Bool(!decides)),
        }
    }

    fn boolean(&mut self, node: &'a Node) -> Result<bool, ConditionError> {
        match self.value(node)? {
            Val::Bool(value) => Ok(value),
            value => Err(wrong("a logical operator", &[&value])),
        }
    }

    fn unary(&mut self, operator: Unary, node: &'a Node) -> Evaluated<'a> {
        let value = self.value(node);
        if operator == Unary::NotStrictlyFalse {
            return match value {
                Err(ConditionError::OverBudget) => Err(ConditionError::OverBudget),
                value => Ok(Val::Bool(!matches!(value, Ok(Val::Bool(false))))),
            };
        }
        match (operator, value?) {
            (Unary::Not, Val::Bool(value)) => Ok(Val::Bool(!value)),
            (Unary::Negate, Val::Int(value)) => value.checked_neg().map(Val::Int).ok_or(ConditionError::Overflow("-")),
            (Unary::Negate, Val::Double(value)) => Ok(Val::Double(-value)),
            (Unary::Size, Val::Text(text)) => {
                self.budget.bytes(text.len())?;
                Ok(length(text.chars().count()))
            }
            (Unary::Size, Val::List(list)) => Ok(length(list.len())),
            (Unary::Size, Val::Map(map)) => Ok(length(map.len())),
            (Unary::Int, value) => integer(value),
            (Unary::Uint, value) => unsigned(value),
            (Unary::Double, value) => double(value),
            (Unary::Bool, Val::Bool(value)) => Ok(Val::Bool(value)),
            (Unary::Bool, Val::Text(text)) => match text.as_ref() {
                "true" | "True" | "TRUE" | "t" | "1" => Ok(Val::Bool(true)),
                "false" | "False" | "FALSE" | "f" | "0" => Ok(Val::Bool(false)),
                _ => Err(ConditionError::NotANumber("bool")),
            },
            (Unary::Text, Val::Text(text)) => Ok(Val::Text(text)),
            (Unary::Text, Val::Bool(value)) => Ok(Val::Text(value.to_string().into())),
            (Unary::Text, Val::Int(value)) => Ok(Val::Text(value.to_string().into())),
            (Unary::Text, Val::Uint(value)) => Ok(Val::Text(value.to_string().into())),
            (Unary::Text, Val::Double(value)) => Ok(Val::Text(value.to_string().into())),
            (Unary::Lower, Val::Text(text)) => {
                self.budget.text(text.len())?;
                Ok(Val::Text(text.to_ascii_lowercase().into()))
            }
            (Unary::Upper, Val::Text(text)) => {
                self.budget.text(text.len())?;
                Ok(Val::Text(text.to_ascii_uppercase().into()))
            }
            (operator, value) => Err(wrong(unary_name(operator), &[&value])),
        }
    }

    fn binary(&mut self, operator: Binary, one: Val<'a>, other: Val<'a>) -> Evaluated<'a> {
        match operator {
            Binary::Equal => one.equals(&other, self.budget).map(Val::Bool),
            Binary::NotEqual => one.equals(&other, self.budget).map(|same| Val::Bool(!same)),
            Binary::Less => self.compare("<", &one, &other).map(|order| Val::Bool(order.is_lt())),
            Binary::LessOrEqual => self.compare("<=", &one, &other).map(|order| Val::Bool(order.is_le())),
            Binary::Greater => self.compare(">", &one, &other).map(|order| Val::Bool(order.is_gt())),
            Binary::GreaterOrEqual => self.compare(">=", &one, &other).map(|order| Val::Bool(order.is_ge())),
            Binary::In => self.contained(&one, &other).map(Val::Bool),
            Binary::Index => self.index(&one, &other),
            Binary::StartsWith | Binary::EndsWith | Binary::Contains => {
                let (Val::Text(text), Val::Text(part)) = (&one, &other) else {
                    return Err(wrong(text_operator(operator), &[&one, &other]));
                };
                self.budget.bytes(text.len() + part.len())?;
                Ok(Val::Bool(match operator {
                    Binary::StartsWith => text.starts_with(part.as_ref()),
                    Binary::EndsWith => text.ends_with(part.as_ref()),
                    _ => text.contains(part.as_ref()),
                }))
            }
            Binary::Add => self.add(one, other),
            Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Modulo => arithmetic(operator, &one, &other),
        }
    }

    fn compare(&mut self, name: &'static str, one: &Val<'_>, other: &Val<'_>) -> Result<Ordering, ConditionError> {
        match (one, other) {
            (Val::Text(one), Val::Text(other)) => {
                self.budget.bytes(one.len().min(other.len()))?;
                Ok(one.cmp(other))
            }
            (Val::Bool(one), Val::Bool(other)) => Ok(one.cmp(other)),
            _ => one.compare_numbers(other).ok_or_else(|| wrong(name, &[one, other])),
        }
    }

    fn contained(&mut self, value: &Val<'a>, container: &Val<'a>) -> Result<bool, ConditionError> {
        match container {
            Val::List(list) => {
                for item in list.items() {
                    if item.equals(value, self.budget)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Val::Map(map) if value.can_be_key() => Ok(map.get(value, self.budget)?.is_some()),
            _ => Err(wrong("in", &[value, container])),
        }
    }

    fn index(&mut self, of: &Val<'a>, index: &Val<'a>) -> Evaluated<'a> {
        match (of, index) {
            (Val::List(list), index @ (Val::Int(_) | Val::Uint(_) | Val::Double(_))) => {
                whole_index(index).and_then(|index| list.get(index)).ok_or(ConditionError::NoSuchIndex)
            }
            (Val::Map(map), key) => map.get(key, self.budget)?.ok_or_else(|| {
                let key = match key {
                    Val::Text(text) => clipped(text, 100).into_owned(),
                    key => key.kind().to_owned(),
                };
                ConditionError::NoSuchKey(key)
            }),
            _ => Err(wrong("[]", &[of, index])),
        }
    }

    fn add(&mut self, one: Val<'a>, other: Val<'a>) -> Evaluated<'a> {
        match (one, other) {
            (Val::Text(one), Val::Text(other)) => {
                self.budget.text(one.len() + other.len())?;
                Ok(Val::Text(Cow::Owned(format!("{one}{other}"))))
            }
            (Val::List(one), Val::List(other)) => {
                let mut joined = Vec::new();
                for item in one.items().chain(other.items()) {
                    self.budget.step()?;
                    joined.push(item);
                }
                Ok(Val::List(ListVal::Made(Rc::new(joined))))
            }
            (one, other) => arithmetic(Binary::Add, &one, &other),
        }
    }

    fn append(&mut self, slot: usize, value: &'a Node) -> Evaluated<'a> {
        let value = self.value(value)?;
        let place = self.slots.get_mut(slot).ok_or(ConditionError::NoSuchIndex)?;
        match std::mem::replace(place, Ok(Val::Null))? {
            Val::List(ListVal::Made(mut items)) => {
                Rc::make_mut(&mut items).push(value);
                Ok(Val::List(ListVal::Made(items)))
            }
            other => Err(wrong("+", &[&other])),
        }
    }

    fn map(&mut self, nodes: &'a [(Node, Node)]) -> Evaluated<'a> {
        let mut entries: Vec<(Val<'a>, Val<'a>)> = Vec::with_capacity(nodes.len());
        for (key, value) in nodes {
            let (key, value) = (self.value(key)?, self.value(value)?);
            if matches!(key, Val::Null | Val::Double(_) | Val::List(_) | Val::Map(_)) {
                return Err(wrong("a key", &[&key]));
            }
            for (known, _) in &entries {
                if known.equals(&key, self.budget)? {
                    return Err(wrong("a map with one key twice", &[&key]));
                }
            }
            entries.push((key, value));
        }
        Ok(Val::Map(MapVal::Made(Rc::new(entries))))
    }

    fn fold(&mut self, fold: &'a Fold) -> Evaluated<'a> {
        let range = self.value(&fold.range)?;
        let init = self.value(&fold.init)?;
        self.set(fold.result, Ok(init));
        let mut index = 0;
        let keys = match &range {
            Val::List(_) => Vec::new(),
            Val::Map(map) => {
                let mut keys = Vec::new();
                for key in map.keys() {
                    self.budget.step()?;
                    keys.push(key);
                }
                keys
            }
            other => return Err(wrong("a loop", &[other])),
        };
        loop {
            let item = match &range {
                Val::List(list) => list.get(index),
                _ => keys.get(index).cloned(),
            };
            let Some(item) = item else { break };
            index += 1;
            if self.value(&fold.while_true)?.is_false() {
                break;
            }
            self.set(fold.item, Ok(item));
            let step = self.value(&fold.step);
            if step.as_ref().is_err_and(|error| *error == ConditionError::OverBudget) {
                return step;
            }
            self.set(fold.result, step);
        }
        let end = self.value(&fold.end);
        self.set(fold.result, Ok(Val::Null));
        end
    }

    fn set(&mut self, slot: usize, value: Evaluated<'a>) {
        if let Some(place) = self.slots.get_mut(slot) {
            *place = value;
        }
    }
}

impl Val<'_> {
    fn is_false(&self) -> bool {
        matches!(self, Val::Bool(false))
    }
}

fn wrong(operator: &'static str, values: &[&Val<'_>]) -> ConditionError {
    let kinds: Vec<&str> = values.iter().map(|value| value.kind()).collect();
    ConditionError::WrongKind(operator, kinds.join(" and "))
}

fn length<'a>(length: usize) -> Val<'a> {
    Val::Int(i64::try_from(length).unwrap_or(i64::MAX))
}

fn whole_index(index: &Val<'_>) -> Option<usize> {
    match index {
        Val::Int(index) => usize::try_from(*index).ok(),
        Val::Uint(index) => usize::try_from(*index).ok(),
        Val::Double(index) if index.fract() == 0.0 && *index >= 0.0 && *index < 1e15 => Some(*index as usize),
        _ => None,
    }
}

fn arithmetic<'a>(operator: Binary, one: &Val<'a>, other: &Val<'a>) -> Evaluated<'a> {
    let name = arithmetic_name(operator);
    match (one, other) {
        (Val::Int(one), Val::Int(other)) => {
            let result = match operator {
                Binary::Add => one.checked_add(*other),
                Binary::Subtract => one.checked_sub(*other),
                Binary::Multiply => one.checked_mul(*other),
                Binary::Divide => one.checked_div(*other),
                _ => one.checked_rem(*other),
            };
            result.map(Val::Int).ok_or(ConditionError::Overflow(name))
        }
        (Val::Uint(one), Val::Uint(other)) => {
            let result = match operator {
                Binary::Add => one.checked_add(*other),
                Binary::Subtract => one.checked_sub(*other),
                Binary::Multiply => one.checked_mul(*other),
                Binary::Divide => one.checked_div(*other),
                _ => one.checked_rem(*other),
            };
            result.map(Val::Uint).ok_or(ConditionError::Overflow(name))
        }
        (Val::Double(a), Val::Double(b)) => match operator {
            Binary::Add => Ok(Val::Double(a + b)),
            Binary::Subtract => Ok(Val::Double(a - b)),
            Binary::Multiply => Ok(Val::Double(a * b)),
            Binary::Divide => Ok(Val::Double(a / b)),
            _ => Err(wrong(name, &[one, other])),
        },
        _ => Err(wrong(name, &[one, other])),
    }
}

fn integer(value: Val<'_>) -> Evaluated<'_> {
    let range = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    match value {
        Val::Int(value) => Ok(Val::Int(value)),
        Val::Uint(value) => i64::try_from(value).map(Val::Int).map_err(|_| ConditionError::Overflow("int")),
        Val::Double(value) if range.contains(&value) => Ok(Val::Int(value as i64)),
        Val::Double(_) => Err(ConditionError::Overflow("int")),
        Val::Text(text) => text.parse().map(Val::Int).map_err(|_| ConditionError::NotANumber("int")),
        value => Err(wrong("int", &[&value])),
    }
}

fn unsigned(value: Val<'_>) -> Evaluated<'_> {
    match value {
        Val::Uint(value) => Ok(Val::Uint(value)),
        Val::Int(value) => u64::try_from(value).map(Val::Uint).map_err(|_| ConditionError::Overflow("uint")),
        Val::Double(value) if (0.0..18_446_744_073_709_551_616.0).contains(&value) => Ok(Val::Uint(value as u64)),
        Val::Double(_) => Err(ConditionError::Overflow("uint")),
        Val::Text(text) => text.parse().map(Val::Uint).map_err(|_| ConditionError::NotANumber("uint")),
        value => Err(wrong("uint", &[&value])),
    }
}

fn double(value: Val<'_>) -> Evaluated<'_> {
    match value {
        Val::Double(value) => Ok(Val::Double(value)),
        Val::Int(value) => Ok(Val::Double(value as f64)),
        Val::Uint(value) => Ok(Val::Double(value as f64)),
        Val::Text(text) => text.parse().map(Val::Double).map_err(|_| ConditionError::NotANumber("double")),
        value => Err(wrong("double", &[&value])),
    }
}

fn arithmetic_name(operator: Binary) -> &'static str {
    match operator {
        Binary::Add => "+",
        Binary::Subtract => "-",
        Binary::Multiply => "*",
        Binary::Divide => "/",
        _ => "%",
    }
}

fn text_operator(operator: Binary) -> &'static str {
    match operator {
        Binary::StartsWith => "startsWith",
        Binary::EndsWith => "endsWith",
        _ => "contains",
    }
}

fn unary_name(operator: Unary) -> &'static str {
    match operator {
        Unary::Not => "!",
        Unary::Negate => "-",
        Unary::Size => "size",
        Unary::Text => "string",
        Unary::Bool => "bool",
        Unary::Lower => "lowerAscii",
        Unary::Upper => "upperAscii",
        Unary::NotStrictlyFalse | Unary::Int | Unary::Uint | Unary::Double => "a conversion",
    }
}
