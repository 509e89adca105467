//! Where the values of properties go, and which of them a program asks about.
//!
//! `const { error } = reply; if (error) …` asks for the property as `if (reply.error)` does: a value is followed from the
//! property through variables, items of lists, properties of the program's own objects, parameters and results of its
//! functions to the test. Functions and properties are known by their names, whatever they belong to: a property that
//! counts as asked for by mistake is a mistake that is not found, never a program that is refused. Order is not looked at.

use std::collections::{HashMap, HashSet};

use oxc::{
    ast::ast::*,
    semantic::{Scoping, SymbolId},
};

use super::syntax::called_member;

/// Values that are noted for one program.
const MAX_VALUES: usize = 100_000;

/// Arguments that a parameter for all others is followed to.
const MAX_REST: usize = 8;

/// What a program asks about a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Question {
    /// Whether it is there.
    Presence,
    /// Whether it is some other value.
    Comparison,
}

/// What holds values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    Variable(SymbolId),
    /// A property that the program gives its objects.
    Property(String),
    /// What a function returns, by where it begins.
    Body(u32),
    /// What functions of a name return.
    Returned(String),
    /// What functions of a name get, by its place among the arguments.
    Argument(String, usize),
}

/// A value, or the items of a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    holder: Holder,
    is_items: bool,
}

/// A value that goes somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// Of the property whose name is there.
    Property(u32, String),
    /// Made by comparing the property whose name is there.
    Comparing(u32),
    /// Of another place.
    Of(Place),
}

/// The values of a program's places, and what it asks.
#[derive(Debug, Clone, Default)]
pub(super) struct Flow {
    into: HashMap<Place, Vec<Value>>,
    asked: Vec<(Value, Question)>,
    /// Values noted so far.
    noted: usize,
}

impl Flow {
    /// A variable gets the value of an expression.
    pub(super) fn bind(&mut self, variable: SymbolId, value: &Expression<'_>, scoping: &Scoping) {
        self.give(Holder::Variable(variable), value, scoping);
    }

    /// A variable gets the value of a property.
    pub(super) fn bind_property(&mut self, variable: SymbolId, at: u32, name: &str) {
        self.add(Place::of(Holder::Variable(variable)), Value::Property(at, name.to_owned()));
    }

    /// A variable gets the items of a list, one after another.
    pub(super) fn bind_items(&mut self, variable: SymbolId, list: &Expression<'_>, scoping: &Scoping) {
        let place = Place::of(Holder::Variable(variable));
        items(list, scoping, &mut |value| self.add(place.clone(), value));
    }

    /// A property of an object of the program gets a value.
    pub(super) fn give_property(&mut self, name: &str, value: &Expression<'_>, scoping: &Scoping) {
        self.give(Holder::Property(name.to_owned()), value, scoping);
    }

    /// A function returns a value.
    pub(super) fn give_back(&mut self, function: u32, value: &Expression<'_>, scoping: &Scoping) {
        self.give(Holder::Body(function), value, scoping);
    }

    /// A function of this name begins there, with these parameters.
    pub(super) fn name_function(&mut self, name: &str, function: u32, parameters: &FormalParameters<'_>) {
        self.alias(Holder::Returned(name.to_owned()), &Holder::Body(function));
        for (index, one) in parameters.items.iter().enumerate() {
            if let Some(symbol) = one.pattern.get_binding_identifier().and_then(|id| id.symbol_id.get()) {
                self.alias(Holder::Variable(symbol), &Holder::Argument(name.to_owned(), index));
            }
        }
        let rest = parameters.rest.as_ref().and_then(|rest| rest.rest.argument.get_binding_identifier());
        if let Some(symbol) = rest.and_then(|id| id.symbol_id.get()) {
            let fixed = parameters.items.len();
            for index in fixed..fixed + MAX_REST {
                let argument = Place::of(Holder::Argument(name.to_owned(), index));
                self.add(Place::of(Holder::Variable(symbol)).items(), Value::Of(argument));
            }
        }
    }

    /// A function of this name is called with a value.
    pub(super) fn give_argument(&mut self, name: &str, index: usize, value: &Expression<'_>, scoping: &Scoping) {
        self.give(Holder::Argument(name.to_owned(), index), value, scoping);
    }

    /// A function of this name is called with the items of a list.
    pub(super) fn give_items(&mut self, name: &str, list: &Expression<'_>, scoping: &Scoping) {
        let place = Place::of(Holder::Argument(name.to_owned(), 0));
        items(list, scoping, &mut |value| self.add(place.clone(), value));
    }

    /// The program asks about the value of an expression.
    pub(super) fn ask(&mut self, value: &Expression<'_>, question: Question, scoping: &Scoping) {
        values(value, scoping, &mut |value| self.add_question(value, question));
    }

    /// The program asks about the value of a variable.
    pub(super) fn ask_variable(&mut self, variable: SymbolId, question: Question) {
        self.add_question(Value::Of(Place::of(Holder::Variable(variable))), question);
    }

    /// The program asks about every item of a list.
    pub(super) fn ask_items(&mut self, list: &Expression<'_>, question: Question, scoping: &Scoping) {
        items(list, scoping, &mut |value| self.add_question(value, question));
    }

    /// The program asks about what a function returns that begins there.
    pub(super) fn ask_body(&mut self, function: u32, question: Question) {
        self.add_question(Value::Of(Place::of(Holder::Body(function))), question);
    }

    /// The program asks about what functions of this name return.
    pub(super) fn ask_returned(&mut self, name: &str, question: Question) {
        self.add_question(Value::Of(Place::of(Holder::Returned(name.to_owned()))), question);
    }

    /// The names of properties that the program asks for where it reads them.
    pub(super) fn probed_directly(&self) -> HashSet<String> {
        let name = |asked: &(Value, Question)| match asked {
            (Value::Property(_, name), Question::Presence) => Some(name.clone()),
            _ => None,
        };
        self.asked.iter().filter_map(name).collect()
    }

    /// The properties that the program asks about, with where their names are.
    pub(super) fn questions(&self) -> Vec<(u32, String, Question)> {
        let mut found = Vec::new();
        let mut known: HashSet<(Place, Question)> = HashSet::new();
        let mut open = self.asked.clone();
        while let Some((value, question)) = open.pop() {
            let place = match value {
                Value::Property(at, name) => {
                    found.push((at, name.clone(), question));
                    Place::of(Holder::Property(name))
                }
                Value::Comparing(_) => continue,
                Value::Of(place) => place,
            };
            if let Some(values) = self.into.get(&place)
                && known.insert((place, question))
            {
                open.extend(values.iter().map(|value| (value.clone(), question)));
            }
        }
        found
    }

    /// The variables that get values of these properties.
    pub(super) fn variables_of(&self, properties: &HashSet<u32>) -> HashSet<SymbolId> {
        let mut from: HashMap<&Place, Vec<&Place>> = HashMap::new();
        let mut open: Vec<&Place> = Vec::new();
        for (place, values) in &self.into {
            for value in values {
                match value {
                    Value::Property(at, _) | Value::Comparing(at) if properties.contains(at) => open.push(place),
                    Value::Property(..) | Value::Comparing(_) => {}
                    Value::Of(other) => from.entry(other).or_default().push(place),
                }
            }
        }
        let mut known: HashSet<&Place> = HashSet::new();
        while let Some(place) = open.pop() {
            if known.insert(place) {
                open.extend(from.get(place).into_iter().flatten());
            }
        }
        let variable = |place: &&Place| match place.holder {
            Holder::Variable(symbol) => Some(symbol),
            _ => None,
        };
        known.iter().filter_map(variable).collect()
    }

    fn give(&mut self, holder: Holder, value: &Expression<'_>, scoping: &Scoping) {
        let place = Place::of(holder);
        values(value, scoping, &mut |value| self.add(place.clone(), value));
        let place = place.items();
        items(value, scoping, &mut |value| self.add(place.clone(), value));
    }

    /// One holder has what another has.
    fn alias(&mut self, holder: Holder, of: &Holder) {
        let (place, of) = (Place::of(holder), Place::of(of.clone()));
        self.add(place.clone().items(), Value::Of(of.clone().items()));
        self.add(place, Value::Of(of));
    }

    fn add(&mut self, place: Place, value: Value) {
        self.noted += 1;
        if !self.is_overfull() {
            self.into.entry(place).or_default().push(value);
        }
    }

    fn add_question(&mut self, value: Value, question: Question) {
        self.noted += 1;
        if !self.is_overfull() {
            self.asked.push((value, question));
        }
    }

    /// Whether there was more to note than is kept.
    pub(super) fn is_overfull(&self) -> bool {
        self.noted > MAX_VALUES
    }
}

impl Place {
    fn of(holder: Holder) -> Self {
        Place { holder, is_items: false }
    }

    fn items(self) -> Self {
        Place { is_items: true, ..self }
    }
}

fn variable(id: &IdentifierReference<'_>, scoping: &Scoping) -> Option<Place> {
    let symbol = scoping.get_reference(id.reference_id.get()?).symbol_id()?;
    Some(Place::of(Holder::Variable(symbol)))
}

/// The values that an expression may have.
fn values(expression: &Expression<'_>, scoping: &Scoping, found: &mut dyn FnMut(Value)) {
    match expression.get_inner_expression() {
        Expression::StaticMemberExpression(it) => property(it, found),
        Expression::Identifier(id) => variable(id, scoping).into_iter().for_each(|place| found(Value::Of(place))),
        Expression::ComputedMemberExpression(it) => items(&it.object, scoping, found),
        Expression::ChainExpression(it) => match &it.expression {
            ChainElement::StaticMemberExpression(it) => property(it, found),
            ChainElement::ComputedMemberExpression(it) => items(&it.object, scoping, found),
            ChainElement::CallExpression(it) => returned(it, scoping, found),
            _ => {}
        },
        Expression::CallExpression(it) => returned(it, scoping, found),
        Expression::LogicalExpression(it) => {
            values(&it.left, scoping, found);
            values(&it.right, scoping, found);
        }
        Expression::ConditionalExpression(it) => {
            values(&it.consequent, scoping, found);
            values(&it.alternate, scoping, found);
        }
        Expression::BinaryExpression(it) => {
            for side in [&it.left, &it.right] {
                if let Expression::StaticMemberExpression(it) = side.get_inner_expression() {
                    found(Value::Comparing(it.property.span.start));
                }
            }
        }
        Expression::AwaitExpression(it) => values(&it.argument, scoping, found),
        Expression::AssignmentExpression(it) => values(&it.right, scoping, found),
        Expression::SequenceExpression(it) => {
            it.expressions.last().into_iter().for_each(|one| values(one, scoping, found));
        }
        _ => {}
    }
}

fn property(it: &StaticMemberExpression<'_>, found: &mut dyn FnMut(Value)) {
    found(Value::Property(it.property.span.start, it.property.name.to_string()));
}

/// The values that a call may have.
fn returned(it: &CallExpression<'_>, scoping: &Scoping, found: &mut dyn FnMut(Value)) {
    let of = |name: &str| Value::Of(Place::of(Holder::Returned(name.to_owned())));
    match (it.callee.get_inner_expression(), called_member(it)) {
        (Expression::Identifier(id), _) => found(of(&id.name)),
        (_, Some((object, method))) => {
            if matches!(method, "find" | "findLast" | "at" | "pop" | "shift") {
                items(object, scoping, found);
            }
            found(of(method));
        }
        _ => {}
    }
}

/// The items that an expression may have, if it is a list.
fn items(expression: &Expression<'_>, scoping: &Scoping, found: &mut dyn FnMut(Value)) {
    match expression.get_inner_expression() {
        Expression::ArrayExpression(it) => {
            for one in &it.elements {
                match one {
                    ArrayExpressionElement::SpreadElement(it) => items(&it.argument, scoping, found),
                    one => one.as_expression().into_iter().for_each(|one| values(one, scoping, found)),
                }
            }
        }
        Expression::Identifier(id) => {
            variable(id, scoping).into_iter().for_each(|place| found(Value::Of(place.items())));
        }
        Expression::CallExpression(it) => items_of_call(it, scoping, found),
        Expression::LogicalExpression(it) => {
            items(&it.left, scoping, found);
            items(&it.right, scoping, found);
        }
        Expression::ConditionalExpression(it) => {
            items(&it.consequent, scoping, found);
            items(&it.alternate, scoping, found);
        }
        Expression::AwaitExpression(it) => items(&it.argument, scoping, found),
        _ => {}
    }
}

fn items_of_call(it: &CallExpression<'_>, scoping: &Scoping, found: &mut dyn FnMut(Value)) {
    let arguments = || it.arguments.iter().filter_map(|one| one.as_expression());
    match (it.callee.get_inner_expression(), called_member(it)) {
        (Expression::Identifier(id), _) => {
            found(Value::Of(Place::of(Holder::Returned(id.name.to_string())).items()));
        }
        (_, Some((_, "map" | "flatMap"))) => match arguments().next().map(Expression::get_inner_expression) {
            Some(Expression::ArrowFunctionExpression(it)) => body(it.span.start, found),
            Some(Expression::FunctionExpression(it)) => body(it.span.start, found),
            Some(Expression::Identifier(id)) => {
                found(Value::Of(Place::of(Holder::Returned(id.name.to_string()))));
            }
            _ => {}
        },
        // `Promise.all([…])`, `Array.from(list)`, and what keeps the items of a list.
        (_, Some((object, _))) => {
            items(object, scoping, found);
            arguments().for_each(|one| items(one, scoping, found));
        }
        _ => {}
    }
}

/// What a function returns, or the items of that: `flatMap`.
fn body(function: u32, found: &mut dyn FnMut(Value)) {
    let place = Place::of(Holder::Body(function));
    found(Value::Of(place.clone().items()));
    found(Value::Of(place));
}
