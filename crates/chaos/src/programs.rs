//! Programs whose answers and effects are known.

use serde_json::{Value, json};

use crate::doors::Door;
use crate::gateway::{ECHO, SERVERS};

/// One request, and what its answer must be if nothing is killed.
pub(crate) struct Program {
    pub(crate) door: Door,
    pub(crate) body: Value,
    pub(crate) expected: Expected,
    /// Effects that the program has if it runs to its end.
    pub(crate) effects: usize,
    /// Whether it may end for want of memory.
    pub(crate) fills_memory: bool,
}

/// How a program ends.
pub(crate) enum Expected {
    Value(Value),
    /// A text that has this in it.
    TextWith(String),
    /// A value that is too long to be shown whole.
    AnyValue,
    Failure(&'static str),
}

/// The number of kinds of programs.
pub(crate) const KINDS: u64 = 20;
/// The function that programs over the WebSocket are lent: it doubles its argument.
pub(crate) const LENT: &str = "double";

impl Program {
    /// The program with this number, which is part of the names of its effects.
    pub(crate) fn numbered(number: u64) -> Self {
        let [first, second] = SERVERS;
        let run = |code: String| json!({ "code": code });
        let value = |code: String, value: Value| (run(code), Expected::Value(value), 0);
        let failure = |body: Value, code: &'static str| (body, Expected::Failure(code), 0);
        let kind = number % KINDS;
        let (body, expected, effects) = match kind {
            0 => value(format!("return {number} + 1"), json!(number + 1)),
            1 => failure(run("throw new Error('no')".to_owned()), "RUNTIME"),
            2 => value("for (let n = 0; n < 50; n++) console.log('line', n); return 50".to_owned(), json!(50)),
            3 => {
                let code = format!(
                    "await {first}.apply({{ id: '{number}-0' }}); return (await {second}.apply({{ id: '{number}-1' }})).id"
                );
                (run(code), Expected::Value(json!(format!("{number}-1"))), 2)
            }
            4 => {
                let code = format!(
                    "const all = [0, 1, 2, 3, 4].map(n => (n % 2 ? {first} : {second}).apply({{ id: '{number}-' + n, delayMs: 10 }}));
                     await {first}.read({{ id: 'x' }}); return (await Promise.all(all)).length"
                );
                (run(code), Expected::Value(json!(5)), 5)
            }
            5 => {
                // A failed call is caught: the program returns what it was told, and the ledger must agree.
                let code = format!(
                    "const calls = [0, 1, 2].map(n => {first}.apply({{ id: '{number}-' + n, delayMs: 30 }}));
                     return (await Promise.allSettled(calls)).filter(it => it.status === 'fulfilled').length"
                );
                (run(code), Expected::Value(json!(3)), 3)
            }
            6 => failure(json!({ "code": "for (;;);", "timeoutMs": 30 }), "TIMEOUT"),
            7 => {
                let code = "const all = []; for (;;) all.push(new Array(10000).fill(1))";
                failure(json!({ "code": code, "maxHeapMB": 4, "timeoutMs": 60_000 }), "MEMORY")
            }
            8 => value(
                format!(
                    "for (let n = 0; n < 30; n++) try {{ await {first}['x'.repeat(60_000) + n]({{}}) }} catch {{}} return 1"
                ),
                json!(1),
            ),
            9 => (run("return 'x'.repeat(4_000_000)".to_owned()), Expected::AnyValue, 0),
            10 => {
                let code = format!("await {second}.apply({{ id: '{number}-0', delayMs: 5_000 }})");
                (json!({ "code": code, "timeoutMs": 50 }), Expected::Failure("TIMEOUT"), 1)
            }
            11 => {
                let data: Vec<u64> = (0..1000).collect();
                (json!({ "code": "(data) => data.length", "data": data }), Expected::Value(json!(1000)), 0)
            }
            12 => {
                let code = "let sum = 0; for (let n = 0; n < 3_000_000; n++) sum = (sum + n * n) % 1000003; return sum";
                value(code.to_owned(), json!(sum()))
            }
            13 => failure(run(format!("return {first}.aply({{}})")), "INVALID_CODE"),
            14 => {
                let code = format!(
                    "await {second}.apply({{ id: '{number}-0' }}); return (await {first}.apply({{ id: '{number}-1' }})).id"
                );
                (run(code), Expected::Value(json!(format!("{number}-1"))), 2)
            }
            15 => {
                let code = format!("return [(await {first}.read({{ id: '{number}-x' }})).id, {number}]");
                value(code, json!([format!("{number}-x"), number]))
            }
            16 => {
                let code = format!("console.log('a'); return (await {ECHO}({{ id: '{number}' }})).id");
                value(code, json!(number.to_string()))
            }
            17 => {
                let code = format!("return Array.from({{ length: 2000 }}, (_, n) => ({{ id: n, of: {number} }}))");
                value(code, json!([1_999, number]))
            }
            18 => {
                let task = json!({ "task_description": "write an id down once for each call" });
                (task, Expected::TextWith(format!("{first}.apply")), 0)
            }
            _ => {
                let code =
                    format!("const n = await {LENT}({number}); await {first}.apply({{ id: '{number}-0' }}); return n");
                (run(code), Expected::Value(json!(number * 2)), 1)
            }
        };
        Program { door: door_of(kind), body, expected, effects, fills_memory: kind == 7 }
    }
}

/// Where a program of a kind is sent.
fn door_of(kind: u64) -> Door {
    match kind {
        11 => Door::Http("/v1/compute"),
        14 => Door::Mcp("call_tool_chain"),
        15 => Door::McpEvents("call_tool_chain"),
        16 => Door::Mcp("run_code"),
        17 => Door::McpQuery("(data) => [data[1999].id, data[0].of]"),
        18 => Door::Mcp("search_tools"),
        19 => Door::Socket,
        _ => Door::Http("/v1/run"),
    }
}

/// What the program that computes returns.
fn sum() -> u64 {
    (0..3_000_000_u64).fold(0, |sum, n| (sum + n * n) % 1_000_003)
}
