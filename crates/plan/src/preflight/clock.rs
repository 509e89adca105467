//! Finds loops that wait for the clock without giving way.
//!
//! The sandbox's clock advances when a call or a timer ends, so a loop without `await` sees the same time in every round.

use super::{FindingCode, Inspector};
use oxc::{
    ast::ast::*,
    ast_visit::{Visit, walk},
    syntax::scope::ScopeFlags,
};

/// Loops that are examined. Each is read as a whole, and loops may be nested.
const MAX_LOOPS: usize = 50;

impl<'a> Inspector<'_, 'a> {
    /// Warns about `while (Date.now() < end) …`, and about `while (true) { if (Date.now() > end) break; … }`.
    pub(super) fn check_busy_wait(&mut self, at: u32, test: Option<&Expression<'a>>, body: &Statement<'a>) {
        self.loops += 1;
        if self.loops > MAX_LOOPS {
            return;
        }
        let mut wait = BusyWait::default();
        if let Some(test) = test {
            wait.in_test(test);
        }
        wait.visit_statement(body);
        if wait.reads_clock && !wait.gives_way {
            let message = "The clock stands still in synchronous code: this loop sees the same time in every round";
            let advice = "Wait with `await sleep(ms)`.".to_owned();
            self.warn(FindingCode::BusyWait, at, message.to_owned(), Some(advice));
        }
    }
}

#[derive(Default)]
struct BusyWait {
    /// Whether a condition reads the clock.
    reads_clock: bool,
    /// Whether the clock can advance.
    gives_way: bool,
    conditions: usize,
}

impl BusyWait {
    fn in_test(&mut self, test: &Expression<'_>) {
        self.conditions += 1;
        self.visit_expression(test);
        self.conditions -= 1;
    }
}

impl<'a> Visit<'a> for BusyWait {
    fn visit_await_expression(&mut self, _: &AwaitExpression<'a>) {
        self.gives_way = true;
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        self.gives_way |= it.r#await;
        walk::walk_for_of_statement(self, it);
    }

    fn visit_if_statement(&mut self, it: &IfStatement<'a>) {
        self.in_test(&it.test);
        self.visit_statement(&it.consequent);
        it.alternate.iter().for_each(|other| self.visit_statement(other));
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        self.reads_clock |= self.conditions > 0 && is_now(&it.callee);
        walk::walk_call_expression(self, it);
    }

    fn visit_new_expression(&mut self, it: &NewExpression<'a>) {
        let is_date = matches!(it.callee.get_inner_expression(), Expression::Identifier(id) if id.name == "Date");
        self.reads_clock |= self.conditions > 0 && is_date && it.arguments.is_empty();
        walk::walk_new_expression(self, it);
    }

    fn visit_function(&mut self, _: &Function<'a>, _: ScopeFlags) {}

    fn visit_arrow_function_expression(&mut self, _: &ArrowFunctionExpression<'a>) {}
}

/// `Date.now` or `performance.now`.
fn is_now(callee: &Expression<'_>) -> bool {
    let Some((object, "now", _)) = crate::reach::member(callee) else { return false };
    matches!(object.get_inner_expression(), Expression::Identifier(id) if matches!(id.name.as_str(), "Date" | "performance"))
}
