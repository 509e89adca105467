//! The signature of a host function while it is being written, and the rules it must keep.

use super::function::{Handler, Inner, shortened};
use super::name::is_identifier;
use super::{BadName, CallContext, FunctionError, FunctionName, HostFunction, Param, Presence};
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use std::future::Future;
use std::sync::Arc;

/// Why a signature is none.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// The function's name.
    #[error(transparent)]
    Name(#[from] BadName),
    /// A parameter's name.
    #[error("{function}: `{param}` is not a parameter name")]
    ParamName {
        /// The function.
        function: FunctionName,
        /// The parameter as given.
        param: String,
    },
    /// A required parameter after one that may be left out, anything after a rest parameter, or a name used twice.
    #[error("{function}: the parameter `{param}` can't stand where it does")]
    ParamOrder {
        /// The function.
        function: FunctionName,
        /// The misplaced parameter.
        param: String,
    },
    /// A reference in a schema that came from a remote caller.
    #[error("{function}: the schema of `{param}` must not use references")]
    Reference {
        /// The function.
        function: FunctionName,
        /// The parameter.
        param: String,
    },
    /// A schema that is none.
    #[error("{function}: the schema of `{param}` is not a JSON Schema: {complaint}")]
    Schema {
        /// The function.
        function: FunctionName,
        /// The parameter.
        param: String,
        /// What is wrong with it.
        complaint: String,
    },
}

/// A function being described. [`FunctionBuilder::handle`] ends it.
#[derive(Debug, Clone)]
pub struct FunctionBuilder {
    name: String,
    description: String,
    params: Vec<Param>,
    result: Value,
    origin: Origin,
}

/// Who wrote a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Own,
    Foreign,
}

impl FunctionBuilder {
    pub(super) fn new(name: String) -> Self {
        let (description, params) = (String::new(), Vec::new());
        Self { name, description, params, result: Value::Bool(true), origin: Origin::Own }
    }

    /// Says that the signature came from a remote caller. Its schemas can't use references: with them a few lines can make the
    /// check of one argument take exponential time.
    #[must_use]
    pub fn foreign(mut self) -> Self {
        self.origin = Origin::Foreign;
        self
    }

    /// Says what the function does, in a sentence or two.
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Adds a parameter that must be given.
    #[must_use]
    pub fn required(self, name: &str, schema: Value, description: &str) -> Self {
        self.param(Param {
            name: name.to_owned(),
            schema,
            presence: Presence::Required,
            description: description.to_owned(),
        })
    }

    /// Adds a parameter that may be left out.
    #[must_use]
    pub fn optional(self, name: &str, schema: Value, description: &str) -> Self {
        self.param(Param {
            name: name.to_owned(),
            schema,
            presence: Presence::Optional,
            description: description.to_owned(),
        })
    }

    /// Adds a parameter that was described elsewhere.
    #[must_use]
    pub fn param(mut self, param: Param) -> Self {
        self.params.push(param);
        self
    }

    /// Gives the JSON Schema of the result.
    #[must_use]
    pub fn returns(mut self, schema: Value) -> Self {
        self.result = schema;
        self
    }

    /// Checks the signature and gives the function its handler.
    pub fn handle<F, A>(self, handler: F) -> Result<HostFunction, SignatureError>
    where
        F: Fn(CallContext, Vec<Value>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Value, FunctionError>> + Send + 'static,
    {
        let name = FunctionName::parse(&self.name)?;
        check_order(&name, &self.params)?;
        if self.origin == Origin::Foreign
            && let Some(param) = self.params.iter().find(|param| has_reference(&param.schema))
        {
            return Err(SignatureError::Reference { function: name, param: param.name.clone() });
        }
        let validators = self.params.iter().map(|param| validator(&name, param)).collect::<Result<_, _>>()?;
        let handler: Handler = Arc::new(move |context, args| Box::pin(handler(context, args)));
        let Self { description, params, result, .. } = self;
        Ok(HostFunction(Arc::new(Inner { name, description, params, validators, result, handler })))
    }
}

fn check_order(function: &FunctionName, params: &[Param]) -> Result<(), SignatureError> {
    let mut before: Option<Presence> = None;
    for (at, param) in params.iter().enumerate() {
        if !is_identifier(&param.name) || toolgate_plan::words::is_reserved(&param.name) {
            return Err(SignatureError::ParamName { function: function.clone(), param: param.name.clone() });
        }
        let misplaced = match before {
            Some(Presence::Rest) => true,
            Some(Presence::Optional) => param.presence == Presence::Required,
            Some(Presence::Required) | None => false,
        };
        let twice = params.iter().take(at).any(|earlier| earlier.name == param.name);
        if misplaced || twice {
            return Err(SignatureError::ParamOrder { function: function.clone(), param: param.name.clone() });
        }
        before = Some(param.presence);
    }
    Ok(())
}

fn has_reference(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(key, value)| {
            matches!(key.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef") || has_reference(value)
        }),
        Value::Array(items) => items.iter().any(has_reference),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Signatures may come from a remote caller: patterns run on the engine without backtracking, and references stay inside.
fn validator(function: &FunctionName, param: &Param) -> Result<Validator, SignatureError> {
    jsonschema::options().with_pattern_options(PatternOptions::regex()).build(&param.schema).map_err(|error| {
        SignatureError::Schema {
            function: function.clone(),
            param: param.name.clone(),
            complaint: shortened(error.to_string()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check_signature(params: &[(&str, Presence)], expected: &str) {
        let builder = params.iter().fold(HostFunction::builder("f"), |builder, (name, presence)| {
            let (name, presence) = ((*name).to_owned(), *presence);
            builder.param(Param { name, schema: json!(true), presence, description: String::new() })
        });
        let found = builder.handle(|_, _| async { Ok(Value::Null) });
        assert_eq!(found.map_or_else(|error| error.to_string(), |_| "ok".to_owned()), expected);
    }

    #[test]
    fn optional_parameters_come_last_and_rest_at_the_end() {
        use Presence::{Optional, Required, Rest};
        check_signature(&[("a", Required), ("b", Optional), ("c", Rest)], "ok");
        check_signature(&[("a", Optional), ("b", Required)], "f: the parameter `b` can't stand where it does");
        check_signature(&[("a", Rest), ("b", Optional)], "f: the parameter `b` can't stand where it does");
        check_signature(&[("a", Required), ("a", Required)], "f: the parameter `a` can't stand where it does");
        check_signature(&[("a-b", Required)], "f: `a-b` is not a parameter name");
        check_signature(&[("class", Required)], "f: `class` is not a parameter name");
    }

    #[test]
    fn a_schema_that_is_none_is_refused_when_the_function_is_built() {
        for schema in [json!({"type": "numbr"}), json!({"$ref": "http://127.0.0.1:1/x.json"}), json!({"pattern": "("})]
        {
            let built =
                HostFunction::builder("f").required("a", schema.clone(), "").handle(|_, _| async { Ok(json!(1)) });
            assert!(matches!(built, Err(SignatureError::Schema { .. })), "{schema}");
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
            json!({"not": {"$ref": "#"}}),
            json!({"if": {"$ref": "#"}, "then": true}),
            json!({"$dynamicRef": "#x", "$dynamicAnchor": "x"}),
        ] {
            let built = HostFunction::builder("f").required("a", schema, "").handle(|_, _| async { Ok(json!(1)) });
            let function = built.expect("a schema, if an odd one");
            let _either = function.check(&[json!({"a": [1]})]);
        }
    }

    #[test]
    fn a_foreign_schema_has_no_references() {
        let nested = json!({"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]});
        for schema in [json!({"$ref": "#"}), json!({"$dynamicRef": "#x"}), json!({"$recursiveRef": "#"}), nested] {
            let foreign = HostFunction::builder("f").foreign().required("a", schema.clone(), "");
            let built = foreign.handle(|_, _| async { Ok(json!(1)) });
            assert!(matches!(built, Err(SignatureError::Reference { .. })), "{schema}");
        }
        let plain = HostFunction::builder("f").foreign().required("a", json!({"items": {"type": "string"}}), "");
        assert!(plain.handle(|_, _| async { Ok(json!(1)) }).is_ok());
    }
}
