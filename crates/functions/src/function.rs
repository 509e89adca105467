//! A host function: its signature, which is checked when it is built, and its handler.
//!
//! Arguments are positional and validated here, so that a handler may rely on them. Results are not validated against
//! their schema: the function is trusted, its caller is not.

use super::reads_only::ReadsOnly;
use super::{CallContext, ErrorCode, FailedEffect, FunctionAnswer, FunctionBuilder, FunctionError, FunctionName};
use serde_json::{Value, json};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::time::Instant;
use toolgate_catalog::arguments::{BoundedSchema, SchemaCheck};
use toolgate_wire::foreign_text::clipped;

/// The future of a handler's result.
pub(super) type Answer = Pin<Box<dyn Future<Output = Result<FunctionAnswer, FunctionError>> + Send>>;
pub(super) type Handler = Arc<dyn Fn(CallContext, Vec<Value>) -> Answer + Send + Sync>;

/// Maximum length of a schema error, in characters: it quotes the argument, which may be large.
const MAX_ERROR_CHARS: usize = 300;

/// Whether a parameter must be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Must be given.
    Required,
    /// May be omitted; `null` counts as omitted.
    Optional,
    /// Takes this and all further arguments, possibly none. Only the last parameter.
    Rest,
}

/// One positional parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    /// An identifier, for the signature and for error messages.
    pub name: String,
    /// JSON Schema of the argument, or of each one for [`Presence::Rest`].
    pub schema: Value,
    /// Whether it must be given.
    pub presence: Presence,
    /// What it means.
    pub description: String,
}

/// A host function. Cheap to clone.
#[derive(Clone)]
pub struct HostFunction(pub(super) Arc<Inner>);

/// The tool that a function is under another name. Its arguments are the first one of the function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliasedTool {
    /// The name of its backend.
    pub backend: String,
    /// Its own name.
    pub tool: String,
}

pub(super) struct Inner {
    pub(super) name: FunctionName,
    pub(super) description: String,
    pub(super) params: Vec<Param>,
    /// One for each parameter.
    pub(super) schemas: Vec<BoundedSchema>,
    pub(super) result: Value,
    pub(super) shown_result: Option<String>,
    pub(super) reads_only: ReadsOnly,
    pub(super) is_idempotent: bool,
    pub(super) tool: Option<AliasedTool>,
    pub(super) handler: Handler,
}

impl HostFunction {
    /// Starts building a function.
    pub fn builder(name: impl Into<String>) -> FunctionBuilder {
        FunctionBuilder::new(name.into())
    }

    /// Bytes that its compiled schemas may take.
    pub fn schema_bytes(&self) -> u64 {
        self.0.schemas.iter().map(BoundedSchema::bytes).sum()
    }

    /// Its name.
    pub fn name(&self) -> &FunctionName {
        &self.0.name
    }

    /// What it does.
    pub fn description(&self) -> &str {
        &self.0.description
    }

    /// Its parameters, in order.
    pub fn params(&self) -> &[Param] {
        &self.0.params
    }

    /// JSON Schema of its result; `true` for any value.
    pub fn result(&self) -> &Value {
        &self.0.result
    }

    /// The TypeScript type of its result that signatures show in place of that of its schema.
    pub fn shown_result(&self) -> Option<&str> {
        self.0.shown_result.as_deref()
    }

    /// Whether it is a tool under another name, which is decided about as that tool.
    pub fn is_tool(&self) -> bool {
        self.0.tool.is_some()
    }

    /// The tool that it is under another name.
    pub fn tool(&self) -> Option<&AliasedTool> {
        self.0.tool.as_ref()
    }

    /// Whether a call with these arguments (the JSON text of a list) is known to change nothing.
    pub fn reads_only(&self, args: &str) -> bool {
        self.0.reads_only.holds_for_text(args)
    }

    /// The same for a list that is a tree already.
    pub fn reads_only_with(&self, args: &Value) -> bool {
        self.0.reads_only.holds_for_tree(args)
    }

    /// Whether a call may be made again with the same arguments.
    pub fn is_idempotent(&self) -> bool {
        self.0.is_idempotent
    }

    /// What `__getToolInterface` answers for it: `{name, description, input_schema}`, where the schema is that of its list of
    /// arguments, or of its one argument.
    pub fn interface(&self) -> Value {
        let schema = match self.params() {
            [only] if only.presence != Presence::Rest => only.schema.clone(),
            several => {
                let items: Vec<&Value> = several.iter().map(|param| &param.schema).collect();
                json!({ "type": "array", "prefixItems": items })
            }
        };
        json!({ "name": self.name(), "description": self.description(), "input_schema": schema })
    }

    /// The same as [`HostFunction::answer`], as a tree.
    ///
    /// # Errors
    /// As there, or if the answer cannot be a tree.
    pub async fn call(&self, context: CallContext, args: Vec<Value>) -> Result<Value, FunctionError> {
        self.answer(context, args).await?.into_value()
    }

    /// Validates the arguments and runs the handler until it returns, the run is cancelled or the deadline passes.
    ///
    /// # Errors
    /// If the arguments do not fit, the call ends early, or the function fails.
    pub async fn answer(&self, context: CallContext, args: Vec<Value>) -> Result<FunctionAnswer, FunctionError> {
        self.check_time(&context)?;
        self.check(&args)?;
        // The check may have taken the rest of the run's time.
        self.check_time(&context)?;
        let cancel = context.cancel.clone();
        let deadline = context.deadline;
        let over = async move {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(self.ended(ErrorCode::Aborted, "was cancelled with its run")),
            answer = (self.0.handler)(context, args) => answer,
            () = over => Err(self.ended(ErrorCode::Timeout, "did not answer before the run's deadline")),
        }
    }

    /// Whether the run still goes on.
    fn check_time(&self, context: &CallContext) -> Result<(), FunctionError> {
        let ended = if context.cancel.is_cancelled() {
            self.ended(ErrorCode::Aborted, "was cancelled with its run")
        } else if context.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            self.ended(ErrorCode::Timeout, "was not called before the run's deadline")
        } else {
            return Ok(());
        };
        Err(ended.with_effect(FailedEffect::NotSent))
    }

    fn ended(&self, code: ErrorCode, how: &str) -> FunctionError {
        FunctionError::new(code, format!("{} {how}", self.name()))
    }

    /// Validates positional arguments against the signature; the error names the argument.
    pub fn check(&self, args: &[Value]) -> Result<(), FunctionError> {
        let wrong = |complaint: String| {
            Err(FunctionError::new(ErrorCode::InvalidArguments, format!("{}: {complaint}", self.name())))
        };
        let params = self.params();
        for (at, (param, schema)) in params.iter().zip(&self.0.schemas).enumerate() {
            let given = match param.presence {
                Presence::Rest => args.get(at..).unwrap_or_default(),
                Presence::Required | Presence::Optional => args.get(at..=at).unwrap_or_default(),
            };
            if param.presence == Presence::Required && given.is_empty() {
                return wrong(format!("argument {} `{}` is missing", at + 1, param.name));
            }
            for (further, value) in given.iter().enumerate() {
                if let Some(complaint) = complaint(param, schema, value) {
                    return wrong(format!("argument {} `{}`{complaint}", at + further + 1, param.name));
                }
            }
        }
        let open = params.last().is_some_and(|param| param.presence == Presence::Rest);
        if !open && args.len() > params.len() {
            return wrong(format!("takes at most {} arguments, {} were given", params.len(), args.len()));
        }
        Ok(())
    }
}

fn complaint(param: &Param, schema: &BoundedSchema, value: &Value) -> Option<String> {
    if param.presence == Presence::Optional && value.is_null() {
        return None;
    }
    match schema.check(value) {
        SchemaCheck::Fits => None,
        SchemaCheck::Wrong { at, message } => {
            let place = if at.is_empty() { String::new() } else { format!(" at {at}") };
            Some(shortened(format!("{place}: {message}")))
        }
        SchemaCheck::NotBegun => {
            Some(": checking it against its schema would take too long; pass less at once".to_owned())
        }
    }
}

pub(super) fn shortened(text: String) -> String {
    clipped(&text, MAX_ERROR_CHARS).into_owned()
}

impl fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostFunction").field("name", &self.0.name.as_str()).field("params", &self.0.params).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn add() -> HostFunction {
        HostFunction::builder("add")
            .required("a", json!({"type": "number"}), "")
            .optional("b", json!({"type": "object", "properties": {"by": {"type": "integer"}}}), "")
            .handle(|_, args| async move { Ok(json!(args)) })
            .expect("a sound signature")
    }

    fn rest() -> HostFunction {
        let schema = json!({"type": "number"});
        HostFunction::builder("sum")
            .param(Param { name: "n".into(), schema, presence: Presence::Rest, description: String::new() })
            .handle(|_, args| async move { Ok(json!(args)) })
            .expect("a sound signature")
    }

    fn check(function: &HostFunction, args: Value, expected: &str) {
        let Value::Array(args) = args else { panic!("arguments are a list") };
        let found = function.check(&args).map_or_else(|error| error.message, |()| "ok".to_owned());
        assert_eq!(found, expected);
    }

    #[test]
    fn arguments_that_fit_pass() {
        check(&add(), json!([1]), "ok");
        check(&add(), json!([1, null]), "ok");
        check(&add(), json!([1, {"by": 2}]), "ok");
        check(&rest(), json!([]), "ok");
        check(&rest(), json!([1, 2, 3]), "ok");
    }

    #[test]
    fn a_complaint_names_the_argument_and_the_place_in_it() {
        check(&add(), json!([]), "add: argument 1 `a` is missing");
        check(&add(), json!(["x"]), r#"add: argument 1 `a`: "x" is not of type "number""#);
        check(&add(), json!([1, {"by": "x"}]), r#"add: argument 2 `b` at /by: "x" is not of type "integer""#);
        check(&add(), json!([1, null, 3]), "add: takes at most 2 arguments, 3 were given");
        check(&rest(), json!([1, "x"]), r#"sum: argument 2 `n`: "x" is not of type "number""#);
    }

    #[test]
    fn a_complaint_about_a_huge_argument_is_short() {
        let error = add().check(&[json!("x".repeat(1_000_000))]).expect_err("a string is no number");
        assert!(error.message.len() < 400, "{} bytes", error.message.len());
    }

    fn never() -> HostFunction {
        HostFunction::builder("never").handle(|_, _| std::future::pending()).expect("a sound signature")
    }

    #[tokio::test]
    async fn a_cancelled_run_ends_the_call() {
        let context = CallContext::default();
        context.cancel.cancel();
        let error = never().call(context, vec![]).await.expect_err("cancelled");
        assert_eq!(error.code, ErrorCode::Aborted);
    }

    /// A function that takes any of 5,000 fractions, which are compared one by one.
    fn one_of_many() -> HostFunction {
        let fractions: Vec<Value> = (0..5_000).map(|n| json!(f64::from(n) + 0.5)).collect();
        HostFunction::builder("f")
            .foreign()
            .required("a", json!({"type": "array", "items": {"enum": fractions}}), "")
            .handle(|_, args| async move { Ok(json!(args.len())) })
            .expect("a sound signature")
    }

    #[test]
    fn a_check_that_would_take_long_is_not_begun() {
        check(&one_of_many(), json!([vec![4_999.5; 100]]), "ok");
        check(
            &one_of_many(),
            json!([vec![4_999.5; 100_000]]),
            "f: argument 1 `a`: checking it against its schema would take too long; pass less at once",
        );
    }

    #[tokio::test]
    async fn a_run_that_is_over_calls_nothing() {
        let called = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let told = Arc::clone(&called);
        let function = HostFunction::builder("f").handle(move |_, _| {
            told.store(true, std::sync::atomic::Ordering::Relaxed);
            async { Ok(Value::Null) }
        });
        let function = function.expect("a sound signature");
        let late = CallContext { deadline: Some(Instant::now()), ..Default::default() };
        let error = function.call(late, vec![]).await.expect_err("too late");
        assert_eq!((error.code, error.effect), (ErrorCode::Timeout, FailedEffect::NotSent));
        let cancelled = CallContext::default();
        cancelled.cancel.cancel();
        let error = function.call(cancelled, vec![]).await.expect_err("cancelled");
        assert_eq!((error.code, error.effect), (ErrorCode::Aborted, FailedEffect::NotSent));
        assert!(!called.load(std::sync::atomic::Ordering::Relaxed));
    }

    #[tokio::test]
    async fn the_deadline_ends_the_call() {
        let context = CallContext { deadline: Some(Instant::now() + Duration::from_millis(5)), ..Default::default() };
        let error = never().call(context, vec![]).await.expect_err("too late");
        assert_eq!(error.code, ErrorCode::Timeout);
    }
}
