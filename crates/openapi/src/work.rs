//! The work that reading one document may take.
//!
//! A document is read once, except for what references, alternatives and shared parts make the reader read again. That is
//! charged here by its size, so the time and memory of reading are a bounded multiple of the document, whatever refers
//! to what. No clock: the same document has the same tools on every machine. A reader that is cancelled has no work left.

use std::cell::Cell;

use serde_json::Value;

use crate::bounds::{MAX_WORK_FACTOR, MIN_WORK_BYTES};

/// What is left of the work that a document may take, in bytes.
pub(crate) struct WorkBudget<'a> {
    left: Cell<usize>,
    is_cancelled: Option<&'a dyn Fn() -> bool>,
}

impl<'a> WorkBudget<'a> {
    /// The budget of a document of so many bytes.
    pub(crate) fn of(document_bytes: usize) -> Self {
        let left = document_bytes.saturating_mul(MAX_WORK_FACTOR).saturating_add(MIN_WORK_BYTES);
        Self { left: Cell::new(left), is_cancelled: None }
    }

    /// Ends the work once `is_cancelled` says so.
    pub(crate) fn cancel_with(&mut self, is_cancelled: &'a dyn Fn() -> bool) {
        self.is_cancelled = Some(is_cancelled);
    }

    /// Charges work before it is done; false if it is not to be done.
    pub(crate) fn charge(&self, bytes: usize) -> bool {
        let left = if self.is_cancelled() { 0 } else { self.left.get().saturating_sub(bytes) };
        self.left.set(left);
        left > 0
    }

    /// Whether nothing is left.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.left.get() == 0
    }

    /// Whether the result is not wanted any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.is_some_and(|is_cancelled| is_cancelled())
    }
}

/// About the size of a value as text, in bytes.
pub(crate) fn weight(value: &Value) -> usize {
    const NODE: usize = 4;
    NODE + match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => members.iter().map(|(key, value)| key.len() + weight(value)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_with_the_budget_and_stays_ended() {
        let work = WorkBudget::of(10);
        assert!(work.charge(MIN_WORK_BYTES) && !work.is_exhausted());
        assert!(!work.charge(10 * MAX_WORK_FACTOR) && work.is_exhausted());
        assert!(!work.charge(0));
    }

    #[test]
    fn work_that_is_cancelled_ends() {
        let (is_cancelled, mut work) = (Cell::new(false), WorkBudget::of(1));
        let asked = || is_cancelled.get();
        work.cancel_with(&asked);
        assert!(work.charge(1));
        is_cancelled.set(true);
        assert!(!work.charge(1) && work.is_exhausted() && work.is_cancelled());
    }
}
