//! The functions that a run may call, by name.
//!
//! Registries are immutable values: merging and restricting return new ones, so one run cannot change the functions of
//! another.

use super::{CallContext, ErrorCode, FunctionAnswer, FunctionError, HostFunction};
use serde_json::Value;
use std::collections::BTreeMap;
use toolgate_wire::foreign_text::escaped;

/// A set of host functions with distinct names, built for every run.
#[derive(Debug, Clone, Default)]
pub struct Registry(BTreeMap<String, HostFunction>);

/// A request names functions that do not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no function named {}; the functions are: {}", quoted(.unknown, MAX_NAMED), quoted(.known, usize::MAX))]
pub struct UnknownFunction {
    /// The unknown names, in the order of the request.
    pub unknown: Vec<String>,
    /// The names of all functions.
    pub known: Vec<String>,
}

/// Unknown functions that an error names.
const MAX_NAMED: usize = 10;

/// The first `most` names, and the number of the others.
fn quoted(names: &[String], most: usize) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let short = |name: &String| format!("`{}`", escaped(name, 64));
    let named = names.iter().take(most).map(short).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => named,
        others => format!("{named} and {others} others"),
    }
}

impl Registry {
    /// A registry without functions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a function and replaces one of the same name.
    pub fn insert(&mut self, function: HostFunction) {
        self.0.insert(function.name().as_str().to_owned(), function);
    }

    /// This registry with the functions of `over` added; those override functions of the same name.
    #[must_use]
    pub fn merged(&self, over: &Self) -> Self {
        let mut functions = self.0.clone();
        functions.extend(over.0.iter().map(|(name, function)| (name.clone(), function.clone())));
        Self(functions)
    }

    /// A registry of only the named functions.
    pub fn restricted<S: AsRef<str>>(&self, names: &[S]) -> Result<Self, UnknownFunction> {
        let mut kept = BTreeMap::new();
        let mut unknown = Vec::new();
        for name in names.iter().map(AsRef::as_ref) {
            match self.0.get(name) {
                Some(function) => drop(kept.insert(name.to_owned(), function.clone())),
                None => unknown.push(name.to_owned()),
            }
        }
        if unknown.is_empty() { Ok(Self(kept)) } else { Err(UnknownFunction { unknown, known: self.names() }) }
    }

    /// A function by its full name.
    pub fn get(&self, name: &str) -> Option<&HostFunction> {
        self.0.get(name)
    }

    /// All functions, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = &HostFunction> {
        self.0.values()
    }

    /// All names, in order.
    pub fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// How many functions there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls a function. A function that was not granted and one that does not exist give the same error.
    pub async fn call(&self, name: &str, context: CallContext, args: Vec<Value>) -> Result<Value, FunctionError> {
        self.answer(name, context, args).await?.into_value()
    }

    /// The same, in the form in which the function gives it.
    ///
    /// # Errors
    /// If there is no such function, or it fails.
    pub async fn answer(
        &self,
        name: &str,
        context: CallContext,
        args: Vec<Value>,
    ) -> Result<FunctionAnswer, FunctionError> {
        match self.0.get(name) {
            Some(function) => function.answer(context, args).await,
            None => {
                let unknown = UnknownFunction { unknown: vec![name.to_owned()], known: self.names() };
                Err(FunctionError::new(ErrorCode::UnknownFunction, unknown.to_string()))
            }
        }
    }
}

impl FromIterator<HostFunction> for Registry {
    fn from_iter<I: IntoIterator<Item = HostFunction>>(functions: I) -> Self {
        let mut registry = Self::new();
        functions.into_iter().for_each(|function| registry.insert(function));
        registry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn saying(name: &str, answer: &'static str) -> HostFunction {
        HostFunction::builder(name).handle(move |_, _| async move { Ok(json!(answer)) }).expect("a sound signature")
    }

    fn registry(names: &[&str], answer: &'static str) -> Registry {
        names.iter().map(|name| saying(name, answer)).collect()
    }

    async fn check(registry: &Registry, name: &str, expected: Value) {
        let found = registry.call(name, CallContext::default(), vec![]).await;
        assert_eq!(found.unwrap_or_else(|error| json!(error.code.as_str())), expected, "{name}");
    }

    #[tokio::test]
    async fn a_run_overrides_the_engine_and_the_engine_the_built_ins() {
        let merged = registry(&["a", "b", "c"], "built in")
            .merged(&registry(&["b", "c"], "engine"))
            .merged(&registry(&["c"], "run"));
        check(&merged, "a", json!("built in")).await;
        check(&merged, "b", json!("engine")).await;
        check(&merged, "c", json!("run")).await;
    }

    #[tokio::test]
    async fn a_list_leaves_out_what_it_does_not_name() {
        let kept = registry(&["a", "b"], "x").restricted(&["b"]).expect("b is known");
        check(&kept, "b", json!("x")).await;
        check(&kept, "a", json!("UNKNOWN_FUNCTION")).await;
        assert!(registry(&["a"], "x").restricted::<&str>(&[]).expect("nothing is unknown").is_empty());
    }

    #[test]
    fn an_unknown_name_is_named_with_the_known_ones() {
        let error = registry(&["a", "api.b"], "x").restricted(&["a", "zz", "y\n"]).expect_err("two are unknown");
        assert_eq!(error.to_string(), r"no function named `zz`, `y\n`; the functions are: `a`, `api.b`");
    }

    #[test]
    fn of_many_unknown_names_the_first_ten_are_named() {
        let error = registry(&["a"], "x").restricted(&["z"; 1_000]).expect_err("all are unknown");
        let named = ["`z`"; 10].join(", ");
        assert_eq!(error.to_string(), format!("no function named {named} and 990 others; the functions are: `a`"));
    }
}
