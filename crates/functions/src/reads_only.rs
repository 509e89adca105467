//! Which calls of a function are known to change nothing.
//!
//! Asked for every call before its arguments are counted, with up to 16 MB of them. So most functions answer without a look
//! at the arguments, and the HTTP functions read one member in place: a tree takes up to forty times the bytes of its text.

use std::sync::Arc;

use serde_json::Value;
use toolgate_json as json;

use super::http::is_safe;

/// The longest method that is read: the longest safe one with every letter escaped has 44 bytes.
const MAX_METHOD_BYTES: usize = 64;

/// Which calls of a function are known to change nothing.
#[derive(Clone, Default)]
pub(super) enum ReadsOnly {
    /// None.
    #[default]
    Never,
    /// All of them.
    Always,
    /// All of them while this holds.
    While(Arc<dyn Fn() -> bool + Send + Sync>),
    /// Those whose argument at this index has a `method` that HTTP calls safe, or none.
    ByMethodOf(usize),
}

impl ReadsOnly {
    /// Whether a call with these arguments (the JSON text of a list) is such a call.
    pub(super) fn holds_for_text(&self, args: &str) -> bool {
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::While(holds) => holds(),
            Self::ByMethodOf(at) => is_safe_in_text(args, *at),
        }
    }

    /// The same for a list that is a tree already.
    pub(super) fn holds_for_tree(&self, args: &Value) -> bool {
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::While(holds) => holds(),
            Self::ByMethodOf(at) => is_safe_in_tree(args, *at),
        }
    }
}

fn is_safe_in_text(args: &str, at: usize) -> bool {
    let args = json::check(args).map(|_| json::Value::of(args)).filter(|args| args.shape() == json::Shape::Array);
    let Some(args) = args else { return false };
    match args.element(at).and_then(|init| init.member("method")) {
        None => is_safe(None),
        Some(method) if method.text() == "null" => is_safe(None),
        Some(method) if method.shape() == json::Shape::String && method.len() <= MAX_METHOD_BYTES => {
            is_safe(Some(&json::unquote(method.text())))
        }
        Some(_) => false,
    }
}

fn is_safe_in_tree(args: &Value, at: usize) -> bool {
    let Value::Array(args) = args else { return false };
    match args.get(at).and_then(|init| init.get("method")) {
        None | Some(Value::Null) => is_safe(None),
        Some(method) => method.as_str().is_some_and(|method| is_safe(Some(method))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &str, expected: bool) {
        let reads_only = ReadsOnly::ByMethodOf(1);
        assert_eq!(reads_only.holds_for_text(args), expected, "{args}");
        if let Ok(tree) = serde_json::from_str(args) {
            assert_eq!(reads_only.holds_for_tree(&tree), expected, "{args} as a tree");
        }
    }

    #[test]
    fn a_safe_method_is_found_in_text_and_in_a_tree() {
        for args in ["[]", "[1]", "[1, null]", "[1, 2]", "[1, [2]]", "[1, {}]", r#"[1, {"method": null}]"#] {
            check(args, true);
        }
        check(r#" [ "u" , { "body" : { "method" : "POST" } , "method" : "head" } ] "#, true);
        check(r#"[1, {"method": "\u004f\u0050\u0054\u0049\u004f\u004e\u0053"}]"#, true);
        check(r#"[1, {"m\u0065thod": "POST"}]"#, false);
        check(r#"[1, {"method": "GET", "method": "POST"}]"#, false);
        check(r#"[1, {"method": 1}]"#, false);
        check(r#"[1, {"method": {"method": "GET"}}]"#, false);
        check(&format!(r#"[1, {{"method": "{}"}}]"#, "GET".repeat(100)), false);
    }

    #[test]
    fn what_is_no_list_is_not_known_to_read() {
        for args in ["", "{}", r#"{"method": "GET"}"#, "[1, {\"method\": \"GET\"}", "[1,", "null"] {
            check(args, false);
        }
    }

    #[test]
    fn other_functions_do_not_look_at_arguments() {
        let no_json = "[[[";
        assert!(ReadsOnly::Always.holds_for_text(no_json) && !ReadsOnly::Never.holds_for_text(no_json));
        assert!(ReadsOnly::While(Arc::new(|| true)).holds_for_text(no_json));
        assert!(!ReadsOnly::While(Arc::new(|| false)).holds_for_text(no_json));
    }
}
