//! What is said of a name that a backend does not have by what is known of it so far.

mod support;

use serde_json::{Value, json};
use support::Catalog;
use toolgate_plan::{ArgumentFault, Call, FindingCode, Parameters, Preflight, Tools, preflight, preflight_call};

/// The catalog of the tests, none of whose backends is up.
struct NotUp;

impl Tools for NotUp {
    fn global(&self, name: &str) -> Option<String> {
        Catalog.global(name)
    }

    fn backend(&self, name: &str) -> Option<String> {
        Catalog.backend(name)
    }

    fn tool(&self, backend: &str, name: &str) -> Option<String> {
        Catalog.tool(backend, name)
    }

    fn backends(&self) -> Vec<String> {
        Catalog.backends()
    }

    fn tools(&self, backend: &str) -> Vec<String> {
        Catalog.tools(backend)
    }

    fn parameters(&self, backend: &str, tool: &str) -> Option<Parameters> {
        Catalog.parameters(backend, tool)
    }

    fn check_arguments(&self, backend: &str, tool: &str, arguments: &Value) -> Vec<ArgumentFault> {
        Catalog.check_arguments(backend, tool, arguments)
    }

    fn unready(&self, backend: &str) -> Option<String> {
        Some(format!("{backend} is not up"))
    }
}

/// The only finding is a warning with this suggestion.
#[track_caller]
fn check(found: &Preflight, suggestion: &str) {
    let [warning] = found.warnings.as_slice() else { panic!("{found:?}") };
    assert_eq!((found.errors.len(), warning.code), (0, FindingCode::NotReady), "{found:?}");
    assert_eq!((warning.message.as_str(), warning.suggestion.as_deref()), ("exa is not up", Some(suggestion)));
}

#[test]
fn a_name_that_is_not_known_of_a_backend_that_is_not_up_has_the_nearest_one_beside_it() {
    let meant = "Did you mean `web_search`?";
    check(&preflight("await exa.web_serch({})", &NotUp).expect("a program"), meant);
    check(&preflight(r#"{"tool": "exa.web_serch", "arguments": {}}"#, &NotUp).expect("a call"), meant);
    let call = Call { backend: "exa".to_owned(), tool: "web_serch".to_owned(), arguments: json!({}) };
    check(&preflight_call(&call, &NotUp), meant);
}
