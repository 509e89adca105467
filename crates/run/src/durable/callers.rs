//! Who a run belongs to, and what that caller may use when the run goes on.
//!
//! Rights of a key are not kept with a run: a run that goes on has those that its key has now. Rights that came with a token are
//! nowhere else, so they are kept with the run, encrypted like the rest of it, for as long as tokens are accepted at all.

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use toolgate_config::checked::Key;
use toolgate_config::values::Glob;
use toolgate_wire::{Access, CallRate, CallerScope};

/// Finds callers by name.
pub trait Callers: Send + Sync + 'static {
    /// What the caller of that name may use now; `None` when there is none any more.
    fn scope(&self, name: &str) -> Option<CallerScope>;

    /// Whether callers are still admitted whose rights came with their request.
    fn admits_tokens(&self) -> bool {
        false
    }
}

/// What a token granted to a caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GrantedScope {
    /// Patterns; all names when absent.
    backends: Option<Vec<String>>,
    tools: Option<Vec<String>>,
    functions: Option<Vec<String>>,
    /// Calls in a minute.
    rate: Option<u32>,
}

impl GrantedScope {
    pub(super) fn of(scope: &CallerScope) -> Self {
        let patterns = |access: &Access| match access {
            Access::All => None,
            Access::Only(patterns) => Some(patterns.iter().map(ToString::to_string).collect()),
        };
        let CallerScope { name: _, fairness: _, backends, tools, rate, functions } = scope;
        GrantedScope {
            backends: patterns(backends),
            tools: patterns(tools),
            functions: patterns(functions),
            rate: rate.map(CallRate::calls),
        }
    }

    /// The scope again, for the caller of this name.
    pub(super) fn scope(&self, name: &str) -> CallerScope {
        let access = |patterns: &Option<Vec<String>>| match patterns {
            None => Access::All,
            Some(patterns) => Access::only(patterns.iter().map(String::as_str)),
        };
        CallerScope {
            name: name.to_owned(),
            fairness: Some(fairness_of(name)),
            backends: access(&self.backends),
            tools: access(&self.tools),
            rate: self.rate.and_then(CallRate::per_minute),
            functions: access(&self.functions),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_token_granted_is_read_again() {
        let scope = CallerScope {
            name: "oauth:ann".into(),
            fairness: Some(fairness_of("oauth:ann")),
            backends: Access::only(["bank"]),
            tools: Access::only(["bank.get_*", "bank.p?y"]),
            rate: CallRate::per_minute(7),
            functions: Access::only([]),
        };
        let text = serde_json::to_string(&GrantedScope::of(&scope)).unwrap();
        let read: GrantedScope = serde_json::from_str(&text).unwrap();
        assert_eq!(read.scope("oauth:ann"), scope);
        let all = CallerScope { name: "b".into(), fairness: Some(fairness_of("b")), ..CallerScope::default() };
        assert_eq!(GrantedScope::of(&all).scope("b"), all);
    }
}
