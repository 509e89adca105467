//! Properties whose type changes.
//!
//! A property of an object of the program has the type of the value that it starts with, and takes any value later:
//! `state.current = other`. If a name is given a value in several places and one of them is an assignment, all of these
//! values are given the type `any`. Names stand for all properties that have them, whatever they belong to.

use std::collections::{HashMap, HashSet};

use oxc::{
    ast::ast::*,
    span::{GetSpan, Span},
};

use super::syntax::is_number;

/// The values of properties, by their names.
#[derive(Default)]
pub(super) struct PropertyValues {
    values: HashMap<String, Vec<PropertyValue>>,
    /// Names that are assigned with `=` or a logical operator.
    assigned: HashSet<String>,
    /// Names that `++` or `*=` makes numbers.
    counted: HashSet<String>,
    /// Names of methods and accessors, which have no value that could be given another type.
    methods: HashSet<String>,
}

/// A value that a property is given.
struct PropertyValue {
    span: Span,
    is_number: bool,
    /// The name, where it is the value too: `{ name }`.
    shorthand: Option<String>,
}

impl PropertyValues {
    /// A property is assigned.
    pub(super) fn assign(&mut self, name: String, value: &Expression<'_>) {
        self.assigned.insert(name.clone());
        self.add(name, value, None);
    }

    /// A property becomes a number.
    pub(super) fn count(&mut self, name: String) {
        self.counted.insert(name);
    }

    /// A property of an object literal.
    pub(super) fn add_property(&mut self, it: &ObjectProperty<'_>) {
        let Some(name) = it.key.static_name() else { return };
        if it.method || it.kind != PropertyKind::Init {
            self.methods.insert(name.into_owned());
        } else {
            let shorthand = it.shorthand.then(|| name.to_string());
            self.add(name.into_owned(), &it.value, shorthand);
        }
    }

    /// A field of a class.
    pub(super) fn add_field(&mut self, it: &PropertyDefinition<'_>) {
        let name = match &it.key {
            PropertyKey::PrivateIdentifier(id) => private_name(id),
            key => key.static_name().map(|name| name.into_owned()).unwrap_or_default(),
        };
        if let Some(value) = &it.value {
            self.add(name, value, None);
        }
    }

    /// A method or an accessor of a class.
    pub(super) fn add_method(&mut self, it: &MethodDefinition<'_>) {
        if let Some(name) = it.key.static_name() {
            self.methods.insert(name.into_owned());
        }
    }

    fn add(&mut self, name: String, value: &Expression<'_>, shorthand: Option<String>) {
        let value = PropertyValue { span: value.span(), is_number: is_number(value), shorthand };
        self.values.entry(name).or_default().push(value);
    }

    /// The values that are given the type `any`, with what is written before them; `None` if a method is assigned.
    pub(super) fn changed(&self) -> Option<Vec<(Span, String)>> {
        if !self.methods.is_disjoint(&self.assigned) {
            return None;
        }
        let all_of = |name: &String| self.values.get(name);
        let assigned = self.assigned.iter().filter_map(all_of).filter(|values| values.len() > 1);
        let becomes_number = |values: &&Vec<PropertyValue>| !values.iter().all(|value| value.is_number);
        let counted = self.counted.difference(&self.assigned).filter_map(all_of).filter(becomes_number);
        let values = assigned.chain(counted);
        let before =
            |value: &PropertyValue| value.shorthand.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        Some(values.flatten().map(|value| (value.span, before(value))).collect())
    }
}

/// `#name`, which is another name than `name`.
pub(super) fn private_name(id: &PrivateIdentifier<'_>) -> String {
    format!("#{}", id.name)
}
