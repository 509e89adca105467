//! The byte budgets of callers and runs.
//!
//! What the host holds for a program besides the program's own memory: arguments and answers on their way. A run may have
//! as many bytes of either in flight as it has memory, because a program can't keep more; the runs of one caller share a
//! budget, and all callers that of the process (`toolgate.limits`). Arguments have a tree of budgets of their own: they are held while a call
//! waits for its answer, so that an answer that waited for their bytes would wait for itself.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;
use toolgate_config::checked::BytesInFlight;
use toolgate_config::values::Bytes;
use toolgate_mcp::process_budget;
use toolgate_wire::{ByteBudget, CallerScope};

/// The least bytes that a run may have in flight, however small its memory is, unless it is configured.
const MIN_RUN_BYTES: usize = 16 << 20;
/// Budgets of idle callers are dropped past this number.
const MAX_CALLERS: usize = 1024;

static ARGUMENTS: LazyLock<ByteBudget> =
    LazyLock::new(|| ByteBudget::new("toolgate", size(BytesInFlight::default().process)));

/// Sets the budgets of this process, which all its gateways share.
pub fn set_process_bytes(bytes: Bytes) {
    process_budget().set_limit(size(bytes));
    ARGUMENTS.set_limit(size(bytes));
}

fn size(bytes: Bytes) -> usize {
    usize::try_from(bytes.get()).unwrap_or(usize::MAX)
}

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
    /// The budgets that all requests of this caller share, with the size that is configured now.
    pub(super) fn of(&self, caller: &CallerScope, configured: BytesInFlight) -> Budgets {
        let bytes = size(configured.caller);
        let mut budgets = self.0.lock();
        if budgets.len() >= MAX_CALLERS {
            budgets.retain(|_, budgets| budgets.answers.used() > 0 || budgets.arguments.used() > 0);
        }
        let made = || Budgets {
            answers: process_budget().child("this caller", bytes),
            arguments: ARGUMENTS.child("this caller", bytes),
        };
        let budgets = budgets.entry((caller.name.clone(), caller.fairness)).or_insert_with(made).clone();
        budgets.answers.set_limit(bytes);
        budgets.arguments.set_limit(bytes);
        budgets
    }

    /// The budgets of one run of this caller with so much memory.
    pub(super) fn of_run(&self, caller: &CallerScope, memory: u64, configured: BytesInFlight) -> Budgets {
        let by_memory = || usize::try_from(memory).unwrap_or(usize::MAX).max(MIN_RUN_BYTES);
        let bytes = configured.run.map_or_else(by_memory, size);
        let Budgets { answers, arguments } = self.of(caller, configured);
        Budgets { answers: answers.child("this run", bytes), arguments: arguments.child("this run", bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str) -> CallerScope {
        CallerScope { name: name.to_owned(), ..CallerScope::default() }
    }

    const MB: u64 = 1 << 20;

    #[test]
    fn the_runs_of_a_caller_share_its_budget() {
        let (budgets, usual) = (CallerBudgets::default(), BytesInFlight::default());
        let run = |name: &str| budgets.of_run(&caller(name), u64::MAX, usual);
        let held = run("a").answers.try_reserve(size(usual.caller)).unwrap();
        assert_eq!(run("a").answers.try_reserve(1).unwrap_err().budget, "this caller");
        assert!(run("a").arguments.try_reserve(1).is_ok());
        assert!(run("b").answers.try_reserve(1).is_ok());
        drop(held);
        assert_eq!(budgets.of(&caller("a"), usual).answers.used(), 0);
    }

    #[test]
    fn what_is_configured_now_holds_for_the_caller_and_the_run() {
        let budgets = CallerBudgets::default();
        let configured = |caller: u64, run: Option<u64>| BytesInFlight {
            caller: Bytes::new(caller * MB),
            run: run.map(|run| Bytes::new(run * MB)),
            ..BytesInFlight::default()
        };
        let run = budgets.of_run(&caller("a"), 64 * MB, configured(3, Some(2)));
        assert_eq!(run.answers.try_reserve(size(Bytes::new(3 * MB))).unwrap_err().budget, "this run");
        let _held = run.answers.try_reserve(size(Bytes::new(2 * MB))).unwrap();
        let other = budgets.of_run(&caller("a"), 64 * MB, configured(3, None));
        assert_eq!(other.answers.try_reserve(size(Bytes::new(2 * MB))).unwrap_err().budget, "this caller");
        // A reload changes the budgets of callers that are known already.
        let later = budgets.of_run(&caller("a"), 64 * MB, configured(4, None));
        assert!(later.answers.try_reserve(size(Bytes::new(2 * MB))).is_ok());
    }

    #[test]
    fn a_run_has_as_many_bytes_in_flight_as_it_has_memory() {
        let (budgets, usual) = (CallerBudgets::default(), BytesInFlight::default());
        let limit = |memory: u64| budgets.of_run(&caller("a"), memory, usual).arguments.limit();
        assert_eq!((limit(50 << 20), limit(1)), (50 << 20, MIN_RUN_BYTES));
    }

    #[test]
    fn budgets_of_idle_callers_are_dropped() {
        let (budgets, usual) = (CallerBudgets::default(), BytesInFlight::default());
        let held = budgets.of(&caller("busy"), usual).answers.try_reserve(1).unwrap();
        (0..MAX_CALLERS * 2).for_each(|n| drop(budgets.of(&caller(&n.to_string()), usual)));
        assert!(budgets.0.lock().len() <= MAX_CALLERS);
        assert_eq!(budgets.of(&caller("busy"), usual).answers.used(), 1);
        drop(held);
    }
}
