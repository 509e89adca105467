//! The type check of a program before its first call.
//!
//! Only a program that runs in the engine and names a backend or a host function is checked. It is given the declarations
//! of what it names and of nothing else, made once for each set of names and scope, on a thread of their own. A check that
//! does not come in time, or whose declarations do not, stops nothing: the run goes on, and says so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use toolgate_catalog::types::check::{CheckedBackend, CheckedFunction, CheckedParameter, Declarations, ParameterKind};
use toolgate_catalog::types::learned::{LearnedType, LearnedTypes};
use toolgate_catalog::{Backend, BackendState};
use toolgate_functions::{HostFunction, Param, Presence};
use toolgate_plan::{Finding, Preflight, Program, Tools};
use toolgate_typecheck::{CheckResult, TypeChecker, TypeFinding, Unchecked};

use super::reachable::Reachable;

/// Sets of declarations that are kept, and their bytes altogether.
const MAX_DECLARATIONS: usize = 16;
const MAX_DECLARED_BYTES: usize = 16 << 20;
/// Sets of declarations that are made at one time.
const MAX_MAKING: usize = 4;

/// Checks the types of programs. Clones of an `Arc` share the checker and its declarations.
pub struct ProgramTypes {
    checker: TypeChecker,
    declarations: Arc<Mutex<DeclarationSets>>,
}

/// Declarations that are there, and those that are being made.
#[derive(Default)]
struct DeclarationSets {
    /// The most recently used comes last.
    kept: Vec<KeptDeclarations>,
    making: Vec<MakingDeclarations>,
}

/// Declarations that are being made. All programs that need them wait for the same.
struct MakingDeclarations {
    key: DeclarationKey,
    made: MadeDeclarations,
}

type MadeDeclarations = watch::Receiver<Option<Arc<Declarations>>>;

/// What declarations are made of.
#[derive(Clone, PartialEq)]
struct DeclarationKey {
    /// The backends that are named.
    backends: Vec<NamedBackend>,
    functions: Vec<NamedFunction>,
    /// Version of what was learned of results.
    learned: u64,
}

/// A backend in one state of its tools.
#[derive(Clone)]
struct NamedBackend {
    backend: Backend,
    /// The tools that the caller may use, where those are not all.
    permitted: Option<Vec<String>>,
    /// Whether a global variable of its name is this backend.
    is_global: bool,
}

/// What is declared of a host function. Those of one name may differ from caller to caller. The function itself, with its
/// handler and what that holds, is not kept.
#[derive(Clone, PartialEq)]
struct NamedFunction {
    name: String,
    params: Vec<Param>,
    result: Value,
    is_tool: bool,
}

impl NamedFunction {
    fn of(function: &HostFunction) -> Self {
        NamedFunction {
            name: function.name().as_str().to_owned(),
            params: function.params().to_vec(),
            result: function.result().clone(),
            is_tool: function.is_tool(),
        }
    }

    fn checked(&self) -> CheckedFunction<'_> {
        CheckedFunction {
            name: &self.name,
            parameters: self.params.iter().map(checked_parameter).collect(),
            result: &self.result,
            // A tool under another name is checked by its own schema, which may be one that cannot be used.
            checks_arguments: !self.is_tool,
        }
    }
}

fn checked_parameter(param: &Param) -> CheckedParameter<'_> {
    let kind = match param.presence {
        Presence::Required => ParameterKind::Required,
        Presence::Optional => ParameterKind::Optional,
        Presence::Rest => ParameterKind::Rest,
    };
    CheckedParameter { name: &param.name, schema: &param.schema, kind }
}

impl PartialEq for NamedBackend {
    fn eq(&self, other: &Self) -> bool {
        self.backend.has_same_tools(&other.backend)
            && self.backend.identifier() == other.backend.identifier()
            && may_have_more(&self.backend) == may_have_more(&other.backend)
            && self.permitted == other.permitted
            && self.is_global == other.is_global
    }
}

struct KeptDeclarations {
    key: DeclarationKey,
    declarations: Arc<Declarations>,
}

/// What the check of one program came to.
#[derive(Debug, Default)]
pub(super) struct TypeVerdict {
    /// Certainly wrong: the run must not start.
    pub(super) errors: Vec<Finding>,
    /// Tools that are not there, of names like none that is.
    pub(super) unlike_any: Vec<Finding>,
    /// Probably wrong.
    pub(super) warnings: Vec<Finding>,
    /// Why nothing was checked.
    pub(super) unchecked: Option<Unchecked>,
}

impl TypeVerdict {
    /// Takes in what the planner found. Where it has a warning about a tool that is not there, the call may not be made, which it
    /// knows and types do not: a name that is like none of the backend's stays a warning. One that is misspelt is an error.
    pub(super) fn after(mut self, planned: &[Finding]) -> Self {
        let is_doubted =
            |one: &Finding| planned.iter().any(|planned| (planned.code, planned.position) == (one.code, one.position));
        self.errors.extend(self.unlike_any.drain(..).filter(|one| !is_doubted(one)));
        self
    }
}

/// What was found in a program without running it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProgramCheck {
    /// The calls that it would make, and what is wrong with it.
    pub preflight: Preflight,
    /// Why its types were not checked.
    pub not_checked: Option<TypesNotChecked>,
}

/// Why the types of a program were not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TypesNotChecked {
    /// There is no checker.
    #[error("there is no TypeScript 7 to check them with; `toolgate doctor` says what is missing")]
    NoChecker,
    /// The program has nothing that is declared.
    #[error("no tool and no function is named in it")]
    NoNames,
    /// The checker gave no answer.
    #[error("{0}")]
    NoAnswer(Unchecked),
}

impl ProgramCheck {
    /// Adds what the types say.
    pub(super) fn add(&mut self, typed: TypeVerdict) {
        let Preflight { errors, warnings, .. } = &mut self.preflight;
        errors.extend(typed.errors);
        warnings.extend(typed.warnings);
        // What names say may be wrong, types say is: once is enough.
        warnings.retain(|one| !errors.iter().any(|error| (error.code, error.position) == (one.code, one.position)));
        self.not_checked = typed.unchecked.map(TypesNotChecked::NoAnswer);
    }
}

/// What is known of results of tools that declare none.
pub trait LearnedResults: Send + Sync {
    /// Changes whenever what is known of a result's type changes, also when a result breaks its schema.
    fn version(&self) -> u64;

    /// The type of a tool's results, once there were enough to say which keys they have.
    fn result_type(&self, backend: &str, tool: &str) -> Option<LearnedType>;

    /// Everything that was learned, to be shown.
    fn types(&self) -> Arc<LearnedTypes>;

    /// Whether a result of this tool did not fit the schema that it declares.
    fn breaks_its_schema(&self, backend: &str, tool: &str) -> bool;
}

impl ProgramTypes {
    /// With this checker.
    pub fn new(checker: TypeChecker) -> Self {
        ProgramTypes { checker, declarations: Arc::default() }
    }

    /// The checker behind it.
    pub fn checker(&self) -> &TypeChecker {
        &self.checker
    }

    /// Checks a program. `within` replaces the checker's own budget.
    pub(super) async fn check(
        &self,
        program: &Program,
        tools: Reachable<'_>,
        learned: Option<Arc<dyn LearnedResults>>,
        within: Option<Duration>,
    ) -> TypeVerdict {
        let deadline = Instant::now() + within.unwrap_or_else(|| self.checker.budget());
        let version = learned.as_deref().map_or(0, LearnedResults::version);
        let Some(key) = key(program, tools, version) else { return TypeVerdict::default() };
        let declarations = match self.declarations(key, learned, deadline).await {
            Ok(declarations) => declarations,
            Err(why) => return TypeVerdict { unchecked: Some(why), ..TypeVerdict::default() },
        };
        let budget = deadline.saturating_duration_since(Instant::now());
        match self.checker.check_within(program, &declarations, budget).await {
            CheckResult::Unchecked(why) => TypeVerdict { unchecked: Some(why), ..TypeVerdict::default() },
            CheckResult::Judged(judged) => {
                let usable = |found: &TypeFinding| has_usable_schema(found, tools);
                let findings =
                    |list: Vec<TypeFinding>| list.into_iter().filter(usable).map(|found| found.finding).collect();
                TypeVerdict {
                    errors: findings(judged.errors),
                    unlike_any: findings(judged.unlike_any),
                    warnings: findings(judged.warnings),
                    unchecked: None,
                }
            }
        }
    }

    /// The declarations of what a program names. Those that come too late are there for the next program.
    async fn declarations(
        &self,
        key: DeclarationKey,
        learned: Option<Arc<dyn LearnedResults>>,
        deadline: Instant,
    ) -> Result<Arc<Declarations>, Unchecked> {
        let mut made = {
            let mut sets = self.declarations.lock();
            if let Some(kept) = sets.kept(&key) {
                return Ok(kept);
            }
            match sets.being_made(&key) {
                Some(made) => made,
                None if sets.making.len() >= MAX_MAKING => return Err(Unchecked::Busy),
                None => self.make(&mut sets, key, learned),
            }
        };
        let declarations = match tokio::time::timeout_at(deadline.into(), made.wait_for(Option::is_some)).await {
            Ok(Ok(declarations)) => declarations.clone(),
            Ok(Err(_)) => None,
            Err(_) => return Err(Unchecked::Late),
        };
        declarations.ok_or(Unchecked::Failed)
    }

    /// Makes declarations on a thread that may take its time: those of many tools take longer than a run waits.
    fn make(
        &self,
        sets: &mut DeclarationSets,
        key: DeclarationKey,
        learned: Option<Arc<dyn LearnedResults>>,
    ) -> MadeDeclarations {
        let (sender, made) = watch::channel(None);
        sets.making.push(MakingDeclarations { key: key.clone(), made: made.clone() });
        let all = Arc::clone(&self.declarations);
        tokio::task::spawn_blocking(move || {
            let declarations = Arc::new(declare(&key, learned.as_deref()));
            all.lock().keep(KeptDeclarations { key, declarations: Arc::clone(&declarations) });
            sender.send_replace(Some(declarations));
        });
        made
    }
}

impl DeclarationSets {
    fn kept(&mut self, key: &DeclarationKey) -> Option<Arc<Declarations>> {
        let index = self.kept.iter().position(|kept| kept.key == *key)?;
        let kept = self.kept.remove(index);
        let declarations = Arc::clone(&kept.declarations);
        self.kept.push(kept);
        Some(declarations)
    }

    fn being_made(&mut self, key: &DeclarationKey) -> Option<MadeDeclarations> {
        // The sender of one that failed is gone.
        self.making.retain(|making| making.made.has_changed().is_ok());
        self.making.iter().find(|making| making.key == *key).map(|making| making.made.clone())
    }

    fn keep(&mut self, made: KeptDeclarations) {
        self.making.retain(|making| making.key != made.key);
        self.kept.push(made);
        drop_oldest(&mut self.kept);
    }
}

/// Keeps the newest declarations within their bounds; the newest of all stays.
fn drop_oldest(all: &mut Vec<KeptDeclarations>) {
    let mut bytes = 0;
    let is_within = |kept: &&KeptDeclarations| {
        bytes += kept.declarations.bytes();
        bytes <= MAX_DECLARED_BYTES
    };
    let kept = all.iter().rev().take(MAX_DECLARATIONS).take_while(is_within).count().max(1);
    all.drain(..all.len().saturating_sub(kept));
}

fn may_have_more(backend: &Backend) -> bool {
    *backend.state() != BackendState::Ready
}

/// What a program names; `None` for nothing.
fn key(program: &Program, tools: Reachable<'_>, learned: u64) -> Option<DeclarationKey> {
    let names = |name: &str| program.globals.binary_search_by(|own| own.as_str().cmp(name)).is_ok();
    let by_registry = ["tools", "__backends", "globalThis"].iter().any(|registry| names(registry));
    let is_global = |backend: &Backend| tools.global(backend.identifier()).is_some_and(|name| name == backend.name());
    let is_named = |backend: &&Backend| {
        let is_mentioned = || program.js.contains(backend.identifier()) || program.js.contains(backend.name());
        (names(backend.identifier()) && is_global(backend)) || (by_registry && is_mentioned())
    };
    let backends: Vec<_> = tools
        .view
        .backends()
        .filter(is_named)
        .map(|backend| {
            let permitted: Vec<&str> = tools.view.tools_of(backend).map(|entry| entry.tool().name.as_str()).collect();
            let are_some = permitted.len() < backend.tools().len();
            let permitted = are_some.then(|| permitted.into_iter().map(str::to_owned).collect());
            NamedBackend { backend: backend.clone(), permitted, is_global: is_global(backend) }
        })
        .collect();
    let functions: Vec<_> = tools
        .functions
        .iter()
        // `api` has all of them.
        .filter(|function| names("api") || names(function.name().as_str()))
        .map(NamedFunction::of)
        .collect();
    (!backends.is_empty() || !functions.is_empty()).then_some(DeclarationKey { backends, functions, learned })
}

/// Whether a program names anything that has types.
pub(super) fn names_something(program: &Program, tools: Reachable<'_>) -> bool {
    key(program, tools, 0).is_some()
}

fn declare(key: &DeclarationKey, learned: Option<&dyn LearnedResults>) -> Declarations {
    let backends: Vec<CheckedBackend<'_>> = key
        .backends
        .iter()
        .map(|NamedBackend { backend, permitted, is_global }| {
            let is_permitted = |name: &str| permitted.as_ref().is_none_or(|some| some.iter().any(|one| one == name));
            let tools = backend.tools().iter().filter(|entry| is_permitted(&entry.tool().name)).collect();
            let is_broken = |name: &&str| learned.is_some_and(|it| it.breaks_its_schema(backend.name(), name));
            let names = backend.tools().iter().map(|entry| entry.tool().name.as_str());
            let broken = names.filter(is_broken).collect();
            CheckedBackend { backend, tools, broken, may_have_more: may_have_more(backend), is_global: *is_global }
        })
        .collect();
    let functions: Vec<CheckedFunction<'_>> = key.functions.iter().map(NamedFunction::checked).collect();
    let learned = |backend: &str, tool: &str| learned?.result_type(backend, tool);
    Declarations::new(&backends, &functions, &learned)
}

/// Whether a callee is a host function, by its own name or under `api`.
fn is_function(callee: &str, tools: Reachable<'_>) -> bool {
    let local = callee.strip_prefix("api.");
    tools.functions.get(callee).is_some() || local.is_some_and(|name| tools.functions.get(name).is_some())
}

/// Whether a finding about arguments is one that the bridge would have too: a schema that cannot be used refuses nothing.
fn has_usable_schema(found: &TypeFinding, tools: Reachable<'_>) -> bool {
    let Some(callee) = &found.arguments_of else { return true };
    if is_function(callee, tools) {
        return true;
    }
    let mut parts = callee.rsplit('.').map(str::trim);
    let (Some(tool), Some(backend)) = (parts.next(), parts.next()) else { return false };
    tools.view.tool(backend, tool).is_some_and(|found| found.entry.unchecked_because().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Declarations of so many functions, each with a result of this many keys.
    fn kept(name: &str, functions: usize, keys: usize) -> KeptDeclarations {
        let properties: serde_json::Map<String, Value> =
            (0..keys).map(|n| (format!("key_{n:0200}"), json!({ "type": "string" }))).collect();
        let result = json!({ "type": "object", "properties": properties });
        let function = |n: usize| NamedFunction {
            name: format!("{name}_{n}"),
            params: Vec::new(),
            result: result.clone(),
            is_tool: false,
        };
        let key =
            DeclarationKey { backends: Vec::new(), functions: (0..functions).map(function).collect(), learned: 0 };
        let declarations = Arc::new(declare(&key, None));
        KeptDeclarations { key, declarations }
    }

    fn last(all: &[KeptDeclarations]) -> Option<&str> {
        all.last().map(|kept| kept.key.functions[0].name.as_str())
    }

    #[test]
    fn kept_declarations_are_bounded_by_number_and_by_bytes() {
        let mut all: Vec<_> = (0..MAX_DECLARATIONS + 5).map(|n| kept(&format!("f{n}"), 1, 1)).collect();
        drop_oldest(&mut all);
        assert_eq!((all.len(), last(&all)), (MAX_DECLARATIONS, Some("f20_0")), "the oldest go");

        let large = kept("large", 20, 200);
        let bytes = large.declarations.bytes();
        assert!(bytes > MAX_DECLARED_BYTES / MAX_DECLARATIONS, "{bytes}");
        let (key, declarations) = (large.key, large.declarations);
        let another = |_| KeptDeclarations { key: key.clone(), declarations: Arc::clone(&declarations) };
        let mut all: Vec<_> = (0..MAX_DECLARATIONS).map(another).collect();
        drop_oldest(&mut all);
        assert_eq!(all.len(), MAX_DECLARED_BYTES / bytes);
    }
}
