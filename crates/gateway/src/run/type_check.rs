//! The type check of a program before its first call.
//!
//! Only a program that runs in the engine and names a backend or a host function is checked. It is given the declarations
//! of what it names and of nothing else, made once for each set of names and scope. A check that does not come in time
//! stops nothing: the run goes on, and says so.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use toolgate_catalog::types::check::{CheckedBackend, CheckedFunction, Declarations};
use toolgate_catalog::types::learned::LearnedType;
use toolgate_catalog::{Backend, BackendState};
use toolgate_plan::{Finding, Program, Tools};
use toolgate_typecheck::{Checked, TypeChecker, TypeFinding, Unchecked};

use super::reachable::Reachable;

/// Sets of declarations that are kept.
const MAX_DECLARATIONS: usize = 16;

/// Checks the types of programs. Clones of an `Arc` share the checker and its declarations.
pub struct ProgramTypes {
    checker: TypeChecker,
    /// The most recently used comes last.
    declarations: Mutex<Vec<KeptDeclarations>>,
}

/// What declarations are made of.
#[derive(Clone, PartialEq)]
struct DeclarationKey {
    /// The backends that are named.
    backends: Vec<NamedBackend>,
    functions: Vec<(String, Value)>,
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
    /// Probably wrong.
    pub(super) warnings: Vec<Finding>,
    /// Why nothing was checked.
    pub(super) unchecked: Option<Unchecked>,
}

/// What is known of results of tools that declare none.
pub trait LearnedResults: Send + Sync {
    /// Changes whenever what is known of a result's type changes.
    fn version(&self) -> u64;

    /// The type of a tool's results.
    fn result_type(&self, backend: &str, tool: &str) -> Option<LearnedType>;
}

impl ProgramTypes {
    /// With this checker.
    pub fn new(checker: TypeChecker) -> Self {
        ProgramTypes { checker, declarations: Mutex::default() }
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
        learned: Option<&dyn LearnedResults>,
        within: Option<Duration>,
    ) -> TypeVerdict {
        let Some(declarations) = self.declarations(program, tools, learned) else { return TypeVerdict::default() };
        let budget = within.unwrap_or_else(|| self.checker.budget());
        match self.checker.check_within(program, &declarations, budget).await {
            Checked::Unchecked(why) => TypeVerdict { unchecked: Some(why), ..TypeVerdict::default() },
            Checked::Judged(judged) => {
                let usable = |found: &TypeFinding| has_usable_schema(found, tools);
                let findings =
                    |list: Vec<TypeFinding>| list.into_iter().filter(usable).map(|found| found.finding).collect();
                TypeVerdict { errors: findings(judged.errors), warnings: findings(judged.warnings), unchecked: None }
            }
        }
    }

    /// The declarations of what a program names; `None` if it names nothing.
    fn declarations(
        &self,
        program: &Program,
        tools: Reachable<'_>,
        learned: Option<&dyn LearnedResults>,
    ) -> Option<Arc<Declarations>> {
        let key = key(program, tools, learned.map_or(0, LearnedResults::version))?;
        if let Some(kept) = self.kept(&key) {
            return Some(kept);
        }
        let declarations = Arc::new(declare(&key, learned));
        let mut all = self.declarations.lock();
        if all.len() >= MAX_DECLARATIONS {
            all.remove(0);
        }
        all.push(KeptDeclarations { key, declarations: Arc::clone(&declarations) });
        Some(declarations)
    }

    fn kept(&self, key: &DeclarationKey) -> Option<Arc<Declarations>> {
        let mut all = self.declarations.lock();
        let index = all.iter().position(|kept| kept.key == *key)?;
        let kept = all.remove(index);
        let declarations = Arc::clone(&kept.declarations);
        all.push(kept);
        Some(declarations)
    }
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
        .filter(|function| names(function.name().as_str().split('.').next().unwrap_or_default()))
        .map(|function| (function.name().as_str().to_owned(), function.result().clone()))
        .collect();
    (!backends.is_empty() || !functions.is_empty()).then_some(DeclarationKey { backends, functions, learned })
}

fn declare(key: &DeclarationKey, learned: Option<&dyn LearnedResults>) -> Declarations {
    let backends: Vec<CheckedBackend<'_>> = key
        .backends
        .iter()
        .map(|NamedBackend { backend, permitted, is_global }| {
            let is_permitted = |name: &str| permitted.as_ref().is_none_or(|some| some.iter().any(|one| one == name));
            let tools = backend.tools().iter().filter(|entry| is_permitted(&entry.tool().name)).collect();
            CheckedBackend { backend, tools, may_have_more: may_have_more(backend), is_global: *is_global }
        })
        .collect();
    let functions: Vec<CheckedFunction<'_>> =
        key.functions.iter().map(|(name, result)| CheckedFunction { name, result }).collect();
    let learned = |backend: &str, tool: &str| learned?.result_type(backend, tool);
    Declarations::new(&backends, &functions, &learned)
}

/// Whether a finding about arguments is one that the bridge would have too: a schema that cannot be used refuses nothing.
fn has_usable_schema(found: &TypeFinding, tools: Reachable<'_>) -> bool {
    let Some(callee) = &found.arguments_of else { return true };
    let mut parts = callee.rsplit('.').map(str::trim);
    let (Some(tool), Some(backend)) = (parts.next(), parts.next()) else { return false };
    tools.view.tool(backend, tool).is_some_and(|found| found.entry.unchecked_because().is_none())
}
