//! Promises that were rejected while nobody listened.
//!
//! A program that forgets an `await` loses the error with it. What is still unheard at the end of
//! a run becomes a line on its console; a promise that finds a listener later is forgotten.

use std::cell::RefCell;
use std::rc::Rc;

use rquickjs::{Ctx, Persistent, Promise, Runtime, Value};

/// Rejections that are remembered at one time.
pub(crate) const MAX_UNHANDLED: usize = 100;

type Unheard = Vec<(Persistent<Value<'static>>, Persistent<Value<'static>>)>;

/// The unheard rejections of one interpreter.
#[derive(Clone, Default)]
pub(crate) struct Rejections(Rc<RefCell<Unheard>>);

impl Rejections {
    /// Listens to the runtime from now on.
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
        let mut unheard = self.0.borrow_mut();
        if unheard.len() < MAX_UNHANDLED {
            unheard.push((Persistent::save(ctx, promise), Persistent::save(ctx, reason)));
        }
    }

    fn forget<'js>(&self, ctx: &Ctx<'js>, promise: &Value<'js>) {
        let is_other = |saved: &Persistent<Value<'static>>| saved.clone().restore(ctx).is_ok_and(|one| one != *promise);
        // What falls away is dropped outside the borrow: freeing a value may run anything.
        let kept = self.0.take().into_iter().filter(|(saved, _)| is_other(saved)).collect();
        self.0.replace(kept);
    }

    /// The reasons of all unheard rejections but that of the program itself, and forgets them.
    pub(crate) fn drain<'js>(&self, ctx: &Ctx<'js>, program: Option<&Promise<'js>>) -> Vec<Value<'js>> {
        let of_program = |promise: &Value<'js>| program.is_some_and(|program| program.as_value() == promise);
        let unheard = self.0.take();
        let restored = unheard.into_iter().filter_map(|(promise, reason)| {
            let promise = promise.restore(ctx).ok()?;
            if of_program(&promise) { None } else { reason.restore(ctx).ok() }
        });
        restored.collect()
    }
}
