//! Documentation of host functions, generated from their signatures: text for a model, and JSON for `/v1/functions`.

mod typescript;

use super::{HostFunction, Param, Presence, Registry};
use serde_json::{Value, json};
use std::fmt::Write as _;
use typescript::type_of;

/// The signature in TypeScript, without `declare function`: `name(a: number, b?: string): Promise<number>`.
pub fn signature(function: &HostFunction) -> String {
    let params: Vec<_> = function.params().iter().map(parameter).collect();
    let result = function.shown_result().map_or_else(|| type_of(function.result()), str::to_owned);
    format!("{}({}): Promise<{result}>", function.name(), params.join(", "))
}

fn parameter(param: &Param) -> String {
    let of = type_of(&param.schema);
    match param.presence {
        Presence::Required => format!("{}: {of}", param.name),
        Presence::Optional => format!("{}?: {of}", param.name),
        Presence::Rest => format!("...{}: ({of})[]", param.name),
    }
}

/// The text for a model: one paragraph per function.
pub fn for_model(registry: &Registry) -> String {
    let mut text = String::new();
    for function in registry.iter() {
        let _ = writeln!(text, "await {}", signature(function));
        if !function.description().is_empty() {
            let _ = writeln!(text, "  {}", one_line(function.description()));
        }
        for param in function.params().iter().filter(|param| !param.description.is_empty()) {
            let _ = writeln!(text, "  - {}: {}", param.name, one_line(&param.description));
        }
    }
    text
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The response of `GET /v1/functions`.
pub fn as_json(registry: &Registry) -> Value {
    json!({ "functions": registry.iter().map(function_json).collect::<Vec<_>>() })
}

fn function_json(function: &HostFunction) -> Value {
    let params: Vec<_> = function.params().iter().map(param_json).collect();
    json!({
        "name": function.name(),
        "description": function.description(),
        "signature": signature(function),
        "params": params,
        "result": function.result(),
    })
}

fn param_json(param: &Param) -> Value {
    let mut value = json!({
        "name": param.name,
        "schema": param.schema,
        "optional": param.presence != Presence::Required,
        "description": param.description,
    });
    if param.presence == Presence::Rest {
        value["rest"] = json!(true);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> Registry {
        let add = HostFunction::builder("add")
            .describe("Adds two numbers.\nExactly */ so.")
            .required("a", json!({"type": "number"}), "the first")
            .optional("b", json!({"type": "integer"}), "the\nsecond")
            .returns(json!({"type": "number"}))
            .handle(|_, _| async { Ok(json!(0)) })
            .expect("a sound signature");
        let list = HostFunction::builder("api.list")
            .param(Param {
                name: "ids".into(),
                schema: json!({"type": ["string", "number"]}),
                presence: Presence::Rest,
                description: String::new(),
            })
            .handle(|_, _| async { Ok(json!(0)) })
            .expect("a sound signature");
        [add, list].into_iter().collect()
    }

    #[test]
    fn a_model_reads_signatures_and_sentences() {
        insta::assert_snapshot!(for_model(&registry()), @r"
        await add(a: number, b?: number): Promise<number>
          Adds two numbers. Exactly */ so.
          - a: the first
          - b: the second
        await api.list(...ids: (string | number)[]): Promise<unknown>
        ");
    }

    #[test]
    fn the_service_lists_schemas_and_signatures() {
        insta::assert_json_snapshot!(as_json(&registry())["functions"][1], @r#"
        {
          "name": "api.list",
          "description": "",
          "signature": "api.list(...ids: (string | number)[]): Promise<unknown>",
          "params": [
            {
              "name": "ids",
              "schema": {
                "type": [
                  "string",
                  "number"
                ]
              },
              "optional": true,
              "description": "",
              "rest": true
            }
          ],
          "result": true
        }
        "#);
    }
}
