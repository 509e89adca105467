//! A call in JSON as the program that makes the same call: only a program has a record, from which a run that waits for a
//! person goes on.

use serde_json::Value;
use toolgate_json::{stringify, stringify_exact};
use toolgate_plan::Call;

/// The program that makes this call; `None` where JavaScript cannot write its arguments: integers beyond 2^53.
pub(super) fn program_of(call: &Call) -> Option<String> {
    let arguments = stringify(&call.arguments);
    if arguments != stringify_exact(&call.arguments) {
        return None;
    }
    let [backend, tool] = [&call.backend, &call.tool].map(|name| Value::from(name.as_str()).to_string());
    // In an object literal the key `__proto__` names the prototype.
    let arguments = match arguments.contains("__proto__") {
        true => format!("JSON.parse({})", Value::from(arguments)),
        false => arguments,
    };
    Some(format!("return await __backends[{backend}][{tool}]({arguments})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(arguments: Value, expected: Option<&str>) {
        let call = Call { backend: "my-shop".into(), tool: "buy".into(), arguments };
        assert_eq!(program_of(&call).as_deref(), expected);
    }

    #[test]
    fn a_call_is_written_as_a_program() {
        check(json!({ "n": 1.0 }), Some(r#"return await __backends["my-shop"]["buy"]({"n":1})"#));
        check(
            json!({ "__proto__": 1 }),
            Some(r#"return await __backends["my-shop"]["buy"](JSON.parse("{\"__proto__\":1}"))"#),
        );
        check(json!({ "n": 9_007_199_254_740_993_i64 }), None);
    }
}
