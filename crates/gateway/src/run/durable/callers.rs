//! Who a run belongs to, and what that caller may use when the run goes on.
//!
//! Rights are not kept with a run: a run that goes on has those that its caller has now.

use ring::digest::{SHA256, digest};
use toolgate_config::checked::Key;
use toolgate_config::values::Glob;
use toolgate_wire::{Access, CallerScope};

/// Finds callers by name.
pub trait Callers: Send + Sync + 'static {
    /// What the caller of that name may use now; `None` when there is none any more.
    fn scope(&self, name: &str) -> Option<CallerScope>;
}

/// Only the local user, who may use everything.
pub struct LocalCaller;

impl Callers for LocalCaller {
    fn scope(&self, name: &str) -> Option<CallerScope> {
        name.is_empty().then(CallerScope::default)
    }
}

/// What the holder of a key may use.
pub fn scope_of_key(key: &Key) -> CallerScope {
    let access = |patterns: &Option<Vec<Glob>>| patterns.clone().map_or(Access::All, Access::Only);
    CallerScope {
        name: key.name.clone(),
        fairness: Some(fairness_of(&key.name)),
        backends: access(&key.backends),
        tools: access(&key.tools),
        rate: key.call_rate,
        functions: access(&key.functions),
    }
}

/// The fairness id of a named caller: all of its connections share one turn in queues.
pub fn fairness_of(name: &str) -> u64 {
    let digest = digest(&SHA256, name.as_bytes());
    digest.as_ref().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}
