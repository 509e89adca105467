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

/// The values of properties, by their names.
#[derive(Default)]
pub(super) struct PropertyValues {
    values: HashMap<String, Vec<PropertyValue>>,
    /// Names that are assigned with `=` or a logical operator.
    assigned: HashSet<String>,
    /// Names of methods and accessors, which have no value that could be given another type.
    methods: HashSet<String>,
}

/// A value that a property is given.
struct PropertyValue {
    span: Span,
    /// The name, where it is the value too: `{ name }`.
    shorthand: Option<String>,
}

impl PropertyValues {
    /// A property is assigned.
    pub(super) fn assign(&mut self, name: String, value: &Expression<'_>) {
        self.assigned.insert(name.clone());
        self.add(name, value.span(), None);
    }

    /// A property of an object literal.
    pub(super) fn add_property(&mut self, it: &ObjectProperty<'_>) {
        let Some(name) = it.key.static_name() else { return };
        if it.method || it.kind != PropertyKind::Init {
            self.methods.insert(name.into_owned());
        } else {
            let shorthand = it.shorthand.then(|| name.to_string());
            self.add(name.into_owned(), it.value.span(), shorthand);
        }
    }

    /// A field of a class.
    pub(super) fn add_field(&mut self, it: &PropertyDefinition<'_>) {
        let name = match &it.key {
            PropertyKey::PrivateIdentifier(id) => private_name(id),
            key => key.static_name().map(|name| name.into_owned()).unwrap_or_default(),
        };
        if let Some(value) = &it.value {
            self.add(name, value.span(), None);
        }
    }

    /// A method or an accessor of a class.
    pub(super) fn add_method(&mut self, it: &MethodDefinition<'_>) {
        if let Some(name) = it.key.static_name() {
            self.methods.insert(name.into_owned());
        }
    }

    fn add(&mut self, name: String, span: Span, shorthand: Option<String>) {
        self.values.entry(name).or_default().push(PropertyValue { span, shorthand });
    }

    /// The values that are given the type `any`, with what is written before them; `None` if a method is assigned.
    pub(super) fn changed(&self) -> Option<Vec<(Span, String)>> {
        if !self.methods.is_disjoint(&self.assigned) {
            return None;
        }
        let values = self.assigned.iter().filter_map(|name| self.values.get(name)).filter(|values| values.len() > 1);
        let before =
            |value: &PropertyValue| value.shorthand.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        Some(values.flatten().map(|value| (value.span, before(value))).collect())
    }
}

/// `#name`, which is another name than `name`.
pub(super) fn private_name(id: &PrivateIdentifier<'_>) -> String {
    format!("#{}", id.name)
}
