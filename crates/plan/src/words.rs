//! Words with a meaning of their own in a program, which cannot be names of backends, tools or functions.
//!
//! The lists are sorted for binary search; a test checks the order.

/// Whether a word cannot be an identifier.
pub fn is_reserved(word: &str) -> bool {
    RESERVED_WORDS.binary_search(&word).is_ok()
}

/// Whether a reserved word is only syntax: there is no global of this name, so `globalThis.delete` is free.
pub fn is_keyword(word: &str) -> bool {
    is_reserved(word) && !matches!(word, "Infinity" | "NaN" | "arguments" | "eval" | "undefined")
}

/// Whether JavaScript itself reads a property of this name.
pub fn is_object_member(word: &str) -> bool {
    OBJECT_MEMBERS.binary_search(&word).is_ok()
}

/// Whether JavaScript itself calls a method of this name on any object that has one. A tool of this name must not be one: `await`
/// of its backend would call it.
pub fn is_called_implicitly(word: &str) -> bool {
    CALLED_MEMBERS.binary_search(&word).is_ok()
}

/// Whether a global variable of this name belongs to the language or to the sandbox.
pub fn is_sandbox_global(word: &str) -> bool {
    SANDBOX_GLOBALS.binary_search(&word).is_ok()
}

/// Reserved words of strict-mode JavaScript, modules and async functions, and literals that look like names.
pub const RESERVED_WORDS: &[&str] = &[
    "Infinity",
    "NaN",
    "arguments",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "eval",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "let",
    "new",
    "null",
    "package",
    "private",
    "protected",
    "public",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// Properties that JavaScript itself reads on any object: `await x` calls `x.then`, a conversion calls `x.valueOf`.
pub const OBJECT_MEMBERS: &[&str] = &[
    "__defineGetter__",
    "__defineSetter__",
    "__lookupGetter__",
    "__lookupSetter__",
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "prototype",
    "then",
    "toJSON",
    "toLocaleString",
    "toString",
    "valueOf",
];

/// The [`OBJECT_MEMBERS`] that JavaScript itself calls: for `await`, `JSON.stringify` and conversions.
pub const CALLED_MEMBERS: &[&str] = &["then", "toJSON", "toLocaleString", "toString", "valueOf"];

/// Globals of the sandbox, and globals of other runtimes for which there is a hint.
pub const SANDBOX_GLOBALS: &[&str] = &[
    "AbortController",
    "AbortSignal",
    "AggregateError",
    "Array",
    "ArrayBuffer",
    "AsyncFunction",
    "Atomics",
    "BigInt",
    "BigInt64Array",
    "BigUint64Array",
    "Boolean",
    "Buffer",
    "DOMException",
    "DataView",
    "Date",
    "Deno",
    "Error",
    "EvalError",
    "Event",
    "EventTarget",
    "FinalizationRegistry",
    "Float16Array",
    "Float32Array",
    "Float64Array",
    "Function",
    "Headers",
    "Int16Array",
    "Int32Array",
    "Int8Array",
    "InternalError",
    "Intl",
    "Iterator",
    "JSON",
    "Map",
    "Math",
    "Number",
    "Object",
    "Promise",
    "Proxy",
    "RangeError",
    "ReferenceError",
    "Reflect",
    "RegExp",
    "Request",
    "Response",
    "Set",
    "SharedArrayBuffer",
    "String",
    "Symbol",
    "SyntaxError",
    "TextDecoder",
    "TextEncoder",
    "ToolError",
    "TypeError",
    "URIError",
    "URL",
    "URLSearchParams",
    "Uint16Array",
    "Uint32Array",
    "Uint8Array",
    "Uint8ClampedArray",
    "WeakMap",
    "WeakRef",
    "WeakSet",
    "WebAssembly",
    "Worker",
    "XMLHttpRequest",
    "__backends",
    "__getToolInterface",
    "__interfaces",
    "api",
    "atob",
    "btoa",
    "clearInterval",
    "clearTimeout",
    "console",
    "context",
    "crypto",
    "decodeURI",
    "decodeURIComponent",
    "encodeURI",
    "encodeURIComponent",
    "escape",
    "exports",
    "fetch",
    "global",
    "globalThis",
    "isFinite",
    "isNaN",
    "navigator",
    "parseFloat",
    "parseInt",
    "performance",
    "process",
    "queueMicrotask",
    "require",
    "self",
    "setImmediate",
    "setInterval",
    "setTimeout",
    "sleep",
    "structuredClone",
    "tools",
    "unescape",
    "window",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_is_sorted_and_has_each_word_once() {
        for words in [RESERVED_WORDS, OBJECT_MEMBERS, CALLED_MEMBERS, SANDBOX_GLOBALS] {
            assert!(words.is_sorted_by(|a, b| a < b));
        }
    }

    #[test]
    fn what_javascript_calls_it_also_reads() {
        assert!(CALLED_MEMBERS.iter().all(|word| is_object_member(word)));
    }
}
