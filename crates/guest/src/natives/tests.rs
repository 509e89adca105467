//! No value that a program makes has a native function panic, or report that memory ran out when it did not.

use std::cell::Cell;
use std::io;

use rquickjs::{Context, Runtime};
use toolgate_wire::codec::encode_to_worker;
use toolgate_wire::frame::Seed;
use toolgate_wire::{Limits, Profile, Start, ToWorker};

use super::*;
use crate::channel::{Channel, ReceiveBuffer, Socket};
use crate::memory::{Meter, Metered};
use crate::sandbox::load_prelude;

const SCRIPT: &str = include_str!("odd_values.js");

/// Interrupt polls after which a call is given up: some values make a loop endless.
const MAX_POLLS: u32 = 20;

/// A host that knows nothing: it takes every frame and answers every question with no.
struct Nothing;

impl Socket for Nothing {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut frame = Vec::new();
        encode_to_worker(&ToWorker::Answer(None), &mut frame);
        buffer[..frame.len()].copy_from_slice(&frame);
        Ok(frame.len())
    }

    fn write_all(&self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

fn state(meter: &Rc<Meter>) -> Rc<State> {
    let limits = Limits { wall: std::time::Duration::from_secs(600), ..Limits::of(Profile::Chain) };
    let mut start = Start {
        profile: Profile::Chain,
        limits,
        seed: Seed::from(0),
        now: 0.0,
        code: String::new(),
        data: None,
        functions: vec!["echo".into()],
        tools: true,
        named: Vec::new(),
    };
    let state = Rc::new(State::new(meter.clone()));
    state.begin(&mut start, Rc::new(Channel::new(Box::new(Nothing), ReceiveBuffer::default())), None);
    meter.limit_to(start.limits.memory);
    state
}

/// Runs `test` with the functions of `odd_values.js` in a context of its own.
fn with_functions<R>(test: impl for<'js> FnOnce(Ctx<'js>, Object<'js>, &State, &Cell<u32>) -> R) -> R {
    let meter = Rc::new(Meter::default());
    let runtime = Runtime::new_with_alloc(Metered(meter.clone())).expect("runtime");
    runtime.set_max_stack_size(256 * 1024);
    let polls = Rc::new(Cell::new(0));
    let polled = polls.clone();
    runtime.set_interrupt_handler(Some(Box::new(move || {
        polled.set(polled.get() + 1);
        polled.get() > MAX_POLLS
    })));
    let context = Context::full(&runtime).expect("context");
    context.with(|ctx| {
        let state = state(&meter);
        let resolvers = Resolvers::register(&ctx);
        data::install(&ctx).expect("data");
        data::install_structured_clone(&ctx).expect("structuredClone");
        let natives = object(&ctx, &state, &resolvers).expect("natives");
        load_prelude(&ctx, natives.clone()).expect("the prelude");
        let script: Function<'_> = ctx.eval(SCRIPT).expect("the script");
        let tested = test(ctx.clone(), script.call((natives,)).expect("its functions"), &state, &polls);
        state.unanswered.clear();
        // QuickJS keeps pointers to it, and the runtime is dropped after it.
        std::mem::forget(resolvers);
        tested
    })
}

fn number(functions: &Object<'_>, name: &str) -> u32 {
    functions.get(name).expect("a number")
}

/// Calls every function, at every position, with every value of a kind, after one change of the built-ins.
fn attempt_all(change: u32, plain: bool) {
    with_functions(|ctx, functions, state, polls| {
        let attempt: Function<'_> = functions.get("attempt").expect("attempt");
        let name: Function<'_> = functions.get("name").expect("name");
        let positions: Function<'_> = functions.get("positions").expect("positions");
        let values = number(&functions, if plain { "plainValues" } else { "values" });
        let positions: Vec<u32> =
            (0..number(&functions, "functions")).map(|at| positions.call((at,)).expect("a count")).collect();
        let _ = functions.get::<_, Function<'_>>("change").and_then(|make| make.call::<_, ()>((change,)));
        for (at, count) in (0..).zip(positions) {
            for (position, value) in (0..count).flat_map(|position| (0..values).map(move |value| (position, value))) {
                polls.set(0);
                if attempt.call::<_, Value<'_>>((at, position, value, plain)).is_err() {
                    ctx.catch();
                }
                while ctx.execute_pending_job() {}
                assert!(
                    !state.meter.was_refused(),
                    "{} refused memory: change {change}, position {position}, value {value}",
                    name.call::<_, String>((at,)).expect("a name"),
                );
            }
        }
    });
}

#[test]
fn every_native_is_tried() {
    with_functions(|_, functions, _, _| {
        assert_eq!(functions.get::<_, Vec<String>>("missing").expect("names"), Vec::<String>::new());
    });
}

#[test]
fn no_odd_value_makes_a_native_panic_or_report_memory() {
    attempt_all(0, false);
}

#[test]
fn no_changed_built_in_makes_a_native_panic_or_report_memory() {
    for change in 1..with_functions(|_, functions, _, _| number(&functions, "changes")) {
        attempt_all(change, true);
    }
}
