//! What the schemas of a hostile server take is bounded, however many of its tools are called.

#![allow(clippy::print_stdout, reason = "what was measured is printed")]

#[path = "../../../tests/rust/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::Peak;
use serde_json::{Value, json};
use toolgate_catalog::{Backend, BackendState, Catalog, Listing, Tool};

/// What the schemas of one server may take.
const SERVER_BYTES: usize = 128 << 20;
/// Tools of the server, each of which is called once.
const TOOLS: usize = 100;

fn tool(number: usize, schema: Value) -> Tool {
    serde_json::from_value(json!({ "name": format!("t{number}"), "inputSchema": schema })).expect("a tool")
}

/// Expressions of all kinds that are short and large when compiled.
fn pattern(number: usize) -> String {
    match number % 5 {
        0 => format!("a{{{}}}", 1_000 + number),
        1 => format!("(?=b)(?:[a-z0-9]{{1,{}}}){{3}}", 100 + number),
        2 => format!("[\\p{{L}}\\p{{N}}]{{{}}}", 2 + number % 50),
        3 => {
            let listed: String = (0..60).filter_map(|at| char::from_u32(0x4e00 + 37 * (at + number as u32))).collect();
            format!("[{listed}]{{{}}}", 100 + number % 50)
        }
        _ => format!("(?i)\\p{{Greek}}[^x{number}]{{200}}"),
    }
}

fn patterns(number: usize) -> Value {
    let of = |at: usize| (format!("p{at}"), json!({ "type": "string", "pattern": pattern(number * 8 + at) }));
    json!({ "type": "object", "properties": (0..8).map(of).collect::<serde_json::Map<_, _>>() })
}

fn wide(number: usize) -> Value {
    let of = |at: usize| {
        (format!("p{number}_{at}"), json!({ "type": ["string", "null"], "minLength": 1, "enum": ["a", null] }))
    };
    json!({ "type": "object", "properties": (0..2_000).map(of).collect::<serde_json::Map<_, _>>() })
}

/// A text whose tree takes far more than it.
fn lists(_: usize) -> Value {
    json!({ "type": "object", "examples": vec![json!([0]); 20_000] })
}

fn check(kind: &str, schema: fn(usize) -> Value) {
    let tools: Vec<Tool> = (0..TOOLS).map(|number| tool(number, schema(number))).collect();
    let arguments: Value = (0..8).map(|at| (format!("p{at}"), json!("aaaaaaaaaaaaaaaaaaaaaaaa"))).collect();
    let catalog =
        Catalog::new(vec![Listing { name: "bad".into(), state: BackendState::Ready, tools, tags: Vec::new() }]);
    let backend: &Backend = catalog.backend("bad").expect("the backend");
    let peak = Peak::begin();
    for entry in backend.tools() {
        entry.check_arguments(&arguments);
    }
    let checked = backend.tools().iter().filter(|entry| entry.unchecked_because().is_none()).count();
    let bytes = peak.bytes();
    println!("{kind}: {checked} of {TOOLS} schemas are compiled, {} KB", bytes >> 10);
    assert!(checked > 0, "{kind}: none is compiled");
    assert!(bytes <= SERVER_BYTES + (16 << 20), "{kind}: {bytes} bytes");
}

#[test]
fn the_schemas_of_a_server_take_a_bounded_amount() {
    check("patterns", patterns);
    check("wide", wide);
    check("lists", lists);
}
