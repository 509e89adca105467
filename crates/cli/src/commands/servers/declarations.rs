//! The `.d.ts` file of `toolgate types`: tools, host functions and the globals of a program.

use std::collections::BTreeMap;

use toolgate_catalog::types::learned::LearnedTypes;
use toolgate_catalog::{Catalog, types};
use toolgate_functions::{HostFunction, Registry, docs};

/// What every program has. `Console` merges with the declarations of other libraries.
const HEAD: &str = "\
// What programs find when Toolgate runs them. Written by `toolgate types`.
//
// A program that an editor checks is a module with a default export, in which `return` is no error:
//
//   export default async () => {
//     return await backend.tool({});
//   };
//
// `toolgate run` takes it as it takes the body alone.

/** Data that was given to the run, by --context or by the caller. */
declare const context: any;

interface Console {
  log(...data: any[]): void;
  info(...data: any[]): void;
  warn(...data: any[]): void;
  error(...data: any[]): void;
  debug(...data: any[]): void;
}
declare var console: Console;

";

/// The text of the file.
pub(super) fn file(catalog: &Catalog, functions: &Registry, learned: &LearnedTypes) -> String {
    let mut text = HEAD.to_owned();
    text.push_str(&types::declaration_with(catalog, learned));
    let is_taken = |name: &str| catalog.backends().iter().any(|backend| backend.identifier() == name);
    let mut groups: BTreeMap<&str, Vec<&HostFunction>> = BTreeMap::new();
    for function in functions.iter() {
        let name = function.name().as_str();
        groups.entry(name.split_once('.').map_or("", |(group, _)| group)).or_default().push(function);
    }
    for (group, members) in groups.into_iter().filter(|(group, _)| !is_taken(group)) {
        match group {
            "" => members.into_iter().filter(|function| !is_taken(function.name().as_str())).for_each(|function| {
                text.push_str(&format!("\n{}declare function {};\n", comment("", function), docs::signature(function)));
            }),
            group => {
                text.push_str(&format!("\ndeclare namespace {group} {{\n"));
                for function in members {
                    let signature = docs::signature(function);
                    let member = signature.split_once('.').map_or(signature.as_str(), |(_, member)| member);
                    text.push_str(&format!("{}  function {member};\n", comment("  ", function)));
                }
                text.push_str("}\n");
            }
        }
    }
    text
}

fn comment(indent: &str, function: &HostFunction) -> String {
    let words: Vec<&str> = function.description().split_whitespace().collect();
    if words.is_empty() { String::new() } else { format!("{indent}/** {} */\n", words.join(" ").replace("*/", "* /")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn function(name: &str) -> HostFunction {
        let built = HostFunction::builder(name).describe("Does */ it").required("a", json!({"type": "string"}), "");
        built.handle(|_, _| async { Ok(json!(1)) }).expect("a function")
    }

    #[test]
    fn host_functions_are_declared_also_those_with_a_dot() {
        let mut functions = Registry::new();
        for name in ["plain", "api.one", "api.two"] {
            functions.insert(function(name));
        }
        let text = file(&Catalog::default(), &functions, &LearnedTypes::default());
        let declared = text.split_once("declare var console").expect("the console").1;
        assert!(declared.contains("\n/** Does * / it */\ndeclare function plain(a: string): Promise<"), "{declared}");
        assert!(
            declared.contains("\ndeclare namespace api {\n  /** Does * / it */\n  function one(a: string)"),
            "{declared}"
        );
        assert!(text.contains("declare const context: any;"), "{text}");
    }
}
