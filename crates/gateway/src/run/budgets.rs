//! The byte budgets of callers and runs.
//!
//! What the host holds for a program besides the program's own memory: arguments and answers on their way. A run may have
//! as many bytes of either in flight as it has memory, because a program can't keep more; the runs of one caller share a
//! budget, and all callers that of the process. Arguments have a tree of budgets of their own: they are held while a call
//! waits for its answer, so that an answer that waited for their bytes would wait for itself.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;
use toolgate_mcp::process_budget;
use toolgate_wire::{ByteBudget, CallerScope};

/// The bytes of arguments that all callers have in flight.
const ALL_ARGUMENT_BYTES: usize = 256 << 20;
/// The bytes of answers, and of arguments, that one caller has in flight.
const CALLER_BYTES: usize = 128 << 20;
/// The least bytes that a run may have in flight, however small its memory is.
const MIN_RUN_BYTES: usize = 16 << 20;
/// Budgets of idle callers are dropped past this number.
const MAX_CALLERS: usize = 1024;

static ARGUMENTS: LazyLock<ByteBudget> = LazyLock::new(|| ByteBudget::new("toolgate", ALL_ARGUMENT_BYTES));

/// The budgets of a caller or of one of its runs.
#[derive(Debug, Clone)]
pub(super) struct Budgets {
    /// For what tools answer; a call waits for its turn in it.
    pub(super) answers: ByteBudget,
    /// For what calls send; a call that does not fit is refused.
    pub(super) arguments: ByteBudget,
}

/// The budgets of all callers.
#[derive(Debug, Default)]
pub(super) struct CallerBudgets(Mutex<HashMap<(String, Option<u64>), Budgets>>);

impl CallerBudgets {
    /// The budgets that all requests of this caller share.
    pub(super) fn of(&self, caller: &CallerScope) -> Budgets {
        let mut budgets = self.0.lock();
        if budgets.len() >= MAX_CALLERS {
            budgets.retain(|_, budgets| budgets.answers.used() > 0 || budgets.arguments.used() > 0);
        }
        let made = || Budgets {
            answers: process_budget().child("this caller", CALLER_BYTES),
            arguments: ARGUMENTS.child("this caller", CALLER_BYTES),
        };
        budgets.entry((caller.name.clone(), caller.fairness)).or_insert_with(made).clone()
    }

    /// The budgets of one run of this caller with so much memory.
    pub(super) fn of_run(&self, caller: &CallerScope, memory: u64) -> Budgets {
        let bytes = usize::try_from(memory).unwrap_or(usize::MAX).max(MIN_RUN_BYTES);
        let Budgets { answers, arguments } = self.of(caller);
        Budgets { answers: answers.child("this run", bytes), arguments: arguments.child("this run", bytes) }
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
        let run = |name: &str| budgets.of_run(&caller(name), u64::MAX);
        let held = run("a").answers.try_reserve(CALLER_BYTES).unwrap();
        assert_eq!(run("a").answers.try_reserve(1).unwrap_err().budget, "this caller");
        assert!(run("a").arguments.try_reserve(1).is_ok());
        assert!(run("b").answers.try_reserve(1).is_ok());
        drop(held);
        assert_eq!(budgets.of(&caller("a")).answers.used(), 0);
    }

    #[test]
    fn a_run_has_as_many_bytes_in_flight_as_it_has_memory() {
        let budgets = CallerBudgets::default();
        let limit = |memory: u64| budgets.of_run(&caller("a"), memory).arguments.limit();
        assert_eq!((limit(50 << 20), limit(1)), (50 << 20, MIN_RUN_BYTES));
    }

    #[test]
    fn budgets_of_idle_callers_are_dropped() {
        let budgets = CallerBudgets::default();
        let held = budgets.of(&caller("busy")).answers.try_reserve(1).unwrap();
        (0..MAX_CALLERS * 2).for_each(|n| drop(budgets.of(&caller(&n.to_string()))));
        assert!(budgets.0.lock().len() <= MAX_CALLERS);
        assert_eq!(budgets.of(&caller("busy")).answers.used(), 1);
        drop(held);
    }
}
