//! What happens to calls: checked, parallel, bounded, failing, refused before the first one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::sync::Barrier;
use toolgate_bridge::{Answer, Provider, ProviderFuture, RequestContext};
use toolgate_run::{Route, RunRequest, Runner};
use toolgate_wire::{CallErrorCode, CallState, LimitRequest};

use crate::runner::{Case, cases};
use crate::support::{asking, block_on, chain, engines, run, shown, value};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        calls::arguments_are_checked_before_anything_is_sent,
        calls::nothing_is_sent_after_the_end_of_its_run,
        calls::a_failing_tool_throws_an_error_that_can_be_caught,
        calls::calls_made_at_once_run_at_once,
        calls::a_run_has_so_many_calls_under_way_and_no_more,
        calls::a_run_has_as_many_bytes_of_arguments_under_way_as_it_has_memory,
        calls::waiting_for_a_turn_does_not_eat_the_calls_own_time,
        calls::what_must_go_wrong_stops_the_run_before_its_first_call,
        calls::what_may_go_wrong_is_a_warning,
        calls::calls_under_way_at_the_end_are_a_warning,
        calls::an_unknown_tool_is_an_error_of_its_call,
        calls::a_loop_that_waits_for_the_clock_is_explained,
        calls::integers_of_a_call_as_json_keep_their_digits,
        calls::a_check_lists_the_calls_and_makes_none,
    ]
}

fn shop() -> Value {
    json!({ "backends": { "shop": { "tools": [
        { "name": "find", "reply": ["{{query}}"], "inputSchema": {
            "type": "object", "required": ["query"], "additionalProperties": false,
            "properties": { "query": { "type": "string" }, "where": { "type": "object", "properties": {
                "tags": { "type": "array", "items": { "enum": ["a", "b"] } } } } } } },
        { "name": "fail", "error": { "code": "NOT_FOUND", "message": "no {{id}}", "data": { "id": "{{id}}" } } },
        { "name": "note", "reply": "noted" },
    ] } } })
}

/// A provider that counts, and answers when as many calls have come together as it waits for.
struct Meeting {
    barrier: Barrier,
    inside: AtomicUsize,
    most: AtomicUsize,
    seen: Mutex<VecDeque<Map<String, Value>>>,
}

impl Meeting {
    fn of(size: usize) -> Arc<Self> {
        let barrier = Barrier::new(size);
        Arc::new(Meeting { barrier, inside: AtomicUsize::new(0), most: AtomicUsize::new(0), seen: Mutex::default() })
    }

    fn arguments(&self) -> Vec<Map<String, Value>> {
        self.seen.lock().expect("not poisoned").iter().cloned().collect()
    }
}

struct Met(Arc<Meeting>);

impl Provider for Met {
    fn call(&self, _: String, arguments: Map<String, Value>, _: RequestContext) -> ProviderFuture {
        let meeting = self.0.clone();
        Box::pin(async move {
            meeting.seen.lock().expect("not poisoned").push_back(arguments);
            let inside = meeting.inside.fetch_add(1, Ordering::SeqCst) + 1;
            meeting.most.fetch_max(inside, Ordering::SeqCst);
            meeting.barrier.wait().await;
            meeting.inside.fetch_sub(1, Ordering::SeqCst);
            Ok(Answer::Value(json!(1)))
        })
    }
}

fn chain_with(meeting: &Arc<Meeting>) -> Runner {
    let chain = chain(&shop());
    chain.bridge().provide("shop", Arc::new(Met(meeting.clone())));
    chain
}

/// Holds every call of `find` until `note` is called.
#[derive(Default)]
struct HeldUntilNote(tokio::sync::watch::Sender<bool>);

impl Provider for HeldUntilNote {
    fn call(&self, tool: String, _: Map<String, Value>, _: RequestContext) -> ProviderFuture {
        let opened = self.0.clone();
        Box::pin(async move {
            match tool.as_str() {
                "note" => drop(opened.send_replace(true)),
                _ => drop(opened.subscribe().wait_for(|open| *open).await),
            }
            Ok(Answer::Value(json!(1)))
        })
    }
}

/// Each call holds its arguments until it is answered, and both their text and their tree while they are read: with four
/// of 5 MB under way a fifth fits into 32 MB, and with five a sixth does not.
pub(crate) fn a_run_has_as_many_bytes_of_arguments_under_way_as_it_has_memory() {
    let chain = chain(&shop());
    chain.bridge().provide("shop", Arc::new(HeldUntilNote::default()));
    let code = "const query = 'x'.repeat(5e6); const made = []; for (let n = 0; n < 8; n++) made.push(shop.find({ query })); \
                const open = shop.note({}); const ended = await Promise.allSettled(made); await open; \
                const refusal = e => [e.code, e.message.includes('make fewer calls at one time')]; \
                return ended.map(it => it.status === 'fulfilled' ? it.value : refusal(it.reason))";
    let limits = LimitRequest { memory: Some(32 << 20), ..LimitRequest::default() };
    let ran = run(&chain, RunRequest { limits, ..asking(code) }).report;
    let refused = json!(["OVER_BUDGET", true]);
    let expected = json!([1, 1, 1, 1, 1, refused, refused, refused]);
    assert_eq!(ran.value().map(|value| value.get()), Ok(expected.to_string().as_str()));
    assert_eq!(ran.calls.iter().filter(|call| call.state == CallState::NotSent).count(), 3);
}

pub(crate) fn arguments_are_checked_before_anything_is_sent() {
    let meeting = Meeting::of(1);
    let chain = chain_with(&meeting);
    let check = |argument: &str, path: &str, message: &str| {
        // Nothing that the planner could know.
        let code = format!(
            "const given = {argument}; try {{ await shop.find(given) }} catch (e) {{ return [e.name, e.code, e.message, e.data] }}"
        );
        let ran = run(&chain, asking(code)).report;
        let sentence = format!("the arguments do not fit shop.find: {message}");
        let data = json!([{ "path": path, "message": message }]);
        let expected = json!(["ToolError", "INVALID_ARGUMENTS", sentence, data]);
        assert_eq!(ran.value().map(|value| value.get()), Ok(expected.to_string().as_str()));
        assert_eq!(ran.calls.iter().map(|call| call.state).collect::<Vec<_>>(), [CallState::NotSent]);
        assert!(ran.safe_to_retry());
    };
    check("{}", "query", "`query` is required (string)");
    check("{ query: 5 }", "query", "`query` must be a string, got a number");
    check("{ query: 'x', qury: 1 }", "qury", "`qury` is not a known property; did you mean `query`?");
    check(
        "{ query: 'x', where: { tags: ['a', 'c'] } }",
        "where.tags[1]",
        "`where.tags[1]` must be one of \"a\", \"b\"",
    );
    assert!(meeting.arguments().is_empty());
    assert_eq!(value(&chain, "const query = 'tea'; return await shop.find({ query, where: undefined })"), "1");
    assert_eq!(meeting.arguments(), [json!({ "query": "tea" }).as_object().expect("an object").clone()]);
}

pub(crate) fn nothing_is_sent_after_the_end_of_its_run() {
    let meeting = Meeting::of(1);
    let chain = chain_with(&meeting);
    let call = |asked: RequestContext| {
        let error = block_on(chain.bridge().call("shop", "note", Map::new(), asked)).expect_err("the run is over");
        (error.code, error.state)
    };
    let late = RequestContext { deadline: Some(Instant::now()), ..RequestContext::default() };
    assert_eq!(call(late), (CallErrorCode::Timeout, CallState::NotSent));
    let cancelled = RequestContext::default();
    cancelled.cancel.cancel();
    assert_eq!(call(cancelled), (CallErrorCode::Cancelled, CallState::NotSent));
    assert_eq!(meeting.arguments(), Vec::<Map<String, Value>>::new());
}

pub(crate) fn a_failing_tool_throws_an_error_that_can_be_caught() {
    let chain = chain(&shop());
    let caught = "try { await shop.fail({ id: 7 }) } catch (e) { \
                  return [e instanceof ToolError, e instanceof Error, e.name, e.backend, e.tool, e.code, e.message, e.data, await shop.note({})] }";
    assert_eq!(value(&chain, caught), r#"[true,true,"ToolError","shop","fail","NOT_FOUND","no 7",{"id":7},"noted"]"#);
    let settled = "const all = await Promise.allSettled([shop.note({}), shop.fail({ id: 1 })]); return all.map(one => one.status)";
    assert_eq!(value(&chain, settled), r#"["fulfilled","rejected"]"#);
    let thrown = run(&chain, asking("await shop.note({});\nawait shop.fail({ id: 7 })"));
    let [first, second] = thrown.report.calls.as_slice() else { panic!("two calls: {thrown:?}") };
    assert_eq!((first.state, second.state), (CallState::Applied, CallState::Failed));
    assert!(shown(&thrown).starts_with("failed RUNTIME: ToolError: no 7 at Some(\"2:"), "{}", shown(&thrown));
}

/// Nobody leaves before all three have come: one after another they would wait for ever.
pub(crate) fn calls_made_at_once_run_at_once() {
    let meeting = Meeting::of(3);
    let chain = chain_with(&meeting);
    assert_eq!(value(&chain, "return (await Promise.all([1, 2, 3].map(n => shop.note({ n })))).length"), "3");
    assert_eq!(meeting.most.load(Ordering::SeqCst), 3);
}

pub(crate) fn a_run_has_so_many_calls_under_way_and_no_more() {
    let meeting = Meeting::of(2);
    let chain = chain_with(&meeting);
    let limits = LimitRequest { calls_in_flight: Some(2), ..LimitRequest::default() };
    let code = "return (await Promise.all(Array.from({ length: 8 }, (_, n) => shop.note({ n })))).length";
    let ran = run(&chain, RunRequest { limits, ..asking(code) });
    assert_eq!(ran.report.value().map(|value| value.get()), Ok("8"));
    assert_eq!(meeting.most.load(Ordering::SeqCst), 2);
}

/// Each call takes 60 ms of its 100; the fourth has waited 180 by then.
pub(crate) fn waiting_for_a_turn_does_not_eat_the_calls_own_time() {
    let chain = chain(
        &json!({ "backends": { "one": { "maxConcurrent": 1, "tools": [{ "name": "step", "reply": 1, "delayMs": 60 }] } } }),
    );
    let context = RequestContext { timeout: Some(Duration::from_millis(100)), ..RequestContext::default() };
    let began = Instant::now();
    let call = || chain.bridge().call("one", "step", Map::new(), context.clone());
    let answers = block_on(async { tokio::join!(call(), call(), call(), call()) });
    let answers = [answers.0, answers.1, answers.2, answers.3];
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert!(began.elapsed() >= Duration::from_millis(240), "they came one after another");
}

pub(crate) fn what_must_go_wrong_stops_the_run_before_its_first_call() {
    let check = |code: &str, expected: &str| {
        for (engine, running) in engines() {
            let chain = crate::support::chain_on(running, &shop());
            let ran = run(&chain, asking(code));
            assert_eq!(ran.route, Route::Refused, "{engine}: {code}");
            let text = shown(&ran);
            assert!(text.starts_with(expected), "{engine}: {code}\n{text}");
            assert!(ran.report.calls.is_empty() && ran.report.safe_to_retry(), "{text}");
        }
    };
    check(
        "await shop.note({});\nawait shop.finds({ query: 'x' })",
        "failed INVALID_CODE: Backend `shop` has no tool `finds`; nothing was called at Some(\"2:12\"), hint Some(\"Did you mean `find`?\")",
    );
    check(
        "await shop.note({});\nif (await shop.find({ query: 5 })) console.log(1)",
        "failed INVALID_CODE: shop.find: `query` must be a string, got a number; nothing was called at Some(\"2:",
    );
    check(
        "await shop.find({ query: 'x', colour: 'red' }); shop.find()",
        "failed INVALID_CODE: shop.find: `colour` is not a known property",
    );
    check("shop-x.find(", "failed SYNTAX");
    check(
        "await shop.find({ query: 'x' }); return await shopp.find({ query: 'y' })",
        "failed INVALID_CODE: `shopp` is not defined; nothing was called",
    );
    check(
        r#"{"tool": "shop.find", "arguments": {"query": 5}}"#,
        "failed INVALID_CODE: shop.find: `query` must be a string, got a number; nothing was called",
    );
    check(r#"{"tool": "shop.find", "arguments": {"query": "x",}}"#, "failed SYNTAX: The call is not valid JSON");
}

pub(crate) fn what_may_go_wrong_is_a_warning() {
    let chain = chain(&shop());
    let check = |code: &str, warning: &str| {
        let ran = run(&chain, asking(code)).report;
        assert!(ran.warnings.iter().any(|one| one.to_string().contains(warning)), "{code}\n{:?}", ran.warnings);
        assert_eq!(ran.value().map(|value| value.get()).ok(), Some("1"), "{code}");
    };
    check("shop.note({}); return 1", "1:1: The call of shop.note is never awaited");
    check("const note = shop.note({}); return 1", "never awaited");
    check("const shop = 1; return shop", "`shop` is a backend, and this variable hides it (Call it `shopResult`.)");
    check("if ('nope' in shop) await shop.nope({}); return 1", "Backend `shop` has no tool `nope`");
    check("try { const q = 1; await shop.find({ qury: q }) } catch {} return 1", "`query` is required");
    check("try { await shop.find({ query: 5 }) } catch {} return 1", "`query` must be a string, got a number");
    check("if (Date.now() < 0) await shop.find({ query: 5 }); return 1", "`query` must be a string, got a number");
    check("try { await shopp.find({}) } catch {} return 1", "`shopp` is not defined (Did you mean `shop`?)");
}

pub(crate) fn calls_under_way_at_the_end_are_a_warning() {
    let chain =
        chain(&json!({ "backends": { "shop": { "tools": [{ "name": "slow", "reply": 1, "delayMs": 60_000 }] } } }));
    let check = |code: &str, warning: &str| {
        let ran = run(&chain, asking(code)).report;
        assert!(ran.warnings.iter().any(|one| one.to_string().starts_with(warning)), "{code}\n{:?}", ran.warnings);
    };
    check(
        "[1, 2].forEach(async () => { await shop.slow({}) }); return 1",
        "2 calls were still under way when the program",
    );
    check("const all = [1].map(() => shop.slow({})); return all.length", "1 call was still under way when the program");
}

pub(crate) fn an_unknown_tool_is_an_error_of_its_call() {
    let chain = chain(&shop());
    let check = |code: &str, expected: Value| assert_eq!(value(&chain, code), expected.to_string(), "{code}");
    check(
        "const name = 'no' + 'pe'; const all = await Promise.allSettled([shop.note({}), shop[name]({ a: 1 })]); \
         return all.map(one => [one.status, one.reason?.name, one.reason?.code, one.reason?.message])",
        json!([
            ["fulfilled", null, null, null],
            ["rejected", "ToolError", "UNKNOWN_TOOL", "shop has no tool named nope: did you mean note?"],
        ]),
    );
    // What is not called stays what it is.
    check(
        "return [Object.keys(shop).includes('nope'), 'nope' in shop, typeof shop.then, typeof shop.toJSON]",
        json!([false, false, "undefined", "undefined"]),
    );
    check("return (await shop) === shop && typeof shop.toString", json!("undefined"));
}

pub(crate) fn a_loop_that_waits_for_the_clock_is_explained() {
    let limits = LimitRequest { wall: Some(Duration::from_millis(300)), ..LimitRequest::default() };
    let code = "const end = Date.now() + 50; while (Date.now() < end) {} return 1";
    let ran = run(&chain(&shop()), RunRequest { limits, ..asking(code) });
    let failure = ran.report.failure().expect("the clock stands still");
    assert_eq!(failure.code.name(), "TIMEOUT");
    assert!(
        failure.hint.as_ref().is_some_and(|hint| hint.contains("The clock stands still in synchronous code")),
        "{failure:?}"
    );
}

/// No program reads a call that came as JSON, so nothing rounds its integers: neither on the way to the tool nor back.
pub(crate) fn integers_of_a_call_as_json_keep_their_digits() {
    let meeting = Meeting::of(1);
    let chain = chain_with(&meeting);
    run(&chain, asking(r#"{"tool": "shop.note", "arguments": {"id": 9007199254740993, "big": 18446744073709551615}}"#));
    run(&chain, asking("return shop.note({ id: 9007199254740993 })"));
    let seen: Vec<String> =
        meeting.arguments().into_iter().map(|arguments| Value::Object(arguments).to_string()).collect();
    assert_eq!(seen, [r#"{"id":9007199254740993,"big":18446744073709551615}"#, r#"{"id":9007199254740992}"#]);
    let replying =
        json!({ "backends": { "ids": { "tools": [{ "name": "last", "reply": [9007199254740993_u64, u64::MAX] }] } } });
    let chain = crate::support::chain(&replying);
    assert_eq!(value(&chain, r#"{"tool": "ids.last"}"#), "[9007199254740993,18446744073709551615]");
    assert_eq!(value(&chain, "return ids.last({})"), value(&chain, "const r = await ids.last({}); return [...r]"));
}

pub(crate) fn a_check_lists_the_calls_and_makes_none() {
    let meeting = Meeting::of(1);
    let chain = chain_with(&meeting);
    let code = "for (const q of ['a', 'b']) await shop.find({ query: q });\nawait shop.note({});";
    let preflight = chain.check(&asking(code)).expect("a program");
    let calls: Vec<_> =
        preflight.calls.iter().map(|call| (call.tool.as_str(), call.position.map(|at| at.line))).collect();
    assert_eq!(calls, [("find", Some(1)), ("note", Some(2))]);
    assert!(preflight.errors.is_empty() && meeting.arguments().is_empty());
    assert_eq!(chain.check(&asking("shop.find({})")).expect("a program").errors.len(), 1);
    assert_eq!(chain.check(&asking("{\"tool\":\"shop.find\"}")).expect("a call").errors.len(), 1);
    assert_eq!(chain.check(&asking("shop.(")).expect_err("no program").code.name(), "SYNTAX");
}
