//! Where the values come from that a program stores into.
//!
//! A store (`list.push(x)`, `object[key] = x`) gives what it goes into another type than the one that is inferred for it. That
//! does no harm to what starts empty, whose parts have no type yet. A literal that has a type is given the type `any`
//! instead. What comes from elsewhere, such as the result of a call, cannot be helped: the program is not trusted.
//!
//! Variables are followed to what they are declared with and assigned, parameters to the arguments of the calls of their
//! function. Order and conditions are not looked at. No types.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use oxc::{
    ast::ast::*,
    semantic::{IsGlobalReference, Scoping, SymbolId},
    span::Span,
};

use super::syntax::{called_member, is_empty};

/// Steps of following all stores of a program; what takes more comes from elsewhere.
const MAX_STEPS: usize = 20_000;
/// Steps from a store to where its value comes from, each on the stack of the caller.
const MAX_DEPTH: usize = 64;

/// Where a value comes from.
#[derive(Debug)]
pub(super) enum Source {
    /// `[]`, `{}` or `new Map()`: it takes anything, and so do its parts.
    Empty,
    /// An object literal with properties.
    Record { span: Span, fields: HashMap<String, Source>, has_spread: bool },
    /// A list literal with items.
    List { span: Span, items: Vec<Source> },
    /// A variable or a parameter.
    Variable(SymbolId),
    /// A property or an item of something. The name of a property that is computed is not known.
    Part { of: Box<Source>, name: Option<String> },
    /// An object of a class of the program, whose methods are its own.
    Instance,
    /// One of these.
    Either(Vec<Source>),
    /// A text, a number, `null`: nothing can be stored in it.
    Scalar,
    /// Anything else.
    Elsewhere,
}

impl Source {
    pub(super) fn of(expression: &Expression<'_>, scoping: &Scoping) -> Self {
        let of = |one: &Expression<'_>| Self::of(one, scoping);
        match expression.get_inner_expression() {
            it if is_empty(it, scoping) => Self::Empty,
            Expression::Identifier(id) if id.name == "undefined" => Self::Scalar,
            Expression::Identifier(id) => Self::variable(id, scoping),
            Expression::ObjectExpression(it) => Self::record(it, scoping),
            Expression::ArrayExpression(it) => {
                let item = |one: &ArrayExpressionElement<'_>| one.as_expression().map_or(Self::Elsewhere, of);
                Self::List { span: it.span, items: it.elements.iter().map(item).collect() }
            }
            Expression::ChainExpression(it) => match &it.expression {
                ChainElement::CallExpression(it) => Self::call(it, scoping),
                other => other.member_expression().map_or(Self::Elsewhere, |it| Self::member(it, scoping)),
            },
            Expression::CallExpression(it) => Self::call(it, scoping),
            Expression::NewExpression(it) if !it.callee.is_global_reference(scoping) => Self::Instance,
            Expression::LogicalExpression(it) => Self::Either(vec![of(&it.left), of(&it.right)]),
            Expression::ConditionalExpression(it) => Self::Either(vec![of(&it.consequent), of(&it.alternate)]),
            Expression::SequenceExpression(it) => it.expressions.last().map_or(Self::Scalar, of),
            Expression::AssignmentExpression(it) => Self::assignment(it, scoping),
            Expression::BinaryExpression(_) | Expression::UnaryExpression(_) | Expression::TemplateLiteral(_) => {
                Self::Scalar
            }
            it if it.is_literal() => Self::Scalar,
            it => it.as_member_expression().map_or(Self::Elsewhere, |it| Self::member(it, scoping)),
        }
    }

    /// Of an argument of a call.
    pub(super) fn of_argument(argument: &Argument<'_>, scoping: &Scoping) -> Self {
        argument.as_expression().map_or(Self::Elsewhere, |one| Self::of(one, scoping))
    }

    fn variable(id: &IdentifierReference<'_>, scoping: &Scoping) -> Self {
        let reference = id.reference_id.get().map(|reference| scoping.get_reference(reference));
        reference.and_then(|reference| reference.symbol_id()).map_or(Self::Elsewhere, Self::Variable)
    }

    fn record(it: &ObjectExpression<'_>, scoping: &Scoping) -> Self {
        let mut fields = HashMap::new();
        let mut has_spread = false;
        for one in &it.properties {
            match one {
                ObjectPropertyKind::ObjectProperty(it) => match it.key.static_name() {
                    Some(name) => drop(fields.insert(name.into_owned(), Self::of(&it.value, scoping))),
                    None => has_spread = true,
                },
                ObjectPropertyKind::SpreadProperty(_) => has_spread = true,
            }
        }
        Self::Record { span: it.span, fields, has_spread }
    }

    pub(super) fn member(it: &MemberExpression<'_>, scoping: &Scoping) -> Self {
        let name = it.static_property_name().map(str::to_owned);
        Self::Part { of: Box::new(Self::of(it.object(), scoping)), name }
    }

    /// `map.get(key)` is a part of the map.
    fn call(it: &CallExpression<'_>, scoping: &Scoping) -> Self {
        match called_member(it) {
            Some((object, "get")) => Self::Part { of: Box::new(Self::of(object, scoping)), name: None },
            _ => Self::Elsewhere,
        }
    }

    fn assignment(it: &AssignmentExpression<'_>, scoping: &Scoping) -> Self {
        let right = Self::of(&it.right, scoping);
        let left = match it.left.as_simple_assignment_target() {
            _ if it.operator == AssignmentOperator::Assign => return right,
            Some(_) if !it.operator.is_logical() => return Self::Scalar,
            Some(SimpleAssignmentTarget::AssignmentTargetIdentifier(id)) => Self::variable(id, scoping),
            Some(target) => target.as_member_expression().map_or(Self::Elsewhere, |it| Self::member(it, scoping)),
            None => Self::Elsewhere,
        };
        Self::Either(vec![left, right])
    }
}

/// How values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreKind {
    /// `object[key] = value`.
    Key,
    /// `list.push(value)`.
    Method,
}

/// A call of a function by its name, or a use whose arguments are known all the same.
struct FunctionUse {
    arguments: Vec<Source>,
    /// Whether the parameters after these get values from elsewhere.
    has_more: bool,
}

/// What is put into a part of a variable's value.
struct Put {
    /// The part, from the variable on.
    part: Vec<Option<String>>,
    values: Rc<Vec<Source>>,
}

/// What is known of variables, and what is stored.
#[derive(Default)]
pub(super) struct Sources {
    variables: HashMap<SymbolId, Vec<Source>>,
    /// Parameters of functions with a name: the function, and the place among its parameters.
    parameters: HashMap<SymbolId, (SymbolId, usize)>,
    uses: HashMap<SymbolId, Vec<FunctionUse>>,
    /// What is put into a variable's value or into a part of it, under a key or as an item.
    put: HashMap<SymbolId, Vec<Put>>,
    /// What is assigned to properties, by their names.
    assigned: HashMap<String, Vec<Source>>,
    stores: Vec<(StoreKind, Source)>,
}

impl Sources {
    /// A variable is declared with a value, or assigned.
    pub(super) fn add(&mut self, variable: SymbolId, source: Source) {
        self.variables.entry(variable).or_default().push(source);
    }

    /// A property of this name is assigned.
    pub(super) fn assign_property(&mut self, name: &str, source: Source) {
        self.assigned.entry(name.to_owned()).or_default().push(source);
    }

    /// Values are stored in what comes from here.
    pub(super) fn store(&mut self, kind: StoreKind, into: Source, values: impl IntoIterator<Item = Source>) {
        let values: Vec<Source> = values.into_iter().collect();
        if !values.is_empty() {
            self.put_into(&into, &mut Vec::new(), &Rc::new(values));
        }
        self.stores.push((kind, into));
    }

    /// Notes what is put into a part, given by its names from the outermost on.
    fn put_into(&mut self, into: &Source, names: &mut Vec<Option<String>>, values: &Rc<Vec<Source>>) {
        match into {
            Source::Variable(variable) => {
                let part = names.iter().rev().cloned().collect();
                self.put.entry(*variable).or_default().push(Put { part, values: Rc::clone(values) });
            }
            Source::Part { of, name } if names.len() < MAX_DEPTH => {
                names.push(name.clone());
                self.put_into(of, names, values);
                names.pop();
            }
            Source::Either(all) => all.iter().for_each(|one| self.put_into(one, names, values)),
            _ => {}
        }
    }

    /// A function with a name has these parameters.
    pub(super) fn declare_function(
        &mut self,
        function: SymbolId,
        parameters: &FormalParameters<'_>,
        scoping: &Scoping,
    ) {
        for (index, one) in parameters.items.iter().enumerate() {
            let BindingPattern::BindingIdentifier(id) = &one.pattern else { continue };
            let Some(symbol) = id.symbol_id.get() else { continue };
            self.parameters.insert(symbol, (function, index));
            if let Some(value) = &one.initializer {
                self.add(symbol, Source::of(value, scoping));
            }
        }
    }

    /// A function that is written where it is called gets these arguments. Its other parameters come from elsewhere.
    pub(super) fn call_inline(&mut self, parameters: &FormalParameters<'_>, arguments: Vec<Source>) {
        for (one, source) in parameters.items.iter().zip(arguments) {
            if let BindingPattern::BindingIdentifier(id) = &one.pattern
                && let Some(symbol) = id.symbol_id.get()
            {
                self.add(symbol, source);
            }
        }
    }

    /// A function is called by its name.
    pub(super) fn call_named(&mut self, function: SymbolId, arguments: &[Argument<'_>], scoping: &Scoping) {
        // What is spread shifts the arguments behind it.
        let fixed = arguments.iter().position(Argument::is_spread).unwrap_or(arguments.len());
        let has_more = fixed < arguments.len();
        let arguments = arguments.iter().take(fixed).map(|one| Source::of_argument(one, scoping)).collect();
        self.uses.entry(function).or_default().push(FunctionUse { arguments, has_more });
    }

    /// A function is given by its name to a `reduce` that starts with this.
    pub(super) fn reduce_named(&mut self, function: SymbolId, start: Source) {
        self.uses.entry(function).or_default().push(FunctionUse { arguments: vec![start], has_more: true });
    }

    /// The literals that stores make `any`; `None` if something is stored in what comes from elsewhere.
    pub(super) fn literals_stored_in(&self, scoping: &Scoping) -> Option<HashSet<Span>> {
        let mut walk = Walk {
            sources: self,
            scoping,
            kind: StoreKind::Key,
            path: Vec::new(),
            variables: HashMap::new(),
            properties: HashMap::new(),
            literals: HashSet::new(),
            steps: 0,
            depth: 0,
        };
        for (kind, store) in &self.stores {
            walk.kind = *kind;
            if !walk.takes_anything(store) {
                return None;
            }
        }
        Some(walk.literals)
    }
}

/// Follows stores to where values come from.
struct Walk<'s> {
    sources: &'s Sources,
    scoping: &'s Scoping,
    kind: StoreKind,
    /// The part that is meant, the outermost name last.
    path: Vec<Option<&'s str>>,
    /// Variables that are being followed, and how long the path was.
    variables: HashMap<SymbolId, usize>,
    /// Names of properties whose assigned values are being followed, and how long the path was; none for those of all.
    properties: HashMap<Option<&'s str>, usize>,
    literals: HashSet<Span>,
    steps: usize,
    depth: usize,
}

impl<'s> Walk<'s> {
    fn takes_anything(&mut self, source: &'s Source) -> bool {
        self.steps += 1;
        if self.steps > MAX_STEPS || self.depth >= MAX_DEPTH {
            return false;
        }
        self.depth += 1;
        let takes = self.follow(source);
        self.depth -= 1;
        takes
    }

    fn follow(&mut self, source: &'s Source) -> bool {
        match source {
            Source::Empty | Source::Scalar => true,
            Source::Elsewhere => false,
            Source::Instance => self.kind == StoreKind::Method && self.path.is_empty(),
            Source::Either(all) => all.iter().all(|one| self.takes_anything(one)),
            Source::Variable(variable) => self.variable(*variable),
            Source::Part { of, name } => {
                if !self.assigned(name.as_deref()) {
                    return false;
                }
                self.path.push(name.as_deref());
                let takes = self.takes_anything(of);
                self.path.pop();
                takes
            }
            Source::Record { span, fields, has_spread } => {
                self.within(*span, |walk, name| match name.map(|name| fields.get(name)) {
                    Some(Some(field)) => walk.takes_anything(field),
                    // Assigned later.
                    Some(None) => !has_spread,
                    None => !has_spread && fields.values().all(|field| walk.takes_anything(field)),
                })
            }
            Source::List { span, items } => {
                self.within(*span, |walk, _| items.iter().all(|item| walk.takes_anything(item)))
            }
        }
    }

    /// What is assigned to the properties of this name, or of any.
    fn assigned(&mut self, name: Option<&'s str>) -> bool {
        let sources = self.sources;
        if let Some(known) = self.properties.get(&name) {
            // A property that becomes a part of itself is not followed.
            return *known == self.path.len();
        }
        self.properties.insert(name, self.path.len());
        let takes = match name {
            Some(name) => sources.assigned.get(name).into_iter().flatten().all(|one| self.takes_anything(one)),
            None => sources.assigned.values().flatten().all(|one| self.takes_anything(one)),
        };
        self.properties.remove(&name);
        takes
    }

    /// A literal, or the part of it that the path says.
    fn within(&mut self, literal: Span, part: impl FnOnce(&mut Self, Option<&'s str>) -> bool) -> bool {
        let Some(name) = self.path.pop() else {
            self.literals.insert(literal);
            return true;
        };
        let takes = part(self, name);
        self.path.push(name);
        takes
    }

    fn variable(&mut self, variable: SymbolId) -> bool {
        if let Some(known) = self.variables.get(&variable) {
            // A variable that becomes a part of itself is not followed.
            return *known == self.path.len();
        }
        self.variables.insert(variable, self.path.len());
        let takes = self.all_of(variable);
        self.variables.remove(&variable);
        takes
    }

    fn all_of(&mut self, variable: SymbolId) -> bool {
        let sources = self.sources;
        let own = sources.variables.get(&variable);
        let parameter = sources.parameters.get(&variable);
        if own.is_none() && parameter.is_none() {
            return false;
        }
        own.into_iter().flatten().all(|one| self.takes_anything(one))
            && parameter.is_none_or(|(function, index)| self.arguments(*function, *index))
            && self.is_put(variable)
    }

    /// What a parameter gets: all uses of the function must be known.
    fn arguments(&mut self, function: SymbolId, index: usize) -> bool {
        let sources = self.sources;
        let uses = sources.uses.get(&function).map(Vec::as_slice).unwrap_or_default();
        self.steps += uses.len();
        uses.len() == self.scoping.get_resolved_reference_ids(function).len()
            && uses.iter().all(|one| match one.arguments.get(index) {
                Some(source) => self.takes_anything(source),
                None => !one.has_more,
            })
    }

    /// Whether everything that the program put into a variable's value, or into a part of it, takes what the path says.
    fn is_put(&mut self, variable: SymbolId) -> bool {
        let sources = self.sources;
        for put in sources.put.get(&variable).into_iter().flatten() {
            self.steps += 1;
            // The item or key behind the part is meant, or a part of that.
            let Some(rest) = self.path.len().checked_sub(put.part.len() + 1) else { continue };
            let names = self.path.iter().rev().zip(&put.part);
            let is_of_part = |(name, part): (&Option<&str>, &Option<String>)| {
                name.zip(part.as_deref()).is_none_or(|(name, part)| name == part)
            };
            if !names.into_iter().all(is_of_part) {
                continue;
            }
            let outer = self.path.split_off(rest);
            let takes = put.values.iter().all(|one| self.takes_anything(one));
            self.path.extend(outer);
            if !takes {
                return false;
            }
        }
        true
    }
}
