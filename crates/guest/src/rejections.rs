//! Unhandled promise rejections.
//!
//! A program that forgets an `await` loses the error with it. A rejection without a handler at the end of a run becomes a line
//! on its console.

use std::cell::RefCell;
use std::rc::Rc;

use rquickjs::{Ctx, Persistent, Promise, Runtime, Value};
use toolgate_wire::limits::MAX_UNHANDLED_REJECTIONS;

type Unhandled = Vec<(Persistent<Value<'static>>, Persistent<Value<'static>>)>;

/// The unhandled rejections of one interpreter.
#[derive(Clone, Default)]
pub(crate) struct Rejections(Rc<RefCell<Unhandled>>);

impl Rejections {
    /// Tracks the rejections of a runtime from now on.
    pub(crate) fn watch(runtime: &Runtime) -> Self {
        let rejections = Rejections::default();
        let watched = rejections.clone();
        runtime.set_host_promise_rejection_tracker(Some(Box::new(move |ctx, promise, reason, is_handled| {
            if is_handled {
                watched.forget(&ctx, &promise);
            } else {
                watched.remember(&ctx, promise, reason);
            }
        })));
        rejections
    }

    fn remember<'js>(&self, ctx: &Ctx<'js>, promise: Value<'js>, reason: Value<'js>) {
        let mut unhandled = self.0.borrow_mut();
        if unhandled.len() < MAX_UNHANDLED_REJECTIONS {
            unhandled.push((Persistent::save(ctx, promise), Persistent::save(ctx, reason)));
        }
    }

    fn forget<'js>(&self, ctx: &Ctx<'js>, promise: &Value<'js>) {
        let is_other = |saved: &Persistent<Value<'static>>| saved.clone().restore(ctx).is_ok_and(|one| one != *promise);
        // Dropped outside the borrow: freeing a value may run code that rejects another promise.
        let kept = self.0.take().into_iter().filter(|(saved, _)| is_other(saved)).collect();
        self.0.replace(kept);
    }

    /// The reasons of all unhandled rejections but that of the program itself, and forgets them.
    pub(crate) fn drain<'js>(&self, ctx: &Ctx<'js>, program: Option<&Promise<'js>>) -> Vec<Value<'js>> {
        let of_program = |promise: &Value<'js>| program.is_some_and(|program| program.as_value() == promise);
        let unhandled = self.0.take();
        let restored = unhandled.into_iter().filter_map(|(promise, reason)| {
            let promise = promise.restore(ctx).ok()?;
            if of_program(&promise) { None } else { reason.restore(ctx).ok() }
        });
        restored.collect()
    }
}
