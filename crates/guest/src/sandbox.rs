//! An interpreter with its prelude: built once in the zygote, used for one run in a fork of it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rquickjs::context::EvalOptions;
use rquickjs::promise::PromiseState;
use rquickjs::{Context, Ctx, Function, Object, Persistent, Promise, Result, Runtime, Value};
use toolgate_wire::codec::ReplyHead;
use toolgate_wire::frame::{End, Stream};
use toolgate_wire::{CallId, Code, ErrorClass, FromWorker, Profile, Start, ToWorker};

use crate::calls;
use crate::channel::{Channel, Received};
use crate::data::{self, Caps, DepthPolicy, ParseError, SerialiseError, Text, UnwritablePolicy};
use crate::globals::Resolvers;
use crate::lockdown;
use crate::memory::{Meter, Metered};
use crate::natives;
use crate::prelude;
use crate::rejections::Rejections;
use crate::state::{State, Stop};

/// The file name that positions in guest code carry.
const SCRIPT: &str = "script";

/// An interpreter for one run.
pub(crate) struct Sandbox {
    hooks: Persistent<Object<'static>>,
    /// The run's data, kept until the answer is sent: freeing a hundred thousand records takes time.
    data: RefCell<Option<Persistent<Value<'static>>>>,
    context: Context,
    runtime: Runtime,
    state: Rc<State>,
    rejections: Rejections,
    _resolvers: Resolvers,
}

impl Sandbox {
    /// Builds the interpreter and evaluates the prelude.
    pub(crate) fn new() -> Result<Self> {
        let meter = Rc::new(Meter::default());
        let state = Rc::new(State::new(meter.clone()));
        let runtime = Runtime::new_with_alloc(Metered(meter))?;
        let context = Context::full(&runtime)?;
        let run = state.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || run.interrupt())));
        let (hooks, resolvers) = context.with(|ctx| {
            let resolvers = Resolvers::register(&ctx);
            data::install(&ctx)?;
            data::install_structured_clone(&ctx)?;
            let natives = natives::object(&ctx, &state, &resolvers)?;
            Ok::<_, rquickjs::Error>((Persistent::save(&ctx, load_prelude(&ctx, natives)?), resolvers))
        })?;
        let rejections = Rejections::watch(&runtime);
        Ok(Sandbox { hooks, data: RefCell::default(), context, runtime, state, rejections, _resolvers: resolvers })
    }

    /// Runs trusted code, so that the page faults and lazy initialisation of a typical program have happened.
    pub(crate) fn warm_up(&self) {
        self.context.with(|ctx| {
            if let Ok(program) = ctx.eval::<Function<'_>, _>(prelude::WARM_UP) {
                let _ = program.call::<_, Value<'_>>(());
                while ctx.execute_pending_job() {}
            }
            let _ = self.warm_up_tool(&ctx);
        });
        // The deadline is checked by this clock, so its code is in use too.
        let _ = Instant::now();
    }

    fn warm_up_tool(&self, ctx: &Ctx<'_>) -> Result<()> {
        let warm_up: Function<'_> = self.hooks.clone().restore(ctx)?.get("warmUpTool")?;
        self.state.add_named("warm-up", r#"{"name":"warm-up","tools":["other","one"]}"#);
        let called = warm_up.call::<_, Value<'_>>(("warm-up", "one")).map(drop);
        self.state.forget_backends();
        called
    }

    /// Runs the program and returns its end. The interpreter is not torn down: that would delay the answer.
    pub(crate) fn run(&self, mut start: Start, channel: Rc<Channel>, cancelled: Option<Arc<AtomicBool>>) -> FromWorker {
        let state = self.state.clone();
        let cpu_before = lockdown::cpu_time();
        state.begin(&mut start, channel, cancelled);
        self.runtime.set_max_stack_size(start.limits.stack as usize);
        state.meter.limit_to(start.limits.memory);
        // Short runs leave too little garbage for a cycle collection to pay.
        self.runtime.set_gc_threshold((start.limits.memory / 8) as usize);
        let end = if state.meter.charge(start.code.len() as u64) {
            self.context.with(|ctx| match self.hooks.clone().restore(&ctx) {
                Ok(hooks) => {
                    let run = Run { ctx, hooks, state: &state, rejections: &self.rejections, kept: &self.data };
                    let end = run.to_end(start);
                    state.unanswered.clear();
                    end
                }
                Err(_) => failed(Code::Unavailable, "the sandbox has no prelude"),
            })
        } else {
            out_of_memory(&state)
        };
        let cpu = (lockdown::cpu_time() - cpu_before).as_micros() as u64;
        FromWorker::Done { end, memory: state.meter.peak(), cpu, dropped: state.dropped_lines() }
    }
}

/// Evaluates the prelude's files and returns the hooks of the last.
pub(crate) fn load_prelude<'js>(ctx: &Ctx<'js>, natives: Object<'js>) -> Result<Object<'js>> {
    let load = |name: &str, source: &str| -> Result<Function<'js>> {
        let mut options = EvalOptions::default();
        options.filename = Some(format!("toolgate:{name}"));
        ctx.eval_with_options(source, options)
    };
    let core: Object<'js> = load("core", prelude::CORE)?.call((natives,))?;
    let stage: Object<'js> = load("stage", prelude::STAGE)?.call((core.clone(),))?;
    let console: Object<'js> = load("console", prelude::CONSOLE)?.call((core.clone(), stage.clone()))?;
    let events: Object<'js> = load("events", prelude::EVENTS)?.call((core.clone(), stage))?;
    let tools: Object<'js> = load("tools", prelude::TOOLS)?.call((core.clone(), events.clone()))?;
    let web: Object<'js> = load("web", prelude::WEB)?.call((core.clone(),))?;
    load("locale_hooks", prelude::LOCALE_HOOKS)?.call::<_, ()>((core.clone(),))?;
    load("main", prelude::MAIN)?.call((core, console, events, tools, web))
}

/// One run of a program.
struct Run<'js, 'a> {
    ctx: Ctx<'js>,
    hooks: Object<'js>,
    state: &'a Rc<State>,
    rejections: &'a Rejections,
    kept: &'a RefCell<Option<Persistent<Value<'static>>>>,
}

impl<'js> Run<'js, '_> {
    fn to_end(&self, start: Start) -> End {
        let profile = start.profile;
        let started = self.evaluate(start);
        let program = started.as_ref().ok().and_then(|value| value.as_promise().cloned());
        let result = started.and_then(|value| match profile {
            Profile::Compute => self.refuse_promise(value),
            Profile::Chain | Profile::Snippet => self.settle(value),
        });
        let end = match result {
            Ok(value) => self.serialise(value, profile),
            Err(end) => end,
        };
        self.log_unhandled_rejections(program.as_ref());
        end
    }

    /// Errors without a handler would be lost with the run.
    fn log_unhandled_rejections(&self, program: Option<&Promise<'js>>) {
        for reason in self.rejections.drain(&self.ctx, program) {
            if self.state.check().is_some() {
                continue;
            }
            let described =
                self.hook("describe").ok().and_then(|describe| describe.call::<_, Vec<String>>((reason,)).ok());
            let message =
                described.as_deref().and_then(<[String]>::first).map_or("an error that cannot be shown", |text| text);
            self.state.log(Stream::Stderr, &format!("unhandled rejection: {message}"));
        }
    }

    /// Installs the run's globals, compiles the program and calls it.
    fn evaluate(&self, start: Start) -> std::result::Result<Value<'js>, End> {
        let data = match start.data {
            None => Value::new_undefined(self.ctx.clone()),
            Some(length) => self.incoming_data(length, start.profile)?,
        };
        self.kept.replace(Some(Persistent::save(&self.ctx, data.clone())));
        let begin: Function<'js> = self.hook("begin")?;
        let functions = start.functions;
        let arguments = (start.profile.name(), functions, start.tools, data.clone());
        begin.call::<_, ()>(arguments).map_err(|_| self.thrown())?;
        let mut options = EvalOptions::default();
        options.filename = Some(SCRIPT.to_owned());
        let main: Function<'js> = self.ctx.eval_with_options(start.code, options).map_err(|_| self.not_compiled())?;
        let value = match start.profile {
            Profile::Compute => main.call((data,)),
            Profile::Chain | Profile::Snippet => main.call(()),
        };
        value.map_err(|_| self.thrown())
    }

    /// Reads the data straight into the interpreter's memory, where the meter counts it. A computation owns its argument; the
    /// global `context` is deeply frozen.
    fn incoming_data(&self, length: u64, profile: Profile) -> std::result::Result<Value<'js>, End> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let mut text = Text::new(&self.ctx, length).map_err(|_| self.thrown())?;
        if !self.state.read_into(text.bytes_mut()) {
            return Err(self.thrown());
        }
        let parsed = match profile {
            Profile::Compute => data::from_text(&self.ctx, text),
            Profile::Chain | Profile::Snippet => data::frozen_from_text(&self.ctx, text),
        };
        parsed.map_err(|fault| self.bad_data(&fault))
    }

    fn bad_data(&self, fault: &ParseError) -> End {
        drop(self.ctx.catch());
        match self.state.check() {
            Some(stop) => self.stopped(stop, None),
            None => failed(Code::InvalidData, fault.to_string()),
        }
    }

    /// The end of a program that was not compiled. The planner has checked the syntax, so either the interpreter does not know
    /// the syntax, or the compiler ran out of stack or memory.
    fn not_compiled(&self) -> End {
        let thrown = self.ctx.catch();
        let is_syntax_error = self.hook("isSyntaxError").is_ok_and(|is| is.call((thrown.clone(),)).unwrap_or(false));
        match self.end_of(thrown) {
            End::Failed { code: Code::Runtime, message, line, column, class } if is_syntax_error => {
                End::Failed { code: Code::Syntax, message, line, column, class }
            }
            end => end,
        }
    }

    fn refuse_promise(&self, value: Value<'js>) -> std::result::Result<Value<'js>, End> {
        if value.is_promise() {
            return Err(failed(
                Code::Runtime,
                "the function gave a Promise: a computation must give its value at once",
            ));
        }
        Ok(value)
    }

    /// Runs jobs and takes messages until the program's promise is settled.
    fn settle(&self, value: Value<'js>) -> std::result::Result<Value<'js>, End> {
        let Some(promise) = value.as_promise().cloned() else { return Ok(value) };
        loop {
            self.run_jobs();
            match promise.state() {
                PromiseState::Resolved => return promise.finish().map_err(|_| self.thrown()),
                // Also where an interrupt ends up: the rejection knows the place.
                PromiseState::Rejected => return self.rejected(&promise),
                PromiseState::Pending => self.wait()?,
            }
        }
    }

    fn rejected(&self, promise: &Promise<'js>) -> std::result::Result<Value<'js>, End> {
        match promise.result::<Value<'js>>() {
            Some(Ok(value)) => Ok(value),
            _ => Err(self.thrown()),
        }
    }

    /// Checks for a reason to stop after every job: a program may catch an interrupt inside one.
    fn run_jobs(&self) {
        while self.state.check().is_none() && self.ctx.execute_pending_job() {}
    }

    fn wait(&self) -> std::result::Result<(), End> {
        if self.state.check().is_some() {
            return Err(self.thrown());
        }
        if self.state.has_nothing_pending() {
            return Err(failed(
                Code::Runtime,
                "the program waits for a promise that nothing can settle: no call, timer or job is left",
            ));
        }
        match self.state.next_frame() {
            None => Err(self.thrown()),
            Some(Received::Frame(frame)) => self.deliver(frame),
            Some(Received::LongReply { head, length }) => self.deliver_long(&head, length),
        }
    }

    /// Reads the reply straight into the interpreter's memory: a copy of a megabyte costs more than a call.
    fn deliver_long(&self, head: &ReplyHead, length: usize) -> std::result::Result<(), End> {
        let mut text = Text::new(&self.ctx, length).map_err(|_| self.thrown())?;
        if !self.state.read_into(text.bytes_mut()) {
            return Err(self.thrown());
        }
        self.state.now.set(head.now);
        self.state.call_ended();
        let value = data::from_text(&self.ctx, text).map_err(|fault| self.bad_data(&fault))?;
        self.answer(head.id, head.ok, value)
    }

    /// Settles the promise of a call.
    fn answer(&self, id: CallId, ok: bool, value: Value<'js>) -> std::result::Result<(), End> {
        let Some(call) = calls::answered(&self.ctx, self.state, id) else { return Ok(()) };
        let settled = if ok {
            call.resolve.call::<_, ()>((value,))
        } else {
            self.hook("settleWithout")?.call::<_, ()>((call.resolve, call.reject, value, call.site))
        };
        settled.map_err(|_| self.thrown())
    }

    fn deliver(&self, frame: ToWorker) -> std::result::Result<(), End> {
        match frame {
            ToWorker::Reply { id, now, body } => {
                self.state.now.set(now);
                self.state.call_ended();
                let ok = body.is_ok();
                let text = body.unwrap_or_else(|error| error);
                let length = text.len() as u64;
                if !self.state.meter.charge(length) {
                    return Err(out_of_memory(self.state));
                }
                let parsed = parse(&self.ctx, text);
                self.state.meter.release(length);
                let value = parsed.map_err(|fault| self.bad_data(&fault))?;
                self.answer(id, ok, value)
            }
            ToWorker::Fire { id, now } => {
                self.state.now.set(now);
                self.state.timer_ended(id);
                self.hook("fire")?.call::<_, ()>((id.0,)).map_err(|_| self.thrown())
            }
            ToWorker::Waited { ms } => {
                self.state.waited(std::time::Duration::from_millis(ms));
                Ok(())
            }
            ToWorker::Start(_) | ToWorker::Answer(_) => {
                Err(failed(Code::Unavailable, "the host sent a frame that was not asked for"))
            }
        }
    }

    fn serialise(&self, value: Value<'js>, profile: Profile) -> End {
        let limits = self.state.limits();
        // The effects of a snippet have happened: its result is not lost for a part that JSON cannot hold.
        let unwritable_policy = match profile {
            Profile::Snippet => UnwritablePolicy::Marker,
            Profile::Compute | Profile::Chain => UnwritablePolicy::Error,
        };
        let caps = Caps {
            max_bytes: limits.result as usize,
            max_depth: limits.result_depth,
            depth_policy: DepthPolicy::Marker,
            unwritable_policy,
            root: "result",
            should_stop: &|| self.state.check().is_some(),
        };
        let written = data::to_json(&self.ctx, value, &caps);
        if let Some(stop) = self.state.check() {
            return self.stopped(stop, None);
        }
        match written {
            Ok(json) => End::Returned(json.into_bytes()),
            Err(SerialiseError::Thrown) => self.thrown(),
            Err(fault @ SerialiseError::TooLarge { .. }) => failed(Code::OutputTooLarge, fault.to_string()),
            Err(fault) => failed(Code::Runtime, fault.to_string()),
        }
    }

    fn hook(&self, name: &str) -> std::result::Result<Function<'js>, End> {
        self.hooks.get(name).map_err(|_| failed(Code::Unavailable, "the sandbox has no prelude"))
    }

    /// The end of a run whose exception is pending, or that was stopped.
    fn thrown(&self) -> End {
        self.end_of(self.ctx.catch())
    }

    fn end_of(&self, thrown: Value<'js>) -> End {
        if let Some(stop) = self.state.check() {
            return self.stopped(stop, Some(thrown));
        }
        let described = self.hook("describe").and_then(|describe| {
            let texts = describe.call::<_, Vec<String>>((thrown,));
            texts.map_err(|_| failed(Code::Runtime, "an error that cannot be shown"))
        });
        // Describing an error takes memory and time too.
        if let Some(stop) = self.state.check() {
            return self.stopped(stop, None);
        }
        match described.as_deref() {
            Err(end) => end.clone(),
            Ok([message, stack, class]) => {
                let (line, column) = position(stack);
                let class = ErrorClass::named(class);
                End::Failed { code: Code::Runtime, message: message.clone(), line, column, class }
            }
            Ok(_) => failed(Code::Runtime, "an error that cannot be shown"),
        }
    }

    fn stopped(&self, stop: Stop, thrown: Option<Value<'js>>) -> End {
        match stop {
            Stop::Memory => out_of_memory(self.state),
            Stop::Cancelled => failed(Code::Aborted, "cancelled during sandbox execution"),
            Stop::Timeout => {
                let stack = thrown.and_then(|value| value.as_object()?.get::<_, String>("stack").ok());
                drop(self.ctx.catch());
                let (line, column) = stack.as_deref().map_or((0, 0), position);
                let ms = self.state.limits().wall.as_millis();
                End::Failed {
                    code: Code::Timeout,
                    message: format!("the run took longer than its {ms} ms"),
                    line,
                    column,
                    class: None,
                }
            }
        }
    }
}

/// The text is copied into the interpreter's memory, where the meter counts it.
fn parse<'js>(ctx: &Ctx<'js>, text: Vec<u8>) -> std::result::Result<Value<'js>, ParseError> {
    let text = std::str::from_utf8(&text).map_err(|error| ParseError::Syntax { at: error.valid_up_to() })?;
    data::from_json(ctx, text)
}

fn out_of_memory(state: &State) -> End {
    let megabytes = state.limits().memory as f64 / (1024.0 * 1024.0);
    failed(Code::Memory, format!("the run needed more than its {megabytes} MB of memory"))
}

fn failed(code: Code, message: impl Into<String>) -> End {
    End::Failed { code, message: message.into(), line: 0, column: 0, class: None }
}

/// Line and column of the innermost frame in guest code.
fn position(stack: &str) -> (u32, u32) {
    let in_script = |line: &str| {
        let at = line.rfind(&format!("{SCRIPT}:"))?;
        let mut numbers = line[at + SCRIPT.len() + 1..].trim_end_matches(')').split(':');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    };
    stack.lines().find_map(in_script).unwrap_or((0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{ReceiveBuffer, Socket};
    use toolgate_wire::Limits;
    use toolgate_wire::frame::Seed;

    /// What the prelude throws when it is evaluated in a fresh context.
    fn prelude_fault() -> Option<String> {
        let state = Rc::new(State::new(Rc::new(Meter::default())));
        let runtime = Runtime::new().expect("runtime");
        let context = Context::full(&runtime).expect("context");
        context.with(|ctx| {
            let resolvers = Resolvers::register(&ctx);
            let built = data::install(&ctx)
                .and_then(|()| natives::object(&ctx, &state, &resolvers))
                .and_then(|natives| load_prelude(&ctx, natives));
            std::mem::forget(resolvers);
            built.err().map(|_| format!("{:?}", ctx.catch()))
        })
    }

    /// A host that takes every frame and sends none.
    struct Silent;

    impl Socket for Silent {
        fn read(&self, _: &mut [u8]) -> std::io::Result<usize> {
            Ok(0)
        }

        fn write_all(&self, _: &[u8]) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The code that a text fails with that no planner has seen.
    fn check_failure(code: &str, stack: u64, expected: Code) {
        let limits = Limits { stack, ..Limits::of(Profile::Compute) };
        let start = Start {
            profile: Profile::Compute,
            limits,
            seed: Seed::from(0),
            now: 0.0,
            code: code.to_owned(),
            data: None,
            functions: Vec::new(),
            tools: false,
            named: Vec::new(),
        };
        let channel = Rc::new(Channel::new(Box::new(Silent), ReceiveBuffer::default()));
        match Sandbox::new().expect("a sandbox").run(start, channel, None) {
            FromWorker::Done { end: End::Failed { code, .. }, .. } => assert_eq!(code, expected),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_syntax_error_is_known_by_its_type() {
        const STACK: u64 = 512 * 1024;
        check_failure("(function () { return 1 +; })", STACK, Code::Syntax);
        check_failure(&format!("(function () {{ return {}1 }})", "[".repeat(100_000)), 64 * 1024, Code::Runtime);
        // An error of another type that calls itself so.
        check_failure(
            "(() => { throw Object.assign(new Error('x'), { name: 'SyntaxError' }) })()",
            STACK,
            Code::Runtime,
        );
    }

    #[test]
    fn the_prelude_evaluates() {
        assert_eq!(prelude_fault(), None);
    }
}
