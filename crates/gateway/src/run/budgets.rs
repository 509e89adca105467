//! The byte budgets of callers and runs.
//!
//! What the host holds for a program besides the program's own memory: arguments and answers on their way. A run may have
//! as many bytes in flight as it has memory, because a program can't keep more; the runs of one caller share a budget, and
//! all callers that of the process.

use std::collections::HashMap;

use parking_lot::Mutex;
use toolgate_mcp::process_budget;
use toolgate_wire::{ByteBudget, CallerScope};

/// The bytes that the runs and direct calls of one caller have in flight.
const CALLER_BYTES: usize = 128 << 20;
/// The least bytes that a run may have in flight, however small its memory is.
const MIN_RUN_BYTES: usize = 16 << 20;
/// Budgets of idle callers are dropped past this number.
const MAX_CALLERS: usize = 1024;

/// The budgets of all callers.
#[derive(Debug, Default)]
pub(super) struct CallerBudgets(Mutex<HashMap<(String, Option<u64>), ByteBudget>>);

impl CallerBudgets {
    /// The budget that all requests of this caller share.
    pub(super) fn of(&self, caller: &CallerScope) -> ByteBudget {
        let mut budgets = self.0.lock();
        if budgets.len() >= MAX_CALLERS {
            budgets.retain(|_, budget| budget.used() > 0);
        }
        let key = (caller.name.clone(), caller.fairness);
        budgets.entry(key).or_insert_with(|| process_budget().child("this caller", CALLER_BYTES)).clone()
    }

    /// The budget of one run of this caller with so much memory.
    pub(super) fn of_run(&self, caller: &CallerScope, memory: u64) -> ByteBudget {
        let bytes = usize::try_from(memory).unwrap_or(usize::MAX).max(MIN_RUN_BYTES);
        self.of(caller).child("this run", bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str) -> CallerScope {
        CallerScope { name: name.to_owned(), ..CallerScope::default() }
    }

    #[test]
    fn the_runs_of_a_caller_share_its_budget() {
        let budgets = CallerBudgets::default();
        let one = budgets.of_run(&caller("a"), u64::MAX);
        let held = one.try_reserve(CALLER_BYTES).unwrap();
        let refused = budgets.of_run(&caller("a"), u64::MAX).try_reserve(1).unwrap_err();
        assert_eq!(refused.budget, "this caller");
        assert!(budgets.of_run(&caller("b"), u64::MAX).try_reserve(1).is_ok());
        drop(held);
        assert_eq!(budgets.of(&caller("a")).used(), 0);
    }

    #[test]
    fn a_run_has_as_many_bytes_in_flight_as_it_has_memory() {
        let budgets = CallerBudgets::default();
        let limit = |memory: u64| budgets.of_run(&caller("a"), memory).limit();
        assert_eq!((limit(50 << 20), limit(1)), (50 << 20, MIN_RUN_BYTES));
    }

    #[test]
    fn budgets_of_idle_callers_are_dropped() {
        let budgets = CallerBudgets::default();
        let held = budgets.of(&caller("busy")).try_reserve(1).unwrap();
        (0..MAX_CALLERS * 2).for_each(|n| drop(budgets.of(&caller(&n.to_string()))));
        assert!(budgets.0.lock().len() <= MAX_CALLERS);
        assert_eq!(budgets.of(&caller("busy")).used(), 1);
        drop(held);
    }
}
