//! Builds the signature of a host function and checks it.

use super::function::{Handler, Inner, shortened};
use super::name::is_identifier;
use super::reads_only::ReadsOnly;
use super::{
    AliasedTool, BadName, CallContext, FunctionAnswer, FunctionError, FunctionName, HostFunction, Param, Presence,
};
use serde_json::Value;
use std::future::Future;
use std::sync::Arc;
use toolgate_catalog::arguments::{BoundedSchema, SchemaMemory};

/// Why a signature is invalid.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// The name of the function is invalid.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The name of a parameter is invalid.
    #[error("{function}: `{param}` is not a valid parameter name")]
    ParamName {
        /// The function.
        function: FunctionName,
        /// The invalid name.
        param: String,
    },
    /// A required parameter after an optional one, a parameter after a rest parameter, or a duplicate name.
    #[error("{function}: the parameter `{param}` is a duplicate or follows an optional or rest parameter")]
    ParamOrder {
        /// The function.
        function: FunctionName,
        /// The misplaced parameter.
        param: String,
    },
    /// A schema from a remote caller has a reference.
    #[error("{function}: the schema of `{param}` must not use references")]
    Reference {
        /// The function.
        function: FunctionName,
        /// The parameter.
        param: String,
    },
    /// A schema is invalid.
    #[error("{function}: the schema of `{param}` is not a valid JSON Schema: {complaint}")]
    Schema {
        /// The function.
        function: FunctionName,
        /// The parameter.
        param: String,
        /// What is wrong with it.
        complaint: String,
    },
}

/// Builds a function; [`FunctionBuilder::handle`] completes it.
#[derive(Clone)]
pub struct FunctionBuilder {
    name: String,
    description: String,
    params: Vec<Param>,
    result: Value,
    reads_only: ReadsOnly,
    is_idempotent: bool,
    tool: Option<AliasedTool>,
    shown: Option<Value>,
    shown_result: Option<String>,
    origin: Origin,
}

/// Whether a signature is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Own,
    Foreign,
}

impl FunctionBuilder {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            description: String::new(),
            params: Vec::new(),
            result: Value::Bool(true),
            reads_only: ReadsOnly::Never,
            is_idempotent: false,
            tool: None,
            shown: None,
            shown_result: None,
            origin: Origin::Own,
        }
    }

    /// Marks the signature as one of a remote caller. Its schemas must not use references, with which a small schema can
    /// make the validation of one argument take exponential time.
    #[must_use]
    pub fn foreign(mut self) -> Self {
        self.origin = Origin::Foreign;
        self
    }

    /// Sets the description: one or two sentences.
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Adds a required parameter.
    #[must_use]
    pub fn required(self, name: &str, schema: Value, description: &str) -> Self {
        self.param(Param {
            name: name.to_owned(),
            schema,
            presence: Presence::Required,
            description: description.to_owned(),
        })
    }

    /// Adds an optional parameter.
    #[must_use]
    pub fn optional(self, name: &str, schema: Value, description: &str) -> Self {
        self.param(Param {
            name: name.to_owned(),
            schema,
            presence: Presence::Optional,
            description: description.to_owned(),
        })
    }

    /// Adds a parameter.
    #[must_use]
    pub fn param(mut self, param: Param) -> Self {
        self.params.push(param);
        self
    }

    /// Shows another schema of the first argument than the one that it is checked by: what is called checks it too.
    #[must_use]
    pub fn shows_argument(mut self, schema: Value) -> Self {
        self.shown = Some(schema);
        self
    }

    /// Shows this TypeScript type as that of the result, where its schema says nothing. No program is refused for it.
    #[must_use]
    pub fn shows_result(mut self, typescript: String) -> Self {
        self.shown_result = Some(typescript);
        self
    }

    /// Sets the JSON Schema of the result.
    #[must_use]
    pub fn returns(mut self, schema: Value) -> Self {
        self.result = schema;
        self
    }

    /// It calls this tool: who may call it is decided about that tool, not about the function.
    #[must_use]
    pub fn calls_tool(mut self, backend: &str, tool: &str) -> Self {
        self.tool = Some(AliasedTool { backend: backend.to_owned(), tool: tool.to_owned() });
        self
    }

    /// Declares that its calls change nothing, so that a run which made them may be run again.
    #[must_use]
    pub fn reads_only(mut self) -> Self {
        self.reads_only = ReadsOnly::Always;
        self
    }

    /// The same for calls that are made while this holds.
    #[must_use]
    pub fn reads_only_while(mut self, holds: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.reads_only = ReadsOnly::While(Arc::new(holds));
        self
    }

    /// The same for calls whose argument at this index has a `method` that HTTP calls safe, or none. The arguments may be
    /// invalid.
    #[must_use]
    pub(super) fn reads_only_by_method_of(mut self, index: usize) -> Self {
        self.reads_only = ReadsOnly::ByMethodOf(index);
        self
    }

    /// Declares that a call may be made again with the same arguments: it changes nothing more.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.is_idempotent = true;
        self
    }

    /// Checks the signature and sets the handler.
    pub fn handle<F, A>(self, handler: F) -> Result<HostFunction, SignatureError>
    where
        F: Fn(CallContext, Vec<Value>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Value, FunctionError>> + Send + 'static,
    {
        self.handle_counted(move |context, args| {
            let answer = handler(context, args);
            async move { answer.await.map(FunctionAnswer::from) }
        })
    }

    /// The same with a handler that counts what it reads in the budget of its context.
    pub fn handle_counted<F, A>(self, handler: F) -> Result<HostFunction, SignatureError>
    where
        F: Fn(CallContext, Vec<Value>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<FunctionAnswer, FunctionError>> + Send + 'static,
    {
        let name = FunctionName::parse(&self.name)?;
        check_order(&name, &self.params)?;
        if self.origin == Origin::Foreign
            && let Some(param) = self.params.iter().find(|param| has_reference(&param.schema))
        {
            return Err(SignatureError::Reference { function: name, param: param.name.clone() });
        }
        let memory = SchemaMemory::of_function();
        let schemas = self.params.iter().map(|param| compiled(&name, param, &memory)).collect::<Result<_, _>>()?;
        let handler: Handler = Arc::new(move |context, args| Box::pin(handler(context, args)));
        let Self { description, mut params, result, reads_only, is_idempotent, tool, shown, shown_result, .. } = self;
        if let (Some(first), Some(shown)) = (params.first_mut(), shown) {
            first.schema = shown;
        }
        Ok(HostFunction(Arc::new(Inner {
            name,
            description,
            params,
            schemas,
            result,
            shown_result,
            reads_only,
            is_idempotent,
            tool,
            handler,
        })))
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

/// Compiles a schema, which may come from a remote caller.
fn compiled(function: &FunctionName, param: &Param, memory: &SchemaMemory) -> Result<BoundedSchema, SignatureError> {
    BoundedSchema::without_backtracking(&param.schema, memory).map_err(|complaint| SignatureError::Schema {
        function: function.clone(),
        param: param.name.clone(),
        complaint: shortened(complaint),
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
        let misplaced =
            |name: &str| format!("f: the parameter `{name}` is a duplicate or follows an optional or rest parameter");
        check_signature(&[("a", Optional), ("b", Required)], &misplaced("b"));
        check_signature(&[("a", Rest), ("b", Optional)], &misplaced("b"));
        check_signature(&[("a", Required), ("a", Required)], &misplaced("a"));
        check_signature(&[("a-b", Required)], "f: `a-b` is not a valid parameter name");
        check_signature(&[("class", Required)], "f: `class` is not a valid parameter name");
    }

    #[test]
    fn a_schema_that_is_none_is_refused_when_the_function_is_built() {
        for schema in [
            json!({"type": "numbr"}),
            json!({"$ref": "http://127.0.0.1:1/x.json"}),
            json!({"pattern": "("}),
            json!({"$dynamicRef": "#x", "$dynamicAnchor": "x"}),
        ] {
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
