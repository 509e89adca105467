//! Host calls that have no answer yet: the promise that a program holds, and what settles it.
//!
//! Native code, since a program spends more instructions on calls than on anything else that is ours: arguments, promise and
//! frame are one crossing from JavaScript, and an answer resolves its promise without any.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rquickjs::{Ctx, Exception, Function, Persistent, Promise, Result, Value};
use toolgate_wire::CallId;
use toolgate_wire::frame::Target;
use toolgate_wire::limits::MAX_ARGUMENTS;

use crate::data::{self, Caps, DepthPolicy, SerialiseError, UnwritablePolicy};
use crate::state::{Refused, State};

/// What an entry takes of memory, about. The interpreter's allocator does not count it.
const ENTRY_BYTES: u64 = 128;

/// The calls of one run that have no answer yet, by their numbers.
#[derive(Default)]
pub(crate) struct UnansweredCalls(RefCell<BTreeMap<u32, Saved>>);

struct Saved {
    resolve: Persistent<Function<'static>>,
    reject: Persistent<Function<'static>>,
    site: Persistent<Value<'static>>,
}

/// A call that is to be settled.
pub(crate) struct UnansweredCall<'js> {
    pub(crate) resolve: Function<'js>,
    pub(crate) reject: Function<'js>,
    /// An object with the stack of the program where it made the call.
    pub(crate) site: Value<'js>,
}

impl UnansweredCalls {
    fn add<'js>(&self, ctx: &Ctx<'js>, id: CallId, call: UnansweredCall<'js>) {
        let saved = Saved {
            resolve: Persistent::save(ctx, call.resolve),
            reject: Persistent::save(ctx, call.reject),
            site: Persistent::save(ctx, call.site),
        };
        self.0.borrow_mut().insert(id.0, saved);
    }

    fn take<'js>(&self, ctx: &Ctx<'js>, id: CallId) -> Option<UnansweredCall<'js>> {
        let saved = self.0.borrow_mut().remove(&id.0)?;
        Some(UnansweredCall {
            resolve: saved.resolve.restore(ctx).ok()?,
            reject: saved.reject.restore(ctx).ok()?,
            site: saved.site.restore(ctx).ok()?,
        })
    }

    /// Drops all of them: no value of an interpreter may outlive it.
    pub(crate) fn clear(&self) {
        drop(self.0.take());
    }
}

/// Sends a call and gives the promise of its answer. Arguments that have no JSON form and a call that is refused reject it.
pub(crate) fn begin<'js>(
    ctx: &Ctx<'js>,
    run: &State,
    target: Target,
    args: Value<'js>,
    site: Value<'js>,
) -> Result<Promise<'js>> {
    let (promise, resolve, reject) = ctx.promise()?;
    match send(ctx, run, target, args) {
        Ok(id) => run.unanswered.add(ctx, id, UnansweredCall { resolve, reject, site }),
        Err(rquickjs::Error::Exception) => {
            let thrown = ctx.catch();
            // A run that is to end is not told so by a promise, which it could handle.
            if run.check().is_some() {
                return Err(ctx.throw(thrown));
            }
            reject.call::<_, ()>((thrown,))?;
        }
        Err(other) => return Err(other),
    }
    Ok(promise)
}

fn send<'js>(ctx: &Ctx<'js>, run: &State, target: Target, args: Value<'js>) -> Result<CallId> {
    let args = arguments(ctx, run, args, "arguments")?;
    if !run.meter.charge(ENTRY_BYTES) {
        return Err(throw(ctx, &Refused::Memory));
    }
    run.call(target, args).map_err(|refused| {
        run.meter.release(ENTRY_BYTES);
        throw(ctx, &refused)
    })
}

/// The call that an answer is for; `None`, if there is no such call.
pub(crate) fn answered<'js>(ctx: &Ctx<'js>, run: &State, id: CallId) -> Option<UnansweredCall<'js>> {
    let call = run.unanswered.take(ctx, id)?;
    run.meter.release(ENTRY_BYTES);
    Some(call)
}

/// What a program passes to the host, as JSON text. Messages call it `what`.
pub(crate) fn arguments<'js>(ctx: &Ctx<'js>, run: &State, value: Value<'js>, what: &str) -> Result<String> {
    let caps = Caps {
        max_bytes: MAX_ARGUMENTS,
        max_depth: None,
        depth_policy: DepthPolicy::Error,
        unwritable_policy: UnwritablePolicy::Error,
        root: what,
        should_stop: &|| run.check().is_some(),
    };
    data::to_json(ctx, value, &caps).map_err(|fault| match fault {
        SerialiseError::Thrown => rquickjs::Error::Exception,
        fault => Exception::throw_type(ctx, &fault.to_string()),
    })
}

/// Throws the reason why something was not sent.
pub(crate) fn throw(ctx: &Ctx<'_>, refused: &Refused) -> rquickjs::Error {
    Exception::throw_range(ctx, &refused.to_string())
}
