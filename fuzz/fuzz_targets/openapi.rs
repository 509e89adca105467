//! OpenAPI documents, JSON or YAML: any bytes are an API or a refusal within the time of an input, and requests go to the base.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};
use toolgate_openapi::{Api, ApiSettings};
use url::Url;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(base) = Url::parse("https://api.example.com/v1/") else { return };
    let Ok(api) = Api::load(text, ApiSettings::new(base.clone())) else { return };
    assert!(!api.operations().is_empty(), "an API has a tool");
    for operation in api.operations() {
        assert!(!operation.name.is_empty());
        // Values of an `enum` may be nested deeper than a parser reads.
        if let Ok(tool) = serde_json::from_str::<Value>(operation.tool.get()) {
            assert_eq!(tool.pointer("/inputSchema/type"), Some(&Value::from("object")), "{tool}");
        }
        if let Ok(request) = api.request(&operation.name, &Map::new()) {
            assert_eq!(request.url.origin(), base.origin());
        }
    }
});
